package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/collect/container"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// What the platform said meanwhile: the kernel log of every node over the run's
// window, and the GPUs of every node during each client.

func noDmesg(x *run) string {
	if !x.p.Platform.DmesgScan {
		return silently
	}
	return ""
}

// markLog notes where the node's kernel log stands. A node where that fails is
// still measured; the scan then says why it saw nothing.
func (m *member) markLog(ctx context.Context) error {
	mark, err := check.MarkLog(ctx, runner{m}, m.cmds.docker.Sudo)
	if err == nil {
		if mark, err = m.earlierMark(mark); err != nil {
			return err
		}
	}
	m.mark, m.markErr = mark, err
	if err != nil && m.gone() != nil {
		return err
	}
	if err != nil && ctx.Err() == nil {
		return m.run.warn(taskDmesg, "the kernel log of %s cannot be marked: %v", m.host(), err)
	}
	return ctx.Err()
}

// lateScan bounds the scan of the kernel logs after an interruption.
const lateScan = 30 * time.Second

// reached reports whether some node's log has a beginning to scan from.
func (x *run) reached() bool {
	for _, m := range x.members {
		if !m.mark.Clock.Now.IsZero() {
			return true
		}
	}
	return false
}

// earlierMark keeps the mark, for an attempt that goes on with this run after it
// was killed. Where an attempt before this one was, and left no scan, the window
// begins where that one began.
func (m *member) earlierMark(mark check.Mark) (check.Mark, error) {
	e := m.run.earlier
	for n := 1; n <= e.attempts; n++ {
		if h, _ := e.evidence("dmesg", attemptName(m.host(), n)+".json"); h.Status == artifact.Done {
			m.logName = attemptName(m.host(), e.attempts+1) // what was found then stays
		}
	}
	var old check.MarkFile
	if f := e.checkFile("dmesg", m.markName()); f != nil && json.Unmarshal(f.Data, &old) == nil && old.Check == check.DmesgMark && !old.Scanned {
		m.markNote = "an attempt before this one left no scan: the window begins with it, and holds the time between"
		if !old.Mark.SameBoot(mark) {
			old.Mark.Last = ""
			m.markNote += "; the host was started again since, and its log of before is gone"
		}
		return old.Mark, nil
	}
	return mark, m.keepMark(mark, false)
}

func (m *member) markName() string { return m.host() + ".mark.json" }

func (m *member) keepMark(mark check.Mark, scanned bool) error {
	return m.run.keepCheck(check.MarkFile{Check: check.DmesgMark, Scanned: scanned, Mark: mark}, "dmesg", m.markName())
}

// attemptName tells the scans of several attempts apart.
func attemptName(host string, attempt int) string {
	if attempt <= 1 {
		return host
	}
	return host + ".attempt" + strconv.Itoa(attempt)
}

// scanLogs reads the kernel log of every node. What is found fails the stage of
// its node, never the run.
func (x *run) scanLogs(ctx context.Context) error {
	began := x.r.Now()
	defer func() { x.r.Split.Checks += x.r.Now().Sub(began) }()
	return x.each(func(m *member) error {
		err := x.record(ctx, artifact.Stage{Stage: taskDmesg, Host: m.host()}, m.scanLog)
		if isStore(err) {
			return err
		}
		return nil
	})
}

func (m *member) scanLog(ctx context.Context) error {
	var res check.DmesgResult
	var raw []byte
	why := m.markErr
	switch {
	case why != nil:
	case m.node == nil:
		why = errors.New("the node was never reached")
	case m.mark.Clock.Now.IsZero():
		why = errors.New("the log's state at the start of the run is not known")
	}
	if why != nil { // a log without a beginning would blame this run for older events
		now := m.run.r.Now().UTC()
		res = check.DmesgResult{Header: check.Header{Check: check.DmesgCheck, Version: check.Version, Status: artifact.Failed,
			Reason: "no window: " + why.Error(), StartedAt: now, EndedAt: now}, Host: m.host(), Events: []check.DmesgEvent{}, Records: []check.HardwareRecord{}}
	} else {
		res, raw = check.ScanLog(ctx, runner{m}, m.host(), m.cmds.docker.Sudo, m.mark, m.run.r.Now)
	}
	if m.markNote != "" {
		res.Note("%s", m.markNote)
	}
	name := m.logName
	if name == "" {
		name = m.host()
	}
	if len(raw) > 0 {
		if err := m.run.r.Store.WriteCheck([]byte(m.run.hide.text(string(raw))), "dmesg", name+".txt"); err != nil {
			return &storeError{err}
		}
	}
	if err := m.run.keepResult(ctx, &res.Header, &res, "dmesg", name+".json"); err != nil {
		return err
	}
	if err := m.keepMark(m.mark, true); err != nil {
		return err
	}
	if !res.Pass {
		return &finding{fmt.Sprintf("%d errors in the kernel log: %s", res.Errors, firstError(res))}
	}
	if res.Warnings > 0 {
		return m.run.warn(taskDmesg, "%d warnings in the kernel log of %s", res.Warnings, m.host())
	}
	return nil
}

// firstError is the first line that fails a scan.
func firstError(r check.DmesgResult) string {
	for _, rec := range r.Records {
		if rec.Severity == check.Error {
			return clip(rec.Head, 300)
		}
	}
	for _, e := range r.Events {
		if e.Severity == check.Error {
			return clip(e.Line, 300)
		}
	}
	return "none of them was kept"
}

// samplerWork is the sampler's folder, on the node itself. Its name is not one of
// [commands.workBase]: where container and node share /tmp, the ids in it are
// still the node's.
func (c *commands) samplerWork(cell plan.Cell, repeat int) string {
	return fmt.Sprintf("/tmp/cvs-gpu-%s-r%d-%d-%d-%d", c.id.RunID, c.rank, max(c.attempt, 1), cell.Ordinal, repeat)
}

func (c *commands) sampler(cell plan.Cell, repeat int) check.Sampler {
	return check.Sampler{Host: c.host, JobDir: c.samplerWork(cell, repeat) + "/job", Lease: lease}
}

func (c *commands) removeSamplerWork(cell plan.Cell, repeat int) Step {
	return c.plain(taskGPU, []string{"rm", "-rf", "--", c.samplerWork(cell, repeat)}, fileTimeout)
}

// pollGPUs begins to sample the GPUs of every node and returns what ends that and
// keeps the samples. Telemetry that is not to be had is a result of its own and
// never a reason not to measure.
func (x *run) pollGPUs(ctx context.Context, c plan.Cell, rep int) func() error {
	if !x.p.Platform.GPUMetricsPoll {
		return func() error { return nil }
	}
	samplings := make([]*check.Sampling, len(x.members))
	errs := make([]error, len(x.members))
	_ = x.each(func(m *member) error {
		// Not cut off by an interruption: what was started has to be known.
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		s := m.cmds.sampler(c, rep)
		s.Runner, s.Interval = runner{m}, x.r.Options.GPUInterval
		samplings[m.rank], errs[m.rank] = s.Start(sctx)
		return nil
	})
	return func() error {
		err := x.record(ctx, artifact.Stage{Stage: taskGPU, Cell: c.ID}, func(ctx context.Context) error {
			return x.endPoll(ctx, c, rep, samplings, errs)
		})
		if isStore(err) {
			return err
		}
		return nil
	}
}

// watchLoad looks at the head's GPUs before a server is started, where telemetry
// is asked for, and returns what keeps how much loading the model took.
func (x *run) watchLoad(ctx context.Context, session int) func(context.Context) error {
	if !x.p.Platform.GPUMetricsPoll {
		return func(context.Context) error { return nil }
	}
	m := x.head()
	w := check.WatchLoad(ctx, runner{m}, m.host(), session, x.r.Now)
	return func(ctx context.Context) error {
		r := w.Ready(ctx)
		return x.keepCheck(&r, "gpu", "model_load-"+strconv.Itoa(session)+".json")
	}
}

// endPoll stops the samplers, also after an interruption, and writes samples and
// summary.
func (x *run) endPoll(ctx context.Context, c plan.Cell, rep int, samplings []*check.Sampling, errs []error) error {
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fileTimeout)
	defer cancel()
	per := make([][]check.GPUSample, len(samplings))
	_ = x.each(func(m *member) error {
		if g := samplings[m.rank]; g != nil {
			if per[m.rank], errs[m.rank] = g.Stop(sctx); errs[m.rank] == nil {
				_, errs[m.rank] = m.must(sctx, m.cmds.removeSamplerWork(c, rep))
			}
		}
		return nil
	})
	var all []check.GPUSample
	for _, s := range per {
		all = append(all, s...)
	}
	lines, err := check.JSONL(all)
	if err != nil {
		return err
	}
	name := c.ID
	if rep > 1 {
		name += ".repeat" + strconv.Itoa(rep)
	}
	if err := x.r.Store.WriteCheck([]byte(x.hide.json(string(lines))), "gpu", name+".jsonl"); err != nil {
		return &storeError{err}
	}
	sum := check.Summarise(c.ID, all, errors.Join(errs...), x.r.Now().UTC())
	return x.keepResult(ctx, &sum.Header, &sum, "gpu", name+".json")
}

// The commands of the tasks, for a dry run.

func (c *commands) dmesgMark() []Step {
	return []Step{c.plain("dmesg_mark", check.ClockArgs(), time.Minute), c.plain("dmesg_mark", check.DmesgArgs(true), fileTimeout)}
}

func (c *commands) dmesgScan() []Step {
	return []Step{c.plain(taskDmesg, check.ClockArgs(), time.Minute), c.plain(taskDmesg, check.DmesgArgs(true), fileTimeout)}
}

func (c *commands) gpuSnapshot() Step {
	return c.plain("server_start", check.SnapshotArgs(), time.Minute)
}

func (c *commands) pollStart(cell plan.Cell) Step {
	return c.plain(taskGPU, c.sampler(cell, 1).Job().StartArgs(), probeTimeout)
}

func (c *commands) pollStop(cell plan.Cell) []Step {
	j := c.sampler(cell, 1).Job()
	return []Step{c.plain(taskGPU, j.KillArgs(5*time.Second), fileTimeout), c.plain(taskGPU, remote.FetchArgs(j.LogFile()), fileTimeout),
		c.plain(taskGPU, j.CleanArgs(), fileTimeout), c.removeSamplerWork(cell, 1)}
}

func (c *commands) plain(stage string, args []string, limit time.Duration) Step {
	return c.onHost(stage, container.Command{Args: args, Timeout: limit})
}
