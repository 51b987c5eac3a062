package driver

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"cvs/collect/plan"
)

func init() { register(vllm{}) }

// vllm drives vLLM. Started as a module, because the images have no vllm script.
type vllm struct{}

func (vllm) Name() plan.Driver { return plan.DriverVLLM }

// aiter are the ROCm kernels that vLLM uses under cvs.
var aiter = []plan.EnvVar{
	{Name: "VLLM_USE_AITER_UNIFIED_ATTENTION", Value: "1"},
	{Name: "VLLM_ROCM_USE_AITER_MHA", Value: "0"},
	{Name: "VLLM_ROCM_USE_AITER_FUSED_MOE_A16W4", Value: "1"},
}

func (vllm) Server(p *plan.Plan, r Rank) (Process, error) {
	q := p.Params
	args := []string{"python3", "-m", "vllm.entrypoints.cli.main", "serve", p.Model.ID,
		"--host", "0.0.0.0", "--tensor-parallel-size", itoa(q.TP),
		"--max-model-len", itoa(q.MaxModelLength), "--port", itoa(q.Port)}
	if q.NNodes > 1 {
		args = append(args, "--node-rank", itoa(r.Index), "--master-addr", r.MasterAddr,
			"--master-port", itoa(q.MasterPort), "--nnodes", itoa(q.NNodes),
			"--pipeline-parallel-size", itoa(q.PP), "--distributed-executor-backend", "mp")
		if r.Index > 0 {
			args = append(args, "--headless")
		}
	}
	return Process{Args: append(args, serveArgs(p.Server)...), Env: baseEnv(p, r, aiter...)}, nil
}

// serveArgs lays the config's serve_args over the defaults. A default keeps its
// place when the config overrides it.
func serveArgs(s plan.Server) []string {
	all := []plan.ServeArg{
		{Flag: "block-size", Values: []string{"64"}},
		{Flag: "no-enable-prefix-caching"},
	}
	at := map[string]int{"block-size": 0, "no-enable-prefix-caching": 1}
	put := func(a plan.ServeArg) {
		key := strings.ReplaceAll(a.Flag, "_", "-")
		if i, ok := at[key]; ok {
			all[i] = a
			return
		}
		at[key] = len(all)
		all = append(all, a)
	}
	for _, a := range s.ServeArgs {
		put(a)
	}
	if _, set := at["gpu-memory-utilization"]; !set && s.GPUMemoryUtil != "" {
		put(plan.ServeArg{Flag: "gpu-memory-utilization", Values: []string{s.GPUMemoryUtil}})
	}
	var out []string
	for _, a := range all {
		switch {
		case a.Off:
		case len(a.Values) == 0:
			out = append(out, "--"+a.Flag)
		default:
			for _, v := range a.Values {
				out = append(out, "--"+a.Flag, v)
			}
		}
	}
	return out
}

// Serves: further ranks are headless.
func (vllm) Serves(_ *plan.Plan, rank int) bool { return rank == 0 }

func (vllm) Client(p *plan.Plan, c plan.Cell, dir string) Process {
	q := p.Params
	isl, osl, spread := around(p, c)
	args := []string{"python3", "-m", "vllm.entrypoints.cli.main", "bench", "serve",
		"--model", p.Model.ID, "--backend", q.Backend,
		"--base-url", q.BaseURL + ":" + itoa(q.Port),
		"--dataset-name", q.DatasetName, "--num-prompts", itoa(q.NumPrompts),
		"--random-input-len", itoa(isl), "--random-output-len", itoa(osl),
		"--max-concurrency", itoa(c.Concurrency),
		"--request-rate", q.RequestRate, "--burstiness", q.Burstiness,
		"--tokenizer-mode", q.TokenizerMode, "--seed", itoa(q.Seed),
		"--random-range-ratio", spread, "--random-prefix-len", itoa(q.RandomPrefixLen),
		"--percentile-metrics", q.PercentileMetrics, "--metric-percentiles", q.MetricPercentiles,
		"--ignore-eos", "--save-result", "--result-dir", dir,
		"--result-filename", vllm{}.Artefact(p)}
	if !hasFlag(q.BenchExtraArgs, "--disable-tqdm") {
		args = append(args, "--disable-tqdm")
	}
	return Process{Args: append(args, q.BenchExtraArgs...), Env: baseEnv(p, Rank{}, aiter...)}
}

// around are the lengths and the ratio that the client is given. vLLM draws from
// [(1-r)·L, (1+r)·L]. With matched lengths it gets L' = L·(1+r)/2 and
// r' = (1-r)/(1+r), which is [r·L, L], what the other clients draw from. r' stays
// below 1, which vLLM refuses.
func around(p *plan.Plan, c plan.Cell) (isl, osl int, spread string) {
	if !p.Params.MatchLengths {
		return c.ISL, c.OSL, p.Params.RandomRangeRatio
	}
	r := ratio(p)
	middle := func(n int) int { return max(1, int(math.Round(float64(n)*(1+r)/2))) }
	s := math.Min(math.Floor((1-r)/(1+r)*1e4)/1e4, 0.9999)
	return middle(c.ISL), middle(c.OSL), strconv.FormatFloat(s, 'f', -1, 64)
}

func (vllm) Lengths(p *plan.Plan, c plan.Cell) (input, output Span) {
	isl, osl, spread := around(p, c)
	s, err := strconv.ParseFloat(spread, 64)
	if err != nil { // the loader made sure that it is a fraction
		s = 0
	}
	span := func(n int) Span {
		return Span{int(math.Floor(float64(n) * (1 - s))), int(math.Ceil(float64(n) * (1 + s)))}
	}
	return span(isl), span(osl)
}

// Artefact has no extension: vLLM writes exactly the name it is given.
func (vllm) Artefact(p *plan.Plan) string { return p.Params.ResultStem }
func (vllm) ServerLog() string            { return "vllm_serve_server.log" }
func (vllm) Format() string               { return "vllm_bench_serve" }
func (vllm) Cleanup() []string            { return nil }

func (vllm) Notes(p *plan.Plan) []string {
	if !p.Params.MatchLengths {
		return nil
	}
	return []string{fmt.Sprintf("lengths are matched (--match-lengths): the vLLM client gets other lengths and another ratio, so that it draws from [%s·L, L] as the other clients do", p.Params.RandomRangeRatio)}
}
