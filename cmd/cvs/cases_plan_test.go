package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// plannedStep is one row of `run --dry-run --format json`.
type plannedStep struct {
	Host    string   `json:"host"`
	Argv    []string `json:"argv"`
	Command string   `json:"command"`
	Stdin   string   `json:"stdin"`
}

// runPlanCase plans, then carries every planned remote command out against the
// recorder, as sshd would, and compares what arrived.
func runPlanCase(t *testing.T, c *acceptanceCase, dir string, inv caseInvocation) cvsResult {
	args := append(append([]string{"run", "atom"}, inputArgs(t, dir, inv)...), "--dry-run", "--format", "json", "--workspace", t.TempDir())
	res := cvsCommand(t, inv.Env, args...)
	if res.code != 0 {
		return res
	}
	var out struct {
		Steps []plannedStep `json:"steps"`
	}
	mustJSON(t, res.stdout, &out)
	argvs, envs, stdins := record(t, out.Steps)
	if c.Expect.ArgvFile != "" {
		var want []string
		mustJSON(t, readFile(t, filepath.Join(dir, "argv.json")), &want)
		if !slices.ContainsFunc(argvs, func(got []string) bool { return slices.Equal(got, want) }) {
			t.Errorf("argv did not arrive: %q\nclosest of %d: %q", want, len(argvs), closest(argvs, want))
		}
	}
	for _, part := range c.Expect.ArgvContains {
		if !slices.ContainsFunc(argvs, func(got []string) bool { return containsRun(got, part) }) {
			t.Errorf("no argv holds %q", part)
		}
	}
	want := c.Expect.Env
	if c.Expect.EnvFile != "" {
		mustJSON(t, readFile(t, filepath.Join(dir, "env.json")), &want)
	}
	if len(want) > 0 {
		missing := []string{}
		for k, v := range want {
			if !slices.ContainsFunc(envs, func(e map[string]string) bool { return e[k] == v }) {
				missing = append(missing, k)
			}
		}
		if len(missing) > 0 {
			t.Errorf("environment did not arrive: %v", missing)
		}
	}
	if p := c.Expect.Path; p != "" {
		hit := slices.ContainsFunc(argvs, func(got []string) bool {
			return slices.ContainsFunc(got, func(a string) bool { return strings.Contains(a, p) })
		}) || slices.ContainsFunc(stdins, func(s string) bool { return strings.Contains(s, p) })
		if !hit {
			t.Errorf("path %q did not arrive in any argv", p)
		}
	}
	return res
}

// record runs the commands with the recorder first on PATH (cases/_harness).
func record(t *testing.T, steps []plannedStep) (argvs [][]string, envs []map[string]string, stdins []string) {
	t.Helper()
	fake, err := filepath.Abs(filepath.Join(casesDir(), "_harness", "fakebin"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for i, s := range steps {
		rec := filepath.Join(t.TempDir(), "rec")
		if err := os.MkdirAll(rec, 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", s.Command)
		cmd.Env = []string{"PATH=" + fake + ":/usr/bin:/bin", "HOME=" + home, "REC=" + rec}
		cmd.Stdin = strings.NewReader(s.Stdin)
		cmd.Dir = home
		_, _ = cmd.CombinedOutput() // a recorder answers nothing, so a command may well fail
		cancel()
		stdins = append(stdins, s.Stdin)
		files, _ := filepath.Glob(filepath.Join(rec, "argv.*"))
		for _, f := range files {
			argvs = append(argvs, strings.Split(strings.TrimSuffix(readFile(t, f), "\x00"), "\x00"))
		}
		files, _ = filepath.Glob(filepath.Join(rec, "env.*"))
		for _, f := range files {
			m := map[string]string{}
			for _, kv := range strings.Split(readFile(t, f), "\x00") {
				if k, v, ok := strings.Cut(kv, "="); ok {
					m[k] = v
				}
			}
			envs = append(envs, m)
		}
		if t.Failed() {
			t.Fatalf("step %d: %s", i, s.Command)
		}
	}
	return argvs, envs, stdins
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func containsRun(have, part []string) bool {
	for i := 0; i+len(part) <= len(have); i++ {
		if slices.Equal(have[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

func closest(argvs [][]string, want []string) []string {
	var best []string
	score := -1
	for _, a := range argvs {
		n := 0
		for n < len(a) && n < len(want) && a[n] == want[n] {
			n++
		}
		if n > score {
			best, score = a, n
		}
	}
	return best
}
