# Arguments: the keeper's folder, the work folder in the container, its name, then
# how docker is called.
d=$1 w=$2 n=$3
shift 3
# By its id: a later container may have the name.
id=$("$@" inspect --type container --format '{{.Id}}' "$n") || exit
s=
end() {
	trap '' TERM
	[ -z "$s" ] || kill "$s" 2>/dev/null
	if [ -e "$d/job/why" ]; then # nobody renewed the lease
		# In a session of its own: the supervisor ends this one after ten seconds.
		command -v setsid >/dev/null && set -- setsid sh -c "$gone" sh "$d" "$w" "$id" "$@" || set -- sh -c "$gone" sh "$d" "$w" "$id" "$@"
		"$@" </dev/null >/dev/null 2>&1 &
	fi
	exit
}
# The work folder by itself: it may lie on a volume.
gone='d=$1 w=$2 id=$3; shift 3
"$@" exec "$id" sh -c "rm -rf -- \"\$1\" || rm -rf -- \"\$1\"" sh "$w"; "$@" rm -f "$id"; i=0
while [ -d "$d/job" ] && [ ! -e "$d/job/status" ] && [ "$i" -lt 60 ]; do sleep 1; i=$((i+1)); done; rm -rf -- "$d"'
trap 'end "$@"' TERM
while :; do
	sleep 3600 &
	s=$!
	wait "$s"
done
