package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"
)

// The adapter between the acceptance cases (testdata/cases/CONTRACT.md) and the
// commands. CVS_CASES names another folder of cases in the same form.

type acceptanceCase struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Operation string `json:"operation"`
	Run       struct {
		Args     []string          `json:"args"`
		Env      map[string]string `json:"env"`
		UnsetEnv []string          `json:"unset_env"`
		Current  string            `json:"current"`
		Runs     []caseInvocation  `json:"runs"`
	} `json:"run"`
	ExitClass string     `json:"exit_class"`
	Expect    caseExpect `json:"expect"`
}

// cellStates are the states of cells by key. Ingest cases write a number of
// cells instead, kept under "count".
type cellStates map[string]string

func (c *cellStates) UnmarshalJSON(b []byte) error {
	var n int
	if json.Unmarshal(b, &n) == nil {
		*c = cellStates{"count": fmt.Sprint(n)}
		return nil
	}
	m := map[string]string{}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*c = m
	return nil
}

type caseInvocation struct {
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	UnsetEnv []string          `json:"unset_env"`
	Exit     string            `json:"exit"`
}

type caseExpect struct {
	Cells         cellStates                   `json:"cells"`
	Gates         map[string]map[string]string `json:"gates"`
	Accuracy      map[string]map[string]string `json:"accuracy"`
	Variants      map[string]string            `json:"variants"`
	AlsoAccepted  []string                     `json:"also_accepted_exit"`
	Metrics       map[string]float64           `json:"metrics"`
	Orphans       []string                     `json:"orphans"`
	ExpectedCells []string                     `json:"expected_cells"`
	Resolved      map[string]any               `json:"resolved"`
	LogDir        map[string]string            `json:"log_dir"`
	ArgvContains  [][]string                   `json:"argv_contains"`
	Env           map[string]string            `json:"env"`
	ArgvFile      string                       `json:"argv_file"`
	EnvFile       string                       `json:"env_file"`
	Path          string                       `json:"path"`
	MustNotExist  []string                     `json:"must_not_exist"`
	Runs          *int                         `json:"runs"`
}

var exitClasses = map[string]int{"OK": 0, "GATE_FAIL": 1, "INPUT_ERROR": 2, "DATA_ERROR": 3, "RUN_ERROR": 4, "STORE_ERROR": 5}

// cvsResult is one command line's outcome.
type cvsResult struct {
	code           int
	stdout, stderr string
}

// cvsCommand runs one command line in this process.
func cvsCommand(t testing.TB, env map[string]string, args ...string) cvsResult {
	t.Helper()
	var out, errOut bytes.Buffer
	e := &env_{stdin: strings.NewReader(""), stdout: &out, stderr: &errOut,
		getenv: func(k string) string { return env[k] },
		now:    func() time.Time { return time.Date(2026, 9, 2, 12, 0, 0, 0, time.UTC) },
		osUser: func() string { return "benchuser" }}
	code := run(t.Context(), e, args)
	return cvsResult{code, out.String(), errOut.String()}
}

// env_ keeps the test's literal readable beside maps called env.
type env_ = env

func casesDir() string {
	if d := os.Getenv("CVS_CASES"); d != "" {
		return d
	}
	return filepath.Join("testdata", "cases")
}

// adapted are the operations this adapter carries out completely.
var adapted = map[string]func(t *testing.T, c *acceptanceCase, dir string, inv caseInvocation) cvsResult{
	"load":     runLoadCase,
	"plan":     runPlanCase,
	"parse":    runParseCase,
	"evaluate": runEvaluateCase,
	"ingest":   runIngestCase,
	"render":   runRenderCase,
}

func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(casesDir(), "c*", "case.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s (%v)", casesDir(), err)
	}
	sort.Strings(files)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		c := &acceptanceCase{}
		if err := json.Unmarshal(data, c); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		do, ok := adapted[c.Operation]
		if !ok || byHand[c.ID] {
			continue // compare and run cases: their own tests
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			dir := prepareCase(t, filepath.Dir(f))
			for _, v := range variants(c, dir) {
				t.Run(v.name, func(t *testing.T) {
					res := do(t, c, v.dir, v.inv)
					checkExit(t, c, v.class, res)
					checkClean(t, res)
					if v.top || len(c.Expect.Variants) == 0 {
						for _, p := range c.Expect.MustNotExist {
							if _, err := os.Lstat(p); err == nil {
								t.Errorf("%s exists", p)
							}
						}
					}
				})
			}
		})
	}
}

// byHand lists cases whose steps are told in prose; each has a test of its own
// named here, so that none is passed over in silence.
var byHand = map[string]bool{
	"c211-same-run-id-other-content": true, // TestConflictingRun
	"c212-eight-loaders-at-once":     true, // TestEightLoaders
	"c213-read-only-share":           true, // TestReadOnlyShare (operation compare)
	"c217-hundred-megabyte-result":   true, // TestHundredMegabytes
	"c246-old-deck-survives-failure": true, // TestOldDeckSurvives
	"c285-output-over-input":         true, // TestDeckOverInput
}

// prepareCase runs a case's generator in a copy, so that the source stays clean.
func prepareCase(t *testing.T, dir string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "gen.go")); err != nil {
		return dir
	}
	tmp := t.TempDir()
	if err := os.CopyFS(tmp, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(tmp, "gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	// The generator's comment is "go run gen.go > TARGET".
	target := ""
	for _, line := range strings.Split(string(src), "\n") {
		if _, after, ok := strings.Cut(line, "gen.go > "); ok {
			target = filepath.Join(tmp, strings.TrimSpace(after))
		}
	}
	if target == "" {
		t.Fatalf("%s: gen.go names no target", dir)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "gen.go")
	cmd.Dir = tmp
	out, err := os.Create(target)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return tmp
}

type variant struct {
	name, dir, class string
	inv              caseInvocation
	top              bool
}

// variants are the input sets of a case times its invocations.
func variants(c *acceptanceCase, dir string) []variant {
	invs := c.Run.Runs
	if len(invs) == 0 {
		invs = []caseInvocation{{Args: c.Run.Args, Env: c.Run.Env, UnsetEnv: c.Run.UnsetEnv}}
	}
	var sets []variant
	names := make([]string, 0, len(c.Expect.Variants))
	for n := range c.Expect.Variants {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		sets = append(sets, variant{name: n, dir: filepath.Join(dir, n), class: c.Expect.Variants[n]})
	}
	if hasInput(dir) || len(sets) == 0 {
		sets = append([]variant{{name: "top", dir: dir, class: c.ExitClass, top: true}}, sets...)
	}
	var out []variant
	for _, s := range sets {
		for i, inv := range invs {
			v := s
			v.inv = inv
			if inv.Exit != "" {
				v.class = inv.Exit
			}
			if len(invs) > 1 {
				v.name = fmt.Sprintf("%s-%d", s.name, i+1)
			}
			out = append(out, v)
		}
	}
	return out
}

func hasInput(dir string) bool {
	m, _ := filepath.Glob(filepath.Join(dir, "*_atom_*.json"))
	if len(m) > 0 {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "runs"))
	return err == nil
}

func checkExit(t *testing.T, c *acceptanceCase, class string, res cvsResult) {
	t.Helper()
	want, ok := exitClasses[class]
	if !ok {
		t.Fatalf("unknown exit class %q", class)
	}
	if res.code == want {
		return
	}
	for _, a := range c.Expect.AlsoAccepted {
		if res.code == exitClasses[a] {
			return
		}
	}
	t.Errorf("exit %d, want %d (%s)\n%s\nstdout: %.3000s\nstderr: %.3000s", res.code, want, class, c.Title, res.stdout, res.stderr)
}

// checkClean holds for every command: no stack dump, and an error says something.
func checkClean(t *testing.T, res cvsResult) {
	t.Helper()
	if strings.Contains(res.stderr, "goroutine ") || strings.Contains(res.stderr, "panic:") {
		t.Errorf("stack dump on stderr:\n%s", res.stderr)
	}
	if res.code > 1 && res.stderr == "" {
		t.Errorf("exit %d without a word on stderr", res.code)
	}
}

// configOf finds the config of an input set.
func configOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		n := e.Name()
		if strings.HasSuffix(n, ".json") && !strings.HasSuffix(n, "threshold.json") && n != "cluster.json" && n != "case.json" &&
			n != "run.json" && n != "argv.json" && n != "env.json" && n != "fake_host.json" && n != "prev_report.json" && n != "parity.json" {
			return filepath.Join(dir, n)
		}
	}
	t.Fatalf("no config in %s", dir)
	return ""
}

func inputArgs(t *testing.T, dir string, inv caseInvocation) []string {
	args := []string{"--config_file", configOf(t, dir)}
	if _, err := os.Stat(filepath.Join(dir, "cluster.json")); err == nil {
		args = append(args, "--cluster_file", filepath.Join(dir, "cluster.json"))
	}
	return append(args, inv.Args...)
}

func runLoadCase(t *testing.T, c *acceptanceCase, dir string, inv caseInvocation) cvsResult {
	res := cvsCommand(t, inv.Env, append(append([]string{"config", "check"}, inputArgs(t, dir, inv)...), "--format", "json")...)
	if res.code != 0 {
		return res
	}
	var out struct {
		Plan struct {
			Cells []struct {
				Key string `json:"key"`
			} `json:"cells"`
			Resolved map[string]any `json:"resolved"`
		} `json:"plan"`
	}
	mustJSON(t, res.stdout, &out)
	if want := c.Expect.ExpectedCells; want != nil {
		var got []string
		for _, x := range out.Plan.Cells {
			got = append(got, x.Key)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("cells %v, want %v", got, want)
		}
	}
	for path, want := range c.Expect.Resolved {
		if got := lookupPath(out.Plan.Resolved, path); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("resolved %s = %v, want %v", path, got, want)
		}
	}
	if want, ok := c.Expect.LogDir[filepath.Base(dir)]; ok {
		if got := lookupPath(out.Plan.Resolved, "paths.log_dir"); got != want {
			t.Errorf("paths.log_dir = %v, want %v", got, want)
		}
	}
	return res
}

// lookupPath follows a.b[0].c.
func lookupPath(v any, path string) any {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func mustJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("not strict JSON: %v\n%.2000s", err, text)
	}
}

func runParseCase(t *testing.T, c *acceptanceCase, dir string, inv caseInvocation) cvsResult {
	files, _ := filepath.Glob(filepath.Join(dir, "results", "*", "*"))
	if len(files) == 0 {
		t.Fatal("no artefact")
	}
	res := cvsCommand(t, inv.Env, "inspect", files[0], "--format", "json")
	if res.code != 0 {
		return res
	}
	var out struct {
		Metrics []struct {
			Metric string   `json:"metric"`
			Value  *float64 `json:"value"`
		} `json:"metrics"`
	}
	mustJSON(t, res.stdout, &out)
	for name, want := range c.Expect.Metrics {
		found := false
		for _, m := range out.Metrics {
			if m.Metric == name && m.Value != nil {
				found = true
				if math.Abs(*m.Value-want) > 1e-4*math.Max(1, math.Abs(want)) {
					t.Errorf("%s = %v, want %v", name, *m.Value, want)
				}
			}
		}
		if !found {
			t.Errorf("no %s in the output", name)
		}
	}
	return res
}

// stateName maps our states to the cases' words.
func stateName(s string) string {
	switch s {
	case "invalid":
		return "FAIL"
	case "skipped":
		return "SKIP"
	case "na":
		return "N/A"
	case "error":
		return "NO-RESULT"
	}
	return strings.ToUpper(s)
}

// evaluation is the part of `evaluate --format json` the cases speak of.
type evaluation struct {
	Cells []struct {
		Key   string `json:"key"`
		State string `json:"state"`
	} `json:"cells"`
	Gates []struct {
		Cell   string `json:"cell"`
		Metric string `json:"metric"`
		State  string `json:"state"`
		Reason string `json:"reason"`
	} `json:"gates"`
	Checks []struct {
		Target string `json:"target"`
		Metric string `json:"metric"`
		State  string `json:"state"`
	} `json:"checks"`
	Problems []struct {
		Path string `json:"path"`
		Msg  string `json:"msg"`
	} `json:"problems"`
}

func runEvaluateCase(t *testing.T, c *acceptanceCase, dir string, inv caseInvocation) cvsResult {
	args := append(append([]string{"evaluate"}, inputArgs(t, dir, inv)...), "--results", dir, "--format", "json")
	res := cvsCommand(t, inv.Env, args...)
	if res.code > 1 && res.stdout == "" {
		return res
	}
	var out evaluation
	mustJSON(t, res.stdout, &out)
	if _, isVariant := c.Expect.Variants[filepath.Base(dir)]; !isVariant {
		checkEvaluation(t, c, out)
	}
	return res
}

func checkEvaluation(t *testing.T, c *acceptanceCase, out evaluation) {
	t.Helper()
	cells := map[string]string{}
	for _, x := range out.Cells {
		cells[x.Key] = stateName(x.State)
	}
	for key, want := range c.Expect.Cells {
		if cells[key] != want {
			t.Errorf("cell %s: %s, want %s", key, cells[key], want)
		}
	}
	for cell, gates := range c.Expect.Gates {
		seen := map[string]bool{}
		for _, g := range out.Gates {
			if g.Cell != cell {
				continue
			}
			seen[g.Metric] = true
			want := gates[g.Metric]
			if want == "" {
				want = "PASS"
			}
			if got := stateName(g.State); got != want {
				t.Errorf("gate %s %s: %s (%s), want %s", cell, g.Metric, got, g.Reason, want)
			}
		}
		for m := range gates {
			if !seen[m] {
				t.Errorf("gate %s %s: no row", cell, m)
			}
		}
	}
	for task, metrics := range c.Expect.Accuracy {
		for m, want := range metrics {
			got := ""
			for _, k := range out.Checks {
				if k.Target == task && k.Metric == m {
					got = stateName(k.State)
				}
			}
			if got != want {
				t.Errorf("accuracy %s %s: %q, want %s", task, m, got, want)
			}
		}
	}
	for _, o := range c.Expect.Orphans {
		found := false
		for _, p := range out.Problems {
			found = found || strings.HasSuffix(p.Path, o)
		}
		if !found {
			t.Errorf("orphan %s is not listed: %+v", o, out.Problems)
		}
	}
}

func runIngestCase(t *testing.T, c *acceptanceCase, dir string, inv caseInvocation) cvsResult {
	db := filepath.Join(t.TempDir(), "store.duckdb")
	src := dir
	if st, err := os.Stat(filepath.Join(dir, "runs")); err == nil && st.IsDir() {
		src = filepath.Join(dir, "runs")
	}
	res := cvsCommand(t, inv.Env, "load", "--warehouse", db, src)
	if res.code != 0 {
		return res
	}
	again := cvsCommand(t, inv.Env, "load", "--warehouse", db, src)
	if again.code != 0 {
		t.Errorf("loading again: exit %d\n%s", again.code, again.stderr)
	}
	if n, ok := c.Expect.Cells["count"]; ok {
		q := cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv", "SELECT count(*) AS n FROM cell_status")
		if got := strings.Fields(q.stdout); len(got) != 2 || got[1] != n {
			t.Errorf("cells: %q %s, want %s", q.stdout, q.stderr, n)
		}
	}
	if c.Expect.Runs != nil {
		q := cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv", "SELECT count(*) AS n FROM runs")
		if got := strings.Fields(q.stdout); len(got) != 2 || got[1] != fmt.Sprint(*c.Expect.Runs) {
			t.Errorf("runs: %q %s, want %d", q.stdout, q.stderr, *c.Expect.Runs)
		}
	}
	return res
}

func runRenderCase(t *testing.T, c *acceptanceCase, dir string, inv caseInvocation) cvsResult {
	out := filepath.Join(t.TempDir(), "deck.html")
	args := append(append([]string{"deck"}, inputArgs(t, dir, inv)...), "--results", dir, "-o", out)
	res := cvsCommand(t, inv.Env, args...)
	if res.code == 2 {
		return res
	}
	page, err := os.ReadFile(out)
	if err != nil {
		t.Errorf("no deck: %v\n%s", err, res.stderr)
		return res
	}
	if !bytes.HasSuffix(bytes.TrimSpace(page), []byte("</html>")) {
		t.Error("the deck is cut off")
	}
	for key := range c.Expect.Cells {
		if !bytes.Contains(page, []byte(key)) {
			t.Errorf("cell %s is not on the page", key)
		}
	}
	return res
}

// TestEvaluateSaysWarnings: what is odd about the files a folder is judged by
// stands beside the verdict, in words and in JSON.
func TestEvaluateSaysWarnings(t *testing.T) {
	t.Parallel()
	for id, wants := range map[string][]string{
		"c082-record-only-with-mismatches":  {"no spec for the gated metrics p99_ttft_ms", "not in this sweep and not used: ISL=1,OSL=1,TP=8,PP=1,CONC=1"},
		"c084-client-prefixed-metric-names": {"metric names with the prefix client. are deprecated"},
	} {
		dir := filepath.Join("testdata", "cases", id)
		args := append([]string{"evaluate", "--results", dir}, inputArgs(t, dir, caseInvocation{})...)
		text, report := cvsCommand(t, nil, args...), cvsCommand(t, nil, append(args, "--format", "json")...)
		var j struct {
			Problems []struct{ Severity, Code, Msg string } `json:"problems"`
		}
		mustJSON(t, report.stdout, &j)
		for _, want := range wants {
			said := false
			for _, p := range j.Problems {
				said = said || p.Severity == "warning" && p.Code == "plan" && strings.Contains(p.Msg, want)
			}
			if !said || !strings.Contains(text.stdout, want) {
				t.Errorf("%s: %q is not said:\n%s\n%s", id, want, text.stdout, report.stdout)
			}
		}
	}
}
