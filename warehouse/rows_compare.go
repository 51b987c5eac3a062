package warehouse

import (
	"context"
	"time"
)

// A PrevRunRow is one row of view prev_run: one metric of one cell against the
// run before, or, with an empty Metric, a cell that was not compared as a whole.
// One row with an empty CellKey says that nothing was compared.
type PrevRunRow struct {
	CellKey    string
	Slot       string // host where several measured the cell, else ""
	Metric     string
	Unit       string
	Direction  string // higher, lower, neutral
	Tier       string
	Previous   *float64
	Value      *float64
	Ratio      *float64 // Value / Previous
	DeltaPct   *float64 // per cent of Previous, signed as measured
	BetterPct  *float64 // the same with + for better
	State      string   // compared, new, gone, not_comparable
	Reason     string   // why it is not compared, or what to know about it
	Changed    bool     // more than 5 % either way
	Regression bool     // more than 5 % to the worse: the plain rule
	NoisePct   *float64 // robust spread of the earlier runs, per cent
	NoiseRuns  int      // earlier runs it comes from
	BaseRun    string   // run compared with, or the baseline's name
	BaseAt     *time.Time
}

const prevRunColumns = `cell_key, slot, metric, unit, direction, tier, previous, value, ratio, delta_pct, better_pct, state, coalesce(reason, ''), changed, regression,
	noise_pct, noise_runs, coalesce(previous_run, ''), previous_at`

const prevRunOrder = " ORDER BY cell_ordinal NULLS LAST, cell_key, slot, metric_ordinal, metric"

func prevRunDest(r *PrevRunRow) []any {
	return []any{
		&r.CellKey, &r.Slot, &r.Metric, &r.Unit, &r.Direction, &r.Tier, &r.Previous, &r.Value, &r.Ratio, &r.DeltaPct, &r.BetterPct, &r.State,
		&r.Reason, &r.Changed, &r.Regression, &r.NoisePct, &r.NoiseRuns, &r.BaseRun, &r.BaseAt,
	}
}

// PrevRun compares a run with the latest earlier comparable runs of the
// warehouse, cell by cell in plan order.
func (w *DB) PrevRun(ctx context.Context, runID string) ([]PrevRunRow, error) {
	return readRunLate(ctx, w, runID, "prev_run", "SELECT "+prevRunColumns+" FROM prev_run WHERE run_id = ?"+prevRunOrder, prevRunDest, runID)
}

// A ParityRow is one row of view framework_parity; the empty Metric and CellKey
// mean what they mean in [PrevRunRow].
type ParityRow struct {
	CellKey         string
	Slot            string
	Metric          string // output_throughput, mean_ttft_ms, mean_tpot_ms
	Name            string // compare.vllm.output_throughput_ratio and so on
	Unit            string
	Direction       string
	Driver          string
	ReferenceRun    string
	ReferenceDriver string
	ReferenceAt     *time.Time
	Value           *float64
	Reference       *float64
	Ratio           *float64 // Value / Reference
	BetterPct       *float64 // per cent of Reference, + for better
	State           string   // compared, no_reference, only_reference, not_comparable
	Reason          string
}

const parityColumns = `cell_key, slot, metric, name, unit, direction, coalesce(driver, ''), coalesce(reference_run, ''), coalesce(reference_driver, ''), reference_at,
	value, reference, ratio, better_pct, state, coalesce(reason, '')`

const parityOrder = " ORDER BY reference_driver, reference_run, cell_ordinal NULLS LAST, cell_key, slot, metric_ordinal, metric"

func parityDest(r *ParityRow) []any {
	return []any{
		&r.CellKey, &r.Slot, &r.Metric, &r.Name, &r.Unit, &r.Direction, &r.Driver, &r.ReferenceRun, &r.ReferenceDriver, &r.ReferenceAt, &r.Value,
		&r.Reference, &r.Ratio, &r.BetterPct, &r.State, &r.Reason,
	}
}

// FrameworkParity compares a run with the nearest runs of other serving
// frameworks, all else equal.
func (w *DB) FrameworkParity(ctx context.Context, runID string) ([]ParityRow, error) {
	return readRunLate(ctx, w, runID, "framework_parity", "SELECT "+parityColumns+" FROM framework_parity WHERE run_id = ?"+parityOrder, parityDest, runID)
}

// A ScalingRow is one row of view scaling.
type ScalingRow struct {
	CellKey            string
	Slot               string
	NNodes             int
	OutputThroughput   *float64 // tok/s
	ConfiguredBaseline *float64 // tok/s on one node
	ConfiguredPct      *float64
	SingleRun          string
	SingleThroughput   *float64 // tok/s
	SinglePct          *float64
	SingleAgeDays      *float64
	SingleImage        string
	Reason             string
}

// Scaling says how much of the single-node throughput each node of a run
// delivers; empty for a run on one node without a baseline.
func (w *DB) Scaling(ctx context.Context, runID string) ([]ScalingRow, error) {
	return readRunLate(ctx, w, runID, "scaling", `
		SELECT cell_key, slot, coalesce(nnodes, 0), output_throughput, configured_baseline, configured_pct, coalesce(single_run, ''), single_throughput, single_pct,
			single_age_days, coalesce(single_image, ''), coalesce(reason, '')
		FROM scaling WHERE run_id = ? ORDER BY cell_ordinal, cell_key, slot`,
		func(r *ScalingRow) []any {
			return []any{
				&r.CellKey, &r.Slot, &r.NNodes, &r.OutputThroughput, &r.ConfiguredBaseline, &r.ConfiguredPct, &r.SingleRun, &r.SingleThroughput,
				&r.SinglePct, &r.SingleAgeDays, &r.SingleImage, &r.Reason,
			}
		}, runID)
}

// An AccuracyPrevRow is one row of view accuracy_prev_run.
type AccuracyPrevRow struct {
	TaskID, Metric  string
	Value, StdErr   *float64
	Previous        *float64
	PreviousStdErr  *float64
	Delta           *float64
	Noise           *float64 // 1.645 standard errors of the difference
	State           string   // compared, new
	Regression      bool     // worse beyond 0.01 and beyond Noise
	Reason, BaseRun string
	BaseAt          *time.Time
}

const accuracyPrevColumns = `task_id, metric, value, stderr, previous, previous_stderr, delta, noise, state, regression, coalesce(reason, ''),
	coalesce(previous_run, ''), previous_at`

const accuracyPrevOrder = " ORDER BY task_id, ordinal, metric"

func accuracyPrevDest(r *AccuracyPrevRow) []any {
	return []any{
		&r.TaskID, &r.Metric, &r.Value, &r.StdErr, &r.Previous, &r.PreviousStdErr, &r.Delta, &r.Noise, &r.State, &r.Regression, &r.Reason,
		&r.BaseRun, &r.BaseAt,
	}
}

// AccuracyPrevRun compares what lm-eval measured in a run with the run before.
func (w *DB) AccuracyPrevRun(ctx context.Context, runID string) ([]AccuracyPrevRow, error) {
	return readRunLate(ctx, w, runID, "accuracy_prev_run", "SELECT "+accuracyPrevColumns+" FROM accuracy_prev_run WHERE run_id = ?"+accuracyPrevOrder, accuracyPrevDest, runID)
}

// A GoldenRow is one row of view golden.
type GoldenRow struct {
	CellKey, Slot, Metric, Unit, Direction string
	Name, GoldenRun                        string
	PinnedAt                               *time.Time
	Value, Golden, DeltaPct, BetterPct     *float64
	Ratio                                  *float64 // Value / Golden
	Regression                             bool
	State, Reason                          string // compared or not_comparable, and why or what to know
}

// Golden compares a run with the baseline pinned for its identity; empty if none
// is.
func (w *DB) Golden(ctx context.Context, runID string) ([]GoldenRow, error) {
	return readRunLate(ctx, w, runID, "golden", `
		SELECT g.cell_key, g.slot, g.metric, g.unit, g.direction, g.name, g.golden_run, g.pinned_at, g.value, g.golden, g.delta_pct, g.better_pct, g.regression, g.ratio, g.state, coalesce(g.reason, '')
		FROM golden g LEFT JOIN expected_cell e ON e.run_id = g.run_id AND e.cell_key = g.cell_key
		WHERE g.run_id = ? ORDER BY e.ordinal, g.cell_key, g.slot, g.metric_ordinal`,
		func(r *GoldenRow) []any {
			return []any{
				&r.CellKey, &r.Slot, &r.Metric, &r.Unit, &r.Direction, &r.Name, &r.GoldenRun, &r.PinnedAt, &r.Value, &r.Golden, &r.DeltaPct, &r.BetterPct,
				&r.Regression, &r.Ratio, &r.State, &r.Reason,
			}
		}, runID)
}

// A TrendRow is one row of view trend.
type TrendRow struct {
	CellKey, Slot, Metric, Unit, Direction string
	Value, Mid, MidPct                     *float64 // Mid: median of the last MidRuns earlier values
	MidRuns                                int
	Best, BestPct                          *float64 // of the earlier values
	BestRun                                string
	BestAt                                 *time.Time
	IsBest                                 bool      // better than all of them
	Past                                   []float64 // these, the oldest first; at most 20
}

// Trend is the past of a run's values of these metrics; cells without one are not
// in it.
func (w *DB) Trend(ctx context.Context, runID string, metrics ...string) ([]TrendRow, error) {
	return readRunLate(ctx, w, runID, "trend", `
		SELECT t.cell_key, t.slot, t.metric, t.unit, t.direction, t.value, t.mid, t.mid_pct, t.mid_runs, t.best, t.best_pct, t.best_run, t.best_at, t.is_best, to_json(t.past)::VARCHAR
		FROM trend t LEFT JOIN expected_cell e ON e.run_id = t.run_id AND e.cell_key = t.cell_key
		WHERE t.run_id = ? AND t.metric IN `+listed+` ORDER BY e.ordinal, t.cell_key, t.slot, t.metric_ordinal`,
		func(r *TrendRow) []any {
			return []any{&r.CellKey, &r.Slot, &r.Metric, &r.Unit, &r.Direction, &r.Value, &r.Mid, &r.MidPct, &r.MidRuns, &r.Best, &r.BestPct, &r.BestRun, &r.BestAt, &r.IsBest, (*numbers)(&r.Past)}
		}, runID, list(metrics))
}

// A RegressionRow is one row of view regressions.
type RegressionRow struct {
	CellKey, Slot, Metric, Unit, Direction string
	Value, EarlierMid                      *float64
	EarlierRuns                            int
	RobustCVPct, LimitPct                  *float64
	ChangePct, BetterPct                   *float64
	State                                  string // regression, improvement, suspect, within noise, within threshold, inconclusive
	Reason                                 string
}

// Regressions judges a run against the level of the comparable runs before it.
func (w *DB) Regressions(ctx context.Context, runID string) ([]RegressionRow, error) {
	return readRunLate(ctx, w, runID, "regressions", `
		SELECT cell_key, slot, metric, unit, direction, value, earlier_mid, earlier_runs, robust_cv_pct, limit_pct, change_pct, better_pct, state, coalesce(reason, '')
		FROM regressions WHERE run_id = ? ORDER BY cell_ordinal, cell_key, slot, metric_ordinal`,
		func(r *RegressionRow) []any {
			return []any{
				&r.CellKey, &r.Slot, &r.Metric, &r.Unit, &r.Direction, &r.Value, &r.EarlierMid, &r.EarlierRuns, &r.RobustCVPct, &r.LimitPct,
				&r.ChangePct, &r.BetterPct, &r.State, &r.Reason,
			}
		}, runID)
}

// A ChangedRow is one field that differs between two runs.
type ChangedRow struct {
	Field         string
	Before, After *string // nil: the side has no such field
}

// WhatChanged lists what differs between two runs besides their results.
func (w *DB) WhatChanged(ctx context.Context, before, after string) ([]ChangedRow, error) {
	return readLate(ctx, w, "what_changed", "SELECT field, before, after FROM what_changed(?, ?) ORDER BY rank, field",
		func(r *ChangedRow) []any { return []any{&r.Field, &r.Before, &r.After} }, before, after)
}

// A RepeatTestRow is one row of macro repeat_test.
type RepeatTestRow struct {
	CellKey, Slot, Metric string
	N, OtherN             int      // repeats in either run
	BetterPct             *float64 // change of the means in per cent, + is better
	P, Q                  *float64 // of Welch's t-test; Q over all cells of the metric
	State                 string   // better, worse, not told apart, no test
	Reason                string   // why there is no test
}

// RepeatTest tells whether a run differs from another by more than the repeats of
// either do.
func (w *DB) RepeatTest(ctx context.Context, runID, other string) ([]RepeatTestRow, error) {
	return readLate(ctx, w, "repeat_test", `SELECT cell_key, slot, metric, n, other_n, better_pct, p, q, state, coalesce(reason, '')
		FROM repeat_test(?, ?) ORDER BY cell_key, slot, metric_ordinal`,
		func(r *RepeatTestRow) []any {
			return []any{&r.CellKey, &r.Slot, &r.Metric, &r.N, &r.OtherN, &r.BetterPct, &r.P, &r.Q, &r.State, &r.Reason}
		}, runID, other)
}
