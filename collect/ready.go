package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"cvs/collect/driver"
)

// ready waits until the server is up: its processes live, and on every rank
// that serves, /health says so, the model that was asked for is served, and one
// token is completed. The configured waits are the upper bound; the end of a
// process ends the wait at once.
func (x *run) ready(ctx context.Context, s *server) error {
	budget := time.Duration(x.p.Params.ReadyBudget()) * time.Second
	deadline := x.r.Now().Add(budget)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.done:
			cancel(errServer)
		case <-stop:
		}
	}()
	refused := 0
	delay := 50 * time.Millisecond
	looked := x.r.Now()
	for {
		err := x.probeAll(ctx, s, deadline.Sub(x.r.Now()))
		var final *finalError
		switch {
		case err == nil:
			return nil
		case errors.Is(context.Cause(ctx), errServer):
			if lost := s.lost(); lost != nil {
				return lost
			}
			return fmt.Errorf("%w: it ended while starting: %s", errServer, s.died())
		case ctx.Err() != nil:
			return ctx.Err()
		case unreachable(err):
			return err
		case errors.As(err, &final):
			// A request that is refused as wrong will not become right by waiting,
			// but a server may refuse while it is still loading.
			if refused++; refused >= final.patience {
				return fmt.Errorf("%w: %w", errServer, err)
			}
		default:
			refused = 0
		}
		if !x.r.Now().Before(deadline) {
			return fmt.Errorf("%w: not ready within %v (params.server_precheck_wait_s + server_warmup_wait_s + server_poll_count × server_poll_wait_time); last answer: %w", errServer, budget, err)
		}
		if x.r.Now().Sub(looked) >= lookEvery {
			looked = x.r.Now()
			x.readServerLogs(ctx, s)
		}
		// An error of Sleep is the end of ctx, which the next probe sees.
		if x.r.Sleep(ctx, delay) == nil {
			delay = min(delay*3/2, time.Second)
		}
	}
}

// A finalError is an answer that waiting does not change.
type finalError struct {
	err      error
	patience int // how many in a row are believed
}

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// probeAll probes every rank that serves, in rank order.
func (x *run) probeAll(ctx context.Context, s *server, left time.Duration) error {
	for _, r := range s.ranks {
		if !x.drv.Serves(x.p, r.m.rank) {
			continue
		}
		if err := r.probe(ctx, left); err != nil {
			if unreachable(err) {
				r.m.lose(err)
			}
			return err
		}
	}
	return nil
}

// healthy asks every rank that serves for its health only, and once more if an
// answer does not come: a question may be under way when a connection breaks.
func (x *run) healthy(ctx context.Context, s *server) error {
	if err := x.askHealth(ctx, s); err == nil || ctx.Err() != nil || x.lostHost() != "" {
		return err
	}
	return x.askHealth(ctx, s)
}

func (x *run) askHealth(ctx context.Context, s *server) error {
	for _, r := range s.ranks {
		if !x.drv.Serves(x.p, r.m.rank) {
			continue
		}
		if err := r.m.get(ctx, driver.HealthPath, nil); err != nil {
			if unreachable(err) && ctx.Err() == nil {
				r.m.lose(err)
			}
			return err
		}
	}
	return nil
}

// probe asks a rank everything that makes it ready, once.
func (p *process) probe(ctx context.Context, left time.Duration) error {
	m := p.m
	if err := m.get(ctx, driver.HealthPath, nil); err != nil {
		return err
	}
	var models struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := m.get(ctx, driver.ModelsPath, &models); err != nil {
		return err
	}
	want := strings.TrimSuffix(driver.ServedModel(m.run.p, p.argv), "/")
	var ids []string
	for _, d := range models.Data {
		ids = append(ids, clip(strings.TrimSuffix(d.ID, "/"), 200))
	}
	if !slices.Contains(ids, want) {
		return &finalError{fmt.Errorf("the server on port %d of %s serves %q, not %q", m.run.p.Params.Port, m.host(), ids, want), 1}
	}
	body, err := json.Marshal(map[string]any{"model": want, "prompt": "hi", "max_tokens": 1})
	if err != nil {
		return err
	}
	return m.request(ctx, http.MethodPost, driver.CompletionPath, body, min(max(left, time.Second), 2*time.Minute), nil)
}

func (m *member) get(ctx context.Context, path string, into any) error {
	return m.request(ctx, http.MethodGet, path, nil, 10*time.Second, into)
}

// request sends one request to the server through the connection to the node,
// so that nothing has to exist inside the image for it.
func (m *member) request(ctx context.Context, method, path string, body []byte, limit time.Duration, into any) error {
	rctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(rctx, method, "http://"+loopback(m.run.p.Params.Port)+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		err := fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, clip(strings.TrimSpace(string(text)), 300))
		if resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout {
			return &finalError{err, 10}
		}
		return err
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
