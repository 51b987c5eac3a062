package collect

import (
	"fmt"
	"time"

	"cvs/collect/remote"
)

// lease is how long server and client go on without a sign from the launcher:
// long enough for a short loss of the network, short enough that a lost launcher
// does not keep the GPUs busy. Whoever waits for them renews it.
const lease = 30 * time.Second

// launchScript is what a job runs: log, file to source ("" for none), then the
// program. The job's own files are for its owner only; logs and results are for
// everyone who may see the log folder.
const launchScript = `umask 022; exec >"$1" 2>&1; [ -z "$2" ] || . "$2" || exit 126; shift 2; exec "$@"`

// An exit is how a job ended. Code is nil when no status was left behind.
type exit struct {
	Code  *int
	lease bool
}

func exitOf(s remote.JobState) exit {
	if s.Phase != remote.JobExited {
		return exit{}
	}
	return exit{Code: &s.ExitCode, lease: s.LeaseExpired}
}

func (e exit) String() string {
	switch {
	case e.Code == nil:
		return "gone without an exit status (killed)"
	case e.lease:
		return fmt.Sprintf("exit status %d (nobody renewed its lease)", *e.Code)
	case *e.Code > 128:
		return fmt.Sprintf("exit status %d (signal %d)", *e.Code, *e.Code-128)
	}
	return fmt.Sprintf("exit status %d", *e.Code)
}
