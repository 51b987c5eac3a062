package render

import (
	"fmt"
	"math"
	"slices"
	"strings"

	// Builds ECharts' option objects as checked Go types. Its own HTML is never
	// used: it does not escape what it prints into a script.
	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// A Figure is one chart with the table that says the same in words. Its option
// stays data, so that html/template escapes it.
type Figure struct {
	ID, Title, Unit string
	Label           string // of the measured series
	Gate            string // of the gate series, "" without one
	Bad             bool   // a point fails its gate
	Alt             string // text alternative
	Gaps            string // points that have no value, in words
	Off             string // gates too far away to draw, in words
	Data            figureData
	Table           *Table
}

// figureData is what the page's script reads.
type figureData struct {
	Option any       `json:"option"`
	Roles  []string  `json:"roles"` // of each series: value, gate, bad
	Ticks  []float64 `json:"ticks"` // concurrencies to label
	Label  string    `json:"label"`
	Unit   string    `json:"unit"`
}

// A point is one concurrency of a series. A nil Value is a gap, a nil Gate no
// bound.
type point struct {
	conc    int
	value   *float64
	gate    *float64
	failed  bool   // the gate on this value failed
	missing string // why there is no value
}

// A curve is what a [Figure] is made of.
type curve struct {
	id, title, metric, label, unit string
	sign                           string // of the gate: ≥ or ≤
	points                         []point
}

// figure draws a curve: concurrency on a base-2 scale, values from zero, and no
// line across a point that has no value.
func (c curve) figure() *Figure {
	f := &Figure{ID: c.id, Title: c.title, Label: c.label, Unit: c.unit}
	slices.SortFunc(c.points, func(a, b point) int { return a.conc - b.conc })
	var values, gates, bad []opts.LineData
	var gaps, seen, off []string
	first, last := 0, 0
	gated, far := false, c.far()
	f.Table = &Table{Caption: "Data of the chart " + c.title, Head: []Column{
		{Text: "Concurrency", Class: "n"}, {Text: c.label, Unit: c.unit, Class: "n"}, {Text: "Gate", Unit: c.unit, Class: "n"}}}
	for _, p := range c.points {
		x := float64(p.conc)
		if first == 0 {
			first = p.conc
		}
		last = p.conc
		f.Data.Ticks = append(f.Data.Ticks, x)
		values = append(values, at(x, p.value))
		shownGate := p.gate
		if shownGate != nil && *shownGate > far {
			shownGate = nil
			off = append(off, fmt.Sprintf("%s at %d", bound(*p.gate), p.conc))
		}
		gates = append(gates, at(x, shownGate))
		row := Row{Cells: []Cell{{Text: grouped(x, 0), Class: "n"}, {Text: "—", Class: "n dim", Title: p.missing}, {Text: "—", Class: "n dim"}}}
		if p.value != nil {
			row.Cells[1] = Cell{Text: rounded(c.metric, *p.value), Class: "n", Title: exact(*p.value)}
			seen = append(seen, fmt.Sprintf("%s at %d", rounded(c.metric, *p.value), p.conc))
			if p.failed {
				bad = append(bad, at(x, p.value))
				row.Cells[1].Class = "n bad"
			}
		} else {
			gaps = append(gaps, fmt.Sprintf("%d (%s)", p.conc, p.missing))
		}
		gated = gated || shownGate != nil
		if p.gate != nil {
			row.Cells[2] = Cell{Text: c.sign + " " + bound(*p.gate), Class: "n", Title: exact(*p.gate)}
		}
		f.Table.Rows = append(f.Table.Rows, row)
	}
	line := charts.NewLine()
	line.SetGlobalOptions(
		charts.WithInitializationOpts(opts.Initialization{ChartID: c.id}),
		charts.WithAnimation(false),
		charts.WithLegendOpts(opts.Legend{Show: opts.Bool(false)}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "axis"}),
		charts.WithGridOpts(opts.Grid{Left: "4", Right: "14", Top: "18", Bottom: "24", ContainLabel: opts.Bool(true)}),
		charts.WithXAxisOpts(opts.XAxis{Type: "log", Name: "Concurrency (log₂)", NameLocation: "middle", NameGap: 26,
			Min: octave(first, math.Floor), Max: octave(last, math.Ceil)}),
		charts.WithYAxisOpts(opts.YAxis{Type: "value", Min: 0, Name: ""}),
	)
	shown := charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "circle", SymbolSize: 7, ConnectNulls: opts.Bool(false)})
	line.AddSeries(c.label, values, shown)
	f.Data.Roles = []string{"value"}
	if gated {
		line.AddSeries("Gate", gates, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "rect", SymbolSize: []int{16, 2}, ConnectNulls: opts.Bool(false)}))
		f.Data.Roles = append(f.Data.Roles, "gate")
		f.Gate = "Gate (minimum)"
		if c.sign == "≤" {
			f.Gate = "Gate (maximum)"
		}
	}
	if len(bad) > 0 {
		line.AddSeries("Fails its gate", bad, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: "diamond", SymbolSize: 13}))
		f.Data.Roles = append(f.Data.Roles, "bad")
		f.Bad = true
	}
	line.Validate()
	f.Data.Option, f.Data.Label, f.Data.Unit = line.JSON(), c.label, c.unit
	f.Alt = fmt.Sprintf("%s against concurrency: %s.", c.title, strings.Join(seen, ", "))
	if len(seen) == 0 {
		f.Alt = c.title + " against concurrency: no values."
	}
	if len(off) > 0 {
		f.Off = "Gate far above the values, not drawn: " + strings.Join(off, ", ") + "."
	}
	if len(gaps) > 0 {
		f.Gaps = "No value at concurrency " + strings.Join(gaps, ", ") + "."
	}
	return f
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

// at is a point of ECharts; a nil or non-finite y is a gap.
func at(x float64, y *float64) opts.LineData {
	if y == nil || math.IsNaN(*y) || math.IsInf(*y, 0) {
		return opts.LineData{Value: []any{x, nil}}
	}
	return opts.LineData{Value: []any{x, *y}}
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
