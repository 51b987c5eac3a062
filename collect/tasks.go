package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/collect/driver"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// The tasks of a run are what it does beside its cells. Each is a stage named
// after the task and leaves its evidence under checks/. A task that fails, or
// that finds something, concerns itself only: the run goes on.

// The ids of tasks that a plan has at most once.
const (
	taskMTP   = "mtp_quality"
	taskQuant = "quant_parity"
	taskDmesg = "dmesg_scan"
	taskGPU   = "gpu_metrics_poll"
)

// Time limits of the tasks that have none in the plan. NIAH's is the one of spec
// 02 §15; the others' are far above what their few requests take.
const (
	functionalLimit = 15 * time.Minute
	niahLimit       = 6 * time.Hour
	mtpLimit        = 30 * time.Minute
	quantLimit      = 10 * time.Minute
)

// errLimit ends a task that takes too long.
var errLimit = errors.New("time limit of the check reached")

// A task is something to do after the last cell, on the server that it left.
type task struct {
	kind  string
	ids   []string // of the plan's tasks that it answers; the first names the stage
	limit time.Duration
	file  []string // the evidence below checks/
	asks  any      // of the plan: what makes two answers comparable
	// do asks the server and keeps what came. Its error says why the check was not
	// carried out.
	do func(*run, context.Context, check.Server) error
}

// afterSweep lists the tasks that follow the cells, in order (spec 02 §2.1).
func afterSweep(p *plan.Plan) ([]task, error) {
	groups, err := check.Groups(p.Accuracy, p.Params.Driver)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	var out []task
	for i, g := range groups {
		// Beside lm-eval itself there are installing it and fetching what it wrote.
		limit := time.Duration(g.Task.ExecTimeout)*time.Second + time.Hour
		out = append(out, task{"accuracy", g.IDs, limit, []string{"accuracy", g.IDs[0] + ".json"}, g, func(x *run, ctx context.Context, _ check.Server) error {
			return x.accuracy(ctx, i, g)
		}})
	}
	for _, c := range p.LongContext {
		out = append(out, task{"long_context_accuracy", []string{c.ID}, niahLimit, []string{"niah", c.ID + ".json"}, c, func(x *run, ctx context.Context, s check.Server) error {
			r := check.NIAH(ctx, s, c, check.NIAHOptions{MaxModelLength: p.Params.MaxModelLength,
				Depth: float64(c.DepthPct) / 100, Concurrency: c.Concurrency})
			return x.keepAnswers(ctx, &r.Header, &r, "niah", c.ID+".json")
		}})
	}
	if p.MTP.Requested {
		out = append(out, task{taskMTP, []string{taskMTP}, mtpLimit, []string{"mtp.json"}, p.MTP, func(x *run, ctx context.Context, s check.Server) error {
			r := check.MTP(ctx, s, p.MTP, x.acceptance)
			return x.keepAnswers(ctx, &r.Header, &r, "mtp.json")
		}})
	}
	if p.Quant.Enabled {
		out = append(out, task{taskQuant, []string{taskQuant}, quantLimit, []string{"quant.json"}, p.Quant, func(x *run, ctx context.Context, s check.Server) error {
			ref := x.r.Options.QuantReference
			r := check.Quant(ctx, s, p.Quant, ref.Path, ref.Data)
			return x.keepAnswers(ctx, &r.Header, &r, "quant.json")
		}})
	}
	return out, nil
}

// A Reference is a stored checks/quant.json to compare with; Path names it in
// the result, "" is none.
type Reference struct {
	Path string
	Data []byte
}

// ReadReference reads a stored checks/quant.json. The error says why it cannot be
// compared with.
func ReadReference(file string) (Reference, error) {
	f, err := os.Open(file)
	if err != nil {
		return Reference{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, check.MaxQuant+1))
	if err != nil {
		return Reference{}, err
	}
	if _, err := check.ReadQuant(data); err != nil {
		return Reference{}, fmt.Errorf("%s: %w", file, err)
	}
	return Reference{Path: file, Data: data}, nil
}

// taskNames are the names of the stages that a skipped "tasks" stage stands for.
func taskNames(x *run) []string {
	var out []string
	if !x.functionalDone {
		out = append(out, functionalBlocks(x.p.Functional)...)
	}
	for _, t := range x.tasks {
		out = append(out, t.ids...)
	}
	return out
}

func noTasks(x *run) string {
	if len(x.tasks) == 0 && len(functionalBlocks(x.p.Functional)) == 0 {
		return silently
	}
	return ""
}

// afterCells carries out the tasks that follow the cells.
func (x *run) afterCells(ctx context.Context) error {
	if len(functionalBlocks(x.p.Functional)) > 0 && !x.functionalDone {
		// Before a server is started for nothing.
		done, err := x.functionalBefore()
		if err != nil {
			return err
		}
		x.functionalDone = done
	}
	if blocks := functionalBlocks(x.p.Functional); len(blocks) > 0 && !x.functionalDone {
		// Nothing became ready on the way, or every cell was measured by an earlier
		// attempt: a server that starts now is asked at once.
		why := x.whyNot(ctx, nil)
		if why == "" {
			err := x.serveTasks(ctx)
			if isStore(err) {
				return err
			}
			why = x.whyNot(ctx, err)
		}
		if !x.functionalDone {
			if err := x.skipTasks(blocks, why); err != nil {
				return err
			}
		}
	}
	for _, t := range x.tasks {
		if err := x.carryOut(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// carryOut does one task. The error is the store's; what else goes wrong is the
// task's own.
func (x *run) carryOut(ctx context.Context, t task) error {
	if why := x.whyNot(ctx, nil); why != "" {
		return x.skipTasks(t.ids, why)
	}
	digest, err := x.taskDigest(t.kind, t.asks)
	if err != nil {
		return err
	}
	if reason := x.earlier.answered(digest, t); reason != "" {
		for _, id := range t.ids {
			if err := x.pass(artifact.Stage{Stage: id}, artifact.Done, reason); err != nil {
				return err
			}
		}
		return nil
	}
	err = x.serveTasks(ctx)
	if isStore(err) {
		return err
	}
	if err != nil {
		x.failures = append(x.failures, t.ids[0]+": "+ends(err.Error()))
		return x.skipTasks(t.ids, x.whyNot(ctx, err))
	}
	began := x.r.Now()
	x.asking = digest
	defer func() { x.asking = "" }()
	err = x.record(ctx, artifact.Stage{Stage: t.ids[0]}, func(ctx context.Context) error {
		ctx, cancel := x.whileServed(ctx, t.limit)
		defer cancel()
		return t.do(x, ctx, x.asServer())
	})
	x.r.Split.Checks += x.r.Now().Sub(began)
	if isStore(err) {
		return err
	}
	var found *finding
	status, reason := artifact.Done, "done with "+t.ids[0]
	if err != nil {
		status, reason = artifact.Failed, t.ids[0]+": "+err.Error()
		switch {
		case ctx.Err() != nil:
			status, reason = artifact.Interrupted, "interrupted"
		case !errors.As(err, &found):
			x.failures = append(x.failures, t.ids[0]+": "+ends(err.Error()))
		}
	}
	for _, id := range t.ids[1:] {
		if err := x.pass(artifact.Stage{Stage: id}, status, reason); err != nil {
			return err
		}
	}
	return nil
}

// whyNot is the reason to leave the remaining tasks, or "".
func (x *run) whyNot(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case x.lostHost() != "":
		return "the connection to " + x.lostHost() + " was lost"
	case x.abort != "":
		return x.abort
	case err != nil:
		return "no server: " + ends(err.Error())
	}
	return ""
}

func (x *run) skipTasks(ids []string, reason string) error {
	for _, id := range ids {
		if err := x.pass(artifact.Stage{Stage: id}, artifact.Skipped, reason); err != nil {
			return err
		}
	}
	return nil
}

// serveTasks makes sure that a server answers: the one that the last cell left,
// whether or not cells share servers, else a fresh one for the last cell.
func (x *run) serveTasks(ctx context.Context) error {
	if s := x.server; s != nil && s.died() == "" && x.healthy(ctx, s) == nil {
		return nil
	}
	return x.ensureServer(ctx, x.p.Cells[len(x.p.Cells)-1], x.repeats())
}

// whileServed bounds a task by time and by the life of the server.
func (x *run) whileServed(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	done := x.server.done
	go func() { // ends with ctx, which the caller cancels
		select {
		case <-done:
			stop(fmt.Errorf("%w: it ended during the check", errServer))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); stop(nil) }
}

// asServer is the head's server as checks ask it, through the connection.
func (x *run) asServer() check.Server {
	m := x.head()
	return check.Server{HTTP: &http.Client{Transport: m.node.HTTPTransport()}, BaseURL: "http://" + loopback(x.p.Params.Port),
		Model: strings.TrimSuffix(driver.ServedModel(x.p, x.server.ranks[0].argv), "/"), Now: x.r.Now}
}

// A finding is a check that was carried out and did not like what it saw. Its
// stage failed; the run did not.
type finding struct{ text string }

func (f *finding) Error() string { return f.text }

// keepResult writes a check's evidence and returns why it was not carried out.
func (x *run) keepResult(ctx context.Context, h *check.Header, result any, elem ...string) error {
	if h.Status == artifact.Interrupted {
		// The user's interruption is one; a limit and a server that died are failures.
		if cause := context.Cause(ctx); errors.Is(cause, errLimit) || errors.Is(cause, errServer) {
			h.Status, h.Reason = artifact.Failed, cause.Error()
		}
	}
	h.ConfigDigest = x.asking
	if err := x.keepCheck(result, elem...); err != nil {
		return err
	}
	switch h.Status {
	case artifact.Done:
		return nil
	case artifact.Skipped: // a decision with a reason, no failure of the run
		return &finding{"skipped: " + h.Reason}
	}
	return errors.New(h.Reason)
}

// dyingWait is how long a check that broke off waits to learn whether its server died.
const dyingWait = 2 * time.Second

// keepAnswers is keepResult for a check that counts answers. Requests that a
// dying server left unanswered must not stand there as wrong answers of the model.
func (x *run) keepAnswers(ctx context.Context, h *check.Header, result any, elem ...string) error {
	gone := ""
	switch {
	case ctx.Err() != nil:
	case h.Status == artifact.Failed:
		// A dying server breaks its replies off before its process is gone.
		select {
		case <-x.server.done:
		case <-time.After(dyingWait):
		case <-ctx.Done():
		}
		gone = x.server.died()
		fallthrough
	case h.Status == artifact.Done:
		if err := x.healthy(ctx, x.server); err != nil && gone == "" && ctx.Err() == nil {
			gone = err.Error()
			if died := x.server.died(); died != "" {
				gone = died
			}
		}
	}
	if gone != "" {
		h.Status, h.Reason = artifact.Failed, strings.TrimPrefix(h.Reason+"; ", "; ")+"the server was gone at the end of the check: "+gone
	}
	return x.keepResult(ctx, h, result, elem...)
}

// keepCheck writes a check's result as JSON without secrets.
func (x *run) keepCheck(result any, elem ...string) error {
	b, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", path.Join(elem...), err)
	}
	if err := x.r.Store.WriteCheck([]byte(x.hide.json(string(b))+"\n"), elem...); err != nil {
		return &storeError{err}
	}
	return nil
}

func isStore(err error) bool {
	var store *storeError
	return errors.As(err, &store)
}

// A runner sends a check's commands to a node and remembers a connection that
// is gone, as the run's own commands do.
type runner struct{ m *member }

func (r runner) Run(ctx context.Context, c remote.Command) (remote.Result, error) {
	if lost := r.m.gone(); lost != nil {
		return remote.Result{}, lost
	}
	res, err := r.m.node.Run(ctx, c)
	if err != nil && unreachable(err) && ctx.Err() == nil {
		r.m.lose(err)
	}
	return res, err
}
