package lab

import (
	"fmt"
	"math"
)

// GPUs and network adapters of a node. On an isolated node they have empty
// files, there to be found and passed on.
const (
	nodeGPUs = 8
	nodeHCAs = 8
)

// hcaName is the i-th network adapter of a node.
func hcaName(i int) string { return fmt.Sprintf("mlx5_%d", i) }

// hardware says how long one engine step takes, in seconds of the simulated
// machine. The numbers resemble a large mixture-of-experts model on eight
// accelerators (about 90 tok/s for one user, about 16,000 prompt tokens/s);
// speed divides all of them.
type hardware struct {
	weights  float64 // reading the active weights once, the memory bound of a step
	kv       float64 // reading one token of context
	token    float64 // arithmetic of one token, the compute bound
	sequence float64 // scheduling, sampling and detokenising one sequence
	launch   float64 // fixed cost of a step
	draft    float64 // relative cost of one speculative token
	gpus     float64 // TP × DP; the numbers above hold for 8
	speed    float64
	jitter   float64 // relative standard deviation of a step
}

func newHardware(gpus int, speed float64) hardware {
	return hardware{
		weights: 9e-3, kv: 40e-9, token: 60e-6, sequence: 0.1e-3, launch: 2e-3, draft: 0.10,
		gpus: math.Max(1, float64(gpus)), speed: speed, jitter: 0.03,
	}
}

// step is the roofline of one step: the greater of memory and compute time,
// plus what neither hides. Decode steps are memory bound, so they cost little
// more for many sequences than for one, until context and per-sequence work
// catch up: that is why throughput saturates.
func (h hardware) step(prefill, decode, context, drafts int) float64 {
	share := 8 / h.gpus
	memory := (h.weights + h.kv*float64(context)) * share
	compute := h.token * float64(prefill+decode*(1+drafts)) * share
	t := math.Max(memory, compute) + h.launch + h.sequence*float64(decode)
	if decode > 0 {
		t *= 1 + h.draft*float64(drafts)
	}
	return t / h.speed
}
