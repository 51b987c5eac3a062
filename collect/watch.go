package collect

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// lookEvery is how often logs are read on and signs of life are looked for.
// A look is one short command a node, beside the one that waits for the end.
const lookEvery = 10 * time.Second

// defaultIdle is how long a client may show no sign of life before it is taken
// for hung: nothing new in its log or the server's, and no processor time used.
// A benchmark under way receives tokens all the time.
const defaultIdle = 10 * time.Minute

// idleTicks is the processor time, in clock ticks of a hundredth of a second,
// that a hung client may still use between two looks, for timers of its runtime.
const idleTicks = 5

// telling are the lines that usually give the reason when a server or client
// fails (spec 02 §8.7). They decide nothing: optional imports that fail print
// some of them on every healthy start. The end of a process decides.
var telling = regexp.MustCompile(`(?i)Free memory on device.{0,80}less than desired|Engine core initialization failed|` +
	`RuntimeError:.*engine|SafetensorError|incomplete metadata|proc died unexpectedly|load model runner failed|` +
	`Failed to initialize all EngineCores|unexpected SHUTDOWN signal|WorkerProc failed to start|unrecognized arguments|` +
	`invalid choice|error: argument |out of memory|No space left on device|address already in use`)

// annotate is the first telling line of a log, or "".
func annotate(log string) string {
	for line := range strings.Lines(log) {
		if telling.MatchString(line) {
			return clip(strings.TrimSpace(line), 300)
		}
	}
	return ""
}

// readServerLogs reads on in every rank's log and notes telling lines, once each.
// It reports whether anything new was there.
func (x *run) readServerLogs(ctx context.Context, s *server) bool {
	fresh := false
	for _, r := range s.ranks {
		if !r.started || r.m.gone() != nil {
			continue
		}
		text := r.m.readLog(ctx, r.log, &r.next)
		fresh = fresh || text != ""
		if hint := annotate(text); hint != "" && hint != r.hint {
			r.hint = hint
			x.note("server", "the log of rank %d on %s says: %s", r.m.rank, r.m.host(), hint)
		}
	}
	return fresh
}

// readLog reads what was added to a log since the last time, at most a piece of
// it: the rest is left for the next time. It never fails a stage.
func (m *member) readLog(ctx context.Context, file string, next *int64) string {
	res, err := m.do(ctx, m.cmds.readOn(file, *next))
	if err != nil || res.ExitCode != 0 {
		return ""
	}
	*next += int64(len(res.Stdout))
	return string(res.Stdout)
}

// watchClient ends the wait for a client when the server ends, or when nothing
// has moved for too long. It returns what is closed once the watch is over.
func (x *run) watchClient(ctx context.Context, cancel context.CancelCauseFunc, s *server, job, log string) <-chan struct{} {
	over := make(chan struct{})
	idle := x.r.Options.Inactivity
	if idle <= 0 {
		idle = defaultIdle
	}
	every := min(lookEvery, max(idle/4, 100*time.Millisecond))
	go func() { // ends with ctx, which its owner cancels before waiting for it
		defer close(over)
		var next int64
		var ticks int64 = -1
		moved := x.r.Now()
		timer := time.NewTicker(every)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.done:
				cancel(errServer)
				return
			case <-timer.C:
			}
			m := x.head()
			fresh := m.readLog(ctx, log, &next) != ""
			fresh = x.readServerLogs(ctx, s) || fresh
			used, ok := m.cpuTicks(ctx, job)
			// What cannot be learned counts as a sign of life: the budget remains.
			if fresh || !ok || used-ticks > idleTicks || ticks < 0 {
				moved = x.r.Now()
			}
			if ok {
				ticks = used
			}
			if quiet := x.r.Now().Sub(moved); quiet >= idle {
				cancel(fmt.Errorf("%w for %v: its log and the server's did not grow, and it used no processor time", errIdle, quiet.Round(time.Second)))
				return
			}
		}
	}()
	return over
}

// cpuTicks is the processor time of a job's processes; false when unknown.
func (m *member) cpuTicks(ctx context.Context, job string) (int64, bool) {
	res, err := m.do(ctx, m.cmds.usage(job))
	if err != nil || res.ExitCode != 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(res.Stdout)), 10, 64)
	return n, err == nil
}
