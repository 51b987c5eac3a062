package remote

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
)

// The scripts need sh, coreutils and /proc; setsid where there is no bash.
var (
	//go:embed script/members.sh
	membersScript string
	//go:embed script/supervise.sh
	superviseScript string
	//go:embed script/start.sh
	startScript string
	//go:embed script/wait.sh
	waitScript string
	//go:embed script/kill.sh
	killScript string
	//go:embed script/clean.sh
	cleanScript string
)

// The exit statuses of the scripts.
const (
	exitStarted = ExitJobStarted
	exitLeft    = 48 // processes of the job survived KILL
)

// A Job is a program that runs on a machine by itself: in a session of its own,
// reading nothing, writing to a log, with its ids and exit status on record. It
// outlives the connection that started it. Under a lease it ends when nobody
// renews that for as long: a launcher that died leaves nothing running, while a
// short loss of the network does no harm.
//
// The methods that end in Args only build argument lists, for a dry run to show;
// the others run them.
type Job struct {
	// Dir is the job's own folder on the machine, absolute; it is made. It holds
	// log, pid and status. One folder serves one start.
	Dir string
	// Prefix comes before every command, for example sudo -n docker exec -i
	// NAME: folder, lease and processes are then those of the container.
	Prefix []string
	// Args, Env and WorkDir are as in Command.
	Args    []string
	Env     []string
	WorkDir string
	// Lease is how long the job goes on without a renewal, rounded up to
	// seconds; 0 is for ever. Several jobs may share a LeaseFile; "" is one in
	// Dir's parent folder named after Dir.
	Lease     time.Duration
	LeaseFile string
}

// A Runner runs one command; Host is one.
type Runner interface {
	Run(ctx context.Context, c Command) (Result, error)
}

// A JobPhase says how far a job is.
type JobPhase string

// The phases of a job.
const (
	JobNone    JobPhase = "none"    // never started here
	JobRunning JobPhase = "running" //
	JobExited  JobPhase = "exited"  // ExitCode is known
	JobLost    JobPhase = "lost"    // its supervisor was killed: nobody saw it end, parts may still run
)

// A JobState is what is known about a job.
type JobState struct {
	Phase    JobPhase
	ExitCode int // 128 plus its number for a signal; only with JobExited
	// LeaseExpired: it was ended because nobody renewed its lease.
	LeaseExpired bool
}

// ExitJobStarted is the exit status of StartArgs where a job was started in the
// same folder before.
const ExitJobStarted = 47

// ErrJobStarted reports that a job was started in the same folder before.
var ErrJobStarted = errors.New("a job was started in this folder before")

// LogFile is the file on the machine with both outputs of the job.
func (j Job) LogFile() string { return path.Join(j.Dir, "log") }

func (j Job) leaseFile() string {
	switch {
	case j.Lease <= 0:
		return ""
	case j.LeaseFile != "":
		return j.LeaseFile
	}
	return path.Clean(j.Dir) + ".lease"
}

// leaseTicks splits the lease into looks at the lease file.
func (j Job) leaseTicks() (seconds, looks int) {
	lease := int(math.Ceil(j.Lease.Seconds()))
	seconds = max(1, lease/6)
	return seconds, max(1, (lease+seconds-1)/seconds)
}

func (j Job) script(text string, args ...string) []string {
	argv := append([]string{}, j.Prefix...)
	return append(append(argv, "sh", "-c", text, "job"), args...)
}

// StartArgs is the command that starts the job and returns at once, printing the
// job's process id.
func (j Job) StartArgs() []string {
	seconds, looks := j.leaseTicks()
	dir := j.WorkDir
	if dir != "" {
		dir = absOrDot(dir)
	}
	args := []string{
		membersScript + superviseScript, j.Dir, dir, j.leaseFile(),
		strconv.Itoa(seconds), strconv.Itoa(looks),
	}
	return j.script(startScript, append(args, Command{Args: j.Args, Env: j.Env}.argv()...)...)
}

// WaitArgs is the command that renews the lease, waits until the job has ended,
// but no longer than limit, and prints its state.
func (j Job) WaitArgs(limit time.Duration) []string {
	seconds := max(limit.Seconds(), 0.05) // to timeout, 0 is for ever
	return j.script(waitScript, j.Dir, strconv.FormatFloat(seconds, 'f', -1, 64), j.leaseFile())
}

// KillArgs is the command that ends every process of the job by id: TERM, after
// the grace period KILL, until none is left. It does so for what an ended job
// left behind, too.
func (j Job) KillArgs(grace time.Duration) []string {
	return j.script(membersScript+killScript, j.Dir, strconv.Itoa(int(math.Ceil(grace.Seconds()))))
}

// RenewArgs is the command that renews the lease, for the times when nobody
// waits.
func (j Job) RenewArgs() []string {
	return j.script(`printf '%s\n' "$(date +%s%N).$$" >"$1"`, j.leaseFile())
}

// CleanArgs is the command that removes the job's folder, log included.
func (j Job) CleanArgs() []string { return j.script(cleanScript, j.Dir) }

// check refuses what the scripts could not carry.
func (j Job) check() error {
	switch {
	case !strings.HasPrefix(j.Dir, "/"):
		return fmt.Errorf("job folder %q is not absolute", j.Dir)
	case j.LeaseFile != "" && !strings.HasPrefix(j.LeaseFile, "/"):
		return fmt.Errorf("lease file %q is not absolute", j.LeaseFile)
	}
	_, err := Command{Args: j.Args, Env: j.Env, Dir: j.WorkDir}.Line()
	return err
}

// run runs one of the scripts. A script that could not do its work is an error.
func (j Job) run(ctx context.Context, r Runner, what string, args []string, limit time.Duration) (string, int, error) {
	res, err := r.Run(ctx, Command{Args: args, Name: what + " job " + path.Base(j.Dir), Timeout: limit, MaxOutput: 64 << 10})
	if err != nil {
		return "", 0, err
	}
	if res.ExitCode != 0 {
		err = fmt.Errorf("%s job %s: status %d: %s", what, j.Dir, res.ExitCode, lastLine(res.Stderr))
	}
	return strings.TrimSpace(string(res.Stdout)), res.ExitCode, err
}

// jobTimeout bounds the commands that start and renew, which do not wait.
const jobTimeout = time.Minute

// Start starts the job and returns its process id. A program that cannot be
// found is a job that exits with 127 and says so in its log.
func (j Job) Start(ctx context.Context, r Runner) (pid int, err error) {
	if err := j.check(); err != nil {
		return 0, fmt.Errorf("start job: %w", err)
	}
	out, code, err := j.run(ctx, r, "start", j.StartArgs(), jobTimeout)
	if code == exitStarted {
		return 0, fmt.Errorf("start job %s: %w", j.Dir, ErrJobStarted)
	}
	if err != nil {
		return 0, err
	}
	if pid, err = strconv.Atoi(out); err != nil {
		return 0, fmt.Errorf("start job %s: answer %q is not a process id", j.Dir, out)
	}
	return pid, nil
}

// Poll reports the job's state now, and renews its lease.
func (j Job) Poll(ctx context.Context, r Runner) (JobState, error) {
	return j.wait(ctx, r, 0)
}

// Wait waits until the job has ended and renews its lease meanwhile. It asks
// the machine to wait, in pieces: short enough to renew the lease in time and
// to notice a machine that is gone. After an error the job may still be running
// and can be waited for over a new connection.
func (j Job) Wait(ctx context.Context, r Runner) (JobState, error) {
	piece := 20 * time.Second
	if j.Lease > 0 {
		piece = min(piece, max(j.Lease/3, time.Second))
	}
	for {
		s, err := j.wait(ctx, r, piece)
		if err != nil || s.Phase != JobRunning {
			return s, err
		}
	}
}

func (j Job) wait(ctx context.Context, r Runner, limit time.Duration) (JobState, error) {
	out, _, err := j.run(ctx, r, "wait for", j.WaitArgs(limit), limit+jobTimeout)
	if err != nil {
		return JobState{}, err
	}
	return parseState(out)
}

// parseState reads what wait.sh prints.
func parseState(out string) (JobState, error) {
	f := strings.Fields(out)
	switch {
	case len(f) == 1 && (f[0] == string(JobNone) || f[0] == string(JobRunning) || f[0] == string(JobLost)):
		return JobState{Phase: JobPhase(f[0])}, nil
	case (len(f) == 2 || len(f) == 3 && f[2] == "lease") && f[0] == string(JobExited):
		if code, err := strconv.Atoi(f[1]); err == nil && code >= 0 && code <= 255 {
			return JobState{Phase: JobExited, ExitCode: code, LeaseExpired: len(f) == 3}, nil
		}
	}
	return JobState{}, fmt.Errorf("state of a job: %q is none", out)
}

// Renew renews the lease. A job without one has nothing to renew.
func (j Job) Renew(ctx context.Context, r Runner) error {
	if j.leaseFile() == "" {
		return nil
	}
	_, _, err := j.run(ctx, r, "renew", j.RenewArgs(), jobTimeout)
	return err
}

// Kill ends the job and everything it left behind. A job that was never started
// is none to end. The error names the processes that survived KILL.
func (j Job) Kill(ctx context.Context, r Runner, grace time.Duration) error {
	_, _, err := j.run(ctx, r, "kill", j.KillArgs(grace), grace+jobTimeout)
	return err
}

// Clean removes the job's folder. End the job first.
func (j Job) Clean(ctx context.Context, r Runner) error {
	_, _, err := j.run(ctx, r, "clean up", j.CleanArgs(), jobTimeout)
	return err
}
