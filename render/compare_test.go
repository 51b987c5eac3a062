package render

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cvs/warehouse"
)

// historian is a source that knows other runs.
type historian struct {
	fake
	prev []warehouse.PrevRunRow
	reg  []warehouse.RegressionRow
}

func (h historian) PrevRun(context.Context, string) ([]warehouse.PrevRunRow, error) {
	return answer(h.fake, "prev", h.prev)
}
func (h historian) Regressions(context.Context, string) ([]warehouse.RegressionRow, error) {
	return answer(h.fake, "regressions", h.reg)
}
func (h historian) WhatChanged(_ context.Context, before, _ string) ([]warehouse.ChangedRow, error) {
	return []warehouse.ChangedRow{{Field: "image", Before: ptr("old " + before), After: ptr("new")}}, nil
}
func (h historian) FrameworkParity(context.Context, string) ([]warehouse.ParityRow, error) {
	return answer(h.fake, "parity", []warehouse.ParityRow{{Reason: "no run of another framework", State: "not_comparable"}})
}
func (h historian) Scaling(context.Context, string) ([]warehouse.ScalingRow, error) {
	return answer(h.fake, "scaling", []warehouse.ScalingRow(nil))
}
func (h historian) Golden(context.Context, string) ([]warehouse.GoldenRow, error) {
	return answer(h.fake, "golden", []warehouse.GoldenRow(nil))
}
func (h historian) MeanChanges(_ context.Context, all []warehouse.Ratios) ([]warehouse.MeanChange, error) {
	var out []warehouse.MeanChange
	for _, r := range all {
		if len(r.Ratios) != 1 || r.Ratios[0] != 0.875 {
			return nil, fmt.Errorf("ratios of %s: %v", r.Key, r.Ratios)
		}
		out = append(out, warehouse.MeanChange{Key: r.Key, Cells: 6, BetterPct: ptr(-12.5), LowPct: ptr(-20.0), HighPct: ptr(1.25)})
	}
	return out, nil
}
func (h historian) AccuracyPrevRun(context.Context, string) ([]warehouse.AccuracyPrevRow, error) {
	return nil, nil
}

// The real warehouse answers all of these.
var _ interface {
	prevRunner
	parityJudge
	goldKeeper
	noiseJudge
	scaler
	differ
	accuracyComparer
	meaner
	timeKeeper
} = (*warehouse.DB)(nil)

func history() historian {
	d := fixture()
	k := d.Cells[3].CellKey
	return historian{fake{d, ""},
		[]warehouse.PrevRunRow{
			{CellKey: k, Metric: "output_throughput", State: "compared", Previous: ptr(2300.0), Value: ptr(2012.6), Ratio: ptr(0.875), BetterPct: ptr(-12.5), Changed: true, Regression: true, BaseRun: "r0", NoisePct: ptr(1.1), NoiseRuns: 7},
			{CellKey: k, Metric: "mean_ttft_ms", State: "compared", Previous: ptr(800.0), Value: ptr(780.0), BetterPct: ptr(2.5), BaseRun: "r0"},
			{CellKey: d.Cells[2].CellKey, State: "gone", Reason: "no result in this run"},
		},
		[]warehouse.RegressionRow{{CellKey: k, Metric: "output_throughput", State: "regression", Reason: "below the level of 7 runs"}},
	}
}

func TestCompared(t *testing.T) {
	t.Parallel()
	d, err := Query(t.Context(), history(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	deck := Build(d, testOptions)
	fact := deck.Facts[0]
	if fact.Value != "−12.5 % [−20.0, +1.2]" || !strings.Contains(fact.Note, "geometric mean of 6 cells with its 95 % interval; 1 regression beyond noise") || !strings.Contains(fact.Note, "−12.5 % Output throughput") || fact.Href != "previous" {
		t.Errorf("previous run: %+v", fact)
	}
	if deck.Facts[1].Value != "not compared" {
		t.Errorf("golden run: %+v", deck.Facts[1])
	}
	rows := section(t, deck, "previous").Tables[0].Rows
	if len(rows) != 3 || rows[0].Mark.Word != "worse" || rows[1].Mark.Word != "gone" {
		t.Errorf("rows: %+v", rows)
	}
	if s := section(t, deck, "changed"); !strings.Contains(s.Intro, "r0") || s.Tables[0].Rows[0].Cells[1].Text != "old r0" {
		t.Errorf("what changed: %+v", s)
	}
	if s := section(t, deck, "parity"); s.Empty != "Not compared: no run of another framework." {
		t.Errorf("parity says %q", s.Empty)
	}
	for _, s := range deck.Sections {
		if s.ID == "scaling" || s.ID == "golden" {
			t.Errorf("section %s without anything to show", s.ID)
		}
	}
}

// A comparison that goes wrong is an error in its panel and takes nothing else
// with it; a comparison that was not made is never "no regressions".
func TestComparisonProblems(t *testing.T) {
	t.Parallel()
	for question, id := range map[string]string{"prev": "previous", "regressions": "previous", "parity": "parity", "golden": "golden", "scaling": "scaling"} {
		h := history()
		h.fail = question
		d, err := Query(t.Context(), h, "r1")
		if err != nil {
			t.Fatal(err)
		}
		if s := section(t, Build(d, testOptions), id); s.Problem == "" {
			t.Errorf("without %s the section %s shows no problem", question, id)
		}
	}
	h := history()
	h.prev, h.reg = []warehouse.PrevRunRow{{State: "not_comparable", Reason: "no earlier comparable run"}}, nil
	d, err := Query(t.Context(), h, "r1")
	if err != nil {
		t.Fatal(err)
	}
	deck := Build(d, testOptions)
	if f := deck.Facts[0]; f.Value != "not compared" || f.Note != "no earlier comparable run" {
		t.Errorf("previous run: %+v", f)
	}
	h.prev = []warehouse.PrevRunRow{{CellKey: "k", Metric: "output_throughput", State: "compared", BetterPct: ptr(-7.0), Regression: true}}
	if d, err = Query(t.Context(), h, "r1"); err != nil {
		t.Fatal(err)
	}
	if f := Build(d, testOptions).Facts[0]; f.Value != "1 of 1 value worse by over 5 %" || !strings.Contains(f.Note, "too few earlier runs") {
		t.Errorf("without a judgement: %+v", f)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	d := fixture()
	d.Logs = []LogTail{{CellKey: d.Cells[2].CellKey, Name: "client.log", Text: strings.Repeat("x", 70<<10)}, {CellKey: d.Cells[2].CellKey, Name: "server.log", Text: "more"}}
	s := section(t, Build(d, testOptions), "logs")
	if len(s.Logs[0].Value) != maxLog || !strings.HasSuffix(s.Logs[0].Label, "(end)") || s.Logs[1].Value != "" {
		t.Errorf("%d bytes of %s, %d of the second", len(s.Logs[0].Value), s.Logs[0].Label, len(s.Logs[1].Value))
	}
}

func TestParetoFront(t *testing.T) {
	t.Parallel()
	points := []point{{x: 10, value: ptr(100.0)}, {x: 40, value: ptr(30.0)}, {x: 20, value: ptr(70.0)}, {x: 30, value: ptr(60.0)}, {x: 15, value: ptr(65.0)}, {x: 40, value: ptr(20.0)}}
	paretoFront(points)
	var front []float64
	for _, p := range points {
		if p.front {
			front = append(front, p.x, *p.value)
		}
	}
	want := []float64{10, 100, 20, 70, 30, 60, 40, 30}
	if len(front) != len(want) {
		t.Fatalf("front %v, want %v", front, want)
	}
	for i := range want {
		if front[i] != want[i] {
			t.Fatalf("front %v, want %v", front, want)
		}
	}
}

// A chart shows the other run's line beside its own, and says its values in the
// table.
func TestOtherRunInCharts(t *testing.T) {
	t.Parallel()
	d := fixture()
	for i, c := range d.Cells[:4] {
		add := func(name string, v float64) {
			d.Prev = append(d.Prev, ComparedRow{CellKey: c.CellKey, Metric: name, State: "compared", Other: ptr(v), BetterPct: ptr(1.0)})
		}
		add("output_throughput", float64(1000*(i+1)))
		add("mean_tpot_ms", 10)
		add("per_gpu_throughput", float64(100*(i+1)))
	}
	deck := Build(d, testOptions)
	figure := section(t, deck, "charts").Shapes[0].Figures[0]
	if len(figure.Also) != 1 || figure.Also[0] != "Previous run" {
		t.Fatalf("lines of other runs: %q", figure.Also)
	}
	last := figure.Table.Rows[3].Cells
	if got := last[len(last)-1]; got.Text != "4,000.0" || got.Title != "4000" {
		t.Errorf("the table says %+v of the previous run", got)
	}
	if !strings.Contains(string(deck.data), `"also":[{"label":"Previous run","points":[[16,1000],[32,2000],[64,3000],[128,4000]]}]`) {
		t.Error("the page's data lacks the previous run's line")
	}
	// At the same interactivity the greatest throughput is the whole front.
	if !strings.Contains(string(deck.data), `"also":[{"label":"Previous run, front","points":[[100,400]]}]`) {
		t.Error("the page's data lacks the previous run's front")
	}
	for _, f := range section(t, deck, "charts").Shapes[1].Figures {
		if f.Also != nil {
			t.Errorf("%s has a line of values that were not compared", f.Title)
		}
	}
}

// Distributions have a line and a row a cell, and no section without data.
func TestDistributions(t *testing.T) {
	t.Parallel()
	d := fixture()
	for _, s := range Build(d, testOptions).Sections {
		if s.ID == "distributions" {
			t.Error("a section without anything to show")
		}
	}
	for _, c := range d.Cells[:2] {
		for _, p := range []float64{0, 0.5, 0.99, 1} {
			d.Quantiles = append(d.Quantiles, warehouse.QuantileRow{CellKey: c.CellKey, Host: "node-01", Measure: "ttft", Requests: 80, Probability: p, MS: 100 + 200*p})
		}
	}
	deck := Build(d, testOptions)
	s := section(t, deck, "distributions")
	if len(s.Shapes) != 1 || len(s.Shapes[0].Figures) != 1 || len(s.Tables[0].Rows) != 2 {
		t.Fatalf("%d shapes, %d rows", len(s.Shapes), len(s.Tables[0].Rows))
	}
	cells := s.Tables[0].Rows[0].Cells
	if got := cells[3].Text + " " + cells[5].Text + " " + cells[6].Text + " " + cells[9].Text; got != "100 200 — 300" && got != "100.00 200.00 — 300.00" {
		t.Errorf("row: %s", got)
	}
	if !strings.Contains(string(deck.data), `"also":[{"label":"16","points":[[0,100],[50,200],[99,298],[100,300]]},{"label":"32"`) {
		t.Error("the page's data lacks the lines")
	}
}

// TestComparedRepeats: what repeats tell has a column where anything was tested; why
// nothing was is a note.
func TestComparedRepeats(t *testing.T) {
	t.Parallel()
	row := func(metric string, r *warehouse.RepeatTestRow) ComparedRow {
		return ComparedRow{CellKey: "k", Metric: metric, OtherRun: "before", State: "compared", Value: ptr(1.0), Other: ptr(2.0), Repeats: r}
	}
	few := &warehouse.RepeatTestRow{State: "no test", Reason: "measured 1 and 3 times; three are needed in both runs"}
	for _, tt := range []struct {
		name       string
		rows       []ComparedRow
		cells      string // of column Repeats
		note, lack string
	}{
		{"tested", []ComparedRow{row("output_throughput", &warehouse.RepeatTestRow{State: "worse", Q: ptr(0.0123)}), row("mean_ttft_ms", &warehouse.RepeatTestRow{State: "better", Q: ptr(1e-9)}), row("mean_tpot_ms", few), row("mean_itl_ms", nil)},
			"worse, q = 0.012|better, q < 0.001|no test|no test", "Repeats tell one start", "not tested"},
		{"too few", []ComparedRow{row("output_throughput", few)}, "", "not tested: measured 1 and 3 times", "Repeats tell one start"},
		{"nobody asked", []ComparedRow{row("output_throughput", nil)}, "", "", "epeats"},
	} {
		s := newBuilder(fixture()).compared(&Section{ID: "previous"}, tt.rows, "Before")
		at := slices.IndexFunc(s.Tables[0].Head, func(c Column) bool { return c.Text == "Repeats" })
		var got []string
		for _, r := range s.Tables[0].Rows {
			if at >= 0 {
				got = append(got, r.Cells[at].Text)
			}
			if len(r.Cells) != len(s.Tables[0].Head) {
				t.Errorf("%s: %d cells under %d heads", tt.name, len(r.Cells), len(s.Tables[0].Head))
			}
		}
		notes := strings.Join(s.Notes, "\n")
		if strings.Join(got, "|") != tt.cells || !strings.Contains(notes, tt.note) || strings.Contains(notes, tt.lack) {
			t.Errorf("%s: %q, notes %q", tt.name, got, notes)
		}
	}
}

// TestChangedMany: of thousands of differences the first are shown, and it is said.
func TestChangedMany(t *testing.T) {
	t.Parallel()
	d := fixture()
	d.Prev = []ComparedRow{{CellKey: "k", Metric: "m", OtherRun: "before", State: "compared"}}
	for i := range 2 * maxChanged {
		d.Changed = append(d.Changed, warehouse.ChangedRow{Field: fmt.Sprint("field ", i), After: ptr("x")})
	}
	s := newBuilder(d).changed()
	if len(s.Tables[0].Rows) != maxChanged || s.Count != "600" || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "first 300") {
		t.Errorf("%d rows, count %s, notes %q", len(s.Tables[0].Rows), s.Count, s.Notes)
	}
}
