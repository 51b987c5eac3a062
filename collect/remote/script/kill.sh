# Arguments: folder, seconds between TERM and KILL.
d=$1
[ -e "$d/pid" ] || exit 0
read -r p m t <"$d/pid"
if ! end_job TERM "$2" && ! end_job KILL 10; then
	printf 'still running: %s\n' "$(members)" >&2
	exit 48
fi
# The supervisor notes how it ended.
exec 8<>"$d/alive" 7<"$d/alive" 8>&-
timeout 5 cat <&7 >/dev/null
exit 0
