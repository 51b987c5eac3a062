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
}

// Build words a deck. It reads no clock and no environment: equal input gives
// an equal deck.
func Build(d *Data, o Options) *Deck {
	b := newBuilder(d)
	deck := &Deck{ToolVersion: text(o.ToolVersion)}
	r := d.Run
	deck.Heading = orDash(text(r.Model))
	deck.Verdict = b.verdict()
	word := deck.Verdict.State.Word
	deck.Title = fmt.Sprintf("%s · %s · %s", word, deck.Heading, text(r.RunID))
	deck.Eyebrow = "Run deck · " + orDash(text(r.Suite)) + " · cvs"
	deck.Sub = b.sub()
	deck.Tallies = b.tallies()
	deck.Facts = []Field{
		{Label: "Previous run", Value: "not compared"},
		{Label: "Golden run", Value: "not compared"},
		{Label: "Sign-off", Value: "none recorded"},
	}
	deck.Families = b.families()
	deck.Worst = b.worst()
	deck.Card = b.card()
	for _, s := range []func() *Section{b.matrix, b.charts, b.results, b.cellCards, b.checks, b.accuracy, b.tasks, b.quality, b.lifecycle, b.artifacts, b.notes} {
		if sec := s(); sec != nil {
			sec.Problem = text(d.Problems[sec.ID])
			deck.Sections = append(deck.Sections, sec)
		}
	}
	deck.Footer = b.footer(o)
	return deck
}

// A builder holds the rows by cell while a deck is built.
type builder struct {
	d     *Data
	gates []warehouse.GateRow // of cells and of checks
	cells []*cell             // in run order
	by    map[string]*cell
	ids   map[string]bool

	attempts map[string][]warehouse.AttemptRow
	labels   map[string]string // of the run
}

// A cell is one measurement with everything known about it.
type cell struct {
	warehouse.CellStatusRow
	id      string // anchor
	name    string
	mark    Mark
	gates   []warehouse.GateRow
	tiers   map[string]warehouse.TierRow
	metrics []warehouse.MetricRow
	value   map[string]warehouse.MetricRow
	gate    map[string]warehouse.GateRow // the worst of a metric over hosts
}

func newBuilder(d *Data) *builder {
	b := &builder{d: d, by: map[string]*cell{}, ids: map[string]bool{}, attempts: map[string][]warehouse.AttemptRow{}, labels: labels(d.Run.Labels)}
	for _, a := range d.Attempts {
		b.attempts[a.CellKey] = append(b.attempts[a.CellKey], a)
	}
	for _, row := range d.Cells {
		c := &cell{CellStatusRow: row, tiers: map[string]warehouse.TierRow{}, value: map[string]warehouse.MetricRow{}, gate: map[string]warehouse.GateRow{}}
		c.name = text(row.Combo) + " · conc " + strconv.Itoa(row.Concurrency)
		if row.Combo == "" {
			c.name = text(row.CellID)
		}
		if c.name == "" {
			c.name = text(row.CellKey)
		}
		c.mark = mark(row.State)
		c.mark.Title = text(row.Reason)
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
	b.gates = append(slices.Clone(d.Gates), checkGates(d.Checks)...)
	for _, g := range d.Gates {
		if c := b.by[g.CellKey]; c != nil {
			c.gates = append(c.gates, g)
			if old, dup := c.gate[g.Metric]; !dup || rank(g.State) < rank(old.State) {
				c.gate[g.Metric] = g
			}
		}
	}
	for _, t := range d.Tiers {
		// With several hosts the worst speaks for the cell.
		if c := b.by[t.CellKey]; c != nil {
			if old, ok := c.tiers[t.Tier]; !ok || rank(t.State) < rank(old.State) {
				c.tiers[t.Tier] = t
			}
		}
	}
	for _, m := range d.Metrics {
		if c := b.by[m.CellKey]; c != nil {
			c.metrics = append(c.metrics, m)
			if _, dup := c.value[m.Metric]; !dup {
				c.value[m.Metric] = m
			}
		}
	}
	return b
}

// worstFirst are all cells, the failing ones first. A cell is unplanned only
// where nothing was planned and cells were made from loose results.
func (b *builder) worstFirst() []*cell {
	out := slices.Clone(b.cells)
	slices.SortStableFunc(out, func(x, y *cell) int { return rank(x.State) - rank(y.State) })
	return out
}

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
func rank(state warehouse.State) int { return slices.Index(states, state) }

// mark is the class and the word of a state. Unknown states keep their word and
// get no class of ours.
func mark(state warehouse.State) Mark {
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
	var shown []warehouse.State
	for _, s := range []warehouse.State{warehouse.Fail, warehouse.Invalid, warehouse.Error, warehouse.Pass, warehouse.Skipped, warehouse.NA, warehouse.Info, warehouse.Record} {
		// A state that no gate is in needs no column: the sums still hold.
		if slices.ContainsFunc(b.gates, func(g warehouse.GateRow) bool { return g.State == s }) {
			shown = append(shown, s)
		}
	}
	for _, s := range shown {
		t.Head = append(t.Head, Column{Text: capital(mark(s).Word), Class: "n"})
	}
	t.Head = append(t.Head, Column{Text: "All", Class: "n"})
	for _, tier := range b.tierNames() {
		count, n := map[warehouse.State]int{}, 0
		worst := warehouse.NA
		for _, g := range b.gates {
			if g.Tier != tier {
				continue
			}
			count[g.State]++
			n++
			if rank(g.State) < rank(worst) {
				worst = g.State
			}
		}
		if n == 0 {
			continue
		}
		m := mark(worst)
		row := Row{Cells: []Cell{{Text: tierLabel(tier)}, {Mark: &m}}}
		for _, s := range shown {
			c := Cell{Text: "·", Class: "n dim", Raw: "0", HasRaw: true}
			if k := count[s]; k > 0 {
				c = Cell{Text: strconv.Itoa(k), Class: "n"}
				if bad(s) {
					c.Class = "n bad"
				}
			}
			row.Cells = append(row.Cells, c)
		}
		row.Cells = append(row.Cells, Cell{Text: strconv.Itoa(n), Class: "n"})
		t.Rows = append(t.Rows, row)
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
func bad(s warehouse.State) bool { return s == warehouse.Fail || s == warehouse.Invalid }
