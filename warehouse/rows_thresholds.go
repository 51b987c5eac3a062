package warehouse

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
)

// A SuggestionRow is a bound that history suggests.
type SuggestionRow struct {
	SeriesID, CellKey, Metric, Unit, Direction string
	Kind                                       string // of the spec
	Value                                      float64
	Runs                                       int // it comes from
	Mid, Spread                                float64
	Tested, WouldFail                          int // runs of the whole series
}

// SuggestThresholds suggests bounds for every gated metric of every series with
// at least five runs, such that a run as those before breaks one with the chance
// falseAlarm (a fraction, above 0 and below 0.5).
func (w *DB) SuggestThresholds(ctx context.Context, falseAlarm float64) ([]SuggestionRow, error) {
	if !(falseAlarm > 0 && falseAlarm < 0.5) {
		return nil, fmt.Errorf("suggest thresholds: a chance of %v is not between 0 and 0.5", falseAlarm)
	}
	z := math.Sqrt2 * math.Erfinv(1-2*falseAlarm) // one-sided quantile of the normal distribution
	return readLate(ctx, w, "threshold_suggestion", `
		SELECT series_id, cell_key, metric, unit, direction, kind, value, runs, mid, spread, tested, would_fail
		FROM threshold_suggestion(?) ORDER BY series_id, cell_key, metric_ordinal`,
		func(r *SuggestionRow) []any {
			return []any{
				&r.SeriesID, &r.CellKey, &r.Metric, &r.Unit, &r.Direction, &r.Kind, &r.Value, &r.Runs, &r.Mid, &r.Spread, &r.Tested, &r.WouldFail,
			}
		}, z)
}

// A Spec is one threshold to try on the history.
type Spec struct {
	Cell         string   `json:"cell"`
	Metric       string   `json:"metric"`
	Kind         string   `json:"kind"`
	Value        *float64 `json:"value"`
	TolerancePct *float64 `json:"tolerance_pct"`
}

// A BacktestRow says what one spec would have done to one series.
type BacktestRow struct {
	SeriesID, CellKey, Metric, Kind string
	Value                           float64
	Runs, WouldFail                 int
	Lowest, Mid, Highest            float64
}

// Backtest tries specs on the history; specs without history are not in the
// answer.
func (w *DB) Backtest(ctx context.Context, specs []Spec) ([]BacktestRow, error) {
	text, err := json.Marshal(specs)
	if err != nil {
		return nil, fmt.Errorf("backtest: %w", err)
	}
	return readLate(ctx, w, "threshold_backtest", `
		SELECT series_id, cell_key, metric, kind, value, runs, would_fail, lowest, mid, highest
		FROM threshold_backtest(?) ORDER BY series_id, cell_key, metric_ordinal, kind, value`,
		func(r *BacktestRow) []any {
			return []any{&r.SeriesID, &r.CellKey, &r.Metric, &r.Kind, &r.Value, &r.Runs, &r.WouldFail, &r.Lowest, &r.Mid, &r.Highest}
		}, string(text))
}

// A BacktestRunsRow says what all specs together would have done to the runs of
// one series.
type BacktestRunsRow struct {
	SeriesID        string
	Runs, WouldFail int
	LastFailed      string // the latest run that would have failed, "" if none
}

// BacktestRuns tries specs on the history, run by run: a run fails if one of its
// values does.
func (w *DB) BacktestRuns(ctx context.Context, specs []Spec) ([]BacktestRunsRow, error) {
	text, err := json.Marshal(specs)
	if err != nil {
		return nil, fmt.Errorf("backtest: %w", err)
	}
	return readLate(ctx, w, "threshold_backtest_runs", "SELECT series_id, runs, would_fail, coalesce(last_failed, '') FROM threshold_backtest_runs(?) ORDER BY series_id",
		func(r *BacktestRunsRow) []any { return []any{&r.SeriesID, &r.Runs, &r.WouldFail, &r.LastFailed} }, string(text))
}
