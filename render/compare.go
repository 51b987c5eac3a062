package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// A ComparedRow is one value beside another of an earlier or a reference run,
// as a view of the warehouse compared them.
type ComparedRow struct {
	CellKey    string
	Slot       string // host where several measured the cell, else ""
	Metric     string // "" for a cell that was not compared as a whole
	OtherRun   string // "" if there is none
	OtherAt    *time.Time
	Value      *float64
	Other      *float64
	Ratio      *float64 // Value / Other
	BetterPct  *float64 // change in per cent, + is better
	State      string   // compared, new, gone, not_comparable
	Reason     string
	Changed    bool     // beyond the view's limit
	Regression bool     // the same, to the worse
	NoisePct   *float64 // spread of earlier runs
	NoiseRuns  int
	Judgement  string                   // of view regressions: beyond the limit and beyond noise, or why not; "" without
	Repeats    *warehouse.RepeatTestRow // what the repeats of both runs tell; nil if nobody asked
}

// A LogTail is the end of one log of a cell.
type LogTail struct {
	CellKey string
	Name    string // of the file, e.g. "client.log"
	Text    string
	Cut     bool // the log is longer
}

// maxLog bounds what a deck shows of one cell's logs.
const maxLog = 64 << 10

// maxCompared bounds the rows of a comparison that a page shows in full.
const maxCompared = 5000

// comparisonFact is the change against other runs as one line.
func (b *builder) comparisonFact(label, section string, rows []ComparedRow) Field {
	f := Field{Label: label, Value: "not compared"}
	compared, worse, judged, regressions := 0, 0, 0, 0
	var worst *ComparedRow
	for i := range rows {
		r := &rows[i]
		if r.State != "compared" || r.BetterPct == nil {
			continue
		}
		compared++
		if r.Regression {
			worse++
		}
		switch r.Judgement {
		case "", "inconclusive":
		case "regression":
			judged++
			regressions++
		default:
			judged++
		}
		if worst == nil || *r.BetterPct < *worst.BetterPct {
			worst = r
		}
	}
	if b.d.Problems[section] != "" {
		f.Note, f.Href = "the comparison could not be read", section
		return f
	}
	if compared == 0 {
		for _, r := range rows {
			if f.Note = text(r.Reason); f.Note != "" {
				break
			}
		}
		return f
	}
	f.Href = section
	f.Value = fmt.Sprintf("%d of %s worse by over 5 %%", worse, plural(compared, "value"))
	if judged > 0 {
		f.Value = plural(regressions, "regression") + " beyond noise"
	}
	f.Note = "nothing changed to the worse"
	if *worst.BetterPct < 0 {
		f.Note = fmt.Sprintf("worst: %s %s, %s", percent(*worst.BetterPct), labelOf(worst.Metric), b.cellName(worst.CellKey))
	}
	switch {
	case section == "golden":
	case judged == 0:
		f.Note += "; too few earlier runs to tell it from noise"
	case worse > 0:
		f.Note += fmt.Sprintf("; %d worse by over 5 %%", worse)
	}
	// One number for all of it comes first where there is one.
	if m, ok := b.d.Means[meanKey(section, metric.Headline)]; ok && m.BetterPct != nil {
		change, how := meanWords(m)
		f.Note = "output throughput, " + how + "; " + f.Value + "; " + f.Note
		f.Value = change
	}
	return f
}

func (b *builder) cellName(key string) string {
	if c := b.by[key]; c != nil {
		return c.name
	}
	return text(key)
}

func (b *builder) previous() *Section {
	return b.compared(&Section{ID: "previous", Title: "Against the previous run", Queries: b.sql("SELECT * FROM prev_run WHERE run_id = %s"),
		Intro: "Every gated metric against the latest earlier run of equal identity; + is better. More than 5 % to the worse is marked; whether that is more than noise is said by the judgement, where there are enough earlier runs. Nothing here changes a gate."}, b.d.Prev, "Before")
}

// golden is nil where no baseline is pinned.
func (b *builder) golden() *Section {
	if len(b.d.Golden) == 0 && b.d.Problems["golden"] == "" {
		return nil
	}
	return b.compared(&Section{ID: "golden", Title: "Against the golden run", Queries: b.sql("SELECT * FROM golden WHERE run_id = %s"),
		Intro: "Every gated metric against the baseline that was pinned for this configuration; + is better."}, b.d.Golden, "Golden")
}

// changed lists what else differs from the previous run; nil where nothing was
// compared.
func (b *builder) changed() *Section {
	before := mostlyComparedWith(b.d.Prev)
	if before == "" && b.d.Problems["changed"] == "" {
		return nil
	}
	s := &Section{ID: "changed", Title: "What changed", Count: strconv.Itoa(len(b.d.Changed)), Queries: b.sql("SELECT * FROM what_changed(" + quoted(before) + ", %s)"),
		Intro: "What differs from run " + text(before) + " besides the results. A change in a number below may come from here."}
	if len(b.d.Changed) == 0 {
		s.Empty = "Nothing that is recorded."
		return s
	}
	s.Tables = []*Table{changedTable("changed-table", s.first(b.d.Changed))}
	return s
}

// maxChanged bounds the differences that a page shows; those of single cells, of
// which there may be thousands, come last but for thresholds.
const maxChanged = 300

// first are the differences to show, with a note on the rest.
func (s *Section) first(rows []warehouse.ChangedRow) []warehouse.ChangedRow {
	if len(rows) <= maxChanged {
		return rows
	}
	s.Notes = append(s.Notes, fmt.Sprintf("Shown are the first %d; the query below gives the rest.", maxChanged))
	return rows[:maxChanged]
}

func changedTable(id string, rows []warehouse.ChangedRow) *Table {
	t := &Table{ID: id, Caption: "What changed", Tall: true, Tools: true, Head: []Column{{Text: "Field"}, {Text: "Before"}, {Text: "Now"}}}
	side := func(field string, v *string) Cell {
		if v == nil {
			return Cell{Text: "not there", Class: "dim"}
		}
		if c := command(*v); c != "" && strings.HasSuffix(field, " command") {
			return Cell{Text: c, Class: "w mono"}
		}
		return Cell{Text: text(*v), Class: "w"}
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: text(r.Field), Class: "id"}, side(r.Field, r.Before), side(r.Field, r.After)}})
	}
	return t
}

func (b *builder) parity() *Section {
	return b.compared(&Section{ID: "parity", Title: "Framework parity", Queries: b.sql("SELECT * FROM framework_parity WHERE run_id = %s"),
		Intro: "The same cells served by another framework; + is better here than there."}, b.d.Parity, "Reference")
}

// compared is a panel of values beside others, the worst first.
func (b *builder) compared(s *Section, all []ComparedRow, other string) *Section {
	if len(all) == 0 {
		s.Empty = "Not compared."
		return s
	}
	rows := slices.Clone(all)
	if len(rows) == 1 && rows[0].CellKey == "" {
		// The view's way to say that nothing was compared, and why.
		s.Empty = "Not compared: " + text(rows[0].Reason) + "."
		return s
	}
	judged := slices.ContainsFunc(rows, func(r ComparedRow) bool { return r.Judgement != "" })
	tested, untested := repeatsOf(rows)
	order := func(r ComparedRow) int {
		switch {
		case r.Regression:
			return 0
		case r.State != "compared":
			return 1
		}
		return 2
	}
	better := func(r ComparedRow) float64 {
		if r.BetterPct == nil || !finite(*r.BetterPct) {
			return math.Inf(1)
		}
		return *r.BetterPct
	}
	slices.SortStableFunc(rows, func(x, y ComparedRow) int {
		return cmp.Or(order(x)-order(y), cmp.Compare(better(x), better(y)))
	})
	count := map[string]int{}
	worse, runs := 0, map[string]bool{}
	for _, r := range rows {
		count[r.State]++
		if r.Regression {
			worse++
		}
		if r.OtherRun != "" {
			runs[text(r.OtherRun)] = true
		}
	}
	if len(runs) == 1 {
		for id := range runs {
			s.Intro += " Compared with run " + id + "."
		}
	}
	var parts []string
	for _, state := range []string{"compared", "new", "gone", "no_reference", "only_reference", "not_comparable"} {
		if n := count[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(state, "_", " ")))
		}
	}
	s.Notes = append(s.Notes, strings.Join(parts, ", ")+"; "+strconv.Itoa(worse)+" more than 5 % worse.")
	s.Count = strconv.Itoa(worse)
	if count["compared"] == 0 {
		s.Count, s.Mark = "", &Mark{Class: "na", Word: "not compared"}
	}
	if b.large() || len(rows) > maxCompared {
		// Forty thousand unchanged values are not worth a page; nothing that
		// changed is left out.
		rows = slices.DeleteFunc(rows, func(r ComparedRow) bool {
			return r.State == "compared" && !r.Changed && r.Metric != metric.Headline
		})
		s.Notes = append(s.Notes, "Shown are all changes of more than 5 %, what was not compared, and the output throughput of every cell; the query below gives the rest.")
	}
	t := &Table{ID: s.ID + "-table", Caption: s.Title, Tall: true, Tools: true, Head: []Column{{Text: "State"}, {Text: "Cell"}, {Text: "Metric"}, {Text: other, Class: "n"}, {Text: "Now", Class: "n"},
		{Text: "Change", Title: "+ is better", Class: "n"}, {Text: "Ratio", Title: "now / " + strings.ToLower(other), Class: "n"}, {Text: "Noise", Title: "spread of earlier runs", Class: "n"}}}
	if judged {
		t.Head = append(t.Head, Column{Text: "Judgement"})
	}
	if tested {
		t.Head = append(t.Head, Column{Text: "Repeats", Title: "Welch's t-test on the repeats of both runs; q: Benjamini and Hochberg over the cells of a metric"})
		s.Notes = append(s.Notes, "Repeats tell one start of a server from another; that two releases differ, noise over many runs tells better.")
	} else if untested != "" {
		s.Notes = append(s.Notes, "The repeats of the two runs are not tested: "+untested+".")
	}
	t.Head = append(t.Head, Column{Text: "Reason"})
	for _, r := range rows {
		m := Mark{Class: "na", Word: strings.ReplaceAll(text(r.State), "_", " ")}
		switch {
		case r.Regression:
			m = Mark{Class: "warn", Word: "worse"}
		case r.State == "compared" && r.Changed:
			m = Mark{Class: "pass", Word: "better"}
		case r.State == "compared":
			m = Mark{Class: "info", Word: "within 5 %"}
		}
		where := Cell{Text: text(r.CellKey)}
		if c := b.by[r.CellKey]; c != nil {
			where = b.cellLink(c)
		}
		if r.Slot != "" {
			where.Small = text(r.Slot)
		}
		change, ratio, noise := Cell{Text: "—", Class: "n dim", HasRaw: true}, Cell{Text: "—", Class: "n dim", HasRaw: true}, Cell{Text: "—", Class: "n dim", HasRaw: true}
		if r.BetterPct != nil && finite(*r.BetterPct) {
			change = b.number(*r.BetterPct, percent(*r.BetterPct))
		}
		if r.Ratio != nil && finite(*r.Ratio) {
			ratio = b.number(*r.Ratio, grouped(*r.Ratio, 3))
		}
		if r.NoisePct != nil && finite(*r.NoisePct) {
			noise = b.number(*r.NoisePct, grouped(*r.NoisePct, 1)+" %")
			noise.Title = plural(r.NoiseRuns, "earlier run")
		}
		name := Cell{Text: "all", Class: "dim"}
		if r.Metric != "" {
			name = metricCell(r.Metric)
		}
		cells := []Cell{{Mark: &m}, where, name,
			metricValue(&warehouse.MetricRow{Metric: r.Metric, Unit: unitOf(r.Metric), Value: r.Other}, true), metricValue(&warehouse.MetricRow{Metric: r.Metric, Unit: unitOf(r.Metric), Value: r.Value}, true),
			change, ratio, noise}
		if judged {
			word := Cell{Text: orDash(text(r.Judgement))}
			if r.Judgement == "regression" {
				word = Cell{Mark: &Mark{Class: "fail", Word: "regression"}}
			}
			cells = append(cells, word)
		}
		if tested {
			cells = append(cells, b.repeatsCell(r.Repeats))
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: append(cells, Cell{Text: text(r.Reason), Class: "w"})})
	}
	s.Tables = []*Table{t}
	return s
}

// repeatsOf says whether the repeats of any value were tested or, of values with
// repeats, why none was.
func repeatsOf(rows []ComparedRow) (tested bool, why string) {
	for _, r := range rows {
		switch {
		case r.Repeats == nil:
		case r.Repeats.Q != nil:
			return true, ""
		case why == "":
			why = text(r.Repeats.Reason)
		}
	}
	return false, why
}

func (b *builder) repeatsCell(r *warehouse.RepeatTestRow) Cell {
	if r == nil || r.Q == nil {
		c := Cell{Text: "no test", Class: "dim", HasRaw: true}
		if r != nil {
			c.Title = text(r.Reason)
		}
		return c
	}
	q := "q < 0.001"
	if *r.Q >= 0.001 {
		q = "q = " + grouped(*r.Q, 3)
	}
	c := b.number(*r.Q, text(r.State)+", "+q)
	c.Class = ""
	return c
}

// scaling is nil on one node, where there is nothing to scale.
func (b *builder) scaling() *Section {
	if b.d.Run.NNodes < 2 && len(b.d.Scaling) == 0 && b.d.Problems["scaling"] == "" {
		return nil
	}
	s := &Section{ID: "scaling", Title: "Scaling", Queries: b.sql("SELECT * FROM scaling WHERE run_id = %s"),
		Intro: "Output throughput on all nodes against that of one node, times the nodes; 100 % is linear."}
	if len(b.d.Scaling) == 0 {
		s.Empty = "Not compared."
		return s
	}
	t := &Table{ID: "scaling-table", Caption: "Scaling", Tall: true, Tools: true, Head: []Column{{Text: "Cell"}, {Text: "Nodes", Class: "n"}, {Text: "All nodes", Unit: "tok/s", Class: "n"},
		{Text: "Configured baseline", Unit: "tok/s", Class: "n"}, {Text: "Efficiency", Unit: "%", Class: "n"}, {Text: "Measured on one node", Unit: "tok/s", Class: "n"}, {Text: "Efficiency", Unit: "%", Class: "n"}, {Text: "Single-node run"}, {Text: "Reason"}}}
	for _, r := range b.d.Scaling {
		where := Cell{Text: text(r.CellKey)}
		if c := b.by[r.CellKey]; c != nil {
			where = b.cellLink(c)
		}
		from := Cell{Text: orDash(text(r.SingleRun)), Small: text(r.SingleImage)}
		if r.SingleAgeDays != nil && finite(*r.SingleAgeDays) {
			from.Small = strings.TrimPrefix(from.Small+", "+grouped(*r.SingleAgeDays, 1)+" days older", ", ")
		}
		output := func(v *float64) Cell {
			return metricValue(&warehouse.MetricRow{Metric: metric.Headline, Value: v}, false)
		}
		efficiency := func(v *float64) Cell {
			return metricValue(&warehouse.MetricRow{Metric: metric.ScalingEfficiency, Value: v}, false)
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{where, whole(r.NNodes), output(r.OutputThroughput), output(r.ConfiguredBaseline), efficiency(r.ConfiguredPct),
			output(r.SingleThroughput), efficiency(r.SinglePct), from, {Text: text(r.Reason), Class: "w"}}})
	}
	s.Tables = []*Table{t}
	return s
}

// logs are the ends of the logs of cells that failed to run; nil without any.
func (b *builder) logs() *Section {
	s := &Section{ID: "logs", Title: "Logs of failed cells", Count: strconv.Itoa(len(b.d.Logs)), Queries: b.sql("SELECT * FROM attempt WHERE run_id = %s AND status <> 'done'"),
		Intro: "The ends of the logs, at most 64 KiB for each cell. The whole files are in the run directory."}
	if len(b.d.Logs) == 0 {
		lost := slices.ContainsFunc(b.cells, func(c *cell) bool { return c.State == warehouse.Error })
		if !lost && b.d.Problems["logs"] == "" {
			return nil
		}
		s.Count, s.Intro = "", ""
		if lost {
			s.Empty = "No log was at hand when this page was made."
			if dir := text(b.d.Run.Dir); dir != "" {
				s.Empty += " The run's own folder was " + dir + "."
			}
		}
		return s
	}
	used := map[string]int{}
	for _, l := range b.d.Logs {
		tail := l.Text
		if left := maxLog - used[l.CellKey]; len(tail) > left {
			tail = strings.ToValidUTF8(tail[len(tail)-left:], "")
			l.Cut = true
		}
		used[l.CellKey] += len(tail)
		if _, rest, whole := strings.Cut(tail, "\n"); l.Cut && whole && rest != "" {
			tail = rest // the first line is cut off
		}
		// A progress bar writes over its line; on paper each state is a line.
		tail = strings.ReplaceAll(strings.ReplaceAll(tail, "\r\n", "\n"), "\r", "\n")
		name := b.cellName(l.CellKey) + " · " + text(l.Name)
		if l.Cut {
			name += " (end)"
		}
		s.Logs = append(s.Logs, Field{Label: name, Value: visible(tail, true)})
	}
	return s
}
