package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/collect/lab"
	"cvs/warehouse"
)

// One wrong answer of a node each, from the sweep to the verdict: the right gate
// fails, its evidence is in the run directory, and the deck shows it.

// newQualityCase is a sweep of one cell with every check beside it, each of which
// has a gate that only a wrong answer misses.
func newQualityCase(t *testing.T, f lab.Faults) *runCase {
	t.Helper()
	c := newFaultCase(t, f)
	sub(c.config, "sweep")["runs"] = []any{map[string]any{"combo": "chat_256_64", "concurrency": 16}}
	params := sub(c.config, "params")
	params["max_model_length"] = "4096"
	args := sub(sub(c.config, "roles"), "server")["atom_args"].([]any)
	sub(sub(c.config, "roles"), "server")["atom_args"] = append(args, "--method", "mtp", "--num-speculative-tokens", "3")
	c.config["enforce_thresholds"] = true
	c.config["functional"] = map[string]any{"api_smoke": true, "health_check": true}
	c.config["platform"] = map[string]any{"dmesg_scan": true, "gpu_metrics_poll": true}
	c.config["mtp_quality"] = map[string]any{"enabled": true}
	c.config["quant_parity"] = map[string]any{"enabled": true}
	c.config["long_context_accuracy"] = map[string]any{"cells": []any{
		map[string]any{"id": "needle_start", "isl": 1024, "num_prompts": 2},
		map[string]any{"id": "needle_end", "isl": 1024, "num_prompts": 2, "needle_depth_pct": 100, "concurrency": 2}}}
	files, err := filepath.Glob(filepath.Join(c.dir, "*_threshold.json"))
	check(t, err)
	var thresholds map[string]any
	mustJSON(t, readFile(t, files[0]), &thresholds)
	min := func(v float64) map[string]any { return map[string]any{"kind": "min", "value": v} }
	thresholds["long_context_accuracy"] = map[string]any{
		"needle_start": map[string]any{"accuracy.niah_pass_rate__needle_start": min(1)},
		"needle_end":   map[string]any{"accuracy.niah_pass_rate__needle_end": min(1)}}
	thresholds["mtp_quality"] = map[string]any{"mtp.acceptance_rate": min(0.4), "mtp.empty_or_repeat_ratio": map[string]any{"kind": "max", "value": 0.1}}
	thresholds["quant_parity"] = map[string]any{"quant_parity.probe_match": min(1)}
	b, err := json.Marshal(thresholds)
	check(t, err)
	check(t, os.WriteFile(files[0], b, 0o600))
	return c
}

// checkGatesOf loads the run directory into a warehouse of its own.
func (c *runCase) checkGatesOf() (*warehouse.DB, *artifact.Run, []warehouse.CheckGateRow) {
	c.t.Helper()
	r, err := artifact.Read(c.runDir())
	check(c.t, err)
	db, j, err := judgeInMemory(c.t.Context(), r)
	check(c.t, err)
	c.t.Cleanup(func() { check(c.t, db.Close()) })
	return db, r, j.checks
}

func TestQualityWrongAnswers(t *testing.T) {
	t.Parallel()
	const niah = "accuracy.niah_pass_rate__needle_start"
	tests := []struct {
		name     string
		faults   lab.Faults
		target   string          // whose gate fails, or is skipped for want of telemetry
		metric   string          // of that gate; "" is the check itself
		state    warehouse.State // of that gate
		says     string          // in the gate's reason
		evidence string          // in the evidence file
		page     string          // on the deck
		others   []string        // targets that fail with it
	}{
		{name: "healthy", target: "api_smoke", state: warehouse.Pass, says: "holds", page: `id=telemetry`},
		{name: "bad JSON", faults: lab.Faults{Answers: lab.AnswersJSON}, target: "api_smoke", state: warehouse.Fail, says: "JSON", evidence: `"failures"`, page: "api_smoke"},
		{name: "empty answers", faults: lab.Faults{Answers: lab.AnswersEmpty}, target: "mtp_quality", metric: "mtp.empty_or_repeat_ratio", state: warehouse.Fail, says: "1 > 0.1",
			evidence: `"degenerate"`, page: "id=drafts", others: []string{"api_smoke", "needle_start", "needle_end", "quant_parity"}},
		{name: "repeats", faults: lab.Faults{Answers: lab.AnswersLoop}, target: "mtp_quality", metric: "mtp.empty_or_repeat_ratio", state: warehouse.Fail, says: "1 > 0.1",
			evidence: `"degenerate"`, page: "id=drafts", others: []string{"api_smoke", "needle_start", "needle_end"}},
		{name: "wrong needle", faults: lab.Faults{Answers: lab.AnswersWrong}, target: "needle_start", metric: niah, state: warehouse.Fail, says: "0 < 1", evidence: `"expected"`,
			page: "id=needles-grid", others: []string{"needle_end"}},
		{name: "low acceptance", faults: lab.Faults{Acceptance: 0.05}, target: "mtp_quality", metric: "mtp.acceptance_rate", state: warehouse.Fail, says: "< 0.4", evidence: "mtp.acceptance_rate", page: "id=drafts"},
		{name: "memory error", faults: lab.Faults{ECCError: true}, target: "dmesg_scan", state: warehouse.Fail, says: "uncorrectable hardware error", evidence: "ERREVENT_ATHUB_INTERRUPT", page: "id=kernel"},
		{name: "no amd-smi", faults: lab.Faults{SMI: lab.SMIAbsent}, target: "gpu_metrics_poll", state: warehouse.Skipped, says: "amd-smi", evidence: "amd-smi", page: "id=telemetry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newQualityCase(t, tt.faults)
			code := c.run()
			db, r, gates := c.checkGatesOf()
			found := false
			for _, g := range gates {
				if g.State == warehouse.Fail && g.Target != tt.target && !strings.Contains(strings.Join(tt.others, " "), g.Target) {
					t.Errorf("%s %s fails, too: %s", g.Target, g.Metric, g.Reason)
				}
				if g.Target != tt.target || g.Metric != tt.metric {
					continue
				}
				found = true
				if g.State != tt.state || !strings.Contains(g.Reason, tt.says) {
					t.Errorf("%s %s: %s: %s", g.Target, g.Metric, g.State, g.Reason)
				}
				if !strings.Contains(readFile(t, filepath.Join(r.Dir, g.Path)), tt.evidence) {
					t.Errorf("%s does not hold %q", g.Path, tt.evidence)
				}
			}
			if !found {
				t.Errorf("no gate %s %s in %+v", tt.target, tt.metric, gates)
			}
			if want := tt.state == warehouse.Fail; want && code != 1 && code != 4 { // 4: an empty answer fails the probe itself
				t.Errorf("exit %d\n%s", code, c.out.String())
			}
			if page := readFile(t, filepath.Join(r.Dir, deckName)); !strings.Contains(page, tt.page) {
				t.Errorf("the deck does not show %q", tt.page)
			}
			rows, err := db.Telemetry(t.Context(), r.Meta.RunID)
			check(t, err)
			if len(rows) != 1 || (rows[0].State == "absent") != (tt.faults.SMI == lab.SMIAbsent) || rows[0].State == "absent" && rows[0].Reason == "" {
				t.Errorf("telemetry: %+v", rows)
			}
		})
	}
}
