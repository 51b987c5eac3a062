package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"cvs/collect"
	"cvs/collect/artifact"
)

// A progress shows a run while it happens: on a terminal one line that is
// rewritten and one that stays per cell, otherwise plain lines. All on stderr.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	tty   bool
	width int
	level int
	file  *os.File
	start time.Time
	now   func() time.Time
	open  bool // a rewritten line stands unfinished
}

var levels = map[string]int{"DEBUG": 0, "INFO": 1, "WARNING": 2, "ERROR": 3, "CRITICAL": 4}

func newProgress(e *env, o runOptions) (*progress, error) {
	level, ok := levels[strings.ToUpper(o.logLevel)]
	if o.logLevel == "" {
		level, ok = 1, true
	}
	if !ok {
		return nil, badInput("--log-level %s: want DEBUG, INFO, WARNING, ERROR or CRITICAL", o.logLevel)
	}
	if o.old.verbose > 0 {
		level = 0
	}
	p := &progress{out: e.stderr, level: level, now: e.now, start: e.now()}
	if f, ok := e.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.tty = true
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			p.width = w
		}
	}
	if o.logFile != "" {
		f, err := os.Create(o.logFile)
		if err != nil {
			return nil, badStore(err)
		}
		p.file = f
		p.out = io.MultiWriter(e.stderr, f)
	}
	return p, nil
}

func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
	if p.file != nil {
		p.file.Close()
	}
}

func (p *progress) endLine() {
	if p.open {
		fmt.Fprintln(p.out)
		p.open = false
	}
}

func (p *progress) stamp() string {
	d := p.now().Sub(p.start).Round(time.Second)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// line prints a line that stays.
func (p *progress) line(level int, text string) {
	if level < p.level {
		return
	}
	if p.tty && p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.open = false
	}
	fmt.Fprintf(p.out, "%s %s\n", p.stamp(), visible(text))
}

// passing shows a line that the next one may replace; where lines cannot be
// replaced, the one that tells how it ended is enough.
func (p *progress) passing(text string) {
	if !p.tty {
		p.line(0, text)
		return
	}
	if 1 < p.level {
		return
	}
	text = p.stamp() + " " + visible(text)
	if p.width > 4 && len(text) > p.width-1 {
		text = text[:p.width-1]
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	p.open = true
}

func (p *progress) warn(msg string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(2, "warning: "+msg)
}

func (p *progress) event(ev collect.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev.Kind {
	case collect.StageStarted:
		p.passing(joinWords(ev.Stage, ev.Host, ev.Cell, "…"))
	case collect.StageEnded:
		level, text := 0, joinWords(ev.Stage, ev.Host, ev.Cell, string(ev.Status), seconds(ev.Elapsed), ev.Message)
		switch {
		case ev.Status == artifact.Failed:
			level = 3
		case ev.Cell == "" || ev.Stage == "server_start":
			level = 1
		}
		p.line(level, text)
	case collect.CellStarted:
		p.passing(fmt.Sprintf("cell %d of %d  %s …", ev.Index, ev.Total, ev.Cell))
	case collect.CellEnded:
		level := 1
		if ev.Status != artifact.Done {
			level = 3
		}
		p.line(level, joinWords(fmt.Sprintf("cell %d of %d  %s", ev.Index, ev.Total, ev.Cell), string(ev.Status), seconds(ev.Elapsed), ev.Message))
	case collect.Warning:
		p.line(2, "warning: "+ev.Message)
	default:
		p.line(1, joinWords(ev.Stage, ev.Cell, ev.Message))
	}
}

func joinWords(parts ...string) string { return strings.Join(nonEmpty(parts...), "  ") }

func seconds(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// split prints where the time went: what was neither a server start nor a
// client is overhead of ours.
func (p *progress) split(s collect.Split) {
	if s.Cells == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	checks := ""
	if s.Checks > 0 {
		checks = fmt.Sprintf("%.1f s checks, ", s.Checks.Seconds())
	}
	p.line(1, fmt.Sprintf("time: %.1f s in all, %.1f s server start, %.1f s clients, %s%.1f s other (%.2f s a cell)",
		s.Wall.Seconds(), s.ServerStart.Seconds(), s.Client.Seconds(), checks, s.Idle().Seconds(), s.Idle().Seconds()/float64(s.Cells)))
}
