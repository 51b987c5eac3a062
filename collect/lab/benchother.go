package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// vllmBenchParser knows the options of vllm bench serve that cvs and its users
// pass.
func vllmBenchParser() *parser {
	return &parser{prog: "vllm bench serve", options: concat(
		[]option{
			{names: []string{"--backend", "--endpoint-type"}, kind: isString, fallback: "openai",
				choices: []string{"vllm", "openai", "openai-chat"}},
			{names: []string{"--host"}, kind: isString, fallback: "127.0.0.1"},
			{names: []string{"--port"}, kind: isInt, fallback: "8000"},
			{names: []string{"--endpoint"}, kind: isString, fallback: "/v1/completions"},
			{names: []string{"--dataset-name"}, kind: isString, fallback: "random", choices: []string{"random"}},
			{names: []string{"--num-prompts"}, kind: isInt, fallback: "1000"},
			{names: []string{"--request-rate"}, kind: isFloat, fallback: "inf"},
			{names: []string{"--burstiness"}, kind: isFloat, fallback: "1.0"},
			{names: []string{"--seed"}, kind: isInt, fallback: "0"},
			{names: []string{"--metadata"}, kind: isString, many: "*"},
			{names: []string{"--goodput"}, kind: isString, many: "+"},
			{names: []string{"--percentile-metrics"}, kind: isString, fallback: "ttft,tpot,itl"},
			{names: []string{"--metric-percentiles"}, kind: isString, fallback: "99"},
			{names: []string{"--random-input-len", "--input-len"}, kind: isInt, fallback: "1024"},
			{names: []string{"--random-output-len", "--output-len"}, kind: isInt, fallback: "128"},
			{names: []string{"--random-range-ratio"}, kind: isFloat, fallback: "0.0"},
			{names: []string{"--random-prefix-len"}, kind: isInt, fallback: "0"},
			{names: []string{"--num-warmups"}, kind: isInt, fallback: "0"},
			{names: []string{"--tokenizer-mode"}, kind: isString, fallback: "auto", choices: []string{"auto", "slow", "mistral", "custom"}},
		},
		options(isInt, "", "--max-concurrency", "--logprobs", "--ready-check-timeout-sec"),
		options(isFloat, "", "--temperature", "--top-p"),
		options(isString, "", "--model", "--base-url", "--tokenizer", "--result-dir", "--result-filename", "--served-model-name", "--label", "--dataset-path"),
		flags("--trust-remote-code", "--disable-tqdm", "--profile", "--save-result", "--save-detailed", "--append-result", "--ignore-eos"),
	)}
}

// newBench fills what all clients share.
func (s *shim) newBench(a *arguments, model string) (*bench, error) {
	b := &bench{
		args: a, model: model, tokenizer: a.text("--tokenizer"), backend: a.text("--backend"), input: a.integer("--random-input-len"),
		output: a.integer("--random-output-len"), prompts: a.integer("--num-prompts"), max: a.integer("--max-concurrency"),
		rate: a.number("--request-rate"), burstiness: 1, rng: newRNG(a.integer("--seed")),
	}
	if b.tokenizer == "" {
		b.tokenizer = model
	}
	if b.prompts < 1 || b.input < 1 || b.output < 1 {
		return nil, errors.New("ValueError: low >= high")
	}
	if b.baseURL = a.text("--base-url"); b.baseURL == "" {
		b.baseURL = fmt.Sprintf("http://%s:%d", a.text("--host"), a.integer("--port"))
	}
	b.baseURL = s.local(b.baseURL)
	return b, nil
}

// vllmBench is vllm bench serve.
func (s *shim) vllmBench(args []string) int {
	a, err := vllmBenchParser().parse(args)
	if err != nil {
		s.errorf("%v", err)
		return 2
	}
	b, err := s.newBench(a, a.text("--model"))
	if err != nil {
		return s.traceback(err)
	}
	b.families, b.burstiness, b.warmups = strings.Split(a.text("--percentile-metrics"), ","), a.number("--burstiness"), a.integer("--num-warmups")
	if b.pcts, err = percentiles(a.text("--metric-percentiles")); err != nil {
		return s.traceback(err)
	}
	if b.goodput, err = parseGoodput(a.list("--goodput")); err != nil {
		return s.traceback(err)
	}
	// vLLM draws around the length, not below it.
	r := a.number("--random-range-ratio")
	if r < 0 || r >= 1 {
		//lint:ignore ST1005 the real client's own words
		return s.traceback(errors.New("ValueError: random_range_ratio must be in [0, 1)."))
	}
	around := func(n int) (lo, hi int) {
		return int(math.Floor(float64(n) * (1 - r))), int(math.Ceil(float64(n) * (1 + r)))
	}
	inLo, inHi := around(b.input)
	outLo, outHi := around(b.output)
	b.load = workload{url: b.baseURL + a.text("--endpoint"), model: b.model, chat: b.backend == "openai-chat", ignoreEOS: a.has("--ignore-eos"),
		concurrency: b.max, rate: b.rate, burstiness: b.burstiness,
		requests: randomRequests(b.rng, b.prompts, a.integer("--random-prefix-len"), between(inLo, inHi), between(outLo, outHi))}
	if name := a.text("--served-model-name"); name != "" {
		b.load.model = name
	}
	if code, ended := s.misbehave(b); ended {
		return code
	}
	ctx := context.Background()
	client := newHTTPClient(b.max)
	fmt.Fprintln(s.stdout, "Starting initial single prompt test run...")
	if m := b.load.send(ctx, client, b.load.requests[0]); !m.ok {
		return s.traceback(fmt.Errorf("ValueError: Initial test run failed - Please make sure benchmark arguments are correctly specified. Error: %s", m.errText))
	}
	fmt.Fprintln(s.stdout, "Initial test run completed.")
	if b.warmups > 0 {
		b.warm(ctx, client, b.warmups)
	}
	fmt.Fprintln(s.stdout, "Starting main benchmark run...")
	all, started, took := b.load.run(ctx, client, b.rng)
	b.sent()
	sum := summarise(b, all, started, took)
	result := b.vllmMeasured(s, sum)
	if a.has("--save-result") || a.has("--append-result") {
		now := time.Now()
		name := a.text("--result-filename")
		if name == "" {
			name = b.defaultName(now)
		}
		if err := writeResult(resultPath(a.text("--result-dir"), name), b.vllmResult(result, now), b.fault, a.has("--append-result")); err != nil {
			return s.traceback(err)
		}
	}
	return b.written(ctx, client)
}

func (b *bench) vllmMeasured(s *shim, sum *summary) object {
	d := sum.duration
	fmt.Fprintln(s.stdout, centre(" Serving Benchmark Result ", "="))
	row(s.stdout, "Successful requests:", sum.completed)
	row(s.stdout, "Failed requests:", len(sum.all)-sum.completed)
	row(s.stdout, "Benchmark duration (s):", d)
	row(s.stdout, "Request throughput (req/s):", float64(sum.completed)/d)
	row(s.stdout, "Output token throughput (tok/s):", float64(sum.totalOutput)/d)
	var goodput any
	if b.goodput != nil {
		goodput = float64(sum.good) / d
	}
	tokens, requests := sum.peaks()
	out := object{
		{"duration", d}, {"completed", sum.completed}, {"failed", len(sum.all) - sum.completed}, {"total_input_tokens", sum.totalInput},
		{"total_output_tokens", sum.totalOutput}, {"request_throughput", float64(sum.completed) / d}, {"request_goodput", goodput},
		{"output_throughput", float64(sum.totalOutput) / d}, {"total_token_throughput", float64(sum.totalInput+sum.totalOutput) / d},
	}
	if b.args.has("--save-detailed") {
		out = append(out, b.detailed(sum)...)
	}
	out = append(out, object{{"max_output_tokens_per_s", tokens}, {"max_concurrent_requests", requests}, {"rtfx", 0.0}}...)
	return append(out, b.latencies(sum, s.stdout)...)
}

func (b *bench) vllmResult(measured object, now time.Time) object {
	var rate, limit, label any = b.rate, nil, nil
	if math.IsInf(b.rate, 1) {
		rate = "inf"
	}
	if b.args.has("--max-concurrency") {
		limit = b.max
	}
	if b.args.has("--label") {
		label = b.args.text("--label")
	}
	out := object{
		{"date", now.Format("20060102-150405")}, {"endpoint_type", b.backend}, {"backend", b.backend}, {"label", label},
		{"model_id", b.model}, {"tokenizer_id", b.tokenizer}, {"num_prompts", b.prompts},
	}
	for _, m := range b.args.list("--metadata") {
		k, v, _ := strings.Cut(m, "=")
		out = out.set(strings.TrimSpace(k), strings.TrimSpace(v))
	}
	for _, m := range append(object{{"request_rate", rate}, {"burstiness", b.burstiness}, {"max_concurrency", limit}}, measured...) {
		out = out.set(m.key, m.value)
	}
	return out.set("gpu_name", GPUName)
}

// peaks are vLLM's one-second buckets: the most output tokens that arrived in
// one, and the most requests under way in one. A request counts in every
// second it touches, so the second figure may exceed the limit.
func (s *summary) peaks() (tokens float64, requests int) {
	n := int(s.duration) + 2
	arrived, active := make([]float64, n), make([]int, n)
	at := func(t float64) int { return min(max(0, int(t)), n-1) }
	for _, m := range s.all {
		if !m.ok {
			continue
		}
		t := m.start.Sub(s.started).Seconds()
		for i := at(t); i <= at(t+m.latency); i++ {
			active[i]++
		}
		t += m.ttft
		arrived[at(t)]++
		for _, d := range m.itl[:min(len(m.itl), max(0, m.tokens-1))] {
			t += d
			arrived[at(t)]++
		}
	}
	for i := range n {
		tokens, requests = math.Max(tokens, arrived[i]), max(requests, active[i])
	}
	return tokens, requests
}

// sglangBenchParser knows the options of sglang.bench_serving that cvs and its
// users pass.
func sglangBenchParser() *parser {
	return &parser{prog: "bench_serving.py", options: concat(
		[]option{
			{names: []string{"--backend"}, kind: isString, fallback: "sglang", choices: []string{"sglang", "sglang-oai", "vllm"}},
			{names: []string{"--host"}, kind: isString, fallback: "0.0.0.0"},
			{names: []string{"--port"}, kind: isInt, fallback: "30000"},
			{names: []string{"--dataset-name"}, kind: isString, fallback: "sharegpt", choices: []string{"random", "random-ids"}},
			{names: []string{"--num-prompts"}, kind: isInt, fallback: "1000"},
			{names: []string{"--request-rate"}, kind: isFloat, fallback: "inf"},
			{names: []string{"--seed"}, kind: isInt, fallback: "1"},
			{names: []string{"--random-input-len", "--random-input"}, kind: isInt, fallback: "1024"},
			{names: []string{"--random-output-len", "--random-output"}, kind: isInt, fallback: "1024"},
			{names: []string{"--random-range-ratio"}, kind: isFloat, fallback: "0.0"},
			{names: []string{"--warmup-requests"}, kind: isInt, fallback: "1"},
		},
		options(isInt, "", "--max-concurrency"),
		options(isString, "", "--model", "--base-url", "--tokenizer", "--output-file", "--tag", "--dataset-path", "--extra-request-body", "--served-model-name"),
		flags("--disable-tqdm", "--disable-stream", "--disable-ignore-eos", "--output-details", "--flush-cache", "--apply-chat-template", "--return-logprob", "--profile", "--pd-separated"),
	)}
}

// sglangBench is python -m sglang.bench_serving. It measures over the OpenAI
// endpoint; the figures of the native one have the same meaning.
func (s *shim) sglangBench(args []string) int {
	a, err := sglangBenchParser().parse(args)
	if err != nil {
		s.errorf("%v", err)
		return 2
	}
	b, err := s.newBench(a, a.text("--model"))
	if err != nil {
		return s.traceback(err)
	}
	ratio := a.number("--random-range-ratio")
	b.load = workload{url: b.baseURL + "/v1/completions", model: b.model, ignoreEOS: !a.has("--disable-ignore-eos"), concurrency: b.max, rate: b.rate, burstiness: 1,
		requests: randomRequests(b.rng, b.prompts, 0, b.lengths(b.input, ratio), b.lengths(b.output, ratio))}
	if code, ended := s.misbehave(b); ended {
		return code
	}
	ctx := context.Background()
	client := newHTTPClient(b.max)
	if m := b.load.send(ctx, client, b.load.requests[0]); !m.ok {
		return s.traceback(fmt.Errorf("ValueError: Warmup failed - Please make sure benchmark arguments are correctly specified. Error: %s", m.errText))
	}
	all, started, took := b.load.run(ctx, client, b.rng)
	b.sent()
	sum := summarise(b, all, started, took)
	fmt.Fprintln(s.stdout, "\n"+centre(" Serving Benchmark Result ", "="))
	row(s.stdout, "Successful requests:", sum.completed)
	row(s.stdout, "Benchmark duration (s):", sum.duration)
	fmt.Fprintln(s.stdout, strings.Repeat("=", 50))
	path := a.text("--output-file")
	if path == "" {
		path = fmt.Sprintf("%s_%s_%d_%d_%d.jsonl", b.backend, time.Now().Format("0102"), b.prompts, b.input, b.output)
	}
	if err := writeResult(path, b.sglangResult(s, sum, ratio), b.fault, true); err != nil {
		return s.traceback(err)
	}
	return b.written(ctx, client)
}

// sglangResult is one line of the JSONL file, in the shape of the 0.5 series.
func (b *bench) sglangResult(s *shim, sum *summary, ratio float64) object {
	d := sum.duration
	var tag, limit any
	if b.args.has("--tag") {
		tag = b.args.text("--tag")
	}
	if b.args.has("--max-concurrency") {
		limit = b.max
	}
	out := object{
		{"tag", tag}, {"backend", b.backend}, {"dataset_name", b.args.text("--dataset-name")}, {"request_rate", b.rate}, {"max_concurrency", limit},
		{"sharegpt_output_len", nil}, {"random_input_len", b.input}, {"random_output_len", b.output}, {"random_range_ratio", ratio},
		{"server_info", object{{"model_path", b.model}, {"version", labVersion}, {"gpu_name", GPUName}}},
		{"duration", d}, {"completed", sum.completed}, {"total_input_tokens", sum.totalInput}, {"total_input_text_tokens", sum.totalInput},
		{"total_input_vision_tokens", 0}, {"total_output_tokens", sum.totalOutput}, {"total_output_tokens_retokenized", sum.totalOutput},
		{"request_throughput", float64(sum.completed) / d}, {"input_throughput", float64(sum.totalInput) / d},
		{"output_throughput", float64(sum.totalOutput) / d}, {"total_throughput", float64(sum.totalInput+sum.totalOutput) / d},
	}
	for _, f := range []struct {
		key, family string
		pcts        []float64
	}{{"e2e_latency", "e2el", []float64{90, 99}}, {"ttft", "ttft", []float64{99}}, {"tpot", "tpot", []float64{99}}, {"itl", "itl", []float64{95, 99}}} {
		v := newSample(sum.times[f.family])
		out = append(out, object{{"mean_" + f.key + "_ms", v.mean() * 1000}, {"median_" + f.key + "_ms", v.percentile(50) * 1000}, {"std_" + f.key + "_ms", v.std() * 1000}}...)
		for _, p := range f.pcts {
			out = append(out, member{"p" + word(p) + "_" + f.key + "_ms", v.percentile(p) * 1000})
		}
	}
	tokens, requests := sum.peaks()
	out = append(out, object{{"concurrency", sumOf(sum.times["e2el"]) / d}, {"accept_length", nil}, {"max_output_tokens_per_s", tokens}, {"max_concurrent_requests", requests}}...)
	if b.args.has("--output-details") {
		out = append(out, b.detailed(sum)...)
	}
	return out.set("gpu_name", GPUName)
}
