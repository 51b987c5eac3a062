package warehouse_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/collect/plan"
	"cvs/warehouse"
)

// A caseFile is what this test reads of a case.json.
type caseFile struct {
	ID        string   `json:"id"`
	Operation string   `json:"operation"`
	Exit      string   `json:"exit_class"`
	Expect    expected `json:"expect"`
	dir       string
}

type expected struct {
	Cells    map[string]string            `json:"cells"`
	Gates    map[string]map[string]string `json:"gates"`
	Accuracy map[string]map[string]string `json:"accuracy"`
	Metrics  map[string]float64           `json:"metrics"`
	Orphans  []string                     `json:"orphans"`
	Variants map[string]string            `json:"variants"`
	AlsoExit []string                     `json:"also_accepted_exit"`
}

var exitOf = map[string]int{"OK": 0, "GATE_FAIL": 1, "DATA_ERROR": 3, "RUN_ERROR": 4}

// casesDir is where the acceptance cases are; they are part of the repository.
func casesDir(t *testing.T) string {
	for _, dir := range []string{os.Getenv("CVS_CASES"), filepath.Join("..", "cmd", "cvs", "testdata", "cases")} {
		if dir == "" {
			continue
		}
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	t.Fatal("no acceptance cases: set CVS_CASES")
	return ""
}

// A caseRun is one input set of a case on its way through the warehouse.
type caseRun struct {
	id, dir, exit string
	want          expected
	run           *artifact.Run
}

// TestCases drives the cases about judging results through plan and warehouse,
// without the command around them. All runs share one warehouse: they must not
// disturb each other.
func TestCases(t *testing.T) {
	t.Parallel()
	var all []caseRun
	var runs []*artifact.Run
	for _, c := range readCases(t) {
		sets := map[string]string{"": c.Exit}
		if c.Exit == "per-variant" {
			sets = map[string]string{}
		}
		for sub, exit := range c.Expect.Variants {
			sets[sub] = exit
		}
		for sub, exit := range sets {
			r := caseRun{id: filepath.Join(c.ID, sub), dir: filepath.Join(c.dir, sub), exit: exit, want: expected{AlsoExit: c.Expect.AlsoExit}}
			if sub == "" {
				r.want = c.Expect
			}
			if r.run = planned(t, r); r.run != nil {
				all, runs = append(all, r), append(runs, r.run)
			}
		}
	}
	w := open(t, "")
	load(t, w, runs...)
	list, err := w.Runs(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	exits := make(map[string]int)
	for _, r := range list {
		exits[r.RunID] = r.ExitCode
	}
	for _, r := range all {
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			if got, ok := exits[r.id]; !ok || got != exitOf[r.exit] {
				status, err := w.RunStatus(t.Context(), r.id)
				t.Errorf("exit code %d, want %d (%s)\n%s (%v)", got, exitOf[r.exit], r.exit, status.ReasonText, err)
			}
			if len(r.want.Cells) > 0 || len(r.want.Gates) > 0 {
				checkCells(t, w, r.id, r.want)
			}
			if len(r.want.Metrics) > 0 {
				checkMetrics(t, w, r.id, r.want)
			}
			if len(r.want.Accuracy) > 0 {
				checkAccuracy(t, w, r.id, r.want)
			}
		})
	}
}

func readCases(t *testing.T) []caseFile {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(casesDir(t), "c*"))
	if err != nil {
		t.Fatal(err)
	}
	var out []caseFile
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "case.json"))
		if err != nil {
			continue
		}
		c := caseFile{dir: dir}
		// the other operations expect things of other shapes
		err = json.Unmarshal(data, &c)
		if c.Operation != "evaluate" && c.Operation != "parse" {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		out = append(out, c)
	}
	return out
}

// planned loads the input set; nil if it has no run to judge, which includes
// those that must be refused.
func planned(t *testing.T, r caseRun) *artifact.Run {
	t.Helper()
	if _, err := os.Stat(filepath.Join(r.dir, "gen.go")); err == nil {
		return nil // generated inputs are made by the adapter of the command
	}
	p, err := planOf(r.dir)
	switch {
	case p == nil && err == nil: // steps told in prose
		return nil
	case err != nil:
		if r.exit != "INPUT_ERROR" {
			t.Errorf("%s: plan: %v", r.id, err)
		}
		return nil
	case r.exit == "INPUT_ERROR":
		if !slices.Contains(r.want.AlsoExit, "OK") {
			t.Errorf("%s: the plan accepts it, want an input error", r.id)
		}
		return nil
	}
	return runOf(t, r.id, r.dir, p)
}

func word(s warehouse.State) string {
	switch s {
	case warehouse.Skipped:
		return "SKIP"
	case warehouse.Invalid:
		return "FAIL"
	case warehouse.Error:
		return "NO-RESULT"
	case warehouse.NA:
		return "N/A"
	}
	return strings.ToUpper(string(s))
}

func checkCells(t *testing.T, w *warehouse.DB, id string, want expected) {
	t.Helper()
	cells, err := w.CellStatus(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if v, ok := want.Cells[c.CellKey]; ok && v != word(c.State) {
			t.Errorf("cell %s is %s, want %s: %s", c.CellKey, word(c.State), v, c.Reason)
		}
	}
	gates, err := w.Gates(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gates {
		list, ok := want.Gates[g.CellKey]
		if !ok {
			continue
		}
		v, ok := list[g.Metric]
		if !ok {
			v = "PASS"
		}
		if v != word(g.State) {
			t.Errorf("gate %s %s is %s, want %s: %s", g.CellKey, g.Metric, word(g.State), v, g.Reason)
		}
		if g.Reason == "" {
			t.Errorf("gate %s %s has no reason", g.CellKey, g.Metric)
		}
	}
	if len(want.Orphans) == 0 {
		return
	}
	found, err := w.DataQuality(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range want.Orphans {
		if !slices.ContainsFunc(found, func(r warehouse.DataQualityRow) bool { return r.Code == "orphan" && r.Path == path }) {
			t.Errorf("orphan %s is not listed", path)
		}
	}
}

func checkMetrics(t *testing.T, w *warehouse.DB, id string, want expected) {
	t.Helper()
	metrics, err := w.Metrics(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range want.Metrics {
		i := slices.IndexFunc(metrics, func(m warehouse.MetricRow) bool { return m.Metric == name })
		if i < 0 || metrics[i].Value == nil {
			t.Errorf("metric %s is missing", name)
			continue
		}
		if got := *metrics[i].Value; math.Abs(got-v) > 1e-4*math.Abs(v) {
			t.Errorf("metric %s = %v, want %v", name, got, v)
		}
	}
}

func checkAccuracy(t *testing.T, w *warehouse.DB, id string, want expected) {
	t.Helper()
	checks, err := w.CheckGates(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	for task, list := range want.Accuracy {
		for metric, v := range list {
			i := slices.IndexFunc(checks, func(g warehouse.CheckGateRow) bool { return g.Target == task && g.Metric == metric })
			if i < 0 {
				t.Errorf("no check gate for %s %s", task, metric)
			} else if word(checks[i].State) != v {
				t.Errorf("check %s %s is %s, want %s: %s", task, metric, word(checks[i].State), v, checks[i].Reason)
			}
		}
	}
}

// planOf loads the config of a case folder; nil, nil if it has none.
func planOf(dir string) (*plan.Plan, error) {
	for _, pattern := range []string{"*_single.json", "*_distributed.json"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			continue
		}
		return plan.Load(plan.Options{ConfigFile: found[0], ClusterFile: filepath.Join(dir, "cluster.json"), OSUser: "tester"})
	}
	return nil, nil
}

// runOf makes the run that evaluating a results folder judges.
func runOf(t *testing.T, id, dir string, p *plan.Plan) *artifact.Run {
	t.Helper()
	results, accuracy, problems, err := warehouse.ResultsLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	run := &artifact.Run{
		Meta: artifact.Meta{
			FormatVersion: 1, RunID: id, Suite: p.Suite, Profile: p.Profile, Status: artifact.Done, Enforce: p.Enforce,
			Identity: artifact.Identity{
				Model: p.Model.ID, Precision: p.Model.Precision, GPUArch: p.GPUArch, Driver: string(p.Params.Driver),
				TP: p.Params.TP, PP: p.Params.PP, DP: p.Params.DP, NNodes: p.Params.NNodes, ScalingBaseline: p.Params.ScalingBaseline,
			},
		},
		Thresholds: artifact.Thresholds{Specs: p.Thresholds},
		Results:    results, Accuracy: accuracy, Problems: problems,
	}
	for _, c := range p.Cells {
		run.Expected.Cells = append(run.Expected.Cells, artifact.ExpectedCell{
			Key: c.Key, ID: c.ID, Combo: c.Combo, ISL: c.ISL, OSL: c.OSL, Concurrency: c.Concurrency, NumPrompts: p.Params.NumPrompts,
		})
	}
	for _, a := range p.Accuracy {
		run.Expected.Tasks = append(run.Expected.Tasks, artifact.ExpectedTask{Kind: "accuracy", ID: a.ID})
	}
	return run
}

func open(t *testing.T, path string) *warehouse.DB {
	t.Helper()
	w, err := warehouse.Open(context.Background(), path, warehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return w
}
