package warehouse_test

import (
	"encoding/json"
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

// BenchmarkCommandLoad has `cvs load` and Python's json.load read the same files in
// the same run, five times, and takes the best of each:
//
//	go test ./warehouse -run NONE -bench CommandLoad -benchtime 1x -timeout 30m
//
// Python's clock runs around its loop. From the best wall time of cvs, the best of
// loading a single file into a new warehouse is taken off, which is its start; from
// that of loading again, loading the single file again. The floor is reading and
// json.Valid in Go, on one processor. cpu figures are user and system time with the
// start taken off in the same way: on a machine with other work they mean more than
// wall times.
func BenchmarkCommandLoad(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("python3, which is the measure, is not installed")
	}
	cvs := filepath.Join(b.TempDir(), "cvs")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", cvs, "cvs/cmd/cvs").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for _, x := range []struct {
		name string
		make func(dir string) error
	}{
		{"10000files2KB", func(dir string) error {
			for i := range 10_000 {
				if err := writeResult(dir, i, twoKB(i)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"100files45MB", func(dir string) error {
			for i := range 100 {
				if err := writeResult(dir, i, withArrays(i, 3000)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"1file100MB", func(dir string) error { return writeResult(dir, 0, withArrays(0, 700_000)) }},
	} {
		b.Run(x.name, func(b *testing.B) {
			dir := b.TempDir()
			if err := x.make(dir); err != nil {
				b.Fatal(err)
			}
			one := b.TempDir()
			if err := writeResult(one, 0, wideJSON(128, 2000)); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				var best side
				for range 5 {
					best.least(sideBySide(b, cvs, dir, one))
				}
				best.report(b)
			}
		})
	}
}

func writeResult(dir string, i int, data []byte) error {
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("r%05d.json", i)), data, 0o644)
}

// twoKB is a result with all percentiles that the client can be asked for.
func twoKB(i int) []byte {
	b := wideJSON(128, 2000+float64(i))
	b = b[:len(b)-2]
	for j, m := range []string{"ttft", "tpot", "itl", "e2el"} {
		for k, s := range []string{"p10", "p25", "p75", "p80", "p99.9"} {
			b = fmt.Appendf(b, `, "%s_%s_ms": %v`, s, m, 30.987654321+float64(10*j+k)+float64(i)/1000)
		}
	}
	return append(b, "}\n"...)
}

// withArrays is a result with six lists of n requests: about 150 bytes a request.
func withArrays(seed, n int) []byte {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	b := wideJSON(128, 2000+float64(seed))
	b = b[:len(b)-2]
	for _, key := range []string{"ttfts", "latencies", "start_times"} {
		b = fmt.Appendf(b, `, "%s": [`, key)
		for i := range n {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = strconv.AppendFloat(b, r.Float64()*10, 'g', -1, 64)
		}
		b = append(b, ']')
	}
	for _, key := range []string{"input_lens", "output_lens"} {
		b = fmt.Appendf(b, `, "%s": [`, key)
		for i := range n {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = strconv.AppendInt(b, 900+r.Int64N(200), 10)
		}
		b = append(b, ']')
	}
	b = append(b, `, "itls": [`...)
	for i := range n {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "[%v, %v, %v, %v]", r.Float64(), r.Float64(), r.Float64(), r.Float64())
	}
	return append(b, "]}\n"...)
}

// A side is one measurement side by side; seconds, and MiB.
type side struct {
	python, floor                  float64
	load, reload, start, again     float64 // the first two with the start
	pythonCPU, loadCPU, reloadCPU  float64
	startCPU, againCPU             float64
	loadMB, reloadMB, pythonMB, mb float64
}

func (s *side) least(o side) {
	for _, x := range []struct{ to, from *float64 }{
		{&s.python, &o.python}, {&s.floor, &o.floor}, {&s.load, &o.load}, {&s.reload, &o.reload}, {&s.start, &o.start}, {&s.again, &o.again}, {&s.startCPU, &o.startCPU}, {&s.againCPU, &o.againCPU}, {&s.pythonCPU, &o.pythonCPU},
		{&s.loadCPU, &o.loadCPU}, {&s.reloadCPU, &o.reloadCPU}, {&s.loadMB, &o.loadMB}, {&s.reloadMB, &o.reloadMB}, {&s.pythonMB, &o.pythonMB}, {&s.mb, &o.mb},
	} {
		if *x.to == 0 || *x.from < *x.to {
			*x.to = *x.from
		}
	}
}

func (s *side) report(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	load, reload := s.load-s.start, s.reload-s.again
	for _, x := range []struct {
		value float64
		unit  string
	}{
		{s.python, "python-s"}, {s.floor, "floor-s"}, {load, "load-s"}, {reload, "reload-s"}, {s.start, "start-s"},
		{load / s.python, "load/python"}, {reload / s.python, "reload/python"}, {load / s.floor, "load/floor"},
		{(s.loadCPU - s.startCPU) / s.pythonCPU, "load/python-cpu"}, {(s.reloadCPU - s.againCPU) / s.pythonCPU, "reload/python-cpu"},
		{s.loadMB, "load-MB"}, {s.reloadMB, "reload-MB"}, {s.pythonMB, "python-MB"}, {s.mb, "files-MB"},
	} {
		b.ReportMetric(x.value, x.unit)
	}
}

func sideBySide(b *testing.B, cvs, dir, one string) side {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		b.Fatal(err)
	}
	var s side
	begin := time.Now()
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil || !json.Valid(data) {
			b.Fatalf("%s: %v", name, err)
		}
		s.mb += float64(len(data)) / 1e6
	}
	s.floor = time.Since(begin).Seconds()

	idle := timed(b, "", "python3", "-c", "import json, os, sys, time")
	py := timed(b, "", "python3", "-c", `import json, os, sys, time
t = time.perf_counter()
for n in sorted(os.listdir(sys.argv[1])):
    with open(os.path.join(sys.argv[1], n)) as f: json.load(f)
print(time.perf_counter() - t)`, dir)
	if s.python, err = strconv.ParseFloat(strings.TrimSpace(py.out), 64); err != nil {
		b.Fatal(err)
	}
	s.pythonCPU, s.pythonMB = py.cpu-idle.cpu, py.mb

	start := timed(b, "1 loaded", cvs, "load", "--warehouse", filepath.Join(b.TempDir(), "w.duckdb"), one)
	file := filepath.Join(b.TempDir(), "w.duckdb")
	again := timed(b, "1 loaded", cvs, "load", "--warehouse", file, one)
	again = timed(b, "1 already there", cvs, "load", "--warehouse", file, one)
	file = filepath.Join(b.TempDir(), "w.duckdb")
	load := timed(b, fmt.Sprint(len(names), " loaded"), cvs, "load", "--warehouse", file, dir)
	reload := timed(b, fmt.Sprint(len(names), " already there"), cvs, "load", "--warehouse", file, dir)
	s.start, s.startCPU, s.again, s.againCPU = start.wall, start.cpu, again.wall, again.cpu
	s.load, s.loadCPU, s.loadMB = load.wall, load.cpu, load.mb
	s.reload, s.reloadCPU, s.reloadMB = reload.wall, reload.cpu, reload.mb
	return s
}

type timing struct {
	wall, cpu, mb float64 // seconds; resident memory at most, MB
	out           string
}

// measured runs a command and prints its seconds, its processor seconds and the
// most KiB it held: the kernel counts a child of this process from the memory of
// this process on.
const measured = `import resource, subprocess, sys, time
t = time.perf_counter()
code = subprocess.run(sys.argv[1:]).returncode
wall = time.perf_counter() - t
u = resource.getrusage(resource.RUSAGE_CHILDREN)
print("\nmeasured", wall, u.ru_utime + u.ru_stime, u.ru_maxrss)
sys.exit(code)`

// timed runs a command that must succeed and print want.
func timed(b *testing.B, want string, name string, args ...string) timing {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "python3", append([]string{"-c", measured, name}, args...)...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		b.Fatalf("%s %v: %v: %.2000s", name, args, err, out)
	}
	text, figures, _ := strings.Cut(string(out), "\nmeasured ")
	t := timing{out: text}
	if _, err := fmt.Sscan(figures, &t.wall, &t.cpu, &t.mb); err != nil {
		b.Fatalf("%q: %v", figures, err)
	}
	t.mb *= 1024.0 / 1e6
	return t
}
