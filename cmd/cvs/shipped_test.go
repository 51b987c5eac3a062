package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/lab"
	"cvs/warehouse"
)

// TestShippedProfiles runs both profiles of the shipped single-node config with
// all their blocks on a lab, unchanged but for the fields to fill in, from start
// to verdict. The lab's server, as ATOM's, returns no log-likelihoods: the tasks
// that need them are planned as not run and named, and while thresholds are
// recorded only they make the run incomplete, not failed.
func TestShippedProfiles(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	check(t, err)
	o := lab.Options{Dir: t.TempDir(), Executable: exe, Speed: 400, StartDelay: 100 * time.Millisecond, Isolate: lab.IsolateAuto}
	if os.Getenv("CVS_TEST_REAL") == "1" {
		o.Isolate = lab.IsolateOn
	}
	l, err := lab.Start(t.Context(), o)
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	if isolated, why := l.Isolated(); !isolated {
		t.Skipf("a shipped config needs a node with namespaces of its own: %s", why)
	}
	dir := t.TempDir()
	if res := cvsCommand(t, nil, "config", "copy", singleStem, "--output", dir, "--set", "container.image="+lab.ShippedImage,
		"--set", "<changeme-models-mount>="+l.ModelsDir(), "--set", "paths.hf_token_file="+l.TokenFile()); res.code != 0 {
		t.Fatalf("config copy: %s%s", res.stdout, res.stderr)
	}
	unservable := []string{"hellaswag", "musr", "arc_challenge", "winogrande"}
	for _, tt := range []struct {
		profile string
		tasks   []string // that leave a result
		notRun  []string
	}{
		{"perf", []string{"api_smoke", "health_check", "gsm8k_flex", "gsm8k_strict", "gsm8k_stderr", "mmlu_pro", "bbh", "quant_parity", "gpu_metrics_poll"}, unservable},
		{"mtp3", []string{"api_smoke", "health_check", "gsm8k_flex", "gsm8k_strict", "mtp_quality", "gpu_metrics_poll"}, nil},
	} {
		work := filepath.Join(dir, tt.profile)
		res := cvsCommand(t, nil, "run", "atom", "--cluster_file", l.HeadClusterFile(), "--config_file", filepath.Join(dir, singleStem+".json"), "--config_profile", tt.profile,
			"--known-hosts", l.KnownHosts(), "--workspace", work)
		if res.code != 0 {
			t.Fatalf("%s: exit %d\n%s%s", tt.profile, res.code, res.stdout, res.stderr)
		}
		runs, err := filepath.Glob(filepath.Join(work, "cvs_runs", "*"))
		check(t, err)
		r, err := artifact.Read(runs[0])
		check(t, err)
		if len(r.Results) != 3 || r.Meta.Status != artifact.Done {
			t.Errorf("%s: %d results, %s: %s", tt.profile, len(r.Results), r.Meta.Status, r.Meta.Reason)
		}
		db, j, err := judgeInMemory(t.Context(), r)
		check(t, err)
		defer db.Close()
		if j.status.Incomplete != (len(tt.notRun) > 0) || j.status.ExitCode != 0 {
			t.Errorf("%s: incomplete %v, exit %d: %q", tt.profile, j.status.Incomplete, j.status.ExitCode, j.status.Reasons())
		}
		state := map[string]warehouse.State{}
		for _, g := range j.checks {
			if state[g.Target] == "" || g.State == warehouse.Skipped && g.Metric == "" {
				state[g.Target] = g.State
			}
			if g.State == warehouse.Fail || g.State == warehouse.Error {
				t.Errorf("%s: %s %s: %s: %s", tt.profile, g.Target, g.Metric, g.State, g.Reason)
			}
		}
		for _, task := range slices.Concat(tt.tasks, tt.notRun) {
			skipped := slices.Contains(tt.notRun, task)
			if s := state[task]; s == "" || (s == warehouse.Skipped) != skipped {
				t.Errorf("%s: %s is %q", tt.profile, task, s)
			}
			if skipped && !strings.Contains(res.stdout, task+": not run") {
				t.Errorf("%s: the verdict does not name %s", tt.profile, task)
			}
		}
		metrics, err := db.Metrics(t.Context(), r.Meta.RunID)
		check(t, err)
		if !slices.ContainsFunc(metrics, func(m warehouse.MetricRow) bool {
			return m.Metric == "gpu.model_load_memory_mb" && m.Value != nil && *m.Value > 0
		}) {
			t.Errorf("%s: how much memory the model took is not known", tt.profile)
		}
	}
}
