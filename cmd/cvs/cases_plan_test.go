package main

import (
	"context"
	"fmt"
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
	recs := record(t, out.Steps)
	// Jobs run in sessions of their own, so what they record may come a moment
	// after the command that started them returned.
	var missing []string
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		missing = unmet(t, c, dir, recs, out.Steps)
		if len(missing) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, m := range missing {
		t.Error(m)
	}
	return res
}

// unmet lists what a case expects and has not arrived.
func unmet(t *testing.T, c *acceptanceCase, dir string, recs []string, steps []plannedStep) []string {
	argvs, envs := recorded(t, recs)
	var missing []string
	if c.Expect.ArgvFile != "" {
		var want []string
		mustJSON(t, readFile(t, filepath.Join(dir, "argv.json")), &want)
		if !slices.ContainsFunc(argvs, func(got []string) bool { return slices.Equal(got, want) }) {
			missing = append(missing, fmt.Sprintf("argv did not arrive: %q\nclosest of %d: %q", want, len(argvs), closest(argvs, want)))
		}
	}
	for _, part := range c.Expect.ArgvContains {
		if !slices.ContainsFunc(argvs, func(got []string) bool { return containsRun(got, part) }) {
			missing = append(missing, fmt.Sprintf("no argv holds %q", part))
		}
	}
	want := c.Expect.Env
	if c.Expect.EnvFile != "" {
		mustJSON(t, readFile(t, filepath.Join(dir, "env.json")), &want)
	}
	if len(want) > 0 && !slices.ContainsFunc(envs, func(e map[string]string) bool {
		for k, v := range want {
			if got, ok := e[k]; !ok || got != v {
				return false
			}
		}
		return true
	}) {
		missing = append(missing, fmt.Sprintf("no process had the environment %q", want))
	}
	if p := c.Expect.Path; p != "" {
		hit := slices.ContainsFunc(argvs, func(got []string) bool {
			return slices.ContainsFunc(got, func(a string) bool { return strings.Contains(a, p) })
		}) || slices.ContainsFunc(steps, func(s plannedStep) bool { return strings.Contains(s.Stdin, p) })
		if !hit {
			missing = append(missing, fmt.Sprintf("path %q did not arrive in any argv", p))
		}
	}
	return missing
}

// record runs the commands with the recorder first on PATH (cases/_harness) and
// returns the folders of records.
func record(t *testing.T, steps []plannedStep) (recs []string) {
	t.Helper()
	fake, home := recorder(t), t.TempDir()
	for _, s := range steps {
		rec := filepath.Join(t.TempDir(), "rec")
		if err := os.MkdirAll(rec, 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", s.Command)
		cmd.Env = []string{"PATH=" + fake + ":/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + home, "REC=" + rec}
		cmd.Stdin = strings.NewReader(s.Stdin)
		cmd.Dir = home
		_, _ = cmd.CombinedOutput() // a recorder answers nothing, so a command may well fail
		cancel()
		recs = append(recs, rec)
	}
	return recs
}

// recorder copies the recorder's programs. Its links are kept as small files
// that hold their target's name, since not every copy of a tree keeps links.
func recorder(t *testing.T) string {
	t.Helper()
	src := filepath.Join(casesDir(), "_harness", "fakebin")
	entries, err := os.ReadDir(src)
	if err != nil {
		t.Fatal(err)
	}
	dst := t.TempDir()
	for _, e := range entries {
		text := readFile(t, filepath.Join(src, e.Name()))
		path := filepath.Join(dst, e.Name())
		if strings.TrimSpace(text) == "_rec" {
			err = os.Symlink("_rec", path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dst
}

// recorded reads what arrived so far.
func recorded(t *testing.T, recs []string) (argvs [][]string, envs []map[string]string) {
	t.Helper()
	for _, rec := range recs {
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
	}
	return argvs, envs
}

func readFile(t testing.TB, path string) string {
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
