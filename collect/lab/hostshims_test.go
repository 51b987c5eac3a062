package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cvs/collect/strictjson"
)

func TestFabricShims(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Nodes: 2})
	c := dial(t, l, 1)
	for _, tc := range []struct {
		command string
		want    result
	}{
		{"ibv_devinfo -l | head -2", result{out: "8 HCAs found:\n\tmlx5_0\n"}},
		{"ip -4 -o addr show | awk '{print $2, $4}'", result{out: "lo 127.0.0.2/8\neth0 10.77.0.2/24\n"}},
		{"ip -o link show dev eth0 | grep -o 'state UP'", result{out: "state UP\n"}},
		{"ip -o link show dev eth9", result{err: "Device \"eth9\" does not exist.\n", code: 1}},
		{"ip route get 10.77.0.1 | head -1", result{out: "10.77.0.1 dev eth0 src 10.77.0.2 uid 0 \n"}},
		{"getent ahostsv4 lab-node-0 | awk 'NR==1{print $1}'", result{out: "10.77.0.1\n"}},
		{"getent ahostsv4 127.0.0.2 | awk 'NR==1{print $1}'", result{out: "10.77.0.2\n"}},
		{"pip install -q 'lm-eval[api,math]==0.4.12' && python3 -m pip show lm-eval | grep Version", result{out: "Version: 0.4.12\n"}},
		{`python -c "import importlib.metadata as m; import lm_eval, math_verify; assert m.version('lm-eval') == '0.4.12'"`, result{}},
		{`python -c "import importlib.metadata as m; import lm_eval, math_verify; assert m.version('lm-eval') == '0.4.11'" 2>/dev/null`, result{code: 1}},
		{"HF_HUB_CACHE=~/hub hf download openai/gpt-oss-120b >/dev/null && test -s ~/hub/models--openai--gpt-oss-120b/snapshots/*/config.json", result{}},
		{"hf download no/such 2>/dev/null", result{code: 1}},
	} {
		if got := run(t, c, tc.command, ""); got != tc.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.command, got, tc.want)
		}
	}
	if err := l.SetFaults(1, Faults{HCAs: []string{"bnxt_re0"}, Netdev: "ens1"}); err != nil {
		t.Fatal(err)
	}
	if got := mustRun(t, c, "ibv_devinfo -l; ip route get 10.77.0.1"); !strings.Contains(got, "1 HCAs found:\n\tbnxt_re0\n") || !strings.Contains(got, "dev ens1") {
		t.Errorf("with other hardware: %q", got)
	}
}

func TestSMI(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 2})
	c := dial(t, l, 0)
	metric := func(key ...string) float64 {
		t.Helper()
		v, _, err := strictjson.Parse([]byte(mustRun(t, c, "amd-smi metric --json")), strictjson.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if v.Kind == strictjson.Object {
			v = v.Get("gpu_data")
		}
		if len(v.Items) != nodeGPUs {
			t.Fatalf("%d GPUs", len(v.Items))
		}
		for v = v.Items[0]; len(key) > 0; key = key[1:] {
			v = v.Get(key[0])
		}
		return must(v.Get("value").Float())
	}
	idle, vram, before := metric("usage", "gfx_activity"), metric("mem_usage", "used_vram"), metric("energy", "total_energy_consumption")
	port := freePort(t)
	startServer(t, l, c, port, fmt.Sprintf(serve, port))
	dir := filepath.Join(l.NodeDir(0), "tmp")
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start(fmt.Sprintf(drive, port, 64, 256, 16, 64, 0, dir, 16)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return metric("usage", "gfx_activity") > 80 }, func() string { return "the GPUs stay idle under load" })
	if got := metric("power", "socket_power"); got < idleWatts+busyWatts/2 {
		t.Errorf("%v W under load", got)
	}
	if got := metric("mem_usage", "used_vram"); got < vram+vramMB/2 {
		t.Errorf("%v MB with a model, %v without", got, vram)
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return metric("usage", "gfx_activity") == idle }, func() string { return "the GPUs stay busy" })
	if after := metric("energy", "total_energy_consumption"); after < before+busyWatts/4 {
		t.Errorf("energy from %v to %v J", before, after)
	}
	for fault, command := range map[SMIFault]string{
		SMIList:         `amd-smi metric --json | cut -c1 | grep -qx '\['`,
		SMINotAvailable: `amd-smi metric --json | grep -q '"gfx_activity": "N/A"'`,
		SMIAbsent:       `! command -v amd-smi >/dev/null`,
		SMITruncated:    `test "$(amd-smi metric --json | tr -cd '{' | wc -c)" != "$(amd-smi metric --json | tr -cd '}' | wc -c)"`,
		SMIFails:        `! amd-smi metric --json 2>/dev/null`,
		SMIHealthy:      `amd-smi static --asic --json | grep -q '"market_name": "lab-sim"' && amd-smi metric | grep -q '^    GFX_ACTIVITY: [0-9]* %'`,
	} {
		if err := l.SetFaults(0, Faults{SMI: fault}); err != nil {
			t.Fatal(err)
		}
		if r := run(t, c, command, ""); r.code != 0 {
			t.Errorf("amd-smi %q: %+v", fault, r)
		}
	}
}

func TestKernelLog(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	if err := l.LogKernel(0, "err", "amdgpu 0000:05:00.0: GPU reset begin!"); err != nil {
		t.Fatal(err)
	}
	for command, pattern := range map[string]string{
		"sudo -n dmesg --time-format iso -x | tail -1": `^kern  :err   : \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d amdgpu 0000:05:00.0: GPU reset begin!\n$`,
		"dmesg -T | tail -1":                           `^\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\] amdgpu`,
		"dmesg | tail -1":                              `^\[ +\d+\.\d{6}\] amdgpu`,
		"journalctl -k -q --no-pager -o short-iso --since @0 | tail -1":         `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} lab-node-0 kernel: amdgpu`,
		"journalctl -k -q --no-pager -o short-iso --since @99999999999; echo x": `^x\n$`,
	} {
		if got := mustRun(t, c, command); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: %q", command, got)
		}
	}
	if err := l.SetFaults(0, Faults{DmesgDenied: true}); err != nil {
		t.Fatal(err)
	}
	if r := run(t, c, "dmesg", ""); r.code != 1 || !strings.Contains(r.err, "not permitted") {
		t.Errorf("denied: %+v", r)
	}
}

// TestAnswers asks what checks ask, healthy and with every fault.
func TestAnswers(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 50})
	c := dial(t, l, 0)
	port := freePort(t)
	startServer(t, l, c, port, fmt.Sprintf(serve, port))
	chat := func(prompt string, temperature float64) string {
		t.Helper()
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":64,"temperature":%g}`, prompt, temperature)
		return chatText(t, l, port, body)
	}
	const book, needle, prose, total = "Describe a book as a JSON object.", "The key is NEEDLE-AB12CD34. foo foo\n\nWhich key?", "How does rain form?", "What is 20 + 22?"
	fault := func(f AnswerFault) {
		t.Helper()
		if err := l.SetFaults(0, Faults{Answers: f}); err != nil {
			t.Fatal(err)
		}
	}
	if got := chat(book, 0); !json.Valid([]byte(got)) {
		t.Errorf("book: %q", got)
	}
	if got := chat(needle, 0); !strings.Contains(got, "NEEDLE-AB12CD34") {
		t.Errorf("needle: %q", got)
	}
	if got := chat("Reply with the single word OK.", 0); got != "OK" {
		t.Errorf("OK: %q", got)
	}
	if got := chat(total, 0); !strings.HasSuffix(got, "#### 42") {
		t.Errorf("sum: %q", got)
	}
	same := chat(prose, 0)
	if again := chat(prose, 0); again != same || len(same) < 20 {
		t.Errorf("temperature 0: %q, then %q", same, again)
	}
	if other := chat(prose, 1); other == same {
		t.Error("temperature 1 says the same")
	}
	fault(AnswersJSON)
	if got := chat(book, 0); json.Valid([]byte(got)) {
		t.Errorf("bad book: %q", got)
	}
	fault(AnswersEmpty)
	if got := chat(prose, 0); got != "" {
		t.Errorf("empty: %q", got)
	}
	fault(AnswersLoop)
	if got := chat(prose, 0); !strings.HasPrefix(got, "again again again again again") {
		t.Errorf("loop: %q", got)
	}
	fault(AnswersWrong)
	if got := chat(needle, 0); strings.Contains(got, "AB12CD34") {
		t.Errorf("wrong needle: %q", got)
	}
	if got := chat(total, 0); strings.HasSuffix(got, "#### 42") {
		t.Errorf("wrong sum: %q", got)
	}
	fault(AnswersDrift)
	if a, b := chat(prose, 0), chat(prose, 0); a == b {
		t.Error("drift says the same twice")
	}
	if err := l.SetFaults(0, Faults{ECCError: true}); err != nil {
		t.Fatal(err)
	}
	chat(prose, 0)
	chat(prose, 0)
	eventually(t, func() bool { return mustRun(t, c, "dmesg | grep -c ERREVENT_ATHUB_INTERRUPT || :") == "1\n" }, func() string { return "no ECC record" })
}

func TestLowAcceptance(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 50, Faults: Faults{Acceptance: 0.1}})
	c := dial(t, l, 0)
	port, dir := freePort(t), filepath.Join(l.NodeDir(0), "tmp")
	startServer(t, l, c, port, fmt.Sprintf(serve, port)+" --method mtp --num-speculative-tokens 3")
	mustRun(t, c, fmt.Sprintf(drive, port, 16, 64, 4, 8, 0, dir, 4))
	v, _ := parseResult(t, dir+"/c4.json")
	if got := number(t, v, "acceptance_rate"); got > 0.1 {
		t.Errorf("acceptance rate %v", got)
	}
}

func TestLMEval(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 50})
	c := dial(t, l, 0)
	port, out := freePort(t), filepath.Join(l.NodeDir(0), "tmp", "acc")
	startServer(t, l, c, port, fmt.Sprintf(serve, port))
	eval := func(model, path, tasks, more string) string {
		return fmt.Sprintf("lm_eval --model %s --model_args base_url=http://127.0.0.1:%d%s,model=org/m,tokenizer=org/m,num_concurrent=4,max_retries=3 --tasks %s --output_path %s --log_samples --batch_size 1 --seed 0,1234,1234,1234 %s",
			model, port, path, tasks, out, more)
	}
	results := func() *strictjson.Value {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(out, "org__m", "results_*.json"))
		if err != nil || len(paths) != 1 {
			t.Fatalf("results: %v, %v", paths, err)
		}
		v, _ := parseResult(t, paths[0])
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		return v
	}
	mustRun(t, c, eval("local-completions", "/v1/completions", "gsm8k mmlu_pro", "--num_fewshot 5 --limit 30"))
	v := results()
	row := v.Get("results").Get("gsm8k")
	if got := must(row.Get("exact_match,flexible-extract").Float()); got < 0.8 || got >= 1 {
		t.Errorf("gsm8k %v of 30", got)
	}
	if must(row.Get("sample_len").Float()) != 30 || must(v.Get("n-samples").Get("gsm8k").Get("original").Float()) != 1319 || v.Get("lm_eval_version").Text != "0.4.12" {
		t.Errorf("gsm8k row: %+v", row)
	}
	if v.Get("groups").Get("mmlu_pro") == nil || v.Get("results").Get("mmlu_pro_math") == nil {
		t.Error("the group is not there")
	}
	// The server really decides.
	if err := l.SetFaults(0, Faults{Answers: AnswersWrong}); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, eval("local-chat-completions", "/v1/chat/completions", "gsm8k", "--limit 10 --apply_chat_template"))
	if got := must(results().Get("results").Get("gsm8k").Get("exact_match,flexible-extract").Float()); got != 0 {
		t.Errorf("wrong sums score %v", got)
	}
	for name, command := range map[string]string{
		"'NoneType' object is not subscriptable": eval("local-completions", "/v1/completions", "hellaswag", "--limit 4"),
		"Tasks not found":                        eval("local-completions", "/v1/completions", "no_such", ""),
		"ClientConnectorError":                   strings.Replace(eval("local-completions", "/v1/completions", "gsm8k", "--limit 1"), itoa(port), "1", 1),
	} {
		if r := run(t, c, command, ""); r.code != 1 || !strings.Contains(r.err, name) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestVLLMEval: a server with log-likelihoods can be asked multiple choice.
func TestVLLMEval(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 50})
	c := dial(t, l, 0)
	port, out := freePort(t), filepath.Join(l.NodeDir(0), "tmp", "acc")
	startServer(t, l, c, port, fmt.Sprintf("vllm serve org/m --port %d", port))
	mustRun(t, c, fmt.Sprintf("lm_eval --model local-completions --model_args base_url=http://127.0.0.1:%d/v1/completions,model=org/m,num_concurrent=8 --tasks arc_challenge --limit 60 --output_path %s", port, out))
	paths, err := filepath.Glob(filepath.Join(out, "org__m", "results_*.json"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	v, _ := parseResult(t, paths[0])
	if got := must(v.Get("results").Get("arc_challenge").Get("acc,none").Float()); got < 0.8 || got == 1 {
		t.Errorf("arc_challenge %v", got)
	}
}

// TestRanks: a server of two nodes comes up together and goes down together.
func TestRanks(t *testing.T) {
	t.Parallel()
	for _, isolate := range []Isolation{IsolateOff, IsolateAuto} {
		t.Run(string(isolate), func(t *testing.T) {
			t.Parallel()
			l := startLab(t, Options{Nodes: 2, Isolate: isolate})
			if ok, why := l.Isolated(); !ok && isolate != IsolateOff {
				if os.Getenv("CVS_TEST_REAL") == "1" {
					t.Fatal("no namespaces on this machine: " + why)
				}
				t.Skip("no namespaces on this machine: " + why)
			}
			a, b := dial(t, l, 0), dial(t, l, 1)
			master := l.nodes[0].info.IP
			port, meet := freePort(t), freePort(t)
			command := func(rank int) string {
				return fmt.Sprintf("python3 -m sglang.launch_server --model-path org/m --port %d --tp 8 --pp-size 2 --nnodes 2 --node-rank %d --dist-init-addr %s:%d", port, rank, master, meet)
			}
			head, worker := filepath.Join(l.NodeDir(0), "server.log"), filepath.Join(l.NodeDir(1), "worker.log")
			mustRun(t, a, "nohup "+command(0)+" >"+head+" 2>&1 & echo")
			if r := run(t, a, "sleep 0.3; grep -c 'Uvicorn running' "+head, ""); r.out != "0\n" {
				t.Error("rank 0 does not wait for rank 1")
			}
			mustRun(t, b, "nohup sh -c '"+command(1)+"; echo exit $?' >"+worker+" 2>&1 & echo")
			eventually(t, func() bool { return run(t, a, "grep -c 'Uvicorn running' "+head, "").out == "1\n" }, func() string { return "rank 0 never came up" })
			drop := filepath.Join(l.NodeDir(0), "tmp")
			mustRun(t, a, fmt.Sprintf("python3 -m sglang.bench_serving --backend sglang --host localhost --port %d --model org/m --dataset-name random --random-input-len 32 --random-output-len 200 --num-prompts 16 --max-concurrency 8 --output-file %s/r.jsonl", port, drop))
			eventually(t, func() bool { return gpuStates(l.NodeDir(1), time.Now())[0].Joules > 0 }, func() string { return "the GPUs of rank 1 do nothing" })
			mustRun(t, a, "kill -9 $(pgrep -f 'node-rank 0' | head -1)")
			eventually(t, func() bool { return strings.Contains(run(t, b, "cat "+worker, "").out, "exit 1") }, func() string { return "rank 1 outlives rank 0" })
		})
	}
}

// TestPipelineHalvesTheWork: what two nodes gain is the model's arithmetic.
func TestPipelineHalvesTheWork(t *testing.T) {
	t.Parallel()
	one, two := newHardware(8, 1), newHardware(16, 1)
	if a, b := one.step(4096, 0, 0, 0), two.step(4096, 0, 0, 0); b-one.launch > (a-one.launch)*0.51 {
		t.Errorf("a prefill takes %v s on one node, %v s on two", a, b)
	}
}
