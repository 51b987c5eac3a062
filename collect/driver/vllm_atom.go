package driver

import "cvs/collect/plan"

func init() { register(vllmATOM{}) }

// vllmATOM drives vLLM with ATOM's kernels. What makes the difference is the
// image; commands and environment are vLLM's in every respect.
type vllmATOM struct{}

func (vllmATOM) Name() plan.Driver { return plan.DriverVLLMATOM }

func (vllmATOM) Server(p *plan.Plan, r Rank) (Process, error) { return vllm{}.Server(p, r) }

func (vllmATOM) Serves(p *plan.Plan, rank int) bool { return vllm{}.Serves(p, rank) }

func (vllmATOM) Client(p *plan.Plan, c plan.Cell, dir string) Process {
	return vllm{}.Client(p, c, dir)
}

func (vllmATOM) Lengths(p *plan.Plan, c plan.Cell) (input, output Span) {
	return vllm{}.Lengths(p, c)
}

func (vllmATOM) Artefact(p *plan.Plan) string { return vllm{}.Artefact(p) }
func (vllmATOM) ServerLog() string            { return vllm{}.ServerLog() }
func (vllmATOM) Format() string               { return vllm{}.Format() }
func (vllmATOM) Cleanup() []string            { return vllm{}.Cleanup() }
func (vllmATOM) Notes(p *plan.Plan) []string  { return vllm{}.Notes(p) }
