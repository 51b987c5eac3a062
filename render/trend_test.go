package render

import (
	"math"
	"strings"
	"testing"

	"cvs/warehouse"
)

// TestTrend: the largest loss against the median is first, each baseline stands in
// its column, and what is not known is a dash.
func TestTrend(t *testing.T) {
	t.Parallel()
	d := fixture()
	key, other := d.Cells[0].CellKey, d.Cells[1].CellKey
	row := func(key string, mid, best float64, past ...float64) warehouse.TrendRow {
		now := 1900.0
		return warehouse.TrendRow{CellKey: key, Metric: "output_throughput", Unit: "tok/s", Direction: "higher", Value: &now, Mid: ptr(2000.0), MidPct: &mid, MidRuns: len(past),
			Best: ptr(2100.0), BestPct: &best, BestRun: "r<1>", Past: past}
	}
	d.Trend = []warehouse.TrendRow{row(key, -1, -9.5, 1990, 2100), row(other, -5, -9.5, 2000)}
	d.Prev = []ComparedRow{{CellKey: other, Metric: "output_throughput", State: "compared", BetterPct: ptr(-2.0)}}
	d.Golden = []ComparedRow{{CellKey: key, Metric: "output_throughput", State: "compared", BetterPct: ptr(-3.0)}}
	s := newBuilder(d).trend()
	if s == nil || len(s.Tables) != 1 || len(s.Tables[0].Rows) != 2 {
		t.Fatalf("section %+v", s)
	}
	var got []string
	for _, r := range s.Tables[0].Rows {
		var texts []string
		for _, c := range r.Cells[3:9] {
			texts = append(texts, c.Text)
		}
		got = append(got, strings.Join(texts, " | "))
	}
	if want := "-2.0 % | — | -5.0 % | -9.5 % | 2,100.0 tok/s | r<1>\n— | -3.0 % | -1.0 % | -9.5 % | 2,100.0 tok/s | r<1>"; strings.ReplaceAll(strings.Join(got, "\n"), "−", "-") != want {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if d.Trend = nil; newBuilder(d).trend() != nil {
		t.Error("a run without a past has a section of it")
	}
}

// TestTrendOfMany: a large deck draws the values that lost most, and says so.
func TestTrendOfMany(t *testing.T) {
	t.Parallel()
	d := fixture()
	for len(d.Cells) <= static {
		d.Cells = append(d.Cells, d.Cells[0])
	}
	for i := range 3 * maxTrends {
		d.Trend = append(d.Trend, warehouse.TrendRow{CellKey: d.Cells[0].CellKey, Metric: "mean_ttft_ms", Unit: "ms", Value: ptr(10.0), MidPct: ptr(float64(-i)), Past: []float64{9}})
	}
	s := newBuilder(d).trend()
	if n := len(s.Tables[0].Rows); n != maxTrends || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "60 of 180 values") {
		t.Errorf("%d rows, notes %q", n, s.Notes)
	}
	if first := s.Tables[0].Rows[0].Cells[5].Text; first != "−179 %" {
		t.Errorf("first is %s", first)
	}
}

// TestTrendLine: noise stays small, a collapse does not, and nothing makes a line
// that cannot be drawn.
func TestTrendLine(t *testing.T) {
	t.Parallel()
	line := func(now float64, past ...float64) *Spark {
		return trendLine(&warehouse.TrendRow{Metric: "output_throughput", Unit: "tok/s", Value: &now, Mid: ptr(2000.0), Past: past})
	}
	for _, tt := range []struct {
		name, line, label string
		got               *Spark
	}{
		{"noise", "M3.0 14.0L50.0 10.0L97.0 12.0", "2 earlier values from 1,980.0 to 2,020.0 tok/s, now 2,000.0", line(2000, 1980, 2020)},
		{"collapse", "M3.0 2.0L50.0 2.0L97.0 22.0", "2 earlier values from 2,000.0 to 2,000.0 tok/s, now 1,000.0", line(1000, 2000, 2000)},
		{"one", "M3.0 12.0L97.0 12.0", "1 earlier value from 2,000.0 to 2,000.0 tok/s, now 2,000.0", line(2000, 2000)},
	} {
		if tt.got == nil || tt.got.Line != tt.line || tt.got.Label != tt.label {
			t.Errorf("%s: %+v, want %s %q", tt.name, tt.got, tt.line, tt.label)
		}
	}
	for name, s := range map[string]*Spark{"no past": line(2000), "not a number": line(math.NaN(), 1)} {
		if s != nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, past := range [][]float64{{0, 0}, {-math.MaxFloat64, math.MaxFloat64}} {
		now := 0.0
		if s := trendLine(&warehouse.TrendRow{Value: &now, Past: past}); s != nil && (strings.Contains(s.Line, "NaN") || strings.Contains(s.Line, "Inf")) {
			t.Errorf("%v: %s", past, s.Line)
		}
	}
}
