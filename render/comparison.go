package render

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// A Side is one of the runs that a comparison deck sets beside each other.
type Side struct {
	Baseline *warehouse.Baseline // identity and values
	Run      *warehouse.RunRow   // nil for a file, which knows less of itself
	Verdict  string              // of the run's own gates, "" where it is not known
	SLO      []warehouse.SLORow  // how far it meets the comparison's service level
}

// A Pair is the run of the deck against one other run.
type Pair struct {
	Other   Side
	Parity  bool // the other run is of another serving framework
	Rows    []ComparedRow
	Changed []warehouse.ChangedRow
	Unknown string // why it is not known what else changed, "" where it is
}

// A Comparison is everything a comparison deck shows, as views said it.
type Comparison struct {
	Now   Side
	Pairs []Pair
	Level string // a service level in words; "": none was asked about
	Want  []warehouse.Objective
	means map[string]warehouse.MeanChange
}

// A PairSource compares runs; [*warehouse.Compared] is one.
type PairSource interface {
	prevRunner
	parityJudge
	differ
	meaner
}

// Add compares the deck's run with one other run, with the view that its
// framework asks for. src answers for that other run.
func (c *Comparison) Add(ctx context.Context, src PairSource, other Side) error {
	now, o := c.Now.Baseline, other.Baseline
	p := Pair{Other: other, Parity: o.Driver != "" && now.Driver != "" && o.Driver != now.Driver}
	if p.Parity {
		rows, err := src.FrameworkParity(ctx, now.RunID)
		if err != nil {
			return err
		}
		for _, r := range rows {
			p.Rows = append(p.Rows, parityCompared(r, ""))
		}
	} else {
		rows, err := src.PrevRun(ctx, now.RunID)
		if err != nil {
			return err
		}
		for _, r := range rows {
			p.Rows = append(p.Rows, prevCompared(r))
		}
	}
	switch {
	case c.Now.Run == nil || other.Run == nil:
		p.Unknown = "The other run is not in the warehouse of this one, so only its results are known."
	default:
		var err error
		if p.Changed, err = src.WhatChanged(ctx, o.RunID, now.RunID); err != nil {
			return err
		}
		if s, ok := src.(tester); ok && !p.Parity {
			if err := askTests(ctx, s, now.RunID, o.RunID, p.Rows); err != nil {
				return err
			}
		}
	}
	means, err := src.MeanChanges(ctx, ratios(pairID(len(c.Pairs)), p.Rows, chartMetrics))
	if err != nil {
		return err
	}
	if c.means == nil {
		c.means = map[string]warehouse.MeanChange{}
	}
	for _, m := range means {
		c.means[m.Key] = m
	}
	c.Pairs = append(c.Pairs, p)
	return nil
}

// Worse counts the values that are more than 5 % worse in the deck's run.
func (p *Pair) Worse() int {
	n := 0
	for _, r := range p.Rows {
		if r.Regression {
			n++
		}
	}
	return n
}

func (p *Pair) count(state string) int {
	n := 0
	for _, r := range p.Rows {
		if r.State == state {
			n++
		}
	}
	return n
}

// cellsLeft counts the cells that were not compared as a whole.
func (p *Pair) cellsLeft() int {
	n := 0
	for _, r := range p.Rows {
		if r.State != "compared" && r.Metric == "" {
			n++
		}
	}
	return n
}

func pairID(i int) string { return fmt.Sprintf("against-%d", i+1) }

func (c *Comparison) sides() []Side {
	out := []Side{c.Now}
	for _, p := range c.Pairs {
		out = append(out, p.Other)
	}
	return out
}

// names are what the runs are called on the page: a letter with the framework
// where it differs and the start where the framework does not tell all apart.
func (c *Comparison) names() []string {
	sides := c.sides()
	drivers := map[string]bool{}
	for _, s := range sides {
		drivers[s.Baseline.Driver] = true
	}
	var out []string
	for i, s := range sides {
		parts := []string{string(rune('A' + i))}
		if len(drivers) > 1 {
			parts = append(parts, orDash(text(s.Baseline.Driver)))
		}
		if len(drivers) < len(sides) && s.Baseline.At != nil {
			parts = append(parts, s.Baseline.At.UTC().Format("2006-01-02 15:04"))
		}
		out = append(out, strings.Join(parts, " · "))
	}
	return out
}

// short are the names without the start, for where there is little room.
func (c *Comparison) short() []string {
	drivers := map[string]bool{}
	for _, s := range c.sides() {
		drivers[s.Baseline.Driver] = true
	}
	var out []string
	for i, s := range c.sides() {
		name := string(rune('A' + i))
		if len(drivers) > 1 {
			name += " · " + orDash(text(s.Baseline.Driver))
		}
		out = append(out, name)
	}
	return out
}

// ids are the runs themselves, or the files they come from.
func (c *Comparison) ids() []string {
	var out []string
	for _, s := range c.sides() {
		id := text(s.Baseline.RunID)
		if id == "" {
			id = text(s.Baseline.Name)
		}
		out = append(out, id)
	}
	return out
}

// BuildComparison words a comparison deck. Like [Build] it reads no clock and
// decides nothing.
func BuildComparison(c *Comparison, o Options) *Deck {
	now := c.Now.Baseline
	b := newBuilder(&Data{Run: warehouse.RunRow{RunID: now.RunID}})
	v := comparisonView{c: c, b: b, lines: c.names(), names: c.short()}
	d := &Deck{ToolVersion: text(o.ToolVersion), Heading: orDash(text(now.Model)), CardTitle: "Runs"}
	d.Eyebrow = "Comparison · cvs"
	for _, p := range c.Pairs {
		if p.Parity {
			d.Eyebrow = "Framework parity · cvs"
		}
	}
	for i, id := range c.ids() {
		if i == 0 {
			d.Sub = append(d.Sub, id)
		} else {
			d.Sub = append(d.Sub, "against "+id)
		}
	}
	d.Verdict, d.Tallies = v.verdict(), v.tallies()
	d.Title = fmt.Sprintf("%s · %s · %s", d.Verdict.State.Word, d.Heading, strings.Join(c.ids(), " / "))
	d.Facts, d.Families, d.Worst, d.Card = v.facts(), v.byMetric(), v.worst(), v.card()
	d.Sections = append(d.Sections, v.charts(), v.fronts())
	if len(c.Pairs) > 1 {
		d.Sections = append(d.Sections, v.beside())
	}
	if s := v.levels(); s != nil {
		d.Sections = append(d.Sections, s)
	}
	for i := range c.Pairs {
		d.Sections = append(d.Sections, v.pair(i))
	}
	for i := range c.Pairs {
		d.Sections = append(d.Sections, v.changed(i))
	}
	d.nameTables()
	d.Footer = b.footer(o)
	d.Footer[0] = strings.Replace(d.Footer[0], "Every verdict on this page was decided by", "Every comparison on this page was made by", 1)
	var err error
	if d.data, err = b.data(d.Sections); err != nil {
		d.Footer = append(d.Footer, "The data for charts could not be written: "+text(err.Error()))
	}
	return d
}

// Summary is each pair in a sentence, as on the page.
func (c *Comparison) Summary() []string {
	v := comparisonView{c: c, names: c.ids()}
	var out []string
	for i := range c.Pairs {
		out = append(out, v.lead(i))
	}
	return out
}

// A comparisonView words the parts of a comparison deck.
type comparisonView struct {
	c     *Comparison
	b     *builder
	names []string // of the runs, the deck's first
	lines []string // the same for legends
}

func (v comparisonView) verdict() Verdict {
	var out Verdict
	worse, compared, left := 0, 0, 0
	for i := range v.c.Pairs {
		p := &v.c.Pairs[i]
		worse, compared, left = worse+p.Worse(), compared+p.count("compared"), left+p.cellsLeft()
		out.Reasons = append(out.Reasons, Reason{Text: v.lead(i), Href: pairID(i)})
	}
	switch {
	case compared == 0:
		out.State, out.Class = Mark{Class: "incomplete", Word: "NOT COMPARED"}, "incomplete"
	case worse > 0:
		out.State, out.Class = Mark{Class: "warn", Word: "WORSE"}, "incomplete"
	default:
		out.State, out.Class = Mark{Class: "pass", Word: "NOTHING WORSE"}, "pass"
	}
	if left > 0 && compared > 0 {
		out.Badges = append(out.Badges, Mark{Class: "incomplete", Word: "PARTLY", Title: "Not every cell could be compared"})
	}
	if s := v.c.Now.Baseline.Simulated; s != nil && *s {
		out.Badges = append(out.Badges, Mark{Class: "simulated", Word: "SIMULATED", Title: "Measured on the lab's simulated GPUs"})
	}
	out.Lead = fmt.Sprintf("%d of %s more than 5 %% worse", worse, plural(compared, "compared value"))
	if left > 0 {
		out.Lead += fmt.Sprintf("; %s could not be compared", plural(left, "cell"))
	}
	out.Lead += ". A comparison changes no gate."
	return out
}

// lead is one pair in a sentence.
func (v comparisonView) lead(i int) string {
	p := &v.c.Pairs[i]
	s := "Against " + v.names[i+1] + ": "
	if p.count("compared") == 0 {
		s += "not compared"
		for _, r := range p.Rows {
			if r.Reason != "" {
				return s + ", " + text(r.Reason) + "."
			}
		}
		return s + "."
	}
	if m, ok := v.c.means[meanKey(pairID(i), metric.Headline)]; ok {
		change, how := meanWords(m)
		s += "output throughput " + change + ", " + how + "; "
	}
	better := 0
	for _, r := range p.Rows {
		if r.Changed && !r.Regression {
			better++
		}
	}
	return s + fmt.Sprintf("%s over 5 %% worse, %d better, %d within.", plural(p.Worse(), "value"), better, p.count("compared")-p.Worse()-better)
}

// tallies count cells, one line a pair.
func (v comparisonView) tallies() []Tally {
	var out []Tally
	for i := range v.c.Pairs {
		state := map[string]string{}
		for _, r := range v.c.Pairs[i].Rows {
			if r.CellKey == "" {
				continue
			}
			k := r.CellKey + "\x00" + r.Slot
			switch {
			case r.State != "compared" && state[k] == "":
				state[k] = r.State
			case r.State == "compared" && r.Regression:
				state[k] = "worse"
			case r.State == "compared" && state[k] != "worse":
				state[k] = "compared"
			}
		}
		if len(state) == 0 {
			continue
		}
		n := map[string]int{}
		for _, s := range state {
			n[s]++
		}
		t := Tally{Label: "Cells against " + v.names[i+1], Total: fmt.Sprintf("%d in all", len(state)), Bar: &Bar{}}
		done := 0
		for _, s := range []struct{ state, class, word string }{
			{"worse", "warn", "with something worse"}, {"compared", "pass", "with nothing worse"}, {"new", "na", "only in " + v.names[0]},
			{"no_reference", "na", "only in " + v.names[0]}, {"gone", "na", "only in " + v.names[i+1]}, {"only_reference", "na", "only in " + v.names[i+1]}, {"not_comparable", "na", "not comparable"},
		} {
			k := n[s.state]
			if k == 0 {
				continue
			}
			t.Parts = append(t.Parts, Part{Mark: Mark{Class: s.class, Word: s.word}, N: k})
			from, to := 100*float64(done)/float64(len(state)), 100*float64(done+k)/float64(len(state))
			t.Bar.Parts = append(t.Bar.Parts, BarPart{Class: fill(s.class), X: coord(from), W: coord(to - from)})
			done += k
		}
		out = append(out, t)
	}
	return out
}

// facts are the mean changes of the metrics that matter most.
func (v comparisonView) facts() []Field {
	var out []Field
	for i := range v.c.Pairs {
		for _, name := range meanMetrics {
			m, ok := v.c.means[meanKey(pairID(i), name)]
			if !ok || m.BetterPct == nil {
				continue
			}
			f := Field{Label: labelOf(name), Href: pairID(i)}
			if len(v.c.Pairs) > 1 {
				f.Label += ", " + v.names[0] + " against " + v.names[i+1]
			}
			f.Value, f.Note = meanWords(m)
			out = append(out, f)
		}
	}
	return out
}

// byMetric is the mean change of each metric, a column a pair.
func (v comparisonView) byMetric() *Table {
	t := &Table{Caption: "Change by metric, + is better", Head: []Column{{Text: "Metric"}}}
	for _, n := range v.names[1:] {
		t.Head = append(t.Head, Column{Text: "Against " + n, Title: "geometric mean over the cells and its 95 % interval: Student's t over the logarithms of the ratios", Class: "n"},
			Column{Text: "Cells", Class: "n"}, Column{Text: "Worse", Title: "more than 5 %", Class: "n"})
	}
	for _, name := range chartMetrics {
		row, any := Row{Cells: []Cell{metricCell(name)}}, false
		for i := range v.c.Pairs {
			m, ok := v.c.means[meanKey(pairID(i), name)]
			if !ok || m.BetterPct == nil {
				row.Cells = append(row.Cells, Cell{Text: "—", Class: "n dim"}, Cell{Text: "—", Class: "n dim"}, Cell{Text: "—", Class: "n dim"})
				continue
			}
			any = true
			worse := 0
			for _, r := range v.c.Pairs[i].Rows {
				if r.Metric == name && r.Regression {
					worse++
				}
			}
			change := Cell{Text: percent(*m.BetterPct), Class: "n", Title: exact(*m.BetterPct)}
			if m.LowPct != nil && m.HighPct != nil {
				change.Small = percent(*m.LowPct) + " … " + percent(*m.HighPct)
			}
			row.Cells = append(row.Cells, change, whole(m.Cells), whole(worse))
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	if t.Rows == nil {
		return nil
	}
	return t
}

// worst are the greatest changes to the worse of all pairs.
func (v comparisonView) worst() *Table {
	const most = 8
	t := &Table{Caption: "Worst changes", Empty: "No value is more than 5 % worse.", Head: []Column{{Text: "Change", Class: "n"}, {Text: "Metric"}, {Text: "Other", Class: "n"}, {Text: v.names[0], Class: "n"}, {Text: "Cell"}, {Text: "Against"}}}
	type bad struct {
		ComparedRow
		pair int
	}
	var rows []bad
	for i, p := range v.c.Pairs {
		for _, r := range p.Rows {
			if r.Regression && r.BetterPct != nil {
				rows = append(rows, bad{r, i})
			}
		}
	}
	slices.SortStableFunc(rows, func(x, y bad) int {
		if *x.BetterPct < *y.BetterPct {
			return -1
		}
		if *x.BetterPct > *y.BetterPct {
			return 1
		}
		return 0
	})
	for _, r := range rows[:min(most, len(rows))] {
		change := v.b.number(*r.BetterPct, percent(*r.BetterPct))
		change.Class = "n bad"
		t.Rows = append(t.Rows, Row{Mark: Mark{Class: "warn", Word: "worse"}, Cells: []Cell{change, metricCell(r.Metric),
			metricValue(&warehouse.MetricRow{Metric: r.Metric, Unit: unitOf(r.Metric), Value: r.Other}, true), metricValue(&warehouse.MetricRow{Metric: r.Metric, Unit: unitOf(r.Metric), Value: r.Value}, true),
			{Text: text(r.CellKey), Small: text(r.Slot)}, {Text: v.names[r.pair+1], Href: pairID(r.pair)}}})
	}
	return t
}

// card says which runs these are.
func (v comparisonView) card() []Field {
	var out []Field
	add := func(label string, s Side) {
		x := s.Baseline
		var parts []string
		for _, p := range []string{x.Driver, x.Precision, x.GPU} {
			if p != "" {
				parts = append(parts, text(p))
			}
		}
		out = append(out, Field{Label: label, Value: orDash(text(x.RunID)), Note: strings.Join(parts, " · "), Mono: true})
		if x.RunID == "" || x.Name != x.RunID {
			out = append(out, Field{Label: "File", Value: text(x.Name), Mono: true})
		}
		if x.At != nil {
			out = append(out, Field{Label: "Started", Value: instant(*x.At)})
		}
		if s.Verdict != "" {
			out = append(out, Field{Label: "Its gates", Value: text(s.Verdict)})
		}
		if s.Run != nil {
			out = append(out, Field{Label: "Image", Value: orDash(text(s.Run.Image)), Mono: true})
		}
	}
	for i, s := range v.c.sides() {
		add(v.lines[i], s)
	}
	return out
}
