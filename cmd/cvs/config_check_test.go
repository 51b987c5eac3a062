package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// checkedPlan is a small plan with one of everything the summary shows.
func checkedPlan() *plan.Plan {
	zero := 0.0
	return &plan.Plan{
		Profile: "perf", Schema: "native", GPUArch: "mi3xx",
		Config: plan.Source{Path: "x.json"}, Threshold: plan.Source{Path: "x_threshold.json"},
		Enforce: true, EnforceOrigin: "config line 5",
		Model:     plan.Model{ID: "org/model", Precision: "fp8"},
		Container: plan.Container{Image: "rocm/atom-dev:latest", Name: "atom", Lifetime: plan.PerRun},
		Params:    plan.Params{Driver: plan.DriverVLLMATOM, TP: 8, PP: 2, DP: 1, NNodes: 2},
		Cells: []plan.Cell{
			{Ordinal: 1, ID: "a-conc16", Key: "ISL=8,OSL=8,TP=8,PP=2,CONC=16", Combo: "a", ISL: 8, OSL: 8, Concurrency: 16},
			{Ordinal: 2, ID: "a-conc64", Key: "ISL=8,OSL=8,TP=8,PP=2,CONC=64", Combo: "a", ISL: 8, OSL: 8, Concurrency: 64},
		},
		Thresholds: []artifact.Threshold{
			{Scope: "cell", Target: "ISL=8,OSL=8,TP=8,PP=2,CONC=16", Metric: "output_throughput", Kind: "min_tok_s", Value: &zero},
			{Scope: "cell", Target: "ISL=8,OSL=8,TP=8,PP=2,CONC=16", Metric: "failed", Kind: "max", Value: &zero},
			{Scope: "cell", Target: "ISL=9,OSL=8,TP=8,PP=2,CONC=16", Metric: "failed", Kind: "max", Value: &zero},
			{Scope: "accuracy", Target: "gsm8k", Metric: "gsm8k.exact_match__strict-match", Kind: "info"},
		},
		Accuracy:   []plan.AccuracyTask{{ID: "gsm8k"}, {ID: "bbh"}},
		Functional: plan.Functional{APISmoke: true},
		Cluster:    plan.Cluster{Nodes: []plan.Node{{Addr: "10.0.0.1"}, {Addr: "10.0.0.2:2222"}}},
		Coverage: plan.Coverage{
			CellsWithoutSpecs: []string{"ISL=8,OSL=8,TP=8,PP=2,CONC=64"},
			StaleCells:        []string{"ISL=9,OSL=8,TP=8,PP=2,CONC=16"},
			UngatedTasks:      []string{"accuracy: bbh"},
		},
		Warnings: []plan.Problem{{File: "x.json", Line: 3, Column: 5, Path: "params.seed", Msg: "odd", Hint: "use 0", Warning: true}},
		Resolved: json.RawMessage(`{"framework": "atom"}`),
	}
}

func TestWriteCheck(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := writeCheck(&env{stdout: &out}, checkedPlan()); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "config", "check.txt")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Errorf("%s (-want +got; UPDATE=1 refreshes):\n%s", golden, d)
	}
}

// TestCheckPlanCounts: specs of cells that do not run are not counted for the
// sweep, and every cell is listed even without any.
func TestCheckPlanCounts(t *testing.T) {
	t.Parallel()
	c := newCheckPlan(checkedPlan())
	want := map[string]int{"ISL=8,OSL=8,TP=8,PP=2,CONC=16": 2, "ISL=8,OSL=8,TP=8,PP=2,CONC=64": 0}
	if d := cmp.Diff(want, c.Thresholds.Cells); d != "" {
		t.Error(d)
	}
	if c.GPUs != 16 {
		t.Errorf("GPUs = %d, want TP x PP x DP = 16", c.GPUs)
	}
	p := checkedPlan()
	p.Enforce, p.EnforceOrigin = false, "default of the serving schema"
	if got := recordOnly(p); len(got) != 1 || !strings.Contains(got[0], "default of the serving schema") {
		t.Errorf("record-only without enforcement: %q", got)
	}
}

// TestCheckJSON: standard output is one JSON document whatever is wrong with
// the files, and the error keeps its exit status.
func TestCheckJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mi3xx_atom_x_fp8_single.json")
	if err := os.WriteFile(file, []byte(`{"framework": "atom", "modell": {}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	e := &env{stdout: &out, getenv: func(string) string { return "" }, osUser: func() string { return "lab" }}
	err := runConfigCheck(t.Context(), e, configCheckOptions{inputOptions: inputOptions{config: file}, format: "json"})
	var bad *plan.Error
	if !errors.As(err, &bad) {
		t.Fatalf("error %v, want a *plan.Error", err)
	}
	var got checkReport
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.OK || got.Plan != nil || len(got.Problems) != len(bad.Problems) {
		t.Errorf("ok %v, plan %v, %d problems; want false, none, %d", got.OK, got.Plan, len(got.Problems), len(bad.Problems))
	}
	found := false
	for _, p := range got.Problems {
		found = found || strings.Contains(p.Path+p.Message, "modell") && p.Line == 1 && p.Column > 1 && p.Severity == "error"
	}
	if !found {
		t.Errorf("the unknown key is not reported with its position: %+v", got.Problems)
	}
}
