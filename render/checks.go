package render

import (
	"slices"
	"strconv"
	"strings"

	"cvs/warehouse"
)

// checkGates are the specs on accuracy and other tasks in the shape of gates,
// so that they are counted and ranked with them; the task stands for the cell.
func checkGates(checks []warehouse.CheckGateRow) []warehouse.GateRow {
	var out []warehouse.GateRow
	for _, c := range checks {
		name := c.Metric
		if name == "" {
			// What a check asserts by itself is a gate too: an API that does not
			// answer, an error in a kernel log. What only ran, or did not, is none.
			if c.State != warehouse.Pass && !bad(c.State) {
				continue
			}
			name = c.Target
		}
		out = append(out, warehouse.GateRow{
			CellID: checkName(c.Scope, c.Target), Tier: c.Scope, Metric: name, Kind: c.Kind, Wanted: c.Wanted, TolerancePct: c.TolerancePct,
			Reference: c.Reference, Got: c.Got, GotText: c.GotText, Bound: c.Bound, State: c.State, WouldFail: c.WouldFail, Reason: c.Reason,
			MarginPct: c.MarginPct, File: c.File, Line: c.Line, Waiver: c.Waiver,
		})
	}
	return out
}

// checkName names a check by its kind and, where that says more, its target.
func checkName(scope, target string) string {
	if target == scope || target == "" {
		return scope
	}
	return scope + " " + target
}

// checks are the gates of everything that is not a cell.
func (b *builder) checks() *Section {
	rows := checkGates(b.d.Checks)
	if len(rows) == 0 {
		return nil
	}
	s := &Section{ID: "checks", Title: "Accuracy and other checks", Count: strconv.Itoa(len(rows)), Queries: b.sql("SELECT * FROM check_gates WHERE run_id = %s"),
		Intro: "Gates on what is not a sweep cell. They count for the verdict like any other."}
	t := &Table{ID: "checks-table", Caption: "Gates of accuracy and other checks", Tall: true, Tools: true,
		Head: append(gateHead(), Column{Text: "Task"}, Column{Text: "Threshold"}, Column{Text: "Reason"})}
	// Where one file sets them all, its name need not take the reasons' room.
	files := map[string]bool{}
	for _, g := range rows {
		if g.File != "" {
			files[g.File] = true
		}
	}
	if len(files) == 1 {
		for f := range files {
			s.Intro += " The thresholds are set in " + text(f) + "."
		}
		t.Head[len(t.Head)-2] = Column{Text: "Line", Class: "n"}
	}
	slices.SortStableFunc(rows, func(x, y warehouse.GateRow) int { return rank(x.State) - rank(y.State) })
	for i := range rows {
		g := &rows[i]
		t.Rows = append(t.Rows, Row{Mark: gateMark(g), Cells: append(gateCells(g), Cell{Text: text(g.CellID)}, thresholdCell(g, len(files) == 1), Cell{Text: text(g.Reason), Class: "w"})})
	}
	s.Tables = []*Table{t}
	return s
}

// accuracy is what lm-eval measured, judged or not.
func (b *builder) accuracy() *Section {
	if len(b.d.Accuracy) == 0 && b.d.Problems["accuracy"] == "" {
		return nil
	}
	s := &Section{ID: "accuracy", Title: "Accuracy", Count: strconv.Itoa(len(b.d.Accuracy)), Queries: b.sql("SELECT * FROM accuracy WHERE run_id = %s"),
		Intro: "Everything lm-eval reported, as it reported it: nothing is scaled between fractions and per cent."}
	t := &Table{ID: "accuracy-table", Caption: "Accuracy", Tall: true, Tools: true, Head: []Column{{Text: "Task"}, {Text: "Metric"}, {Text: "Value", Class: "n"}, {Text: "Standard error", Class: "n"}, {Text: "95 % interval", Title: "value ± 1.96 standard errors", Class: "n"}, {Text: "Better"}, {Text: "File"}}}
	other := 0
	for _, a := range b.d.Accuracy {
		if a.Unreported {
			other++
			continue
		}
		v := metricValue(&warehouse.MetricRow{Value: a.Value, Text: a.Text}, false)
		stderr := metricValue(&warehouse.MetricRow{Value: a.StdErr}, false)
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: text(a.TaskID)}, {Text: text(a.Metric), Class: "id"}, v, stderr, interval(a.CILow, a.CIHigh), {Text: orDash(text(a.Direction))}, {Text: text(a.Path), Class: "id"}}})
	}
	if t.Rows != nil {
		s.Tables = []*Table{t}
	}
	if other > 0 {
		s.Count = strconv.Itoa(len(t.Rows))
		s.Notes = append(s.Notes, plural(other, "value")+" of other filters than the tasks select (metadata.filter) are left out here, not in the warehouse.")
	}
	if prev := b.accuracyPrev(); prev != nil {
		s.Tables = append(s.Tables, prev)
	}
	return s
}

// accuracyPrev is the accuracy against the previous run; nil without any.
func (b *builder) accuracyPrev() *Table {
	if len(b.d.AccuracyPrev) == 0 {
		return nil
	}
	t := &Table{ID: "accuracy-prev-table", Title: "Against the previous run", Caption: "Accuracy against the previous run", Tall: true, Tools: true,
		Head: []Column{{Text: "State"}, {Text: "Task"}, {Text: "Metric"}, {Text: "Before", Class: "n"}, {Text: "Now", Class: "n"}, {Text: "Change", Class: "n"}, {Text: "Noise", Title: "1.645 standard errors of the difference", Class: "n"}, {Text: "Reason"}}}
	value := func(v *float64) Cell { return metricValue(&warehouse.MetricRow{Value: v}, false) }
	for _, r := range b.d.AccuracyPrev {
		m := Mark{Class: "info", Word: strings.ReplaceAll(text(r.State), "_", " ")}
		if r.Regression {
			m = Mark{Class: "warn", Word: "worse"}
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: text(r.TaskID)}, {Text: text(r.Metric), Class: "id"}, value(r.Previous), value(r.Value), value(r.Delta), value(r.Noise), {Text: text(r.Reason), Class: "w"}}})
	}
	return t
}

// tasks lists what was planned beside the cells and left no result.
func (b *builder) tasks() *Section {
	t := &Table{ID: "tasks-table", Caption: "Tasks without a result", Tools: true, Head: []Column{{Text: "Status"}, {Text: "Kind"}, {Text: "Task"}, {Text: "Reason"}}}
	seen := map[string]bool{}
	for _, k := range b.d.Checks {
		notRun := k.Metric == "" && k.State == warehouse.Skipped
		if !notRun && k.State != warehouse.Error || seen[k.Scope+"\x00"+k.Target] {
			continue
		}
		seen[k.Scope+"\x00"+k.Target] = true
		m := mark(k.State)
		if notRun {
			m = Mark{Class: "incomplete", Word: "not run"}
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: strings.ReplaceAll(text(k.Scope), "_", " ")}, {Text: text(k.Target)}, {Text: orDash(text(k.Reason)), Class: "w"}}})
	}
	if t.Rows == nil {
		return nil
	}
	return &Section{ID: "tasks", Title: "Tasks not run", Count: strconv.Itoa(len(t.Rows)), Tables: []*Table{t}, Queries: b.sql("SELECT * FROM check_gates WHERE run_id = %s"),
		Intro: "Planned, and without a result. They make the run incomplete."}
}
