package check

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/remote"
)

// A Mark is where a host's kernel log stood before a run.
type Mark struct {
	Clock HostClock
	// Last is the last line of the log at that time, "" if there was none. What
	// comes behind it is new whatever the stamps say: the kernel's stamps drift from
	// the host's clock by seconds a month.
	Last string
}

// DmesgMark is what a [MarkFile] calls itself.
const DmesgMark = "dmesg_mark"

// A MarkFile is checks/dmesg/<host>.mark.json: where the log stood, for an
// attempt that goes on with a run that was killed.
type MarkFile struct {
	Check   string `json:"check"`
	Scanned bool   `json:"scanned"` // the window that begins here was scanned
	Mark    Mark   `json:"mark"`
}

// SameBoot reports whether two marks were made while the host was up. The start of
// a host is computed from two clocks, which drift.
func (m Mark) SameBoot(other Mark) bool {
	a, b := m.Clock.Boot, other.Clock.Boot
	return a.IsZero() || b.IsZero() || a.Sub(b).Abs() < 2*time.Minute
}

// A DmesgResult is checks/dmesg/<host>.json (INF-6). Pass is Errors == 0 in a log
// that could be read. The log itself, as it was read, is the .txt beside it.
type DmesgResult struct {
	Header
	Host   string `json:"host"`
	Source string `json:"source,omitempty"` // dmesg or journalctl
	// From and To bound the window by the host's own clock; By says how its start
	// was found: position (behind the last line that was there before) or time.
	From     *time.Time       `json:"from,omitempty"`
	To       *time.Time       `json:"to,omitempty"`
	By       string           `json:"by,omitempty"`
	Lines    int              `json:"lines"`              // read
	InWindow int              `json:"lines_in_window"`    // of those read
	NoTime   int              `json:"lines_without_time"` // likewise; they take the time of the line before
	Errors   int              `json:"errors"`             // events, hardware records counted once each
	Warnings int              `json:"warnings"`
	Pass     bool             `json:"pass"`
	Events   []DmesgEvent     `json:"events"`  // in log order, at most 500
	Dropped  int              `json:"dropped"` // events beyond those
	Records  []HardwareRecord `json:"records"` // lines of one hardware error, by its id
}

// A DmesgEvent is one line that means something. Equal messages that follow each
// other count as one event with their number.
type DmesgEvent struct {
	Time     *time.Time `json:"time,omitempty"`
	Level    string     `json:"level,omitempty"` // of the kernel, where the log says it
	Group    string     `json:"group"`
	Severity Severity   `json:"severity"`
	Count    int        `json:"count"`
	Line     string     `json:"line"` // as read; at most 1 KiB
	msg      string
}

// A HardwareRecord is one hardware error told in many lines, which share the id in
// braces but may name other PCI addresses.
type HardwareRecord struct {
	ID        int        `json:"id"`
	Source    string     `json:"source"` // amdgpu, or firmware (APEI)
	Time      *time.Time `json:"time,omitempty"`
	Severity  Severity   `json:"severity"`
	Head      string     `json:"head"`                // the line that says what happened
	Addresses []string   `json:"addresses,omitempty"` // PCI addresses, as first mentioned
	Lines     []string   `json:"lines"`               // all of it, at most 100, each at most 1 KiB
	Dropped   int        `json:"dropped,omitempty"`   // lines beyond those
}

const (
	maxEvents      = 500
	maxRecords     = 200
	maxRecordLines = 100
	maxLine        = 1 << 10
	maxKernelLog   = 64 << 20
	windowSlack    = 2 * time.Second // stamps are whole seconds in some forms
	// recordGap parts two hardware errors with the same id: firmware counts again
	// from one after a restart of the log's writer.
	recordGap = 10 * time.Minute
)

// DmesgArgs reads the kernel log with levels and stamps.
func DmesgArgs(sudo bool) []string {
	return withSudo(sudo, "dmesg", "--time-format", "iso", "-x")
}

// JournalArgs reads it from the journal instead, for hosts whose dmesg is too old
// or not allowed. Since is a time of the host.
func JournalArgs(sudo bool, since time.Time) []string {
	return withSudo(sudo, "journalctl", "-k", "-q", "--no-pager", "-o", "short-iso", "--since", "@"+strconv.FormatInt(since.Unix(), 10))
}

func withSudo(sudo bool, args ...string) []string {
	if sudo {
		return append([]string{"sudo", "-n"}, args...)
	}
	return args
}

// MarkLog notes where the log stands now. It needs the clock; a log that cannot be
// read yet leaves Last empty, and [ScanLog] will tell.
func MarkLog(ctx context.Context, r Runner, sudo bool) (Mark, error) {
	out, err := mustRun(ctx, r, "clock", remote.Command{Args: ClockArgs(), Timeout: time.Minute, Name: "clock"})
	if err != nil {
		return Mark{}, err
	}
	var m Mark
	if m.Clock, err = ParseClock(string(out)); err != nil {
		return Mark{}, fmt.Errorf("clock: %w", err)
	}
	res, err := r.Run(ctx, remote.Command{Args: DmesgArgs(sudo), Timeout: 2 * time.Minute, MaxOutput: maxKernelLog, Name: "kernel log"})
	if err != nil {
		return Mark{}, fmt.Errorf("kernel log: %w", err)
	}
	if res.ExitCode == 0 && !res.Truncated {
		lines := logLines(string(res.Stdout))
		if len(lines) > 0 {
			m.Last = lines[len(lines)-1]
		}
	}
	return m, nil
}

// ScanLog reads the log of a host and reports what came since the mark. Raw is the
// log as read, for the .txt. A log that cannot be read is a failed check, never a
// clean one.
func ScanLog(ctx context.Context, r Runner, host string, sudo bool, m Mark, now func() time.Time) (res DmesgResult, raw []byte) {
	s := Server{Now: now}
	h := s.begin(DmesgCheck)
	fail := func(err error) (DmesgResult, []byte) {
		out := DmesgResult{Header: h, Host: host, Events: []DmesgEvent{}, Records: []HardwareRecord{}}
		out.fail(err)
		s.end(ctx, &out.Header)
		return out, raw
	}
	clockText, err := mustRun(ctx, r, "clock", remote.Command{Args: ClockArgs(), Timeout: time.Minute, Name: "clock"})
	if err != nil {
		return fail(err)
	}
	end, err := ParseClock(string(clockText))
	if err != nil {
		return fail(fmt.Errorf("clock: %w", err))
	}
	source := "dmesg"
	raw, err = mustRun(ctx, r, "dmesg", remote.Command{Args: DmesgArgs(sudo), Timeout: 2 * time.Minute, MaxOutput: maxKernelLog, Name: "dmesg"})
	if err != nil && ctx.Err() == nil {
		h.note("%v; read from the journal, which does not say levels", err)
		source = "journalctl"
		var jerr error
		raw, jerr = mustRun(ctx, r, source, remote.Command{Args: JournalArgs(sudo, m.Clock.Now.Add(-windowSlack)), Timeout: 2 * time.Minute, MaxOutput: maxKernelLog, Name: source})
		if jerr == nil {
			err = nil
		} else {
			err = errors.Join(err, jerr)
		}
	}
	if err != nil {
		return fail(fmt.Errorf("the kernel log could not be read: %w", err))
	}
	res = ScanText(string(raw), m, end)
	res.StartedAt, res.Host, res.Source = h.StartedAt, host, source
	res.Notes = append(h.Notes, res.Notes...)
	s.end(ctx, &res.Header)
	return res, raw
}

func logLines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
}

// ScanText scans a kernel log from a mark to a clock reading. A mark without clock
// takes the log from its beginning.
func ScanText(text string, m Mark, end HostClock) DmesgResult {
	r := DmesgResult{Header: Header{Check: DmesgCheck, Version: Version, Status: artifact.Done}, Events: []DmesgEvent{}, Records: []HardwareRecord{}, By: "time"}
	if !m.Clock.Now.IsZero() {
		r.From = &m.Clock.Now
	}
	if !end.Now.IsZero() {
		r.To = &end.Now
	}
	lines := logLines(text)
	r.Lines = len(lines)
	first := 0
	if i := lastIndex(lines, m.Last); m.Last != "" && i >= 0 {
		first, r.By = i+1, "position"
	}
	if len(lines) == 0 {
		r.note("the kernel log is empty")
	}
	open := map[string]*recordBuilder{}
	var all []*recordBuilder
	var before time.Time
	for i, raw := range lines {
		k := parseLine(raw, end)
		if k.time.IsZero() {
			k.time = before
			r.NoTime++
		}
		before = k.time
		if !r.inside(i >= first, k, m, end) {
			continue
		}
		r.InWindow++
		group, severity, ok := classify(k)
		if b := recordOf(open, &all, k); b != nil {
			b.add(k, severity, ok)
			continue
		}
		if ok {
			r.add(k, group, severity)
		}
	}
	for _, b := range all {
		if !b.event {
			continue
		}
		r.count(b.Severity)
		if len(r.Records) < maxRecords {
			r.Records = append(r.Records, b.HardwareRecord)
		} else {
			r.Dropped++
		}
	}
	r.Pass = r.Errors == 0
	return r
}

// inside reports whether a line belongs to the window.
func (r *DmesgResult) inside(behind bool, k kline, m Mark, end HostClock) bool {
	switch {
	case r.By == "position":
		return behind
	case k.time.IsZero():
		// Nothing is known about it: only a window without a start takes it.
		return r.From == nil
	case r.From != nil && k.time.Before(m.Clock.Now.Add(-windowSlack)):
		return false
	}
	return r.To == nil || !k.time.After(end.Now.Add(windowSlack))
}

func lastIndex(lines []string, want string) int {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i] == want {
			return i
		}
	}
	return -1
}

func (r *DmesgResult) count(s Severity) {
	if s == Error {
		r.Errors++
	} else {
		r.Warnings++
	}
}

func (r *DmesgResult) add(k kline, group string, s Severity) {
	if n := len(r.Events); n > 0 && r.Events[n-1].msg == k.msg && r.Events[n-1].Group == group {
		r.Events[n-1].Count++
		return
	}
	r.count(s)
	if len(r.Events) >= maxEvents {
		r.Dropped++
		return
	}
	r.Events = append(r.Events, DmesgEvent{Time: stamp(k.time), Level: k.level, Group: group, Severity: s, Count: 1, Line: clip(k.raw, maxLine), msg: k.msg})
}

func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

var (
	recordID   = regexp.MustCompile(`\{(\d{1,9})\} ?(.*)$`)
	pciAddress = regexp.MustCompile(`\b[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b`)
)

// A recordBuilder gathers the lines of one hardware error.
type recordBuilder struct {
	HardwareRecord
	event  bool // one of its lines means something
	headed bool // Head is a headline
	last   time.Time
}

// recordOf finds or opens the record that a line belongs to; nil for a line that
// belongs to none. Id and source tell records apart: firmware and driver count by
// themselves. A driver's record is opened by the line that is no detail.
func recordOf(open map[string]*recordBuilder, all *[]*recordBuilder, k kline) *recordBuilder {
	m := recordID.FindStringSubmatch(k.msg)
	if m == nil || !strings.Contains(k.msg, "[Hardware Error]") && !strings.Contains(strings.ToLower(m[2]), "hardware error") {
		return nil
	}
	id, err := strconv.Atoi(m[1])
	if err != nil {
		return nil
	}
	source := "firmware"
	if strings.Contains(k.msg, "amdgpu") {
		source = "amdgpu"
	}
	key := source + m[1]
	b := open[key]
	if b == nil || !k.time.IsZero() && !b.last.IsZero() && k.time.Sub(b.last) > recordGap {
		b = &recordBuilder{HardwareRecord: HardwareRecord{ID: id, Source: source, Time: stamp(k.time), Severity: Warning, Head: clip(k.raw, maxLine), Lines: []string{}}}
		open[key] = b
		*all = append(*all, b)
	}
	return b
}

// add takes a line into the record. A record is as bad as its first line that
// says so; "corrected" anywhere in the details of an otherwise unknown record
// leaves it a warning.
func (b *recordBuilder) add(k kline, s Severity, ok bool) {
	if !k.time.IsZero() {
		b.last = k.time
	}
	text := strings.ToLower(k.msg)
	detail := strings.Contains(text, "[hardware error]")
	switch {
	case ok && !detail: // the driver's headline decides, the worst of several
		if !b.headed || s == Error && b.Severity != Error {
			b.event, b.headed, b.Severity, b.Head = true, true, s, clip(k.raw, maxLine)
		}
	case b.headed:
	case strings.Contains(text, "event severity: corrected"), strings.Contains(text, "corrected error"):
		b.event, b.Severity = true, Warning
	case ok && !b.event:
		b.event, b.Severity = true, s
	case strings.Contains(text, "event severity: ") && !strings.Contains(text, "info"):
		b.Severity = Error
	}
	for _, a := range pciAddress.FindAllString(k.msg, -1) {
		if !slices.Contains(b.Addresses, a) && len(b.Addresses) < 64 {
			b.Addresses = append(b.Addresses, a)
		}
	}
	if len(b.Lines) >= maxRecordLines {
		b.Dropped++
		return
	}
	b.Lines = append(b.Lines, clip(k.raw, maxLine))
}
