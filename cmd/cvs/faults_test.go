package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/lab"
)

// The fault matrix of the README, one test a fault. Each provokes it on a lab,
// whose SSH servers, processes and files are real, and compares exit status and
// message, what was kept of the cells that were measured, whether the run
// directory can be loaded, and a list of everything a run could leave behind,
// taken before and after.

// The two cells of a fault's sweep, in order.
const (
	firstCell  = "chat_256_64-conc4"
	secondCell = "chat_256_64-conc16"
)

// newFaultCase is a sweep of two cells with short limits on a fresh lab.
func newFaultCase(t *testing.T, f lab.Faults) *runCase {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	return newFaultCaseOn(t, exe, f)
}

func newFaultCaseOn(t *testing.T, exe string, f lab.Faults) *runCase {
	t.Helper()
	l, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Executable: exe, Speed: 100, StartDelay: 50 * time.Millisecond, Faults: f})
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	config, err := l.DemoConfig(lab.Demo{AllPass: true, Slack: lab.BusyMachine})
	check(t, err)
	c := &runCase{t: t, lab: l, dir: t.TempDir(), name: filepath.Base(config), env: map[string]string{}, user: osUser(), known: []string{l.KnownHosts()}, out: &lockedBuffer{}}
	mustJSON(t, readFile(t, config), &c.config)
	mustJSON(t, readFile(t, l.ClusterFile()), &c.cluster)
	thresholds := strings.TrimSuffix(config, ".json") + "_threshold.json"
	check(t, os.WriteFile(filepath.Join(c.dir, filepath.Base(thresholds)), []byte(readFile(t, thresholds)), 0o600))
	c.config["enforce_thresholds"] = false // how fast this machine is must not decide
	params := sub(c.config, "params")
	c.port, err = strconv.Atoi(params["port_no"].(string))
	check(t, err)
	params["num_prompts"] = "20"
	for _, k := range []string{"server_precheck_wait_s", "server_warmup_wait_s", "client_initial_wait_s"} {
		params[k] = "0"
	}
	c.limits(20, 20)
	sub(c.config, "sweep")["runs"] = []any{map[string]any{"combo": "chat_256_64", "concurrency": 4}, map[string]any{"combo": "chat_256_64", "concurrency": 16}}
	return c
}

// limits bounds the server's start and each client, in seconds.
func (c *runCase) limits(server, client int) {
	params := sub(c.config, "params")
	params["server_poll_count"], params["server_poll_wait_time"] = "1", strconv.Itoa(server)
	params["client_poll_count"], params["client_poll_wait_time"] = "1", strconv.Itoa(client)
}

// runDir is the one run directory of the workspace, "" if there is none.
func (c *runCase) runDir() string {
	c.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(c.dir, "work", "cvs_runs", "*"))
	check(c.t, err)
	if len(dirs) > 1 {
		c.t.Fatalf("run directories: %q", dirs)
	}
	return strings.Join(dirs, "")
}

// inventory lists what a run may leave behind, on the node and here.
func (c *runCase) inventory() []string {
	c.t.Helper()
	out := []string{}
	ids, err := c.lab.Processes()
	check(c.t, err)
	for _, id := range ids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
		if err == nil && len(line) > 0 {
			out = append(out, fmt.Sprintf("process %d: %.120s", id, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	if names := c.containers(0); names != "" {
		out = append(out, "container "+names)
	}
	if conn, err := net.Dial("tcp", net.JoinHostPort(c.lab.Address(0), strconv.Itoa(c.port))); err == nil {
		conn.Close()
		out = append(out, "socket: the server's port is open")
	}
	patterns := []string{filepath.Join(c.lab.NodeDir(0), "tmp", "*")}
	if dir := c.runDir(); dir != "" {
		// Job folders and environment files; and half-written files of the launcher.
		patterns = append(patterns, filepath.Join("/tmp", "cvs-*"+filepath.Base(dir)+"*"), filepath.Join(dir, ".*[0-9]"), filepath.Join(dir, "cells", "*", "*", ".*[0-9]"))
	}
	if tmp := c.env["TMPDIR"]; tmp != "" {
		patterns = append(patterns, filepath.Join(tmp, "*"))
	}
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		check(c.t, err)
		for _, f := range files {
			out = append(out, "file "+f)
		}
	}
	slices.Sort(out)
	return out
}

// leavesNothing compares the inventory with what was there before. The watch of
// a job's lease may need a moment to see that the job is over.
func (c *runCase) leavesNothing(before []string) {
	c.t.Helper()
	after := c.inventory()
	for end := time.Now().Add(10 * time.Second); !slices.Equal(before, after) && time.Now().Before(end); after = c.inventory() {
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Logf("before: %q\nafter:  %q", before, after)
	if !slices.Equal(before, after) {
		c.t.Errorf("before: %q\nafter:  %q", before, after)
	}
}

// keeps checks the run directory: exactly those cells have a result, every other
// one says why not, and it can be loaded into an empty warehouse.
func (c *runCase) keeps(cells ...string) *artifact.Run {
	c.t.Helper()
	return c.loads(0, cells)
}

// keepsCutOff is keeps for a run whose launcher could not write its end: loading
// it says so, beside what was measured.
func (c *runCase) keepsCutOff(cells ...string) *artifact.Run {
	c.t.Helper()
	r := c.loads(3, cells)
	if r.Meta.Status != artifact.Running {
		c.t.Errorf("status %s", r.Meta.Status)
	}
	return r
}

func (c *runCase) loads(code int, cells []string) *artifact.Run {
	c.t.Helper()
	dir := c.runDir()
	if dir == "" {
		c.t.Fatalf("no run directory\n%s", c.out.String())
	}
	r, err := artifact.Read(dir)
	check(c.t, err)
	var got []string
	for _, res := range r.Results {
		got = append(got, res.Record.CellID)
	}
	if !slices.Equal(got, cells) {
		c.t.Errorf("results of %q, want %q", got, cells)
	}
	db := filepath.Join(c.t.TempDir(), "w.duckdb")
	res := cvsCommand(c.t, nil, "load", dir, "--warehouse", db)
	if want := fmt.Sprintf("%s (%s)", filepath.Base(dir), count(len(cells), "result")); res.code != code || !strings.Contains(res.stdout, want) || code == 3 && !strings.Contains(res.stderr, "was cut off") {
		c.t.Errorf("cvs load: exit %d, want %d and %q\n%s%s", res.code, code, want, res.stdout, res.stderr)
	}
	const query = "SELECT cell_id FROM cell_status WHERE state = 'error' AND (reason IS NULL OR reason LIKE '%no result file was found%')"
	if res = cvsCommand(c.t, nil, "sql", "--warehouse", db, "--format", "csv", query); res.code != 0 || len(strings.Fields(res.stdout)) != 1 {
		c.t.Errorf("cells with neither result nor reason: exit %d, %s%s", res.code, res.stdout, res.stderr)
	}
	return r
}

// fault runs the sweep and checks everything that the README's table says of it.
func (c *runCase) fault(code int, kept []string, says ...string) *artifact.Run {
	c.t.Helper()
	before := c.inventory()
	c.expect(code, says...)
	r := c.keeps(kept...)
	c.leavesNothing(before)
	return r
}

func TestFaultServerDiesAtStart(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{ServerDiesAtStart: true})
	c.fault(4, nil, "it ended while starting: exit status 1", "Failed to initialize all EngineCores", "NO RESULT")
}

func TestFaultServerDiesInCell(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{ServerDiesAfter: 20, Once: true})
	c.fault(4, []string{secondCell}, "it ended while the client ran (", "of 20 requests were completed): exit status 1", "EngineCore_DP0 proc died unexpectedly",
		"the server of session 1 died", "is restarted once", "1 measured")
}

func TestFaultServerDiesBetweenCells(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{ServerDiesBetween: true, Once: true})
	r := c.fault(0, []string{firstCell, secondCell}, "the server of session 1 died", "is restarted once", "2 measured")
	if s := r.Results[1].Record.ServerSession; s != 2 {
		t.Errorf("the second cell was measured in session %d", s)
	}
}

func TestFaultServerStartsSlowly(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{StartDelay: 60})
	c.limits(1, 20)
	c.fault(4, nil, "not ready within 1s", "server_poll_count", "NO RESULT")
}

func TestFaultClientHangs(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientHangs, ClientConcurrency: 4})
	c.limits(20, 3)
	c.fault(4, []string{secondCell}, "the client did not end within 3s", "and was stopped")
}

func TestFaultClientKilled(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientKilled, ClientConcurrency: 4})
	c.fault(4, []string{secondCell}, "the client ended with exit status 137 (signal 9)")
}

func TestFaultHalfArtefact(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientHalf, ClientConcurrency: 4})
	r := c.fault(4, []string{secondCell}, "results.json is not whole")
	if half, _ := filepath.Glob(filepath.Join(r.Dir, "cells", "*conc4", "1", "results.json.partial")); len(half) != 1 {
		t.Errorf("what there was of the artefact is not kept: %q", half)
	}
}

func TestFaultClientNeverExits(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientNeverExits, ClientConcurrency: 4})
	c.limits(20, 3)
	r := c.fault(4, []string{secondCell}, "the client did not end within 3s")
	if kept, _ := filepath.Glob(filepath.Join(r.Dir, "cells", "*conc4", "1", "results.json.partial")); len(kept) != 1 {
		t.Errorf("the artefact of the stopped client is not kept aside: %q", kept)
	}
}

// TestFaultSlowCell is no failure: the cell is slow, and its numbers say so.
func TestFaultSlowCell(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientSlow, ClientConcurrency: 4})
	r := c.fault(0, []string{firstCell, secondCell}, "2 measured")
	var slow struct {
		E2EL float64 `json:"mean_e2el_ms"`
	}
	check(t, json.Unmarshal(r.Results[0].Data, &slow))
	if slow.E2EL < 20 { // one look alone is as late as that
		t.Errorf("mean end-to-end latency %g ms", slow.E2EL)
	}
}

func TestFaultForwardRefused(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{RefuseForward: true})
	c.fault(4, nil, "refuses TCP forwarding", "AllowTcpForwarding")
}

func TestFaultForeignContainer(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{})
	_, err := c.lab.PlantContainer(0, "cvs-lab", nil)
	check(t, err)
	c.fault(4, nil, "container named cvs-lab already exists", "was not started by cvs")
	if got := c.containers(0); got != "cvs-lab" {
		t.Errorf("containers: %q", got)
	}
}

func TestFaultPortTaken(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{})
	l, err := net.Listen("tcp", net.JoinHostPort(c.lab.Address(0), strconv.Itoa(c.port)))
	check(t, err)
	defer l.Close()
	c.fault(4, nil, "port "+strconv.Itoa(c.port), "is already in use", "params.port_no")
}

func TestFaultNodeUnreachable(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{})
	c.lab.Unplug(0, true)
	c.fault(4, nil, c.lab.Addr(0), "handshake")
}

// TestFaultStaleArtefact has a whole artefact of an earlier attempt lie where
// the client of the next one, which fails, would have written its own.
func TestFaultStaleArtefact(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientNeverExits, ClientConcurrency: 4})
	c.limits(20, 3)
	c.fault(4, []string{secondCell}, "the client did not end within 3s")
	check(t, c.lab.SetFaults(0, lab.Faults{Client: lab.ClientFails, ClientConcurrency: 4}))
	c.args, c.out = []string{"--resume", c.runDir()}, &lockedBuffer{}
	r := c.fault(4, []string{secondCell}, "older results.json and client.log", "set aside", "the client ended with exit status 1", "re-used")
	if old, _ := filepath.Glob(filepath.Join(r.Dir, "cells", "*conc4", "1", "results.json*")); len(old) > 0 {
		t.Errorf("the older artefact is in the cell's folder: %q", old)
	}
}
