package collect

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/collect/lab"
	"cvs/collect/plan"
)

// withTasks asks for every task that a plan can have.
func withTasks(r *Runner) {
	p := r.Plan
	p.Cells = p.Cells[:1]
	p.Functional = plan.Functional{APISmoke: true, HealthCheck: true}
	limit := 4.0
	eval := plan.AccuracyTask{ID: "gsm8k", Tasks: []string{"gsm8k"}, NumConcurrent: 4, BatchSize: "1", Limit: &limit, ExecTimeout: 60}
	strict := eval
	strict.ID, strict.Filter = "gsm8k_strict", "strict-match"
	p.Accuracy = []plan.AccuracyTask{eval, strict, {ID: "hella", Tasks: []string{"hellaswag"}, BatchSize: "1", ExecTimeout: 60}}
	p.LongContext = []plan.LongContextCell{{ID: "niah_1k", ISL: 1024, OSL: 32, NumPrompts: 2, Seed: 42}}
	p.MTP = plan.MTPQuality{Requested: true, Prompt: "Say hello in one short sentence."}
	p.Quant = plan.QuantParity{Enabled: true, ProbePrompt: "The capital of France is"}
	p.Platform = plan.Platform{DmesgScan: true, GPUMetricsPoll: true}
	r.Options.GPUInterval = 100 * time.Millisecond
}

var allTasks = []string{"api_smoke", "health_check", "gpu_metrics_poll", "gsm8k", "gsm8k_strict", "niah_1k", "mtp_quality", "quant_parity", "dmesg_scan"}

// lastStages is the final state of each stage by name.
func lastStages(run *artifact.Run) map[string]artifact.Stage {
	out := map[string]artifact.Stage{}
	for _, s := range run.Stages {
		out[s.Stage] = s
	}
	return out
}

// evidence decodes a file below checks/.
func evidence[T any](t *testing.T, run *artifact.Run, name string) T {
	t.Helper()
	var v T
	for _, c := range run.Checks {
		if c.Path == "checks/"+name {
			if err := json.Unmarshal(c.Data, &v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return v
		}
	}
	var have []string
	for _, c := range run.Checks {
		have = append(have, c.Path)
	}
	t.Fatalf("no %s; there are %v", name, have)
	return v
}

func TestTasks(t *testing.T) {
	t.Parallel()
	r, l := labRun(t, lab.Faults{})
	withTasks(r)
	meta, err := r.Run(context.Background())
	run := readRun(t, r)
	if err != nil || meta.Status != artifact.Done {
		t.Errorf("%v, %+v", err, meta)
	}
	stages := lastStages(run)
	for _, name := range allTasks {
		if s := stages[name]; s.Status != artifact.Done {
			t.Errorf("%s: %q: %s", name, s.Status, s.Reason)
		}
	}
	var planned []string
	for _, e := range run.Expected.Tasks {
		planned = append(planned, e.ID)
		if (e.Status == artifact.NotRun) != (e.ID == "hella") {
			t.Errorf("planned %+v", e)
		}
	}
	for _, name := range allTasks {
		if !slices.Contains(planned, name) {
			t.Errorf("%s is not planned", name)
		}
	}
	if f := evidence[check.FunctionalResult](t, run, "functional.json"); !f.Pass || f.APISmoke == nil || f.HealthCheck == nil || len(f.Steps) < 4 {
		t.Errorf("functional: %+v", f)
	}
	if n := evidence[check.NIAHResult](t, run, "niah/niah_1k.json"); n.PassRate == nil || *n.PassRate != 1 || n.Total != 2 {
		t.Errorf("niah: %+v", n)
	}
	if m := evidence[check.MTPResult](t, run, "mtp.json"); m.Metrics[check.MTPDegenerateRatio] != 0 || len(m.Completions) == 0 {
		t.Errorf("mtp: %+v", m)
	}
	if q := evidence[check.QuantResult](t, run, "quant.json"); q.SHA256 == "" {
		t.Errorf("quant: %+v", q)
	}
	cell := r.Plan.Cells[0].ID
	if g := evidence[check.GPUSummary](t, run, "gpu/"+artifact.SafeName(cell+".json")); g.Samples == 0 || g.Cell != cell || g.Total.MeanPowerW == nil {
		t.Errorf("gpu: %+v", g)
	}
	host := artifact.SafeName(l.Addr(0) + ".json")
	if d := evidence[check.DmesgResult](t, run, "dmesg/"+host); !d.Pass || d.Lines == 0 {
		t.Errorf("dmesg: %+v", d)
	}
	e := evidence[check.EvalResult](t, run, "accuracy/gsm8k.json")
	if e.ExitCode == nil || *e.ExitCode != 0 || !slices.Equal(e.IDs, []string{"gsm8k", "gsm8k_strict"}) {
		t.Errorf("accuracy: %+v", e)
	}
	ids := map[string]bool{}
	for _, a := range run.Accuracy {
		ids[a.CellKey] = true
	}
	if !ids["gsm8k"] || !ids["gsm8k_strict"] {
		t.Errorf("results of lm-eval for %v", ids)
	}
	noContainers(t, l)
	if left, _ := filepath.Glob("/tmp/cvs-*" + meta.RunID + "-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestTasksFind has something wrong each time: the task says so with evidence,
// the others are carried out, and the sweep is done.
func TestTasksFind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		faults lab.Faults
		failed []string // tasks whose stage fails
		broken bool     // the run counts as failed, because a task could not be carried out
		look   func(*testing.T, *artifact.Run)
	}{
		{name: "bad JSON", faults: lab.Faults{Answers: lab.AnswersJSON}, failed: []string{"api_smoke"},
			look: func(t *testing.T, run *artifact.Run) {
				f := evidence[check.FunctionalResult](t, run, "functional.json")
				if f.Pass || !slices.ContainsFunc(f.Steps, func(s check.FunctionalStep) bool { return !s.Pass && len(s.Failures) > 0 && s.Body != "" }) {
					t.Errorf("functional: %+v", f)
				}
			}},
		{name: "empty answers", faults: lab.Faults{Answers: lab.AnswersEmpty}, failed: []string{"api_smoke", "quant_parity"}, broken: true,
			look: func(t *testing.T, run *artifact.Run) {
				if m := evidence[check.MTPResult](t, run, "mtp.json"); m.Metrics[check.MTPDegenerateRatio] != 1 {
					t.Errorf("mtp: %+v", m.Metrics)
				}
			}},
		{name: "repeats", faults: lab.Faults{Answers: lab.AnswersLoop}, failed: []string{"api_smoke"}, look: func(t *testing.T, run *artifact.Run) {
			m := evidence[check.MTPResult](t, run, "mtp.json")
			if m.Metrics[check.MTPDegenerateRatio] != 1 || m.Completions[0].Degenerate == "" {
				t.Errorf("mtp: %+v", m)
			}
		}},
		{name: "wrong needle", faults: lab.Faults{Answers: lab.AnswersWrong}, look: func(t *testing.T, run *artifact.Run) {
			n := evidence[check.NIAHResult](t, run, "niah/niah_1k.json")
			if n.PassRate == nil || *n.PassRate != 0 || n.Results[0].Actual == "" {
				t.Errorf("niah: %+v", n)
			}
		}},
		{name: "no amd-smi", faults: lab.Faults{SMI: lab.SMIAbsent}, failed: []string{"gpu_metrics_poll"}, look: func(t *testing.T, run *artifact.Run) {
			g := evidence[check.GPUSummary](t, run, "gpu/"+artifact.SafeName(run.Expected.Cells[0].ID+".json"))
			if g.Status != artifact.Failed || !strings.Contains(g.Reason, "amd-smi") {
				t.Errorf("gpu: %+v", g)
			}
		}},
		{name: "memory error", faults: lab.Faults{ECCError: true}, failed: []string{"dmesg_scan"}, look: func(t *testing.T, run *artifact.Run) {
			for _, c := range run.Checks {
				if strings.HasPrefix(c.Path, "checks/dmesg/") && strings.HasSuffix(c.Path, ".json") {
					d := evidence[check.DmesgResult](t, run, strings.TrimPrefix(c.Path, "checks/"))
					if d.Pass || d.Errors == 0 || len(d.Records)+len(d.Events) == 0 {
						t.Errorf("dmesg: %+v", d)
					}
					return
				}
			}
			t.Error("no dmesg result")
		}},
		{name: "lm-eval fails", faults: lab.Faults{EvalFails: true}, failed: []string{"gsm8k", "gsm8k_strict"}, broken: true, look: func(t *testing.T, run *artifact.Run) {
			e := evidence[check.EvalResult](t, run, "accuracy/gsm8k.json")
			if e.ExitCode == nil || *e.ExitCode == 0 || !strings.Contains(e.LogTail, "RuntimeError") || len(run.Accuracy) != 0 {
				t.Errorf("accuracy: %+v, %d results", e, len(run.Accuracy))
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, l := labRun(t, tt.faults)
			withTasks(r)
			_, err := r.Run(context.Background())
			if errors.Is(err, ErrRun) != tt.broken || err != nil && !tt.broken {
				t.Errorf("error %v", err)
			}
			run := readRun(t, r)
			stages := lastStages(run)
			for _, name := range allTasks {
				want := artifact.Done
				if slices.Contains(tt.failed, name) {
					want = artifact.Failed
				}
				if s := stages[name]; s.Status != want || want == artifact.Failed && s.Reason == "" {
					t.Errorf("%s: %q: %s", name, s.Status, s.Reason)
				}
			}
			if s := stages["cell"]; s.Status != artifact.Done {
				t.Errorf("cell: %+v", s)
			}
			tt.look(t, run)
			noContainers(t, l)
		})
	}
}

// TestTasksReference compares with the reference of a run whose answer was another.
func TestTasksReference(t *testing.T) {
	t.Parallel()
	r, _ := labRun(t, lab.Faults{Answers: lab.AnswersDrift})
	r.Plan.Cells = r.Plan.Cells[:1]
	r.Plan.Quant = plan.QuantParity{Enabled: true, ProbePrompt: "The capital of France is"}
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	next := resumed(t, r)
	path := filepath.Join(r.Store.(*artifact.Dir).Path(), "checks", "quant.json")
	ref, err := ReadReference(path)
	if err != nil {
		t.Fatal(err)
	}
	next.Options.QuantReference = ref
	if _, err := next.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	q := evidence[check.QuantResult](t, readRun(t, next), "quant.json")
	if q.Reference == nil || q.Reference.Problem != "" || q.Match == nil || *q.Match != 0 {
		t.Errorf("quant: %+v", q)
	}
}

// TestTasksInterrupted: what was not reached says so, what there is is kept, and
// teardown is whole.
func TestTasksInterrupted(t *testing.T) {
	t.Parallel()
	const done, stopped, skipped = artifact.Done, artifact.Interrupted, artifact.Skipped
	tests := []struct {
		in   string // stage
		want map[string]artifact.Status
	}{
		{"client", map[string]artifact.Status{"api_smoke": done, "cell": stopped, "gpu_metrics_poll": done, "gsm8k": skipped, "gsm8k_strict": skipped}},
		{"gsm8k", map[string]artifact.Status{"api_smoke": done, "gpu_metrics_poll": done, "gsm8k": stopped, "gsm8k_strict": stopped}},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			r, l := labRun(t, lab.Faults{})
			withTasks(r)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r.Progress = func(e Event) {
				if e.Kind == StageStarted && e.Stage == tt.in {
					cancel()
				}
			}
			meta, err := r.Run(ctx)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			for _, name := range []string{"niah_1k", "mtp_quality", "quant_parity"} {
				tt.want[name] = skipped
			}
			tt.want["dmesg_scan"], tt.want["teardown"] = done, done
			run := readRun(t, r)
			stages := lastStages(run)
			for name, want := range tt.want {
				if s := stages[name]; s.Status != want {
					t.Errorf("%s: %q: %s, want %s", name, s.Status, s.Reason, want)
				}
			}
			evidence[check.GPUSummary](t, run, "gpu/"+artifact.SafeName(r.Plan.Cells[0].ID+".json"))
			noContainers(t, l)
			if left, _ := filepath.Glob("/tmp/cvs-*" + meta.RunID + "-*"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestTasksUseLastServer: checks ask the server of the last cell, also where each
// cell has one of its own, and acceptance comes from the cell's artefact.
func TestTasksUseLastServer(t *testing.T) {
	t.Parallel()
	r, _ := labRun(t, lab.Faults{Acceptance: 0.1})
	r.Plan.Params.ReuseServer = false
	r.Plan.Server.ATOMArgs = append(slices.Clone(r.Plan.Server.ATOMArgs), "--method", "mtp", "--num-speculative-tokens", "3")
	r.Plan.Functional = plan.Functional{HealthCheck: true}
	r.Plan.MTP = plan.MTPQuality{Requested: true, Prompt: "Say hello in one short sentence."}
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	run := readRun(t, r)
	starts := map[string]int{}
	for _, s := range run.Stages {
		if s.Status == artifact.Done {
			starts[s.Stage]++
		}
	}
	if starts["server_start"] != 2 || starts["health_check"] != 1 || starts["mtp_quality"] != 1 {
		t.Errorf("stages %v", starts)
	}
	m := evidence[check.MTPResult](t, run, "mtp.json")
	if rate, ok := m.Metrics[check.MTPAcceptanceRate]; !ok || rate > 0.3 || m.Source != "artefact" {
		t.Errorf("mtp: %v from %q, missing %v", m.Metrics, m.Source, m.Missing)
	}
}

// TestTasksWithoutServer: where no server starts, every task says why it was not
// carried out.
func TestTasksWithoutServer(t *testing.T) {
	t.Parallel()
	r, _ := labRun(t, lab.Faults{ServerDiesAtStart: true})
	withTasks(r)
	if _, err := r.Run(context.Background()); !errors.Is(err, ErrRun) {
		t.Errorf("error %v", err)
	}
	stages := lastStages(readRun(t, r))
	for _, name := range []string{"api_smoke", "health_check", "gsm8k", "gsm8k_strict", "niah_1k", "mtp_quality", "quant_parity"} {
		if s := stages[name]; s.Status != artifact.Skipped || s.Reason != "the server did not start" {
			t.Errorf("%s: %q: %s", name, s.Status, s.Reason)
		}
	}
	if s := stages["dmesg_scan"]; s.Status != artifact.Done {
		t.Errorf("dmesg_scan: %q: %s", s.Status, s.Reason)
	}
}

// TestTaskCommands looks at the dry run.
func TestTaskCommands(t *testing.T) {
	t.Parallel()
	r, _ := labRun(t, lab.Faults{})
	withTasks(r)
	steps, err := Commands(r.Plan, "run1")
	if err != nil {
		t.Fatal(err)
	}
	var stages []string
	all := ""
	for _, s := range steps {
		if n := len(stages); n == 0 || stages[n-1] != s.Stage {
			stages = append(stages, s.Stage)
		}
		all += strings.Join(s.Argv, " ") + "\n"
	}
	want := []string{"preflight", "dmesg_mark", "container", "model", "server_start", "cell", "gpu_metrics_poll", "cell", "gpu_metrics_poll", "cell", "gsm8k", "dmesg_scan", "teardown"}
	if !slices.Equal(stages, want) {
		t.Errorf("stages %v, want %v", stages, want)
	}
	for _, part := range []string{"lm_eval --model local-completions", "dmesg --time-format iso -x", "amd-smi metric --json"} {
		if !strings.Contains(all, part) {
			t.Errorf("no %q", part)
		}
	}
	if strings.Contains(all, "hellaswag") {
		t.Error("a task that the server cannot serve is in the list")
	}
}

// TestTaskLosesServer: a server that dies during a check fails that one and is
// replaced for the next.
func TestTaskLosesServer(t *testing.T) {
	t.Parallel()
	r, l := labRun(t, lab.Faults{ServerDiesAfter: 50})
	r.Plan.Cells = r.Plan.Cells[:1]
	r.Plan.LongContext = []plan.LongContextCell{{ID: "long", ISL: 512, OSL: 32, NumPrompts: 60, Seed: 42}}
	r.Plan.Quant = plan.QuantParity{Enabled: true, ProbePrompt: "The capital of France is"}
	meta, err := r.Run(context.Background())
	if !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), "long: ") {
		t.Errorf("error %v", err)
	}
	run := readRun(t, r)
	stages := lastStages(run)
	if s := stages["long"]; s.Status != artifact.Failed || !strings.Contains(s.Reason, "it ended during the check") && !strings.Contains(s.Reason, "the server was gone at the end of the check") {
		t.Errorf("long: %q: %s", s.Status, s.Reason)
	}
	if n := evidence[check.NIAHResult](t, run, "niah/long.json"); n.Status != artifact.Failed || n.Reason == "" {
		t.Errorf("niah: %+v", n)
	}
	if s := stages["quant_parity"]; s.Status != artifact.Done {
		t.Errorf("quant_parity: %q: %s", s.Status, s.Reason)
	}
	if !slices.ContainsFunc(meta.Warnings, func(w string) bool { return strings.Contains(w, "is restarted once") }) {
		t.Errorf("warnings %q", meta.Warnings)
	}
	noContainers(t, l)
}
