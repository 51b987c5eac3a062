package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// compareCommand runs one command line in this process, as cvsCommand does, also
// for commands the tree does not have yet.
func compareCommand(t testing.TB, env map[string]string, args ...string) cvsResult {
	t.Helper()
	var out, errOut bytes.Buffer
	e := &env_{stdin: strings.NewReader(""), stdout: &out, stderr: &errOut,
		getenv: func(k string) string { return env[k] },
		now:    func() time.Time { return time.Date(2026, 9, 2, 12, 0, 0, 0, time.UTC) },
		osUser: func() string { return "benchuser" }}
	root := newRoot(e)
	for _, c := range []*cobra.Command{newCompare(e), newHistory(e), newRegressions(e), newExplain(e), newBaseline(e), newThresholds(e), newWarehouse(e)} {
		if !slices.ContainsFunc(root.Commands(), func(have *cobra.Command) bool { return have.Name() == c.Name() }) {
			root.AddCommand(c)
		}
	}
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		errOut.WriteString(message(err))
	}
	return cvsResult{exitCode(err), out.String(), errOut.String()}
}

// compareCases are what expected.md of each comparison case says, as facts about
// the JSON of cvs compare and its exit status.
var compareCases = map[string]func(t *testing.T, dir string){
	"c190-previous-run-by-instant": func(t *testing.T, dir string) {
		c := compareStored(t, dir, "mm-current", nil)
		wantPrev(t, c, "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "zz-first", 2.4)
		wantCounts(t, c.Prev.Counts, prevCounts{Compared: 1})
	},
	"c191-no-previous-run": func(t *testing.T, dir string) {
		c := compareStored(t, dir, "only", nil)
		wantCounts(t, c.Prev.Counts, prevCounts{New: 1})
		if c.Prev.State != "not compared" || !strings.Contains(c.Prev.Message, "no earlier comparable run") {
			t.Errorf("state %q, message %q", c.Prev.State, c.Prev.Message)
		}
		db := storeOf(t, dir)
		env := map[string]string{"CVS_INFERENCE_PREV_REPORT_JSON": "/nonexistent/prev.json"}
		res := compareCommand(t, env, "compare", "--warehouse", db, "only")
		if res.code != 0 || !strings.Contains(res.stderr, "/nonexistent/prev.json") || !strings.Contains(res.stdout, "/nonexistent/prev.json") {
			t.Errorf("a missing baseline: exit %d, stderr %q\n%s", res.code, res.stderr, res.stdout)
		}
		if strings.Contains(res.stdout, " %\n") || strings.Contains(res.stdout, "+0.00") {
			t.Errorf("numbers without a baseline:\n%s", res.stdout)
		}
	},
	"c192-previous-report-of-another-gpu": func(t *testing.T, dir string) {
		c, _ := compareResults(t, dir)
		if c.Prev.State == "compared" || !strings.Contains(c.Prev.Message, "mi355x") {
			t.Errorf("state %q, message %q; want refused, naming mi355x", c.Prev.State, c.Prev.Message)
		}
		noNumbers(t, c)
		wantPasses(t, dir, 25)
	},
	"c194-zero-baseline": func(t *testing.T, dir string) {
		for _, sub := range []string{"zero", "nul", "nan"} {
			c, raw := compareResults(t, filepath.Join(dir, sub))
			for _, r := range c.Prev.Rows {
				if r.Metric != "output_throughput" {
					continue
				}
				if r.State != "not_comparable" || r.DeltaPct != nil || r.Ratio != nil || r.Regression || !strings.HasPrefix(r.Reason, "n/a") {
					t.Errorf("%s: %+v", sub, r)
				}
				if sub == "zero" && !strings.Contains(r.Reason, "n/a (previous is 0)") {
					t.Errorf("zero: reason %q", r.Reason)
				}
			}
			if c.Prev.Counts.NotComparable != 1 || c.Prev.Counts.Regressions != 0 {
				t.Errorf("%s: %s", sub, c.Prev.Counts)
			}
			if strings.Contains(raw, "NaN") || strings.Contains(raw, "Infinity") {
				t.Errorf("%s: no strict JSON:\n%s", sub, raw)
			}
		}
	},
	"c196-clock-change-night": func(t *testing.T, dir string) {
		wantPrev(t, compareStored(t, dir, "c", nil), "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "b", 2.4)
	},
	"c198-latency-direction": func(t *testing.T, dir string) {
		c, _ := compareResults(t, dir)
		tput, ttft := prevRow(t, c, "", "output_throughput"), prevRow(t, c, "", "mean_ttft_ms")
		if *tput.DeltaPct != 6 || !tput.Changed || tput.Regression {
			t.Errorf("throughput: %+v", tput)
		}
		if *ttft.DeltaPct != 30 || !ttft.Regression || *ttft.BetterPct != -30 {
			t.Errorf("TTFT: %+v", ttft)
		}
	},
	"c199-cells-come-and-go": func(t *testing.T, dir string) {
		c, _ := compareResults(t, dir)
		wantPrev(t, c, "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "", 2.4)
		wantCounts(t, c.Prev.Counts, prevCounts{Compared: 1, New: 1, Gone: 1})
		for key, state := range map[string]string{"CONC=256": "new", "CONC=64": "gone"} {
			if !slices.ContainsFunc(c.Prev.Rows, func(r prevLine) bool { return strings.HasSuffix(r.Cell, ","+key) && r.State == state }) {
				t.Errorf("%s is not listed as %s", key, state)
			}
		}
	},
	"c201-compared-with-itself": func(t *testing.T, dir string) {
		c, _ := compareResults(t, dir)
		if !strings.Contains(c.Prev.Message, "this very run") {
			t.Errorf("message %q", c.Prev.Message)
		}
		noNumbers(t, c)
	},
	"c202-previous-run-was-broken": func(t *testing.T, dir string) {
		c := compareStored(t, dir, "current", nil)
		wantPrev(t, c, "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "good", 2.4)
		if r := prevRow(t, c, "", "output_throughput"); !strings.Contains(r.Reason, "bad") || !strings.Contains(r.Reason, "800") {
			t.Errorf("the run passed over is not named: %q", r.Reason)
		}
	},
	"c205-parity-ratios": func(t *testing.T, dir string) {
		c, raw := compareResults(t, dir)
		if c.Parity.Counts.Compared != 1 || c.Parity.Counts.WithoutReference != 2 {
			t.Errorf("counts %s", c.Parity.Counts)
		}
		for _, r := range c.Parity.Rows {
			if !strings.HasSuffix(r.Name, ".output_throughput_ratio") {
				continue
			}
			switch {
			case strings.HasSuffix(r.Cell, "CONC=64") && (r.Ratio == nil || math.Abs(*r.Ratio-1.024) > 1e-12):
				t.Errorf("CONC=64: %+v", r)
			case !strings.HasSuffix(r.Cell, "CONC=64") && r.Ratio != nil:
				t.Errorf("%s has the ratio %v", r.Cell, *r.Ratio)
			}
		}
		if strings.Contains(raw, "NaN") || strings.Contains(raw, "Infinity") {
			t.Errorf("no strict JSON:\n%s", raw)
		}
		wantPasses(t, dir, 75)
	},
	"c207-parity-reference-of-another-host-count": func(t *testing.T, dir string) {
		c, _ := compareResults(t, dir)
		if c.Parity.Counts != (parityCounts{WithoutReference: 1, OnlyReference: 1}) {
			t.Errorf("counts %s", c.Parity.Counts)
		}
		for _, r := range c.Parity.Rows {
			if r.Ratio != nil {
				t.Errorf("a ratio of unlike cells: %+v", r)
			}
		}
	},
	"c213-read-only-share": func(t *testing.T, dir string) {
		db := storeOf(t, filepath.Join(dir))
		folder := filepath.Dir(db)
		before := readFile(t, db)
		for path, mode := range map[string]os.FileMode{db: 0o444, folder: 0o555} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { os.Chmod(folder, 0o755) })
		if res := compareCommand(t, nil, "compare", "--warehouse", db, "--format", "json", "r1"); res.code != 0 {
			t.Errorf("compare: exit %d: %s", res.code, res.stderr)
		}
		if readFile(t, db) != before {
			t.Error("comparing changed the store")
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
			t.Errorf("files beside the store: %v (%v)", left, err)
		}
	},
}

// TestCompareCases runs every case about comparing.
func TestCompareCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(casesDir(), "c*", "case.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s (%v)", casesDir(), err)
	}
	known := 0
	for _, f := range files {
		c := &acceptanceCase{}
		if err := json.Unmarshal([]byte(readFile(t, f)), c); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if c.Operation != "compare" {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			check, ok := compareCases[c.ID]
			if !ok {
				generalCompareCase(t, c, filepath.Dir(f))
				return
			}
			check(t, filepath.Dir(f))
		})
		known++
	}
	if known == 0 {
		t.Error("no case about comparing")
	}
}

// generalCompareCase checks what case.json alone says, for cases nobody has read.
func generalCompareCase(t *testing.T, c *acceptanceCase, dir string) {
	var expect struct {
		Prev     string   `json:"prev"`
		DeltaPct *float64 `json:"delta_pct"`
	}
	var raw struct {
		Expect json.RawMessage `json:"expect"`
	}
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(dir, "case.json"))), &raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw.Expect, &expect); err != nil {
		t.Fatal(err)
	}
	var got *comparison
	if c.Run.Current != "" {
		got = compareStored(t, dir, c.Run.Current, c.Run.Env)
	} else {
		got, _ = compareResults(t, dir)
	}
	if expect.DeltaPct != nil {
		r := prevRow(t, got, "", "output_throughput")
		if r.DeltaPct == nil || math.Abs(*r.DeltaPct-*expect.DeltaPct) > 0.01 || expect.Prev != "" && r.BaseRun != expect.Prev {
			t.Errorf("row %+v, want %+v", r, expect)
		}
	}
}

// storeOf loads the runs of a case, in an order that is not theirs.
func storeOf(t *testing.T, dir string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(folder, "s.duckdb")
	if res := compareCommand(t, nil, "load", "--warehouse", db, filepath.Join(dir, "runs")); res.code != 0 && res.code != 3 {
		t.Fatalf("load: exit %d: %s", res.code, res.stderr)
	}
	return db
}

func compareStored(t *testing.T, dir, run string, env map[string]string) *comparison {
	t.Helper()
	res := compareCommand(t, env, "compare", "--warehouse", storeOf(t, dir), "--format", "json", run)
	return decodeComparison(t, res)
}

// compareResults compares the input set of a folder with the baselines its case
// names.
func compareResults(t *testing.T, dir string) (*comparison, string) {
	t.Helper()
	env := map[string]string{}
	for name, file := range map[string]string{"CVS_INFERENCE_PREV_REPORT_JSON": "prev_report.json", "CVS_ATOM_PARITY_REF_JSON": "parity.json"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			env[name] = filepath.Join(dir, file)
		}
	}
	configs, err := filepath.Glob(filepath.Join(dir, "*_single.json"))
	if err != nil || len(configs) != 1 {
		t.Fatalf("configs in %s: %v (%v)", dir, configs, err)
	}
	res := compareCommand(t, env, "compare", "--config_file", configs[0], "--cluster_file", filepath.Join(dir, "cluster.json"), "--results", dir, "--format", "json")
	for _, format := range []string{"table", "markdown"} {
		if res := compareCommand(t, env, "compare", "--config_file", configs[0], "--cluster_file", filepath.Join(dir, "cluster.json"), "--results", dir, "--format", format); res.code != 0 || strings.Contains(res.stdout, "NaN") {
			t.Errorf("--format %s: exit %d: %s\n%s", format, res.code, res.stderr, res.stdout)
		}
	}
	return decodeComparison(t, res), res.stdout
}

func decodeComparison(t *testing.T, res cvsResult) *comparison {
	t.Helper()
	if res.code != 0 {
		t.Fatalf("compare: exit %d: %s", res.code, res.stderr)
	}
	c := &comparison{}
	if err := json.Unmarshal([]byte(res.stdout), c); err != nil {
		t.Fatalf("compare printed no strict JSON: %v\n%s", err, res.stdout)
	}
	return c
}

func prevRow(t *testing.T, c *comparison, cell, metric string) prevLine {
	t.Helper()
	for _, r := range c.Prev.Rows {
		if r.Metric == metric && (cell == "" || r.Cell == cell) {
			return r
		}
	}
	t.Fatalf("no row for %s %s in %+v", cell, metric, c.Prev)
	return prevLine{}
}

func wantPrev(t *testing.T, c *comparison, cell, base string, delta float64) {
	t.Helper()
	r := prevRow(t, c, cell, "output_throughput")
	if r.DeltaPct == nil || math.Abs(*r.DeltaPct-delta) > 1e-6 || r.Changed || r.Regression || base != "" && r.BaseRun != base {
		t.Errorf("row %+v, want %+.2f %% against %s, unchanged", r, delta, base)
	}
}

func wantCounts(t *testing.T, got, want prevCounts) {
	t.Helper()
	want.Regressions, want.Improvements = got.Regressions, got.Improvements
	if got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

func noNumbers(t *testing.T, c *comparison) {
	t.Helper()
	for _, r := range c.Prev.Rows {
		if r.DeltaPct != nil || r.Ratio != nil {
			t.Errorf("a number although nothing can be compared: %+v", r)
		}
	}
	if n := c.Prev.Counts; n.Regressions != 0 || n.Compared != 0 {
		t.Errorf("counts %s", n)
	}
}

// wantPasses holds that comparing leaves the gates alone.
func wantPasses(t *testing.T, dir string, n int) {
	t.Helper()
	configs, err := filepath.Glob(filepath.Join(dir, "*_single.json"))
	if err != nil || len(configs) != 1 {
		t.Fatalf("configs in %s: %v (%v)", dir, configs, err)
	}
	res := compareCommand(t, nil, "evaluate", "--config_file", configs[0], "--cluster_file", filepath.Join(dir, "cluster.json"), "--results", dir, "--format", "json")
	var j struct {
		Gates []struct {
			State string `json:"state"`
		} `json:"gates"`
	}
	if err := json.Unmarshal([]byte(res.stdout), &j); err != nil || res.code != 0 {
		t.Fatalf("evaluate: exit %d, %v\n%s", res.code, err, res.stderr)
	}
	pass := 0
	for _, g := range j.Gates {
		if g.State == "pass" {
			pass++
		}
	}
	if pass != n {
		t.Errorf("%d gates pass, want %d", pass, n)
	}
}
