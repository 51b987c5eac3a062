package lab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/strictjson"

	"github.com/google/go-cmp/cmp"
)

const (
	serve = "python -m atom.entrypoints.openai_server --model org/m --server-port %d -tp 8"
	drive = "python3 -m atom.benchmarks.benchmark_serving --model org/m --backend vllm --base-url http://localhost:%d --dataset-name random " +
		"--random-input-len %d --random-output-len %d --random-range-ratio 0.8 --max-concurrency %d --num-prompts %d --trust-remote-code " +
		"--num-warmups %d --request-rate inf --ignore-eos --save-result --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 90,95,99 " +
		"--result-dir %s --result-filename c%d.json"
)

func freePort(t *testing.T) int {
	t.Helper()
	p, err := FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// parseResult reads an artefact and its keys in order.
func parseResult(t *testing.T, path string) (*strictjson.Value, []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := strictjson.Parse(data, strictjson.Options{NonFinite: true})
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, data)
	}
	var keys []string
	for _, m := range v.Members {
		keys = append(keys, m.Name)
	}
	return v, keys
}

func number(t *testing.T, v *strictjson.Value, key string) float64 {
	t.Helper()
	f, err := v.Get(key).Float()
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return f
}

// TestSaturation is the whole way: a server and clients started over SSH in a
// container, and the shape of the curve that real hardware has.
func TestSaturation(t *testing.T) { // not parallel: it measures
	l := startLab(t, Options{Seed: 1})
	c := dial(t, l, 0)
	port, dir := freePort(t), filepath.Join(l.NodeDir(0), "tmp")
	mustRun(t, c, "docker run -d --name w "+DemoImage+" sleep infinity")
	startServer(t, l, c, port, "docker exec w "+fmt.Sprintf(serve, port))
	got := map[int]*strictjson.Value{}
	for _, n := range []int{1, 8, 32} {
		out := mustRun(t, c, "docker exec w "+fmt.Sprintf(drive, port, 256, 32, n, max(12, 3*n), n, dir, n))
		for _, want := range []string{"Starting initial single prompt test run...", fmt.Sprintf("Warming up with %d requests...", n), "Warmup completed.",
			"Traffic request rate: inf", "Starting main benchmark run...", "============ Serving Benchmark Result ============", "Successful requests:", "P99 E2EL (ms):"} {
			if !strings.Contains(out, want) {
				t.Errorf("the console lacks %q:\n%s", want, out)
			}
		}
		got[n], _ = parseResult(t, fmt.Sprintf("%s/c%d.json", dir, n))
		if number(t, got[n], "completed") != float64(max(12, 3*n)) {
			t.Errorf("c=%d: completed %v", n, number(t, got[n], "completed"))
		}
	}
	tput := func(n int) float64 { return number(t, got[n], "output_throughput") }
	ttft := func(n int) float64 { return number(t, got[n], "median_ttft_ms") }
	t.Logf("output tok/s %.0f %.0f %.0f, median TTFT ms %.1f %.1f %.1f", tput(1), tput(8), tput(32), ttft(1), ttft(8), ttft(32))
	if tput(32) < 3*tput(1) || tput(8) < 1.5*tput(1) {
		t.Errorf("throughput does not grow: %.0f, %.0f, %.0f", tput(1), tput(8), tput(32))
	}
	if ttft(32) < 1.5*ttft(1) {
		t.Errorf("TTFT does not grow with concurrency: %.1f ms, %.1f ms", ttft(1), ttft(32))
	}
	for n, v := range got {
		// Little's law ties the client's own figures together.
		if inFlight := number(t, v, "concurrency"); inFlight > float64(n)*1.02 || inFlight < float64(n)*0.4 {
			t.Errorf("c=%d: %.2f requests in flight", n, inFlight)
		}
	}
}

// TestArtefact holds the file to the real one: same keys in the same order, one
// line, and the quirks.
func TestArtefact(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 40})
	c := dial(t, l, 0)
	port, dir := freePort(t), filepath.Join(l.NodeDir(0), "tmp")
	startServer(t, l, c, port, fmt.Sprintf(serve, port))
	mustRun(t, c, strings.Replace(fmt.Sprintf(drive, port, 16, 8, 2, 4, 0, dir, 2), "90,95,99", "99", 1))
	_, want := parseResult(t, "testdata/atom_real.json")
	v, keys := parseResult(t, dir+"/c2.json")
	want = append(want, "benchmark_start_time_unix", "benchmark_end_time_unix", "gpu_name")
	if d := cmp.Diff(want, keys); d != "" {
		t.Errorf("keys (-real +lab):\n%s", d)
	}
	if got := v.Get("gpu_name").Text; got != GPUName {
		t.Errorf("gpu_name %q", got)
	}
	if r := v.Get("request_rate"); r.Kind != strictjson.String || r.Text != "inf" {
		t.Errorf("request_rate %v", r)
	}
	if g := v.Get("request_goodput:"); g.Kind != strictjson.Null {
		t.Errorf("request_goodput: %v", g)
	}
	if !regexp.MustCompile(`^\d{8}-\d{6}$`).MatchString(v.Get("date").Text) {
		t.Errorf("date %q", v.Get("date").Text)
	}
	if start := number(t, v, "benchmark_start_time_unix"); time.Since(time.Unix(int64(start), 0)) > time.Hour {
		t.Errorf("start %v", start)
	}
	data, err := os.ReadFile(dir + "/c2.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "\n") || !strings.Contains(string(data), `"burstiness": 1.0, `) {
		t.Errorf("not as Python writes it: %s", data)
	}

	// Everything on: arrays, metadata, goodput, a rate, fractions of percentiles.
	mustRun(t, c, fmt.Sprintf("cd %s && python -m atom.benchmarks.benchmark_serving --model=org/m --base_url http://127.0.0.1:%d --dataset_name random "+
		"--random_input_len 8 --random_output_len 4 --num_prompts 3 --request_rate 500 --burstiness 2.5 --save_result --save_detailed --use-chat-template "+
		"--metadata input_len=8 tp=1 --goodput ttft:10000 e2el:20000 --metric_percentiles 50,99.9 --result_filename d.json --disable_tqdm", dir, port))
	v, keys = parseResult(t, dir+"/d.json")
	i := slices.Index(keys, "acceptance_rate")
	if d := cmp.Diff([]string{"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors", "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p50_ttft_ms", "p99.9_ttft_ms"}, keys[i+1:i+12]); d != "" {
		t.Errorf("detailed keys (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"num_prompts", "input_len", "tp", "request_rate"}, keys[5:9]); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
	if v.Get("input_len").Kind != strictjson.String || v.Get("max_concurrency").Kind != strictjson.Null || number(t, v, "request_rate") != 500 {
		t.Errorf("metadata, limit or rate: %v %v", v.Get("input_len"), v.Get("max_concurrency"))
	}
	if g := number(t, v, "request_goodput:"); g <= 0 {
		t.Errorf("goodput %v", g)
	}
	if n := len(v.Get("itls").Items); n != 3 {
		t.Errorf("%d lists of itls", n)
	}
}

func TestOtherClients(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 40})
	c := dial(t, l, 0)
	port, dir := freePort(t), filepath.Join(l.NodeDir(0), "tmp")
	startServer(t, l, c, port, fmt.Sprintf("python3 -m vllm.entrypoints.cli.main serve org/m --host 0.0.0.0 --tensor-parallel-size 8 --max-model-len 4096 --port %d --block-size 64 --no-enable-prefix-caching", port))
	mustRun(t, c, fmt.Sprintf("python3 -m vllm.entrypoints.cli.main bench serve --model org/m --backend vllm --base-url http://0.0.0.0:%d --dataset-name random --num-prompts 4 "+
		"--random-input-len 16 --random-output-len 8 --max-concurrency 2 --request-rate inf --burstiness 1.0 --tokenizer-mode auto --seed 0 --random-range-ratio 0.8 "+
		"--random-prefix-len 0 --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 99 --ignore-eos --save-result --result-dir %s --result-filename v --disable-tqdm", port, dir))
	_, want := parseResult(t, "testdata/vllm_real.json")
	_, keys := parseResult(t, dir+"/v")
	if d := cmp.Diff(append(want, "gpu_name"), keys); d != "" {
		t.Errorf("vLLM keys (-real +lab):\n%s", d)
	}
	sglang := fmt.Sprintf("python3 -m sglang.bench_serving --backend sglang --host 127.0.0.1 --port %d --model org/m --dataset-name random --num-prompts 3 "+
		"--random-input-len 16 --random-output-len 8 --random-range-ratio 0.8 --max-concurrency 2 --request-rate inf --output-file %s/s.jsonl", port, dir)
	mustRun(t, c, sglang+" && "+sglang)
	data, err := os.ReadFile(dir + "/s.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"request_rate": Infinity, `) {
		t.Errorf("sglang file: %s", data)
	}
	v, _, err := strictjson.Parse([]byte(lines[1]), strictjson.Options{NonFinite: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"total_throughput", "mean_e2e_latency_ms", "p95_itl_ms", "server_info", "max_output_tokens_per_s"} {
		if v.Get(k) == nil {
			t.Errorf("sglang lacks %s", k)
		}
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 40})
	c := dial(t, l, 0)
	port := freePort(t)
	startServer(t, l, c, port, fmt.Sprintf(serve, port)+" --max-model-len 64 --method mtp --num-speculative-tokens 3")
	client := &http.Client{Transport: &http.Transport{DialContext: c.DialContext}}
	base := fmt.Sprintf("http://localhost:%d", port)
	call := func(path, body string) (int, string, string) {
		t.Helper()
		var resp *http.Response
		var err error
		if body == "" {
			resp, err = client.Get(base + path)
		} else {
			resp, err = client.Post(base+path, "application/json", strings.NewReader(body))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Content-Type"), readAll(t, resp.Body)
	}
	for _, tc := range []struct {
		path, body string
		status     int
		want       string // regular expression
	}{
		{"/health", "", 200, `^\{"status":"ok"\}`},
		{"/v1/models", "", 200, `"object":"list","data":\[\{"id":"org/m","object":"model","created":\d+,"owned_by":"atom"\}\]`},
		{"/server_info", "", 200, `"tp_size":8`},
		{"/v1/completions", `{"model":"org/m","prompt":"hi","max_tokens":1}`, 200,
			`^\{"id":"cmpl-[0-9a-f]{32}","object":"text_completion","created":\d+,"model":"org/m","choices":\[\{"index":0,"text":" \w+","finish_reason":"max_tokens"\}\],"usage":\{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"ttft_s":`},
		{"/v1/completions", `{"prompt":"a b c","max_tokens":50}`, 200, `"prompt_tokens":3`},
		{"/v1/completions", `{"model":"other","prompt":"hi"}`, 400, `^\{"detail":".*does not match`},
		{"/v1/completions", `{"model":"org/m/","prompt":"hi","max_tokens":1}`, 200, `cmpl-`},
		{"/v1/completions", `{"prompt":"hi","max_tokens":64}`, 400, `maximum context length is 64`},
		{"/v1/completions", `{"prompt":["hi"]}`, 422, `^\{"detail":\[\{`},
		{"/v1/completions", `{"prompt":`, 422, `^\{"detail":\[\{`},
		{"/v1/completions", `{"max_tokens":1}`, 422, `Field required`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Reply with the single word OK"}],"max_tokens":8,"temperature":0}`, 200,
			`"object":"chat.completion".*"message":\{"role":"assistant","content":"OK"\},"finish_reason":"stop"`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"one book"}],"max_tokens":50,"response_format":{"type":"json_object"}}`, 200, `\\"author\\"`},
		{"/v1/chat/completions", `{"model":"org/m"}`, 422, `messages`},
		{"/metrics", "", 200, `(?s)atom:requests_running \d.*atom:generation_tokens_total \d.*atom:mtp_acceptance_rate 0\.\d`},
		{"/debug/mtp_stats", "", 200, `"enabled":true,"total_draft_tokens":\d+`},
		{"/nothing", "", 404, ``},
	} {
		status, _, got := call(tc.path, tc.body)
		if status != tc.status || !regexp.MustCompile(tc.want).MatchString(got) {
			t.Errorf("%s %s: %d %s, want %d %s", tc.path, tc.body, status, got, tc.status, tc.want)
		}
	}
	_, first, a := call("/v1/completions", `{"prompt":"The capital of France is","max_tokens":20,"stream":true,"ignore_eos":true}`)
	if !strings.HasPrefix(first, "text/event-stream") {
		t.Errorf("content type %q", first)
	}
	frames := strings.Split(strings.TrimSuffix(a, "\n\n"), "\n\n")
	n := len(frames)
	if n < 4 || frames[n-1] != "data: [DONE]" || !strings.Contains(frames[n-2], `"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 20, "total_tokens": 25}`) ||
		!strings.Contains(frames[n-3], `"text": "", "finish_reason": "stop"`) || !strings.Contains(frames[n-4], `"finish_reason": "max_tokens"`) {
		t.Errorf("the stream ends in\n%s", strings.Join(frames[max(0, n-4):], "\n"))
	}
	for _, f := range frames[:n-1] {
		if !json.Valid([]byte(strings.TrimPrefix(f, "data: "))) {
			t.Errorf("not JSON: %s", f)
		}
	}
	if _, _, s := call("/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true}`); !strings.Contains(s, `"delta": {"role": "assistant", "content": ""}`) ||
		!strings.Contains(s, `"finish_reason": "length"`) || !strings.HasSuffix(s, "data: [DONE]\n\n") {
		t.Errorf("chat stream: %s", s)
	}
}

func TestServerLife(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 40})
	c := dial(t, l, 0)
	port := freePort(t)
	log := startServer(t, l, c, port, fmt.Sprintf(serve, port))
	if r := run(t, c, fmt.Sprintf(serve, port), ""); r.code != 1 || !strings.Contains(r.err, "address already in use") {
		t.Errorf("port in use: %+v", r)
	}
	for args, want := range map[string]string{
		" --frobnicate":          "error: unrecognized arguments: --frobnicate",
		" --kv_cache_dtype int3": "invalid choice: 'int3'",
		" --max-model-len":       "expected one argument",
		" --max-num-seqs many":   "invalid int value: 'many'",
	} {
		if r := run(t, c, fmt.Sprintf(serve, port)+args, ""); r.code != 2 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	// TERM to the process that has the port.
	pids, err := l.Processes()
	if err != nil || len(pids) != 1 {
		t.Fatalf("processes %v, %v", pids, err)
	}
	mustRun(t, c, fmt.Sprintf("kill -TERM %d", pids[0]))
	eventually(t, func() bool { p, err := l.Processes(); return err == nil && len(p) == 0 }, func() string { return "the server ignores TERM" })
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Loading tokenizer from org/m", "Initializing engine with model org/m", "Starting server on 0.0.0.0:", "Server started successfully and ready to accept requests"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the log lacks %q:\n%s", want, data)
		}
	}

	if err := l.SetFaults(0, Faults{ServerDiesAtStart: true}); err != nil {
		t.Fatal(err)
	}
	if r := run(t, c, fmt.Sprintf(serve, port), ""); r.code != 1 || !strings.Contains(r.err, "proc died unexpectedly") {
		t.Errorf("dying at start: %+v", r)
	}
	if err := l.SetFaults(0, Faults{ServerDiesAfter: 3}); err != nil {
		t.Fatal(err)
	}
	startServer(t, l, c, port, fmt.Sprintf(serve, port))
	dir := filepath.Join(l.NodeDir(0), "tmp")
	out := mustRun(t, c, fmt.Sprintf(drive, port, 16, 8, 1, 6, 0, dir, 1))
	if !strings.Contains(out, "FAILED requests:") {
		t.Errorf("the client did not notice:\n%s", out)
	}
	v, _ := parseResult(t, dir+"/c1.json")
	if n := number(t, v, "completed"); n < 2 || n > 3 {
		t.Errorf("completed %v of a server that died after 3", n)
	}
}

func TestClientFaults(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Speed: 40})
	c := dial(t, l, 0)
	port, dir := freePort(t), filepath.Join(l.NodeDir(0), "tmp")
	// Nobody listens: every request fails, the figures are zero, the exit code too.
	out := run(t, c, fmt.Sprintf(drive, port, 16, 8, 2, 4, 0, dir, 9), "")
	v, _ := parseResult(t, dir+"/c9.json")
	if out.code != 0 || number(t, v, "completed") != 0 || number(t, v, "mean_ttft_ms") != 0 || !strings.Contains(out.err, "All requests failed") {
		t.Errorf("without a server: %+v", out)
	}
	startServer(t, l, c, port, fmt.Sprintf(serve, port))
	for args, want := range map[string]string{
		" --metric_percentile 9":  "unrecognized arguments: --metric_percentile 9",
		" --dataset-name sonnet":  "invalid choice: 'sonnet'",
		" --goodput":              "expected at least one argument",
		" --request-rate quickly": "invalid float value",
	} {
		if r := run(t, c, fmt.Sprintf(drive, port, 16, 8, 2, 4, 0, dir, 9)+args, ""); r.code != 2 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for _, tc := range []struct {
		fault    ClientFault
		ends     bool
		code     int
		artefact string // whole, half, none
	}{{ClientFails, true, 1, "none"}, {ClientHalf, true, 0, "half"}, {ClientHangs, false, 0, "none"}, {ClientNeverExits, false, 0, "whole"},
		{ClientKilled, true, 137, "none"}, {ClientDiskFull, true, 1, "half"}, {ClientSlow, true, 0, "whole"}} {
		if err := l.SetFaults(0, Faults{Client: tc.fault, ClientConcurrency: 2}); err != nil {
			t.Fatal(err)
		}
		path := dir + "/c2.json"
		os.Remove(path)
		command := fmt.Sprintf(drive, port, 16, 8, 2, 4, 0, dir, 2)
		if !tc.ends {
			command = "timeout 1.5 " + command
			tc.code = 124
		}
		r := run(t, c, command, "")
		data, err := os.ReadFile(path)
		state := "whole"
		switch {
		case os.IsNotExist(err):
			state = "none"
		case !json.Valid(data):
			state = "half"
		}
		if r.code != tc.code || state != tc.artefact {
			t.Errorf("%s: exit %d, artefact %s; want %d, %s\n%s", tc.fault, r.code, state, tc.code, tc.artefact, r.err)
		}
		mustRun(t, c, fmt.Sprintf(drive, port, 16, 8, 1, 2, 0, dir, 1)) // another cell is not concerned
	}
}

func TestPythonElse(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	if got := mustRun(t, c, `python3 -c "import atom; print(atom.__version__)"`); got != labVersion+"\n" {
		t.Errorf("version probe: %q", got)
	}
	if r := run(t, c, "PATH=${PATH%%:*} python3 -m http.server", ""); r.code == 0 || !strings.Contains(r.err, "No module named") {
		t.Errorf("an unknown module without an interpreter: %+v", r)
	}
	if r := run(t, c, "PATH=${PATH%%:*} python3 script.py", ""); r.code != 127 {
		t.Errorf("a script without an interpreter: %+v", r)
	}
	if r := run(t, c, "vllm frob", ""); r.code != 2 || !strings.Contains(r.err, "invalid choice") {
		t.Errorf("vllm frob: %+v", r)
	}
}
