package warehouse_test

import (
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

// BenchmarkScaleViews asks every view about the newest of 1,000 and 10,000 runs of
// 14 cells, and the windows over the whole history.
func BenchmarkScaleViews(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "w.duckdb")
			start := time.Now()
			manyRuns(b, file, n)
			b.ReportMetric(time.Since(start).Seconds(), "load-s")
			w, err := warehouse.Open(b.Context(), file, warehouse.Options{ReadOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			last := fmt.Sprintf("run-%05d", n-1)
			for b.Loop() {
				for name, d := range compareViews(b, w, last) {
					b.ReportMetric(float64(d.Microseconds())/1000, name+"-ms")
				}
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

// compareViews is the wall time of each view about one run, and of windows over
// the whole history.
func compareViews(b *testing.B, w *warehouse.DB, id string) map[string]time.Duration {
	b.Helper()
	ctx := b.Context()
	took := make(map[string]time.Duration)
	ask := func(name string, f func() error) {
		start := time.Now()
		if err := f(); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		took[name] = time.Since(start)
	}
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
	ask("deck", func() error { _, err := allViews(ctx, w, id); return err })
	ask("run_status", func() error { _, err := w.RunStatus(ctx, id); return err })
	ask("gates", func() error { _, err := w.Gates(ctx, id); return err })
	ask("cells", func() error { _, err := w.Cells(ctx, id); return err })
	ask("metrics", func() error { _, err := w.Metrics(ctx, id); return err })
	ask("data_quality", func() error { _, err := w.DataQuality(ctx, id); return err })
	ask("prev_run", func() error { _, err := w.PrevRun(ctx, id); return err })
	ask("framework_parity", func() error { _, err := w.FrameworkParity(ctx, id); return err })
	ask("scaling", func() error { _, err := w.Scaling(ctx, id); return err })
	ask("golden", func() error { _, err := w.Golden(ctx, id); return err })
	ask("regressions", func() error { _, err := w.Regressions(ctx, id); return err })
	ask("runs_20", func() error { _, err := w.Runs(ctx, 20); return err })
	ask("history_one", func() error { _, err := w.History(ctx, "CONC=64", "output_throughput"); return err })
	ask("history_window", whole(`SELECT count(*), max(x) FROM (SELECT value - lag(value) OVER (PARTITION BY series_id, cell_key, slot, metric ORDER BY sequence) AS x FROM history)`))
	ask("change_points", whole("SELECT count(*) FROM change_points"))
	return took
}
