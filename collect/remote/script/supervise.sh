# Arguments: how to set the job apart (see members), folder, working folder, lease file ("" for none), seconds between
# two looks at it, looks without a change that end the job, command and
# arguments. Fd 3 tells the starter that all is set up. Fd 9 is held as long as
# this process lives; that is how others wait for it.
m=$1 d=$2 w=$3 lease=$4 tick=$5 limit=$6
shift 6
exec 9<>"$d/alive"
trap '' HUP
[ -z "$w" ] || cd "$w" || exit 1
if [ "$m" = s ]; then
	setsid "$@" </dev/null >"$d/log" 2>&1 3>&- 9>&- &
else
	set -m # bash: a background job gets a process group of its own
	"$@" </dev/null >"$d/log" 2>&1 3>&- 9>&- &
	set +m
fi
p=$!
t=$(started_at "$p")
printf '%s %s %s\n' "$p" "$m" "$t" >"$d/pid.new" && mv "$d/pid.new" "$d/pid" || {
	kill -s KILL "$p"
	exit 1
}
printf '%s\n' "$p" >&3
exec 3>&-
watch=
if [ -n "$lease" ]; then
	(
		exec 9>&-
		# By $!, because TERM may come before anything could be made of it; before
		# the first sleep it is the job itself, which has ended. And KILL, because
		# a child that is not yet sleep may still have our trap, and lose the signal.
		trap '[ "$!" = "$p" ] || { kill -s KILL "$!"; wait "$!"; }; exit' TERM
		old= missed=0
		while :; do
			sleep "$tick" &
			wait "$!"
			new=
			IFS= read -r new <"$lease"
			if [ "$new" = "$old" ]; then missed=$((missed + 1)); else missed=0 old=$new; fi
			[ "$missed" -lt "$limit" ] || break
		done
		printf 'lease\n' >"$d/why"
		end_job TERM 10 || end_job KILL 10
	) 2>/dev/null &
	watch=$!
fi
wait "$p"
rc=$?
why=
[ ! -e "$d/why" ] || IFS= read -r why <"$d/why"
# A job killed for its lease leaves only when all of its processes are gone.
if [ -n "$why" ]; then wait "$watch"; elif [ -n "$watch" ]; then
	kill "$watch"
	wait "$watch" # nothing of ours outlives the job
fi
printf '%s %s\n' "$rc" "$why" >"$d/status.new" && mv "$d/status.new" "$d/status"
