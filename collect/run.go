package collect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/collect/container"
	"cvs/collect/driver"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

const (
	defaultTeardown = 2 * time.Minute
	defaultGrace    = 20 * time.Second
)

// A run is one execution of a Runner: the state that its stages share.
type run struct {
	r       *Runner
	p       *plan.Plan
	drv     driver.Driver
	hide    redactor
	members []*member // rank order, the head first
	earlier earlier   // what an earlier attempt left; empty on a fresh run

	server *server
	tasks  []task // that follow the cells
	// functionalDone: the functional check was carried out, or begun.
	functionalDone bool
	// asking is the configuration digest of the check that is being carried out.
	asking     string
	acceptance check.Acceptance // of drafts, as the first artefact that knows it says

	sessions  int
	restarts  int
	clientJob string // of a client that may be running on the head

	failures    []string // one line each, for the run's reason
	consecutive int
	abort       string // why the remaining cells are skipped

	mu       sync.Mutex // guards the fields below, events, Left, and member.lost
	warnings []string
	left     map[int]string // by rank
}

// head is rank 0, where clients run and requests go.
func (x *run) head() *member { return x.members[0] }

// newRun lays out a run without touching anything.
func (r *Runner) newRun(token string) (*run, error) {
	id := container.Identity{RunID: r.Store.Meta().RunID, Owner: r.Options.Owner}
	x := &run{r: r, p: r.Plan}
	for i, n := range r.Plan.Cluster.Nodes {
		c, err := newCommands(r.Plan, id, token, i)
		if err != nil {
			return nil, err
		}
		x.drv, x.hide = c.drv, c.hide
		x.members = append(x.members, &member{run: x, rank: i, at: n, cmds: c})
	}
	tasks, err := afterSweep(r.Plan)
	x.tasks = tasks
	return x, err
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
	var x *run
	if err == nil {
		x, err = r.newRun(token)
	}
	if err == nil {
		x.earlier, err = r.earlier()
	}
	if err != nil {
		status, reason, ended := artifact.Failed, err.Error(), r.Now()
		if prev := r.Previous; prev != nil && prev.Meta.EndedAt != nil { // nothing was done to what it says
			status, reason, ended = prev.Meta.Status, prev.Meta.Reason, *prev.Meta.EndedAt
		}
		err = errors.Join(err, r.Store.Close(status, reason, ended))
		return r.Store.Meta(), err
	}
	x.sessions = x.earlier.sessions
	for _, m := range x.members {
		m.cmds.attempt = x.earlier.attempts + 1
	}
	if err := r.Store.UpdateMeta(func(m *artifact.Meta) {
		if t := started.UTC(); m.StartedAt == nil {
			m.StartedAt = &t
		}
		x.warnings = m.Warnings
	}); err != nil {
		return r.Store.Meta(), err
	}
	if err := x.writePlan(); err != nil {
		err = errors.Join(err, r.Store.Close(artifact.Failed, err.Error(), r.Now()))
		return r.Store.Meta(), err
	}

	err = x.announceResume(ctx)
	if err == nil {
		err = x.stages(ctx)
	}
	terr := x.teardown(ctx)
	status, reason, err := x.conclude(ctx, err, terr)
	ended := r.Now()
	r.Split.Wall = ended.Sub(started)
	if cerr := r.Store.Close(status, x.hide.text(reason), ended); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return r.Store.Meta(), err
}

// conclude turns what went wrong in the stages and at teardown into the run's
// status, its reason, and the error for the caller.
func (x *run) conclude(ctx context.Context, err, terr error) (artifact.Status, string, error) {
	status, reason := artifact.Done, ""
	var store *storeError
	switch {
	case ctx.Err() != nil:
		status, reason = artifact.Interrupted, "interrupted"
		err = fmt.Errorf("run interrupted: %w", context.Cause(ctx))
		if terr != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", ErrRun, terr))
			reason = clip("interrupted; "+strings.ReplaceAll(terr.Error(), "\n", "; "), 2000)
		}
	case errors.As(err, &store):
		status, reason = artifact.Failed, err.Error()
		err = errors.Join(err, terr)
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
		err = &safeError{x.hide.text(err.Error()), err}
	}
	return status, reason, err
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
	if e.Host == "" {
		e.Host = x.head().host()
	}
	e.Message = x.hide.text(e.Message)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.r.Progress(e)
}

func (x *run) note(stage, format string, a ...any) {
	x.event(Event{Kind: Note, Stage: stage, Message: fmt.Sprintf(format, a...)})
}

// warn reports something that a reader of the result must know, and keeps it.
func (x *run) warn(stage, format string, a ...any) error {
	msg := x.hide.text(fmt.Sprintf(format, a...))
	x.event(Event{Kind: Warning, Stage: stage, Message: msg})
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, w := range x.warnings {
		if w == msg { // said by an earlier attempt, or about another node
			return nil
		}
	}
	x.warnings = append(x.warnings[:len(x.warnings):len(x.warnings)], msg)
	all := x.warnings
	if err := x.r.Store.UpdateMeta(func(m *artifact.Meta) { m.Warnings = all }); err != nil {
		return &storeError{err}
	}
	return nil
}

// record runs do as a stage: its line is in the run directory when it starts
// and again when it ended. A stage without a host is the head's.
func (x *run) record(ctx context.Context, s artifact.Stage, do func(context.Context) error) error {
	if s.Host == "" {
		s.Host = x.head().host()
	}
	s.Started, s.Status = x.r.Now(), artifact.Running
	seq, err := x.r.Store.AppendStage(s)
	if err != nil {
		return &storeError{err}
	}
	s.Seq = seq
	x.event(Event{Kind: StageStarted, Stage: s.Stage, Host: s.Host, Cell: s.Cell})
	err = do(ctx)
	end := x.r.Now().UTC()
	s.Ended, s.Status = &end, artifact.Done
	if err != nil {
		s.Status, s.Reason = artifact.Failed, x.hide.text(err.Error())
		if ctx.Err() != nil {
			s.Status, s.Reason = artifact.Interrupted, "interrupted"
		}
	}
	if _, serr := x.r.Store.AppendStage(s); serr != nil {
		return &storeError{errors.Join(serr, err)}
	}
	x.event(Event{Kind: StageEnded, Stage: s.Stage, Host: s.Host, Cell: s.Cell, Elapsed: end.Sub(s.Started), Status: s.Status, Message: s.Reason})
	return err
}

// pass records a stage that is not attempted: skipped, or done before.
func (x *run) pass(s artifact.Stage, status artifact.Status, reason string) error {
	now := x.r.Now()
	end := now.UTC()
	if s.Host == "" {
		s.Host = x.head().host()
	}
	s.Started, s.Ended, s.Status, s.Reason = now, &end, status, x.hide.text(reason)
	if _, err := x.r.Store.AppendStage(s); err != nil {
		return &storeError{err}
	}
	x.event(Event{Kind: StageEnded, Stage: s.Stage, Host: s.Host, Cell: s.Cell, Status: status, Message: reason})
	return nil
}

// each runs do on every node at once and joins the errors in rank order.
func (x *run) each(do func(*member) error) error {
	errs := make([]error, len(x.members))
	var wg sync.WaitGroup
	for i, m := range x.members {
		wg.Go(func() { errs[i] = do(m) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
