package warehouse_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// sixCells is a run as people make it every day.
func sixCells(id string) *artifact.Run {
	run := sampleRun(id, nil)
	run.Expected.Cells, run.Results, run.Thresholds.Specs = nil, nil, nil
	floor := 1500.0
	for i := range 6 {
		conc := 16 << i
		key := fmt.Sprintf("ISL=1024,OSL=1024,TP=8,PP=1,CONC=%d", conc)
		run.Expected.Cells = append(run.Expected.Cells, artifact.ExpectedCell{Key: key, ID: fmt.Sprintf("w1-conc%d", conc), Combo: "w1", ISL: 1024, OSL: 1024, Concurrency: conc, NumPrompts: 1000})
		run.Results = append(run.Results, artifact.Result{Path: fmt.Sprintf("results/isl1024_osl1024_conc%d/results.json", conc), CellKey: key, Repeat: 1, Data: wideJSON(conc, 2048+float64(i))})
		for _, m := range []string{"output_throughput", "total_token_throughput", "per_gpu_throughput", "success_rate"} {
			run.Thresholds.Specs = append(run.Thresholds.Specs, artifact.Threshold{Scope: "cell", Target: key, Metric: m, Kind: "min", Value: &floor, File: "t.json", Line: 3})
		}
		for _, m := range []string{"ttft", "tpot", "itl", "e2el"} {
			for _, s := range []string{"mean", "median", "p90", "p95", "p99"} {
				run.Thresholds.Specs = append(run.Thresholds.Specs, artifact.Threshold{Scope: "cell", Target: key, Metric: s + "_" + m + "_ms", Kind: "max_ms", Value: &floor, File: "t.json", Line: 3})
			}
		}
	}
	return run
}

// wideJSON is a result with every statistic, as the current client writes it:
// about 2 KB.
func wideJSON(conc int, throughput float64) []byte {
	b := fmt.Appendf(nil, `{"date": "20260901-100500", "backend": "vllm", "model_id": "org/M", "tokenizer_id": "org/M", "best_of": 1, "num_prompts": 1000, "request_rate": "inf",
 "burstiness": 1.0, "max_concurrency": %d, "duration": 500.25, "completed": 1000, "total_input_tokens": 1023411, "total_output_tokens": 1024000, "request_throughput": 2.0,
 "request_goodput:": null, "output_throughput": %v, "total_token_throughput": %v, "concurrency": %v`, conc, throughput, 2*throughput, float64(conc)-0.5)
	for i, m := range []string{"ttft", "tpot", "itl", "e2el"} {
		for j, s := range []string{"mean", "median", "std", "p50", "p90", "p95", "p99"} {
			b = fmt.Appendf(b, `, "%s_%s_ms": %v`, s, m, 20.123456789+float64(10*i+j)+throughput/1000)
		}
	}
	return append(b, "}\n"...)
}

// cpu is the processor time of this process: wall times mean little on a machine
// with other work.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkOpen(b *testing.B) {
	start := cpu()
	defer func() { b.ReportMetric(float64((cpu()-start).Microseconds())/1000/float64(b.N), "cpu-ms/op") }()
	for b.Loop() {
		w, err := warehouse.Open(b.Context(), "", warehouse.Options{})
		if err != nil {
			b.Fatal(err)
		}
		w.Close()
	}
}

// allViews asks every question that a deck and a console ask about one run, and
// says how much processor time each took.
func allViews(ctx context.Context, w *warehouse.DB, id string) (map[string]time.Duration, error) {
	took := make(map[string]time.Duration)
	for _, q := range []struct {
		name string
		ask  func() error
	}{
		{"run", func() error { _, err := w.Run(ctx, id); return err }},
		{"run_status", func() error { _, err := w.RunStatus(ctx, id); return err }},
		{"cell_status", func() error { _, err := w.CellStatus(ctx, id); return err }},
		{"cells", func() error { _, err := w.Cells(ctx, id); return err }},
		{"tiers", func() error { _, err := w.Tiers(ctx, id); return err }},
		{"gates", func() error { _, err := w.Gates(ctx, id); return err }},
		{"check_gates", func() error { _, err := w.CheckGates(ctx, id); return err }},
		{"metrics", func() error { _, err := w.Metrics(ctx, id); return err }},
		{"data_quality", func() error { _, err := w.DataQuality(ctx, id); return err }},
		{"accuracy", func() error { _, err := w.Accuracy(ctx, id); return err }},
		{"artifacts", func() error { _, err := w.Artifacts(ctx, id); return err }},
		{"stages", func() error { _, err := w.Stages(ctx, id); return err }},
		{"attempts", func() error { _, err := w.Attempts(ctx, id); return err }},
		{"inputs", func() error { _, err := w.Inputs(ctx, id); return err }},
	} {
		start := cpu()
		if err := q.ask(); err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		took[q.name] = cpu() - start
	}
	return took, nil
}

func BenchmarkViewsOfOneRun(b *testing.B) {
	w, err := warehouse.Open(b.Context(), "", warehouse.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	start := cpu()
	if _, err := w.Load(b.Context(), sixCells("r1")); err != nil {
		b.Fatal(err)
	}
	loading := cpu() - start
	total := make(map[string]time.Duration)
	n := 0
	for b.Loop() {
		took, err := allViews(b.Context(), w, "r1")
		if err != nil {
			b.Fatal(err)
		}
		for k, d := range took {
			total[k] += d
		}
		n++
	}
	b.ReportMetric(float64(loading.Microseconds())/1000, "load-ms")
	var all time.Duration
	for _, d := range total {
		all += d
	}
	total["all"] = all
	for k, d := range total {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(n), k+"-ms")
	}
}
