package collect

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// TestRun carries out a whole run with real processes.
func TestRun(t *testing.T) {
	t.Parallel()
	r, n := localRun(t)
	// Native ATOM serves no log-likelihoods.
	r.Plan.Accuracy = []plan.AccuracyTask{{ID: "hella", Tasks: []string{"hellaswag"}}}
	r.Plan.Container.Env = []plan.EnvVar{{Name: "MY_SECRET", Value: "it's $ecret\n"}}
	var events []Event
	r.Progress = func(e Event) { events = append(events, e) }
	meta, err := r.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if meta.Status != artifact.Done || !meta.Simulated || meta.Identity.GPUSeen != "lab-sim" ||
		meta.Identity.ImageDigests["192.0.2.11"] != "sha256:def" {
		t.Errorf("run.json: %+v", meta)
	}
	run := readRun(t, r)
	if len(run.Results) != 2 || len(run.Problems) != 0 {
		t.Fatalf("%d results, problems %v", len(run.Results), run.Problems)
	}
	for i, res := range run.Results {
		rec := res.Record
		if rec.Status != artifact.Done || rec.ServerSession != 1 || rec.Warm != (i > 0) || *rec.ExitCode != 0 ||
			*rec.Workload.MeanInputLen != 10 || rec.ConfigDigest == "" {
			t.Errorf("record %d: %+v", i, rec)
		}
		var kinds []string
		for _, f := range rec.Files {
			kinds = append(kinds, f.Kind)
		}
		slices.Sort(kinds)
		if !slices.Equal(kinds, []string{"client_log", "result", "server_log"}) {
			t.Errorf("record %d: files %v", i, kinds)
		}
	}
	if a, b := run.Results[0].Record, run.Results[1].Record; a.ConfigDigest == b.ConfigDigest {
		t.Error("two cells have one configuration digest")
	}
	if len(run.Expected.Tasks) != 1 || run.Expected.Tasks[0].Status != artifact.NotRun || !strings.Contains(run.Expected.Tasks[0].Reason, "log-likelihood") {
		t.Errorf("expected tasks: %+v", run.Expected.Tasks)
	}
	if b, _ := os.ReadFile(filepath.Join(n.dir, "run-env")); !bytes.Contains(b, []byte("MY_SECRET=it's $ecret\n")) {
		t.Error("docker run did not get the secret")
	}
	if idle := r.Split.Idle(); r.Split.Cells != 2 || r.Split.ServerStart <= 0 || r.Split.Client <= 0 || idle < 0 {
		t.Errorf("split %+v, idle %v", r.Split, idle)
	}
	if events[len(events)-1].Stage != "teardown" {
		t.Errorf("last event: %+v", events[len(events)-1])
	}
	n.nothingLeft(t, meta.RunID)
	noSecret(t, r, events)
}

// noSecret looks for the token in everything that the run left and said.
func noSecret(t *testing.T, r *Runner, events []Event) {
	t.Helper()
	for _, e := range events {
		if strings.Contains(e.Message, "SENTINEL") {
			t.Errorf("the token is in an event: %s", e.Message)
		}
	}
	err := filepath.WalkDir(r.Store.(*artifact.Dir).Path(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("SENTINEL")) {
			t.Errorf("the token is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCells has one cell go wrong in each way a client can; the other is
// measured all the same.
func TestCells(t *testing.T) {
	t.Parallel()
	tests := []struct {
		client string
		reason string   // in the failed cell's record
		kinds  []string // of the files of the failed cell
		status artifact.Status
		server int // session of the second cell
	}{
		{"exit1", "unrecognized arguments", []string{"client_log", "server_log"}, artifact.Failed, 1},
		{"partial", "results.json is not whole", []string{"client_log", "partial", "server_log"}, artifact.Failed, 1},
		{"none", "left no results.json", []string{"client_log", "server_log"}, artifact.Failed, 1},
		{"hang", "did not end within 4s", []string{"client_log", "server_log"}, artifact.Failed, 1},
		{"killserver", "exit status 9", []string{"client_log", "server_log"}, artifact.Failed, 2},
	}
	for _, tt := range tests {
		t.Run(tt.client, func(t *testing.T) {
			t.Parallel()
			r, n := localRun(t)
			n.behave(t, "client-64", tt.client)
			if tt.client == "hang" {
				r.Plan.Params.ClientInitialWait, r.Plan.Params.ClientPollCount = 4, 0
			}
			meta, err := r.Run(context.Background())
			if !errors.Is(err, ErrRun) || meta.Status != artifact.Failed {
				t.Errorf("status %s, error %v", meta.Status, err)
			}
			if err != nil && strings.Contains(err.Error(), "SENTINEL") {
				t.Errorf("the token is in the error: %v", err)
			}
			recs := records1(t, r)
			if len(recs) != 2 {
				t.Fatalf("%d records, want 2", len(recs))
			}
			bad, good := recs[0], recs[1]
			if bad.Status != tt.status || !strings.Contains(bad.Reason, tt.reason) {
				t.Errorf("failed cell: %s %q, want %q", bad.Status, bad.Reason, tt.reason)
			}
			var kinds []string
			for _, f := range bad.Files {
				kinds = append(kinds, f.Kind)
			}
			slices.Sort(kinds)
			if !slices.Equal(kinds, tt.kinds) {
				t.Errorf("failed cell: files %v, want %v", kinds, tt.kinds)
			}
			if good.Status != artifact.Done || good.ServerSession != tt.server {
				t.Errorf("other cell: %+v", good)
			}
			n.nothingLeft(t, meta.RunID)
			noSecret(t, r, nil)
		})
	}
}

// records1 reads the records of all cells, in order, also of those without a
// result.
func records1(t *testing.T, r *Runner) []artifact.Record {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.Store.(*artifact.Dir).Path(), "cells", "*", "*", "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var out []artifact.Record
	for _, f := range files {
		out = append(out, readJSON[artifact.Record](t, f))
	}
	return out
}

// TestEnds has the run end early in each way that is not a single cell's.
func TestEnds(t *testing.T) {
	t.Parallel()
	foreign := `[{"Id":"x","Created":"2026-01-02T03:04:05Z","Config":{"Labels":{},"Image":"i"},"State":{"Running":true}}]`
	ours := `[{"Id":"x","Config":{"Labels":{"cvs.run_id":"run-123"},"Image":"i"},"State":{"Running":false}}]`
	tests := []struct {
		name   string
		set    func(*testing.T, *Runner, *localNode)
		want   string // in the error; "" for none
		cells  int    // records
		remain string // a file that must still be there
	}{
		{"server crashes", func(t *testing.T, _ *Runner, n *localNode) { n.behave(t, "server", "crash") },
			"incomplete metadata", 1, ""},
		{"another model answers", func(t *testing.T, _ *Runner, n *localNode) { n.behave(t, "served-model", "other/model") },
			`serves ["other/model"], not "example-org/Demo-70B-FP8"`, 1, ""},
		{"foreign container", func(t *testing.T, _ *Runner, n *localNode) { n.behave(t, "container-atom_demo", foreign) },
			"container named atom_demo already exists (running, created", 0, "container-atom_demo"},
		{"foreign container with force", func(t *testing.T, r *Runner, n *localNode) {
			n.behave(t, "container-atom_demo", foreign)
			r.Options.Force = true
		}, "", 2, ""},
		{"our own left-over", func(t *testing.T, _ *Runner, n *localNode) { n.behave(t, "container-atom_demo", ours) }, "", 2, ""},
		{"another name", func(t *testing.T, _ *Runner, n *localNode) { n.behave(t, "container-atom_demo_old", foreign) },
			"", 2, "container-atom_demo_old"},
		{"docker does not answer", func(t *testing.T, _ *Runner, n *localNode) { n.behave(t, "docker-broken", "1") },
			"Cannot connect to the Docker daemon", 0, ""},
		{"docker run fails", func(t *testing.T, _ *Runner, n *localNode) {
			n.behave(t, "docker-run-fails", "no space left on device")
		},
			"no space left on device", 0, ""},
		{"container stays", func(t *testing.T, _ *Runner, n *localNode) { n.behave(t, "rm-fails", "1") },
			"container atom_demo on 192.0.2.11: still there", 2, "container-atom_demo"},
		{"no_launch without container", func(_ *testing.T, r *Runner, _ *localNode) { r.Plan.Container.Lifetime = plan.NoLaunch },
			"does not exist, and lifetime no_launch starts none", 0, ""},
		{"no_launch keeps the container", func(t *testing.T, r *Runner, n *localNode) {
			r.Plan.Container.Lifetime = plan.NoLaunch
			n.behave(t, "container-atom_demo", foreign)
		}, "", 2, "container-atom_demo"},
		{"persistent keeps the container", func(_ *testing.T, r *Runner, _ *localNode) {
			r.Plan.Container.Lifetime = plan.Persistent
		}, "", 2, "container-atom_demo"},
		{"worker ignores TERM", func(t *testing.T, r *Runner, n *localNode) {
			n.behave(t, "grandchild", "1")
			r.Options.StopGrace = 200 * time.Millisecond
		}, "", 2, ""},
		{"fresh server per cell", func(_ *testing.T, r *Runner, _ *localNode) { r.Plan.Params.ReuseServer = false }, "", 2, ""},
		{"fail fast", func(t *testing.T, r *Runner, n *localNode) {
			n.behave(t, "client-64", "exit1")
			r.Options.FailFast = true
		}, "w1-conc64", 1, ""},
		{"failures in a row", func(t *testing.T, r *Runner, n *localNode) {
			n.behave(t, "client-64", "exit1")
			r.Options.Repeat, r.Options.MaxFailures = 3, 2
		}, "w1-conc64", 2, ""},
		{"repeats", func(_ *testing.T, r *Runner, _ *localNode) { r.Options.Repeat = 2 }, "", 4, ""},
		{"two deaths", func(t *testing.T, r *Runner, n *localNode) {
			n.behave(t, "client-64", "killserver")
			r.Options.Repeat = 2
		}, "restarted once already", 3, ""},
		{"connection lost", func(_ *testing.T, r *Runner, n *localNode) {
			n.lose = func(c remote.Command) bool {
				return strings.Contains(strings.Join(c.Args, " "), "benchmark_serving")
			}
			dials := 0
			r.Dial = func(context.Context, plan.Node) (Node, error) {
				if dials++; dials > 1 { // it answers again
					n.back()
				}
				return n, nil
			}
		}, "", 2, ""},
		{"connection lost until teardown", func(_ *testing.T, r *Runner, n *localNode) {
			n.lose = func(c remote.Command) bool {
				return strings.Contains(strings.Join(c.Args, " "), "benchmark_serving")
			}
			dials := 0
			r.Options.Reconnect = time.Nanosecond
			r.Dial = func(context.Context, plan.Node) (Node, error) {
				switch dials++; dials {
				case 1:
				case 2:
					return nil, errors.New("no route to host")
				default:
					n.back()
				}
				return n, nil
			}
		}, "connection reset", 1, ""},
		{"unreachable for good", func(_ *testing.T, r *Runner, n *localNode) {
			n.lose = func(c remote.Command) bool { return strings.Contains(strings.Join(c.Args, " "), "run -d") }
			dials := 0
			r.Dial = func(context.Context, plan.Node) (Node, error) {
				if dials++; dials > 1 {
					return nil, errors.New("no route to host")
				}
				return n, nil
			}
			r.Sleep = func(context.Context, time.Duration) error { return context.DeadlineExceeded }
		}, "whether container and processes are still there is unknown", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, n := localRun(t)
			tt.set(t, r, n)
			meta, err := r.Run(context.Background())
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("error %v", err)
			case tt.want != "" && (!errors.Is(err, ErrRun) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want ErrRun with %q", err, tt.want)
			}
			if got := len(records1(t, r)); got != tt.cells {
				t.Errorf("%d records, want %d", got, tt.cells)
			}
			if tt.remain != "" {
				if err := os.Remove(filepath.Join(n.dir, tt.remain)); err != nil {
					t.Errorf("it was removed, or never there: %v", err)
				}
			}
			n.nothingLeft(t, meta.RunID)
			if meta.EndedAt == nil || meta.Status == artifact.Running {
				t.Errorf("the run directory is not closed: %+v", meta)
			}
		})
	}
}

// TestCancel interrupts a run as each of its stages begins: nothing may be left,
// what was measured stays, and the status says so.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"connect", "preflight", "container", "model", "server_start", "cell", "client"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r, n := localRun(t)
			n.behave(t, "client-64", "hang")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r.Progress = func(e Event) {
				if e.Stage == at && (e.Kind == StageStarted || e.Status == artifact.Skipped) {
					cancel()
				}
			}
			meta, err := r.Run(ctx)
			if !errors.Is(err, context.Canceled) || meta.Status != artifact.Interrupted {
				t.Errorf("status %s, error %v", meta.Status, err)
			}
			n.nothingLeft(t, meta.RunID)
			run := readRun(t, r)
			if len(run.Expected.Cells) != 2 {
				t.Errorf("the plan is not in the run directory: %+v", run.Expected)
			}
		})
	}
}

// TestCancelLater interrupts while a client really runs.
func TestCancelLater(t *testing.T) {
	t.Parallel()
	r, n := localRun(t)
	n.behave(t, "client-128", "hang")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	node := &cancelOnWait{localNode: n, cancel: cancel}
	r.Dial = func(context.Context, plan.Node) (Node, error) { return node, nil }
	meta, err := r.Run(ctx)
	if !errors.Is(err, context.Canceled) || meta.Status != artifact.Interrupted {
		t.Errorf("status %s, error %v", meta.Status, err)
	}
	recs := records1(t, r)
	if len(recs) != 2 || recs[0].Status != artifact.Done || recs[1].Status != artifact.Interrupted {
		t.Errorf("records: %+v", recs)
	}
	n.nothingLeft(t, meta.RunID)
}

// cancelOnWait cancels the run once the second client is waited for.
type cancelOnWait struct {
	*localNode
	cancel func()
}

func (c *cancelOnWait) Run(ctx context.Context, cmd remote.Command) (remote.Result, error) {
	if strings.HasPrefix(cmd.Name, "wait") && strings.HasSuffix(cmd.Name, "client-2-1") {
		c.cancel()
	}
	return c.localNode.Run(ctx, cmd)
}

func writeToken(t *testing.T, n *localNode, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, "token"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestToken: the token is what the file holds without what editors add to it.
func TestToken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"hf_x": "hf_x", "hf_x\n": "hf_x", "\ufeffhf_x\r\n": "hf_x", "  hf_x \n\n": "hf_x"} {
		r, n := localRun(t)
		writeToken(t, n, text)
		if got, err := r.hfToken(); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		set  func(*Runner, *localNode)
		want error
		text string
	}{
		{"two nodes wanted, one named", func(r *Runner, _ *localNode) { r.Plan.Params.NNodes = 2 }, ErrInput, "params.nnodes is 2, but the cluster file names 1 nodes"},
		{"no token", func(r *Runner, n *localNode) { os.Remove(filepath.Join(n.dir, "token")) }, ErrInput, "hf_token_file"},
		{"token with a blank", func(_ *Runner, n *localNode) { writeToken(t, n, "hf_a b\n") }, ErrInput, "does not hold one token"},
		{"token that is no text", func(_ *Runner, n *localNode) { writeToken(t, n, "hf_\x1b") }, ErrInput, "does not hold one token"},
		{"empty token", func(r *Runner, n *localNode) { r.Plan.Paths.HFTokenFile = os.DevNull }, ErrInput, "is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, n := localRun(t)
			r.Dial = func(context.Context, plan.Node) (Node, error) {
				t.Error("a node was touched")
				return nil, errors.New("no")
			}
			tt.set(r, n)
			if err := r.Check(); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("check: %v", err)
			}
			if _, err := r.Run(context.Background()); !errors.Is(err, tt.want) {
				t.Errorf("run: %v", err)
			}
		})
	}
	r, n := localRun(t)
	os.Remove(filepath.Join(n.dir, "token"))
	r.Options.NoHFToken = true
	if err := r.Check(); err != nil {
		t.Errorf("without a token on request: %v", err)
	}
}
