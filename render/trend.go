package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"cvs/warehouse"
)

// maxTrends bounds the values whose past a large deck draws.
const maxTrends = 60

// trend is the past of the headline metrics, beside the previous and the golden
// run; nil where no value has one.
func (b *builder) trend() *Section {
	if len(b.d.Trend) == 0 && b.d.Problems["trend"] == "" {
		return nil
	}
	s := &Section{ID: "trend", Title: "Against its past", Queries: b.sql("SELECT * FROM trend WHERE run_id = %s AND metric IN ('" + strings.Join(meanMetrics, "', '") + "')"),
		Intro: "Each value beside four baselines: the previous run, the golden one, the median of the last ten comparable runs and the best of the last twenty; + is better. Small losses that each pass against the run before add up here. The line runs from the oldest of these values to this run's."}
	rows := slices.Clone(b.d.Trend)
	least := func(r warehouse.TrendRow) float64 {
		if r.MidPct == nil || !finite(*r.MidPct) {
			return math.Inf(1)
		}
		return *r.MidPct
	}
	slices.SortStableFunc(rows, func(x, y warehouse.TrendRow) int { return cmp.Compare(least(x), least(y)) })
	if b.large() && len(rows) > maxTrends {
		s.Notes = append(s.Notes, fmt.Sprintf("Shown are the %d of %s that lost most against their median; the query below gives the rest.", maxTrends, plural(len(rows), "value")))
		rows = rows[:maxTrends]
	}
	prev, golden := betterOf(b.d.Prev), betterOf(b.d.Golden)
	t := &Table{ID: "trend-table", Caption: s.Title, Tall: true, Tools: true, Head: []Column{{Text: "Cell"}, {Text: "Metric", Filter: true}, {Text: "Now", Class: "n"},
		{Text: "Previous run", Title: "change against it, + is better", Class: "n"}, {Text: "Golden run", Title: "change against it, + is better", Class: "n"},
		{Text: "Median of ten", Title: "change against the median of the last ten earlier values, + is better", Class: "n"},
		{Text: "Best", Title: "change against the best of the last twenty earlier values, + is better", Class: "n"},
		{Text: "Best value", Class: "n"}, {Text: "Best run"}, {Text: "Past", Class: "barcell"}}}
	for i := range rows {
		r := &rows[i]
		where := Cell{Text: text(r.CellKey)}
		if c := b.by[r.CellKey]; c != nil {
			where = b.cellLink(c)
		}
		where.Small = text(r.Slot)
		change := func(pct *float64, title string) Cell {
			if pct == nil || !finite(*pct) {
				return Cell{Text: "—", Class: "n dim", HasRaw: true}
			}
			c := b.number(*pct, percent(*pct))
			c.Title = strings.Trim(c.Title+"; "+title, "; ")
			return c
		}
		value := func(v *float64) Cell {
			return metricValue(&warehouse.MetricRow{Metric: r.Metric, Unit: r.Unit, Value: v}, true)
		}
		k := [3]string{r.CellKey, r.Slot, r.Metric}
		best := Cell{Text: orDash(text(r.BestRun))}
		if r.BestAt != nil {
			best.Small = instant(*r.BestAt)
		}
		if r.IsBest {
			best.Small = strings.TrimPrefix(best.Small+"; this run is better", "; ")
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{where, metricCell(r.Metric), value(r.Value), change(prev[k], ""), change(golden[k], ""),
			change(r.MidPct, "median of "+plural(r.MidRuns, "earlier value")), change(r.BestPct, ""), value(r.Best), best, {Class: "barcell", Spark: trendLine(r)}}})
	}
	s.Tables = []*Table{t}
	return s
}

// betterOf are the changes of a comparison by cell, slot and metric.
func betterOf(rows []ComparedRow) map[[3]string]*float64 {
	out := make(map[[3]string]*float64, len(rows))
	for _, r := range rows {
		out[[3]string{r.CellKey, r.Slot, r.Metric}] = r.BetterPct
	}
	return out
}

// trendLine draws the past of a value and the value itself. The box is as high as
// they differ, but no less than 10 % of the median: noise of one per cent must not
// look like a collapse.
func trendLine(r *warehouse.TrendRow) *Spark {
	if r.Value == nil || !finite(*r.Value) || len(r.Past) == 0 {
		return nil
	}
	all := append(slices.Clone(r.Past), *r.Value)
	low, high := slices.Min(all), slices.Max(all)
	label := fmt.Sprintf("%s from %s to %s %s, now %s", plural(len(r.Past), "earlier value"), rounded(r.Metric, slices.Min(r.Past)), rounded(r.Metric, slices.Max(r.Past)), text(r.Unit), rounded(r.Metric, *r.Value))
	if r.Mid != nil {
		if least := math.Abs(*r.Mid) / 10; high-low < least {
			middle := (low + high) / 2
			low, high = middle-least/2, middle+least/2
		}
	}
	switch {
	case !finite(high - low):
		return nil
	case high == low:
		low, high = low-1, high+1
	}
	var line strings.Builder
	s := &Spark{Label: label}
	pen := "M"
	for i, v := range all {
		x, y := 3+94*float64(i)/float64(len(all)-1), 22-20*(v-low)/(high-low)
		fmt.Fprintf(&line, "%s%.1f %.1f", pen, x, y)
		pen = "L"
		s.Dot = fmt.Sprintf("M%.1f %.1fh0", x, y)
	}
	s.Line = line.String()
	return s
}
