package collect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/driver"
	"cvs/collect/plan"
)

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
			if rec, file := x.earlier.reusable(x, c, rep); rec != nil {
				if err := x.reuse(c, rep, n, total, rec, file); err != nil {
					return err
				}
				continue
			}
			if why != "" {
				if err := x.pass(artifact.Stage{Stage: "cell", Cell: c.ID}, artifact.Skipped, why); err != nil {
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
	case x.lostHost() != "":
		x.abort = "the connection to " + x.lostHost() + " was lost"
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
	rec := artifact.Record{CellKey: c.Key, CellID: c.ID, Repeat: rep, Host: x.head().host(),
		Driver: string(x.p.Params.Driver), StartedAt: &began, Status: artifact.Done}
	merr := x.bench(ctx, c, rep, dir, &rec)
	if merr != nil {
		if full := x.head().fullDisk(ctx, c, rep); full != "" {
			merr = fmt.Errorf("%w; %s", merr, full)
		}
	}
	ended := x.r.Now().UTC()
	rec.EndedAt = &ended
	if merr != nil {
		rec.Status, rec.Reason = artifact.Failed, x.hide.text(merr.Error())
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
		return errors.Join(err, x.keepServerLogs(ctx, dir))
	}
	s, m := x.server, x.head()
	folder := m.cmds.dir(c, rep)
	name := x.drv.Artefact(x.p)
	client := x.drv.Client(x.p, c, folder)
	rec.ClientArgv, rec.ServerArgv = x.hide.list(client.Args), x.hide.list(s.ranks[0].argv)
	rec.Workload = x.asked(c)
	rec.ServerSession, rec.Warm = s.session, s.served
	digest, err := x.digest(c)
	if err != nil {
		return err
	}
	rec.ConfigDigest = digest

	res, err := m.must(ctx, m.cmds.prepare("cell", folder, name, clientLog))
	if err != nil {
		return err
	}
	if old := strings.Fields(string(res.Stdout)); len(old) > 0 {
		x.note("cell", "older %s in %s set aside", strings.Join(old, " and "), folder)
	}
	s.served = true
	endPoll := x.pollGPUs(ctx, c, rep)
	var end exit
	err = x.record(ctx, artifact.Stage{Stage: "client", Cell: c.ID}, func(ctx context.Context) error {
		began := x.r.Now()
		defer func() { x.r.Split.Client += x.r.Now().Sub(began) }()
		var err error
		end, err = x.client(ctx, s, c, rep)
		return err
	})
	rec.ExitCode = end.Code
	perr := endPoll()
	ferr := x.keep(ctx, dir, folder, name, err == nil, rec)
	return errors.Join(err, perr, ferr)
}

// fullDisk says so if there is no room left where a cell's logs and artefact are
// written: then neither of them can tell.
func (m *member) fullDisk(ctx context.Context, c plan.Cell, rep int) string {
	if ctx.Err() != nil || m.node == nil || m.gone() != nil {
		return ""
	}
	dir := m.cmds.dir(c, rep)
	res, err := m.do(ctx, m.cmds.room(dir))
	free, perr := strconv.ParseInt(strings.TrimSpace(string(res.Stdout)), 10, 64)
	if err != nil || perr != nil || free >= smallDisk {
		return ""
	}
	return fmt.Sprintf("the disk of %s on %s is full (%d KiB free)", dir, m.host(), free)
}

// smallDisk is less room than the logs of one cell need, in KiB.
const smallDisk = 64

// digest identifies what determines a cell's result: two measurements with equal
// digests asked for the same thing. The run's own paths are not part of it.
func (x *run) digest(c plan.Cell) (string, error) {
	key, err := x.serverDigest()
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(struct {
		Server string
		Client driver.Process
		Model  plan.Model
	}{key, x.drv.Client(x.p, c, ""), x.p.Model})
	if err != nil {
		return "", fmt.Errorf("configuration digest: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// serverDigest identifies the server: image, arguments and environment.
func (x *run) serverDigest() (string, error) {
	proc, err := x.head().cmds.server(x.head().fabric)
	if err != nil {
		return "", err
	}
	image := x.head().digest
	if image == "" {
		image = x.p.Container.Image
	}
	return driver.SessionKey(image, proc)
}
