package warehouse

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"cvs/collect/metric"
)

// Ratios are the changes of one metric over several cells, now / before, to be
// summed up by [DB.MeanChanges].
type Ratios struct {
	Key    string // the caller's name for them
	Metric string // says which way is better
	Ratios []float64
}

// A MeanChange is macro mean_change on one [Ratios]: the geometric mean of the
// ratios as a change in per cent, + for better, and its 95 % interval.
type MeanChange struct {
	Key             string
	Cells           int      // ratios that count
	BetterPct       *float64 // nil where the metric has no better
	LowPct, HighPct *float64 // nil for less than two ratios
}

// MeanChanges sums up changes, in the order they are given.
func (w *DB) MeanChanges(ctx context.Context, all []Ratios) ([]MeanChange, error) {
	type group struct {
		K string    `json:"k"`
		D string    `json:"d"`
		R []float64 `json:"r"`
	}
	groups := make([]group, 0, len(all))
	for _, a := range all {
		g := group{K: a.Key, R: []float64{}}
		if d, ok := metric.Lookup(a.Metric); ok {
			g.D = d.Direction.String()
		}
		for _, r := range a.Ratios {
			if !math.IsNaN(r) && !math.IsInf(r, 0) { // JSON has no word for them
				g.R = append(g.R, r)
			}
		}
		groups = append(groups, g)
	}
	if len(groups) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return nil, fmt.Errorf("mean changes: %w", err)
	}
	return read(ctx, w, "mean_change", `
		SELECT g.k, c.cells::INTEGER, c.better_pct, c.low_pct, c.high_pct
		FROM (SELECT g, ordinal, mean_change(g.r, g.d) AS c
		      FROM (SELECT unnest(l) AS g, generate_subscripts(l, 1) AS ordinal FROM (SELECT from_json(?::VARCHAR, '[{"k": "VARCHAR", "d": "VARCHAR", "r": ["DOUBLE"]}]') AS l)))
		ORDER BY ordinal`,
		func(m *MeanChange) []any { return []any{&m.Key, &m.Cells, &m.BetterPct, &m.LowPct, &m.HighPct} }, string(text))
}
