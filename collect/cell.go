package collect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/driver"
	"cvs/collect/plan"
)

// maxArtefact bounds what is read of a result file: ten times the largest seen.
const maxArtefact = 1 << 30

// errBudget ends a client that takes longer than the plan allows.
var errBudget = errors.New("time limit reached")

// sweep measures every cell in order. A failed cell is recorded and the next
// one is tried, unless the options, a dead server or a lost node say otherwise.
func (x *run) sweep(ctx context.Context) error {
	total := len(x.p.Cells) * x.repeats()
	n := 0
	for _, c := range x.p.Cells {
		for rep := 1; rep <= x.repeats(); rep++ {
			n++
			why := x.abort
			if ctx.Err() != nil {
				why = "interrupted"
			}
			if why != "" {
				if err := x.skip(artifact.Stage{Stage: "cell", Cell: c.ID}, why); err != nil {
					return err
				}
				continue
			}
			began := x.r.Now()
			x.event(Event{Kind: CellStarted, Cell: c.ID, Repeat: rep, Index: n, Total: total})
			err := x.record(ctx, artifact.Stage{Stage: "cell", Cell: c.ID}, func(ctx context.Context) error {
				return x.measure(ctx, c, rep)
			})
			x.r.Split.Cells++
			status, msg := artifact.Done, ""
			if err != nil {
				status, msg = artifact.Failed, err.Error()
				if ctx.Err() != nil {
					status, msg = artifact.Interrupted, "interrupted"
				}
			}
			x.event(Event{Kind: CellEnded, Cell: c.ID, Repeat: rep, Index: n, Total: total,
				Elapsed: x.r.Now().Sub(began), Status: status, Message: msg})
			var store *storeError
			if errors.As(err, &store) {
				return err
			}
			x.judge(ctx, c, err)
		}
	}
	return nil
}

// judge decides whether the sweep goes on after a cell.
func (x *run) judge(ctx context.Context, c plan.Cell, err error) {
	if err == nil {
		x.consecutive = 0
		return
	}
	x.consecutive++
	x.failures = append(x.failures, c.ID+": "+ends(err.Error()))
	switch {
	case ctx.Err() != nil || x.abort != "":
	case x.lost != nil:
		x.abort = "the connection to " + x.cmds.host + " was lost"
	case x.r.Options.FailFast:
		x.abort = "cell " + c.ID + " failed (--fail-fast)"
	case x.r.Options.MaxFailures > 0 && x.consecutive >= x.r.Options.MaxFailures:
		x.abort = fmt.Sprintf("%d cells in a row failed (--max-consecutive-failures)", x.consecutive)
	}
}

// measure runs one benchmark and keeps what it left. The cell's folder gets a
// record whatever happens.
func (x *run) measure(ctx context.Context, c plan.Cell, rep int) error {
	dir, err := x.r.Store.CellDir(c.Ordinal, expectedCell(x.p, c, x.repeats()), rep)
	if err != nil {
		return &storeError{err}
	}
	began := x.r.Now().UTC()
	rec := artifact.Record{CellKey: c.Key, CellID: c.ID, Repeat: rep, Host: x.cmds.host,
		Driver: string(x.p.Params.Driver), StartedAt: &began, Status: artifact.Done}
	merr := x.bench(ctx, c, rep, dir, &rec)
	ended := x.r.Now().UTC()
	rec.EndedAt = &ended
	if merr != nil {
		rec.Status, rec.Reason = artifact.Failed, x.cmds.hide.text(merr.Error())
		if ctx.Err() != nil {
			rec.Status, rec.Reason = artifact.Interrupted, "interrupted"
		}
	}
	if err := dir.WriteRecord(rec); err != nil {
		return &storeError{errors.Join(err, merr)}
	}
	return merr
}

func (x *run) bench(ctx context.Context, c plan.Cell, rep int, dir *artifact.CellDir, rec *artifact.Record) error {
	if err := x.ensureServer(ctx, c, rep); err != nil {
		x.keepServerLog(ctx, dir)
		return err
	}
	s := x.server
	folder := x.cmds.dir(c, rep)
	name := x.cmds.drv.Artefact(x.p)
	client := x.cmds.drv.Client(x.p, c, folder)
	rec.ClientArgv, rec.ServerArgv = x.cmds.hide.list(client.Args), x.cmds.hide.list(s.argv)
	rec.ServerSession, rec.Warm = s.session, s.served
	digest, err := x.digest(c)
	if err != nil {
		return err
	}
	rec.ConfigDigest = digest

	res, err := x.must(ctx, x.cmds.prepare("cell", folder, name, clientLog))
	if err != nil {
		return err
	}
	if old := strings.Fields(string(res.Stdout)); len(old) > 0 {
		x.note("cell", "older %s in %s set aside", strings.Join(old, " and "), folder)
	}
	s.served = true
	var end exit
	err = x.record(ctx, artifact.Stage{Stage: "client", Cell: c.ID}, func(ctx context.Context) error {
		began := x.r.Now()
		defer func() { x.r.Split.Client += x.r.Now().Sub(began) }()
		var err error
		end, err = x.client(ctx, s, c, rep)
		return err
	})
	rec.ExitCode = end.Code
	ferr := x.keep(ctx, dir, folder, name, err == nil, rec)
	return errors.Join(err, ferr)
}

// client runs the benchmark client to its end. A client that does not end by
// itself is stopped.
func (x *run) client(ctx context.Context, s *server, c plan.Cell, rep int) (exit, error) {
	job := x.cmds.clientJob(c, rep)
	x.clientJob = job
	if err := x.finish(ctx, x.cmds.startClient(c, rep)); err != nil {
		return exit{}, err
	}
	wctx, cancel := context.WithCancelCause(ctx)
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
	budget := time.Duration(x.p.Params.ClientBudget()) * time.Second
	wctx, cancelBudget := context.WithTimeoutCause(wctx, budget, errBudget)
	defer cancelBudget()
	state, err := x.cmds.job(job).Wait(wctx, x.node)
	end := exitOf(state)
	if err == nil {
		x.clientJob = ""
		if end.Code != nil && *end.Code == 0 {
			return end, nil
		}
		return end, fmt.Errorf("the client ended with %s; its last lines:\n%s", end, x.logTail(ctx, path.Join(x.cmds.dir(c, rep), clientLog)))
	}
	switch {
	case ctx.Err() != nil:
		return end, ctx.Err() // teardown stops the client
	case errors.Is(context.Cause(wctx), errServer):
		if unreachable(s.err) {
			x.lost = s.err
			return end, s.err
		}
		err = fmt.Errorf("%w: it ended while the client ran: %s; last lines of its log:\n%s", errServer, s.died(), x.logTail(ctx, s.log))
	case errors.Is(context.Cause(wctx), errBudget):
		err = fmt.Errorf("the client did not end within %v (params.client_initial_wait_s + client_poll_count × client_poll_wait_time) and was stopped", budget)
	default:
		err = x.transport(ctx, x.cmds.wait("cell", job), err)
		if x.lost != nil {
			return end, err
		}
	}
	if serr := x.stopJob(ctx, "cell", job); serr != nil {
		x.abort = "a client could not be stopped"
		return end, errors.Join(err, serr)
	}
	x.clientJob = ""
	return end, err
}

// keep fetches what the client left. Only the artefact of a client that ended
// well is a result; anything else is kept under another name and kind, so that
// it is never read as one.
func (x *run) keep(ctx context.Context, dir *artifact.CellDir, folder, name string, whole bool, rec *artifact.Record) error {
	if x.lost != nil {
		return nil // the reason is already told
	}
	if ctx.Err() != nil { // interrupted: the logs are worth a moment
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
	}
	var errs []error
	var data bytes.Buffer
	s := x.cmds.fetch(path.Join(folder, name))
	res, err := x.node.Stream(ctx, command(s), &limited{w: &data, left: maxArtefact}, nil)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("fetching %s: %w", name, x.transport(ctx, s, err)))
		whole = false
	case res.ExitCode != 0 && whole:
		errs = append(errs, fmt.Errorf("the client ended well but left no %s", name))
	case res.ExitCode == 0:
		if whole {
			if err := x.understand(data.Bytes(), rec); err != nil {
				errs = append(errs, fmt.Errorf("%s is not whole: %w", name, err))
				whole = false
			}
		}
		if werr := x.write(dir, name, data.Bytes(), whole); werr != nil {
			return werr
		}
	}
	if err := x.keepLog(ctx, dir, "client.log", "client_log", path.Join(folder, clientLog)); err != nil {
		return err
	}
	if err := x.keepServerLog(ctx, dir); err != nil {
		return err
	}
	return errors.Join(errs...)
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
	if x.cmds.hide.has(data) {
		if err := x.warn("cell", "%s held a secret, which was taken out: it is not byte for byte as written", name); err != nil {
			return err
		}
		data = []byte(x.cmds.hide.json(string(data)))
	}
	kind, format := "result", x.cmds.drv.Format()
	if !whole {
		name, kind, format = name+".partial", "partial", ""
	}
	if _, err := dir.WriteFile(name, kind, format, bytes.NewReader(data)); err != nil {
		return &storeError{err}
	}
	return nil
}

func (x *run) keepServerLog(ctx context.Context, dir *artifact.CellDir) error {
	if x.server == nil || x.lost != nil {
		return nil
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
	}
	return x.keepLog(ctx, dir, "server.log", "server_log", x.server.log)
}

// keepLog keeps the end of a log. A log that is not there is not kept.
func (x *run) keepLog(ctx context.Context, dir *artifact.CellDir, name, kind, file string) error {
	res, err := x.do(ctx, x.cmds.tail("cell", file))
	if err != nil || res.ExitCode != 0 || len(res.Stdout) == 0 {
		return nil
	}
	text := x.cmds.hide.text(string(res.Stdout))
	if _, err := dir.WriteFile(name, kind, "", strings.NewReader(text)); err != nil {
		return &storeError{err}
	}
	return nil
}

// digest identifies what determines a cell's result: two measurements with equal
// digests asked for the same thing. The run's own paths are not part of it.
func (x *run) digest(c plan.Cell) (string, error) {
	proc, err := x.cmds.server()
	if err != nil {
		return "", err
	}
	image := x.image
	if image == "" {
		image = x.p.Container.Image
	}
	key, err := driver.SessionKey(image, proc)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(struct {
		Server string
		Client driver.Process
		Model  plan.Model
	}{key, x.cmds.drv.Client(x.p, c, ""), x.p.Model})
	if err != nil {
		return "", fmt.Errorf("configuration digest: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
