package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/lab"
	"cvs/collect/metric"
	"cvs/warehouse"
)

// A pipeline is a sweep of one cell on a lab of two nodes: first on one node for
// the baseline, then on both as two pipeline stages.
type pipeline struct {
	t      *testing.T
	lab    *lab.Lab
	dir    string
	driver string
	flags  []string
	runs   int
}

func newPipeline(t *testing.T, driver string, nodes int) *pipeline {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	l, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Executable: exe, Nodes: nodes, Speed: 50, StartDelay: 100 * time.Millisecond})
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	return &pipeline{t: t, lab: l, dir: t.TempDir(), driver: driver}
}

// run measures on so many nodes. A baseline or an efficiency of 0 is left out of
// the files. Every other gated metric has a bound that only a broken run misses.
func (p *pipeline) run(nodes int, baseline, efficiency float64) (code int, out, work string) {
	t := p.t
	t.Helper()
	file, err := p.lab.DemoConfig(lab.Demo{AllPass: true, Slack: lab.BusyMachine})
	check(t, err)
	var config map[string]any
	mustJSON(t, readFile(t, file), &config)
	params := sub(config, "params")
	params["driver"], params["num_prompts"], params["random_range_ratio"] = p.driver, "16", "0.8"
	params["nnodes"], params["pipeline_parallel_size"] = strconv.Itoa(nodes), strconv.Itoa(nodes)
	master, err := lab.FreePort("127.0.0.1")
	check(t, err)
	params["master_port"] = strconv.Itoa(master)
	if baseline > 0 {
		params["scaling_baseline_output_throughput"] = strconv.FormatFloat(baseline, 'f', -1, 64)
	}
	config["sweep"] = map[string]any{"sequence_combinations": []any{map[string]any{"name": "w", "isl": "64", "osl": "16"}},
		"runs": []any{map[string]any{"combo": "w", "concurrency": 8}}}
	gates := map[string]any{}
	for _, name := range metric.Gated() {
		gates[name] = map[string]any{"kind": "max_ms", "value": 1e7}
		if d, ok := metric.Lookup(name); ok && d.Tier == metric.Throughput {
			gates[name] = map[string]any{"kind": "min_tok_s", "value": 1e-3}
		}
	}
	gates["success_rate"] = map[string]any{"kind": "min", "value": 1}
	gates["failed"] = map[string]any{"kind": "max", "value": 0}
	if efficiency > 0 {
		gates[metric.ScalingEfficiency] = map[string]any{"kind": "min", "value": efficiency}
	}
	config["threshold_json"] = "labsim_atom_sim_threshold.json"
	p.runs++
	dir := filepath.Join(p.dir, strconv.Itoa(p.runs))
	check(t, os.Mkdir(dir, 0o700))
	write := func(name string, v any) string {
		b, err := json.Marshal(v)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		return filepath.Join(dir, name)
	}
	write("labsim_atom_sim_threshold.json", map[string]any{fmt.Sprintf("ISL=64,OSL=16,TP=8,PP=%d,CONC=8", nodes): gates})
	cluster := p.lab.ClusterFile()
	if nodes == 1 {
		cluster = p.lab.HeadClusterFile()
	}
	var stdout, stderr bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, now: time.Now,
		getenv: func(string) string { return "" }, osUser: func() string { return "me" }}
	code = run(t.Context(), e, append([]string{"run", "atom", "--cluster_file", cluster, "--config_file", write("labsim_atom_sim.json", config),
		"--workspace", p.dir, "--known-hosts", p.lab.KnownHosts(), "-v"}, p.flags...))
	dirs, err := filepath.Glob(filepath.Join(p.dir, "cvs_runs", "*"))
	check(t, err)
	if len(dirs) != p.runs {
		t.Fatalf("%d run directories after %d runs\n%s\n%s", len(dirs), p.runs, stdout.String(), stderr.String())
	}
	return code, stderr.String() + stdout.String(), dirs[len(dirs)-1] // ids are in order of time
}

// TestScalingGate runs two pipeline stages on two nodes and follows the scaling
// efficiency from the measured single-node baseline to exit status and deck.
func TestScalingGate(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"vllm_atom", "sglang"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, driver, 2)
			judged := func(dir string) (*warehouse.DB, *judgement) {
				t.Helper()
				db, err := warehouse.Open(t.Context(), filepath.Join(p.dir, "cvs.duckdb"), warehouse.Options{})
				check(t, err)
				j, err := judge(t.Context(), db, filepath.Base(dir))
				check(t, err)
				return db, j
			}
			code, out, dir := p.run(1, 0, 0)
			if code != 0 || !strings.Contains(out, "verdict: PASS, SIMULATED") {
				t.Fatalf("one node: exit %d\n%s", code, out)
			}
			db, j := judged(dir)
			baseline := 0.0
			for _, g := range j.gates {
				if g.Metric == metric.Headline && g.Got != nil {
					baseline = *g.Got
				}
			}
			check(t, db.Close())
			if baseline <= 0 {
				t.Fatalf("no baseline was measured: %v", j.gates)
			}

			tests := []struct {
				name                  string
				baseline, efficiency  float64
				code                  int
				state, tier, headline string
			}{
				{"reached", baseline, 1, 0, "pass", "pass", "PASS"},
				{"missed", baseline, 1e6, 1, "fail", "fail", "FAIL"},
				{"no baseline", 0, 1, 0, "na", "na", "PASS"},
			}
			for _, tt := range tests {
				code, out, dir := p.run(2, tt.baseline, tt.efficiency)
				if code != tt.code {
					t.Errorf("%s: exit %d, want %d\n%s", tt.name, code, tt.code, out)
				}
				db, j := judged(dir)
				gate, shown := false, "no scaling baseline is set"
				for _, g := range j.gates {
					if g.Metric != metric.ScalingEfficiency {
						continue
					}
					gate = true
					t.Logf("%s: %s", tt.name, g.Reason)
					if string(g.State) != tt.state {
						t.Errorf("%s: gate %s, want %s", tt.name, g.State, tt.state)
					}
					if tt.baseline > 0 {
						shown = "data-v=" + strconv.FormatFloat(*g.Got, 'f', -1, 64)
						rows, err := db.Scaling(t.Context(), filepath.Base(dir))
						check(t, err)
						if len(rows) != 1 || rows[0].ConfiguredPct == nil || *rows[0].ConfiguredPct != *g.Got || rows[0].SingleRun == "" ||
							rows[0].SinglePct == nil || *rows[0].SinglePct != *g.Got {
							t.Errorf("%s: the gate has %v, the scaling view %+v", tt.name, g.Got, rows)
						}
					}
				}
				if !gate {
					t.Errorf("%s: no gate on scaling.efficiency_pct: %+v", tt.name, j.gates)
				}
				for _, tier := range j.tiers {
					if tier.Tier == "scaling" && string(tier.State) != tt.tier {
						t.Errorf("%s: tier %s, want %s", tt.name, tier.State, tt.tier)
					}
				}
				if j.status.Headline != tt.headline {
					t.Errorf("%s: headline %s, want %s", tt.name, j.status.Headline, tt.headline)
				}
				check(t, db.Close())
				deck := readFile(t, filepath.Join(dir, deckName))
				_, panel, _ := strings.Cut(deck, `<section id="scaling">`)
				panel, _, _ = strings.Cut(panel, "</section>")
				if !strings.Contains(panel, "w-conc8") || !strings.Contains(panel, shown) {
					t.Errorf("%s: %q is not in the deck's scaling panel:\n%s", tt.name, shown, panel)
				}
			}
		})
	}
}

// TestMatchLengths compares two frameworks whose clients draw lengths in their
// own ways, first as they do and then with matched lengths.
func TestMatchLengths(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, "atom", 1)
	measured := func(driver string, flags ...string) (run string, w artifact.Workload) {
		t.Helper()
		p.driver, p.flags = driver, flags
		code, out, dir := p.run(1, 0, 0)
		if code != 0 {
			t.Fatalf("%s %v: exit %d\n%s", driver, flags, code, out)
		}
		r, err := artifact.Read(dir)
		check(t, err)
		if len(r.Results) != 1 || r.Results[0].Record.Workload == nil || r.Meta.MatchLengths != (len(flags) > 0) {
			t.Fatalf("%s: %+v, %+v", driver, r.Results, r.Meta)
		}
		return r.Meta.RunID, *r.Results[0].Record.Workload
	}
	compared := func(run string) (states []string) {
		t.Helper()
		db, err := warehouse.Open(t.Context(), filepath.Join(p.dir, "cvs.duckdb"), warehouse.Options{})
		check(t, err)
		defer db.Close()
		rows, err := db.FrameworkParity(t.Context(), run)
		check(t, err)
		for _, r := range rows {
			states = append(states, r.State+" "+r.Reason)
		}
		return states
	}
	_, ours := measured("atom")
	other, far := measured("vllm_atom")
	if s := compared(other); len(s) != 1 || !strings.HasPrefix(s[0], "not_comparable the workloads differ") {
		t.Errorf("as they are: %q", s)
	}
	matched, near := measured("vllm_atom", "--match-lengths")
	if s := compared(matched); len(s) != 3 || s[0] != "compared " {
		t.Errorf("matched: %q", s)
	}
	for _, tt := range []struct {
		name string
		got  artifact.Workload
		in   artifact.Span
	}{{"atom", ours, artifact.Span{Min: 51, Max: 64}}, {"vllm_atom", far, artifact.Span{Min: 12, Max: 116}}, {"matched", near, artifact.Span{Min: 51, Max: 65}}} {
		if tt.got.InputLen == nil || *tt.got.InputLen != tt.in || tt.got.OutputLen == nil || tt.got.MeanInputLen == nil || tt.got.Matched != (tt.name == "matched") {
			t.Errorf("%s: input %+v of %+v", tt.name, tt.got.InputLen, tt.got)
		}
	}
}
