package warehouse

import "context"

// A QuantileRow is one row of view request_quantiles.
type QuantileRow struct {
	CellKey, Host string
	Measure       string // ttft, tpot, e2el
	Requests      int
	Probability   float64 // share of requests that were at least as fast
	MS            float64
}

// RequestQuantiles says how the times of a run's requests are distributed; empty
// where the client kept no times of single requests.
func (w *DB) RequestQuantiles(ctx context.Context, runID string) ([]QuantileRow, error) {
	return readRunLate(ctx, w, runID, "request_quantiles", `
		SELECT q.cell_key, coalesce(q.host, ''), q.measure, q.requests, q.probability, q.ms
		FROM request_quantiles q LEFT JOIN expected_cell e ON e.run_id = q.run_id AND e.cell_key = q.cell_key
		WHERE q.run_id = ? ORDER BY e.ordinal NULLS LAST, q.cell_key, q.host, list_position(['ttft', 'tpot', 'e2el'], q.measure), q.probability`,
		func(r *QuantileRow) []any {
			return []any{&r.CellKey, &r.Host, &r.Measure, &r.Requests, &r.Probability, &r.MS}
		}, runID)
}
