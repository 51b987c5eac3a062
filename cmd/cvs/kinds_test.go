package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestKinds changes one thing of a case that passes and says what must follow:
// neighbours of the recorded cases, each found by trying.
func TestKinds(t *testing.T) {
	t.Parallel()
	cell := func(dir string) string { return filepath.Join(dir, "results", "isl1024_osl1024_conc128") }
	edit := func(t *testing.T, path, pattern, by string) {
		t.Helper()
		text := readFile(t, path)
		changed := regexp.MustCompile(pattern).ReplaceAllString(text, by)
		if changed == text {
			t.Fatalf("%s: nothing matches %s", path, pattern)
		}
		write(t, path, changed)
	}
	for _, c := range []struct {
		name, from string
		change     func(t *testing.T, dir string)
		exit       int
		says       string // somewhere on stdout or stderr
	}{
		{"a stranger beside a result is listed", "c171-sglang-file-with-many-cells", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "results", "notes.json"), `{"a": 1}`)
		}, 0, "notes.json"},
		{"a broken line costs only itself", "c170-sglang-line-basic", func(t *testing.T, dir string) {
			for _, f := range glob(t, filepath.Join(dir, "results", "*", "*.jsonl"), filepath.Join(dir, "results", "*.jsonl")) {
				write(t, f, "{\"a\":\n"+readFile(t, f))
			}
		}, 3, "line 1 is not used"},
		{"one output token, and the client writes no TPOT", "c149-one-output-token", func(t *testing.T, dir string) {
			for _, f := range glob(t, filepath.Join(dir, "results", "*", "*.json")) {
				edit(t, f, `(?m)^ "[a-z0-9]+_(tpot|itl)_ms": [^\n]*\n`, "")
			}
		}, 0, "one output token"},
		{"a gate under the client's name of a metric is a gate", "c096-ratio-message-digits/equal", func(t *testing.T, dir string) {
			for _, f := range glob(t, filepath.Join(dir, "*threshold.json")) {
				edit(t, f, `("failed": \{)`, `"request_goodput": {"kind": "min", "value": 1e9}, $1`)
			}
			for _, f := range glob(t, filepath.Join(dir, "results", "*", "*.json")) {
				edit(t, f, `"request_goodput:?": null`, `"request_goodput:": 1.5`)
			}
		}, 1, "goodput"},
		{"the last of two -tp is what runs", "c096-ratio-message-digits/equal", func(t *testing.T, dir string) {
			edit(t, configOf(t, dir), `"-tp",\s*"8"`, `"-tp", "8", "-tp", "4"`)
		}, 2, "-tp 4 contradicts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(caseDir(t, c.from))); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			res := cvsCommand(t, nil, append(append([]string{"evaluate"}, inputArgs(t, dir, caseInvocation{})...), "--results", dir, "--format", "json")...)
			if res.code != c.exit {
				t.Errorf("exit %d, want %d\nstdout: %.1500s\nstderr: %s", res.code, c.exit, res.stdout, res.stderr)
			}
			if !strings.Contains(res.stdout+res.stderr, c.says) {
				t.Errorf("%q is said nowhere\nstderr: %s", c.says, res.stderr)
			}
		})
	}
	t.Run("an orphan that cannot be read is an orphan", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(caseDir(t, "c126-orphan-result"))); err != nil {
			t.Fatal(err)
		}
		const path = "results/isl1024_osl1024_conc64/results.json"
		write(t, filepath.Join(dir, path), `{"output_throughput": 20`)
		const task = "accuracy/unplanned/m/results_2026-09-01T10-15-00.json"
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, task)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, task), `{"results":`)
		in := append(inputArgs(t, dir, caseInvocation{}), "--results", dir)
		html := filepath.Join(t.TempDir(), "deck.html")
		if res := cvsCommand(t, nil, append([]string{"deck", "-o", html}, in...)...); res.code != 0 {
			t.Fatalf("deck: exit %d: %s", res.code, res.stderr)
		}
		if page := readFile(t, html); !strings.Contains(page, "2 orphans") || !strings.Contains(page, path) || !strings.Contains(page, task) {
			t.Error("the deck does not list both orphans")
		}
		res := cvsCommand(t, nil, append([]string{"evaluate"}, in...)...)
		for _, want := range []string{"warning: " + path + ": belongs to nothing that was planned: kept, not judged; it could not be read:", "warning: " + task + " unplanned: belongs to nothing"} {
			if res.code != 0 || !strings.Contains(res.stdout, want) {
				t.Errorf("exit %d, want 0 and %q in\n%s%s", res.code, want, res.stdout, res.stderr)
			}
		}
		db := filepath.Join(t.TempDir(), "w.duckdb")
		cvsCommand(t, nil, "load", "--warehouse", db, dir)
		res = cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv", "SELECT path FROM data_quality WHERE code = 'orphan' ORDER BY path")
		if want := "path\n" + task + "\n" + path + "\n"; res.stdout != want {
			t.Errorf("view: %q, want %q: %s", res.stdout, want, res.stderr)
		}
	})
	t.Run("metadata.filter counts for results collected by hand", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(caseDir(t, "c181-which-filter-is-gated"))); err != nil {
			t.Fatal(err)
		}
		edit(t, configOf(t, dir), `("num_fewshot": 5,)`, `"metadata": {"filter": "strict-match"}, $1`)
		db := filepath.Join(t.TempDir(), "w.duckdb")
		if res := cvsCommand(t, nil, "load", "--warehouse", db, dir); res.code != 0 {
			t.Fatalf("load: exit %d: %s", res.code, res.stderr)
		}
		res := cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv", "SELECT DISTINCT filter, reported FROM accuracy WHERE filter <> '' ORDER BY filter")
		if want := "filter,reported\nflexible-extract,false\nstrict-match,true\n"; res.stdout != want {
			t.Errorf("got %q, want %q: %s", res.stdout, want, res.stderr)
		}
		html := filepath.Join(t.TempDir(), "deck.html")
		in := append(inputArgs(t, dir, caseInvocation{}), "--results", dir)
		cvsCommand(t, nil, append([]string{"deck", "-o", html}, in...)...)
		if page := readFile(t, html); !strings.Contains(page, "exact_match__strict-match") || !strings.Contains(page, "of other filters than the tasks select") {
			t.Error("the deck does not tell the reported filter from the other")
		}
	})
	t.Run("no output replaces an input", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(caseDir(t, "c096-ratio-message-digits/equal"))); err != nil {
			t.Fatal(err)
		}
		args := append(append([]string{"deck"}, inputArgs(t, dir, caseInvocation{})...), "--results", dir)
		write(t, filepath.Join(dir, "run.json"), `{"run_id": "r"}`)
		html := filepath.Join(t.TempDir(), "deck.html")
		for name, out := range map[string][]string{
			"run.json":               {"-o", filepath.Join(dir, "run.json")},
			"a result":               {"-o", glob(t, filepath.Join(cell(dir), "*"))[0]},
			"through no folder":      {"-o", dir + "/none/../" + filepath.Base(configOf(t, dir))},
			"the sidecar":            {"-o", html, "--json", filepath.Join(dir, "cluster.json")},
			"each other":             {"-o", html, "--json", html},
			"a device":               {"-o", "/dev/null"},
			"somebody's other notes": {"-o", glob(t, filepath.Join(dir, "*threshold.json"))[0]},
		} {
			res := cvsCommand(t, nil, append(append([]string{}, args...), out...)...)
			if res.code != 2 {
				t.Errorf("%s: exit %d, want 2: %s", name, res.code, res.stderr)
			}
		}
		if st, err := os.Stat("/dev/null"); err != nil || st.Mode().IsRegular() {
			t.Fatal("/dev/null was replaced")
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	_ = os.Chmod(path, 0o644) // a copy may be read-only, a new file is not there yet
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func glob(t testing.TB, patterns ...string) []string {
	t.Helper()
	var all []string
	for _, p := range patterns {
		m, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m...)
	}
	if len(all) == 0 {
		t.Fatalf("nothing matches %q", patterns)
	}
	return all
}
