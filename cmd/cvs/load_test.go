package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// keysOfResult is how many keys resultFiles gives each result.
const keysOfResult = 14

// resultFiles writes n loose results into dir, numbered from first on.
func resultFiles(t *testing.T, dir string, first, n int) {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o755))
	for i := first; i < first+n; i++ {
		text := fmt.Sprintf(`{"date": "20260901-100500", "backend": "vllm", "model_id": "org/M", "best_of": 1, "num_prompts": 1000, "max_concurrency": 64,
 "duration": 500.25, "completed": 1000, "output_throughput": %d.5, "concurrency": 63.5, "request_goodput:": null,
 "mean_ttft_ms": 20.25, "p99_ttft_ms": NaN, "total_output_tokens": 9007199254740993}`, 1000+i)
		check(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("r%05d.json", i)), []byte(text), 0o644))
	}
}

// loadProcess is `cvs load` of a folder as a process of its own.
func loadProcess(t *testing.T, file, dir string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "load", "--wait", "5m", "--warehouse", file, dir)
	cmd.Env = append(os.Environ(), asCVS+"=1", "TMPDIR="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// holds checks that n results are in the warehouse, whole and none twice.
func holds(t *testing.T, file string, n int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "sql", "--wait", "5m", "--warehouse", file, "--format", "csv", `SELECT (SELECT count(*) FROM run), (SELECT count(DISTINCT run_id) FROM run),
		(SELECT count(*) FROM sample), (SELECT count(*) FROM raw_value), (SELECT count(DISTINCT number) FROM raw_value WHERE key = 'output_throughput'),
		(SELECT count(DISTINCT run_id) FROM metrics), (SELECT count(*) FROM raw_value WHERE text = '9007199254740993')`)
	cmd.Env = append(os.Environ(), asCVS+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("%d,%d,%d,%d,%d,%d,%d", n, n, n, n*keysOfResult, n, n, n)
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("runs, different ones, samples, keys, throughputs, measured, exact integers: %s (%v), want %s", out, err, want)
	}
}

// TestLoadKilled kills loads with -9 at random moments; a second load completes
// each. CVS_TEST_KILLS=50 makes it the full test.
func TestLoadKilled(t *testing.T) {
	t.Parallel()
	kills, n := 2, 2500
	if s := os.Getenv("CVS_TEST_KILLS"); s != "" {
		var err error
		kills, err = strconv.Atoi(s)
		check(t, err)
	}
	dir := filepath.Join(t.TempDir(), "results")
	resultFiles(t, dir, 0, n)
	first := filepath.Join(t.TempDir(), "w.duckdb")
	cmd, out := loadProcess(t, first, dir)
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %.2000s", err, out)
	}
	whole := time.Since(begin)
	holds(t, first, n)
	random := rand.New(rand.NewPCG(6, 5))
	hit, partial := 0, 0
	for i := range kills {
		file := filepath.Join(t.TempDir(), "w.duckdb")
		cmd, _ := loadProcess(t, file, dir)
		check(t, cmd.Start())
		time.Sleep(time.Duration(random.Float64() * float64(whole)))
		check(t, cmd.Process.Kill())
		if cmd.Wait() != nil {
			hit++
		}
		cmd, out := loadProcess(t, file, dir)
		if err := cmd.Run(); err != nil {
			t.Fatalf("load after kill %d: %v: %.2000s", i, err, out)
		}
		if !strings.Contains(out.String(), " 0 replaced, 0 skipped, 0 failed") {
			t.Errorf("load after kill %d: %s", i, out.String()[max(0, out.Len()-300):])
		}
		if !strings.Contains(out.String(), fmt.Sprintf("%d loaded, 0 already there", n)) {
			partial++
		}
		holds(t, file, n)
	}
	t.Logf("%d loads of %d files, %d killed before their end, %d of them after something was stored", kills, n, hit, partial)
}

// TestLoadEightAtOnce has eight processes load folders that overlap.
func TestLoadEightAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w.duckdb")
	var all []*exec.Cmd
	var outs []*bytes.Buffer
	for i := range 8 {
		dir := filepath.Join(t.TempDir(), "results")
		resultFiles(t, dir, i*50, 100) // half of them are the next one's, under another path
		cmd, out := loadProcess(t, file, dir)
		check(t, cmd.Start())
		all, outs = append(all, cmd), append(outs, out)
	}
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("loader %d: %v: %.2000s", i, err, outs[i])
		}
	}
	holds(t, file, 450)
}

// TestLoadDiskFull loads onto a full disk: exit 5, what was stored stays, and
// with room the same command completes it.
func TestLoadDiskFull(t *testing.T) {
	t.Parallel()
	disk, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	smallDisk(t, disk, "24m")
	few, many := filepath.Join(dir, "few"), filepath.Join(dir, "many")
	resultFiles(t, few, 0, 20)
	resultFiles(t, many, 20, 4000)
	file := filepath.Join(disk, "w.duckdb")
	cmd, out := loadProcess(t, file, few)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	free := fillDisk(t, disk)
	cmd, out = loadProcess(t, file, many)
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("load onto a full disk: %v, want exit 5: %s", err, out.String()[max(0, out.Len()-600):])
	}
	free()
	holds(t, file, 20)
	cmd, out = loadProcess(t, file, many)
	if err := cmd.Run(); err != nil {
		t.Errorf("load with room again: %v: %s", err, out.String()[max(0, out.Len()-600):])
	}
	holds(t, file, 4020)
}

// TestLoadNamesSome names the first hundred runs and counts the rest, unless all
// are asked for.
func TestLoadNamesSome(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	resultFiles(t, dir, 0, 103)
	file := filepath.Join(t.TempDir(), "w.duckdb")
	for _, tt := range []struct {
		args   []string
		prefix string
		named  int
		more   string
	}{
		{nil, "loaded ", 100, "… and 3 runs more; --list names them all\n103 loaded, 0 already there"},
		{nil, "unchanged ", 100, "… and 3 runs more; --list names them all\n0 loaded, 103 already there"},
		{[]string{"--list"}, "unchanged ", 103, "\n0 loaded, 103 already there"},
	} {
		res := cvsCommand(t, nil, append([]string{"load", "--warehouse", file, dir}, tt.args...)...)
		named := 0
		for line := range strings.Lines(res.stdout) {
			if strings.HasPrefix(line, tt.prefix) {
				named++
			}
		}
		if res.code != 0 || named != tt.named || !strings.Contains(res.stdout, tt.more) || strings.Contains(res.stdout, "…") != (named < 103) {
			t.Errorf("%q: exit %d, %d named, want %d and %q:\n%s", tt.args, res.code, named, tt.named, tt.more, res.stdout)
		}
	}
}
