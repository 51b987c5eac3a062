package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cvs/warehouse"
)

// pairs answers for the other runs of a comparison, and sums up by the real
// warehouse's rules: one ratio has no interval.
type pairs struct {
	prev   []warehouse.PrevRunRow
	parity []warehouse.ParityRow
	fail   bool
}

func (p pairs) PrevRun(context.Context, string) ([]warehouse.PrevRunRow, error) {
	if p.fail {
		return nil, errors.New("no such table")
	}
	return p.prev, nil
}
func (p pairs) FrameworkParity(context.Context, string) ([]warehouse.ParityRow, error) {
	return p.parity, nil
}
func (pairs) WhatChanged(context.Context, string, string) ([]warehouse.ChangedRow, error) {
	return []warehouse.ChangedRow{{Field: "image", Before: ptr("<b>old</b>"), After: ptr("new")}}, nil
}
func (pairs) MeanChanges(_ context.Context, all []warehouse.Ratios) ([]warehouse.MeanChange, error) {
	var out []warehouse.MeanChange
	for _, r := range all {
		m := warehouse.MeanChange{Key: r.Key, Cells: len(r.Ratios), BetterPct: ptr(100 * (r.Ratios[0] - 1))}
		if m.Cells > 1 {
			m.LowPct, m.HighPct = ptr(-30.0), ptr(7.0)
		}
		out = append(out, m)
	}
	return out, nil
}

const (
	keyOne  = "ISL=1024,OSL=1024,TP=8,PP=1,CONC=16"
	keyTwo  = "ISL=1024,OSL=1024,TP=8,PP=1,CONC=64"
	keyGone = "ISL=1024,OSL=1024,TP=8,PP=1,CONC=256"
)

func sideOf(id, driver string, throughput map[string]float64) Side {
	at := time.Date(2026, 9, 24, 18, 2, 11, 0, time.UTC)
	b := &warehouse.Baseline{Name: id, RunID: id, Model: "org/<script>model", Driver: driver, At: &at}
	for k, v := range throughput {
		b.Values = append(b.Values, warehouse.BaselineValue{CellKey: k, Metric: "output_throughput", Value: &v},
			warehouse.BaselineValue{CellKey: k, Metric: "per_gpu_throughput", Value: &v}, warehouse.BaselineValue{CellKey: k, Metric: "mean_tpot_ms", Value: ptr(10.0)})
	}
	return Side{Baseline: b, Run: &warehouse.RunRow{RunID: id, Image: "img"}, Verdict: "pass"}
}

func compared(t *testing.T) (*Comparison, *Deck) {
	t.Helper()
	c := &Comparison{Now: sideOf("now", "atom", map[string]float64{keyOne: 900, keyTwo: 2000})}
	src := pairs{
		prev: []warehouse.PrevRunRow{
			{CellKey: keyOne, Metric: "output_throughput", State: "compared", Previous: ptr(1000.0), Value: ptr(900.0), Ratio: ptr(0.9), BetterPct: ptr(-10.0), Changed: true, Regression: true},
			{CellKey: keyTwo, Metric: "output_throughput", State: "compared", Previous: ptr(2000.0), Value: ptr(2000.0), Ratio: ptr(1.0), BetterPct: ptr(0.0)},
			{CellKey: keyGone, State: "gone", Reason: "only in the baseline"},
		},
		parity: []warehouse.ParityRow{
			{CellKey: keyOne, Metric: "output_throughput", State: "compared", Reference: ptr(800.0), Value: ptr(900.0), Ratio: ptr(1.125), BetterPct: ptr(12.5)},
			{CellKey: keyTwo, State: "no_reference", Reason: "the reference has no such cell"},
		},
	}
	if err := c.Add(t.Context(), src, sideOf("before", "atom", map[string]float64{keyOne: 1000, keyTwo: 2000, keyGone: 3000})); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), src, sideOf("other", "vllm_atom", map[string]float64{keyOne: 800})); err != nil {
		t.Fatal(err)
	}
	return c, BuildComparison(c, testOptions)
}

func TestComparisonDeck(t *testing.T) {
	t.Parallel()
	_, d := compared(t)
	if d.Verdict.State.Word != "WORSE" || d.Verdict.Class == "pass" || d.Verdict.Lead != "1 of 3 compared values more than 5 % worse; 2 cells could not be compared. A comparison changes no gate." {
		t.Errorf("verdict: %+v", d.Verdict)
	}
	if got := d.Verdict.Reasons[0].Text; got != "Against B · atom: output throughput −10.0 % [−30.0, +7.0], geometric mean of 2 cells with its 95 % interval; 1 value over 5 % worse, 0 better, 1 within." {
		t.Errorf("first line: %s", got)
	}
	if got := d.Verdict.Reasons[1].Text; !strings.Contains(got, "+12.5 %, of one cell") {
		t.Errorf("second line: %s", got)
	}
	if f := section(t, d, "charts").Shapes[0].Figures[0]; len(f.Also) != 2 || !strings.Contains(f.Gaps, "256 (not measured in A · atom)") {
		t.Errorf("lines %q, gaps %q", f.Also, f.Gaps)
	}
	if s := section(t, d, "against-1"); s.Tables[0].Rows[0].Mark.Word != "worse" || s.Tables[0].Rows[1].Mark.Word != "gone" {
		t.Errorf("rows: %+v", s.Tables[0].Rows)
	}
	beside := section(t, d, "beside").Tables[0]
	if last := beside.Rows[len(beside.Rows)-3].Cells; last[2].Text != "not measured" || last[4].Text != "gone" {
		t.Errorf("a cell that is gone: %+v", last)
	}
	var b bytes.Buffer
	if err := Write(&b, d); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<b>old", "<script>model"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	var again bytes.Buffer
	_, d = compared(t)
	if err := Write(&again, d); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("equal input gives another page (%v)", err)
	}
}

// Nothing compared is never "nothing worse", and an answer that failed is no
// page.
func TestComparisonDeckWithoutRows(t *testing.T) {
	t.Parallel()
	c := &Comparison{Now: sideOf("now", "atom", nil)}
	if err := c.Add(t.Context(), pairs{fail: true}, sideOf("before", "atom", nil)); err == nil {
		t.Error("a view that failed goes unnoticed")
	}
	other := sideOf("before", "atom", nil)
	other.Run = nil
	if err := c.Add(t.Context(), pairs{prev: []warehouse.PrevRunRow{{State: "not_comparable", Reason: "the baseline is of model x"}}}, other); err != nil {
		t.Fatal(err)
	}
	d := BuildComparison(c, testOptions)
	if d.Verdict.State.Word != "NOT COMPARED" || !strings.Contains(d.Verdict.Reasons[0].Text, "the baseline is of model x") {
		t.Errorf("verdict: %+v", d.Verdict)
	}
	if s := section(t, d, "changed-1"); !strings.Contains(s.Empty, "not in the warehouse") {
		t.Errorf("what changed: %+v", s)
	}
}

// A comparison of many shapes draws those with something worse and says how many
// it leaves out.
func TestComparisonDeckOfManyShapes(t *testing.T) {
	t.Parallel()
	values := map[string]float64{}
	for i := range 40 {
		values[fmt.Sprintf("ISL=%d,OSL=64,TP=8,PP=1,CONC=16", 100+i)] = 1000
	}
	last := "ISL=139,OSL=64,TP=8,PP=1,CONC=16"
	c := &Comparison{Now: sideOf("now", "atom", values)}
	src := pairs{prev: []warehouse.PrevRunRow{{CellKey: last, Metric: "output_throughput", State: "compared", Previous: ptr(2000.0), Value: ptr(1000.0), Ratio: ptr(0.5), BetterPct: ptr(-50.0), Changed: true, Regression: true}}}
	if err := c.Add(t.Context(), src, sideOf("before", "atom", values)); err != nil {
		t.Fatal(err)
	}
	s := section(t, BuildComparison(c, testOptions), "charts")
	if len(s.Shapes) != maxShapes || s.Shapes[0].Title != "139 input, 64 output tokens" || len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0], "16 more shapes not drawn") {
		t.Errorf("%d shapes, first %q, notes %q", len(s.Shapes), s.Shapes[0].Title, s.Notes)
	}
}
