package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cvs/collect/lab"
)

// TestSoak runs many short sweeps of six cells in a row, each with a fault
// drawn at random, and checks after each that the run directory loads, that
// every cell is measured or says why not, and that neither this process nor the
// node has more goroutines, files, processes, containers or files than before.
// It runs on request only:
//
//	CVS_SOAK=200 CVS_SOAK_SEED=1 go test ./cmd/cvs -run TestSoak -timeout 60m -v
func TestSoak(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("CVS_SOAK"))
	if err != nil || runs < 1 {
		t.Skip("runs for minutes; CVS_SOAK says how many sweeps")
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("CVS_SOAK_SEED"); s != "" {
		seed, err = strconv.ParseUint(s, 10, 64)
		check(t, err)
	}
	// The lab's programs start often, and faster without all of cvs in them.
	prog := filepath.Join(t.TempDir(), "node")
	build := exec.Command("go", "build", "-o", prog, "./testdata/real/node")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the lab's program: %v: %s", err, out)
	}
	s := &soak{t: t, c: newFaultCaseOn(t, prog, lab.Faults{}), rng: rand.New(rand.NewPCG(seed, 1)), exits: map[int]int{}, faults: map[string]int{}}
	t.Logf("seed %d, %d sweeps", seed, runs)
	s.c.limits(5, 2)
	sub(s.c.config, "params")["num_prompts"] = "8"
	var cells []any
	for _, combo := range []string{"chat_256_64", "summary_1k_32"} {
		for _, n := range soakConcurrency {
			cells = append(cells, map[string]any{"combo": combo, "concurrency": n})
		}
	}
	sub(s.c.config, "sweep")["runs"] = cells
	began := time.Now()
	s.sweep(fault{name: "none"}) // what is made once and stays is there from now on
	s.goroutines, s.files = runtime.NumGoroutine(), openFiles(t)
	first := s.c.inventory()
	for i := range runs {
		f := s.draw()
		s.faults[f.name]++
		s.sweep(f)
		s.leaks(first)
		if t.Failed() {
			t.Fatalf("sweep %d of %d, fault %s\n%s", i+1, runs, f.name, s.c.out.String())
		}
		if (i+1)%20 == 0 {
			t.Logf("%d sweeps after %v", i+1, time.Since(began).Round(time.Second))
		}
	}
	t.Logf("%d sweeps in %v: %d cells measured, %d explained; exit statuses %v", runs, time.Since(began).Round(time.Second), s.measured, s.explained, s.exits)
	t.Logf("at the end: %d goroutines (%d after the first sweep), %d open files (%d)", runtime.NumGoroutine(), s.goroutines, openFiles(t), s.files)
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		t.Logf("%3d × %s", s.faults[name], name)
	}
}

var soakConcurrency = []int{1, 2, 4}

const soakCells = 6

type soak struct {
	t                   *testing.T
	c                   *runCase
	rng                 *rand.Rand
	goroutines, files   int
	measured, explained int
	exits               map[int]int
	faults              map[string]int
}

// A fault is what goes wrong in one sweep: in the node from the start, or at a
// moment while it runs. undo brings the node back after the sweep.
type fault struct {
	name   string
	node   lab.Faults
	during func(ctx context.Context, interrupt func())
	undo   func()
}

// draw makes a fault.
func (s *soak) draw() fault {
	rng, l := s.rng, s.c.lab
	cell := lab.Faults{ClientConcurrency: soakConcurrency[rng.IntN(3)]}
	if rng.IntN(2) == 0 {
		cell.ClientInputLen = []int{256, 1024}[rng.IntN(2)]
	}
	client := func(what lab.ClientFault) fault {
		f := cell
		f.Client = what
		return fault{name: "client " + string(what), node: f}
	}
	at := time.Duration(rng.IntN(4000)) * time.Millisecond
	for_ := time.Duration(200+rng.IntN(2500)) * time.Millisecond
	during := func(name string, do func(context.Context, func())) fault {
		return fault{name: name, during: func(ctx context.Context, interrupt func()) {
			if sleep(ctx, at) == nil {
				do(ctx, interrupt)
			}
		}}
	}
	all := []func() fault{
		func() fault { return fault{name: "none"} },
		func() fault { return fault{name: "server dies at start", node: lab.Faults{ServerDiesAtStart: true}} },
		func() fault {
			return fault{name: "server dies once", node: lab.Faults{ServerDiesAfter: 1 + rng.IntN(80), Once: true}}
		},
		func() fault {
			return fault{name: "every server dies", node: lab.Faults{ServerDiesAfter: 1 + rng.IntN(80)}}
		},
		func() fault {
			f := cell
			f.ServerDiesBetween, f.Once = true, true
			return fault{name: "server dies between cells", node: f}
		},
		func() fault { return fault{name: "server starts slowly", node: lab.Faults{StartDelay: 0.5}} },
		func() fault { return client(lab.ClientHangs) },
		func() fault { return client(lab.ClientHalf) },
		func() fault { return client(lab.ClientNeverExits) },
		func() fault { return client(lab.ClientFails) },
		func() fault { return client(lab.ClientKilled) },
		func() fault { return client(lab.ClientDiskFull) },
		func() fault { return client(lab.ClientSlow) },
		func() fault { return fault{name: "forward refused", node: lab.Faults{RefuseForward: true}} },
		func() fault { return fault{name: "docker down", node: lab.Faults{DockerDown: true}} },
		func() fault { return fault{name: "amd-smi fails", node: lab.Faults{SMI: lab.SMIFails}} },
		func() fault {
			return during("connections cut", func(context.Context, func()) { l.DropConnections(0) })
		},
		func() fault {
			return during("node cut off for a time", func(ctx context.Context, _ func()) {
				l.Unplug(0, true)
				_ = sleep(ctx, for_)
				l.Unplug(0, false)
			})
		},
		func() fault {
			return during("packets swallowed for a time", func(ctx context.Context, _ func()) {
				l.Freeze(0, true)
				_ = sleep(ctx, for_)
				l.Freeze(0, false)
			})
		},
		func() fault { return during("interrupted", func(_ context.Context, interrupt func()) { interrupt() }) },
		s.foreign, s.taken,
	}
	return all[rng.IntN(len(all))]()
}

func (s *soak) foreign() fault {
	id, err := s.c.lab.PlantContainer(0, "cvs-lab", nil)
	check(s.t, err)
	return fault{name: "foreign container", undo: func() { check(s.t, s.c.lab.RemoveContainer(0, id)) }}
}

func (s *soak) taken() fault {
	l, err := net.Listen("tcp", net.JoinHostPort(s.c.lab.Address(0), strconv.Itoa(s.c.port)))
	check(s.t, err)
	return fault{name: "port taken", undo: func() { check(s.t, l.Close()) }}
}

// sweep runs once with a fault and checks what came of it.
func (s *soak) sweep(f fault) {
	t, c := s.t, s.c
	t.Helper()
	_ = os.Remove(filepath.Join(c.lab.NodeDir(0), "died.once"))
	check(t, c.lab.SetFaults(0, f.node))
	c.out, c.args = &lockedBuffer{}, []string{"--no-html"}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	c.ctx = ctx
	over, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if f.during != nil {
			f.during(over, interrupt)
		}
	}()
	code := c.run()
	end()
	<-done
	if f.undo != nil {
		f.undo()
	}
	check(t, c.lab.SetFaults(0, lab.Faults{}))
	c.ctx = nil
	s.exits[code]++
	s.verify(code, f)
	check(t, os.RemoveAll(filepath.Join(c.dir, "work")))
}

// verify looks at the run directory as a user of cvs would.
func (s *soak) verify(code int, f fault) {
	t, c := s.t, s.c
	t.Helper()
	if !slices.Contains([]int{0, 4, 130}, code) {
		t.Errorf("exit %d", code)
	}
	dir, db := c.runDir(), filepath.Join(c.dir, "work", "soak.duckdb")
	if dir == "" {
		t.Error("no run directory")
		return
	}
	if res := cvsCommand(t, nil, "load", dir, "--warehouse", db); res.code != 0 {
		t.Errorf("load: exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	res := cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv", `
		SELECT count(*) FILTER (WHERE state <> 'error') AS measured,
			count(*) FILTER (WHERE state = 'error' AND reason <> '' AND reason NOT LIKE '%no result file was found%') AS explained
		FROM cell_status`)
	var measured, explained int
	if _, err := fmt.Sscanf(res.stdout, "measured,explained\n%d,%d", &measured, &explained); res.code != 0 || err != nil {
		t.Fatalf("sql: exit %d, %v\n%s%s", res.code, err, res.stdout, res.stderr)
	}
	s.measured, s.explained = s.measured+measured, s.explained+explained
	if measured+explained != soakCells {
		t.Errorf("%d cells measured, %d explained, want %d in all", measured, explained, soakCells)
	}
	if code == 0 && measured != soakCells || f.name == "none" && code != 0 {
		t.Errorf("exit %d with %d cells measured", code, measured)
	}
}

// leaks compares this process and the node with what they were, after a moment
// in which what is ending may end.
func (s *soak) leaks(first []string) {
	t := s.t
	t.Helper()
	var left []string
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left = nil
		if n := runtime.NumGoroutine(); n > s.goroutines {
			left = append(left, fmt.Sprintf("%d goroutines, %d before", n, s.goroutines))
		}
		if n := openFiles(t); n > s.files {
			left = append(left, fmt.Sprintf("%d open files, %d before", n, s.files))
		}
		if now := s.c.inventory(); !slices.Equal(now, first) {
			left = append(left, fmt.Sprintf("%q, before %q", now, first))
		}
		if len(left) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(left) > 0 {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("left: %s\n%s", strings.Join(left, "; "), stacks)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(fds)
}
