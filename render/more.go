package render

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// What a [Source] may know besides; without it the deck says "not compared".
type (
	prevRunner interface {
		PrevRun(ctx context.Context, runID string) ([]warehouse.PrevRunRow, error)
	}
	parityJudge interface {
		FrameworkParity(ctx context.Context, runID string) ([]warehouse.ParityRow, error)
	}
	goldKeeper interface {
		Golden(ctx context.Context, runID string) ([]warehouse.GoldenRow, error)
	}
	noiseJudge interface {
		Regressions(ctx context.Context, runID string) ([]warehouse.RegressionRow, error)
	}
	scaler interface {
		Scaling(ctx context.Context, runID string) ([]warehouse.ScalingRow, error)
	}
	differ interface {
		WhatChanged(ctx context.Context, before, after string) ([]warehouse.ChangedRow, error)
	}
	accuracyComparer interface {
		AccuracyPrevRun(ctx context.Context, runID string) ([]warehouse.AccuracyPrevRow, error)
	}
	timeKeeper interface {
		RequestQuantiles(ctx context.Context, runID string) ([]warehouse.QuantileRow, error)
	}
	tester interface {
		RepeatTest(ctx context.Context, runID, other string) ([]warehouse.RepeatTestRow, error)
	}
	trender interface {
		Trend(ctx context.Context, runID string, metrics ...string) ([]warehouse.TrendRow, error)
	}
	meaner interface {
		MeanChanges(ctx context.Context, all []warehouse.Ratios) ([]warehouse.MeanChange, error)
	}
	logKeeper interface {
		// LogTails is the end of the logs of the cells that failed to run.
		LogTails(ctx context.Context, runID string) ([]LogTail, error)
	}
)

// queryMore asks for what not every source knows.
func (d *Data) queryMore(ctx context.Context, src Source, runID string, may func(section string, err error) error) error {
	judged := map[[3]string]warehouse.RegressionRow{}
	if s, ok := src.(noiseJudge); ok {
		rows, err := s.Regressions(ctx, runID)
		if may("previous", err) != nil {
			return err
		}
		for _, r := range rows {
			judged[[3]string{r.CellKey, r.Slot, r.Metric}] = r
		}
	}
	if s, ok := src.(prevRunner); ok {
		rows, err := s.PrevRun(ctx, runID)
		if may("previous", err) != nil {
			return err
		}
		for _, r := range rows {
			j := judged[[3]string{r.CellKey, r.Slot, r.Metric}]
			reason := r.Reason
			if reason == "" && r.Changed {
				reason = j.Reason
			}
			x := prevCompared(r)
			x.Reason, x.Judgement = reason, j.State
			d.Prev = append(d.Prev, x)
		}
	}
	if s, ok := src.(tester); ok && d.repeated() {
		if before := mostlyComparedWith(d.Prev); before != "" {
			if err := askTests(ctx, s, runID, before, d.Prev); may("previous", err) != nil {
				return err
			}
		}
	}
	if s, ok := src.(differ); ok {
		if before := mostlyComparedWith(d.Prev); before != "" {
			var err error
			if d.Changed, err = s.WhatChanged(ctx, before, runID); may("changed", err) != nil {
				return err
			}
		}
	}
	if s, ok := src.(goldKeeper); ok {
		rows, err := s.Golden(ctx, runID)
		if may("golden", err) != nil {
			return err
		}
		for _, r := range rows {
			x := ComparedRow{CellKey: r.CellKey, Slot: r.Slot, Metric: r.Metric, OtherRun: r.GoldenRun, OtherAt: r.PinnedAt, Value: r.Value, Other: r.Golden, Ratio: r.Ratio,
				BetterPct: r.BetterPct, State: r.State, Reason: r.Reason, Changed: r.BetterPct != nil && math.Abs(*r.BetterPct) > 5, Regression: r.Regression}
			d.Golden = append(d.Golden, x)
		}
	}
	if s, ok := src.(parityJudge); ok {
		rows, err := s.FrameworkParity(ctx, runID)
		if may("parity", err) != nil {
			return err
		}
		for _, r := range rows {
			d.Parity = append(d.Parity, parityCompared(r, r.ReferenceDriver))
		}
	}
	if s, ok := src.(trender); ok {
		var err error
		if d.Trend, err = s.Trend(ctx, runID, meanMetrics...); may("trend", err) != nil {
			return err
		}
	}
	if s, ok := src.(meaner); ok {
		if err := d.askMeans(ctx, s); may("previous", err) != nil {
			return err
		}
	}
	var err error
	if s, ok := src.(timeKeeper); ok {
		if d.Quantiles, err = s.RequestQuantiles(ctx, runID); may("distributions", err) != nil {
			return err
		}
	}
	if s, ok := src.(scaler); ok {
		if d.Scaling, err = s.Scaling(ctx, runID); may("scaling", err) != nil {
			return err
		}
	}
	if s, ok := src.(accuracyComparer); ok {
		if d.AccuracyPrev, err = s.AccuracyPrevRun(ctx, runID); may("accuracy", err) != nil {
			return err
		}
	}
	if s, ok := src.(logKeeper); ok {
		if d.Logs, err = s.LogTails(ctx, runID); may("logs", err) != nil {
			return err
		}
	}
	return nil
}

// mostlyComparedWith is the run that most values were compared with; "" without
// one.
func mostlyComparedWith(rows []ComparedRow) string {
	count, best := map[string]int{}, ""
	for _, r := range rows {
		if r.State != "compared" || r.OtherRun == "" {
			continue
		}
		count[r.OtherRun]++
		if count[r.OtherRun] > count[best] || count[r.OtherRun] == count[best] && r.OtherRun < best {
			best = r.OtherRun
		}
	}
	return best
}

// repeated reports whether any value is that of several benchmarks.
func (d *Data) repeated() bool {
	return slices.ContainsFunc(d.Metrics, func(m warehouse.MetricRow) bool { return m.Repeats > 1 })
}

// askTests puts to the rows compared with another run what the repeats of both
// tell.
func askTests(ctx context.Context, s tester, runID, other string, rows []ComparedRow) error {
	tests, err := s.RepeatTest(ctx, runID, other)
	if err != nil {
		return err
	}
	by := make(map[[3]string]*warehouse.RepeatTestRow, len(tests))
	for i := range tests {
		t := &tests[i]
		by[[3]string{t.CellKey, t.Slot, t.Metric}] = t
	}
	for i := range rows {
		if r := &rows[i]; r.OtherRun == other {
			r.Repeats = by[[3]string{r.CellKey, r.Slot, r.Metric}]
		}
	}
	return nil
}

// meanMetrics are summed up over all cells of a comparison.
var meanMetrics = []string{metric.Headline, "mean_ttft_ms", "mean_tpot_ms"}

// askMeans sums each comparison up.
func (d *Data) askMeans(ctx context.Context, s meaner) error {
	var all []warehouse.Ratios
	for _, c := range []struct {
		section string
		rows    []ComparedRow
	}{{"previous", d.Prev}, {"golden", d.Golden}} {
		all = append(all, ratios(c.section, c.rows, meanMetrics)...)
	}
	means, err := s.MeanChanges(ctx, all)
	d.Means = map[string]warehouse.MeanChange{}
	for _, m := range means {
		d.Means[m.Key] = m
	}
	return err
}

// ratios are what is to be summed up of a comparison, keyed by [meanKey].
func ratios(section string, rows []ComparedRow, metrics []string) []warehouse.Ratios {
	var out []warehouse.Ratios
	for _, name := range metrics {
		r := warehouse.Ratios{Key: meanKey(section, name), Metric: name}
		for _, row := range rows {
			if row.State == "compared" && row.Metric == name && row.Ratio != nil {
				r.Ratios = append(r.Ratios, *row.Ratio)
			}
		}
		if r.Ratios != nil {
			out = append(out, r)
		}
	}
	return out
}

func meanKey(section, name string) string { return section + " " + name }

// words say a mean change with its interval and the number of cells.
func meanWords(m warehouse.MeanChange) (change, how string) {
	if m.BetterPct == nil {
		return "—", ""
	}
	change, how = percent(*m.BetterPct), "of one cell"
	if m.LowPct != nil && m.HighPct != nil {
		change += " [" + strings.TrimSuffix(percent(*m.LowPct), " %") + ", " + strings.TrimSuffix(percent(*m.HighPct), " %") + "]"
		how = fmt.Sprintf("geometric mean of %s with its 95 %% interval", plural(m.Cells, "cell"))
	}
	return change, how
}

func prevCompared(r warehouse.PrevRunRow) ComparedRow {
	return ComparedRow{CellKey: r.CellKey, Slot: r.Slot, Metric: r.Metric, OtherRun: r.BaseRun, OtherAt: r.BaseAt, Value: r.Value, Other: r.Previous, Ratio: r.Ratio,
		BetterPct: r.BetterPct, State: r.State, Reason: r.Reason, Changed: r.Changed, Regression: r.Regression, NoisePct: r.NoisePct, NoiseRuns: r.NoiseRuns}
}

// parityCompared names the framework compared with where several may be.
func parityCompared(r warehouse.ParityRow, framework string) ComparedRow {
	reason := r.Reason
	if framework != "" {
		reason = strings.TrimSuffix("against "+framework+"; "+reason, "; ")
	}
	return ComparedRow{CellKey: r.CellKey, Slot: r.Slot, Metric: r.Metric, OtherRun: r.ReferenceRun, OtherAt: r.ReferenceAt, Value: r.Value, Other: r.Reference, Ratio: r.Ratio,
		BetterPct: r.BetterPct, State: r.State, Reason: reason, Changed: r.BetterPct != nil && math.Abs(*r.BetterPct) > 5, Regression: r.BetterPct != nil && *r.BetterPct < -5}
}
