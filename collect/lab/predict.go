package lab

import (
	"math"
	"time"
)

// A cellShape is one measurement to be foretold.
type cellShape struct {
	isl, osl, concurrency, prompts int
	ratio                          float64
}

// predict runs the engine model through a cell without clock or network and
// returns what a perfect client would measure, by metric name (ms, tok/s).
func predict(s *scheduler, c cellShape, tp, seed int) map[string]float64 {
	b := &bench{rng: newRNG(seed)}
	b.load.requests = make([]request, c.prompts)
	in, out := b.lengths(c.isl, c.ratio), b.lengths(c.osl, c.ratio)
	for i := range b.load.requests {
		b.load.requests[i] = request{input: in(b.rng), output: out(b.rng)}
	}
	var epoch time.Time
	now, sent := 0.0, 0
	all := make([]measurement, c.prompts)
	last := make([]float64, c.prompts)
	send := func() {
		if sent < c.prompts {
			r := b.load.requests[sent]
			s.add(&sequence{prompt: r.input, limit: r.output, index: sent})
			all[sent].start = epoch.Add(time.Duration(now * float64(time.Second)))
			last[sent] = now
			sent++
		}
	}
	for range c.concurrency {
		send()
	}
	for !s.idle() {
		t, emitted := s.step()
		now += t
		for _, e := range emitted {
			m, i := &all[e.seq.index], e.seq.index
			if m.tokens == 0 {
				m.ttft = now - last[i]
			} else {
				m.itl = append(m.itl, now-last[i])
			}
			m.latency += now - last[i]
			m.tokens += e.tokens
			last[i] = now
			if e.done {
				m.itl = append(m.itl, 0) // the empty frame with the finish reason
				m.ok = true
				send()
			}
		}
	}
	sum := summarise(b, all, epoch, time.Duration(now*float64(time.Second)))
	d := math.Max(now, 1e-9)
	got := map[string]float64{
		"output_throughput":      float64(sum.totalOutput) / d,
		"total_token_throughput": float64(sum.totalInput+sum.totalOutput) / d,
	}
	got["output_tput_per_gpu"] = got["output_throughput"] / float64(tp)
	got["per_gpu_throughput"] = got["total_token_throughput"] / float64(tp)
	for _, f := range families {
		v := newSample(sum.times[f.key])
		got["mean_"+f.key+"_ms"] = v.mean() * 1000
		got["median_"+f.key+"_ms"] = v.percentile(50) * 1000
		for _, p := range []float64{90, 95, 99} {
			got["p"+word(p)+"_"+f.key+"_ms"] = v.percentile(p) * 1000
		}
	}
	return got
}
