package lab

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
)

// A sequence is one request inside the engine.
type sequence struct {
	prompt, limit int // tokens; limit is what will be generated
	prefilled     int
	generated     int
	cancelled     atomic.Bool // the client went away
	stream        *stream     // nil in a calculation without clients
	index         int         // for the calculation
}

func (s *sequence) reserve() int { return s.prompt + s.limit }

// An emission is what one step produced for one sequence.
type emission struct {
	seq    *sequence
	tokens int
	done   bool
}

// A scheduler is continuous batching without a clock: step says how long the
// next step takes and what comes out of it. Prompts go before decoding, as in
// ATOM, so running requests stall while a prompt is read: TTFT and the tail of
// ITL grow with concurrency. A request is admitted when its whole context fits
// the cache; nothing is ever preempted.
type scheduler struct {
	hw         hardware
	maxSeqs    int
	maxBatched int // prompt tokens of one step
	cache      int // tokens
	drafts     int // speculative tokens of one step, 0 without MTP
	accept     float64
	rng        *rand.Rand
	slowTokens int     // a fault: with more than this in the cache,
	slowdown   float64 // steps take so many times as long; 0 is never

	waiting, running []*sequence
	reserved         int
	stats            engineStats
}

// engineStats are the counters behind /metrics and /debug/mtp_stats.
type engineStats struct {
	finished, promptTokens, generated int
	draftTokens, acceptedTokens       int
	decodeSteps                       []int // by accepted drafts
}

func (s *scheduler) add(q *sequence) { s.waiting = append(s.waiting, q) }

func (s *scheduler) idle() bool { return len(s.waiting)+len(s.running) == 0 }

// step carries out one engine step. It returns its length in seconds.
func (s *scheduler) step() (float64, []emission) {
	s.drop()
	for len(s.waiting) > 0 && len(s.running) < s.maxSeqs {
		q := s.waiting[0]
		if len(s.running) > 0 && s.reserved+q.reserve() > s.cache {
			break
		}
		s.waiting = s.waiting[1:]
		s.running = append(s.running, q)
		s.reserved += q.reserve()
	}
	if len(s.running) == 0 {
		return 0, nil
	}
	budget, batch, context := s.maxBatched, 0, 0
	var out []emission
	for _, q := range s.running {
		n := min(q.prompt-q.prefilled, budget)
		if n <= 0 {
			continue
		}
		q.prefilled += n
		budget -= n
		batch += n
		context += q.prefilled
		if q.prefilled == q.prompt {
			s.stats.promptTokens += q.prompt
			out = append(out, s.emit(q, 1))
		}
	}
	if batch > 0 {
		t := s.noise(s.hw.step(batch, 0, context, 0))
		s.retire(out)
		return t, out
	}
	for _, q := range s.running {
		context += q.prompt + q.generated
		out = append(out, s.emit(q, 1+s.accepted()))
	}
	t := s.noise(s.hw.step(0, len(s.running), context, s.drafts))
	s.retire(out)
	return t, out
}

func (s *scheduler) emit(q *sequence, n int) emission {
	n = min(n, q.limit-q.generated)
	q.generated += n
	s.stats.generated += n
	return emission{q, n, q.generated >= q.limit}
}

// accepted draws how many speculative tokens the target model confirmed: each
// with the same probability, up to the first that is refused.
func (s *scheduler) accepted() int {
	if s.drafts == 0 {
		return 0
	}
	n := 0
	for n < s.drafts && s.rng.Float64() < s.accept {
		n++
	}
	s.stats.draftTokens += s.drafts
	s.stats.acceptedTokens += n
	if s.stats.decodeSteps == nil {
		s.stats.decodeSteps = make([]int, s.drafts+1)
	}
	s.stats.decodeSteps[n]++
	return n
}

// noise is what real steps show: a few percent either way, and now and then a
// step that takes half as long again.
func (s *scheduler) noise(t float64) float64 {
	f := 1 + s.hw.jitter*s.rng.NormFloat64()
	if s.rng.Float64() < 0.005 {
		f += 0.5
	}
	if s.slowdown > 0 && s.reserved > s.slowTokens {
		f *= s.slowdown
	}
	return t * math.Max(0.5, f)
}

func (s *scheduler) retire(out []emission) {
	done := false
	for _, e := range out {
		done = done || e.done
	}
	if !done {
		return
	}
	s.keep(func(q *sequence) bool {
		if q.generated < q.limit {
			return true
		}
		s.stats.finished++
		return false
	})
}

func (s *scheduler) drop() {
	s.keep(func(q *sequence) bool { return !q.cancelled.Load() })
	left := s.waiting[:0]
	for _, q := range s.waiting {
		if !q.cancelled.Load() {
			left = append(left, q)
		}
	}
	clear(s.waiting[len(left):])
	s.waiting = left
}

func (s *scheduler) keep(stays func(*sequence) bool) {
	left := s.running[:0]
	for _, q := range s.running {
		if stays(q) {
			left = append(left, q)
		} else {
			s.reserved -= q.reserve()
		}
	}
	clear(s.running[len(left):])
	s.running = left
}
