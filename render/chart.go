package render

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	// Builds ECharts' option objects as checked Go types. Its own HTML is never
	// used: it does not escape what it prints into a script.
	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// A Figure is one chart with the table that says the same in words. Its points
// stand in the page's data, so that nothing of them is HTML.
type Figure struct {
	ID, Title, Unit string
	Label           string   // of the measured series
	Gate            string   // of the gate series, "" without one
	Also            []string // lines of other runs
	Bad             bool     // a point fails its gate
	Alt             string   // text alternative
	Gaps            string   // points that have no value, in words
	Blank           bool     // no point has a value: there is nothing to draw
	Off             string   // gates too far away to draw, in words
	Thin            string   // percentiles of few requests, in words
	Range           string   // of the whiskers between the repeats, "" without one
	Table           *Table   // nil in a large deck: its script makes it
	data            figureData
}

// figureData is what the page's script draws.
type figureData struct {
	kind   string // "line", "front" or "quantile"
	metric string
	sign   string // of the gate: ≥ or ≤
	points []point
	lo, hi float64 // ends of the axis of concurrency
	cells  []*cell // whose the points are
	also   []series
}

// Kind is how the page's script draws it.
func (f *Figure) Kind() string { return f.data.kind }

// A point is one concurrency of a series. A nil Value is a gap, a nil Gate no
// bound.
type point struct {
	cell    int // place in its figure's cells
	conc    int
	value   *float64
	gate    *float64
	failed  bool   // the gate on this value failed
	off     bool   // the gate is too far away to draw
	missing string // why there is no value
	thin    string // number of requests, where too few for this percentile
	// Of repeats, of which the value is the median:
	low, high *float64
	repeats   int
	// Of a point that is not against concurrency:
	x     float64
	front bool   // no other point is better in both
	name  string // of its cell
}

// A curve is what a [Figure] is made of.
type curve struct {
	id, title, metric, label, unit string
	sign                           string // of the gate: ≥ or ≤
	points                         []point
	also                           []series // other runs
}

// figure describes a curve: concurrency on a base-2 scale, values from zero, and
// no line across a point that has no value. With its table only in a deck that
// is small enough.
func (c curve) figure(table bool) *Figure {
	f := &Figure{ID: c.id, Title: c.title, Label: c.label, Unit: c.unit}
	slices.SortStableFunc(c.points, func(a, b point) int { return a.conc - b.conc })
	f.data = figureData{kind: "line", metric: c.metric, sign: c.sign, points: c.points,
		lo: octave(c.points[0].conc, math.Floor), hi: octave(c.points[len(c.points)-1].conc, math.Ceil)}
	far := c.far()
	var gaps, off, thin []string
	for i := range c.points {
		p := &c.points[i]
		if p.gate != nil && *p.gate > far {
			p.off = true
			off = append(off, fmt.Sprintf("%s at %d", bound(*p.gate), p.conc))
		}
		switch {
		case p.value == nil:
			gaps = append(gaps, fmt.Sprintf("%d (%s)", p.conc, p.missing))
		case p.failed:
			f.Bad = true
		}
		if p.thin != "" {
			thin = append(thin, fmt.Sprintf("%d (%s)", p.conc, p.thin))
		}
		if p.low != nil {
			f.Range = "Range of the repeats"
		}
		if p.gate != nil && !p.off {
			f.Gate = "Gate (minimum)"
			if c.sign == "≤" {
				f.Gate = "Gate (maximum)"
			}
		}
	}
	if len(off) > 0 {
		f.Off = "Gate far above the values, not drawn: " + strings.Join(off, ", ") + "."
	}
	if len(thin) > 0 {
		f.Thin = "Of few requests, so that it says little, at concurrency " + strings.Join(thin, ", ") + "."
	}
	f.Blank = len(gaps) == len(c.points) && len(c.also) == 0
	if len(gaps) > 0 {
		f.Gaps = "No value at concurrency " + strings.Join(gaps, ", ") + "."
	}
	f.labels(c.also)
	if table {
		f.Table, f.Alt = c.table(), c.alt()
	}
	return f
}

// table is the curve in words. Beside other runs a column of gates that nothing
// has would only take room.
func (c curve) table() *Table {
	gated := c.also == nil || slices.ContainsFunc(c.points, func(p point) bool { return p.gate != nil })
	t := &Table{Caption: "Data of the chart " + c.title, Head: []Column{{Text: "Concurrency", Class: "n"}, {Text: c.label, Unit: c.unit, Class: "n"}}}
	if gated {
		t.Head = append(t.Head, Column{Text: "Gate", Unit: c.unit, Class: "n"})
	}
	repeated := slices.ContainsFunc(c.points, func(p point) bool { return p.low != nil })
	if repeated {
		t.Head = append(t.Head, Column{Text: "Range of the repeats", Unit: c.unit, Class: "n"})
	}
	for _, s := range c.also {
		t.Head = append(t.Head, Column{Text: s.label, Unit: c.unit, Class: "n"})
	}
	for _, p := range c.points {
		row := Row{Cells: []Cell{{Text: grouped(float64(p.conc), 0), Class: "n"}, {Text: "—", Class: "n dim", Title: p.missing}}}
		if p.value != nil {
			row.Cells[1] = Cell{Text: rounded(c.metric, *p.value), Class: "n", Title: exact(*p.value)}
			if p.failed {
				row.Cells[1].Class = "n bad"
			} else if p.thin != "" {
				row.Cells[1].Class, row.Cells[1].Title = "n dim", exact(*p.value)+" of "+p.thin+" requests"
			}
		}
		switch {
		case p.gate != nil:
			row.Cells = append(row.Cells, Cell{Text: c.sign + " " + bound(*p.gate), Class: "n", Title: exact(*p.gate)})
		case gated:
			row.Cells = append(row.Cells, Cell{Text: "—", Class: "n dim"})
		}
		switch {
		case p.low != nil:
			row.Cells = append(row.Cells, Cell{Text: fmt.Sprintf("%s – %s (%d)", rounded(c.metric, *p.low), rounded(c.metric, *p.high), p.repeats), Class: "n", Title: exact(*p.low) + " – " + exact(*p.high)})
		case repeated:
			row.Cells = append(row.Cells, Cell{Text: "—", Class: "n dim"})
		}
		for _, s := range c.also {
			other := Cell{Text: "—", Class: "n dim"}
			if v := s.at(float64(p.conc)); v != nil {
				other = Cell{Text: rounded(c.metric, *v), Class: "n", Title: exact(*v)}
			}
			row.Cells = append(row.Cells, other)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// alt is the curve in one sentence.
func (c curve) alt() string {
	var seen []string
	for _, p := range c.points {
		if p.value != nil {
			seen = append(seen, fmt.Sprintf("%s at %d", rounded(c.metric, *p.value), p.conc))
		}
	}
	if len(seen) == 0 {
		return c.title + " against concurrency: no values."
	}
	return fmt.Sprintf("%s against concurrency: %s.", c.title, strings.Join(seen, ", "))
}

// options are ECharts' option objects of the kinds of figure, without points.
func options() map[string]any {
	hidden := []charts.GlobalOpts{
		charts.WithAnimation(false),
		charts.WithLegendOpts(opts.Legend{Show: opts.Bool(false)}),
		charts.WithGridOpts(opts.Grid{Left: "4", Right: "14", Top: "18", Bottom: "24", ContainLabel: opts.Bool(true)}),
	}
	line := charts.NewLine()
	line.SetGlobalOptions(append(hidden,
		charts.WithInitializationOpts(opts.Initialization{ChartID: "line"}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "axis"}),
		charts.WithXAxisOpts(opts.XAxis{Type: "log", Name: "Concurrency (log₂)", NameLocation: "middle", NameGap: 26}),
		charts.WithYAxisOpts(opts.YAxis{Type: "value", Min: 0, Name: ""}))...)
	line.AddSeries("value", nil, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "circle", SymbolSize: 7, ConnectNulls: opts.Bool(false)}))
	line.AddSeries("gate", nil, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "rect", SymbolSize: []int{16, 2}, ConnectNulls: opts.Bool(false)}))
	line.AddSeries("bad", nil, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "diamond", SymbolSize: 13}))
	line.Validate()
	front := charts.NewLine()
	front.SetGlobalOptions(append(hidden,
		charts.WithInitializationOpts(opts.Initialization{ChartID: "front"}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "item"}),
		charts.WithXAxisOpts(opts.XAxis{Type: "value", Min: 0, Name: "Interactivity, tok/s per user (1000 / mean TPOT)", NameLocation: "middle", NameGap: 26}),
		charts.WithYAxisOpts(opts.YAxis{Type: "value", Min: 0, Name: ""}))...)
	front.AddSeries("front", nil, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "circle", SymbolSize: 8, Step: "end"}))
	front.AddSeries("value", nil, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "emptyCircle", SymbolSize: 7}))
	front.AddSeries("bad", nil, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "diamond", SymbolSize: 13}))
	front.Validate()
	quantile := charts.NewLine()
	quantile.SetGlobalOptions(append(hidden,
		charts.WithInitializationOpts(opts.Initialization{ChartID: "quantile"}),
		charts.WithGridOpts(opts.Grid{Left: "4", Right: "40", Top: "18", Bottom: "24", ContainLabel: opts.Bool(true)}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "axis"}),
		charts.WithXAxisOpts(opts.XAxis{Type: "value", Min: 0, Max: 100, Name: "Share of requests, %", NameLocation: "middle", NameGap: 26}),
		charts.WithYAxisOpts(opts.YAxis{Type: "value", Min: 0, Name: ""}))...)
	quantile.Validate()
	return map[string]any{"line": line.JSON(), "front": front.JSON(), "quantile": quantile.JSON()}
}

// chartData appends the points of every figure of the deck.
func chartData(d *blob, sections []*Section) error {
	o, err := json.Marshal(options())
	if err != nil {
		return fmt.Errorf("describing the charts: %w", err)
	}
	d.raw(`"options":`)
	d.b = append(d.b, o...)
	d.raw(`,"shapes":[`)
	n := 0
	for _, s := range sections {
		for _, sh := range s.Shapes {
			d.comma(n)
			n++
			d.raw("\n{\"title\":")
			d.text(sh.Title)
			if s.Folded {
				d.raw(`,"section":"` + s.ID + `","cells":[`)
				for i, c := range sh.cells {
					d.comma(i)
					d.int(c.at)
				}
				d.raw("]")
			}
			d.raw(`,"figures":[`)
			for i, f := range sh.Figures {
				d.comma(i)
				d.figure(f, s.Folded)
			}
			d.raw("]}")
		}
	}
	d.raw("]")
	return nil
}

// figure appends a figure; in short form its points refer to the data of cells.
func (d *blob) figure(f *Figure, short bool) {
	for i, part := range []struct{ key, value string }{
		{"id", f.ID}, {"kind", f.data.kind}, {"title", f.Title}, {"label", f.Label}, {"unit", f.Unit}, {"metric", f.data.metric},
		{"sign", f.data.sign}, {"gate", f.Gate}, {"gaps", f.Gaps}, {"off", f.Off}, {"thin", f.Thin}, {"rangeLabel", f.Range},
	} {
		if part.value == "" {
			continue
		}
		if i == 0 {
			d.raw("{")
		} else {
			d.raw(",")
		}
		d.raw(`"` + part.key + `":`)
		d.text(part.value)
	}
	if def, ok := lookup(f.data.metric); ok {
		d.raw(`,"digits":`)
		d.int(def.Digits)
	}
	if f.data.kind == "line" {
		d.raw(`,"x":[`)
		d.float(f.data.lo)
		d.raw(",")
		d.float(f.data.hi)
		d.raw("]")
	}
	if f.Blank {
		d.raw(`,"blank":true`)
	}
	d.raw(`,"points":[`)
	for i, p := range f.data.points {
		d.comma(i)
		d.raw("[")
		switch {
		case f.data.kind != "front":
			d.int(p.conc)
		case !short || !d.valueAt(f.data.cells[p.cell], p.cell, "mean_tpot_ms"):
			d.float(p.x)
		}
		d.raw(",")
		if !short || p.value == nil || !d.valueAt(f.data.cells[p.cell], p.cell, f.data.metric) {
			d.number(p.value)
		}
		d.raw(",")
		if !short || p.gate == nil || !d.gateAt(f.data.cells[p.cell], p.cell, f.data.metric) {
			d.number(p.gate)
		}
		switch {
		case p.failed:
			d.raw(`,"bad"`)
		case p.off:
			d.raw(`,"off"`)
		default:
			d.raw(`,""`)
		}
		if p.value == nil || p.name != "" {
			d.raw(",")
			d.text(p.missing + p.name)
		}
		if p.front {
			d.raw(",1")
		}
		d.raw("]")
	}
	d.raw("]")
	d.ranges(f)
	d.also(f.data.also)
	d.raw("}")
}

// far is the height above which a gate is named instead of drawn: a placeholder
// of a million milliseconds would press the values flat on the axis.
func (c curve) far() float64 {
	top := 0.0
	for _, p := range c.points {
		if p.value != nil {
			top = math.Max(top, *p.value)
		}
	}
	if top == 0 {
		return math.Inf(1)
	}
	return 4 * top
}

// octave widens a bound of the axis to a power of two, and a little more where
// it is one already, so that no point sits on the frame.
func octave(conc int, round func(float64) float64) float64 {
	l := math.Log2(float64(max(conc, 1)))
	r := round(l)
	if r == l {
		r += round(0.5) - 0.5
	}
	return math.Pow(2, r)
}

// valueAt appends where a cell's data holds a metric, and says whether it does.
func (d *blob) valueAt(c *cell, place int, name string) bool {
	host := -1
	for i, m := range c.metrics {
		if i == 0 || m.Host != c.metrics[i-1].Host {
			host++
		}
		if m.Metric == name {
			d.place(place, host)
			return true
		}
	}
	return false
}

// gateAt appends where a cell's data holds the worst gate on a metric, and says
// whether it does.
func (d *blob) gateAt(c *cell, place int, name string) bool {
	worst, block, row := c.gate(name), -1, 0
	for i, g := range c.gates {
		if row++; i == 0 || g.Host != c.gates[i-1].Host || g.File != c.gates[i-1].File {
			block, row = block+1, 0
		}
		if g == worst {
			d.place(place, block, row)
			return true
		}
	}
	return false
}

func (d *blob) place(at ...int) {
	d.raw("[")
	for i, n := range at {
		d.comma(i)
		d.int(n)
	}
	d.raw("]")
}
