package warehouse_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// TestStudentP holds the macro against closed forms of the distribution and against
// the printed table of its 97.5 % points.
func TestStudentP(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	p := func(x, df float64) float64 {
		got, err := strconv.ParseFloat(values(t, w, fmt.Sprintf("SELECT student_p(%v::DOUBLE, %v::DOUBLE)", x, df))[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, x := range []float64{0, 0.3, -1, 2.5, 6, 40} {
		a := math.Abs(x)
		for df, want := range map[float64]float64{
			1: 1 - 2/math.Pi*math.Atan(a),
			2: 1 - a/math.Sqrt(2+a*a),
			4: 1 - a/math.Sqrt(4+a*a)*(1+2/(4+a*a)),
		} {
			if got := p(x, df); math.Abs(got-want) > 1e-6 {
				t.Errorf("student_p(%v, %v) is %v, want %v", x, df, got, want)
			}
		}
	}
	for _, df := range []float64{1, 2, 3, 5, 8, 13, 30, 100} {
		got := values(t, w, fmt.Sprintf("SELECT abs(student_p(t975(%v), %v) - 0.05) < 1e-4", df, df))
		if got[0] != "true" {
			t.Errorf("student_p of the 97.5 %% point for %v degrees of freedom is not 0.05", df)
		}
	}
	if between := p(2, 4.5); between <= p(2, 5) || between >= p(2, 4) {
		t.Errorf("student_p(2, 4.5) is %v", between)
	}
	if got := values(t, w, "SELECT student_p(1.0, 0.0) IS NULL AND student_p('nan'::DOUBLE, 3.0) IS NULL"); got[0] != "true" {
		t.Error("student_p of nothing is a number")
	}
}

// TestRepeatTest compares two runs of several cells with repeats; the wanted p is
// the integral of the density of t beyond 14.7173 with 2.94118 degrees of freedom,
// and q is p times the number of tested cells over its rank.
func TestRepeatTest(t *testing.T) {
	t.Parallel()
	run := func(id string, days int, cells ...[]float64) *artifact.Run {
		return at(id, days, 0, func(r *artifact.Run) {
			r.Expected.Cells, r.Results, r.Thresholds.Specs = nil, nil, nil
			for i, tput := range cells {
				key := fmt.Sprintf("ISL=1024,OSL=1024,TP=8,PP=1,CONC=%d", 1<<i)
				r.Expected.Cells = append(r.Expected.Cells, artifact.ExpectedCell{Key: key, ID: fmt.Sprint("c", i), Combo: "w", ISL: 1024, OSL: 1024, Concurrency: 1 << i, NumPrompts: 1000, Repeats: len(tput)})
				for k, v := range tput {
					r.Results = append(r.Results, artifact.Result{Path: fmt.Sprintf("cells/%d/%d/results.json", i, k+1), CellKey: key, Repeat: k + 1, Data: wideJSON(1<<i, v)})
				}
			}
		})
	}
	w := open(t, "")
	load(t, w,
		run("before", 0, []float64{2000, 2010, 1990}, []float64{1000, 1100, 900}, []float64{500, 500, 500}, []float64{100, 101}, []float64{3000, 3001, 3002}),
		run("after", 1, []float64{1900, 1910, 1905}, []float64{1010, 1090, 910}, []float64{500, 500, 500}, []float64{90, 91, 92}, []float64{3300, 3301, 3302}))
	rows, err := w.RepeatTest(t.Context(), "after", "before")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]warehouse.RepeatTestRow{}
	for _, r := range rows {
		if r.Metric == "output_throughput" {
			got[r.CellKey] = r
		}
	}
	cell := func(conc int) warehouse.RepeatTestRow {
		return got[fmt.Sprintf("ISL=1024,OSL=1024,TP=8,PP=1,CONC=%d", conc)]
	}
	if r := cell(1); r.State != "worse" || r.N != 3 || r.OtherN != 3 || r.P == nil || math.Abs(*r.P-0.00075637) > 1e-7 || math.Abs(*r.Q-1.5**r.P) > 1e-12 || math.Abs(*r.BetterPct+4.75) > 1e-9 {
		t.Errorf("a loss beyond the repeats: %+v", r)
	}
	if r := cell(2); r.State != "not told apart" || r.Q == nil || *r.Q < 0.9 {
		t.Errorf("within the repeats: %+v", r)
	}
	if r := cell(4); r.State != "no test" || r.P != nil || r.Q != nil || r.Reason != "the repeats of both runs do not differ at all" {
		t.Errorf("no spread: %+v", r)
	}
	if r := cell(8); r.State != "no test" || r.Reason != "measured 3 and 2 times; three are needed in both runs" {
		t.Errorf("too few: %+v", r)
	}
	if r := cell(16); r.State != "better" || r.Q == nil || *r.Q > 1e-6 {
		t.Errorf("a gain: %+v", r)
	}
	if rows, err := w.RepeatTest(t.Context(), "after", "after"); err != nil || len(rows) != 0 {
		t.Errorf("a run against itself: %d rows (%v)", len(rows), err)
	}
}
