package warehouse

import (
	"math"
	"testing"
)

// TestMeanChange compares macro mean_change with values computed by hand and
// with the quantiles of published tables.
func TestMeanChange(t *testing.T) {
	t.Parallel()
	w := memory(t)
	got, err := w.MeanChanges(t.Context(), []Ratios{
		{"up", "output_throughput", []float64{1.21, 1}},
		{"latency", "mean_ttft_ms", []float64{1.21, 1}},
		{"one", "output_throughput", []float64{0.5}},
		{"broken", "output_throughput", []float64{0.5, 0, math.Inf(1), math.NaN(), -1}},
		{"none", "output_throughput", nil},
		{"unknown", "no_such_metric", []float64{2, 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	// The logarithms of 1.21 and 1 are 2l and 0 with l = ln 1.1: mean l, standard
	// error l, and t(0.975, 1) = 12.7062.
	l := math.Log(1.1)
	low, high := 100*(math.Exp(l-12.7062*l)-1), 100*(math.Exp(l+12.7062*l)-1)
	f := func(v float64) *float64 { return &v }
	want := []MeanChange{
		{"up", 2, f(10), f(low), f(high)},
		{"latency", 2, f(-10), f(-high), f(-low)},
		{"one", 1, f(-50), nil, nil},
		{"broken", 1, f(-50), nil, nil},
		{"none", 0, nil, nil, nil},
		{"unknown", 2, nil, nil, nil},
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	same := func(a, b *float64) bool {
		return a == nil && b == nil || a != nil && b != nil && math.Abs(*a-*b) < 1e-9*max(1, math.Abs(*b))
	}
	for i, g := range got {
		x := want[i]
		if g.Key != x.Key || g.Cells != x.Cells || !same(g.BetterPct, x.BetterPct) || !same(g.LowPct, x.LowPct) || !same(g.HighPct, x.HighPct) {
			t.Errorf("%s: %d cells, %v from %v to %v; want %d, %v from %v to %v", g.Key, g.Cells, show(g.BetterPct), show(g.LowPct), show(g.HighPct), x.Cells, show(x.BetterPct), show(x.LowPct), show(x.HighPct))
		}
	}
	for df, want := range map[int]float64{1: 12.7062, 10: 2.2281, 30: 2.0423, 31: 2.0395, 40: 2.0211, 120: 1.9799, 1000000: 1.9600} {
		var q float64
		if err := w.db.QueryRowContext(t.Context(), "SELECT t975(?)", df).Scan(&q); err != nil {
			t.Fatal(err)
		}
		if math.Abs(q-want) > 1e-4 {
			t.Errorf("t975(%d) = %v, want %v", df, q, want)
		}
	}
}

func show(v *float64) any {
	if v == nil {
		return "none"
	}
	return *v
}
