package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// marginScale is the margin, in per cent, that fills half a bar.
const marginScale = 50

// gateCells are the fields of one gate that every gate table shows: status,
// metric, measured, wanted, margin, drawing.
func gateCells(g *warehouse.GateRow) []Cell {
	m := gateMark(g)
	got, want := gateNumbers(g)
	margin := Cell{Text: "—", Class: "n dim", HasRaw: true}
	bar := Cell{Class: "barcell"}
	if g.MarginPct != nil && finite(*g.MarginPct) {
		margin = Cell{Text: percent(*g.MarginPct), Class: "n", Raw: exact(*g.MarginPct), HasRaw: true, Title: exact(*g.MarginPct) + " %"}
		if *g.MarginPct < 0 && bad(g.State) {
			margin.Class = "n bad"
		}
		bar.Bar = marginBar(*g.MarginPct, g.State)
	}
	return []Cell{{Mark: &m}, metricCell(g.Metric), got, want, margin, bar}
}

// gateMark says how a gate went; a violated bound of a run that enforces none is
// not a failure, and not hidden either.
func gateMark(g *warehouse.GateRow) Mark {
	m := mark(shown(g))
	if g.State == warehouse.Record && g.WouldFail {
		m = Mark{Class: "warn", Word: "would fail"}
	}
	m.Title = text(g.Reason)
	return m
}

func gateHead() []Column {
	return []Column{{Text: "Status"}, {Text: "Metric"}, {Text: "Measured", Class: "n"}, {Text: "Gate", Class: "n"},
		{Text: "Margin", Title: "Positive is on the good side of the gate", Class: "n"}, {Text: "Drawn", Title: "The margin: the gate is in the middle, half of the bar is 50 %", Class: "barcell"}}
}

// gateNumbers shows what was measured and what was wanted, with enough digits
// to see the difference.
func gateNumbers(g *warehouse.GateRow) (got, want Cell) {
	unit := text(g.Unit)
	limit, value := "?", ""
	if g.Wanted != nil {
		limit = bound(*g.Wanted)
	}
	got = Cell{Text: "—", Class: "n dim", Title: "not in the result", HasRaw: true}
	switch {
	case g.Got != nil && g.Wanted != nil && g.Kind != "min_ratio":
		value = besides(g.Metric, *g.Got, *g.Wanted)
	case g.Got != nil:
		value = rounded(g.Metric, *g.Got)
	case g.GotText != "":
		got = Cell{Text: text(g.GotText), Class: "n bad", Title: "not usable as a number"}
	}
	if value != "" {
		got = Cell{Text: value + pad(unit), Class: "n", Title: exact(*g.Got), Raw: exact(*g.Got), HasRaw: true}
	}
	tolerance := ""
	if g.TolerancePct != nil {
		tolerance = bound(*g.TolerancePct)
	}
	want = Cell{Text: wanted(g.Kind, limit, tolerance, text(g.Reference), unit), Class: "n"}
	if g.Kind == "" {
		want.Text, want.Class = "—", "n dim"
	}
	if g.Wanted != nil {
		want.Title = exact(*g.Wanted)
	}
	return got, want
}

func pad(unit string) string {
	if unit == "" {
		return ""
	}
	return " " + unit
}

func unitOf(name string) string {
	d, _ := lookup(name)
	return d.Unit
}

func labelOf(name string) string {
	if d, ok := lookup(name); ok {
		return d.Label
	}
	return text(name)
}

// metricCell is the label of a metric, with its name on hover and in exports.
func metricCell(name string) Cell {
	return Cell{Text: labelOf(name), Title: text(name), Raw: text(name), HasRaw: true}
}

// marginBar draws a signed margin from the gate in the middle.
func marginBar(pct float64, state warehouse.State) *Bar {
	w := math.Min(math.Abs(pct)/marginScale, 1) * 50
	x := 50.0
	if pct < 0 {
		x = 50 - w
	}
	class := "mute-f"
	if state == warehouse.Pass || state == warehouse.Record || bad(state) {
		class = fill(string(state))
	}
	return &Bar{Middle: true, Parts: []BarPart{{Class: class, X: coord(x), W: coord(math.Max(w, 0.8))}}}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// severity orders gates worst first: what could not be compared, then by
// margin.
func severity(x, y *warehouse.GateRow) int {
	class := func(g *warehouse.GateRow) int {
		switch g.State {
		case warehouse.Invalid, warehouse.Fail:
			return 0
		case warehouse.Pass:
			return 1
		case warehouse.Record:
			return 2
		}
		return 3
	}
	margin := func(g *warehouse.GateRow) float64 {
		if g.MarginPct == nil || !finite(*g.MarginPct) {
			return math.Inf(-1)
		}
		return *g.MarginPct
	}
	return cmp.Or(cmp.Compare(class(x), class(y)), cmp.Compare(margin(x), margin(y)))
}

// worst are the five gates a reviewer looks at first; nil without gates.
func (b *builder) worst() *Table {
	if len(b.gates) == 0 {
		return nil
	}
	const most = 5
	var rows []*warehouse.GateRow
	failed := 0
	for _, g := range b.gates {
		switch g.State {
		case warehouse.Fail, warehouse.Invalid:
			failed++
		case warehouse.Pass, warehouse.Record:
			// A passing zero bound has no margin and says nothing here.
			if g.MarginPct == nil {
				continue
			}
		default:
			continue
		}
		// Only the first few are kept: sorting a hundred thousand gates for five
		// of them would take longer than the rest of the deck.
		at, _ := slices.BinarySearchFunc(rows, g, func(x, y *warehouse.GateRow) int {
			return cmp.Or(severity(x, y), -1) // after its equals
		})
		if rows = slices.Insert(rows, at, g); len(rows) > most {
			rows = rows[:most]
		}
	}
	t := &Table{Caption: "Tightest gates", Empty: "No gate was evaluated."}
	if failed > 0 {
		t.Caption = "Worst gates"
	}
	if failed > most {
		t.Caption += fmt.Sprintf(" (%d of %d that failed)", most, failed)
	}
	if failed > 0 {
		rows = rows[:min(failed, len(rows))] // severity put them first
	}
	t.Head = append(gateHead(), Column{Text: "Cell"})
	for _, g := range rows {
		cells := gateCells(g)
		where := Cell{Text: text(g.CellID)}
		if c := b.by[g.CellKey]; c != nil {
			where = b.cellLink(c)
			if !b.large() || bad(g.State) {
				cells[1].Href = b.gateID(c, g) // of the others a large deck's script makes rows
			}
		}
		t.Rows = append(t.Rows, Row{Mark: mark(g.State), Cells: append(cells, where)})
	}
	return t
}

// matrix is cells by tiers, failing cells first.
func (b *builder) matrix() *Section {
	s := &Section{ID: "gates", Title: "Gate matrix", Queries: b.sql(
		"SELECT * FROM cell_status WHERE run_id = %s", "SELECT * FROM tiers WHERE run_id = %s"),
		Intro: "One row per cell, one column per gate family; failing cells first. Hover or focus a status for its reason; a cell's name leads to all its gates."}
	cells := b.worstFirst()
	if len(cells) == 0 {
		s.Empty = "No cell was planned and no result was found."
		return s
	}
	var tiers []string
	for _, t := range b.tierNames() {
		// What carries no spec cannot fail; it is listed in each cell below.
		if t != string(metric.Record) && b.inAnyCell(t) {
			tiers = append(tiers, t)
		}
	}
	t := &Table{ID: "gate-matrix", Caption: "Gate matrix", Tall: true, Tools: true, Head: []Column{{Text: "Cell"}, {Text: "Result"}}}
	margins := slices.ContainsFunc(cells, func(c *cell) bool { return tightest(c) != "" })
	if margins {
		t.Head = append(t.Head, Column{Text: "Tightest", Title: "the smallest margin of its gates"})
	}
	for _, name := range tiers {
		t.Head = append(t.Head, Column{Text: tierLabel(name)})
	}
	fillRows(t, b.large(), cells, func(c *cell) Row {
		row := Row{Mark: c.mark, Cells: append(make([]Cell, 0, len(t.Head)), b.cellLink(c), b.state(c))}
		if margins {
			row.Cells = append(row.Cells, Cell{Text: orDash(tightest(c))})
		}
		if c.State == warehouse.Error {
			row.Cells[1].Small = firstLine(c.Reason) // all of it is in the cell's card
		}
		for _, name := range tiers {
			row.Cells = append(row.Cells, tierCell(c, name))
		}
		return row
	})
	s.Tables = []*Table{t}
	return s
}

// inAnyCell says whether a family is worth a column: some cell has a spec for
// it, or it says something other than n/a.
func (b *builder) inAnyCell(tier string) bool {
	return slices.ContainsFunc(b.cells, func(c *cell) bool {
		t := c.tier(tier)
		return t != nil && (t.Specs > 0 || t.State != warehouse.NA)
	})
}

func tierCell(c *cell, name string) Cell {
	row := c.tier(name)
	if row == nil {
		return Cell{Text: "—", Class: "dim", Title: "no gate of this family in this cell"}
	}
	m := mark(row.State)
	m.Title = text(row.Reason)
	out := Cell{Mark: &m}
	failed, waived := row.Fail+row.Invalid, 0
	for _, g := range c.gates {
		if g.Tier == name && g.Host == row.Host && g.Waiver != "" && bad(g.State) {
			waived++
		}
	}
	switch {
	case failed > 0:
		out.Small = fmt.Sprintf("%d of %d", failed, row.Specs)
		if waived > 0 && waived >= failed {
			m.Word += waivedWord
		} else if waived > 0 {
			out.Small += fmt.Sprintf(", %d waived", waived)
		}
	case row.State == warehouse.Fail:
		out.Small = text(row.Reason)
	case row.WouldFail > 0:
		out.Small = fmt.Sprintf("%d would fail", row.WouldFail)
	case row.Skipped > 0:
		out.Small = fmt.Sprintf("%d skipped", row.Skipped)
	}
	return out
}

// cellCards are all cells with every gate and every metric.
func (b *builder) cellCards() *Section {
	s := &Section{ID: "cells", Title: "Cells and all gates", Queries: b.sql(
		"SELECT * FROM gates WHERE run_id = %s", "SELECT * FROM metrics WHERE run_id = %s"),
		Intro: "Every gate with its margin and the line that set it, then every other number of the result. A positive margin is on the good side of the gate."}
	if b.large() {
		s.Intro += " Gates that failed stand here as tables; everything else of a cell is shown from the page's data by script, and without script in the tables above."
	}
	opened := false
	for _, c := range b.worstFirst() {
		card := &CellCard{ID: c.id, Name: c.name, Key: text(c.CellKey), Mark: c.mark}
		if !c.Planned {
			card.Reasons = append(card.Reasons, "Nothing was planned: this cell was made from a loose result.")
		}
		card.Headline, card.Gates = headline(c), gateSummary(c)
		if c.Reason != "" {
			card.Reasons = append(card.Reasons, visible(strings.TrimRight(c.Reason, "\n"), true))
		}
		if !opened && c.attention() {
			card.Open, opened = true, true
		}
		switch {
		case !b.large():
			// Two empty tables would say once more that there is no result.
			if c.State != warehouse.Error || len(c.gates)+len(c.metrics) > 0 {
				card.Tables = []*Table{slim(b.cellGates(c, false)), slim(cellMetrics(c))}
			}
			card.Commands = append(b.rawFiles(c), commands(b.attempts[c.CellKey])...)
		case c.attention():
			card.Lazy = true
			if t := slim(b.cellGates(c, true)); t.Rows != nil {
				card.Tables = []*Table{t}
			}
		default:
			continue // its card is made by script; the matrix and the results hold its row
		}
		s.Cells = append(s.Cells, card)
	}
	if len(b.cells) == 0 {
		s.Empty = "No cell was planned and no result was found."
	}
	s.Count, s.Lazy = strconv.Itoa(len(b.cells)), b.large()
	return s
}

// rawFiles are the files that a cell's numbers were read from.
func (b *builder) rawFiles(c *cell) []Field {
	var paths []string
	for _, a := range b.d.Artifacts {
		if a.CellKey == c.CellKey && a.Path != "" {
			paths = append(paths, text(a.Path))
		}
	}
	if paths == nil {
		return nil
	}
	return []Field{{Label: "Raw result, as kept in the run directory; its SHA-256 is in Artefacts", Value: strings.Join(paths, "\n")}}
}

// gateSummary is a cell's gates in one line: how many, and the tightest.
func gateSummary(c *cell) string {
	var out string
	switch judged := c.Pass + c.Fail + c.Invalid; {
	case judged > 0 && judged == c.Pass:
		out = plural(c.Pass, "gate") + " pass"
	case judged > 0:
		out = fmt.Sprintf("%d of %s fail", c.Fail+c.Invalid, plural(judged, "gate"))
	case c.WouldFail > 0:
		out = plural(c.WouldFail, "gate") + " would fail"
	}
	if t := tightest(c); t != "" {
		word := "tightest"
		if *c.WorstMarginPct < 0 {
			word = "worst"
		}
		out += ", " + word + " " + t
	}
	return strings.TrimPrefix(out, ", ")
}

// tightest is a cell's smallest margin and whose it is; "" without one.
func tightest(c *cell) string {
	if c.WorstMarginPct == nil || !finite(*c.WorstMarginPct) || c.WorstMetric == "" {
		return ""
	}
	return percent(*c.WorstMarginPct) + " " + labelOf(c.WorstMetric)
}

// attention says whether the card of a cell is worth reading unasked.
func (c *cell) attention() bool {
	return c.State != warehouse.Pass && c.State != warehouse.Record
}

// slim takes off what only sorting, filters and exports need. There are forty
// rows of these tables per cell, so it halves a large deck.
func slim(t *Table) *Table {
	for i := range t.Rows {
		r := &t.Rows[i]
		r.Mark.Word = ""
		for j := range r.Cells {
			c := &r.Cells[j]
			c.HasRaw = false
			if c.Mark != nil {
				// The reason stands in the row.
				c.Mark = &Mark{Class: c.Mark.Class, Word: c.Mark.Word}
			}
			if c.Title == c.Text {
				c.Title = ""
			}
		}
	}
	return t
}

func headline(c *cell) string {
	m := c.metric(metric.Headline)
	if m.Value == nil {
		return ""
	}
	return rounded(metric.Headline, *m.Value) + pad(unitOf(metric.Headline))
}

// cellGates are the gates of a cell, the violated ones first; only those with
// failed.
func (b *builder) cellGates(c *cell, failed bool) *Table {
	t := &Table{Title: "Gates", Caption: "Gates of " + c.name, Empty: "No gate applies to this cell."}
	rows := slices.Clone(c.gates)
	if failed {
		rows = slices.DeleteFunc(rows, func(g *warehouse.GateRow) bool { return !bad(g.State) && !g.WouldFail })
	}
	slices.SortStableFunc(rows, func(x, y *warehouse.GateRow) int {
		order := func(g *warehouse.GateRow) int {
			if bad(g.State) || g.WouldFail {
				return 0
			}
			return 1
		}
		return order(x) - order(y)
	})
	files, hosts := map[string]bool{}, map[string]bool{}
	for _, g := range rows {
		if g.File != "" {
			files[g.File] = true
		}
		hosts[g.Host] = true
	}
	t.Head = gateHead()
	if len(hosts) > 1 {
		t.Head = append(t.Head, Column{Text: "Host"})
	}
	line := Column{Text: "Threshold"}
	if len(files) == 1 {
		// Named once above the table instead of in each row.
		for f := range files {
			t.Title = "Gates, set in " + text(f)
		}
		line = Column{Text: "Line", Class: "n", Title: "line of the threshold file"}
	}
	t.Head = append(t.Head, line, Column{Text: "Reason"})
	for _, g := range rows {
		cells := gateCells(g)
		c.grey(g.Metric, &cells[2])
		if len(hosts) > 1 {
			cells = append(cells, Cell{Text: orDash(text(g.Host))})
		}
		reason := Cell{Text: text(g.Reason), Class: "w"}
		if g.State == warehouse.Pass {
			// A gate that held says nothing that its row does not show.
			reason = Cell{}
		}
		t.Rows = append(t.Rows, Row{ID: b.gateID(c, g), Mark: gateMark(g), Cells: append(cells, thresholdCell(g, len(files) == 1), reason)})
	}
	return t
}

// thinAt says whether a metric is a P99 of too few requests to be read as one.
func (c *cell) thinAt(name string) bool { return c.thin != "" && strings.HasPrefix(name, "p99_") }

// grey takes the weight off such a P99 and says why.
func (c *cell) grey(name string, v *Cell) {
	if !c.thinAt(name) || v.Text == "—" {
		return
	}
	if v.Class == "n" {
		v.Class = "n dim"
	}
	v.Title = strings.TrimPrefix(v.Title+"; "+c.thin, "; ")
}

// gateID is the anchor of a gate's row in its cell's card.
func (b *builder) gateID(c *cell, g *warehouse.GateRow) string {
	id, ok := b.gateIDs[g]
	if !ok {
		name := strings.TrimPrefix(c.id, "cell-") + "-" + g.Metric
		if g.Host != "" && c.gates[0].Host != g.Host {
			name += "-" + g.Host
		}
		id = anchor("gate", name, b.ids)
		b.gateIDs[g] = id
	}
	return id
}

// thresholdCell is where a gate was written; short leaves out the file.
func thresholdCell(g *warehouse.GateRow, short bool) Cell {
	if g.File == "" {
		return Cell{Text: "—", Class: "dim"}
	}
	full := text(g.File)
	if g.Line > 0 {
		full += ":" + strconv.Itoa(g.Line)
	}
	if short && g.Line > 0 {
		return Cell{Text: strconv.Itoa(g.Line), Class: "n"}
	}
	return Cell{Text: full, Class: "id"}
}

// cellMetrics lists what carries no gate.
func cellMetrics(c *cell) *Table {
	t := &Table{Title: "Other metrics", Caption: "Metrics without a gate of " + c.name, Empty: "The result holds no further metric.",
		Head: []Column{{Text: "Metric"}, {Text: "Value", Class: "n"}, {Text: "Origin"}}}
	for _, m := range c.metrics {
		if c.gate(m.Metric) != nil {
			continue
		}
		v := metricValue(m, true)
		c.grey(m.Metric, &v)
		t.Rows = append(t.Rows, Row{Cells: []Cell{metricCell(m.Metric), v, {Text: text(origin(m)), Class: "w dim"}}})
	}
	return t
}

// metricValue shows a measured value. What the client did not report is a dash,
// what it reported and is no number stays as it was written; zero is a value.
func metricValue(m *warehouse.MetricRow, unit bool) Cell {
	if m.Value == nil || !finite(*m.Value) {
		if m.Text != "" {
			return Cell{Text: text(m.Text), Class: "n bad", Title: "not usable as a number"}
		}
		if m.Value != nil {
			return Cell{Text: grouped(*m.Value, 0), Class: "n bad", Title: "not usable as a number"}
		}
		return Cell{Text: "—", Class: "n dim", Title: "not available: the client reported no value", HasRaw: true}
	}
	c := Cell{Text: rounded(m.Metric, *m.Value), Class: "n", Title: exact(*m.Value), Raw: exact(*m.Value), HasRaw: true}
	if unit {
		c.Text += pad(text(m.Unit))
	}
	if m.Repeats > 1 && m.Low != nil && m.High != nil {
		c.Title += fmt.Sprintf(", median of %d from %s to %s", m.Repeats, exact(*m.Low), exact(*m.High))
	}
	return c
}
