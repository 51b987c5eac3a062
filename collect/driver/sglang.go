package driver

import (
	"fmt"

	"cvs/collect/plan"
)

func init() { register(sglang{}) }

// sglang drives SGLang.
type sglang struct{}

func (sglang) Name() plan.Driver { return plan.DriverSGLang }

func (sglang) Server(p *plan.Plan, r Rank) (Process, error) {
	q := p.Params
	args := []string{"python3", "-m", "sglang.launch_server", "--model-path", p.Model.ID,
		"--host", "0.0.0.0", "--port", itoa(q.Port), "--tp", itoa(q.TP)}
	if q.NNodes > 1 {
		args = append(args, "--pp-size", itoa(q.PP), "--nnodes", itoa(q.NNodes),
			"--node-rank", itoa(r.Index),
			"--dist-init-addr", fmt.Sprintf("%s:%d", r.MasterAddr, q.MasterPort))
	}
	return Process{Args: append(args, p.Server.SGLangArgs...), Env: baseEnv(p, r)}, nil
}

// Serves: only rank 0 opens the HTTP port for requests.
func (sglang) Serves(_ *plan.Plan, rank int) bool { return rank == 0 }

func (sglang) Client(p *plan.Plan, c plan.Cell, dir string) Process {
	q := p.Params
	args := []string{"python3", "-m", "sglang.bench_serving", "--backend", "sglang",
		"--host", "127.0.0.1", "--port", itoa(q.Port), "--model", p.Model.ID,
		"--dataset-name", q.DatasetName, "--num-prompts", itoa(q.NumPrompts),
		"--random-input-len", itoa(c.ISL), "--random-output-len", itoa(c.OSL),
		"--random-range-ratio", q.RandomRangeRatio,
		"--max-concurrency", itoa(c.Concurrency), "--request-rate", q.RequestRate,
		"--seed", itoa(q.Seed),
		"--output-file", dir + "/" + sglang{}.Artefact(p)}
	return Process{
		Args: append(args, q.BenchExtraArgs...),
		Env:  baseEnv(p, Rank{}),
		// The images carry SGLang's sources beside an installed, older client.
		PrependPath: []plan.EnvVar{{Name: "PYTHONPATH", Value: "/sgl-workspace/sglang/python"}},
	}
}

// Lengths: the client draws below the length.
func (sglang) Lengths(p *plan.Plan, c plan.Cell) (input, output Span) {
	return below(p, c.ISL), below(p, c.OSL)
}

func (sglang) Artefact(p *plan.Plan) string { return p.Params.ResultStem + ".jsonl" }
func (sglang) ServerLog() string            { return "sglang_server.log" }
func (sglang) Format() string               { return "sglang_bench_serving" }
func (sglang) Cleanup() []string            { return nil }

func (sglang) Notes(p *plan.Plan) []string {
	q := p.Params
	out := []string{
		fmt.Sprintf("the SGLang client has no option for metric_percentiles (%s): it reports its own fixed set", q.MetricPercentiles),
	}
	if q.PercentileMetrics != "ttft,tpot,itl,e2el" {
		out = append(out, fmt.Sprintf("the SGLang client has no option for percentile_metrics (%s): it reports all families", q.PercentileMetrics))
	}
	if q.Burstiness != "1.0" && q.Burstiness != "1" {
		out = append(out, fmt.Sprintf("the SGLang client has no option for burstiness (%s): arrivals are a Poisson process", q.Burstiness))
	}
	if q.RandomPrefixLen != 0 {
		out = append(out, fmt.Sprintf("the SGLang client has no option for random_prefix_len (%d)", q.RandomPrefixLen))
	}
	if q.TokenizerMode != "" && q.TokenizerMode != "auto" {
		out = append(out, fmt.Sprintf("the SGLang client has no option for tokenizer_mode (%s)", q.TokenizerMode))
	}
	out = append(out, fmt.Sprintf("the context length (max_model_length %d) reaches SGLang only through sglang_args", q.MaxModelLength))
	return out
}
