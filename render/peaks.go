package render

import (
	"cmp"
	"fmt"
	"slices"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// peaks says for each shape where its output throughput is highest, what a first
// token takes there, and whether more load brought more.
func (b *builder) peaks(shapes []*group) *Table {
	t := &Table{ID: "peaks", Title: "Peak of each shape", Caption: "Peak of each shape", Tools: true, Head: []Column{{Text: "Shape", Title: "input / output tokens"},
		{Text: "Peak output", Unit: unitOf(metric.Headline), Class: "n"}, {Text: "At concurrency", Class: "n"}, {Text: "Mean TTFT there", Unit: "ms", Class: "n"}, {Text: "With more load"}}}
	for _, g := range shapes {
		curve := g.curve()
		if len(curve) < 2 {
			continue
		}
		best := peakOf(curve)
		ttft := metricValue(best.metric("mean_ttft_ms"), false)
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: g.short()}, b.number(output(best), rounded(metric.Headline, output(best))), whole(best.Concurrency), ttft, {Text: loadWords(curve, best)}}})
	}
	return t
}

// curve are the cells with an output throughput, by concurrency.
func (g *group) curve() []*cell {
	cells := slices.DeleteFunc(slices.Clone(g.cells), func(c *cell) bool {
		v := c.metric(metric.Headline).Value
		return c.State == warehouse.Error || v == nil || !finite(*v)
	})
	slices.SortStableFunc(cells, func(x, y *cell) int { return cmp.Compare(x.Concurrency, y.Concurrency) })
	return cells
}

func output(c *cell) float64 { return *c.metric(metric.Headline).Value }

// peakOf is the cell with the highest output throughput; of equal ones that of
// the lowest concurrency.
func peakOf(curve []*cell) *cell {
	best := curve[0]
	for _, c := range curve {
		if output(c) > output(best) {
			best = c
		}
	}
	return best
}

// loadWords says how a curve ends: one per cent, as in the older suite's rule,
// is the difference between a flat end and a rising or falling one.
func loadWords(curve []*cell, best *cell) string {
	last, before := output(curve[len(curve)-1]), output(curve[len(curve)-2])
	switch {
	case last < 0.99*output(best):
		return fmt.Sprintf("past the knee: %s at %d", percent(100*(last/output(best)-1)), curve[len(curve)-1].Concurrency)
	case last <= 1.01*before:
		return "saturated"
	}
	return "still rising"
}
