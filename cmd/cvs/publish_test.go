package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/html"
)

// command runs one command of ours without the tree around it.
func command(t *testing.T, make func(*env) *cobra.Command, vars map[string]string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: func(k string) string { return vars[k] }, now: time.Now, osUser: func() string { return "ops" }}
	cmd := make(e)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// manyRuns is a warehouse of n runs of one configuration.
func manyRuns(t *testing.T, n int) string {
	t.Helper()
	tmpl := filepath.Join(caseDir(t, "c212-eight-loaders-at-once"), "tmpl")
	work := t.TempDir()
	db := filepath.Join(work, "s.duckdb")
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		dir := filepath.Join(work, "runs", id)
		if err := os.CopyFS(dir, os.DirFS(tmpl)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "run.json")
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(readFile(t, path), "@ID@", id)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if res := cvsCommand(t, nil, "load", "--warehouse", db, filepath.Join(work, "runs")); res.code != 0 {
		t.Fatalf("load: exit %d\n%s", res.code, res.stderr)
	}
	return db
}

// links are the pages that a page leads to, as paths.
func links(t *testing.T, page string) []string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(readFile(t, page)))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		for _, a := range n.Attr {
			if a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
				out = append(out, filepath.Join(filepath.Dir(page), filepath.FromSlash(a.Val)))
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	return out
}

// Publishing makes an index in which every link leads somewhere, unpublishing
// and --keep take runs away from it, and publishers at the same time lose
// nothing of each other's.
func TestPublish(t *testing.T) {
	t.Parallel()
	db, to := manyRuns(t, 5), filepath.Join(t.TempDir(), "share")
	var wg sync.WaitGroup
	errs := make([]error, 5)
	for i := range 5 {
		// Each publisher has a warehouse of its own, as on five launchers.
		own := filepath.Join(t.TempDir(), "own.duckdb")
		if err := os.WriteFile(own, []byte(readFile(t, db)), 0o644); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			_, errs[i] = command(t, newPublish, nil, "--warehouse", own, "--to", to, fmt.Sprintf("r%d", i))
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("publisher %d: %v", i, err)
		}
	}
	index := filepath.Join(to, "index.html")
	decks := func() int {
		n := 0
		for _, page := range links(t, index) {
			if _, err := os.Stat(page); err != nil {
				t.Errorf("the index leads to nothing: %v", err)
			}
			if filepath.Base(page) == "atom_run_deck.html" {
				n++
			}
			if filepath.Base(filepath.Dir(page)) == "history" {
				for _, p := range links(t, page) {
					if _, err := os.Stat(p); err != nil {
						t.Errorf("the history leads to nothing: %v", err)
					}
				}
			}
		}
		return n
	}
	// One in the list of configurations, the others in the list of runs.
	if n := decks(); n != 6 {
		t.Errorf("the index leads to %d decks, want 5 and the newest again", n)
	}
	if _, err := command(t, newUnpublish, nil, "--to", to, "r2", "r3"); err != nil {
		t.Fatal(err)
	}
	if n := decks(); n != 4 {
		t.Errorf("after unpublish the index leads to %d decks, want 4", n)
	}
	if _, err := os.Stat(filepath.Join(to, "runs", "r2")); !os.IsNotExist(err) {
		t.Errorf("r2 is still there: %v", err)
	}
	if _, err := command(t, newUnpublish, nil, "--to", to, "r2"); exitCode(err) != 2 {
		t.Errorf("a run that is not published: %v", err)
	}
	if err := os.WriteFile(filepath.Join(to, "runs", "r4", entryName), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, newPublish, nil, "--warehouse", db, "--to", to, "--all", "--keep", "2", "--snapshot"); err != nil {
		t.Fatal(err)
	}
	if n := decks(); n != 3 {
		t.Errorf("with --keep 2 the index leads to %d decks, want 2 and the newest again", n)
	}
	if _, err := os.Stat(filepath.Join(to, "warehouse", "s.duckdb")); err != nil {
		t.Errorf("no snapshot: %v", err)
	}
	if got := runRows(t, filepath.Join(to, "warehouse", "s.duckdb")); got != "5" {
		t.Errorf("the snapshot holds %s runs, want 5", got)
	}
}

// A broken entry of another publisher is named and takes nothing with it.
func TestPublishBrokenEntry(t *testing.T) {
	t.Parallel()
	db, to := manyRuns(t, 1), t.TempDir()
	if err := os.MkdirAll(filepath.Join(to, "runs", "broken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "runs", "broken", entryName), []byte(`{"entry_version": 9}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, newPublish, nil, "--warehouse", db, "--to", to, "--all"); err != nil {
		t.Fatal(err)
	}
	if page := readFile(t, filepath.Join(to, "index.html")); !strings.Contains(page, "runs/broken is not listed") || !strings.Contains(page, "runs/r0/") {
		t.Error("the index does not name the broken entry, or lacks the good one")
	}
}

func TestPublishMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--all"}, {"--to", t.TempDir()}, {"--to", t.TempDir(), "--all", "r0"}, {"--to", t.TempDir(), "--all", "--keep", "-1"}} {
		if _, err := command(t, newPublish, nil, args...); exitCode(err) != 2 {
			t.Errorf("publish %q: %v, want exit 2", args, err)
		}
	}
}

// The SQL that a deck shows for each of its panels is SQL that a warehouse
// answers.
func TestPanelQueries(t *testing.T) {
	t.Parallel()
	db := manyRuns(t, 1)
	text := readFile(t, filepath.Join("..", "..", "render", "testdata", "panels.sql"))
	panel, n := "", 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			panel = name
			continue
		}
		n++
		if out, err := command(t, newSQL, nil, "--warehouse", db, line); err != nil {
			t.Errorf("panel %s: %s: %v\n%s", panel, line, err, out)
		}
	}
	if n < 24 {
		t.Errorf("only %d queries", n)
	}
}

// The summary goes to every place it is asked for, and the exit status is the
// verdict.
func TestSummary(t *testing.T) {
	t.Parallel()
	db, dir := manyRuns(t, 1), t.TempDir()
	step := filepath.Join(dir, "step.md")
	if err := os.WriteFile(step, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, newSummary, map[string]string{"GITHUB_STEP_SUMMARY": step}, "--warehouse", db, "--markdown", filepath.Join(dir, "s.md"), "--junit", filepath.Join(dir, "j.xml"), "--summary-html", filepath.Join(dir, "s.html"), "r0")
	if code := exitCode(err); err != nil && code != 1 && code != 3 {
		t.Fatalf("%v\n%s", err, out)
	}
	md := readFile(t, filepath.Join(dir, "s.md"))
	if !strings.HasPrefix(md, "## ") || readFile(t, step) != "before\n"+md {
		t.Errorf("Markdown %q, step summary %q", md, readFile(t, step))
	}
	var junit struct {
		Tests  int `xml:"tests,attr"`
		Suites []struct {
			Cases []struct{} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(readFile(t, filepath.Join(dir, "j.xml"))), &junit); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range junit.Suites {
		n += len(s.Cases)
	}
	if n == 0 || n != junit.Tests {
		t.Errorf("%d tests declared, %d there", junit.Tests, n)
	}
	if page := readFile(t, filepath.Join(dir, "s.html")); !strings.Contains(page, "script-src &#39;none&#39;") || strings.Contains(page, "<script") {
		t.Error("the summary page is not free of script")
	}
	if out, _ := command(t, newSummary, nil, "--warehouse", db, "r0"); !strings.HasPrefix(out, "## ") {
		t.Errorf("without flags it prints %q", out)
	}
}
