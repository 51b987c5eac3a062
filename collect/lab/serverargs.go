package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// serverSpec is what a server shim was asked for, whatever its framework.
type serverSpec struct {
	framework    string // atom, vllm, sglang
	model        string
	served       string
	port         int
	tp, dp       int
	maxModelLen  int
	maxSeqs      int
	maxBatched   int
	memory       float64 // share of the GPU's memory
	drafts       int     // speculative tokens
	engineFailed string  // message of a configuration the engine refuses
	ranks        rankSpec
}

const (
	defaultModelLen = 32768
	cachePerGPU     = 96 * 1024 // tokens at full memory
	acceptance      = 0.75      // probability that a draft token is confirmed
)

func flags(names ...string) []option { return options(isFlag, "", names...) }

// options makes one option of a kind per name.
func options(kind optionKind, fallback string, names ...string) []option {
	var out []option
	for _, n := range names {
		out = append(out, option{names: []string{n}, kind: kind, fallback: fallback})
	}
	return out
}

func concat(lists ...[]option) []option {
	var out []option
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// atomServerParser knows the options of atom.entrypoints.openai_server.
func atomServerParser() *parser {
	return &parser{prog: "openai_server.py", options: concat(
		[]option{
			{names: []string{"--model"}, kind: isString, fallback: "Qwen/Qwen3-0.6B"},
			{names: []string{"--tensor-parallel-size", "-tp"}, kind: isInt, fallback: "1"},
			{names: []string{"--data-parallel-size", "-dp"}, kind: isInt, fallback: "1"},
			{names: []string{"--kv_cache_dtype"}, kind: isString, fallback: "bf16", choices: []string{"bf16", "fp8"}},
			{names: []string{"--method"}, kind: isString, choices: []string{"mtp", "eagle3"}},
			{names: []string{"--level"}, kind: isInt, fallback: "3"},
			{names: []string{"--num-speculative-tokens"}, kind: isInt, fallback: "1"},
			{names: []string{"--gpu-memory-utilization"}, kind: isFloat, fallback: "0.9"},
			{names: []string{"--max-num-batched-tokens"}, kind: isInt, fallback: "16384"},
			{names: []string{"--max-num-seqs"}, kind: isInt, fallback: "512"},
			{names: []string{"--server-port"}, kind: isInt, fallback: "8000"},
			{names: []string{"--host"}, kind: isString, fallback: "0.0.0.0"},
			{names: []string{"--block-size"}, kind: isInt, fallback: "16"},
			{names: []string{"--port"}, kind: isInt, fallback: "8006"},
			{names: []string{"--scheduler-delay-factor"}, kind: isFloat, fallback: "0"},
		},
		options(isInt, "", "--max-model-len", "--max-prefill-tokens"),
		options(isString, "", "--served-model-name", "--cudagraph-capture-sizes", "--torch-profiler-dir", "--tokenizer", "--default-chat-template-kwargs",
			"--reasoning-parser", "--tool-call-parser", "--kv-transfer-config", "--online_quant_config", "--hf-overrides", "--draft-model"),
		flags("--trust-remote-code", "--enforce-eager", "--enable_prefix_caching", "--load_dummy", "--enable-expert-parallel", "--enable-dp-attention",
			"--enable-tbo", "--mark-trace", "--disable-uvicorn-access-log", "--enable-auto-tool-choice"),
	)}
}

func (s *shim) atomServer(args []string) int {
	a, err := atomServerParser().parse(args)
	if err != nil {
		s.errorf("%v", err)
		return 2
	}
	spec := serverSpec{
		framework: "atom", model: a.text("--model"), served: a.text("--served-model-name"), port: a.integer("--server-port"),
		tp: a.integer("--tensor-parallel-size"), dp: a.integer("--data-parallel-size"), maxModelLen: a.integer("--max-model-len"),
		maxSeqs: a.integer("--max-num-seqs"), maxBatched: a.integer("--max-num-batched-tokens"), memory: a.number("--gpu-memory-utilization"),
	}
	if a.text("--method") != "" {
		spec.drafts = a.integer("--num-speculative-tokens")
	}
	// Across nodes ATOM's ranks are told their place by the environment, and
	// each of them serves.
	size, _ := strconv.Atoi(s.getenv("ATOM_DP_SIZE"))
	if size > 1 {
		spec.ranks = rankSpec{size: size, master: s.getenv("ATOM_DP_MASTER_IP")}
		var err error
		if spec.ranks.rank, err = strconv.Atoi(s.getenv("ATOM_DP_RANK")); err == nil {
			spec.ranks.port, err = strconv.Atoi(s.getenv("ATOM_DP_MASTER_PORT"))
		}
		if err != nil || spec.ranks.master == "" {
			s.errorf("ValueError: ATOM_DP_SIZE is %d, but ATOM_DP_RANK, ATOM_DP_MASTER_IP and ATOM_DP_MASTER_PORT do not say where", size)
			return 1
		}
	}
	return s.serve(spec)
}

// vllmServerParser knows the options of vllm serve that cvs and its users pass.
func vllmServerParser() *parser {
	return &parser{prog: "vllm serve", positionals: []string{"model_tag"}, options: concat(
		[]option{
			{names: []string{"--port"}, kind: isInt, fallback: "8000"},
			{names: []string{"--tensor-parallel-size", "-tp"}, kind: isInt, fallback: "1"},
			{names: []string{"--pipeline-parallel-size", "-pp"}, kind: isInt, fallback: "1"},
			{names: []string{"--data-parallel-size", "-dp"}, kind: isInt, fallback: "1"},
			{names: []string{"--max-num-seqs"}, kind: isInt, fallback: "256"},
			{names: []string{"--max-num-batched-tokens"}, kind: isInt, fallback: "8192"},
			{names: []string{"--gpu-memory-utilization"}, kind: isFloat, fallback: "0.9"},
			{names: []string{"--compilation-config", "-O"}, kind: isString},
			{names: []string{"--quantization", "-q"}, kind: isString},
			{names: []string{"--node-rank", "-r"}, kind: isInt},
			{names: []string{"--nnodes", "-n"}, kind: isInt},
		},
		options(isInt, "", "--max-model-len", "--block-size", "--master-port", "--seed", "--swap-space", "--max-seq-len-to-capture", "--stream-interval"),
		options(isString, "", "--model", "--host", "--served-model-name", "--master-addr", "--distributed-executor-backend", "--dtype", "--kv-cache-dtype",
			"--load-format", "--attention-backend", "--speculative-config", "--tokenizer", "--tokenizer-mode", "--reasoning-parser", "--tool-call-parser",
			"--hf-overrides", "--chat-template", "--uvicorn-log-level", "--api-key", "--override-generation-config", "--limit-mm-per-prompt",
			"--moe-backend", "--additional-config"),
		flags("--headless", "--trust-remote-code", "--enforce-eager", "--no-enforce-eager", "--enable-prefix-caching", "--no-enable-prefix-caching",
			"--enable-chunked-prefill", "--no-enable-chunked-prefill", "--enable-expert-parallel", "--disable-log-requests", "--no-enable-log-requests", "--enable-log-requests",
			"--async-scheduling", "--no-async-scheduling", "--enable-auto-tool-choice", "--disable-log-stats", "--disable-uvicorn-access-log", "--language-model-only"),
	)}
}

func (s *shim) vllmServer(args []string) int {
	a, err := vllmServerParser().parse(args)
	if err != nil {
		s.errorf("%v", err)
		return 2
	}
	model := a.text("--model")
	if m := a.given["model_tag"]; m != nil {
		model = m[0]
	}
	spec := serverSpec{
		framework: "vllm", model: model, served: a.text("--served-model-name"), port: a.integer("--port"),
		tp: a.integer("--tensor-parallel-size") * max(1, a.integer("--pipeline-parallel-size")), dp: a.integer("--data-parallel-size"),
		maxModelLen: a.integer("--max-model-len"), maxSeqs: a.integer("--max-num-seqs"), maxBatched: a.integer("--max-num-batched-tokens"),
		memory: a.number("--gpu-memory-utilization"),
	}
	if n := a.integer("--nnodes"); n > 1 {
		spec.ranks = rankSpec{rank: a.integer("--node-rank"), size: n, master: a.text("--master-addr"), port: a.integer("--master-port")}
	}
	if a.has("--headless") != (spec.ranks.rank > 0) {
		s.errorf("ValueError: rank 0 serves and every further rank is --headless; this is rank %d of %d", spec.ranks.rank, max(1, spec.ranks.size))
		return 1
	}
	if spec.ranks.rank > 0 {
		return s.headless(spec)
	}
	return s.serve(spec)
}

// sglangServerParser knows the options of sglang.launch_server that cvs and its
// users pass.
func sglangServerParser() *parser {
	return &parser{prog: "launch_server.py", options: concat(
		[]option{
			{names: []string{"--model-path", "--model"}, kind: isString, required: true},
			{names: []string{"--port"}, kind: isInt, fallback: "30000"},
			{names: []string{"--tp-size", "--tp", "--tensor-parallel-size"}, kind: isInt, fallback: "1"},
			{names: []string{"--dp-size", "--dp", "--data-parallel-size"}, kind: isInt, fallback: "1"},
			{names: []string{"--pp-size", "--pp", "--pipeline-parallel-size"}, kind: isInt, fallback: "1"},
			{names: []string{"--ep-size", "--ep", "--expert-parallel-size"}, kind: isInt, fallback: "1"},
			{names: []string{"--max-running-requests"}, kind: isInt, fallback: "512"},
			{names: []string{"--chunked-prefill-size"}, kind: isInt, fallback: "8192"},
			{names: []string{"--mem-fraction-static"}, kind: isFloat, fallback: "0.85"},
			{names: []string{"--dist-init-addr", "--nccl-init-addr"}, kind: isString},
			{names: []string{"--cuda-graph-bs"}, kind: isInt, many: "+"},
		},
		options(isInt, "", "--nnodes", "--node-rank", "--context-length", "--cuda-graph-max-bs", "--page-size", "--max-prefill-tokens", "--num-continuous-decode-steps",
			"--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens", "--watchdog-timeout", "--random-seed", "--stream-interval"),
		options(isString, "", "--host", "--served-model-name", "--attention-backend", "--decode-attention-backend", "--prefill-attention-backend", "--kv-cache-dtype",
			"--quantization", "--dtype", "--tokenizer-path", "--model-loader-extra-config", "--load-format", "--schedule-policy", "--speculative-algorithm",
			"--reasoning-parser", "--tool-call-parser", "--log-level", "--moe-runner-backend", "--json-model-override-args"),
		options(isFloat, "", "--schedule-conservativeness"),
		flags("--trust-remote-code", "--disable-radix-cache", "--disable-cuda-graph", "--enable-metrics", "--enable-dp-attention", "--enable-torch-compile",
			"--disable-overlap-schedule", "--skip-server-warmup", "--enable-mixed-chunk"),
	)}
}

func (s *shim) sglangServer(args []string) int {
	a, err := sglangServerParser().parse(args)
	if err != nil {
		s.errorf("%v", err)
		return 2
	}
	spec := serverSpec{
		framework: "sglang", model: a.text("--model-path"), served: a.text("--served-model-name"), port: a.integer("--port"),
		tp: a.integer("--tp-size") * max(1, a.integer("--pp-size")), dp: a.integer("--dp-size"), maxModelLen: a.integer("--context-length"),
		maxSeqs: a.integer("--max-running-requests"), maxBatched: a.integer("--chunked-prefill-size"), memory: a.number("--mem-fraction-static"),
		drafts: a.integer("--speculative-num-steps"),
	}
	if n := a.integer("--nnodes"); n > 1 {
		spec.ranks = rankSpec{rank: a.integer("--node-rank"), size: n}
		host, port, err := net.SplitHostPort(a.text("--dist-init-addr"))
		if err == nil {
			spec.ranks.master = host
			spec.ranks.port, err = strconv.Atoi(port)
		}
		if err != nil {
			s.errorf("ValueError: --nnodes %d needs --dist-init-addr host:port", n)
			return 1
		}
	}
	if spec.ranks.rank > 0 {
		return s.headless(spec)
	}
	return s.serve(spec)
}

// scheduler builds the engine model of a server.
func (spec *serverSpec) scheduler(info nodeInfo) *scheduler {
	if spec.maxModelLen <= 0 {
		spec.maxModelLen = defaultModelLen
	}
	gpus := max(1, spec.tp) * max(1, spec.dp)
	switch {
	case spec.memory <= 0 || spec.memory > 1:
		spec.engineFailed = fmt.Sprintf("ValueError: GPU memory utilization must be in (0, 1], got %v", spec.memory)
	case spec.maxSeqs < 1 || spec.maxBatched < 1:
		spec.engineFailed = "ValueError: max_num_seqs and max_num_batched_tokens must be positive"
	}
	return &scheduler{
		hw: newHardware(gpus, info.Speed), maxSeqs: max(1, spec.maxSeqs), maxBatched: max(1, spec.maxBatched),
		cache: int(float64(cachePerGPU*gpus) * spec.memory), drafts: max(0, spec.drafts), accept: acceptance,
		rng: rand.New(rand.NewPCG(info.Seed, uint64(time.Duration(spec.port)))),
	}
}
