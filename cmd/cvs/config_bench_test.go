package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// largest copies and fills the largest shipped config (16 cells, 416 specs)
// with a matching cluster file.
func largest(tb testing.TB) configCheckOptions {
	tb.Helper()
	e := &env{
		stdout: io.Discard, stderr: io.Discard, now: time.Now,
		getenv: func(string) string { return "" }, osUser: func() string { return "lab" },
	}
	dir := tb.TempDir()
	head := "{head-node-ip}=10.0.0.1"
	for _, c := range []struct {
		name, output string
		set          []string
	}{
		{"mi3xx_atom_deepseek-r1_fp8_distributed", dir, []string{head, "<changeme-models-mount>=/data/models", "container.image=rocm/atom-dev:latest"}},
		{"atom_cluster", filepath.Join(dir, "cluster.json"), []string{head, "{worker-node-ip}=10.0.0.2"}},
	} {
		if err := runConfigCopy(tb.Context(), e, configCopyOptions{output: c.output, set: c.set}, []string{c.name}); err != nil {
			tb.Fatal(err)
		}
	}
	var o configCheckOptions
	o.format = "text"
	o.config = filepath.Join(dir, "mi3xx_atom_deepseek-r1_fp8_distributed.json")
	o.cluster = filepath.Join(dir, "cluster.json")
	return o
}

// BenchmarkConfigCheck is the check without the start of a process.
func BenchmarkConfigCheck(b *testing.B) {
	o := largest(b)
	e := &env{
		stdout: io.Discard, stderr: io.Discard, now: time.Now,
		getenv: func(string) string { return "" }, osUser: func() string { return "lab" },
	}
	for b.Loop() {
		if err := runConfigCheck(b.Context(), e, o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConfigProcess starts the program as a user does, turn by turn with
// true(1), and reports milliseconds for each and their ratio. The machine's own
// cost of a process is in both.
func BenchmarkConfigProcess(b *testing.B) {
	o := largest(b)
	bin := filepath.Join(b.TempDir(), "cvs")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("build cvs: %v\n%s", err, out)
	}
	for _, c := range []struct {
		name string
		args []string
	}{
		{"help", []string{"--help"}},
		{"check", []string{"config", "check", "--config_file", o.config, "--cluster_file", o.cluster}},
	} {
		b.Run(c.name, func(b *testing.B) {
			start := func(name string, args ...string) time.Duration {
				cmd := exec.CommandContext(b.Context(), name, args...)
				cmd.Env = append(os.Environ(), "CVS_CONFIG_PROFILE=")
				t := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%s: %v\n%s", name, err, out)
				}
				return time.Since(t)
			}
			start(bin, c.args...) // the first start reads the file from disk
			var ours, theirs time.Duration
			n := 0
			for b.Loop() {
				ours += start(bin, c.args...)
				theirs += start("true")
				n++
			}
			ms := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(n) }
			b.ReportMetric(ms(ours), "ms/cvs")
			b.ReportMetric(ms(theirs), "ms/true")
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "ratio")
		})
	}
}
