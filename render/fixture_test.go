package render

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"cvs/collect/metric"
	"cvs/warehouse"
)

func ptr[T any](v T) *T { return &v }

// fixture is a run of eight cells on two shapes: passes, a failing cell, one
// whose throughput is NaN, one without a result and one whose requests all
// failed.
func fixture() *Data {
	start := time.Date(2026, 9, 24, 18, 2, 11, 0, time.UTC)
	end := start.Add(52*time.Minute + 9*time.Second)
	d := &Data{
		Run: warehouse.RunRow{
			RunID: "20260924T180211Z-4f9c2a", Suite: "atom", Profile: "perf", Status: "done",
			StartedAt: &start, EndedAt: &end, ToolVersion: "0.1.0", LauncherUser: "ops", LauncherHost: "launcher-2",
			CommandLine: `["cvs","run","atom","--cluster_file","cluster.json","--config_file","mi325x_atom_deepseek-r1_fp8_single.json"]`,
			Model:       "deepseek-ai/DeepSeek-R1", Precision: "fp8", GPUArch: "mi325x", GPUSeen: "lab-sim", Driver: "atom",
			TP: 8, PP: 1, DP: 1, NNodes: 1, GPUs: 8, Image: "rocm/atom:rocm7.0_2026-09-18",
			Hosts: `["node-01"]`, Enforce: true, EnforceOrigin: "config line 5", Simulated: true,
			Labels: `{"notes":"Second attempt after the firmware update.\nFans at 80 %.","upstream_run_url":"https://ci.example.com/runs/7"}`, Warnings: `["the GPU lab-sim is not known"]`,
		},
		Status: warehouse.RunStatusRow{Verdict: "fail", Incomplete: true, ExitCode: 3, ReasonText: strings.Join([]string{
			"w1_1k_1k-conc128: output_throughput, mean_ttft_ms and 2 more are beyond their gates",
			"w1_1k_1k-conc64: no result (client exited with status 1)",
			"accuracy gsm8k: not run: accuracy tasks do not run in this version",
		}, "\n")},
		Digests: map[string]string{"node-01": "sha256:3a1f0c7be1d5c6c0a4f8b2e9d7c1a0b3f5e6d8c9b0a1f2e3d4c5b6a7f8e9d0c1"},
		Checks:  []warehouse.CheckGateRow{{Scope: "accuracy", Target: "gsm8k", State: warehouse.Skipped, Reason: "not run: accuracy tasks do not run in this version"}},
		Inputs:  []warehouse.InputRow{{Kind: "config", Path: "mi325x_atom_deepseek-r1_fp8_single.json", SHA256: strings.Repeat("ab", 32), Bytes: 4321}},
		Quality: []warehouse.DataQualityRow{
			{CellKey: key(1024, 16), Code: "percentile_validity", Severity: "finding", Message: "P99 of 160 requests: its 95 % interval is from request 155 in order of size to the largest"},
			{Code: "vacuous_gate", Severity: "finding", Message: "3 of 156 gates are at least ten times away from the measured value"},
		},
	}
	seq := 0
	stage := func(name, cell, status string, from, took float64) {
		seq++
		e := start.Add(time.Duration((from + took) * float64(time.Second)))
		d.Stages = append(d.Stages, warehouse.StageRow{Seq: seq, Stage: name, Host: "node-01", CellID: cell, Status: status, StartedAt: ptr(start.Add(time.Duration(from * float64(time.Second)))), EndedAt: &e})
	}
	stage("connect", "", "done", 0, 0.8)
	stage("container", "", "done", 0.8, 9.4)
	stage("server", "", "done", 10.2, 402)
	at := 412.0
	for _, sh := range []struct{ isl, osl int }{{1024, 1024}, {8192, 1024}} {
		for _, conc := range []int{16, 32, 64, 128} {
			state, reason := warehouse.Pass, ""
			switch {
			case sh.isl == 1024 && conc == 128:
				state, reason = "fail", "throughput: 2 of 4 specs fail; ttft: 1 of 5 fails"
			case sh.isl == 1024 && conc == 64:
				state, reason = "error", "no result: the client exited with status 1"
			case sh.isl == 8192 && conc == 32:
				state, reason = "fail", "output_throughput is NaN"
			case sh.isl == 8192 && conc == 128:
				state, reason = "fail", "no request completed"
			}
			combo := fmt.Sprintf("w%d_%dk_1k", len(d.Cells)/4+1, sh.isl/1024)
			k := key(sh.isl, conc)
			d.Cells = append(d.Cells, warehouse.CellStatusRow{CellKey: k, CellID: fmt.Sprintf("%s-conc%d", combo, conc), Combo: combo,
				ISL: sh.isl, OSL: sh.osl, Concurrency: conc, State: state, Reason: reason, Planned: true})
			st := "done"
			if state == "error" {
				st = "failed"
			}
			stage("cell", fmt.Sprintf("%s-conc%d", combo, conc), st, at, 330)
			at += 331
			if state == "error" {
				continue
			}
			d.Artifacts = append(d.Artifacts, warehouse.ArtifactRow{CellKey: k, Path: fmt.Sprintf("cells/%02d-%s-conc%d/1/result.json", len(d.Cells), combo, conc), Role: "cell",
				Format: "atom_benchmark_serving", SHA256: strings.Repeat(fmt.Sprintf("%02x", 17*len(d.Cells)), 32), Bytes: 1873})
			d.Attempts = append(d.Attempts, warehouse.AttemptRow{CellKey: k, Repeat: 1, Host: "node-01", Status: "done", ExitCode: ptr(0), ServerSession: 1, Warm: at > 800,
				ServerArgv: `["python3","-m","atom.entrypoints.openai_server","--model","/models/deepseek-ai/DeepSeek-R1","-tp","8"]`,
				ClientArgv: fmt.Sprintf(`["python3","-m","atom.benchmarks.benchmark_serving","--max-concurrency","%d","--note","it's"]`, conc)})
			addCell(d, k, sh.isl, conc)
		}
	}
	stage("teardown", "", "done", at, 6)
	return d
}

func key(isl, conc int) string { return fmt.Sprintf("ISL=%d,OSL=1024,TP=8,PP=1,CONC=%d", isl, conc) }

// addCell adds metrics, gates and tiers of one measured cell, with values that
// behave like a server's: throughput saturates, latency grows.
func addCell(d *Data, k string, isl, conc int) {
	allFailed := isl == 8192 && conc == 128
	slow := isl == 1024 && conc == 128
	c := float64(conc)
	tput := 3900 * c / (c + 55) * 1024 / (1024 + float64(isl)/8)
	if slow {
		tput *= 0.83
	}
	value := map[string]float64{
		"max_concurrency": c, "num_prompts": 10 * c, "completed": 10 * c, "failed": 0, "success_rate": 1, "duration": 327.2412,
		"output_throughput": tput, "total_token_throughput": tput * (1 + float64(isl)/1024), "request_throughput": tput / 1024,
		"output_tput_per_gpu": tput / 8, "per_gpu_throughput": tput * (1 + float64(isl)/1024) / 8, "decode_latency_ratio": 1.6123, "queue_ms": 0,
	}
	for i, s := range []string{"mean", "median", "p90", "p95", "p99"} {
		f := 1 + 0.35*float64(i*i)/4
		value[s+"_ttft_ms"] = (90 + 5.2*c) * (1 + float64(isl)/9000) * f
		value[s+"_tpot_ms"] = (18 + c*0.16) * f
		value[s+"_e2el_ms"] = (18800 + c*170) * f
		if s != "p90" {
			value[s+"_itl_ms"] = (18 + c*0.15) * f
		}
	}
	for _, def := range metric.Table() {
		v, ok := value[def.Name]
		row := warehouse.MetricRow{CellKey: k, Host: "node-01", Metric: def.Name, Unit: def.Unit, Derived: len(def.Keys) == 0, Note: def.Derived, Label: def.Label, Key: strings.Join(def.Keys[:min(1, len(def.Keys))], "")}
		state, reason := warehouse.Pass, ""
		if ok {
			row.Value = ptr(v)
		}
		switch {
		case !ok && def.Name != "mtp.accept_length":
			if !def.Gated {
				continue
			}
			state = "skipped"
		case allFailed && (def.Tier == metric.TTFT || def.Tier == metric.TPOT || def.Tier == metric.ITL || def.Tier == metric.E2EL):
			row.Value, state, reason = nil, "na", "no request completed"
		case allFailed && def.Tier == metric.Throughput, allFailed && def.Name == "completed", allFailed && def.Name == "success_rate":
			row.Value, state = ptr(0.0), "fail"
		case allFailed && def.Name == "failed":
			row.Value, state = ptr(10*c), "fail"
		case isl == 8192 && conc == 32 && def.Name == "output_throughput":
			row.Value, row.Text, state, reason = nil, "NaN", "invalid", "the value is NaN, not a number"
		case slow && (def.Name == "output_throughput" || def.Name == "output_tput_per_gpu" || def.Name == "p99_ttft_ms"):
			state = "fail"
		}
		d.Metrics = append(d.Metrics, row)
		if !def.Gated {
			continue
		}
		g := warehouse.GateRow{CellKey: k, Metric: def.Name, Unit: def.Unit, Tier: string(def.Tier), State: state, Reason: reason, File: "mi325x_atom_deepseek-r1_fp8_threshold.json", Line: 12 + len(d.Gates)%400, Got: row.Value, GotText: row.Text}
		switch {
		case def.Name == "failed":
			g.Kind, g.Wanted = "max", ptr(0.0)
		case def.Name == "success_rate":
			g.Kind, g.Wanted = "min", ptr(0.99)
		case def.Direction == metric.Higher:
			g.Kind, g.Wanted = "min_tok_s", ptr(math.Round(v*0.93))
			if state == "fail" {
				g.Wanted = ptr(math.Round(v * 1.1))
			}
		default:
			g.Kind, g.Wanted = "max_ms", ptr(math.Round(v*1.12))
			if state == "fail" {
				g.Wanted = ptr(math.Round(v * 0.94))
			}
		}
		if row.Value != nil && *g.Wanted != 0 {
			m := 100 * (*row.Value - *g.Wanted) / *g.Wanted
			if def.Direction == metric.Lower {
				m = -m
			}
			g.MarginPct = &m
		}
		if g.State == "fail" && g.Reason == "" {
			g.Reason = fmt.Sprintf("%s is beyond its gate", def.Name)
		}
		d.Gates = append(d.Gates, g)
	}
	d.Metrics = append(d.Metrics, warehouse.MetricRow{CellKey: k, Metric: "queue_ms", Value: ptr(0.0)}, warehouse.MetricRow{CellKey: k, Metric: "mtp.accept_length"})
	for _, g := range d.Gates {
		same := func(t warehouse.TierRow) bool { return t.CellKey == k && t.Tier == g.Tier }
		if g.CellKey == k && !slices.ContainsFunc(d.Tiers, same) {
			d.Tiers = append(d.Tiers, warehouse.TierRow{CellKey: k, Host: "node-01", Tier: g.Tier, State: "pass"})
		}
	}
	if isl == 1024 && conc == 32 { // measured three times
		for i := range d.Metrics {
			if m := &d.Metrics[i]; m.CellKey == k && m.Value != nil {
				m.Repeats, m.Low, m.High = 3, ptr(*m.Value*0.9), ptr(*m.Value*1.05)
			}
		}
	}
	for i := range d.Tiers {
		t := &d.Tiers[i]
		if t.CellKey != k {
			continue
		}
		na := 0
		for _, g := range d.Gates {
			if g.CellKey != k || g.Tier != t.Tier {
				continue
			}
			t.Specs++
			switch g.State {
			case "fail", "invalid":
				t.Fail++
				t.State = "fail"
				t.Reason = g.Reason
			case "pass":
				t.Pass++
			case "na":
				na++
			}
		}
		if na == t.Specs {
			t.State, t.Reason = "na", "no request completed"
		}
	}
}
