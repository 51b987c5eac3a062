package lab

import (
	"context"
	"sync"
	"time"
)

// An engine runs a scheduler against the clock: one goroutine, one step after
// the other, tokens delivered when their step ends.
type engine struct {
	mu     sync.Mutex // guards sched and busy
	sched  *scheduler
	busy   float64 // seconds spent in steps
	wake   chan struct{}
	blocks int // cache size in blocks of 16 tokens
}

func newEngine(s *scheduler) *engine {
	return &engine{sched: s, wake: make(chan struct{}, 1), blocks: s.cache / cacheBlock}
}

const cacheBlock = 16 // tokens

// A stream is where a sequence's tokens arrive. A reader that lags finds
// several at once, as with the real server.
type stream struct {
	mu      sync.Mutex
	pending int
	done    bool
	ready   chan struct{}
}

func (s *stream) push(n int, done bool) {
	s.mu.Lock()
	s.pending += n
	s.done = s.done || done
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// next waits for tokens. It returns how many arrived and whether they are the last.
func (s *stream) next(ctx context.Context) (int, bool, error) {
	for {
		s.mu.Lock()
		n, done := s.pending, s.done
		s.pending = 0
		s.mu.Unlock()
		if n > 0 || done {
			return n, done, nil
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return 0, false, ctx.Err()
		}
	}
}

// submit hands a request to the engine.
func (e *engine) submit(prompt, limit int) *sequence {
	q := &sequence{prompt: max(1, prompt), limit: max(1, limit), stream: &stream{ready: make(chan struct{}, 1)}}
	e.mu.Lock()
	e.sched.add(q)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return q
}

// run steps until ctx ends. Steps follow an absolute schedule, so late wake-ups
// do not add up; after a stall the schedule starts anew rather than catching up
// in a burst no hardware could deliver.
func (e *engine) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	next := time.Now()
	for ctx.Err() == nil {
		e.mu.Lock()
		idle := e.sched.idle()
		var seconds float64
		var out []emission
		if !idle {
			seconds, out = e.sched.step()
			e.busy += seconds
		}
		e.mu.Unlock()
		if idle {
			select {
			case <-e.wake:
			case <-ctx.Done():
			}
			next = time.Now()
			continue
		}
		if now := time.Now(); now.Sub(next) > 20*time.Millisecond {
			next = now
		}
		next = next.Add(time.Duration(seconds * float64(time.Second)))
		if d := time.Until(next); d > 0 {
			timer.Reset(d)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		for _, o := range out {
			o.seq.stream.push(o.tokens, o.done)
		}
	}
}

// A gauge set is a snapshot of the engine for /metrics.
type gauges struct {
	engineStats
	running, waiting, partial, blocksUsed, blocksTotal int

	busy float64 // seconds spent in steps
}

func (e *engine) snapshot() gauges {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := gauges{engineStats: e.sched.stats, running: len(e.sched.running), waiting: len(e.sched.waiting), blocksTotal: e.blocks, busy: e.busy}
	g.decodeSteps = append([]int(nil), g.decodeSteps...)
	for _, q := range e.sched.running {
		if q.prefilled < q.prompt {
			g.partial++
		}
		g.blocksUsed += (q.prefilled + q.generated + cacheBlock - 1) / cacheBlock
	}
	return g
}
