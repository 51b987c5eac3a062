package warehouse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// sidecarText is an older deck's sidecar of one cell; head and actuals are more
// members, each ending in a comma or empty.
func sidecarText(head, actuals string) string {
	return fmt.Sprintf(`{"schema_version": 1, %s "model": "org/M", "gpu_arch": "mi325x", "driver": "atom", "precision": "",
		"cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "host": "h", "actuals": {%s "client.mean_ttft_ms": 400}}]}`, head, actuals)
}

// TestBaselineRefusals: what a sidecar says of itself and of its workload decides
// whether it is compared, whole or cell by cell, and why not is said.
func TestBaselineRefusals(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	load(t, w, at("now", 0, 2000, func(r *artifact.Run) { tokens(r, 1_024_000, 1_024_000) }))
	const tput = `"client.output_throughput": 1000,`
	lengths := func(input, output, completed int) string {
		return tput + fmt.Sprintf(`"client.total_input_tokens": %d, "client.total_output_tokens": %d, "client.completed": %d,`, input, output, completed)
	}
	for _, tt := range []struct {
		name, head, actuals string
		state, reason       string // of the headline metric, or of the cell or run
		parity, parityWhy   string
	}{
		{"alike", "", lengths(1_024_000, 1_030_000, 1000), "compared", "", "compared", "the same driver"},
		{"other lengths", "", lengths(512_000, 1_024_000, 1000), "not_comparable", "mean lengths by 100.0 %", "not_comparable", "mean lengths by 100.0 %"},
		{"as many tokens of fewer requests", "", lengths(1_024_000, 1_024_000, 500), "not_comparable", "mean lengths by 50.0 %", "not_comparable", "mean lengths by 50.0 %"},
		{"lengths unknown", "", tput, "compared", "", "compared", "lengths of the workload unknown"},
		{"most requests failed", "", tput + `"client.success_rate": 0.2, "client.failed": 800,`, "compared", "800 requests failed in the baseline", "compared", "unknown"},
		{"negative", "", `"client.output_throughput": -1000,`, "not_comparable", "n/a (previous is negative)", "not_comparable", "n/a (reference is negative)"},
		{"zero", "", `"client.output_throughput": 0,`, "not_comparable", "n/a (previous is 0)", "not_comparable", "n/a (reference is 0)"},
		{"two nodes", `"identity": {"nnodes": 2},`, tput, "not_comparable", "the baseline is of 2 nodes, this run of 1", "not_comparable", "of 2 nodes"},
		{"another DP", `"identity": {"dp": 4},`, tput, "not_comparable", "the baseline has DP 4, this run 1", "not_comparable", "has DP 4"},
		{"later", `"generated_at": "2027-01-01T00:00:00Z",`, tput, "compared", "the baseline is later than this run", "compared", "unknown"},
	} {
		b, err := warehouse.ReadBaseline("b.json", []byte(sidecarText(tt.head, tt.actuals)))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		c := &warehouse.Compared{DB: w, Prev: b, Parity: b}
		prev, err := c.PrevRun(t.Context(), "now")
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(prev, func(r warehouse.PrevRunRow) bool {
			return strings.Contains(r.Reason, "failed in the baseline") && r.Changed
		}) {
			t.Errorf("%s: better than a baseline that failed counts as a change: %+v", tt.name, prev)
		}
		i := slices.IndexFunc(prev, func(r warehouse.PrevRunRow) bool { return r.Metric == "output_throughput" || r.Metric == "" })
		if i < 0 || prev[i].State != tt.state || !strings.Contains(prev[i].Reason, tt.reason) || (prev[i].DeltaPct == nil) != (tt.state != "compared") || (prev[i].Ratio == nil) != (tt.state != "compared") {
			t.Errorf("%s, previous: %+v", tt.name, prev)
		}
		parity, err := c.FrameworkParity(t.Context(), "now")
		if err != nil {
			t.Fatal(err)
		}
		i = slices.IndexFunc(parity, func(r warehouse.ParityRow) bool { return r.Metric == "output_throughput" || r.Metric == "" })
		if i < 0 || parity[i].State != tt.parity || !strings.Contains(parity[i].Reason, tt.parityWhy) || (parity[i].Ratio == nil) != (tt.parity != "compared") {
			t.Errorf("%s, parity: %+v", tt.name, parity)
		}
	}
}

// TestBaselineOldKeys: an old cell key that names two nodes is of two nodes, and a
// sidecar that leaves out part of its identity says which part is taken to agree.
func TestBaselineOldKeys(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	load(t, w, at("now", 0, 2000, nil))
	for text, want := range map[string]string{
		`{"cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,NNODES=2,CONC=128", "actuals": {"output_throughput": 2000}}]}`:                                                                              "the baseline is of 2 nodes",
		`{"cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,CONC=128", "model": "org/M", "actuals": {"output_throughput": 2000}}]}`:                                                                     "not stated in the baseline: GPU, driver",
		`{"panels": {"framework_parity": {"driver": "sglang"}}, "cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,CONC=128", "model": "org/M", "gpu": "mi325x", "actuals": {"output_throughput": 1}}]}`: "the baseline is of driver sglang",
		`{"cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,CONC=128", "actuals": {"output_throughput": 2000}}]}`:                                                                                       "identity not stated in the baseline",
	} {
		b, err := warehouse.ReadBaseline("b.json", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		rows, err := (&warehouse.Compared{DB: w, Prev: b}).PrevRun(t.Context(), "now")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(rows, func(r warehouse.PrevRunRow) bool { return strings.Contains(r.Reason, want) }) {
			t.Errorf("%s: no row says %q: %+v", text, want, rows)
		}
	}
}

// TestBaselineUnusable: what cannot be understood is refused with what was
// expected, instead of being compared with the half of it.
func TestBaselineUnusable(t *testing.T) {
	t.Parallel()
	cell := func(actuals string) string {
		return `{"cell_id": "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "host": "h", "actuals": {` + actuals + `}}`
	}
	for text, want := range map[string]string{
		`{"schema_version": 3, "cells": [` + cell(`"output_throughput": 1`) + `]}`:                        "schema_version: expected 1 or 2, found 3",
		`{"schema_version": [1], "cells": [` + cell(`"output_throughput": 1`) + `]}`:                      "expected 1 or 2, found list",
		`{"cells": [` + cell(`"output_throughput": 1`) + `, ` + cell(`"output_throughput": 2`) + `]}`:     "cells[1]: output_throughput of ISL=1024,OSL=1024,TP=8,PP=1,CONC=128 h is there before",
		`{"cells": [` + cell(`"output_throughput": 1, "client.output_throughput": 2`) + `]}`:              "is there before with another value",
		`{"cells": [` + cell(`"output_throughput": 1`) + `, ` + cell(`"output_throughput": NaN`) + `]}`:   "is there before with another value",
		`{"model": "org/M", "cells": [{"model": "org/N", ` + cell(`"output_throughput": 1`)[1:] + `]}`:    "cells[0]: model: \"org/N\" contradicts \"org/M\"",
		`{"gpu_arch": "mi325x", "cells": [{"gpu": "MI355X", ` + cell(`"output_throughput": 1`)[1:] + `]}`: "cells[0]: gpu: \"mi355x\" contradicts \"mi325x\"",
		`{"cells": [` + cell(`"something_else": 1`) + `]}`:                                                "no cell of it has a key and a value",
	} {
		if _, err := warehouse.ReadBaseline("b.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	cut := `{"generated_at": "2026-09-24 18:41 UTC", "cells": [` + cell(`"output_throughput": 1`) + `], "datasets": {"sweep": {"all_cells": [` + cell(`"output_throughput": 1`) + `, ` +
		strings.Replace(cell(`"output_throughput": 2`), "CONC=128", "CONC=256", 1) + `]}}}`
	if b, err := warehouse.ReadBaseline("b.json", []byte(cut)); err != nil || len(b.Values) != 2 || b.At == nil || b.At.Format(time.RFC3339) != "2026-09-24T18:41:00Z" {
		t.Errorf("the older suite's cut list: %+v (%v)", b, err)
	}
	same := `{"cells": [` + cell(`"output_throughput": 1`) + `, ` + cell(`"client.output_throughput": 1`) + `]}`
	if b, err := warehouse.ReadBaseline("b.json", []byte(same)); err != nil || len(b.Values) != 1 {
		t.Errorf("one result twice: %+v (%v)", b, err)
	}
}

// TestBaselineAccuracy: the accuracy of a baseline is compared as its throughput
// is, or not at all.
func TestBaselineAccuracy(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	load(t, w, at("now", 0, 2000, func(r *artifact.Run) {
		r.Expected.Tasks = []artifact.ExpectedTask{{Kind: "accuracy", ID: "gsm8k"}}
		r.Accuracy = []artifact.Result{{Path: "accuracy/gsm8k/results_1.json", CellKey: "gsm8k",
			Data: []byte(`{"results": {"gsm8k": {"exact_match,strict-match": 0.9}}, "configs": {"gsm8k": {}}, "n-shot": {"gsm8k": 3}, "versions": {"gsm8k": 3}, "config": {"model": "local-completions"}}`)}}
	}))
	for _, tt := range []struct {
		head, accuracy, state, reason string
		worse                         bool
	}{
		{`"model": "org/M"`, `{"gsm8k.gsm8k.exact_match__strict-match": 0.95}`, "compared", "no standard error", true},
		{`"model": "org/M"`, `{"gsm8k.exact_match__strict-match": 0.905}`, "compared", "no standard error", false},
		{`"model": "org/M"`, `{"mmlu.acc__none": 0.95}`, "new", "does not have it", false},
		{`"model": "org/Other"`, `{"gsm8k.gsm8k.exact_match__strict-match": 0.95}`, "not_comparable", "the baseline is of model org/Other", false},
		{`"gpu_arch": "mi355x"`, `{"gsm8k.gsm8k.exact_match__strict-match": 0.95}`, "not_comparable", "from mi355x", false},
		{`"run_id": "now"`, `{"gsm8k.gsm8k.exact_match__strict-match": 0.9}`, "not_comparable", "this very run", false},
	} {
		text := `{` + tt.head + `, "accuracy": ` + tt.accuracy + `, "cells": [{"cell_id": "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "actuals": {"output_throughput": 1}}]}`
		b, err := warehouse.ReadBaseline("b.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := (&warehouse.Compared{DB: w, Prev: b}).AccuracyPrevRun(t.Context(), "now")
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1 || rows[0].State != tt.state || !strings.Contains(rows[0].Reason, tt.reason) || rows[0].Regression != tt.worse || (rows[0].Delta != nil) != (tt.state == "compared") {
			t.Errorf("%s: %+v", text, rows)
		}
	}
}
