package collect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/lab"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// labRun is a runner for the demo's plan on a lab: real SSH, simulated node.
func labRun(t *testing.T, f lab.Faults) (*Runner, *lab.Lab) {
	t.Helper()
	return labRunOn(t, 1, f)
}

func labRunOn(t *testing.T, nodes int, f lab.Faults) (*Runner, *lab.Lab) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Executable: exe, Nodes: nodes, Speed: 50, StartDelay: 100 * time.Millisecond, Faults: f})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := l.DemoConfig(lab.Demo{AllPass: true, Slack: lab.BusyMachine})
	if err != nil {
		t.Fatal(err)
	}
	cluster := l.ClusterFile()
	if nodes > 1 { // the demo's config is for one; the others are added to its plan
		cluster = firstNodeOnly(t, cluster, l.Addr(0))
	}
	p, err := plan.Load(plan.Options{ConfigFile: config, ClusterFile: cluster, OSUser: "me"})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < nodes; i++ {
		p.Cluster.Nodes = append(p.Cluster.Nodes, plan.Node{Addr: l.Addr(i)})
	}
	p.Params.NNodes = nodes
	p.Cells = p.Cells[:2]
	p.Params.NumPrompts = 20
	meta := NewMeta(p)
	// Containers share /tmp here, so that ids of tests at the same moment must differ.
	unique := sha256.Sum256([]byte(t.Name()))
	meta.RunID = artifact.NewRunID(time.Now(), bytes.NewReader(unique[:]))
	dir, err := artifact.Create(t.TempDir(), meta)
	if err != nil {
		t.Fatal(err)
	}
	return &Runner{Plan: p, Store: dir, Now: time.Now, Sleep: sleep,
		Dial: func(ctx context.Context, n plan.Node) (Node, error) {
			return remote.Dial(ctx, remote.Config{Addr: n.Addr, User: p.Cluster.Username,
				KeyFiles: []string{l.KeyFile()}, KnownHostsFiles: []string{l.KnownHosts()}})
		},
		Options: Options{Owner: "me@here", StopGrace: 5 * time.Second},
	}, l
}

func TestOverSSH(t *testing.T) {
	t.Parallel()
	r, l := labRun(t, lab.Faults{})
	r.Progress = func(e Event) {
		t.Logf("%-13s %-12s %-16s %6.2fs %s %s", e.Kind, e.Stage, e.Cell, e.Elapsed.Seconds(), e.Status, e.Message)
	}
	meta, err := r.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	run := readRun(t, r)
	if len(run.Results) != 2 || len(run.Problems) != 0 || !meta.Simulated {
		t.Errorf("%d results, problems %v, simulated %v", len(run.Results), run.Problems, meta.Simulated)
	}
	t.Logf("wall %v, server start %v, client %v, idle %v for %d cells", r.Split.Wall, r.Split.ServerStart, r.Split.Client, r.Split.Idle(), r.Split.Cells)
	noContainers(t, l)
	if _, err := os.Stat("/tmp/cvs-" + meta.RunID + "-r0-1"); err == nil {
		t.Errorf("/tmp/cvs-%s is left", meta.RunID)
	}
}

// firstNodeOnly is a copy of a cluster file with one node.
func firstNodeOnly(t *testing.T, file, addr string) string {
	t.Helper()
	doc := readJSON[map[string]any](t, file)
	doc["node_dict"] = map[string]any{addr: map[string]any{}}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(out, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// frameworks are the drivers besides the demo's own, and what makes the demo's
// plan one of theirs.
var frameworks = map[string]func(*plan.Plan){
	"vllm":      func(p *plan.Plan) { p.Params.Driver = plan.DriverVLLM },
	"vllm_atom": func(p *plan.Plan) { p.Params.Driver = plan.DriverVLLMATOM },
	"sglang":    func(p *plan.Plan) { p.Params.Driver = plan.DriverSGLang },
}

// TestDriversOverSSH measures with every framework's own server and client.
func TestDriversOverSSH(t *testing.T) {
	t.Parallel()
	for name, set := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, l := labRun(t, lab.Faults{})
			set(r.Plan)
			meta, err := r.Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			checkMeasured(t, r, 2)
			noContainers(t, l)
			if meta.Status != artifact.Done {
				t.Errorf("status %s", meta.Status)
			}
		})
	}
}

// checkMeasured looks at the results as a reader of the run directory would.
func checkMeasured(t *testing.T, r *Runner, cells int) {
	t.Helper()
	run := readRun(t, r)
	if len(run.Results) != cells || len(run.Problems) != 0 {
		t.Errorf("%d results, want %d; problems %v", len(run.Results), cells, run.Problems)
	}
	for _, res := range run.Results {
		if w := res.Record.Workload; w == nil || w.MeanInputLen == nil || *w.MeanInputLen < 10 || w.MeanOutputLen == nil {
			t.Errorf("%s: workload %+v", res.Path, w)
		}
		if !slices.ContainsFunc(res.Record.Files, func(f artifact.File) bool { return f.Kind == "result" && f.Format == formats[r.Plan.Params.Driver] }) {
			t.Errorf("%s: files %+v", res.Path, res.Record.Files)
		}
	}
}

var formats = map[plan.Driver]string{plan.DriverATOM: "atom_benchmark_serving", plan.DriverVLLM: "vllm_bench_serve",
	plan.DriverVLLMATOM: "vllm_bench_serve", plan.DriverSGLang: "sglang_bench_serving"}

// noContainers checks that no node has a container left.
func noContainers(t *testing.T, l *lab.Lab) {
	t.Helper()
	for i := range l.Nodes() {
		docker := exec.Command(filepath.Join(l.NodeDir(i), "bin", "docker"), "ps", "-aq")
		docker.Env = []string{"CVS_LAB_NODE=" + l.NodeDir(i), "PATH=/usr/bin:/bin"}
		if out, err := docker.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("containers are left on node %d: %s%v", i, out, err)
		}
	}
}

func TestOverSSHFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		faults lab.Faults
		want   string
	}{
		{"tunnel refused", lab.Faults{RefuseForward: true}, "refuses TCP forwarding"},
		{"server dies at start", lab.Faults{ServerDiesAtStart: true}, "ended while starting"},
		{"half artefact", lab.Faults{Client: lab.ClientHalf}, "is not whole"},
		{"docker down", lab.Faults{DockerDown: true}, "docker did not answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _ := labRun(t, tt.faults)
			if _, err := r.Run(context.Background()); !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestLock has a second run refused while the first holds the node.
func TestLock(t *testing.T) {
	t.Parallel()
	first, _ := labRun(t, lab.Faults{})
	second := *first
	meta := NewMeta(first.Plan)
	meta.RunID = "second"
	dir, err := artifact.Create(t.TempDir(), meta)
	if err != nil {
		t.Fatal(err)
	}
	second.Store = dir
	var serr error
	first.Progress = func(e Event) {
		if e.Kind == CellStarted && e.Index == 1 {
			_, serr = second.Run(context.Background())
		}
	}
	if _, err := first.Run(context.Background()); err != nil {
		t.Error(err)
	}
	if !errors.Is(serr, ErrRun) || !strings.Contains(serr.Error(), "another cvs run is using") {
		t.Errorf("second run: %v", serr)
	}
}
