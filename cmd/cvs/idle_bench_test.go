package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/lab"
)

// idleServerStart is how long the lab's servers take until they answer, as a
// large model would.
const idleServerStart = 60 * time.Second

// waits are the fixed times of the Python suite, in seconds, as its config fields
// default (spec 02 §8.6, §8.8, §10.4).
type waits struct {
	precheck, warmup, serverPoll float64 // server_precheck_wait_s, server_warmup_wait_s, server_poll_wait_time
	stop                         float64 // after pkill, §8.8
	crashCheck, initial, poll    float64 // 15 s, client_initial_wait_s, client_poll_wait_time
}

var suiteWaits = waits{precheck: 30, warmup: 330, serverPoll: 60, stop: 5, crashCheck: 15, initial: 120, poll: 60}

// server is when a server that is ready after s seconds is seen to be: the first
// look comes after precheck and warm-up, the next ones a poll apart (§8.6).
func (w waits) server(s float64) float64 {
	first := w.precheck + w.warmup
	return first + w.serverPoll*math.Ceil(max(s-first, 0)/w.serverPoll)
}

// client is when the artefact of a client that takes s seconds is seen: with
// driver atom every 15 s during the initial wait, a poll apart after it (§10.4).
func (w waits) client(s float64) float64 {
	if s <= w.initial {
		return w.crashCheck * max(math.Ceil(s/w.crashCheck), 1)
	}
	return w.initial + w.poll*math.Ceil((s-w.initial)/w.poll)
}

// idle is the waiting beyond servers and clients of a sweep whose cells share a
// server: one start, one stop before it (§8.1) and one at the end.
func (w waits) idle(server float64, clients []float64) float64 {
	idle := w.server(server) - server + 2*w.stop
	for _, c := range clients {
		idle += w.client(c) - c
	}
	return idle
}

func TestSuiteWaits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		server  float64
		clients []float64
		want    float64
	}{
		{60, nil, 300 + 10},                   // the first look is after 360 s
		{361, nil, 59 + 10},                   // missed the first look
		{360, []float64{1}, 14 + 10},          // seen after 15 s
		{360, []float64{15, 16}, 14 + 10},     // one just in time
		{360, []float64{121}, 180 - 121 + 10}, // beyond the initial wait
	} {
		if got := suiteWaits.idle(tt.server, tt.clients); got != tt.want {
			t.Errorf("server %v s, clients %v s: %v s, want %v", tt.server, tt.clients, got, tt.want)
		}
	}
}

var timeLine = regexp.MustCompile(`time: ([0-9.]+) s in all, ([0-9.]+) s server start, ([0-9.]+) s clients, (?:([0-9.]+) s checks, )?([0-9.]+) s other`)

// BenchmarkIdleTime prints where the time of two sweeps goes on the lab, with a
// server that starts in a minute, beside what the Python suite's fixed waits
// would add to the same servers and clients:
//
//	go test ./cmd/cvs -run '^$' -bench IdleTime -benchtime 1x
func BenchmarkIdleTime(b *testing.B) {
	exe, err := os.Executable()
	check(b, err)
	l, err := lab.Start(b.Context(), lab.Options{Dir: b.TempDir(), Executable: exe, Speed: 100, StartDelay: idleServerStart, Isolate: lab.IsolateOn})
	check(b, err)
	defer l.Close()
	dir := b.TempDir()
	if res := cvsCommand(b, nil, "config", "copy", singleStem, "--output", dir, "--set", "container.image="+lab.ShippedImage,
		"--set", "<changeme-models-mount>="+l.ModelsDir(), "--set", "paths.hf_token_file="+l.TokenFile()); res.code != 0 {
		b.Fatalf("config copy: %s%s", res.stdout, res.stderr)
	}
	shipped := filepath.Join(dir, singleStem+".json")
	fmt.Println("| sweep | cells | wall | server start | clients | checks | everything else | a cell | everything else, Python suite (calculated) |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for range b.N {
		for _, s := range []struct {
			name, config string
			cells        int
		}{
			{"R1 as shipped, profile perf", shipped, 3},
			{"seven concurrencies of two shapes", fourteenCells(b, shipped), 14},
		} {
			row, err := idleRow(b, l, s.config, filepath.Join(dir, strconv.Itoa(s.cells)), s.cells)
			check(b, err)
			fmt.Printf("| %s %s\n", s.name, row)
		}
	}
}

func idleRow(b *testing.B, l *lab.Lab, config, work string, cells int) (string, error) {
	var out, errOut bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errOut, getenv: func(string) string { return "" }, now: time.Now, osUser: func() string { return "benchuser" }}
	run(b.Context(), e, []string{"run", "atom", "--cluster_file", l.HeadClusterFile(), "--config_file", config, "--config_profile", "perf",
		"--known-hosts", l.KnownHosts(), "--workspace", work})
	m := timeLine.FindStringSubmatch(errOut.String())
	if m == nil {
		return "", fmt.Errorf("no split of the time in:\n%s%s", out.String(), errOut.String())
	}
	var v [6]float64
	for i := 1; i < len(m); i++ {
		v[i], _ = strconv.ParseFloat(m[i], 64) // "" where nothing was checked
	}
	dirs, err := filepath.Glob(filepath.Join(work, "cvs_runs", "*"))
	if err != nil || len(dirs) != 1 {
		return "", fmt.Errorf("run directories %q: %v", dirs, err)
	}
	r, err := artifact.Read(dirs[0])
	if err != nil {
		return "", err
	}
	if len(r.Results) != cells {
		return "", fmt.Errorf("%d results, want %d\n%s", len(r.Results), cells, out.String())
	}
	var clients []float64
	for _, s := range r.Stages {
		if s.Stage == "client" && s.Ended != nil {
			clients = append(clients, s.Ended.Sub(s.Started).Seconds())
		}
	}
	if len(clients) != cells {
		return "", fmt.Errorf("%d clients, want %d", len(clients), cells)
	}
	return fmt.Sprintf("| %d | %.1f s | %.1f s | %.1f s | %.1f s | %.1f s | %.2f s | %.0f s |",
		cells, v[1], v[2], v[3], v[4], v[5], v[5]/float64(cells), suiteWaits.idle(v[2], clients)), nil
}

// fourteenCells is the shipped config with another sweep and nothing beside it.
func fourteenCells(b *testing.B, shipped string) string {
	b.Helper()
	var config map[string]any
	check(b, json.Unmarshal([]byte(readFile(b, shipped)), &config))
	profiles := config["profiles"].(map[string]any)
	perf := profiles["perf"].(map[string]any)
	for _, k := range []string{"functional", "accuracy", "quant_parity", "platform"} {
		delete(perf, k)
		delete(config, k)
	}
	var runs []map[string]any
	for _, combo := range []string{"w1_1k_1k", "acc_warmup"} {
		for c := 4; c <= 256; c *= 2 {
			runs = append(runs, map[string]any{"combo": combo, "concurrency": c})
		}
	}
	perf["sweep"].(map[string]any)["runs"] = runs
	perf["enforce_thresholds"] = false
	text, err := json.Marshal(config)
	check(b, err)
	file := filepath.Join(filepath.Dir(shipped), "fourteen", filepath.Base(shipped))
	check(b, os.MkdirAll(filepath.Dir(file), 0o755))
	check(b, os.WriteFile(file, text, 0o644))
	for _, f := range glob(b, filepath.Join(filepath.Dir(shipped), "*threshold.json")) {
		check(b, os.WriteFile(filepath.Join(filepath.Dir(file), filepath.Base(f)), []byte(readFile(b, f)), 0o644))
	}
	return file
}
