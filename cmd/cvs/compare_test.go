package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// editedCase copies a case and lets edit change one of its files.
func editedCase(t *testing.T, id, file string, edit func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "cases", id))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	if err := os.WriteFile(path, []byte(edit(readFile(t, path))), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCompareOtherWorkload: a reference that states other lengths is counted as not
// comparable, cell by cell, and the gates stay.
func TestCompareOtherWorkload(t *testing.T) {
	t.Parallel()
	totals := func(text string) string {
		return strings.ReplaceAll(text, `"output_throughput": 2000.0`, `"output_throughput": 2000.0, "total_input_tokens": 512000, "total_output_tokens": 1024000, "completed": 1000`)
	}
	dir := editedCase(t, "c205-parity-ratios", "parity.json", totals)
	c, _ := compareResults(t, dir)
	// the cell of concurrency 64 states other lengths, that of 128 has 0, 256 is absent
	if c.Parity.Counts != (parityCounts{WithoutReference: 2, NotComparable: 1}) || c.Parity.State == "compared" {
		t.Errorf("parity %s: %s", c.Parity.State, c.Parity.Counts)
	}
	wantPasses(t, dir, 75)

	dir = editedCase(t, "c199-cells-come-and-go", "prev_report.json", totals)
	c, _ = compareResults(t, dir)
	wantCounts(t, c.Prev.Counts, prevCounts{New: 1, Gone: 1, NotComparable: 1})
	if !strings.Contains(c.Prev.Message, "the workloads differ: mean lengths by 100.0 %") {
		t.Errorf("message %q", c.Prev.Message)
	}
}

// TestCompareWithoutStart: results without a start time have no previous run, and
// that is the reason which is given.
func TestCompareWithoutStart(t *testing.T) {
	t.Parallel()
	dir := editedCase(t, "c205-parity-ratios", "parity.json", func(s string) string { return s })
	c, _ := compareResults(t, dir)
	if !strings.Contains(c.Prev.Message, "states no start") || c.Prev.State != "not compared" {
		t.Errorf("%s: %q", c.Prev.State, c.Prev.Message)
	}
}

// TestLoadBlankRunID: a run needs an id that can be seen.
func TestLoadBlankRunID(t *testing.T) {
	t.Parallel()
	dir := editedCase(t, "c210-same-run-loaded-twice", "runs/r1/run.json", func(s string) string { return strings.Replace(s, `"r1"`, `" \t"`, 1) })
	res := cvsCommand(t, nil, "load", "--warehouse", filepath.Join(t.TempDir(), "w.duckdb"), filepath.Join(dir, "runs"))
	if res.code != 3 || !strings.Contains(res.stderr, `run_id: expected the id of the run, found " \t"`) {
		t.Errorf("exit %d: %s", res.code, res.stderr)
	}
}
