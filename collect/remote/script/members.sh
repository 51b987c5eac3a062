# Sets of the job: p its first process, m how it was set apart (s: session,
# g: process group), t when p started, in ticks since boot.

# stat_of PID prints the fields of /proc/PID/stat after the name, which may hold
# anything: state ppid pgrp session …, the 20th being the start time.
stat_of() {
	IFS= read -r l <"/proc/$1/stat" && printf '%s\n' "${l##*) }"
} 2>/dev/null

started_at() {
	set -- $(stat_of "$1")
	printf '%s\n' "${20:-}"
}

# members prints the processes of the job that are not zombies. If the number of
# the first one belongs to another process by now, the job is gone.
members() {
	x=$(started_at "$p")
	[ -z "$x" ] || [ "$x" = "$t" ] || return 0
	for f in /proc/[0-9]*/stat; do
		IFS= read -r l <"$f" || continue
		q=${f#/proc/} q=${q%/stat}
		set -- ${l##*) }
		case $1 in Z | X) continue ;; esac
		case $m in s) g=$4 ;; *) g=$3 ;; esac
		[ "$g" = "$p" ] || [ "$q" = "$p" ] || continue
		printf '%s ' "$q"
	done
} 2>/dev/null

# pause waits a fifth of a second, or a whole one where sleep knows no fractions.
pause() { sleep 0.2 2>/dev/null || sleep 1; }

# end_job SIGNAL SECONDS signals every process of the job until none is left or
# the time is over; then it fails.
end_job() {
	n=$(($2 * 5))
	while k=$(members) && [ -n "$k" ]; do
		[ "$n" -gt 0 ] || return 1
		# TERM once: a second one makes some servers skip their clean-up.
		if [ "$1" = KILL ] || [ "$n" -eq $(($2 * 5)) ]; then
			kill -s "$1" $k 2>/dev/null
		fi
		n=$((n - 1))
		pause
	done
	return 0
}
