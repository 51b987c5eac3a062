package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cvs/collect/container"
	"cvs/collect/remote"
)

// transportFunc lets a test be the server.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
}

// TestReady walks the readiness state machine on a virtual clock: a server is a
// function of the time since its start.
func TestReady(t *testing.T) {
	t.Parallel()
	good := func(path string) (int, string) {
		if path == "/v1/models" {
			return 200, `{"data":[{"id":"example-org/Demo-70B-FP8"}]}`
		}
		return 200, "{}"
	}
	refused := errors.New("connection refused")
	budget := 3960 * time.Second // of the test plan
	tests := []struct {
		name     string
		server   func(at time.Duration, path string) (int, string, error)
		dies     time.Duration // 0: never
		want     string        // in the error, "" for ready
		min, max time.Duration // when the wait ended
	}{
		{"at once", func(_ time.Duration, p string) (int, string, error) { s, b := good(p); return s, b, nil }, 0, "", 0, 0},
		{"after 20 s", func(at time.Duration, p string) (int, string, error) {
			if at < 20*time.Second {
				return 0, "", refused
			}
			s, b := good(p)
			return s, b, nil
		}, 0, "", 20 * time.Second, 21 * time.Second},
		{"healthy, but loading for 100 s", func(at time.Duration, p string) (int, string, error) {
			if p == "/v1/completions" && at < 100*time.Second {
				return 503, "loading", nil
			}
			s, b := good(p)
			return s, b, nil
		}, 0, "", 100 * time.Second, 101 * time.Second},
		{"never", func(time.Duration, string) (int, string, error) { return 0, "", refused }, 0,
			"not ready within 1h6m0s", budget, budget + 2*time.Second},
		{"dies while loading", func(time.Duration, string) (int, string, error) { return 0, "", refused }, 30 * time.Second,
			"ended while starting: exit status 3", 30 * time.Second, 31 * time.Second},
		{"another model", func(_ time.Duration, p string) (int, string, error) {
			return 200, `{"data":[{"id":"other"}]}`, nil
		}, 0, `serves ["other"], not "example-org/Demo-70B-FP8"`, 0, 0},
		{"refuses completions for good", func(_ time.Duration, p string) (int, string, error) {
			if p == "/v1/completions" {
				return 400, `{"detail":"context"}`, nil
			}
			s, b := good(p)
			return s, b, nil
		}, 0, "status 400", time.Millisecond, 10 * time.Second},
		{"connection lost", func(time.Duration, string) (int, string, error) {
			return 0, "", &remote.LostError{Host: "h", Err: refused}
		}, 0, "connection lost", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, 9, 24, 12, 0, 0, 0, time.UTC)
			now := start
			proc := &process{done: make(chan struct{})}
			s := &server{session: 1, done: make(chan struct{}), ranks: []*process{proc}}
			r := &Runner{Plan: testPlan(t), Now: func() time.Time { return now }}
			r.Sleep = func(ctx context.Context, d time.Duration) error {
				now = now.Add(d)
				if tt.dies > 0 && now.Sub(start) >= tt.dies && s.died() == "" {
					code := 3
					proc.exit = exit{Code: &code}
					close(proc.done)
					close(s.done)
					<-ctx.Done() // the end of the process ends the wait at once
				}
				return ctx.Err()
			}
			cmds, err := newCommands(r.Plan, container.Identity{RunID: "r"}, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			x := &run{r: r, p: r.Plan, drv: cmds.drv}
			m := &member{run: x, cmds: cmds}
			x.members, proc.m = []*member{m}, m
			m.http = &http.Client{Transport: transportFunc(func(q *http.Request) (*http.Response, error) {
				status, body, err := tt.server(now.Sub(start), q.URL.Path)
				if err != nil {
					return nil, err
				}
				return answer(status, body)
			})}
			err = x.ready(context.Background(), s)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if took := now.Sub(start); took < tt.min || took > tt.max {
				t.Errorf("ended after %v, want %v to %v", took, tt.min, tt.max)
			}
		})
	}
}

func TestParseModel(t *testing.T) {
	t.Parallel()
	tests := []struct {
		out     string
		missing bool
		bytes   int64
		problem string
	}{
		{"missing\n", true, 0, ""},
		{"snapshot abc\nfile 10 config.json\nfile 90 a-1.safetensors\nshard a-1.safetensors\n", false, 100, ""},
		{"snapshot abc\nfile 10 config.json\nshard a-1.safetensors\nshard a-2.safetensors\n", false, 10, "2 of 2 shards of the index are not there, first a-1.safetensors"},
		{"incomplete x.incomplete\nsnapshot abc\nfile 10 config.json\n", false, 10, "a download is unfinished"},
		{"snapshot abc\nfile 90 model.safetensors\n", false, 90, "config.json is not there"},
		{"snapshot abc\nfile 10 config.json\nfile 0 a b.safetensors\n", false, 10, "a b.safetensors is empty"},
	}
	for _, tt := range tests {
		got := parseModel([]byte(tt.out))
		if got.Missing != tt.missing || got.Bytes != tt.bytes || !strings.Contains(fmt.Sprint(got.Problems), tt.problem) ||
			tt.problem == "" && len(got.Problems) > 0 {
			t.Errorf("%q: %+v", tt.out, got)
		}
	}
}

func TestRedactor(t *testing.T) {
	t.Parallel()
	r := newRedactor("hf_SENTINEL", "1", "12345678", "a\"b\nc-secret", "")
	if len(r) != 2 {
		t.Errorf("%d secrets, want 2: short and numeric values would match everywhere", len(r))
	}
	if got := r.text("x hf_SENTINEL y 1"); got != "x [redacted] y 1" {
		t.Errorf("text: %q", got)
	}
	if got := r.json(`{"k": "a\"b\nc-secret"}`); got != `{"k": "[redacted]"}` {
		t.Errorf("json: %q", got)
	}
}

// TestLifecycle prints the table of stages: a change of it is a decision.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range lifecycle {
		names = append(names, s.name)
	}
	if got := strings.Join(names, " "); got != "connect preflight dmesg_mark topology containers container images model sweep tasks dmesg_scan" {
		t.Errorf("stages: %s", got)
	}
}
