package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/render"
	"cvs/warehouse"
)

// syntheticRun is a run of n cells with results as the current client writes
// them and 25 gates each.
func syntheticRun(id string, n int) *artifact.Run {
	start := time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)
	r := &artifact.Run{Meta: artifact.Meta{
		FormatVersion: artifact.FormatVersion, RunID: id, Suite: "atom", Status: artifact.Done, StartedAt: &start, Enforce: true,
		Identity: artifact.Identity{Model: "org/M", GPUArch: "mi325x", Driver: "atom", TP: 8, PP: 1, DP: 1, NNodes: 1, Hosts: []string{"node-01"}},
	}}
	floor, most := 1500.0, 400.0
	for i := range n {
		isl, conc := 1024+i/8, 1<<(i%8)
		key := fmt.Sprintf("ISL=%d,OSL=1024,TP=8,PP=1,CONC=%d", isl, conc)
		c := artifact.ExpectedCell{Key: key, ID: fmt.Sprintf("w%d-conc%d", i/8, conc), Combo: fmt.Sprintf("w%d", i/8), ISL: isl, OSL: 1024, Concurrency: conc, NumPrompts: 1000}
		r.Expected.Cells = append(r.Expected.Cells, c)
		data := fmt.Appendf(nil, `{"date": "20260901-100500", "backend": "vllm", "model_id": "org/M", "num_prompts": 1000, "max_concurrency": %d, "duration": 500.25, "completed": 1000, "failed": 0,
 "total_input_tokens": 1023411, "total_output_tokens": 1024000, "request_throughput": 2.0, "output_throughput": %v, "total_token_throughput": %v`, conc, 2048+float64(i)/7, 4096+float64(i)/3)
		for j, m := range []string{"ttft", "tpot", "itl", "e2el"} {
			for k, s := range []string{"mean", "median", "p90", "p95", "p99"} {
				data = fmt.Appendf(data, `, "%s_%s_ms": %v`, s, m, 20.123456789+float64(10*j+k)+float64(i)/11)
			}
		}
		folder := "cells/" + artifact.CellFolder(i+1, c) + "/1/"
		rec := &artifact.Record{FormatVersion: artifact.FormatVersion, CellKey: key, CellID: c.ID, Repeat: 1, Host: "node-01", Driver: "atom", Status: artifact.Done,
			ClientArgv: []string{"python3", "-m", "atom.benchmarks.benchmark_serving", "--random-input-len", strconv.Itoa(isl), "--max-concurrency", strconv.Itoa(conc)},
			ServerArgv: []string{"python3", "-m", "atom.entrypoints.openai_server", "--model", "/models/M", "-tp", "8"}}
		r.Records = append(r.Records, *rec)
		r.Results = append(r.Results, artifact.Result{Path: folder + "results.json", CellKey: key, Repeat: 1, Host: "node-01", Data: append(data, "}\n"...), Record: rec})
		from, to := start.Add(time.Duration(i)*time.Second), start.Add(time.Duration(i+1)*time.Second)
		r.Stages = append(r.Stages, artifact.Stage{Seq: i + 1, Stage: "cell", Host: "node-01", Cell: c.ID, Started: from, Ended: &to, Status: artifact.Done})
		spec := func(m, kind string, v *float64) {
			r.Thresholds.Specs = append(r.Thresholds.Specs, artifact.Threshold{Scope: "cell", Target: key, Metric: m, Kind: kind, Value: v, File: "t.json", Line: 25*i + 3})
		}
		for _, m := range []string{"output_throughput", "total_token_throughput", "per_gpu_throughput", "success_rate"} {
			v := floor
			if m != "output_throughput" {
				v = 0.5
			}
			spec(m, "min", &v)
		}
		for _, m := range []string{"ttft", "tpot", "itl", "e2el"} {
			for _, s := range []string{"mean", "median", "p90", "p95", "p99"} {
				spec(s+"_"+m+"_ms", "max_ms", &most)
			}
		}
	}
	return r
}

// peakMB is the most memory that a process has had when it ends. The kernel's own
// account after the end begins with what its parent had.
func peakMB(pid int) float64 {
	for most := 0.0; ; time.Sleep(time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, text, ok := strings.Cut(string(status), "\nVmHWM:")
		if err != nil || !ok { // it has ended
			return most
		}
		kB, _ := strconv.ParseFloat(strings.Fields(text)[0], 64) // never anything else
		most = max(most, kB/1024)
	}
}

// deckStages times what the command does with an open database, in this process:
// the questions about the run, and the deck from their answers.
func deckStages(b *testing.B, store string, keep func(name string, v time.Duration)) {
	b.Helper()
	w, err := warehouse.Open(b.Context(), store, warehouse.Options{ReadOnly: true, OneRun: true})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	began := time.Now()
	d, err := render.Query(b.Context(), w, "r1")
	if err != nil {
		b.Fatal(err)
	}
	if err := d.QueryReview(b.Context(), w, time.Unix(0, 0).UTC()); err != nil {
		b.Fatal(err)
	}
	keep("questions-ms", time.Since(began))
	began = time.Now()
	if err := render.WriteFile(filepath.Join(b.TempDir(), "deck.html"), render.Build(d, render.Options{})); err != nil {
		b.Fatal(err)
	}
	keep("render-ms", time.Since(began))
}

// BenchmarkDeckCommand makes decks of several sizes as users do, in a process of
// its own: beside the whole, what the start of the process and the opening of
// the database take alone, and what questions and rendering take of the rest. Times are the least of all rounds; the calibration is
// a fixed piece of work between them.
//
//	go test -run '^$' -bench DeckCommand -benchtime 5x ./cmd/cvs
func BenchmarkDeckCommand(b *testing.B) {
	// The program as it ships; this test binary holds the lab and more besides.
	exe := filepath.Join(b.TempDir(), "cvs")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, n := range []int{14, 256, 1000, 5000} {
		store := filepath.Join(b.TempDir(), fmt.Sprintf("s%d.duckdb", n))
		w, err := warehouse.Open(b.Context(), store, warehouse.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := w.Load(b.Context(), syntheticRun("r1", n)); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			least, most := map[string]float64{}, map[string]float64{}
			keep := func(name string, v time.Duration) {
				if ms := float64(v.Microseconds()) / 1000; least[name] == 0 || ms < least[name] {
					least[name] = ms
				}
			}
			for b.Loop() {
				for _, c := range []struct {
					name string
					args []string
				}{
					{"start", []string{"--version"}},
					{"open", []string{"sql", "--warehouse", store, "SELECT 1"}},
					{"deck", []string{"deck", "--warehouse", store, "-o", filepath.Join(b.TempDir(), "deck.html"), "latest"}},
				} {
					cmd := exec.Command(exe, c.args...)
					cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0")
					var said bytes.Buffer
					cmd.Stderr = &said
					began := time.Now()
					if err := cmd.Start(); err != nil {
						b.Fatal(err)
					}
					peak := make(chan float64)
					go func() { peak <- peakMB(cmd.Process.Pid) }()
					if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 1 { // a failed gate is no failure here
						b.Fatalf("%v: %v\n%s", c.args, err, said.Bytes())
					}
					keep(c.name+"-ms", time.Since(began))
					keep(c.name+"-cpu-ms", cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
					most[c.name] = max(most[c.name], <-peak)
				}
				deckStages(b, store, keep)
				began := time.Now()
				work := make([]int, 1<<20)
				for i := range work {
					work[i] = i * 7919 % 1048573
				}
				slices.Sort(work)
				keep("calibration-ms", time.Since(began))
			}
			for name, v := range least {
				b.ReportMetric(v, name)
			}
			b.ReportMetric(least["deck-ms"]-least["open-ms"], "beyond-open-ms")
			b.ReportMetric(most["deck"], "MB-RSS")
			b.ReportMetric(most["open"], "open-MB-RSS") // what no deck can be below
		})
	}
}
