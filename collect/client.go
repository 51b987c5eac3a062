package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// maxArtefact bounds what is read of a result file: ten times the largest seen.
const maxArtefact = 1 << 30

// errBudget ends a client that takes longer than the plan allows, errIdle one
// that does nothing any more.
var (
	errBudget = errors.New("time limit reached")
	errIdle   = errors.New("no sign of life")
)

// client runs the benchmark client to its end. A client that does not end by
// itself is stopped.
func (x *run) client(ctx context.Context, s *server, c plan.Cell, rep int) (exit, error) {
	m := x.head()
	job := m.cmds.clientJob(c, rep)
	log := path.Join(m.cmds.dir(c, rep), clientLog)
	x.clientJob = job
	if err := m.finish(ctx, m.cmds.startClient(c, rep)); err != nil {
		return exit{}, err
	}
	wctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	budget := time.Duration(x.p.Params.ClientBudget()) * time.Second
	wctx, cancelBudget := context.WithTimeoutCause(wctx, budget, errBudget)
	defer cancelBudget()
	watch := x.watchClient(wctx, cancel, s, job, log)
	state, err := m.cmds.job(job).Wait(wctx, m.node)
	cause := context.Cause(wctx)
	cancel(nil)
	<-watch
	end := exitOf(state)
	if err == nil {
		x.clientJob = ""
		if end.Code != nil && *end.Code == 0 {
			return end, nil
		}
		return end, fmt.Errorf("the client ended with %s; its last lines:\n%s", end, m.logTail(ctx, log))
	}
	switch {
	case ctx.Err() != nil:
		return end, ctx.Err() // teardown stops the client
	case errors.Is(cause, errServer):
		if lost := s.lost(); lost != nil {
			return end, lost
		}
		if late := x.through(ctx, m, job); late.Code != nil && *late.Code == 0 {
			x.clientJob = ""
			return late, nil
		}
		err = fmt.Errorf("%w: it ended while the client ran: %s%s", errServer, s.died(), x.serverTails(ctx, s))
	case errors.Is(cause, errBudget):
		err = fmt.Errorf("the client did not end within %v (params.client_initial_wait_s + client_poll_count × client_poll_wait_time) and was stopped; its last lines:\n%s", budget, m.logTail(ctx, log))
	case errors.Is(cause, errIdle):
		err = fmt.Errorf("the client was stopped: %w; its last lines:\n%s", cause, m.logTail(ctx, log))
	default:
		err = m.transport(ctx, m.cmds.wait("cell", job), err)
		if m.gone() != nil {
			return end, err
		}
	}
	if serr := m.stopJob(ctx, "cell", job); serr != nil {
		x.abort = "a client could not be stopped"
		return end, errors.Join(err, serr)
	}
	x.clientJob = ""
	return end, err
}

// lastMoment is how long a client whose server died may take to end by itself.
const lastMoment = 2 * time.Second

// through is how a client ended by itself although its server is gone: one that
// had its last answer already has measured everything.
func (x *run) through(ctx context.Context, m *member, job string) exit {
	ctx, cancel := context.WithTimeout(ctx, lastMoment)
	defer cancel()
	state, err := m.cmds.job(job).Wait(ctx, m.node)
	if err != nil {
		return exit{}
	}
	return exitOf(state)
}

// cutShort reports a result that lacks requests because the server died under
// the client: the client counts them as failed and ends well, and its figures
// are those of a dying server.
func (x *run) cutShort(ctx context.Context, completed *float64) error {
	s := x.server
	if completed == nil || *completed >= float64(x.p.Params.NumPrompts) || s.died() == "" && x.healthy(ctx, s) == nil {
		return nil
	}
	timer := time.NewTimer(lastMoment)
	defer timer.Stop()
	select { // its port is closed a moment before its end is seen
	case <-s.done:
	case <-ctx.Done():
	case <-timer.C:
	}
	how := s.died()
	if how == "" {
		return nil // it lives; what the client measured is for the gates
	}
	return fmt.Errorf("%w: it ended while the client ran (%g of %d requests were completed): %s%s",
		errServer, *completed, x.p.Params.NumPrompts, how, x.serverTails(ctx, s))
}

// keep fetches what the client left. Only the artefact of a client that ended
// well is a result; anything else is kept under another name and kind, so that
// it is never read as one.
func (x *run) keep(ctx context.Context, dir *artifact.CellDir, folder, name string, whole bool, rec *artifact.Record) error {
	m := x.head()
	if m.gone() != nil {
		return nil // the reason is already told
	}
	ctx, cancel := lastWords(ctx)
	defer cancel()
	var errs []error
	var data bytes.Buffer
	s := m.cmds.fetch(path.Join(folder, name))
	res, err := m.node.Stream(ctx, command(s), &limited{w: &data, left: maxArtefact}, nil)
	if broken(err) && ctx.Err() == nil {
		if _, err = m.do(ctx, m.cmds.inspect("cell")); err == nil { // over a new connection
			data.Reset()
			res, err = m.node.Stream(ctx, command(s), &limited{w: &data, left: maxArtefact}, nil)
		}
	}
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("fetching %s: %w", name, m.transport(ctx, s, err)))
	case res.ExitCode != 0 && whole:
		errs = append(errs, fmt.Errorf("the client ended well but left no %s", name))
	case res.ExitCode == 0:
		if whole {
			completed, err := x.understand(data.Bytes(), rec)
			if err != nil {
				err = fmt.Errorf("%s is not whole: %w", name, err)
			} else {
				err = x.cutShort(ctx, completed)
			}
			if err != nil {
				errs = append(errs, err)
				whole = false
			}
		}
		if werr := x.write(dir, name, data.Bytes(), whole); werr != nil {
			return werr
		}
	}
	if err := m.keepLog(ctx, dir, "client.log", "client_log", path.Join(folder, clientLog)); err != nil {
		return err
	}
	if err := x.keepServerLogs(ctx, dir); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// lastWords gives what an interrupted run left behind a moment to be kept.
func lastWords(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	}
	return ctx, func() {}
}

// A limited writer refuses more than it has room for.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(b []byte) (int, error) {
	if int64(len(b)) > l.left {
		return 0, fmt.Errorf("more than %d bytes", int64(maxArtefact))
	}
	l.left -= int64(len(b))
	return l.w.Write(b)
}

// write keeps an artefact byte for byte, unless a known secret is in it.
func (x *run) write(dir *artifact.CellDir, name string, data []byte, whole bool) error {
	if x.hide.has(data) {
		if err := x.warn("cell", "%s held a secret, which was taken out: it is not byte for byte as written", name); err != nil {
			return err
		}
		data = []byte(x.hide.json(string(data)))
	}
	kind, format := "result", x.drv.Format()
	if !whole {
		name, kind, format = name+".partial", "partial", ""
	}
	if _, err := dir.WriteFile(name, kind, format, bytes.NewReader(data)); err != nil {
		return &storeError{err}
	}
	return nil
}

// keepServerLogs keeps the end of every rank's log.
func (x *run) keepServerLogs(ctx context.Context, dir *artifact.CellDir) error {
	if x.server == nil {
		return nil
	}
	ctx, cancel := lastWords(ctx)
	defer cancel()
	for _, r := range x.server.ranks {
		if r.m.gone() != nil {
			continue
		}
		name := "server.log"
		if r.m.rank > 0 {
			name = "server-node" + strconv.Itoa(r.m.rank) + ".log"
		}
		if err := r.m.keepLog(ctx, dir, name, "server_log", r.log); err != nil {
			return err
		}
	}
	return nil
}

// keepLog keeps the end of a log. A log that is not there is not kept.
func (m *member) keepLog(ctx context.Context, dir *artifact.CellDir, name, kind, file string) error {
	res, err := m.do(ctx, m.cmds.tail("cell", file))
	if err != nil || res.ExitCode != 0 || len(res.Stdout) == 0 {
		return nil
	}
	text := m.run.hide.text(string(res.Stdout))
	if _, err := dir.WriteFile(name, kind, "", strings.NewReader(text)); err != nil {
		return &storeError{err}
	}
	return nil
}
