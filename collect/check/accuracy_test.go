package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/plan"
	"cvs/collect/remote"

	"github.com/google/go-cmp/cmp"
)

// task is a task with the defaults of the configuration.
func task(id string, names ...string) plan.AccuracyTask {
	return plan.AccuracyTask{ID: id, Tasks: names, NumConcurrent: 8, BatchSize: "1", Device: "cuda:0",
		Seed: []string{"0", "1234", "1234", "1234"}, ExecTimeout: 14400}
}

func with(t plan.AccuracyTask, change func(*plan.AccuracyTask)) plan.AccuracyTask {
	change(&t)
	return t
}

var place = EvalPlace{URL: "http://127.0.0.1:8000", Model: "org/model", Output: "/logs/acc/x", Cache: "/tmp/c", Hub: "/models"}

// The command lines are checked against the specification: lm-eval is not here.
func TestEvalArgs(t *testing.T) {
	t.Parallel()
	everything := with(task("all", "gsm8k", "bbh"), func(t *plan.AccuracyTask) {
		t.Backend, t.LMEvalModel, t.ExtraModelArgs = "x", "local-chat-completions", ` max_length=32768 , eos_string="a,b",list=[1,2], max_retries=3`
		t.NumFewshot, t.MaxBatchSize, t.Limit = ptr(0), ptr(4), ptr(0.25)
		t.UseCache, t.CacheRequests, t.IncludePath = "/c/d", "refresh", "/inc"
		t.GenKwargs, t.Metadata, t.Samples = `{"temperature":0.6,"do_sample":true,"max_gen_toks":2048}`, `{"filter":"strict-match","n":[1]}`, `{"gsm8k":[1,2]}`
		t.CheckIntegrity, t.PredictOnly, t.TrustRemoteCode, t.ConfirmRunUnsafeCode = true, true, true, true
		t.SystemInstruction, t.ApplyChatTemplate, t.ChatTemplate, t.FewshotAsMultiturn = "Be $brief; 'now'", true, "tool", ptr(false)
		t.Seed = []string{"0", "None", "1", "2"}
	})
	var b strings.Builder
	for _, tt := range []plan.AccuracyTask{
		with(task("plain", "gsm8k"), func(t *plan.AccuracyTask) { t.NumFewshot, t.NumConcurrent = ptr(5), 4 }),
		with(task("chat", "gsm8k"), func(t *plan.AccuracyTask) { t.ApplyChatTemplate, t.FewshotAsMultiturn = true, ptr(true) }),
		with(task("limit", "gsm8k"), func(t *plan.AccuracyTask) { t.Limit, t.Device = ptr(2e6), "" }),
		with(task("json", "gsm8k"), func(t *plan.AccuracyTask) { t.GenKwargs = `{"until":["a","b"],"max_gen_toks":9}` }),
		with(task("text", "gsm8k"), func(t *plan.AccuracyTask) { t.GenKwargs = `{"x":"5"}` }),
		everything,
	} {
		args, err := EvalArgs(tt, place)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("# " + tt.ID + "\n" + remote.Quote(args) + "\n")
	}
	for _, args := range [][]string{PrepareArgs(place), InstallArgs(), StampArgs(), FindArgs("/logs/acc/x")} {
		b.WriteString("# beside it\n" + remote.Quote(args) + "\n")
	}
	golden(t, "lm_eval.txt", b.String())
}

func TestEvalArgsWrong(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plan.AccuracyTask){
		"base_url is":         func(t *plan.AccuracyTask) { t.ExtraModelArgs = "base_url=http://elsewhere" },
		"num_concurrent is 8": func(t *plan.AccuracyTask) { t.ExtraModelArgs = "num_concurrent=9" },
		"a is 1 already":      func(t *plan.AccuracyTask) { t.ExtraModelArgs = "a=1,a=2" },
		"not key=value":       func(t *plan.AccuracyTask) { t.ExtraModelArgs = "flag" },
		"is not closed":       func(t *plan.AccuracyTask) { t.ExtraModelArgs = "a=[1,2" },
		"opening bracket":     func(t *plan.AccuracyTask) { t.ExtraModelArgs = "a=1]" },
		"expected an object":  func(t *plan.AccuracyTask) { t.GenKwargs = "[1]" },
		"gen_kwargs":          func(t *plan.AccuracyTask) { t.GenKwargs = "{" },
	} {
		if _, err := EvalArgs(with(task("x", "gsm8k"), change), place); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := EvalArgs(task("x", "gsm8k"), EvalPlace{Model: "a,b"}); err == nil {
		t.Error("a model with a comma was taken")
	}
}

func TestEvalURL(t *testing.T) {
	t.Parallel()
	if got := EvalURL(plan.Params{BaseURL: "http://0.0.0.0", Port: 8000}); got != "http://127.0.0.1:8000" {
		t.Error(got)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	filter := func(f string) func(*plan.AccuracyTask) {
		return func(t *plan.AccuracyTask) { t.Metadata, t.Filter = `{"filter":"`+f+`"}`, f }
	}
	tasks := []plan.AccuracyTask{
		task("flex", "gsm8k"),
		with(task("strict", "gsm8k"), filter("strict-match")),
		task("swag", "hellaswag"),
		with(task("stderr", "gsm8k"), func(t *plan.AccuracyTask) { filter("flexible-extract")(t); t.ExecTimeout = 20000 }),
		with(task("five", "gsm8k"), func(t *plan.AccuracyTask) { t.NumFewshot = ptr(5) }),
		with(task("meta", "gsm8k"), func(t *plan.AccuracyTask) { t.Metadata = `{"filter":"x","max_length": 9}` }),
	}
	groups, err := Groups(tasks, plan.DriverATOM)
	if err != nil {
		t.Fatal(err)
	}
	var ids [][]string
	for _, g := range groups {
		ids = append(ids, g.IDs)
	}
	if diff := cmp.Diff([][]string{{"flex", "strict", "stderr"}, {"five"}, {"meta"}}, ids); diff != "" {
		t.Error(diff)
	}
	if f := groups[0].Filters; f["strict"] != "strict-match" || f["flex"] != "" {
		t.Errorf("filters to report: %v", f)
	}
	if g := groups[0].Task; g.ExecTimeout != 20000 || g.Metadata != "" {
		t.Errorf("the joint run: %+v", g)
	}
	if groups[2].Task.Metadata != tasks[5].Metadata {
		t.Error("metadata of a single task was changed")
	}
	refused := Refused(tasks, plan.DriverATOM)
	if len(refused) != 1 || refused[0].ID != "swag" || refused[0].Status != artifact.NotRun || !strings.Contains(refused[0].Reason, "hellaswag: log-likelihood") {
		t.Errorf("%+v", refused)
	}
	if got := Refused(tasks, plan.DriverVLLM); got != nil {
		t.Errorf("on vLLM: %+v", got)
	}
	chat := with(task("chat", "hellaswag"), func(t *plan.AccuracyTask) { t.ApplyChatTemplate = true })
	if got := Refused([]plan.AccuracyTask{chat}, plan.DriverVLLM); len(got) != 1 || !strings.Contains(got[0].Reason, "chat endpoint") {
		t.Errorf("through chat: %+v", got)
	}
	if _, err := Groups([]plan.AccuracyTask{with(task("x", "gsm8k"), func(t *plan.AccuracyTask) { t.Metadata = "{" })}, plan.DriverATOM); err == nil {
		t.Error("broken metadata was taken")
	}
}

func TestLogLikelihood(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"hellaswag": true, "arc_challenge": true, "arc_easy": true, "winogrande": true, "mmlu": true, "mmlu_abstract_algebra": true,
		"musr": true, "leaderboard_musr": true, "leaderboard_mmlu_pro": true, "piqa": true, "truthfulqa_mc2": true, "wikitext": true, "ceval-valid": true,
		"gsm8k": false, "mmlu_pro": false, "mmlu_pro_math": false, "bbh": false, "humaneval": false, "mbpp": false, "hendrycks_math": false,
		"mmlu_generative": false, "arc_challenge_chat": false, "truthfulqa_gen": false, "ifeval": false, "arcade": false, "piqatask": false, "drop": false,
	} {
		if LogLikelihood(name) != want {
			t.Errorf("LogLikelihood(%s) = %v", name, !want)
		}
	}
}

func TestNewestResult(t *testing.T) {
	t.Parallel()
	const (
		old   = "999.5 10 /o/m/results_2026-01-01T00-00-00.1.json\x00"
		first = "1001.25 20 /o/m/results_2026-01-02T00-00-00.1.json\x00"
		last  = "1005.5 30 /o/m/results_2026-01-03T00-00-00.1.json\x00"
		mine  = "1005.4 31 /o/m/samples_gsm8k_2026-01-03T00-00-00.1.jsonl\x00"
		other = "1005.4 32 /o/m/samples_gsm8k_2026-01-02T00-00-00.1.jsonl\x00"
	)
	files, stale, err := NewestResult([]byte(old+other+last+mine+first), 1000)
	if err != nil || len(files) != 2 || files[0].Name != "results_2026-01-03T00-00-00.1.json" || files[0].Bytes != 30 || files[0].Kind != "results" ||
		files[1].Bytes != 31 || files[1].Kind != "samples" || len(stale) != 1 {
		t.Errorf("%+v %v %v", files, stale, err)
	}
	if _, stale, err = NewestResult([]byte(old), 1000); err == nil || !strings.Contains(err.Error(), "older than its start") || len(stale) != 1 {
		t.Errorf("stale only: %v %v", stale, err)
	}
	if _, _, err = NewestResult([]byte("x y z\x00 garbage"), 1000); err == nil || !strings.Contains(err.Error(), "left no results") {
		t.Errorf("nothing: %v", err)
	}
}

func TestCheckResults(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`{"results":{"gsm8k":{"exact_match,strict-match":NaN}}}`: true,
		`{"results":{}}`: false, `{"results":[]}`: false, `{}`: false, ``: false, `{"results":{"a":{}`: false,
	} {
		if err := CheckResults([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// evaluator runs stand-ins for python and lm_eval on this machine.
func evaluator(t *testing.T, lmEval string) (Evaluator, EvalPlace) {
	t.Helper()
	dir := t.TempDir()
	hub := filepath.Join(dir, "models")
	if err := os.MkdirAll(filepath.Join(hub, "models--org--model"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := Evaluator{Runner: standIns(t, map[string]string{"python": "exit 0\n", "lm_eval": lmEval}), JobDir: filepath.Join(dir, "job"), Grace: time.Second,
		Launch: func(log string, args []string, env []plan.EnvVar) []string {
			out := []string{"sh", "-c", `exec >"$1" 2>&1; shift; exec "$@"`, "sh", log, "env"}
			for _, e := range env {
				out = append(out, e.Name+"="+e.Value)
			}
			return append(out, args...)
		}}
	return e, EvalPlace{URL: "http://127.0.0.1:1", Model: "org/model", Output: filepath.Join(dir, "out"), Cache: filepath.Join(dir, "cache"), Hub: hub}
}

const goodEval = `while [ "$1" != --output_path ]; do shift; done
mkdir -p "$2/org__model"
[ -d "$HF_HUB_CACHE/models--org--model" ] && : >"$HF_DATASETS_CACHE/written" || exit 9
echo '{"results":{"gsm8k":{"exact_match,strict-match":0.5}}}' >"$2/org__model/results_2026-01-01T00-00-00.json"
echo '{"doc_id":0}' >"$2/org__model/samples_gsm8k_2026-01-01T00-00-00.jsonl"
`

func TestEvaluator(t *testing.T) {
	t.Parallel()
	e, at := evaluator(t, goodEval)
	if err := os.MkdirAll(at.Output, 0o755); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(at.Output, "results_2020.json")
	if err := os.WriteFile(stale, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(stale, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	r := e.Run(t.Context(), EvalGroup{IDs: []string{"a", "b"}, Task: task("a", "gsm8k")}, at)
	if r.Status != artifact.Done || r.ExitCode == nil || *r.ExitCode != 0 || len(r.Files) != 2 || len(r.Data) != 2 || r.Adapter != "local-completions" {
		t.Fatalf("%+v", r)
	}
	if !strings.Contains(string(r.Data[0]), "strict-match") || string(r.Data[1]) != "{\"doc_id\":0}\n" || !slices.Equal(r.Stale, []string{stale}) {
		t.Errorf("%+v", r)
	}
	if !slices.Equal(r.IDs, []string{"a", "b"}) || r.Argv[0] != "lm_eval" {
		t.Errorf("%+v", r)
	}
}

func TestEvaluatorFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ script, reason string }{
		"exit status":   {"echo doing; echo 'KeyError: logprobs' >&2; exit 3\n", "lm-eval ended with exit status 3: KeyError: logprobs"},
		"no file":       {"exit 0\n", "left no results"},
		"not whole":     {strings.ReplaceAll(goodEval, "0.5}}}", "0.5"), "not a result of lm-eval"},
		"stale":         {"while [ \"$1\" != --output_path ]; do shift; done; touch -d @5 \"$2/results_1.json\"\n", "older than its start"},
		"never ends":    {"exec sleep 1000\n", "exec_timeout_sec"},
		"not installed": {"", "installing lm-eval"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, at := evaluator(t, tt.script)
			tk := task("a", "gsm8k")
			if name == "never ends" {
				tk.ExecTimeout = 1
			}
			if name == "not installed" {
				e.Runner = standIns(t, map[string]string{"python": "exit 1\n", "pip": "echo 'no network' >&2; exit 1\n"})
			}
			r := e.Run(t.Context(), EvalGroup{IDs: []string{"a"}, Task: tk}, at)
			if r.Status != artifact.Failed || !strings.Contains(r.Reason, tt.reason) || len(r.Files) != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestEvaluatorLostHost(t *testing.T) {
	t.Parallel()
	e := Evaluator{Runner: scripted{{part: "mkdir", err: errors.New("connection lost")}}}
	ctx, cancel := context.WithCancel(t.Context())
	if r := e.Run(ctx, EvalGroup{IDs: []string{"a"}, Task: task("a", "gsm8k")}, place); r.Status != artifact.Failed || !strings.Contains(r.Reason, "connection lost") {
		t.Errorf("%+v", r)
	}
	cancel()
	if r := e.Run(ctx, EvalGroup{IDs: []string{"a"}, Task: task("a", "gsm8k")}, place); r.Status != artifact.Interrupted {
		t.Errorf("%+v", r)
	}
}

func FuzzSplitArgs(f *testing.F) {
	for _, s := range []string{"a=1,b=2", `a="x,y"`, "a=[1,(2]", ",,", "'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if parts, err := splitArgs(s); err == nil && len(strings.Join(parts, ",")) > len(s) {
			t.Errorf("%q grew to %q", s, parts)
		}
	})
}

func FuzzNewestResult(f *testing.F) {
	f.Add([]byte("1001.25 20 /o/results_1.json\x00"))
	f.Add([]byte("NaN 1 results\x00inf -1 samples_\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if files, _, err := NewestResult(b, 1000); err == nil && len(files) == 0 {
			t.Error("no file and no error")
		}
	})
}
