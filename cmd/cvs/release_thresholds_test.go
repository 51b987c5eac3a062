package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// realRun is a run directory around a real public result, with the inputs it was
// judged by.
func realRun(t *testing.T) string {
	t.Helper()
	real := filepath.Join("testdata", "real")
	p, err := plan.Load(plan.Options{
		ConfigFile: filepath.Join(real, "mi355x_atom_deepseek-v4-pro_fp4_single.json"), ClusterFile: filepath.Join(real, "cluster.json"), OSUser: "carol",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := runOfPlan(p)
	meta := r.Meta
	meta.RunID, meta.Status, meta.Inputs = "real", artifact.Running, nil
	d, err := artifact.Create(t.TempDir(), meta)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		d.AddInput("config", p.Config.Path, p.Config.Bytes), d.AddInput("thresholds", p.Threshold.Path, p.Threshold.Bytes),
		d.AddInput("cluster", p.ClusterSrc.Path, p.ClusterSrc.Bytes), d.WriteExpected(r.Expected), d.WriteThresholds(r.Thresholds), d.WriteConfig(r.Config),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(real, "results", "isl1024_osl1024_conc128", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Expected.Cells {
		if c.Concurrency != 128 {
			continue
		}
		w, err := d.CellDir(i+1, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteFile("results.json", "result", "", bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteRecord(artifact.Record{CellKey: c.Key, CellID: c.ID, Repeat: 1, Host: "h", Status: artifact.Done}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(artifact.Done, "", signoffDay); err != nil {
		t.Fatal(err)
	}
	return d.Path()
}

func TestThresholdsOfAnotherFile(t *testing.T) {
	t.Parallel()
	run := realRun(t)
	e := &env{getenv: func(string) string { return "" }, now: func() time.Time { return signoffDay }, osUser: func() string { return "carol" }}
	text, err := os.ReadFile(filepath.Join("testdata", "real", "mi355x_atom_deepseek-v4-pro_fp4_threshold.json"))
	if err != nil {
		t.Fatal(err)
	}
	edited := filepath.Join(t.TempDir(), "new.json")
	// the gate that fails is loosened, one that held is tightened
	change := strings.NewReplacer("20000", "30000", `"value": 2600`, `"value": 260000`)
	if err := os.WriteFile(edited, []byte(change.Replace(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := compareThresholds(t.Context(), e, run, edited)
	if err != nil {
		t.Fatal(err)
	}
	if r.Before.Fail != 1 || r.After.Fail != 1 || len(r.Gates) != 2 || r.Same == 0 {
		t.Fatalf("got %+v", r)
	}
	for _, g := range r.Gates {
		if !g.Flips || g.Metric != "p99_ttft_ms" && g.Metric != "output_throughput" {
			t.Errorf("got %+v", g)
		}
	}
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{"! ISL=1024,OSL=1024,TP=8,PP=1,CONC=128 p99_ttft_ms: got 23175.688520654803: FAIL <= 20000 ms -> pass <= 30000 ms", "2 gates differ", "nothing was measured again"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{"ISL=1024,OSL=1024,TP=8,PP=1,CONC=128": {"output_throughput": {"kind": "mn"}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := compareThresholds(t.Context(), e, run, broken); exitCode(err) != 2 || !strings.Contains(err.Error(), "mn") {
		t.Errorf("a broken file gives %v", err)
	}
	if _, err := compareThresholds(t.Context(), e, run, broken+"x"); exitCode(err) != 2 {
		t.Errorf("a missing file gives %v", err)
	}
}
