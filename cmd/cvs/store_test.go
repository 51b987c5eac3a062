package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// runRows counts the runs of a warehouse.
func runRows(t *testing.T, db string) string {
	t.Helper()
	res := cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv", "SELECT count(*) AS n FROM runs")
	if res.code != 0 {
		t.Fatalf("count runs: %s", res.stderr)
	}
	return strings.Fields(res.stdout)[1]
}

// caseDir is the folder of a case that stands in the repository.
func caseDir(t *testing.T, id string) string {
	t.Helper()
	dir := filepath.Join("testdata", "cases", id)
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("case %s: %v", id, err)
	}
	return dir
}

// TestConflictingRun is case c211: the same run id with other numbers.
func TestConflictingRun(t *testing.T) {
	t.Parallel()
	dir := caseDir(t, "c211-same-run-id-other-content")
	db := filepath.Join(t.TempDir(), "s.duckdb")
	if res := cvsCommand(t, nil, "load", "--warehouse", db, filepath.Join(dir, "first", "runs")); res.code != 0 {
		t.Fatalf("first: exit %d\n%s", res.code, res.stderr)
	}
	res := cvsCommand(t, nil, "load", "--warehouse", db, filepath.Join(dir, "second", "runs"))
	if res.code != 3 || !strings.Contains(res.stderr, "conflict") || !strings.Contains(res.stderr, "results.json") {
		t.Errorf("second: exit %d, stderr %q; want 3, naming the conflict and the file", res.code, res.stderr)
	}
	q := cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv", "SELECT value FROM metrics WHERE metric = 'output_throughput'")
	if got := strings.Fields(q.stdout); len(got) != 2 || got[1] != "2048" {
		t.Errorf("stored value %v, want 2048", got)
	}
}

// TestEightLoaders is case c212 with real processes: eight at once, five runs
// each, one warehouse.
func TestEightLoaders(t *testing.T) {
	t.Parallel()
	tmpl := filepath.Join(caseDir(t, "c212-eight-loaders-at-once"), "tmpl")
	work := t.TempDir()
	db := filepath.Join(work, "s.duckdb")
	runJSON := readFile(t, filepath.Join(tmpl, "run.json"))
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for p := range 8 {
		for r := range 5 {
			id := fmt.Sprintf("p%d-r%d", p, r)
			dir := filepath.Join(work, "runs", id)
			if err := os.CopyFS(dir, os.DirFS(tmpl)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "run.json")
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(runJSON, "@ID@", id)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for p := range 8 {
		wg.Go(func() {
			for r := range 5 {
				cmd := cvsProcess(t, "load", "--warehouse", db, "--wait", "60s", filepath.Join(work, "runs", fmt.Sprintf("p%d-r%d", p, r)))
				if out, err := cmd.CombinedOutput(); err != nil {
					errs[p] = fmt.Errorf("%w: %s", err, out)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if n := runRows(t, db); n != "40" {
		t.Errorf("%s runs, want 40", n)
	}
}

// cvsProcess starts this test binary as cvs.
func cvsProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), asCVS+"=1")
	return cmd
}

// TestReadOnlyShare is case c213: reading needs no permission to write.
func TestReadOnlyShare(t *testing.T) {
	t.Parallel()
	dir := caseDir(t, "c213-read-only-share")
	share := filepath.Join(t.TempDir(), "share")
	if err := os.Mkdir(share, 0o755); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(share, "s.duckdb")
	if res := cvsCommand(t, nil, "load", "--warehouse", db, filepath.Join(dir, "runs", "r1")); res.code != 0 {
		t.Fatalf("load: %s", res.stderr)
	}
	before, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{db, share} {
		st, _ := os.Stat(p)
		if err := os.Chmod(p, st.Mode()&^0o222); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(share, 0o755); os.Chmod(db, 0o644) })
	deck := filepath.Join(t.TempDir(), "deck.html")
	read := asNobody(t, cvsProcess(t, "evaluate", "--warehouse", db, "latest"))
	if out, err := read.CombinedOutput(); err != nil {
		t.Errorf("evaluate from a read-only share: %v\n%s", err, out)
	}
	if res := cvsCommand(t, nil, "deck", "--warehouse", db, "-o", deck, "latest"); res.code != 0 {
		t.Errorf("deck from a read-only share: exit %d\n%s", res.code, res.stderr)
	}
	write := asNobody(t, cvsProcess(t, "load", "--warehouse", db, filepath.Join(dir, "runs", "r2")))
	var stderr bytes.Buffer
	write.Stderr = &stderr
	if err := write.Run(); exitStatus(err) != 5 || !strings.Contains(stderr.String(), db) {
		t.Errorf("load into a read-only share: %v, stderr %q; want exit 5 naming %s", err, stderr.String(), db)
	}
	if after, _ := os.ReadFile(db); !bytes.Equal(before, after) {
		t.Error("the warehouse changed")
	}
}

// asNobody drops root, for whom read-only means nothing; others stay as they are.
func asNobody(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		return cmd
	}
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	// The test's folders belong to root alone; open the way to them.
	for dir := filepath.Dir(cmd.Path); dir != "/"; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
	for _, a := range cmd.Args {
		for dir := a; filepath.IsAbs(dir) && dir != "/" && strings.HasPrefix(dir, os.TempDir()); dir = filepath.Dir(dir) {
			if st, err := os.Stat(dir); err == nil && st.IsDir() && st.Mode()&0o222 != 0 {
				os.Chmod(dir, 0o755)
			}
		}
	}
	return cmd
}

func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	if x, ok := err.(*exec.ExitError); ok {
		return x.ExitCode()
	}
	return -1
}

// TestHundredMegabytes is case c217: a result as large as detailed clients write.
func TestHundredMegabytes(t *testing.T) {
	t.Parallel()
	dir := prepareCase(t, caseDir(t, "c217-hundred-megabyte-result"))
	res := cvsCommand(t, nil, "load", "--warehouse", filepath.Join(t.TempDir(), "s.duckdb"), dir)
	if res.code != 0 {
		t.Errorf("exit %d\n%s", res.code, res.stderr)
	}
}

// TestOldDeckSurvives is case c246: a deck is the old one or the new one whole.
func TestOldDeckSurvives(t *testing.T) {
	t.Parallel()
	dir := caseDir(t, "c246-old-deck-survives-failure")
	args := append(inputArgs(t, dir, caseInvocation{}), "--results", dir)
	out := filepath.Join(t.TempDir(), "deck.html")
	deck := func() *exec.Cmd { return cvsProcess(t, append(append([]string{"deck"}, args...), "-o", out)...) }
	if msg, err := deck().CombinedOutput(); exitStatus(err) > 1 {
		t.Fatalf("first deck: %v\n%s", err, msg)
	}
	for i := range 20 {
		cmd := deck()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(i+1)*40*time.Millisecond, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		page, err := os.ReadFile(out)
		if err != nil || !bytes.HasSuffix(bytes.TrimSpace(page), []byte("</html>")) {
			t.Fatalf("kill %d: the deck is not whole (%d bytes, %v)", i, len(page), err)
		}
	}
	folder := t.TempDir()
	if res := cvsCommand(t, nil, append(append([]string{"deck"}, args...), "-o", folder)...); res.code != 5 || !strings.Contains(res.stderr, folder) {
		t.Errorf("output is a folder: exit %d, %q; want 5 naming it", res.code, res.stderr)
	}
}

// TestDeckOverInput is case c285: no input is ever overwritten.
func TestDeckOverInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(caseDir(t, "c285-output-over-input"))); err != nil {
		t.Fatal(err)
	}
	args := append(inputArgs(t, dir, caseInvocation{}), "--results", dir)
	deck := filepath.Join(t.TempDir(), "deck.html")
	if res := cvsCommand(t, nil, append(append([]string{"deck"}, args...), "-o", deck, "--junit", deck)...); res.code != 2 || !strings.Contains(res.stderr, "-o and --junit name the same file") {
		t.Errorf("two outputs in one file: exit %d, %q", res.code, res.stderr)
	}
	for range 2 { // an output of before is no input, also beside the results
		if res := cvsCommand(t, nil, append(append([]string{"deck"}, args...), "-o", filepath.Join(dir, "d.html"), "--json", filepath.Join(dir, "side.json"), "--markdown", filepath.Join(dir, "d.md"))...); res.code != 0 {
			t.Errorf("made again: exit %d, %q", res.code, res.stderr)
		}
	}
	targets, _ := filepath.Glob(filepath.Join(dir, "*_atom_*.json"))
	results, _ := filepath.Glob(filepath.Join(dir, "results", "*", "*"))
	for _, target := range append(append(targets, results...), filepath.Join(dir, "cluster.json")) {
		before := readFile(t, target)
		other := filepath.Dir(target) + "/./../" + filepath.Base(filepath.Dir(target)) + "/" + filepath.Base(target)
		for _, spelling := range []string{target, other} {
			for _, asked := range [][]string{{"deck", "-o", spelling}, {"deck", "-o", deck, "--json", spelling}, {"deck", "-o", deck, "--markdown", spelling}, {"deck", "-o", deck, "--junit", spelling},
				{"deck", "-o", deck, "--summary-html", spelling}, {"summary", "--markdown", spelling}, {"summary", "--junit", spelling}} {
				res := cvsCommand(t, nil, append(asked, args...)...)
				if res.code != 2 || !strings.Contains(res.stderr, filepath.Base(target)) {
					t.Errorf("%q: exit %d, %q; want 2 naming it", asked, res.code, res.stderr)
				}
			}
		}
		for _, flag := range []string{"--html", "--junit", "--markdown", "--log-file"} {
			if strings.HasPrefix(target, filepath.Join(dir, "results")) {
				break // no input of a run
			}
			res := cvsCommand(t, nil, append([]string{"run", "atom", "--workspace", t.TempDir(), flag, target}, inputArgs(t, dir, caseInvocation{})...)...)
			if res.code != 2 || !strings.Contains(res.stderr, "is the input") {
				t.Errorf("run %s %s: exit %d, %q; want 2", flag, target, res.code, res.stderr)
			}
		}
		if readFile(t, target) != before {
			t.Errorf("%s was overwritten", target)
		}
	}
}

// TestReplacedTextIsReported: text of run.json that no store can hold as written
// is replaced, and the run says where.
func TestReplacedTextIsReported(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "s.duckdb")
	if res := cvsCommand(t, nil, "load", "--warehouse", db, filepath.Join(caseDir(t, "c221-sql-in-names"), "runs", "quoted")); res.code != 0 {
		t.Fatalf("load: exit %d: %s", res.code, res.stderr)
	}
	res := cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv", "SELECT severity, message FROM data_quality WHERE path = 'run.json'")
	if res.code != 0 || !strings.Contains(res.stdout, "warning") || !strings.Contains(res.stdout, "run.json: at 7:") || !strings.Contains(res.stdout, "NUL") {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
}

// TestLoadNamesOnce: what makes a stored result unusable is said with its file
// once, and what is of no file without a place.
func TestLoadNamesOnce(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"c160-result-of-another-model":                "cvs: results/isl1024_osl1024_conc128/results.json ISL=1024,OSL=1024,TP=8,PP=1,CONC=128: the artifact is of model",
		"c166-node-reports-another-gpu/contradiction": "cvs: gpu_arch is mi325x (gfx942), but the node reports",
	} {
		res := cvsCommand(t, nil, "load", "--warehouse", filepath.Join(t.TempDir(), "s.duckdb"), caseDir(t, id))
		if res.code != 3 || !strings.HasPrefix(res.stderr, want) || strings.Count(res.stderr, "results.json") > 1 {
			t.Errorf("%s: exit %d: %s", id, res.code, res.stderr)
		}
	}
}
