package warehouse_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/warehouse"
)

// checkFile is a result as package check writes it: its types are the format.
func checkFile(t *testing.T, path string, v any) artifact.Result {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return artifact.Result{Path: "checks/" + path, CellKey: path, Data: b}
}

// checksRun is a run with one result of every check.
func checksRun(t *testing.T) *artifact.Run {
	t.Helper()
	done := func(name string) check.Header {
		return check.Header{Check: name, Version: check.Version, Status: artifact.Done}
	}
	yes, no, half, power := true, false, 0.5, 750.0
	run := sampleRun("checks", resultJSON(2048))
	for _, e := range [][2]string{{"functional", "api_smoke"}, {"functional", "health_check"}, {"accuracy", "gsm8k"}, {"long_context_accuracy", "n8k"},
		{"mtp_quality", "mtp_quality"}, {"quant_parity", "quant_parity"}, {"platform", "dmesg_scan"}, {"platform", "gpu_metrics_poll"}} {
		run.Expected.Tasks = append(run.Expected.Tasks, artifact.ExpectedTask{Kind: e[0], ID: e[1]})
	}
	bound := 0.9
	for _, s := range [][3]string{{"long_context_accuracy", "n8k", "accuracy.niah_pass_rate__n8k"}, {"mtp_quality", "", check.MTPAcceptanceRate},
		{"quant_parity", "", "quant_parity.probe_match"}} {
		run.Thresholds.Specs = append(run.Thresholds.Specs, artifact.Threshold{Scope: s[0], Target: s[1], Metric: s[2], Kind: "min", Value: &bound})
	}
	failed := done(check.AccuracyCheck)
	failed.Status, failed.Reason = artifact.Failed, "lm-eval ended with exit status 1: RuntimeError"
	run.Checks = []artifact.Result{
		checkFile(t, "functional.json", check.FunctionalResult{Header: done(check.FunctionalCheck), APISmoke: &no, HealthCheck: &yes, Steps: []check.FunctionalStep{
			{Block: check.APISmoke, ID: "models", Request: "GET /v1/models", Failures: []string{"data is empty"}},
			{Block: check.HealthCheck, ID: "health", Request: "GET /health", Pass: true, LatencyMS: 2}}}),
		checkFile(t, "accuracy/gsm8k.json", check.EvalResult{Header: failed, IDs: []string{"gsm8k"}}),
		checkFile(t, "niah/n8k.json", check.NIAHResult{Header: done(check.LongContextCheck), ID: "n8k", Correct: 1, Total: 2, PassRate: &half,
			Results: []check.NIAHSample{{Expected: "NEEDLE-1", Actual: "no idea"}}}),
		checkFile(t, "mtp.json", check.MTPResult{Header: done(check.MTPCheck), Metrics: map[string]float64{check.MTPAcceptanceRate: 0.95}}),
		checkFile(t, "quant.json", check.QuantResult{Header: done(check.QuantCheck), SHA256: "ab", Chars: 2}),
		checkFile(t, "dmesg/n1.json", check.DmesgResult{Header: done(check.DmesgCheck), Host: "n1", Errors: 1, Warnings: 1,
			Events:  []check.DmesgEvent{{Severity: check.Warning, Line: "GPU is throttled"}},
			Records: []check.HardwareRecord{{Severity: check.Error, Head: "uncorrectable hardware error"}}}),
		{Path: "checks/dmesg/n1.txt", CellKey: "dmesg/n1.txt", Data: []byte("kern  :err   : [...]")},
		checkFile(t, "gpu/w1-conc128.json", check.GPUSummary{Header: done(check.GPUCheck), Cell: "w1-conc128", Samples: 3, Total: check.GPUStats{MeanPowerW: &power}}),
		{Path: "checks/broken.json", CellKey: "broken.json", Data: []byte(`{"check": "dmesg", "stat`)},
		checkFile(t, "foreign.json", map[string]string{"check": "somebody else's"}),
	}
	return run
}

// TestLoadChecks loads one result of every check and looks at what the verdict
// makes of it.
func TestLoadChecks(t *testing.T) {
	t.Parallel()
	w, run := open(t, ""), checksRun(t)
	load(t, w, run)
	gates, err := w.CheckGates(t.Context(), "checks")
	if err != nil {
		t.Fatal(err)
	}
	type verdict struct {
		state warehouse.State
		part  string // of the reason
	}
	want := map[string]verdict{
		"api_smoke":        {warehouse.Fail, "models (GET /v1/models): data is empty"},
		"health_check":     {warehouse.Pass, "holds"},
		"gsm8k":            {warehouse.Error, "lm-eval ended with exit status 1"},
		"n8k":              {warehouse.Fail, `0.5 < 0.9 (1 of 2 needles found; first miss: "no idea" for NEEDLE-1)`},
		"mtp_quality":      {warehouse.Pass, "0.95 >= 0.9"},
		"quant_parity":     {warehouse.Skipped, "no reference to compare with"},
		"dmesg_scan":       {warehouse.Fail, "n1: uncorrectable hardware error"},
		"gpu_metrics_poll": {warehouse.Record, "ran"},
	}
	seen := 0
	for _, g := range gates {
		v, ok := want[g.Target]
		if !ok || g.State != v.state || !strings.Contains(g.Reason, v.part) {
			t.Errorf("%s %s: %s: %s; want %+v", g.Target, g.Metric, g.State, g.Reason, v)
		}
		seen++
	}
	if seen != len(want) {
		t.Errorf("%d gates, want %d", seen, len(want))
	}
	got := values(t, w, "SELECT part || ' ' || metric || ' ' || value FROM check_result WHERE scope = 'platform' AND metric <> '' ORDER BY ordinal")
	if !slices.Equal(got, []string{"n1 errors 1.0", "n1 warnings 1.0", "w1-conc128 samples 3.0", "w1-conc128 problems 0.0", "w1-conc128 gpu.mean_power_w 750.0"}) {
		t.Errorf("facts %q", got)
	}
	problems := values(t, w, "SELECT code || ' ' || path FROM problem WHERE code IN ('kernel_log', 'check_unreadable') ORDER BY ordinal")
	if !slices.Equal(problems, []string{"kernel_log checks/dmesg/n1.json", "check_unreadable checks/broken.json"}) {
		t.Errorf("problems %q", problems)
	}
	// A resumed run asks again: its evidence replaces the earlier one.
	yes := true
	run.Checks = []artifact.Result{checkFile(t, "functional.json", check.FunctionalResult{APISmoke: &yes,
		Header: check.Header{Check: check.FunctionalCheck, Version: check.Version, Status: artifact.Done}})}
	if r := load(t, w, run); r[0].Outcome != warehouse.Replaced {
		t.Errorf("loading again: %v", r[0].Outcome)
	}
}
