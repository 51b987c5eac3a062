package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/driver"
	"cvs/collect/plan"
)

// A server is one start of the serving framework.
type server struct {
	session int
	job     string
	log     string
	argv    []string
	served  bool // a cell was measured with it

	cancel context.CancelFunc // ends the watch, not the server
	done   chan struct{}      // closed when the process ended or cannot be watched any more
	exit   exit               // after done
	err    error              // after done: why the exit is not known
}

// died says how a server ended, or "" while it runs.
func (s *server) died() string {
	select {
	case <-s.done:
	default:
		return ""
	}
	if s.err != nil {
		return s.err.Error()
	}
	return s.exit.String()
}

// errServer marks a cell's failure that the server is to blame for.
var errServer = errors.New("the server is not usable")

// ensureServer gives the cell a server: the one that runs, if the plan lets
// cells share it and it still answers, else a fresh one. A server that died is
// replaced once in a run, and the run says so.
func (x *run) ensureServer(ctx context.Context, c plan.Cell, repeat int) error {
	if s := x.server; s != nil {
		sick := s.died()
		if sick == "" && x.p.Params.ReuseServer {
			if err := x.get(ctx, driver.HealthPath, nil); err == nil {
				return nil
			} else if ctx.Err() != nil || x.lost != nil {
				return err
			} else {
				sick = "it runs but does not answer: " + err.Error()
			}
		}
		if sick != "" {
			if x.restarts > 0 {
				x.abort = "the server died again after one restart"
				return fmt.Errorf("%w: session %d: %s; it was restarted once already", errServer, s.session, sick)
			}
			x.restarts++
			if err := x.warn("server_start", "the server of session %d died (%s) and is restarted once", s.session, sick); err != nil {
				return err
			}
		}
		if err := x.record(ctx, artifact.Stage{Stage: "server_stop", Cell: c.ID}, x.stopServer); err != nil {
			return err
		}
	}
	began := x.r.Now()
	err := x.record(ctx, artifact.Stage{Stage: "server_start", Cell: c.ID}, func(ctx context.Context) error {
		return x.startServer(ctx, c, repeat)
	})
	x.r.Split.ServerStart += x.r.Now().Sub(began)
	if err != nil && x.p.Params.ReuseServer && ctx.Err() == nil {
		x.abort = "the server did not start"
	}
	return err
}

// startServer starts a server and waits until it is ready.
func (x *run) startServer(ctx context.Context, c plan.Cell, repeat int) error {
	proc, err := x.cmds.server()
	if err != nil {
		return err
	}
	if err := x.portFree(ctx); err != nil {
		return err
	}
	dir := x.cmds.dir(c, repeat)
	steps := []Step{x.cmds.prepare("server_start", dir, x.cmds.drv.ServerLog())}
	if !x.workMade {
		x.workMade = true
		steps = append([]Step{x.cmds.writeEnv(proc)}, steps...)
	}
	if s, ok := x.cmds.cleanup(); ok {
		steps = append(steps, s)
	}
	for _, s := range steps {
		if _, err := x.must(ctx, s); err != nil {
			return err
		}
	}
	x.sessions++
	s := &server{session: x.sessions, job: x.cmds.serverJob(x.sessions),
		log: path.Join(dir, x.cmds.drv.ServerLog()), argv: proc.Args, done: make(chan struct{})}
	// The watch outlives ctx: teardown wants to know whether the process ended.
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	x.server = s
	if err := x.finish(ctx, x.cmds.startServer(proc, s.session, dir)); err != nil {
		s.err = errors.New("it was never seen to run")
		close(s.done)
		return err
	}
	node, job := x.node, x.cmds.job(s.job)
	go func() { // owned by stopServer, which cancels it and waits for done
		defer close(s.done)
		state, err := job.Wait(watch, node)
		s.exit, s.err = exitOf(state), err
	}()
	if err := x.ready(ctx, s); err != nil {
		if ctx.Err() == nil && x.lost == nil {
			err = fmt.Errorf("%w; last lines of its log:\n%s", err, x.logTail(ctx, s.log))
		}
		return err
	}
	return nil
}

// ready waits until the server is up: its process lives, /health says so, it
// serves the model that was asked for, and it completes one token. The
// configured waits are the upper bound; the end of the process ends the wait at
// once.
func (x *run) ready(ctx context.Context, s *server) error {
	budget := time.Duration(x.p.Params.ReadyBudget()) * time.Second
	deadline := x.r.Now().Add(budget)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.done:
			cancel(errServer)
		case <-stop:
		}
	}()
	refused := 0
	delay := 50 * time.Millisecond
	for {
		err := x.probe(ctx, s, deadline.Sub(x.r.Now()))
		var final *finalError
		switch {
		case err == nil:
			return nil
		case errors.Is(context.Cause(ctx), errServer):
			if unreachable(s.err) {
				x.lost = s.err
				return s.err
			}
			return fmt.Errorf("%w: it ended while starting: %s", errServer, s.died())
		case ctx.Err() != nil:
			return ctx.Err()
		case unreachable(err):
			x.lost = err
			return err
		case errors.As(err, &final):
			// A request that is refused as wrong will not become right by waiting,
			// but a server may refuse while it is still loading.
			if refused++; refused >= final.patience {
				return fmt.Errorf("%w: %w", errServer, err)
			}
		default:
			refused = 0
		}
		if !x.r.Now().Before(deadline) {
			return fmt.Errorf("%w: not ready within %v (params.server_precheck_wait_s + server_warmup_wait_s + server_poll_count × server_poll_wait_time); last answer: %w", errServer, budget, err)
		}
		// An error of Sleep is the end of ctx, which the next probe sees.
		if x.r.Sleep(ctx, delay) == nil {
			delay = min(delay*3/2, time.Second)
		}
	}
}

// A finalError is an answer that waiting does not change.
type finalError struct {
	err      error
	patience int // how many in a row are believed
}

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// probe asks everything that makes a server ready, once.
func (x *run) probe(ctx context.Context, s *server, left time.Duration) error {
	if err := x.get(ctx, driver.HealthPath, nil); err != nil {
		return err
	}
	var models struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := x.get(ctx, driver.ModelsPath, &models); err != nil {
		return err
	}
	want := strings.TrimSuffix(driver.ServedModel(x.p, s.argv), "/")
	var ids []string
	for _, m := range models.Data {
		ids = append(ids, clip(strings.TrimSuffix(m.ID, "/"), 200))
	}
	if !slices.Contains(ids, want) {
		return &finalError{fmt.Errorf("the server on port %d serves %q, not %q", x.p.Params.Port, ids, want), 1}
	}
	body, err := json.Marshal(map[string]any{"model": want, "prompt": "hi", "max_tokens": 1})
	if err != nil {
		return err
	}
	return x.request(ctx, http.MethodPost, driver.CompletionPath, body, min(max(left, time.Second), 2*time.Minute), nil)
}

func (x *run) get(ctx context.Context, path string, into any) error {
	return x.request(ctx, http.MethodGet, path, nil, 10*time.Second, into)
}

// request sends one request to the server through the connection to the node,
// so that nothing has to exist inside the image for it.
func (x *run) request(ctx context.Context, method, path string, body []byte, limit time.Duration, into any) error {
	rctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(rctx, method, "http://"+x.loopback()+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := x.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		err := fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, clip(strings.TrimSpace(string(text)), 300))
		if resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout {
			return &finalError{err, 10}
		}
		return err
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// stopServer stops the server by its recorded ids and waits until its port is
// closed.
func (x *run) stopServer(ctx context.Context) error {
	s := x.server
	if s == nil {
		return nil
	}
	defer func() {
		s.cancel()
		<-s.done
	}()
	if err := x.stopJob(ctx, "server_stop", s.job); err != nil {
		return err
	}
	x.server = nil
	x.http.CloseIdleConnections()
	deadline := x.r.Now().Add(x.grace())
	for {
		err := x.portFree(ctx)
		if err == nil || ctx.Err() != nil || x.lost != nil {
			return err
		}
		if !x.r.Now().Before(deadline) {
			return fmt.Errorf("the server was stopped, but %w", err)
		}
		if err := x.r.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// stopJob stops a job by the ids it recorded. An error means that it may still
// be running.
func (x *run) stopJob(ctx context.Context, stage, job string) error {
	if _, err := x.must(ctx, x.cmds.stop(stage, job, x.grace())); err != nil {
		return fmt.Errorf("stopping %s: %w", path.Base(job), err)
	}
	return nil
}

// logTail is the end of a log for a message; it never fails a stage.
func (x *run) logTail(ctx context.Context, file string) string {
	res, err := x.do(ctx, x.cmds.tail("log", file))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if res.ExitCode != 0 {
		return "(no log)"
	}
	return tailText(res.Stdout, 1500)
}
