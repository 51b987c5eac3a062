package collect

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A job is a program that runs detached from the connection that started it, in
// a session of its own. Its state lies in a folder: pid (also its session id and
// process group) and, once it ended, exit. Both appear whole or not at all.
//
// The scripts are POSIX sh and take everything as arguments, so no configured
// text is ever part of a script.

// jobStart: folder, log, file to source ("" for none), then the program. Prints
// the process id. TERM is caught, not ignored, by the process that waits for the
// program: an ignored signal would be inherited by it.
const jobStart = `d=$1 log=$2 env=$3; shift 3
(umask 077; mkdir -p -- "$d") && rm -f -- "$d/pid" "$d/exit" || exit 74
setsid sh -c 'd=$1 env=$2; shift 2; trap : TERM INT HUP
printf "%s\n" "$$" >"$d/pid.new" && mv -- "$d/pid.new" "$d/pid"
( [ -z "$env" ] || . "$env" || exit 126; exec "$@" )
rc=$?; printf "%s\n" "$rc" >"$d/exit.new" && mv -- "$d/exit.new" "$d/exit"' sh "$d" "$env" "$@" </dev/null >"$log" 2>&1 &
n=0; until [ -s "$d/pid" ]; do n=$((n+1)); [ "$n" -le 500 ] || exit 75; sleep 0.02; done
cat -- "$d/pid"`

// procs lists the living members of a session. A zombie is not alive: nobody may
// be there to reap it, since a container's first process often only sleeps.
const procs = `members() { for f in /proc/[0-9]*/stat; do
{ IFS= read -r l <"$f"; } 2>/dev/null || continue
p=${l%% *}; l=${l##*) }; set -- $l
[ "$4" = "$sid" ] && [ "$1" != Z ] && [ "$1" != X ] && printf "%s\n" "$p"
done; }
`

// jobWait: folder. Blocks until the program ended and prints its exit status, or
// "lost" when it is gone without one (killed together with its keeper).
const jobWait = `d=$1; sid=$(cat -- "$d/pid") || exit 74
gone() { { IFS= read -r l <"/proc/$sid/stat"; } 2>/dev/null || return 0; l=${l##*) }; case $l in Z*|X*) return 0;; esac; return 1; }
until [ -e "$d/exit" ]; do
if gone; then sleep 0.05; [ -e "$d/exit" ] && break; echo lost; exit 0; fi
sleep 0.1; done
cat -- "$d/exit"`

// jobStop: folder, grace in tenths of a second. TERM to the whole session, then
// KILL; prints "stopped" or "alive". A job that never started is stopped.
const jobStop = procs + `d=$1 n=$2; [ -s "$d/pid" ] || { echo stopped; exit 0; }
sid=$(cat -- "$d/pid")
for s in TERM KILL; do
m=$(members); [ -n "$m" ] || break
kill -s "$s" $m 2>/dev/null
i=0; while [ -n "$(members)" ]; do [ "$i" -lt "$n" ] || break; i=$((i+1)); sleep 0.1; done
done
[ -z "$(members)" ] && echo stopped || echo alive`

func jobStartArgs(dir, log, envFile string, argv ...string) []string {
	return append([]string{"sh", "-c", jobStart, "sh", dir, log, envFile}, argv...)
}

func jobWaitArgs(dir string) []string { return []string{"sh", "-c", jobWait, "sh", dir} }

func jobStopArgs(dir string, grace time.Duration) []string {
	return []string{"sh", "-c", jobStop, "sh", dir, strconv.Itoa(int(grace / (100 * time.Millisecond)))}
}

// An exit is how a job ended. Code is nil when no status was left behind.
type exit struct{ Code *int }

func (e exit) String() string {
	switch {
	case e.Code == nil:
		return "gone without an exit status (killed)"
	case *e.Code > 128:
		return fmt.Sprintf("exit status %d (signal %d)", *e.Code, *e.Code-128)
	}
	return fmt.Sprintf("exit status %d", *e.Code)
}

// parseWait reads the answer to jobWait.
func parseWait(res Result) (exit, error) {
	text := strings.TrimSpace(string(res.Stdout))
	if res.ExitCode != 0 {
		return exit{}, fmt.Errorf("waiting for the process: exit status %d: %s", res.ExitCode, tailText(res.Stderr, 500))
	}
	if text == "lost" {
		return exit{}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return exit{}, fmt.Errorf("waiting for the process: unexpected answer %q", clip(text, 80))
	}
	return exit{Code: &n}, nil
}
