package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// Options are what a deck needs besides its rows.
type Options struct {
	Now         time.Time // when the deck was made; zero leaves it out
	ToolVersion string    // of the program that makes the deck
	// Shared makes pages of a published folder that take style, script and chart
	// library from its [AssetFolder] instead of carrying them: runs/<run>/ for a
	// deck, history/ and the folder itself for the pages around.
	Shared bool
}

// Build words a deck. It reads no clock and no environment: equal input gives
// an equal deck.
func Build(d *Data, o Options) *Deck {
	b := newBuilder(d)
	deck := &Deck{ToolVersion: text(o.ToolVersion), shared: o.Shared}
	r := d.Run
	deck.Heading = orDash(text(r.Model))
	deck.Verdict = b.verdict()
	word := deck.Verdict.State.Word
	deck.Title = fmt.Sprintf("%s · %s · %s", word, deck.Heading, text(r.RunID))
	deck.Eyebrow = "Run deck · " + orDash(text(r.Suite)) + " · cvs"
	deck.Sub = b.sub()
	deck.Tallies = b.tallies()
	deck.Facts = []Field{
		b.comparisonFact("Previous run", "previous", b.d.Prev),
		b.comparisonFact("Golden run", "golden", b.d.Golden),
	}
	deck.Facts = append(deck.Facts, b.signoffFacts()...)
	deck.Families = b.families()
	deck.Worst = b.worst()
	deck.Card = b.card()
	for _, p := range []struct {
		id   string
		make func() *Section
	}{{"gates", b.matrix}, {"charts", b.charts}, {"interactivity", b.front}, {"distributions", b.distributions}, {"previous", b.previous}, {"changed", b.changed}, {"golden", b.golden}, {"trend", b.trend},
		{"parity", b.parity}, {"scaling", b.scaling}, {"results", b.results}, {"cells", b.cellCards}, {"slo", b.serviceLevel}, {"checks", b.checks}, {"accuracy", b.accuracy}, {"needles", b.needles},
		{"drafts", b.drafts}, {"telemetry", b.telemetry}, {"kernel", b.kernel}, {"tasks", b.tasks}, {"quality", b.quality}, {"lifecycle", b.lifecycle}, {"logs", b.logs}, {"signoff", b.signoff},
		{"artifacts", b.artifacts}, {"notes", b.notes}} {
		if sec := panel(p.id, p.make); sec != nil {
			if why := d.Problems[sec.ID]; why != "" {
				sec.Problem = text(why)
			}
			if sec.Empty != "" && sec.Problem == "" && b.tasksOnly() && aboutCells[sec.ID] {
				continue
			}
			deck.Sections = append(deck.Sections, sec)
		}
	}
	deck.nameTables()
	deck.Footer, deck.Large = b.footer(o), b.large()
	var err error
	if deck.data, err = b.data(deck.Sections); err != nil {
		// The tables stand for themselves.
		deck.Footer = append(deck.Footer, "The data for charts could not be written: "+text(err.Error()))
	}
	return deck
}

// panel makes one section. What goes wrong in it, a mistake of this program even,
// is told in its place: a reviewer needs the rest of the deck.
func panel(id string, make func() *Section) (s *Section) {
	defer func() {
		if r := recover(); r != nil {
			s = &Section{ID: id, Title: capital(id), Problem: text(fmt.Sprintf("a mistake in cvs: %v", r))}
		}
	}()
	return make()
}

// aboutCells are the sections that a run of accuracy tasks alone has nothing for.
var aboutCells = map[string]bool{"gates": true, "charts": true, "interactivity": true, "previous": true, "golden": true, "trend": true, "parity": true, "scaling": true, "results": true, "cells": true}

// tasksOnly says whether a run planned and measured accuracy and no cell.
func (b *builder) tasksOnly() bool { return len(b.cells) == 0 && len(b.d.Accuracy) > 0 }

// A builder holds the rows by cell while a deck is built.
type builder struct {
	d     *Data
	gates []*warehouse.GateRow // of cells and of checks
	cells []*cell              // in run order
	order []*cell              // the failing ones first
	by    map[string]*cell
	ids   map[string]bool

	gateIDs map[*warehouse.GateRow]string

	attempts map[string][]warehouse.AttemptRow
	labels   map[string]string // of the run
	names    []string          // of all metrics, in display order
}

// A cell is one measurement with everything known about it.
type cell struct {
	warehouse.CellStatusRow
	id      string // anchor
	at      int    // place among the cells that are worst first
	name    string
	mark    Mark
	gates   []*warehouse.GateRow
	tiers   []*warehouse.TierRow // one a family: with several hosts the worst
	thin    string               // why a P99 of it says little, "" where it may be read as one
	metrics []*warehouse.MetricRow
}

// metric is the first row of that name; an empty one where there is none. A
// cell has forty of them, for which a search is quicker than a map.
func (c *cell) metric(name string) *warehouse.MetricRow {
	for _, m := range c.metrics {
		if m.Metric == name {
			return m
		}
	}
	return &warehouse.MetricRow{}
}

// gate is the worst gate on a metric over all hosts; nil without one.
func (c *cell) gate(name string) *warehouse.GateRow {
	var worst *warehouse.GateRow
	for _, g := range c.gates {
		if g.Metric == name && (worst == nil || rank(g.State) < rank(worst.State)) {
			worst = g
		}
	}
	return worst
}

// tier is the cell's row of that family; nil without one.
func (c *cell) tier(name string) *warehouse.TierRow {
	for _, t := range c.tiers {
		if t.Tier == name {
			return t
		}
	}
	return nil
}

func newBuilder(d *Data) *builder {
	b := &builder{d: d, by: map[string]*cell{}, ids: map[string]bool{}, gateIDs: map[*warehouse.GateRow]string{}, attempts: map[string][]warehouse.AttemptRow{}, labels: labels(d.Run.Labels)}
	for _, a := range d.Attempts {
		b.attempts[a.CellKey] = append(b.attempts[a.CellKey], a)
	}
	for _, row := range d.Cells {
		c := &cell{CellStatusRow: row}
		c.name = text(row.Combo) + " · conc " + strconv.Itoa(row.Concurrency)
		switch {
		case row.Combo != "":
		case row.ISL > 0 && row.OSL > 0 && row.Concurrency > 0:
			// A loose result has no plan's name, and its file's says nothing.
			c.name = fmt.Sprintf("%d / %d · conc %d", row.ISL, row.OSL, row.Concurrency)
		default:
			c.name = text(row.CellID)
		}
		if c.name == "" {
			c.name = text(row.CellKey)
		}
		c.mark = mark(row.State)
		c.mark.Title = visible(strings.TrimSpace(row.Reason), true)
		slug := row.CellID
		if slug == "" {
			slug = row.CellKey
		}
		c.id = anchor("cell", slug, b.ids)
		b.cells = append(b.cells, c)
		if _, dup := b.by[row.CellKey]; !dup {
			b.by[row.CellKey] = c
		}
	}
	checks := checkGates(d.Checks)
	b.gates = make([]*warehouse.GateRow, 0, len(d.Gates)+len(checks))
	for i := range d.Gates {
		g := &d.Gates[i]
		b.gates = append(b.gates, g)
		if c := b.by[g.CellKey]; c != nil {
			c.gates = append(c.gates, g)
		}
	}
	for i := range checks {
		b.gates = append(b.gates, &checks[i])
	}
	b.names = b.metricNames()
	for i := range d.Tiers {
		t := &d.Tiers[i]
		c := b.by[t.CellKey]
		if c == nil {
			continue
		}
		same := func(o *warehouse.TierRow) bool { return o.Tier == t.Tier }
		if j := slices.IndexFunc(c.tiers, same); j < 0 {
			c.tiers = append(c.tiers, t)
		} else if rank(t.State) < rank(c.tiers[j].State) {
			c.tiers[j] = t
		}
	}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if c := b.by[m.CellKey]; c != nil {
			c.metrics = append(c.metrics, m)
		}
	}
	for _, q := range d.Quality {
		if c := b.by[q.CellKey]; c != nil && q.Code == "percentile_validity" {
			c.thin = text(q.Message)
		}
	}
	b.order = slices.Clone(b.cells)
	slices.SortStableFunc(b.order, func(x, y *cell) int { return rank(x.State) - rank(y.State) })
	for i, c := range b.order {
		c.at = i
	}
	return b
}

// worstFirst are all cells, the failing ones first. A cell is unplanned only
// where nothing was planned and cells were made from loose results.
func (b *builder) worstFirst() []*cell { return b.order }

// orphans counts the files with results that no planned cell asked for.
func (b *builder) orphans() int {
	files := map[string]bool{}
	for _, q := range b.d.Quality {
		if q.Code == "orphan" {
			files[q.Path] = true
		}
	}
	return len(files)
}

// states are the known words of the views, in the order they are counted and
// worst first.
var states = []warehouse.State{warehouse.Fail, warehouse.Invalid, warehouse.Error, warehouse.Record, warehouse.Pass, warehouse.Info, warehouse.Skipped, warehouse.NA}

// rank orders by state, worst first; an unknown state comes first of all, so
// that it cannot hide.
func rank(state warehouse.State) int { return slices.Index(states, base(state)) }

// mark is the class and the word of a state. Unknown states keep their word and
// get no class of ours.
func mark(state warehouse.State) Mark {
	if known := base(state); known != state {
		m := mark(known)
		m.Word += waivedWord
		return m
	}
	switch state {
	case warehouse.Pass, warehouse.Fail, warehouse.Invalid, warehouse.Info, warehouse.Skipped:
		return Mark{Class: string(state), Word: string(state)}
	case warehouse.Record:
		return Mark{Class: "record", Word: "record only"}
	case warehouse.Error:
		return Mark{Class: "error", Word: "no result"}
	case warehouse.NA:
		return Mark{Class: "na", Word: "n/a"}
	}
	return Mark{Class: "warn", Word: text(string(state))}
}

func (b *builder) sub() []string {
	r := b.d.Run
	out := []string{text(r.RunID)}
	if r.Profile != "" {
		out = append(out, "profile "+text(r.Profile))
	}
	if r.GPUArch != "" {
		out = append(out, text(r.GPUArch))
	}
	out = append(out, "driver "+orDash(text(r.Driver)))
	if r.StartedAt != nil {
		out = append(out, instant(*r.StartedAt))
	}
	return out
}

// families is one line per gate family.
func (b *builder) families() *Table {
	if len(b.gates) == 0 {
		return nil
	}
	t := &Table{Caption: "Gates by family", Head: []Column{{Text: "Family"}, {Text: "Worst"}}}
	count := map[string]map[warehouse.State]int{} // family → state → gates
	have := map[warehouse.State]bool{}
	for _, g := range b.gates {
		if count[g.Tier] == nil {
			count[g.Tier] = map[warehouse.State]int{}
		}
		count[g.Tier][shown(g)]++
		have[shown(g)] = true
	}
	var order []warehouse.State
	for _, s := range []warehouse.State{warehouse.Fail, warehouse.Fail + waivedWord, warehouse.Invalid, warehouse.Invalid + waivedWord, warehouse.Error, warehouse.Pass, warehouse.Skipped, warehouse.NA, warehouse.Info, warehouse.Record} {
		// A state that no gate is in needs no column: the sums still hold.
		if have[s] {
			order = append(order, s)
			delete(have, s)
		}
	}
	// What a later version may call a state is counted too.
	known := len(order)
	for s := range have {
		order = append(order, s)
	}
	slices.Sort(order[known:])
	for _, s := range order {
		t.Head = append(t.Head, Column{Text: capital(mark(s).Word), Class: "n"})
	}
	t.Head = append(t.Head, Column{Text: "All", Class: "n"})
	type family struct {
		rank int
		row  Row
	}
	var ranked []family // the worst first
	for _, tier := range b.tierNames() {
		n, worst := 0, warehouse.NA
		for state, k := range count[tier] {
			n += k
			if rank(state) < rank(worst) {
				worst = state
			}
		}
		if n == 0 {
			continue
		}
		m := mark(worst)
		row := Row{Cells: []Cell{{Text: tierLabel(tier)}, {Mark: &m}}}
		for _, s := range order {
			c := Cell{Text: "·", Class: "n dim", Raw: "0", HasRaw: true}
			if k := count[tier][s]; k > 0 {
				c = Cell{Text: strconv.Itoa(k), Class: "n"}
				if bad(s) {
					c.Class = "n bad"
				}
			}
			row.Cells = append(row.Cells, c)
		}
		row.Cells = append(row.Cells, Cell{Text: strconv.Itoa(n), Class: "n"})
		ranked = append(ranked, family{rank(worst), row})
	}
	slices.SortStableFunc(ranked, func(x, y family) int { return x.rank - y.rank })
	for _, f := range ranked {
		t.Rows = append(t.Rows, f.row)
	}
	return t
}

// tierNames are the families that this run has, in display order; unknown ones
// last.
func (b *builder) tierNames() []string {
	have := map[string]bool{}
	for _, t := range b.d.Tiers {
		have[t.Tier] = true
	}
	for _, g := range b.gates {
		have[g.Tier] = true
	}
	var out []string
	for _, t := range metric.Tiers() {
		if have[string(t)] {
			out = append(out, string(t))
			delete(have, string(t))
		}
	}
	known := len(out)
	for t := range have {
		out = append(out, t)
	}
	slices.Sort(out[known:])
	return out
}

func tierLabel(t string) string {
	switch t {
	case "ttft", "tpot", "itl", "e2el":
		return strings.ToUpper(t)
	case "mtp_quality":
		return "MTP quality"
	}
	return capital(strings.ReplaceAll(text(t), "_", " "))
}

func capital(s string) string {
	if s == "" || s[0] >= 0x80 {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func orDash(s string) string {
	if s == "" {
		return "—"
	}
	return s
}

// hosts are the nodes the cell's numbers came from.
func (c *cell) hosts() string {
	var out []string
	for _, m := range c.metrics {
		if h := text(m.Host); h != "" && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return strings.Join(out, ", ")
}

// bad says whether a state counts as failed.
func bad(s warehouse.State) bool {
	s = base(s)
	return s == warehouse.Fail || s == warehouse.Invalid
}
