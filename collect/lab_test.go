package collect

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Executable: exe, Speed: 50, StartDelay: 100 * time.Millisecond, Faults: f})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := l.DemoConfig(0, true)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Load(plan.Options{ConfigFile: config, ClusterFile: l.ClusterFile(), OSUser: "me"})
	if err != nil {
		t.Fatal(err)
	}
	p.Cells = p.Cells[:2]
	p.Params.NumPrompts = 20
	meta := NewMeta(p)
	meta.RunID = artifact.NewRunID(time.Now(), strings.NewReader(filepath.Base(t.TempDir())+t.Name()+strings.Repeat("x", 64)))
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
	docker := exec.Command(filepath.Join(l.NodeDir(0), "bin", "docker"), "ps", "-aq")
	docker.Env = []string{"CVS_LAB_NODE=" + l.NodeDir(0), "PATH=/usr/bin:/bin"}
	if out, err := docker.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("containers are left: %s%v", out, err)
	}
	if _, err := os.Stat("/tmp/cvs-" + meta.RunID); err == nil {
		t.Errorf("/tmp/cvs-%s is left", meta.RunID)
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
