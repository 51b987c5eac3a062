package lab

import (
	"bufio"
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

func TestWritePython(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		v    any
		want string
	}{
		{1.0, "1.0"}, {0.1, "0.1"}, {1e-5, "1e-05"}, {0.0001, "0.0001"}, {1e16, "1e+16"}, {123456789012345.0, "123456789012345.0"},
		{math.Copysign(0, -1), "-0.0"}, {math.NaN(), "NaN"}, {math.Inf(1), "Infinity"}, {math.Inf(-1), "-Infinity"}, {441.4229917349294, "441.4229917349294"},
		{7, "7"}, {nil, "null"}, {true, "true"}, {"a\"\\\n\té€😀\x01\x7f", `"a\"\\\n\t\u00e9\u20ac\ud83d\ude00\u0001\u007f"`},
		{object{{"a", []int{1, 2}}, {"b:", [][]float64{{0.5}, nil}}}, `{"a": [1, 2], "b:": [[0.5], []]}`},
	} {
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		if err := writePython(w, tc.v); err != nil {
			t.Errorf("%v: %v", tc.v, err)
		}
		w.Flush()
		if b.String() != tc.want {
			t.Errorf("%v: got %s, want %s", tc.v, b.String(), tc.want)
		}
	}
	if err := writePython(bufio.NewWriter(&bytes.Buffer{}), struct{}{}); err == nil {
		t.Error("an unknown type was written")
	}
}

// Expected figures are numpy's.
func TestSample(t *testing.T) {
	t.Parallel()
	s := newSample([]float64{4, 1, 3, 2})
	for _, tc := range []struct {
		name      string
		got, want float64
	}{
		{"mean", s.mean(), 2.5}, {"median", s.percentile(50), 2.5}, {"std", s.std(), 1.118033988749895}, {"p90", s.percentile(90), 3.7}, {"p99", s.percentile(99), 3.97},
		{"p0", s.percentile(0), 1}, {"p100", s.percentile(100), 4}, {"nothing", newSample(nil).mean(), 0}, {"one", newSample([]float64{7}).percentile(99), 7},
	} {
		if math.Abs(tc.got-tc.want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

func TestGamma(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, shape := range []float64{0.5, 1, 2.5} {
		const n = 20000
		total, squares := 0.0, 0.0
		for range n {
			x := interval(rng, 100, shape)
			total += x
			squares += x * x
		}
		mean := total / n
		variance := squares/n - mean*mean
		// Mean 1/rate, variance mean²/shape.
		if math.Abs(mean*100-1) > 0.05 || math.Abs(variance*1e4*shape-1) > 0.1 {
			t.Errorf("shape %v: mean %v, variance %v", shape, mean, variance)
		}
	}
}

// TestEngineShape holds the model to what serving hardware does, without a clock.
func TestEngineShape(t *testing.T) {
	t.Parallel()
	at := func(concurrency, drafts int, memory float64, gpus int) map[string]float64 {
		spec := serverSpec{tp: gpus, dp: 1, maxSeqs: 512, maxBatched: 16384, memory: memory, drafts: drafts}
		return predict(spec.scheduler(nodeInfo{Seed: 1, Speed: 1}), cellShape{1024, 256, concurrency, max(64, 3*concurrency), 0.8}, gpus, 0)
	}
	const tput, ttft, tpot = "output_throughput", "mean_ttft_ms", "mean_tpot_ms"
	previous := at(1, 0, 0.9, 8)
	gain := math.Inf(1)
	for _, c := range []int{4, 16, 64, 256} {
		got := at(c, 0, 0.9, 8)
		g := got[tput] / previous[tput]
		if g < 1 || g > gain+0.05 {
			t.Errorf("c=%d: throughput grew ×%.2f after ×%.2f; it must grow ever less", c, g, gain)
		}
		if got[ttft] <= previous[ttft] || got[tpot] <= previous[tpot] {
			t.Errorf("c=%d: TTFT %.1f after %.1f ms, TPOT %.2f after %.2f ms", c, got[ttft], previous[ttft], got[tpot], previous[tpot])
		}
		previous, gain = got, g
	}
	if gain > 2 {
		t.Errorf("no saturation: ×%.2f from c=64 to 256", gain)
	}
	if with, without := at(1, 3, 0.9, 8), at(1, 0, 0.9, 8); with[tput] < 1.5*without[tput] {
		t.Errorf("speculation: %.0f against %.0f tok/s", with[tput], without[tput])
	}
	if small, big := at(256, 0, 0.05, 8), at(256, 0, 0.9, 8); small[ttft] < 2*big[ttft] {
		t.Errorf("a full cache must queue: TTFT %.0f against %.0f ms", small[ttft], big[ttft])
	}
	if one, eight := at(16, 0, 0.9, 1), at(16, 0, 0.9, 8); one[tput] > 0.5*eight[tput] {
		t.Errorf("one GPU %.0f tok/s, eight %.0f", one[tput], eight[tput])
	}
}

func TestSchedulerForgetsTheCancelled(t *testing.T) {
	t.Parallel()
	spec := serverSpec{tp: 1, dp: 1, maxSeqs: 1, maxBatched: 64, memory: 0.9}
	s := spec.scheduler(nodeInfo{Speed: 1})
	a, b := &sequence{prompt: 100, limit: 5}, &sequence{prompt: 10, limit: 5}
	s.add(a)
	s.add(b)
	s.step() // half of a's prompt
	a.cancelled.Store(true)
	tokens := 0
	for !s.idle() {
		_, out := s.step()
		for _, e := range out {
			if e.seq == a {
				t.Fatal("the cancelled request got a token")
			}
			tokens += e.tokens
		}
	}
	if tokens != 5 || s.reserved != 0 || s.stats.finished != 1 {
		t.Errorf("%d tokens, %d reserved, %d finished", tokens, s.reserved, s.stats.finished)
	}
}

func TestPeaks(t *testing.T) {
	t.Parallel()
	s := &summary{duration: 3, all: []measurement{
		{ok: true, ttft: 0.5, itl: []float64{1, 1}, latency: 2.5, tokens: 3},
		{ok: true, ttft: 1.2, itl: []float64{0.1}, latency: 1.3, tokens: 2},
		{ok: false},
	}}
	if tokens, requests := s.peaks(); tokens != 3 || requests != 2 {
		t.Errorf("peaks %v, %v", tokens, requests)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	s := &shim{node: nodeInfo{IP: "127.0.0.2"}}
	for in, want := range map[string]string{
		"http://localhost:8000": "http://127.0.0.2:8000", "http://0.0.0.0:1": "http://127.0.0.2:1", "http://127.0.0.1": "http://127.0.0.2",
		"http://localhost.example:1": "http://localhost.example:1", "http://10.0.0.1:8000": "http://10.0.0.1:8000",
	} {
		if got := s.local(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
