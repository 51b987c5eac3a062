package warehouse_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// at moves a sample run in time and lets change edit it.
func at(id string, hour int, throughput float64, change func(*artifact.Run)) *artifact.Run {
	run := sampleRun(id, resultJSON(throughput))
	start := run.Meta.StartedAt.Add(time.Duration(hour) * time.Hour)
	run.Meta.StartedAt = &start
	if change != nil {
		change(run)
	}
	return run
}

func driver(name string) func(*artifact.Run) {
	return func(r *artifact.Run) { r.Meta.Identity.Driver = name }
}

// tokens sets the totals that give the mean lengths of the workload.
func tokens(r *artifact.Run, input, output int) {
	text := strings.Replace(string(r.Results[0].Data), `"total_output_tokens": 1024000`, fmt.Sprintf(`"total_input_tokens": %d, "total_output_tokens": %d`, input, output), 1)
	r.Results[0].Data = []byte(text)
}

// TestComparability: only runs of equal identity are compared, and each refusal shows.
func TestComparability(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*artifact.Run){
		"model": func(r *artifact.Run) {
			r.Meta.Identity.Model = "org/Other"
			r.Results[0].Data = []byte(strings.ReplaceAll(string(r.Results[0].Data), "org/M", "org/Other"))
		},
		"precision": func(r *artifact.Run) { r.Meta.Identity.Precision = "fp4" },
		"gpu seen":  func(r *artifact.Run) { r.Meta.Identity.GPUArch, r.Meta.Identity.GPUSeen = "", "AMD Instinct MI355X" },
		"driver":    driver("vllm"),
		"nodes":     func(r *artifact.Run) { r.Meta.Identity.NNodes = 2 },
		"simulated": func(r *artifact.Run) { r.Meta.Simulated = true },
	} {
		w := open(t, "")
		load(t, w, at("old", 0, 2000, change), at("new", 1, 2048, nil))
		rows, err := w.PrevRun(t.Context(), "new")
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1 || rows[0].State != "new" || rows[0].DeltaPct != nil {
			t.Errorf("another %s was compared: %+v", name, rows)
		}
	}
	w := open(t, "")
	load(t, w, at("old", 0, 2000, func(r *artifact.Run) { r.Meta.Identity.Image, r.Meta.Identity.Hosts = "other:1", []string{"n9"} }), at("new", 1, 1800, nil))
	rows, err := w.PrevRun(t.Context(), "new")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(rows, func(r warehouse.PrevRunRow) bool { return r.Metric == "output_throughput" })
	if i < 0 || *rows[i].DeltaPct != -10 || *rows[i].Ratio != 0.9 || !rows[i].Regression {
		t.Errorf("another image or host: %+v", rows)
	}
	changed, err := w.WhatChanged(t.Context(), "old", "new")
	if err != nil || !slices.ContainsFunc(changed, func(c warehouse.ChangedRow) bool {
		return c.Field == "image" && *c.Before == "other:1" && c.After == nil
	}) {
		t.Errorf("what changed: %+v (%v)", changed, err)
	}
}

// TestPrevRunEdges: 5 % exactly is no change, a republished run is no baseline,
// unlike lengths are refused, of two runs that start at one instant neither is earlier.
func TestPrevRunEdges(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	load(t, w, at("a", 0, 4000, nil), at("b", 1, 3800, nil), at("c", 2, 3800, nil))
	headline := func(w *warehouse.DB, id string) warehouse.PrevRunRow {
		rows, err := w.PrevRun(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Metric == "output_throughput" || r.Metric == "" {
				return r
			}
		}
		t.Fatalf("no row of %s", id)
		return warehouse.PrevRunRow{}
	}
	if r := headline(w, "b"); *r.DeltaPct != -5 || r.Changed || r.Regression {
		t.Errorf("-5 %% exactly: %+v", r)
	}
	if r := headline(w, "c"); r.State != "not_comparable" || !strings.Contains(r.Reason, "published before, in run b") {
		t.Errorf("equal bytes under another id: %+v", r)
	}
	w = open(t, "")
	load(t, w, at("a", 0, 4000, func(r *artifact.Run) { tokens(r, 1_000_000, 1_000_000) }), at("b", 1, 4000, func(r *artifact.Run) { tokens(r, 1_100_000, 1_000_000) }))
	if r := headline(w, "b"); r.State != "not_comparable" || !strings.Contains(r.Reason, "mean lengths by 10.0 %") {
		t.Errorf("unlike lengths: %+v", r)
	}
	w = open(t, "")
	zone := func(r *artifact.Run) {
		there := r.Meta.StartedAt.In(time.FixedZone("", -7*3600))
		r.Meta.StartedAt = &there
	}
	instant := func(r *artifact.Run) {
		later := r.Meta.StartedAt.Add(200 * time.Millisecond)
		r.Meta.StartedAt = &later
	}
	load(t, w, at("a", 1, 4000, zone), at("b", 1, 2000, nil), at("c", 0, 3000, instant), at("d", 1, 2500, instant))
	for id, previous := range map[string]string{"a": "c", "b": "c", "c": "", "d": "b"} {
		if r := headline(w, id); r.BaseRun != previous {
			t.Errorf("%s is compared with %q, want %q: %+v", id, r.BaseRun, previous, r)
		}
	}
}

func TestFrameworkParity(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	load(t, w,
		at("ref", 0, 1000, func(r *artifact.Run) { tokens(r, 1_000_000, 1_000_000) }),
		at("cand", 1, 2000, func(r *artifact.Run) { driver("vllm_atom")(r); tokens(r, 1_010_000, 1_000_000) }),
		at("unlike", 2, 2000, func(r *artifact.Run) { driver("sglang")(r); tokens(r, 1_000_000, 1_200_000) }),
		at("unknown", 3, 500, driver("vllm")))
	for _, tt := range []struct {
		run, name, state, reason string
		ratio                    float64
	}{
		{"cand", "compare.vllm.output_throughput_ratio", "compared", "", 2},
		{"cand", "compare.vllm.mean_ttft_ms_ratio", "compared", "", 1},
		{"unlike", "", "not_comparable", "mean lengths by 20.0 %", 0},
		{"unknown", "compare.framework.output_throughput_ratio", "compared", "unknown", 0.5},
	} {
		rows, err := w.FrameworkParity(t.Context(), tt.run)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(rows, func(r warehouse.ParityRow) bool { return r.Name == tt.name && r.ReferenceRun == "ref" })
		if i < 0 {
			t.Errorf("%s has no %q: %+v", tt.run, tt.name, rows)
			continue
		}
		r := rows[i]
		if r.State != tt.state || !strings.Contains(r.Reason, tt.reason) || (r.Ratio == nil) != (tt.ratio == 0) || r.Ratio != nil && *r.Ratio != tt.ratio {
			t.Errorf("%s %s: %+v", tt.run, tt.name, r)
		}
	}
	// seen from the reference, every other driver is a reference
	rows, err := w.FrameworkParity(t.Context(), "ref")
	if err != nil || len(rows) < 3 {
		t.Errorf("from the native run: %+v (%v)", rows, err)
	}
}

func TestScalingAndGolden(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	base := 1000.0
	load(t, w, at("one", 0, 1000, nil), at("one-late", 20, 1100, nil),
		at("two", 12, 1800, func(r *artifact.Run) { r.Meta.Identity.NNodes, r.Meta.Identity.ScalingBaseline = 2, &base }))
	rows, err := w.Scaling(t.Context(), "two")
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v (%v)", rows, err)
	}
	r := rows[0]
	if *r.ConfiguredPct != 90 || *r.SinglePct != 90 || r.SingleRun != "one" || *r.SingleAgeDays != 0.5 {
		t.Errorf("scaling: %+v", r)
	}
	if err := w.Pin(t.Context(), warehouse.BaselineRow{Name: "golden", RunID: "one", PinnedAt: time.Date(2026, 9, 9, 0, 0, 0, 0, time.UTC)}); err != nil {
		t.Fatal(err)
	}
	golden, err := w.Golden(t.Context(), "one-late")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(golden, func(g warehouse.GoldenRow) bool { return g.Metric == "output_throughput" })
	if i < 0 || math.Abs(*golden[i].DeltaPct-10) > 1e-9 || golden[i].Regression || golden[i].GoldenRun != "one" {
		t.Errorf("golden: %+v", golden)
	}
}

// TestTrend: the median of ten forgets what is older, the best does not; what
// failed, what did other work and what was published twice is no past.
func TestTrend(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	var runs []*artifact.Run
	for i := range 12 { // 2000, 1980, 1960 …: no step is a regression, together they are
		runs = append(runs, at(fmt.Sprintf("r%02d", i), i, 2000-20*float64(i), func(r *artifact.Run) { tokens(r, 1_000_000, 1_000_000) }))
	}
	runs = append(runs,
		at("failing", 12, 9000, func(r *artifact.Run) {
			tokens(r, 1_000_000, 1_000_000)
			r.Results[0].Data = []byte(strings.Replace(string(r.Results[0].Data), `"completed": 1000`, `"completed": 200`, 1))
		}),
		at("other-work", 13, 8000, func(r *artifact.Run) { tokens(r, 1_000_000, 500_000) }),
		at("now", 14, 1700, func(r *artifact.Run) { tokens(r, 1_000_000, 1_000_000) }))
	load(t, w, runs...)
	for id, want := range map[string]struct {
		runs, midRuns     int
		mid, midPct, best float64
		bestRun           string
		bestPct           float64
		first, last       float64
	}{
		"now": {12, 10, 1870, -100 * 170.0 / 1870, 2000, "r00", -15, 2000, 1780},
		"r01": {1, 1, 2000, -1, 2000, "r00", -1, 2000, 2000},
	} {
		rows, err := w.Trend(t.Context(), id, "output_throughput")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %+v (%v)", id, rows, err)
		}
		r := rows[0]
		if len(r.Past) != want.runs || r.MidRuns != want.midRuns || *r.Mid != want.mid || math.Abs(*r.MidPct-want.midPct) > 1e-9 || *r.Best != want.best ||
			r.BestRun != want.bestRun || math.Abs(*r.BestPct-want.bestPct) > 1e-9 || r.IsBest || r.Past[0] != want.first || r.Past[len(r.Past)-1] != want.last {
			t.Errorf("%s: %+v, want %+v", id, r, want)
		}
	}
	if rows, err := w.Trend(t.Context(), "r00", "output_throughput"); err != nil || len(rows) != 0 {
		t.Errorf("the first run has a past: %+v (%v)", rows, err)
	}
	load(t, w, at("more", 15, 2100, func(r *artifact.Run) { tokens(r, 1_000_000, 1_000_000) }))
	if rows, err := w.Trend(t.Context(), "more", "output_throughput"); err != nil || len(rows) != 1 || !rows[0].IsBest || *rows[0].BestPct != 5 {
		t.Errorf("the best of all: %+v (%v)", rows, err)
	}
}

// TestGoldenRefusals: a pin that did other work is not compared, nor is a base of 0,
// and requests that failed in it are said.
func TestGoldenRefusals(t *testing.T) {
	t.Parallel()
	half := func(r *artifact.Run) { tokens(r, 1_000_000, 500_000) }
	failing := func(r *artifact.Run) {
		tokens(r, 204_800, 204_800)
		r.Results[0].Data = []byte(strings.Replace(string(r.Results[0].Data), `"completed": 1000`, `"completed": 200`, 1))
	}
	for name, tt := range map[string]struct {
		pin                   func(*artifact.Run)
		metric, state, reason string
	}{
		"alike":         {func(r *artifact.Run) { tokens(r, 1_000_000, 1_000_000) }, "output_throughput", "compared", ""},
		"other work":    {half, "output_throughput", "not_comparable", "mean lengths by 100.0 %"},
		"nothing fails": {nil, "failed", "not_comparable", "n/a (pinned value is 0)"},
		"most failed":   {failing, "output_throughput", "compared", "800 requests failed in the pinned run"},
	} {
		w := open(t, "")
		load(t, w, at("pin", 0, 1000, tt.pin), at("now", 1, 900, func(r *artifact.Run) {
			if tt.pin != nil && name != "most failed" {
				tokens(r, 1_000_000, 1_000_000)
			}
		}))
		if err := w.Pin(t.Context(), warehouse.BaselineRow{Name: "v1", RunID: "pin", PinnedAt: time.Date(2026, 9, 9, 0, 0, 0, 0, time.UTC)}); err != nil {
			t.Fatal(err)
		}
		rows, err := w.Golden(t.Context(), "now")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(rows, func(g warehouse.GoldenRow) bool { return g.Metric == tt.metric })
		if i < 0 || rows[i].State != tt.state || !strings.Contains(rows[i].Reason, tt.reason) || (rows[i].DeltaPct != nil) != (tt.state == "compared") || rows[i].Regression != (tt.state == "compared") {
			t.Errorf("%s: %+v", name, rows)
		}
	}
}

// TestBaselineShapes: sidecars of every age say the same.
func TestBaselineShapes(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	load(t, w, at("now", 0, 2120, nil))
	for name, text := range map[string]string{
		"schema 1, client names, old key": `{"schema_version": 1, "cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,CONC=128", "host": "h", "model": "org/M", "gpu": "mi325x", "actuals": {"client.output_throughput": 2000.0, "client.p99_ttft_ms": NaN}}]}`,
		"schema 2":                        `{"schema_version": 2, "run": {"run_id": "x", "started_at": "2026-08-01T00:00:00Z", "simulated": false}, "identity": {"model_id": "org/M", "gpu_arch": "mi325x", "driver": "atom"}, "cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "actuals": {"client.output_throughput": 2000}}]}`,
		"bare names, no schema":           `{"cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "actuals": {"output_throughput": "2000"}}]}`,
	} {
		b, err := warehouse.ReadBaseline("b.json", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rows, err := (&warehouse.Compared{DB: w, Prev: b}).PrevRun(t.Context(), "now")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(rows, func(r warehouse.PrevRunRow) bool { return r.Metric == "output_throughput" })
		if i < 0 || rows[i].DeltaPct == nil || *rows[i].DeltaPct != 6 {
			t.Errorf("%s: %+v", name, rows)
		}
	}
	for _, text := range []string{"", "[]", "{}", `{"cells": []}`, `{"cells": [{"cell_id": 1}]}`, `{"cells": {"a": 1}}`} {
		if _, err := warehouse.ReadBaseline("b.json", []byte(text)); err == nil {
			t.Errorf("%q was taken for a baseline", text)
		}
	}
}

func FuzzReadBaseline(f *testing.F) {
	f.Add([]byte(`{"cells": [{"cell_id": "ISL=1,OSL=1,TP=8,CONC=1", "actuals": {"client.output_throughput": 1}}], "accuracy": {"a": NaN}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := warehouse.ReadBaseline("f", data)
		if (b == nil) == (err == nil) {
			t.Fatalf("%v, %v", b, err)
		}
	})
}
