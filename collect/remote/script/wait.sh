# Arguments: folder, seconds, lease file ("" for none). Prints what is known
# when the job has ended or the time is over.
d=$1
[ -z "$3" ] || printf '%s\n' "$(date +%s%N).$$" >"$3"
if [ ! -p "$d/alive" ]; then
	echo none
	exit
fi
# Opening for both never blocks; with it open, nor does opening to read. Reading
# then ends when the supervisor, the only writer, is gone.
exec 8<>"$d/alive" 7<"$d/alive" 8>&-
timeout "$2" cat <&7 >/dev/null
rc=$?
if [ -e "$d/status" ]; then
	IFS= read -r s <"$d/status"
	printf 'exited %s\n' "$s"
elif [ "$rc" = 124 ]; then
	echo running
elif [ "$rc" = 0 ]; then
	echo lost
else
	exit 1
fi
