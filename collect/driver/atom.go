package driver

import (
	"fmt"

	"cvs/collect/plan"
)

func init() { register(atom{}) }

// atom drives ROCm/ATOM's native openai_server. Over several hosts it runs data
// parallel, one replica a host; pipeline parallelism does not exist.
type atom struct{}

func (atom) Name() plan.Driver { return plan.DriverATOM }

// vllmOnly are vLLM's multinode flags: configs shared between drivers carry
// them, and ATOM's parser would refuse them.
var vllmOnly = []string{
	"--node-rank", "--master-addr", "--master-port", "--nnodes",
	"--pipeline-parallel-size", "--distributed-executor-backend",
}

func (atom) Server(p *plan.Plan, r Rank) (Process, error) {
	n := p.Params.NNodes
	if n > 1 && p.Params.TP > 8 {
		return Process{}, fmt.Errorf("driver atom over %d nodes needs tensor_parallelism of at most 8, not %d: each node holds a whole replica", n, p.Params.TP)
	}
	args := []string{"python", "-m", "atom.entrypoints.openai_server",
		"--model", p.Model.ID, "--server-port", itoa(p.Params.Port)}
	args = append(args, withoutFlags(p.Server.ATOMArgs, vllmOnly...)...)
	if !hasFlag(p.Server.ATOMArgs, "--max-model-len", "-m") {
		args = append(args, "--max-model-len", itoa(p.Params.MaxModelLength))
	}
	var dp []plan.EnvVar
	if n > 1 && !hasFlag(p.Server.ATOMArgs, "-dp", "--data-parallel-size") {
		args = append(args, "-dp", itoa(n))
		dp = []plan.EnvVar{
			{Name: "ATOM_DP_RANK", Value: itoa(r.Index)},
			{Name: "ATOM_DP_SIZE", Value: itoa(n)},
			{Name: "ATOM_DP_RANK_LOCAL", Value: "0"},
			{Name: "ATOM_DP_MASTER_IP", Value: r.MasterAddr},
			{Name: "ATOM_DP_MASTER_PORT", Value: itoa(p.Params.MasterPort)},
		}
	}
	// The rank's own variables come after the config's: a config that is the same
	// for all hosts cannot know them.
	return Process{Args: args, Env: plan.LastWins(append(baseEnv(p, r), dp...))}, nil
}

// Serves: every rank is a replica with its own API server.
func (atom) Serves(_ *plan.Plan, _ int) bool { return true }

func (atom) Client(p *plan.Plan, c plan.Cell, dir string) Process {
	q := p.Params
	args := []string{"python", "-m", "atom.benchmarks.benchmark_serving",
		"--model", p.Model.ID, "--backend", "vllm",
		"--base-url", "http://localhost:" + itoa(q.Port),
		"--dataset-name", q.DatasetName,
		"--random-input-len", itoa(c.ISL), "--random-output-len", itoa(c.OSL),
		"--random-range-ratio", q.RandomRangeRatio,
		"--max-concurrency", itoa(c.Concurrency), "--num-prompts", itoa(q.NumPrompts),
		"--trust-remote-code", "--num-warmups", itoa(2 * c.Concurrency),
		"--request-rate", q.RequestRate, "--burstiness", q.Burstiness, "--seed", itoa(q.Seed),
		"--ignore-eos", "--save-result",
		"--percentile-metrics", q.PercentileMetrics, "--metric-percentiles", q.MetricPercentiles,
		"--result-dir", dir, "--result-filename", atom{}.Artefact(p)}
	// ATOM's parser knows these two as well; its defaults are ours, so they are
	// said only when they say something.
	if q.RandomPrefixLen != 0 {
		args = append(args, "--random-prefix-len", itoa(q.RandomPrefixLen))
	}
	if q.TokenizerMode != "" && q.TokenizerMode != "auto" {
		args = append(args, "--tokenizer-mode", q.TokenizerMode)
	}
	return Process{Args: append(args, q.BenchExtraArgs...), Env: baseEnv(p, Rank{})}
}

// Lengths: the client draws below the length.
func (atom) Lengths(p *plan.Plan, c plan.Cell) (input, output Span) {
	return below(p, c.ISL), below(p, c.OSL)
}

func (atom) Artefact(p *plan.Plan) string { return p.Params.ResultStem + ".json" }
func (atom) ServerLog() string            { return "atom_server.log" }
func (atom) Format() string               { return "atom_benchmark_serving" }

// Cleanup wipes ATOM's compile cache, which survives changes of its arguments.
func (atom) Cleanup() []string {
	return []string{"sh", "-c", `[ -z "$HOME" ] || rm -rf -- "$HOME"/.cache/atom/*`}
}

func (atom) Notes(p *plan.Plan) []string {
	var out []string
	if p.Params.NNodes > 1 {
		out = append(out, "driver atom over several nodes is experimental: data parallel replicas, one a node; the client talks to the head only")
	}
	return out
}
