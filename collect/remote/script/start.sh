# Arguments: the supervisor's text, then its arguments from the folder on.
umask 077
sup=$1 d=$2
shift
mkdir -p "$d" || exit 1
# The first to make the pipe is the one that starts the job.
mkfifo "$d/alive" || exit 47
[ -z "$3" ] || printf '%s\n' "$(date +%s%N).$$" >"$3" || exit 1
if command -v setsid >/dev/null; then
	set -- setsid sh -c "$sup" job s "$@"
elif command -v bash >/dev/null; then
	set -- bash -c "$sup" job g "$@"
else
	echo "neither setsid nor bash on this machine" >&2
	exit 1
fi
# Ends when the supervisor closes fd 3: with the job's number, or without.
p=$("$@" 3>&1 >/dev/null 2>"$d/err" </dev/null &)
if [ -z "$p" ]; then
	cat "$d/err" >&2
	exit 1
fi
printf '%s\n' "$p"
