# Arguments: folder of a job that has ended. Only what is the job's goes.
d=$1
[ -d "$d" ] || exit 0
rm -f -- "$d/alive" "$d/pid" "$d/pid.new" "$d/status" "$d/status.new" "$d/why" "$d/err" "$d/log"
rmdir -- "$d"
