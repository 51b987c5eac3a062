package warehouse_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// The benchmarks of scale take minutes and run only with -bench:
//
//	go test ./warehouse -run NONE -bench Scale -benchtime 1x -timeout 60m

// BenchmarkScaleViews asks about the newest of 1,000 and 10,000 runs of 14 cells:
// every question alone, each in a warehouse that was just opened, all of them
// together as a deck and a review ask, and the windows over the whole history.
// Times are the least of three; opening is not among them.
func BenchmarkScaleViews(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "w.duckdb")
			start := time.Now()
			manyRuns(b, file, n)
			b.ReportMetric(time.Since(start).Seconds(), "load-s")
			least := make(map[string]time.Duration)
			keep := func(name string, d time.Duration) {
				if least[name] == 0 || d < least[name] {
					least[name] = d
				}
			}
			opened := func(o warehouse.Options, ask func(w *warehouse.DB)) {
				o.ReadOnly = true
				w, err := warehouse.Open(b.Context(), file, o)
				if err != nil {
					b.Fatal(err)
				}
				defer w.Close()
				ask(w)
			}
			timed := func(name string, ask func() error) {
				start, busy := time.Now(), cpu()
				if err := ask(); err != nil {
					b.Fatalf("%s: %v", name, err)
				}
				keep(name, time.Since(start))
				keep(name+"-cpu", cpu()-busy) // says more on a machine with other work
			}
			last, before := fmt.Sprintf("run-%05d", n-1), fmt.Sprintf("run-%05d", n-2)
			for b.Loop() {
				for range 3 {
					opened(warehouse.Options{OneRun: true}, func(w *warehouse.DB) {
						timed("together", func() error {
							for _, q := range aboutOneRun(b.Context(), w, last, before) {
								if err := q.ask(); err != nil {
									return fmt.Errorf("%s: %w", q.name, err)
								}
							}
							return nil
						})
					})
					for i := range aboutOneRun(b.Context(), nil, last, before) {
						opened(warehouse.Options{OneRun: true}, func(w *warehouse.DB) {
							q := aboutOneRun(b.Context(), w, last, before)[i]
							timed(q.name, q.ask)
						})
					}
				}
				opened(warehouse.Options{}, func(w *warehouse.DB) {
					for _, q := range aboutHistory(b.Context(), w) {
						timed(q.name, q.ask)
					}
				})
			}
			for name, d := range least {
				b.ReportMetric(float64(d.Microseconds())/1000, name+"-ms")
			}
		})
	}
}

func manyRuns(b *testing.B, file string, n int) {
	b.Helper()
	w, err := warehouse.Open(b.Context(), file, warehouse.Options{})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	var runs []*artifact.Run
	for i := range n {
		runs = append(runs, manyCells(fmt.Sprintf("run-%05d", i), i, r))
		if len(runs) == 256 || i == n-1 {
			if _, err := w.Load(b.Context(), runs...); err != nil {
				b.Fatal(err)
			}
			runs = nil
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// manyCells is a run of 14 cells; run i starts i hours after the first.
func manyCells(id string, i int, r *rand.Rand) *artifact.Run {
	run := sixCells(id)
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour)
	run.Meta.StartedAt = &start
	first := run.Results
	run.Results, run.Expected.Cells = nil, nil
	for c := range 14 {
		conc := 8 * (c + 1)
		key := fmt.Sprintf("ISL=1024,OSL=1024,TP=8,PP=1,CONC=%d", conc)
		run.Expected.Cells = append(run.Expected.Cells, artifact.ExpectedCell{Key: key, ID: fmt.Sprintf("w1-conc%d", conc), Combo: "w1", ISL: 1024, OSL: 1024, Concurrency: conc, NumPrompts: 1000})
		res := first[0]
		res.CellKey, res.Path = key, fmt.Sprintf("results/isl1024_osl1024_conc%d/results.json", conc)
		res.Data = wideJSON(conc, 2000*(1+0.01*r.NormFloat64()))
		run.Results = append(run.Results, res)
	}
	return run
}

// A question has a name for the figures.
type question struct {
	name string
	ask  func() error
}

// asked drops the answer of a question about a run.
func asked[T any](ctx context.Context, id string, ask func(context.Context, string) (T, error)) func() error {
	return func() error { _, err := ask(ctx, id); return err }
}

// onDay is asked for a question that depends on the day.
func onDay[T any](ctx context.Context, id string, ask func(context.Context, string, time.Time) (T, error)) func() error {
	return func() error { _, err := ask(ctx, id, time.Date(2026, 9, 3, 0, 0, 0, 0, time.UTC)); return err }
}

// aboutOneRun is every question that console, deck, review and release ask about a
// run.
func aboutOneRun(ctx context.Context, w *warehouse.DB, id, before string) []question {
	return []question{
		{"run", asked(ctx, id, w.Run)},
		{"run_status", asked(ctx, id, w.RunStatus)},
		{"cell_status", asked(ctx, id, w.CellStatus)},
		{"gates", asked(ctx, id, w.Gates)},
		{"check_gates", asked(ctx, id, w.CheckGates)},
		{"tiers", asked(ctx, id, w.Tiers)},
		{"metrics", asked(ctx, id, w.Metrics)},
		{"data_quality", asked(ctx, id, w.DataQuality)},
		{"accuracy", asked(ctx, id, w.Accuracy)},
		{"artifacts", asked(ctx, id, w.Artifacts)},
		{"stages", asked(ctx, id, w.Stages)},
		{"attempts", asked(ctx, id, w.Attempts)},
		{"inputs", asked(ctx, id, w.Inputs)},
		{"notes", asked(ctx, id, w.Notes)},
		{"image_digests", asked(ctx, id, w.ImageDigests)},
		{"regressions", asked(ctx, id, w.Regressions)},
		{"prev_run", asked(ctx, id, w.PrevRun)},
		{"what_changed", func() error { _, err := w.WhatChanged(ctx, before, id); return err }},
		{"golden", asked(ctx, id, w.Golden)},
		{"trend", func() error {
			_, err := w.Trend(ctx, id, "output_throughput", "mean_ttft_ms", "mean_tpot_ms")
			return err
		}},
		{"framework_parity", asked(ctx, id, w.FrameworkParity)},
		{"request_quantiles", asked(ctx, id, w.RequestQuantiles)},
		{"scaling", asked(ctx, id, w.Scaling)},
		{"accuracy_prev_run", asked(ctx, id, w.AccuracyPrevRun)},
		{"telemetry", asked(ctx, id, w.Telemetry)},
		{"long_context", asked(ctx, id, w.LongContext)},
		{"kernel_events", asked(ctx, id, w.KernelEvents)},
		{"drafts", asked(ctx, id, w.Drafts)},
		{"signoff_state", onDay(ctx, id, w.SignoffState)},
		{"signoff_standing", onDay(ctx, id, w.SignoffStandings)},
		{"signoff_block", onDay(ctx, id, w.SignoffBlocks)},
		{"gate_waivers", onDay(ctx, id, w.GateWaivers)},
		{"waiver_use", onDay(ctx, id, w.WaiverUse)},
		{"vacuous", asked(ctx, id, w.Vacuous)},
		{"calibration", asked(ctx, id, w.Calibration)},
		{"threshold_age", asked(ctx, id, w.ThresholdOrigins)},
		{"cells", asked(ctx, id, w.Cells)},
		{"release_runs", asked(ctx, id, w.ReleaseRun)},
	}
}

// aboutHistory are questions about many runs.
func aboutHistory(ctx context.Context, w *warehouse.DB) []question {
	whole := func(text string) func() error {
		return func() error {
			rows, err := w.Ask(ctx, text)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
			}
			return rows.Err()
		}
	}
	return []question{
		{"runs_20", func() error { _, err := w.Runs(ctx, 20); return err }},
		{"history_one", func() error { _, err := w.History(ctx, "CONC=64", "output_throughput"); return err }},
		{"history_window", whole(`SELECT count(*), max(x) FROM (SELECT value - lag(value) OVER (PARTITION BY series_id, cell_key, slot, metric ORDER BY sequence) AS x FROM history)`)},
		{"change_points", whole("SELECT count(*) FROM change_points")},
	}
}
