package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/container"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

const (
	defaultTeardown = 2 * time.Minute
	defaultGrace    = 20 * time.Second
)

// A run is one execution of a Runner: the state that its stages share.
type run struct {
	*state
	r    *Runner
	p    *plan.Plan
	cmds *commands
}

type state struct {
	node    Node
	http    *http.Client
	release func() // gives up the node's lock

	lost      error // the connection failed; nothing more can be learned from it
	launched  bool  // docker run was sent: a container may be ours
	workMade  bool  // the work folder may exist
	image     string
	server    *server
	sessions  int
	restarts  int
	clientJob string // of a client that may be running

	failures    []string // one line each, for the run's reason
	consecutive int
	abort       string // why the remaining cells are skipped

	mu       sync.Mutex // guards the fields below
	warnings []string
}

// Run carries out the plan. It always tears down what it started and closes the
// store, also when ctx is cancelled. The error is nil when everything that this
// version can do was done, wraps ErrRun or ErrInput when something failed, and
// context.Canceled when the run was interrupted; what was measured is kept in
// every case.
func (r *Runner) Run(ctx context.Context) (artifact.Meta, error) {
	started := r.Now()
	token, err := r.hfToken()
	if serr := supported(r.Plan); serr != nil {
		err = serr
	}
	var cmds *commands
	if err == nil {
		cmds, err = newCommands(r.Plan, container.Identity{RunID: r.Store.Meta().RunID, Owner: r.Options.Owner}, token)
	}
	if err != nil {
		return r.Store.Meta(), errors.Join(err, r.Store.Close(artifact.Failed, err.Error(), r.Now()))
	}
	x := &run{state: &state{}, r: r, p: r.Plan, cmds: cmds}
	if err := r.Store.UpdateMeta(func(m *artifact.Meta) {
		t := started.UTC()
		m.StartedAt = &t
		x.warnings = m.Warnings
	}); err != nil {
		return r.Store.Meta(), err
	}
	if err := x.writePlan(); err != nil {
		return r.Store.Meta(), errors.Join(err, r.Store.Close(artifact.Failed, err.Error(), r.Now()))
	}

	err = x.stages(ctx)
	terr := x.teardown(ctx)

	status, reason := artifact.Done, ""
	var store *storeError
	switch {
	case ctx.Err() != nil:
		status, reason = artifact.Interrupted, "interrupted"
		err = fmt.Errorf("run interrupted: %w", context.Cause(ctx))
		if terr != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", ErrRun, terr))
		}
	case errors.As(err, &store):
		status, reason = artifact.Failed, err.Error()
	case err != nil || terr != nil || len(x.failures) > 0:
		if err == nil && len(x.failures) > 0 {
			err = errors.New(strings.Join(x.failures, "; "))
		}
		err = errors.Join(err, terr)
		status, reason = artifact.Failed, clip(strings.ReplaceAll(err.Error(), "\n", "; "), 2000)
		class := ErrRun
		if errors.Is(err, remote.ErrInput) { // a key file, for example: nothing was touched
			class = ErrInput
		}
		err = fmt.Errorf("%w: %w", class, err)
	}
	if err != nil {
		err = &safeError{x.cmds.hide.text(err.Error()), err}
	}
	ended := r.Now()
	r.Split.Wall = ended.Sub(started)
	if cerr := r.Store.Close(status, x.cmds.hide.text(reason), ended); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return r.Store.Meta(), err
}

// A safeError is an error whose text holds no secret. What it wraps may, and is
// only there to be recognised.
type safeError struct {
	text string
	err  error
}

func (e *safeError) Error() string { return e.text }
func (e *safeError) Unwrap() error { return e.err }

// A storeError is a failure of the run directory: the disk, not the node.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

func (x *run) repeats() int { return max(x.r.Options.Repeat, 1) }

func (x *run) grace() time.Duration {
	if x.r.Options.StopGrace > 0 {
		return x.r.Options.StopGrace
	}
	return defaultGrace
}

// event reports progress with secrets taken out.
func (x *run) event(e Event) {
	if x.r.Progress == nil {
		return
	}
	e.Time = x.r.Now()
	e.Host = x.cmds.host
	e.Message = x.cmds.hide.text(e.Message)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.r.Progress(e)
}

func (x *run) note(stage, format string, a ...any) {
	x.event(Event{Kind: Note, Stage: stage, Message: fmt.Sprintf(format, a...)})
}

// warn reports something that a reader of the result must know, and keeps it.
func (x *run) warn(stage, format string, a ...any) error {
	msg := x.cmds.hide.text(fmt.Sprintf(format, a...))
	x.event(Event{Kind: Warning, Stage: stage, Message: msg})
	x.mu.Lock()
	x.warnings = append(x.warnings[:len(x.warnings):len(x.warnings)], msg)
	all := x.warnings
	x.mu.Unlock()
	if err := x.r.Store.UpdateMeta(func(m *artifact.Meta) { m.Warnings = all }); err != nil {
		return &storeError{err}
	}
	return nil
}

// record runs do as a stage: its line is in the run directory when it starts
// and again when it ended.
func (x *run) record(ctx context.Context, s artifact.Stage, do func(context.Context) error) error {
	s.Host, s.Started, s.Status = x.cmds.host, x.r.Now(), artifact.Running
	seq, err := x.r.Store.AppendStage(s)
	if err != nil {
		return &storeError{err}
	}
	s.Seq = seq
	x.event(Event{Kind: StageStarted, Stage: s.Stage, Cell: s.Cell})
	err = do(ctx)
	end := x.r.Now().UTC()
	s.Ended, s.Status = &end, artifact.Done
	if err != nil {
		s.Status, s.Reason = artifact.Failed, x.cmds.hide.text(err.Error())
		if ctx.Err() != nil {
			s.Status, s.Reason = artifact.Interrupted, "interrupted"
		}
	}
	if _, serr := x.r.Store.AppendStage(s); serr != nil {
		return &storeError{errors.Join(serr, err)}
	}
	x.event(Event{Kind: StageEnded, Stage: s.Stage, Cell: s.Cell, Elapsed: end.Sub(s.Started), Status: s.Status, Message: s.Reason})
	return err
}

// skip records a stage that is not attempted.
func (x *run) skip(s artifact.Stage, reason string) error {
	now := x.r.Now()
	end := now.UTC()
	s.Host, s.Started, s.Ended, s.Status, s.Reason = x.cmds.host, now, &end, artifact.Skipped, x.cmds.hide.text(reason)
	if _, err := x.r.Store.AppendStage(s); err != nil {
		return &storeError{err}
	}
	x.event(Event{Kind: StageEnded, Stage: s.Stage, Cell: s.Cell, Status: artifact.Skipped, Message: reason})
	return nil
}

// command is a step as the transport takes it.
func command(s Step) remote.Command {
	c := remote.Command{Args: s.cmd.Args, Timeout: s.cmd.Timeout, Name: brief(s)}
	if s.cmd.Stdin != nil {
		c.Stdin = bytes.NewReader(s.cmd.Stdin)
	}
	return c
}

// unreachable reports whether an error means that the connection is of no more
// use. A command that took too long does not: the node still answered others.
func unreachable(err error) bool {
	var slow *remote.TimeoutError
	if errors.As(err, &slow) && slow.Phase == remote.PhaseCommand {
		return false
	}
	return errors.Is(err, remote.ErrRemote)
}

// do sends one step. The error says which host and what was being done; when the
// connection is the reason, the run remembers it.
func (x *run) do(ctx context.Context, s Step) (remote.Result, error) {
	res, err := x.node.Run(ctx, command(s))
	if err != nil {
		return res, x.transport(ctx, s, err)
	}
	return res, nil
}

func (x *run) transport(ctx context.Context, s Step, err error) error {
	if unreachable(err) && ctx.Err() == nil {
		x.lost = err
	}
	return fmt.Errorf("%s on %s: %w", brief(s), s.Host, err)
}

// must is do for a step that has to succeed.
func (x *run) must(ctx context.Context, s Step) (remote.Result, error) {
	res, err := x.do(ctx, s)
	if err == nil && res.ExitCode != 0 {
		out := res.Stderr
		if len(strings.TrimSpace(string(out))) == 0 {
			out = res.Stdout
		}
		err = fmt.Errorf("%s on %s: exit status %d: %s", brief(s), s.Host, res.ExitCode, tailText(out, 500))
	}
	return res, err
}

// finish is must for a step that leaves something on the node: a cancelled ctx
// does not cut it off, because then nobody would know whether it is there.
func (x *run) finish(ctx context.Context, s Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := x.must(context.WithoutCancel(ctx), s); err != nil {
		return err
	}
	return ctx.Err()
}

// brief names a step in a message: the program, and docker's verb.
func brief(s Step) string {
	switch {
	case len(s.Argv) > 2 && s.Argv[0] == "sh":
		return s.Stage + " step"
	case len(s.Argv) > 1:
		return s.Argv[0] + " " + s.Argv[1]
	}
	return s.Stage + " step"
}
