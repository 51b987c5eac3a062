package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cvs/collect/lab"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// answers puts programs that print a fixed text on a node.
func answers(t *testing.T, l *lab.Lab, node int, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		file := filepath.Join(l.NodeDir(node), "bin", name)
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\ncat <<'EOF'\n"+text+"\nEOF\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// twoNodes is a run over two lab nodes with a fabric between them.
func twoNodes(t *testing.T, set func(*plan.Plan)) (*Runner, *lab.Lab) {
	t.Helper()
	r, l := labRunOn(t, 2, lab.Faults{})
	set(r.Plan)
	if r.Plan.Params.Driver == plan.DriverATOM {
		r.Plan.Params.DP, r.Plan.Params.TP = 2, 4
	} else {
		r.Plan.Params.PP = 2
	}
	r.Plan.Params.MasterPort = freePort(t)
	for i := range r.Plan.Cluster.Nodes {
		r.Plan.Cluster.Nodes[i].VPCIP = fmt.Sprintf("127.0.0.%d", 1+i)
	}
	return r, l
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := lab.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestTwoNodes(t *testing.T) {
	t.Parallel()
	all := map[string]func(*plan.Plan){"atom": func(*plan.Plan) {}}
	for name, set := range frameworks {
		all[name] = set
	}
	for name, set := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, l := twoNodes(t, set)
			var started []string
			r.Progress = func(e Event) {
				t.Logf("%-13s %-12s %-16s %-16s %s %s", e.Kind, e.Stage, e.Host, e.Cell, e.Status, e.Message)
			}
			meta, err := r.Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			checkMeasured(t, r, 2)
			noContainers(t, l)
			if d := meta.Identity.ImageDigests; len(d) != 2 || d[l.Addr(0)] == "" || d[l.Addr(0)] != d[l.Addr(1)] {
				t.Errorf("image digests %v", d)
			}
			run := readRun(t, r)
			for _, s := range run.Stages {
				if s.Stage == "container" || s.Stage == "teardown" {
					started = append(started, s.Stage+" "+s.Host)
				}
			}
			slices.Sort(started)
			want := []string{"container " + l.Addr(0), "container " + l.Addr(1), "teardown " + l.Addr(0), "teardown " + l.Addr(1)}
			slices.Sort(want)
			if !slices.Equal(started, want) {
				t.Errorf("stages by node: %q", started)
			}
			for _, f := range run.Results[0].Record.Files {
				if f.Name == "server-node1.log" && f.Kind == "server_log" && f.Bytes > 0 {
					return
				}
			}
			t.Errorf("the log of rank 1 was not kept: %+v", run.Results[0].Record.Files)
		})
	}
}

// TestTwoNodesFail has one of two nodes go wrong: the run ends, says which, and
// nothing stays on either.
func TestTwoNodesFail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		set  func(*testing.T, *Runner, *lab.Lab)
		want []string // in the error
	}{
		{"headless rank dies at start", func(t *testing.T, _ *Runner, l *lab.Lab) {
			if err := l.SetFaults(1, lab.Faults{ServerDiesAtStart: true}); err != nil {
				t.Fatal(err)
			}
		}, []string{"rank 1 on 127.0.0.2", "exit status 1", "WorkerProc failed to start"}},
		{"no docker on the second", func(t *testing.T, _ *Runner, l *lab.Lab) {
			if err := l.SetFaults(1, lab.Faults{DockerDown: true}); err != nil {
				t.Fatal(err)
			}
		}, []string{"127.0.0.2", "Cannot connect to the Docker daemon"}},
		{"another image on the second", func(t *testing.T, r *Runner, l *lab.Lab) {
			answers(t, l, 1, map[string]string{"docker": `[{"Id":"sha256:other","RepoDigests":[],"Config":{"Labels":{"cvs.run_id":"` + r.Store.Meta().RunID + `"}},"State":{"Running":true}}]`})
		}, []string{"is not the same on all nodes", "has sha256:other"}},
		{"persistent on one only", func(t *testing.T, r *Runner, l *lab.Lab) {
			r.Plan.Container.Lifetime = plan.Persistent
			answers(t, l, 1, map[string]string{"docker": `[{"Id":"x","Config":{"Labels":{"cvs.run_id":"r"}},"State":{"Running":true}}]`})
		}, []string{"runs on 127.0.0.2", "but not on 127.0.0.1"}},
		{"different devices", func(t *testing.T, _ *Runner, l *lab.Lab) {
			answers(t, l, 1, map[string]string{"ibv_devinfo": "1 HCA found:\n\tmlx5_0\n"})
		}, []string{"different RDMA devices", "127.0.0.2", "has mlx5_0;"}},
		{"master elsewhere", func(_ *testing.T, r *Runner, _ *lab.Lab) { r.Plan.Params.MasterAddr = "192.0.2.99" },
			[]string{"192.0.2.99, is not one of 127.0.0.1"}},
		{"master port taken", func(t *testing.T, r *Runner, _ *lab.Lab) {
			n, err := net.Listen("tcp", loopback(r.Plan.Params.MasterPort))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { n.Close() })
		}, []string{"is already in use", "params.master_port"}},
		{"second node unreachable", func(_ *testing.T, r *Runner, l *lab.Lab) {
			dial := r.Dial
			r.Dial = func(ctx context.Context, n plan.Node) (Node, error) {
				if n.Addr == l.Addr(1) {
					return nil, &remote.UnreachableError{Host: n.Addr, Phase: remote.PhaseConnect, Err: errors.New("no route to host")}
				}
				return dial(ctx, n)
			}
		}, []string{"connect failed: no route to host"}},
		{"another GPU on the second", func(t *testing.T, r *Runner, l *lab.Lab) {
			r.Plan.GPUArch = "mi300x"
			answers(t, l, 0, map[string]string{"amd-smi": `[{"asic":{"market_name":"AMD Instinct MI300X","target_graphics_version":"gfx942"}}]`})
			answers(t, l, 1, map[string]string{"amd-smi": `{"gpu_data":[{"asic":{"market_name":"AMD Instinct MI355X","target_graphics_version":"gfx950"}}]}`})
		}, []string{`has "AMD Instinct MI355X gfx950", but the config is for gpu_arch mi300x`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, l := twoNodes(t, frameworks["vllm_atom"])
			tt.set(t, r, l)
			_, err := r.Run(context.Background())
			if !errors.Is(err, ErrRun) {
				t.Fatalf("got %v", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, want %q", err, w)
				}
			}
			if n := len(records1(t, r)); strings.HasPrefix(tt.name, "headless") != (n > 0) {
				t.Errorf("%d cells were tried", n)
			}
			if err := l.SetFaults(1, lab.Faults{}); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(tt.name, "another image") && !strings.HasPrefix(tt.name, "persistent") { // their docker is a text
				noContainers(t, l)
			}
		})
	}
}
