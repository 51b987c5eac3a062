package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPinsSurvive: a warehouse that is deleted and loaded again has its pins, of
// runs with a directory and of loose ones, and the same golden view.
func TestPinsSurvive(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	runs := filepath.Join(ws, "cvs_runs")
	if err := os.CopyFS(runs, os.DirFS(filepath.Join(caseDir(t, "c202-previous-run-was-broken"), "runs"))); err != nil {
		t.Fatal(err)
	}
	do := func(want int, args ...string) cvsResult {
		t.Helper()
		res := compareCommand(t, nil, append(args, "--workspace", ws)...)
		if res.code != want {
			t.Fatalf("%v: exit %d: %s", args, res.code, res.stderr)
		}
		return res
	}
	rows := func() string {
		t.Helper()
		return do(0, "sql", "--format", "csv", "SELECT * FROM golden ORDER BY ALL").stdout + do(0, "sql", "--format", "csv", "SELECT * FROM baseline ORDER BY ALL").stdout
	}
	loaded := compareCommand(t, nil, "load", "--workspace", ws, runs)
	do(0, "baseline", "pin", "good", "--note", "the best \"one\"", "--name", "release/1")
	before := rows()
	if strings.Count(before, "\n") < 5 || !strings.Contains(before, "release/1") {
		t.Fatalf("the golden view has too little:\n%s", before)
	}
	if err := os.Remove(filepath.Join(ws, "cvs.duckdb")); err != nil {
		t.Fatal(err)
	}
	if again := compareCommand(t, nil, "load", "--workspace", ws, runs); again.code != loaded.code || again.stdout != loaded.stdout {
		t.Errorf("loading again: exit %d, %s, want %d, %s", again.code, again.stdout, loaded.code, loaded.stdout)
	}
	if after := rows(); after != before {
		t.Errorf("the pins differ; before:\n%s\nafter:\n%s", before, after)
	}
	do(0, "load", runs) // with a pin that is there
	if after := rows(); after != before {
		t.Errorf("loaded twice:\n%s", after)
	}
	// an older pin of the same name does not come back over the newer one
	pins := filepath.Join(runs, pinsFolder)
	older := `{"format": "cvs-pin@v1", "name": "release/1", "run_id": "current", "pinned_at": "2026-01-01T00:00:00Z", "pinned_by": "x"}`
	if err := os.WriteFile(filepath.Join(pins, "older.json"), []byte(older), 0o644); err != nil {
		t.Fatal(err)
	}
	do(0, "load", runs)
	if after := rows(); after != before {
		t.Errorf("an older pin won:\n%s", after)
	}
	for name, text := range map[string]string{
		"format":    strings.Replace(older, "@v1", "@v2", 1),
		"pinned_at": strings.Replace(older, "2026-01-01T", "yesterday ", 1),
		"run_id":    strings.Replace(older, `"current"`, `3`, 1),
	} {
		if err := os.WriteFile(filepath.Join(pins, "older.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if res := do(3, "load", runs); strings.Count(res.stderr, "older.json") != 1 || !strings.Contains(res.stderr, name) {
			t.Errorf("a pin with a wrong %s: %s", name, res.stderr)
		}
	}
	// what is no pin is read as any other file, a pin of a run that is not there waits
	for name, text := range map[string]string{
		"older.json": strings.Replace(older, "current", "nobody", 1),
		"notes.txt":  "kept since January",
	} {
		if err := os.WriteFile(filepath.Join(pins, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if res := do(0, "load", runs); !strings.Contains(res.stdout, "skipped    "+filepath.Join(pins, "notes.txt")) {
		t.Errorf("loaded with notes: %s", res.stdout)
	}
	if after := rows(); after != before {
		t.Errorf("a pin of nobody:\n%s", after)
	}
	// a clock that is behind must not look like a success
	ahead := strings.Replace(strings.Replace(older, "2026-01-01", "2036-01-01", 1), "x", "y", 1)
	if err := os.WriteFile(filepath.Join(pins, "older.json"), []byte(ahead), 0o644); err != nil {
		t.Fatal(err)
	}
	do(0, "load", runs)
	if res := do(5, "baseline", "pin", "good", "--name", "release/1"); !strings.Contains(res.stderr, "clocks") {
		t.Errorf("a pin older than its rival: %s", res.stderr)
	}
}
