package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// atomBenchParser knows the options of atom.benchmarks.benchmark_serving, with
// their defaults.
func atomBenchParser() *parser {
	return &parser{prog: "benchmark_serving.py", options: concat(
		[]option{
			{names: []string{"--model"}, kind: isString, required: true},
			{names: []string{"--backend"}, kind: isString, fallback: "vllm",
				choices: []string{"tgi", "vllm", "lmdeploy", "deepspeed-mii", "openai", "openai-chat", "tensorrt-llm", "scalellm", "sglang"}},
			{names: []string{"--host"}, kind: isString, fallback: "127.0.0.1"},
			{names: []string{"--port"}, kind: isInt, fallback: "8000"},
			{names: []string{"--endpoint"}, kind: isString, fallback: "/v1/completions"},
			{names: []string{"--dataset-name"}, kind: isString, fallback: "sharegpt", choices: []string{"random"}},
			{names: []string{"--best-of"}, kind: isInt, fallback: "1"},
			{names: []string{"--num-prompts"}, kind: isInt, fallback: "1000"},
			{names: []string{"--request-rate"}, kind: isFloat, fallback: "inf"},
			{names: []string{"--burstiness"}, kind: isFloat, fallback: "1.0"},
			{names: []string{"--seed"}, kind: isInt, fallback: "0"},
			{names: []string{"--metadata"}, kind: isString, many: "*"},
			{names: []string{"--goodput"}, kind: isString, many: "+"},
			{names: []string{"--lora-modules"}, kind: isString, many: "+"},
			{names: []string{"--percentile-metrics"}, kind: isString, fallback: "ttft,tpot,itl"},
			{names: []string{"--metric-percentiles"}, kind: isString, fallback: "99"},
			{names: []string{"--random-input-len"}, kind: isInt, fallback: "1024"},
			{names: []string{"--random-output-len"}, kind: isInt, fallback: "128"},
			{names: []string{"--random-range-ratio"}, kind: isFloat, fallback: "1.0"},
			{names: []string{"--random-prefix-len"}, kind: isInt, fallback: "0"},
			{names: []string{"--num-warmups"}, kind: isInt, fallback: "1"},
			{names: []string{"--tokenizer-mode"}, kind: isString, fallback: "auto", choices: []string{"auto", "slow", "mistral", "custom"}},
			{names: []string{"--sonnet-input-len"}, kind: isInt, fallback: "550"},
			{names: []string{"--sonnet-output-len"}, kind: isInt, fallback: "150"},
			{names: []string{"--sonnet-prefix-len"}, kind: isInt, fallback: "200"},
		},
		options(isInt, "", "--max-concurrency", "--logprobs", "--sharegpt-output-len", "--hf-output-len"),
		options(isString, "", "--base-url", "--dataset-path", "--tokenizer", "--result-dir", "--result-filename", "--served-model-name", "--hf-subset", "--hf-split"),
		flags("--use-beam-search", "--trust-remote-code", "--disable-tqdm", "--profile", "--save-result", "--save-detailed", "--ignore-eos", "--use-chat-template"),
	)}
}

// atomBench is python -m atom.benchmarks.benchmark_serving.
func (s *shim) atomBench(args []string) int {
	a, err := atomBenchParser().parse(args)
	if err != nil {
		s.errorf("%v", err)
		return 2
	}
	b, err := s.newAtomBench(a)
	if err != nil {
		return s.traceback(err)
	}
	fmt.Fprintf(s.stdout, "Namespace(backend=%s, model=%s, num_prompts=%d, max_concurrency=%d)\n", pyRepr(b.backend), pyRepr(b.model), b.prompts, b.max)
	if code, ended := s.misbehave(b); ended {
		return code
	}
	printLengths(s.stdout, b.load.requests)
	ctx := context.Background() // the client has no signal handling: TERM ends it
	client := newHTTPClient(b.max)
	fmt.Fprintln(s.stdout, "Starting initial single prompt test run...")
	if b.warmups > 0 {
		fmt.Fprintf(s.stdout, "Warming up with %d requests...\n", b.warmups)
		b.warm(ctx, client, b.warmups)
		fmt.Fprintln(s.stdout, "Warmup completed.")
	}
	process := "Poisson process"
	if b.burstiness != 1 {
		process = "Gamma distribution"
	}
	fmt.Fprintf(s.stdout, "Traffic request rate: %s\nBurstiness factor: %s (%s)\n", strings.ToLower(strings.Replace(pythonFloat(b.rate), "Infinity", "inf", 1)), pythonFloat(b.burstiness), process)
	concurrency := "None"
	if b.max > 0 {
		concurrency = fmt.Sprint(b.max)
	}
	fmt.Fprintf(s.stdout, "Maximum request concurrency: %s\nStarting main benchmark run...\n", concurrency)
	all, started, took := b.load.run(ctx, client, b.rng)
	b.sent()
	sum := summarise(b, all, started, took)
	if sum.completed == 0 {
		s.errorf("UserWarning: All requests failed. This is likely due to a misconfiguration on the benchmark arguments.")
	}
	length, rate := speculation(ctx, client, b.baseURL)
	result := b.printAtom(s.stdout, sum, length, rate)
	if a.has("--save-result") {
		now := time.Now()
		name := a.text("--result-filename")
		if name == "" {
			name = b.defaultName(now)
		}
		if err := writeResult(resultPath(a.text("--result-dir"), name), b.atomResult(sum, result, now), b.fault, false); err != nil {
			return s.traceback(err)
		}
	}
	return b.written(ctx, client)
}

func (s *shim) newAtomBench(a *arguments) (*bench, error) {
	b := &bench{
		args: a, model: a.text("--model"), tokenizer: a.text("--tokenizer"), backend: a.text("--backend"),
		input: a.integer("--random-input-len"), output: a.integer("--random-output-len"), prompts: a.integer("--num-prompts"),
		warmups: a.integer("--num-warmups"), max: a.integer("--max-concurrency"), families: strings.Split(a.text("--percentile-metrics"), ","),
		rate: a.number("--request-rate"), burstiness: a.number("--burstiness"), rng: newRNG(a.integer("--seed")),
	}
	if b.tokenizer == "" {
		b.tokenizer = b.model
	}
	if a.text("--dataset-name") != "random" {
		return nil, fmt.Errorf("ValueError: Unknown dataset: %s", a.text("--dataset-name"))
	}
	if b.burstiness <= 0 {
		//lint:ignore ST1005 the real client's own words
		return nil, fmt.Errorf("AssertionError: A positive burstiness factor is expected, but given %s.", pythonFloat(b.burstiness))
	}
	if b.prompts < 1 || b.input < 1 || b.output < 1 {
		return nil, errors.New("ValueError: low >= high")
	}
	var err error
	if b.pcts, err = percentiles(a.text("--metric-percentiles")); err != nil {
		return nil, err
	}
	if b.goodput, err = parseGoodput(a.list("--goodput")); err != nil {
		return nil, err
	}
	for _, m := range a.list("--metadata") {
		if !strings.Contains(m, "=") {
			//lint:ignore ST1005 the real client's own words
			return nil, errors.New("ValueError: Invalid metadata format. Please use KEY=VALUE format.")
		}
	}
	if b.baseURL = a.text("--base-url"); b.baseURL == "" {
		b.baseURL = fmt.Sprintf("http://%s:%d", a.text("--host"), a.integer("--port"))
	}
	b.baseURL = s.local(b.baseURL)
	input := b.input
	if a.has("--use-chat-template") {
		input = max(1, input-chatTemplate) // the client makes room for the template
	}
	ratio := a.number("--random-range-ratio")
	b.load = workload{
		url: b.baseURL + a.text("--endpoint"), model: b.model, chat: b.backend == "openai-chat", ignoreEOS: a.has("--ignore-eos"),
		concurrency: b.max, rate: b.rate, burstiness: b.burstiness,
		requests: randomRequests(b.rng, b.prompts, a.integer("--random-prefix-len"), b.lengths(input, ratio), b.lengths(b.output, ratio)),
	}
	if name := a.text("--served-model-name"); name != "" {
		b.load.model = name
	}
	if a.has("--use-chat-template") {
		for i := range b.load.requests {
			r := &b.load.requests[i]
			r.prompt = "<|im_start|> user " + r.prompt + " <|im_end|> <|im_start|> assistant"
			r.input += chatTemplate
		}
	}
	return b, nil
}

func parseGoodput(pairs []string) (map[string]float64, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	out := map[string]float64{}
	for _, p := range pairs {
		var v float64
		name, value, ok := strings.Cut(p, ":")
		if _, err := fmt.Sscanf(value, "%g", &v); !ok || err != nil {
			//lint:ignore ST1005 the real client's own words
			return nil, errors.New(`argparse.ArgumentTypeError: Invalid format found for service level objectives. Specify service level objectives for goodput as "KEY:VALUE" pairs, where the key is a metric name, and the value is a number in milliseconds.`)
		}
		if name != "ttft" && name != "tpot" && name != "e2el" {
			return nil, fmt.Errorf("ValueError: Invalid metric name found, %s: %s. The service level objective name should be one of ['ttft', 'tpot', 'e2el']. ", name, pythonFloat(v))
		}
		out[name] = v
	}
	return out, nil
}

func printLengths(w io.Writer, reqs []request) {
	head := strings.Repeat("-", 19) + "  Input/Output Length Statistics  " + strings.Repeat("-", 19)
	fmt.Fprintln(w, head)
	for _, side := range []struct {
		label string
		of    func(request) int
	}{{" input_lens ", func(r request) int { return r.input }}, {" output_lens", func(r request) int { return r.output }}} {
		lo, hi, total := math.MaxInt, 0, 0
		for _, r := range reqs {
			n := side.of(r)
			lo, hi, total = min(lo, n), max(hi, n), total+n
		}
		fmt.Fprintf(w, "%s: min=%-4d  max=%-4d  mean=%-7.2f\n", side.label, lo, hi, float64(total)/float64(len(reqs)))
	}
	fmt.Fprintln(w, strings.Repeat("-", len(head)), "")
}

func (b *bench) defaultName(now time.Time) string {
	c := ""
	if b.max > 0 {
		c = fmt.Sprintf("-concurrency%d", b.max)
	}
	rate := strings.Replace(pythonFloat(b.rate), "Infinity", "inf", 1)
	model := b.model[strings.LastIndexByte(b.model, '/')+1:]
	return fmt.Sprintf("%s-%sqps%s-%s-%s.json", b.backend, rate, c, model, now.Format("20060102-150405"))
}

// printAtom prints the console report and returns the measured part of the
// result in the order of the real client.
func (b *bench) printAtom(w io.Writer, s *summary, length, rate any) object {
	d := s.duration
	fmt.Fprintln(w, centre(" Serving Benchmark Result ", "="))
	row(w, "Successful requests:", s.completed)
	b.printFailures(w, s)
	row(w, "Benchmark duration (s):", d)
	row(w, "Total input tokens:", s.totalInput)
	row(w, "Total generated tokens:", s.totalOutput)
	row(w, "Request throughput (req/s):", float64(s.completed)/d)
	var goodput any
	if b.goodput != nil {
		goodput = float64(s.good) / d
		row(w, "Request goodput (req/s):", goodput)
	}
	row(w, "Output token throughput (tok/s):", float64(s.totalOutput)/d)
	row(w, "Total Token throughput (tok/s):", float64(s.totalInput+s.totalOutput)/d)
	concurrency := sumOf(s.times["e2el"]) / d
	row(w, "Concurrency:", concurrency)
	if v, ok := length.(float64); ok {
		row(w, "Accept length:", v)
	}
	if v, ok := rate.(float64); ok {
		row(w, "Acceptance rate (%):", 100*v)
	}
	out := object{
		{"duration", d}, {"completed", s.completed}, {"total_input_tokens", s.totalInput}, {"total_output_tokens", s.totalOutput},
		{"request_throughput", float64(s.completed) / d}, {"request_goodput:", goodput}, {"output_throughput", float64(s.totalOutput) / d},
		{"total_token_throughput", float64(s.totalInput+s.totalOutput) / d}, {"concurrency", concurrency},
		{"accept_length", length}, {"acceptance_rate", rate},
	}
	if b.args.has("--save-detailed") {
		out = append(out, b.detailed(s)...)
	}
	return append(out, b.latencies(s, w)...)
}

func (b *bench) printFailures(w io.Writer, s *summary) {
	failed := len(s.all) - s.completed
	if failed == 0 {
		return
	}
	row(w, "FAILED requests:", failed)
	shown := 0
	for _, m := range s.all {
		if !m.ok && shown < 5 {
			shown++
			fmt.Fprintf(w, "  reason: %s\n", strings.ReplaceAll(m.errText, "\n", " "))
		}
	}
}

// detailed are the per-request arrays, in seconds.
func (b *bench) detailed(s *summary) object {
	var in []int
	var ttfts []float64
	var itls [][]float64
	var texts, errs []string
	for i, m := range s.all {
		in = append(in, b.load.requests[i].input)
		ttfts, itls = append(ttfts, m.ttft), append(itls, m.itl)
		texts, errs = append(texts, m.text), append(errs, m.errText)
	}
	return object{{"input_lens", in}, {"output_lens", s.outputLens}, {"ttfts", ttfts}, {"itls", itls}, {"generated_texts", texts}, {"errors", errs}}
}

// atomResult is the artefact: the real client's keys in its order, its quirks
// (a colon at the end of one key, "inf" as a string, no failed), and last the
// times and the name of the GPU.
func (b *bench) atomResult(s *summary, measured object, now time.Time) object {
	out := object{
		{"date", now.Format("20060102-150405")}, {"backend", b.backend}, {"model_id", b.model}, {"tokenizer_id", b.tokenizer},
		{"best_of", b.args.integer("--best-of")}, {"num_prompts", b.prompts},
	}
	for _, m := range b.args.list("--metadata") {
		kv := strings.Split(m, "=")
		out = out.set(strings.TrimSpace(kv[0]), strings.TrimSpace(kv[1]))
	}
	var rate, limit any = b.rate, nil
	if math.IsInf(b.rate, 1) {
		rate = "inf"
	}
	if b.args.has("--max-concurrency") {
		limit = b.max
	}
	for _, m := range append(object{{"request_rate", rate}, {"burstiness", b.burstiness}, {"max_concurrency", limit}}, measured...) {
		out = out.set(m.key, m.value)
	}
	out = out.set("benchmark_start_time_unix", unixTime(s.started))
	out = out.set("benchmark_end_time_unix", unixTime(s.started)+s.duration)
	return out.set("gpu_name", GPUName)
}

func unixTime(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// set assigns like a Python dict: an existing key keeps its place.
func (o object) set(key string, v any) object {
	for i := range o {
		if o[i].key == key {
			o[i].value = v
			return o
		}
	}
	return append(o, member{key, v})
}
