package render

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// The panels of what a run asked beside speed. Each is left out where there is
// nothing to say about it; what was asked for and did not come is said.

// What a [Source] may know of it.
type (
	telemetryKeeper interface {
		Telemetry(ctx context.Context, runID string) ([]warehouse.TelemetryRow, error)
	}
	needleKeeper interface {
		LongContext(ctx context.Context, runID string) ([]warehouse.LongContextRow, error)
	}
	draftKeeper interface {
		Drafts(ctx context.Context, runID string) ([]warehouse.DraftRow, error)
	}
	kernelListener interface {
		KernelEvents(ctx context.Context, runID string) ([]warehouse.KernelEventRow, error)
	}
	levelJudge interface {
		// ServiceLevel is the level that was asked about, in words and as macro slo
		// takes it, and how far each shape meets it; an empty level was not asked for.
		ServiceLevel(ctx context.Context, runID string) (level string, want []warehouse.Objective, rows []warehouse.SLORow, err error)
	}
)

// Quality are the rows of these panels.
type Quality struct {
	Telemetry []warehouse.TelemetryRow
	Needles   []warehouse.LongContextRow
	Drafts    []warehouse.DraftRow
	Kernel    []warehouse.KernelEventRow
	Level     string // a service level; "": none was asked about
	Want      []warehouse.Objective
	SLO       []warehouse.SLORow
}

// queryQuality asks for the panels' rows.
func (d *Data) queryQuality(ctx context.Context, src Source, runID string, may func(section string, err error) error) error {
	q := &d.Beside
	var err error
	if s, ok := src.(telemetryKeeper); ok {
		if q.Telemetry, err = s.Telemetry(ctx, runID); may("telemetry", err) != nil {
			return err
		}
	}
	if s, ok := src.(needleKeeper); ok {
		if q.Needles, err = s.LongContext(ctx, runID); may("needles", err) != nil {
			return err
		}
	}
	if s, ok := src.(draftKeeper); ok {
		if q.Drafts, err = s.Drafts(ctx, runID); may("drafts", err) != nil {
			return err
		}
	}
	if s, ok := src.(kernelListener); ok {
		if q.Kernel, err = s.KernelEvents(ctx, runID); may("kernel", err) != nil {
			return err
		}
	}
	if s, ok := src.(levelJudge); ok {
		if q.Level, q.Want, q.SLO, err = s.ServiceLevel(ctx, runID); may("slo", err) != nil {
			return err
		}
	}
	return nil
}

// failedPanel is a section that has only the reason why it has nothing else; nil
// where nothing went wrong.
func (b *builder) failedPanel(id, title string) *Section {
	if b.d.Problems[id] == "" {
		return nil
	}
	return &Section{ID: id, Title: title}
}

// checkMark is how the gates on a task stand, the worst of them.
func (b *builder) checkMark(scope, target, metric string) Mark {
	worst := -2
	out := Mark{Class: "na", Word: "no gate"}
	for _, c := range b.d.Checks {
		if c.Scope != scope || c.Target != target || metric != "" && c.Metric != metric {
			continue
		}
		if r := rank(c.State); worst == -2 || r < worst {
			worst, out = r, gateMark(&warehouse.GateRow{State: c.State, WouldFail: c.WouldFail, Reason: c.Reason})
		}
	}
	return out
}

func plainNumber(v *float64) Cell { return metricValue(&warehouse.MetricRow{Value: v}, false) }

// interval words a 95 % interval.
func interval(low, high *float64) Cell {
	if low == nil || high == nil {
		return Cell{Text: "—", Class: "n dim", Title: "no interval without a standard error", HasRaw: true}
	}
	both := exact(*low) + " to " + exact(*high)
	return Cell{Text: rounded("", *low) + " – " + rounded("", *high), Class: "n", Title: both, Raw: both, HasRaw: true}
}

// needles is the grid of prompt length and depth, and each cell of it.
func (b *builder) needles() *Section {
	rows := b.d.Beside.Needles
	if len(rows) == 0 {
		return b.failedPanel("needles", "Long context")
	}
	s := &Section{ID: "needles", Title: "Long context", Count: strconv.Itoa(len(rows)), Queries: b.sql("SELECT * FROM long_context WHERE run_id = %s"),
		Intro: "Needles found in prompts of exactly that many tokens, by the server's own count; depth 0 % is the start of the prompt. The interval is Wilson's, 95 %."}
	var lengths, depths []int
	for _, r := range rows {
		if r.PassRate == nil {
			continue
		}
		if !slices.Contains(lengths, r.ISL) {
			lengths = append(lengths, r.ISL)
		}
		if !slices.Contains(depths, r.DepthPct) {
			depths = append(depths, r.DepthPct)
		}
	}
	slices.Sort(lengths)
	slices.Sort(depths)
	if len(rows) > 1 && len(lengths) > 0 {
		grid := &Table{ID: "needles-grid", Title: "Pass rate by length and depth", Caption: "Pass rate by length and depth", Tools: true, Head: []Column{{Text: "Tokens", Class: "n"}}}
		for _, d := range depths {
			grid.Head = append(grid.Head, Column{Text: strconv.Itoa(d) + " %", Title: "depth of the needle"})
		}
		for _, n := range lengths {
			line := Row{Mark: Mark{Class: "info"}, Cells: []Cell{whole(n)}}
			for _, d := range depths {
				line.Cells = append(line.Cells, b.gridCell(rows, n, d))
			}
			grid.Rows = append(grid.Rows, line)
		}
		s.Tables = append(s.Tables, grid)
	}
	t := &Table{ID: "needles-table", Caption: "Long-context cells", Tools: true, Head: []Column{{Text: "Gate"}, {Text: "Cell"}, {Text: "Tokens", Class: "n"}, {Text: "Depth", Unit: "%", Class: "n"},
		{Text: "Found", Class: "n"}, {Text: "Pass rate", Class: "n"}, {Text: "95 % interval", Class: "n"}, {Text: "Evidence"}}}
	for _, r := range rows {
		m := b.checkMark("long_context_accuracy", r.TaskID, "")
		found := Cell{Text: fmt.Sprintf("%d of %d", r.Correct, r.Total), Class: "n"}
		if r.PassRate == nil {
			found = Cell{Text: strings.ReplaceAll(text(r.State), "_", " "), Class: "n dim", Title: text(r.Reason)}
		}
		depth := Cell{Text: strconv.Itoa(r.DepthPct), Class: "n"}
		if r.ISL == 0 {
			depth = Cell{Text: "—", Class: "n dim"}
		}
		path := text(r.Path)
		if r.Path == "" {
			path = text(r.Reason)
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: text(r.TaskID)}, whole(r.ISL), depth, found, plainNumber(r.PassRate), interval(r.CILow, r.CIHigh), {Text: orDash(path), Class: "w"}}})
	}
	s.Tables = append(s.Tables, t)
	return s
}

// gridCell words every measured cell of one length and depth.
func (b *builder) gridCell(rows []warehouse.LongContextRow, isl, depth int) Cell {
	var words []string
	c := Cell{Text: "—", Title: "not measured"}
	for _, r := range rows {
		if r.ISL != isl || r.DepthPct != depth || r.PassRate == nil {
			continue
		}
		words = append(words, fmt.Sprintf("%s (%d of %d)", rounded("", *r.PassRate), r.Correct, r.Total))
		if m := b.checkMark("long_context_accuracy", r.TaskID, ""); c.Mark == nil || m.Class == "fail" {
			c.Mark = &m
		}
	}
	if words != nil {
		c.Text, c.Title = " "+strings.Join(words, ", "), ""
	}
	return c
}

// drafts is what the checks of speculative decoding found.
func (b *builder) drafts() *Section {
	rows := b.d.Beside.Drafts
	if len(rows) == 0 {
		return b.failedPanel("drafts", "Speculative decoding")
	}
	s := &Section{ID: "drafts", Title: "Speculative decoding", Queries: b.sql("SELECT * FROM check_result WHERE run_id = %s AND scope = 'mtp_quality'"),
		Intro: "How far drafts were accepted, whether real answers were empty or repeated themselves, and whether the chat template is the expected one."}
	t := &Table{ID: "drafts-table", Caption: "Checks of speculative decoding", Tools: true, Head: []Column{{Text: "Gate"}, {Text: "Metric"}, {Text: "Value", Class: "n"}, {Text: "Note"}, {Text: "Evidence"}}}
	for _, r := range rows {
		if r.Metric == "" {
			if r.Status != "done" {
				s.Notes = append(s.Notes, "The check ended as "+text(r.Status)+": "+text(r.Detail))
			}
			continue
		}
		m := b.checkMark("mtp_quality", "mtp_quality", r.Metric)
		v := plainNumber(r.Value)
		if r.Value == nil && r.Text != "" {
			v = Cell{Text: text(r.Text), Class: "id"}
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Mark: &m}, metricCell(r.Metric), v, {Text: orDash(text(r.Detail)), Class: "w"}, {Text: text(r.Path), Class: "id"}}})
	}
	if t.Rows != nil {
		s.Tables = []*Table{t}
	}
	return s
}

// telemetry is one strip of power a cell, with what else the GPUs reported.
func (b *builder) telemetry() *Section {
	rows := b.d.Beside.Telemetry
	if !slices.ContainsFunc(rows, func(r warehouse.TelemetryRow) bool { return r.State != "not_requested" }) {
		return b.failedPanel("telemetry", "GPU telemetry")
	}
	s := &Section{ID: "telemetry", Title: "GPU telemetry", Count: strconv.Itoa(len(rows)), Queries: b.sql("SELECT * FROM gpu_telemetry WHERE run_id = %s", "SELECT * FROM gpu_point WHERE run_id = %s"),
		Intro: "Sampled by amd-smi on the hosts while the client ran. The strip is the power of all GPUs over the cell's time, from zero; power and energy are sums over every GPU of the hosts, idle ones included."}
	if b.large() {
		s.Intro += " In a deck of this size strips are drawn where a limit was violated or samples are missing; exact values are in the cards."
	}
	t := &Table{ID: "telemetry-table", Caption: "GPU telemetry", Tall: true, Tools: true, Head: []Column{{Text: "Cell"}, {Text: "State"}, {Text: "Power", Class: "barcell"}}}
	for _, c := range telemetryColumns {
		t.Head = append(t.Head, Column{Text: c.head, Unit: unitOf(c.name), Title: c.name, Class: "n"})
	}
	t.Head = append(t.Head, Column{Text: "Note"})
	for i := range rows {
		t.Rows = append(t.Rows, b.telemetryRow(&rows[i]))
	}
	s.Tables = []*Table{t}
	return s
}

// telemetryColumns are the numbers of the telemetry table.
var telemetryColumns = []struct {
	name, head string
	value      func(*warehouse.TelemetryRow) *float64
}{
	{"gpu.mean_power_w", "Mean", func(r *warehouse.TelemetryRow) *float64 { return r.MeanPowerW }},
	{"gpu.peak_power_w", "Peak", func(r *warehouse.TelemetryRow) *float64 { return r.PeakPowerW }},
	{"gpu.energy_j", "Energy", func(r *warehouse.TelemetryRow) *float64 { return r.EnergyJ }},
	{metric.TokensPerJoule, "Output", nil}, // of the cell, not of a repeat
	{"gpu.peak_hotspot_c", "Hottest", func(r *warehouse.TelemetryRow) *float64 { return r.PeakHotspotC }},
	{"gpu.mean_gfx_mhz", "Clock", func(r *warehouse.TelemetryRow) *float64 { return r.MeanGFXMHz }},
	{"gpu.peak_gpu_memory_mb", "Memory", func(r *warehouse.TelemetryRow) *float64 { return r.PeakVRAMMB }},
	{"gpu.gpu_compute_util_pct", "Compute", func(r *warehouse.TelemetryRow) *float64 { return r.MeanGFXPct }},
	{"gpu.throttled_pct", "Throttled", func(r *warehouse.TelemetryRow) *float64 { return r.ThrottledPct }},
}

func (b *builder) telemetryRow(r *warehouse.TelemetryRow) Row {
	m, c := telemetryMark(r), b.by[r.CellKey]
	name, strip := Cell{Text: orDash(text(r.CellID))}, Cell{Class: "barcell"}
	if c != nil {
		name = b.cellLink(c)
	}
	if r.Repeat > 1 {
		name.Small = "repeat " + strconv.Itoa(r.Repeat)
	}
	if !b.large() || m.Class != "info" {
		strip.Spark = powerStrip(r)
	}
	row := Row{Mark: m, Cells: []Cell{name, {Mark: &m}, strip}}
	for _, col := range telemetryColumns {
		v := Cell{Text: "—", Class: "n dim", HasRaw: true}
		switch {
		case col.value != nil:
			v = metricValue(&warehouse.MetricRow{Metric: col.name, Value: col.value(r)}, false)
		case c != nil && c.metric(col.name).Value != nil:
			v = metricValue(c.metric(col.name), false)
		default:
			v.Title = text(r.Unpriced)
		}
		if b.large() && v.HasRaw && v.Raw != "" {
			v.HasRaw, v.Title = false, ""
		}
		row.Cells = append(row.Cells, v)
	}
	note := text(r.Reason)
	if r.Limits != "" {
		note = strings.TrimPrefix(note+"; limits violated: "+text(r.Limits), "; ")
	}
	row.Cells = append(row.Cells, Cell{Text: note, Class: "w"})
	return row
}

func telemetryMark(r *warehouse.TelemetryRow) Mark {
	m := Mark{Class: "info", Word: strings.ReplaceAll(text(r.State), "_", " "), Title: text(r.Reason)}
	switch {
	case r.State == "sampled" && r.ThrottledPct != nil && *r.ThrottledPct > 0:
		m.Class, m.Word = "warn", "throttled"
	case r.State == "partial":
		m.Class = "warn"
	case r.State != "sampled":
		m.Class = "skipped"
	}
	return m
}

// powerStrip is the course of a cell's power, in at most sixty points; nil without
// any.
func powerStrip(r *warehouse.TelemetryRow) *Spark {
	var values []*float64
	for i := 0; i < len(r.Power); i += max((len(r.Power)+59)/60, 1) {
		values = append(values, &r.Power[i])
	}
	s := spark(values)
	if s != nil {
		if len(values) > 1 {
			s.Dot = "" // what ends is the cell, not a history
		}
		s.Label = "power of all GPUs over the cell"
		if r.MeanPowerW != nil {
			s.Label += fmt.Sprintf(", mean %s W", rounded("gpu.mean_power_w", *r.MeanPowerW))
		}
	}
	return s
}

// maxKernelRows bounds the excerpt on the page.
const maxKernelRows = 100

// kernel is what the kernel logs said meanwhile.
func (b *builder) kernel() *Section {
	rows := b.d.Beside.Kernel
	if len(rows) == 0 {
		return b.failedPanel("kernel", "Kernel log")
	}
	s := &Section{ID: "kernel", Title: "Kernel log", Count: strconv.Itoa(len(rows)), Queries: b.sql("SELECT * FROM kernel_event WHERE run_id = %s"),
		Intro: "Lines of the hosts' kernel logs, within the run's window by each host's own clock, that mean something. The whole logs are in checks/dmesg."}
	m := b.checkMark("platform", "dmesg_scan", "")
	s.Mark = &m
	if len(rows) > maxKernelRows {
		s.Notes = append(s.Notes, fmt.Sprintf("The first %d of %d lines; errors come first.", maxKernelRows, len(rows)))
		rows = rows[:maxKernelRows]
	}
	t := &Table{ID: "kernel-table", Caption: "Kernel log", Tall: true, Tools: true, Head: []Column{{Text: "Severity"}, {Text: "Host"}, {Text: "When"}, {Text: "Kind"}, {Text: "Times", Class: "n"}, {Text: "Line"}}}
	for _, r := range rows {
		m := Mark{Class: "warn", Word: orDash(text(r.Severity))}
		if r.Severity == "error" {
			m.Class = "fail"
		}
		when := "—"
		if r.At != nil {
			when = instant(*r.At)
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: text(r.Host)}, {Text: when}, {Text: strings.ReplaceAll(text(r.Source), "_", " ")}, {Text: strconv.Itoa(r.Times), Class: "n"}, {Text: text(r.Line), Class: "w id"}}})
	}
	s.Tables = []*Table{t}
	return s
}
