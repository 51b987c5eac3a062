package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chzyer/readline"

	"cvs/warehouse"
)

// historyStore loads a real published history.
func historyStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"atom_ci_perf.csv", "atom_ci_accuracy.csv"} {
		f, err := os.Open(filepath.Join("..", "..", "warehouse", "testdata", "history", name+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	db := filepath.Join(t.TempDir(), "h.duckdb")
	if res := compareCommand(t, nil, "load", "--warehouse", db, dir); res.code != 0 {
		t.Fatalf("load: exit %d: %s", res.code, res.stderr)
	}
	return db
}

// TestHistoryCommands walks the commands about many runs on a real history.
func TestHistoryCommands(t *testing.T) {
	t.Parallel()
	db := historyStore(t)
	do := func(args ...string) string {
		t.Helper()
		res := compareCommand(t, nil, append(args, "--warehouse", db)...)
		if res.code != 0 {
			t.Fatalf("%v: exit %d: %s", args, res.code, res.stderr)
		}
		return res.stdout
	}
	var events []shiftEvent
	if err := json.Unmarshal([]byte(do("regressions", "--format", "json")), &events); err != nil || len(events) == 0 {
		t.Fatalf("%d regressions: %v", len(events), err)
	}
	for _, x := range events {
		if !x.Worse || x.LastRun == "" || x.FirstRun == x.LastRun || len(x.Shifts) == 0 || x.CellsMoved == 0 || x.CellsMoved > x.CellsMeasured {
			t.Errorf("event %+v", x)
		}
		for _, s := range x.Shifts {
			if s.BetterPct >= 0 || s.PValue > 0.1 || s.ConfidencePct != 100*(1-s.PValue) || s.Method == "" {
				t.Errorf("shift %+v of %s", s, x.Series)
			}
		}
	}
	table := do("regressions")
	for _, want := range []string{"first bad run: ", "last good run: ", "changed then: version: ", "output_throughput (+3 alike)", "no shift back since", "good again in 1 of 2 lines"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	if all := do("regressions", "--improvements"); !strings.Contains(all, "better since") {
		t.Errorf("no improvement in\n%s", all)
	}
	if out := do("regressions", "--since", "2027-01-01"); !strings.Contains(out, "no lasting shift") {
		t.Errorf("regressions of the future:\n%s", out)
	}
	if res := compareCommand(t, nil, "regressions", "--fail-on-regression", "--warehouse", db); res.code != 1 {
		t.Errorf("--fail-on-regression: exit %d", res.code)
	}
	var points []historyPoint
	if err := json.Unmarshal([]byte(do("history", "CONC=128", "output_throughput", "--model", "gpt-oss-120b", "--format", "json")), &points); err != nil || len(points) < 20 {
		t.Fatalf("%d points: %v", len(points), err)
	}
	for i, p := range points[1:] {
		if p.Series == points[i].Series && p.Cell == points[i].Cell && p.StartedAt < points[i].StartedAt {
			t.Errorf("%s comes after %s", p.RunID, points[i].RunID)
		}
	}
	if res := compareCommand(t, nil, "history", "CONC=128", "output_throughputs", "--warehouse", db); res.code != 2 || !strings.Contains(res.stderr, "output_throughput?") {
		t.Errorf("a misspelt metric: exit %d, %s", res.code, res.stderr)
	}
	last := points[len(points)-1]
	out := do("explain", last.RunID, last.Cell, "output_throughput")
	for _, want := range []string{"sha256", "/output_tput", "before", "FROM metrics WHERE"} {
		if !strings.Contains(out, want) {
			t.Errorf("explain lacks %q:\n%s", want, out)
		}
	}
	if out := do("explain", last.RunID, last.Cell, "output_tput_per_gpu"); !strings.Contains(out, "formula") || !strings.Contains(out, "/output_tput") {
		t.Errorf("explain of a derived metric:\n%s", out)
	}
	// what is not there is said with what is
	for _, x := range []struct {
		want int
		line string
		args []string
	}{
		{2, ", did you mean output_throughput?", []string{"explain", last.RunID, last.Cell, "output_throughputs"}},
		{2, "; cells there are: ISL=", []string{"explain", last.RunID, "nowhere", "output_throughput"}},
		{3, "; cells there are: ISL=", []string{"history", "CONC=100000", "output_throughput"}},
		{3, "in a series like nobody; series there are: ", []string{"history", "CONC=128", "output_throughput", "--model", "nobody"}},
		{3, "; series there are: ", []string{"thresholds", "suggest", "--series", "nobody"}},
		{2, "for one series", []string{"thresholds", "suggest", "--format", "json"}},
	} {
		if res := compareCommand(t, nil, append(x.args, "--warehouse", db)...); res.code != x.want || !strings.Contains(res.stderr, x.line) {
			t.Errorf("%v: exit %d, %s; want %d, %q", x.args, res.code, res.stderr, x.want, x.line)
		}
	}
	if res := compareCommand(t, nil, "history", "CONC=1", "output_throughput", "--warehouse", filepath.Join(t.TempDir(), "none.duckdb")); res.code != 5 || !strings.Contains(res.stderr, "cvs load") {
		t.Errorf("no warehouse: exit %d, %s", res.code, res.stderr)
	}
	do("baseline", "pin", last.RunID, "--note", "release 1", "--workspace", t.TempDir())
	if out := do("baseline", "list"); !strings.Contains(out, "release 1") || !strings.Contains(out, last.RunID) {
		t.Errorf("pins:\n%s", out)
	}
	var cmp comparison
	if err := json.Unmarshal([]byte(do("compare", points[len(points)-2].RunID, "--format", "json")), &cmp); err != nil || len(cmp.Golden) == 0 || len(cmp.Judgement) == 0 {
		t.Errorf("compare: %d golden, %d judged (%v)", len(cmp.Golden), len(cmp.Judgement), err)
	}
	file := filepath.Join(t.TempDir(), "t_threshold.json")
	text := do("thresholds", "suggest", "--series", last.Series, "--format", "json")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := do("thresholds", "backtest", file); !strings.Contains(out, "would have failed") || !strings.Contains(out, " runs") {
		t.Errorf("backtest:\n%s", out)
	}
	backtest(t, db, last.Series, last.RunID, last.Cell)
	dir := t.TempDir()
	do("warehouse", "snapshot", "--to", filepath.Join(dir, "snap"))
	if out := do("warehouse", "export", "--parquet", filepath.Join(dir, "pq")); !strings.Contains(out, "files in") {
		t.Errorf("export: %s", out)
	}
	res := compareCommand(t, nil, "sql", "--warehouse", filepath.Join(dir, "snap", "latest.duckdb"), "--format", "csv", "SELECT count(*) AS n FROM history WHERE metric = 'output_throughput'")
	if strings.TrimSpace(res.stdout) != "n\n5004" {
		t.Errorf("snapshot: %q %s", res.stdout, res.stderr)
	}
}

// TestSQLSaved: saved queries with parameters, paging and the other formats.
func TestSQLSaved(t *testing.T) {
	t.Parallel()
	db := storeOf(t, caseDir(t, "c202-previous-run-was-broken"))
	do := func(want int, args ...string) cvsResult {
		t.Helper()
		res := compareCommand(t, nil, append([]string{"sql", "--warehouse", db}, args...)...)
		if res.code != want {
			t.Fatalf("%v: exit %d: %s", args, res.code, res.stderr)
		}
		return res
	}
	if out := do(0, "--list").stdout; !strings.Contains(out, "@key_census") {
		t.Errorf("list:\n%s", out)
	}
	if out := do(0, "EXPLAIN SELECT run_id FROM run", "--limit", "1").stdout; strings.Count(out, "\n") < 5 || strings.Contains(out, `\n`) {
		t.Errorf("a plan: %s", out)
	}
	if res := do(2, "SELECT $mine AS a"); !strings.Contains(res.stderr, "--param mine=") {
		t.Errorf("no parameter at all: %s", res.stderr)
	}
	if res := do(2, "@failed_gates"); !strings.Contains(res.stderr, "--param run") {
		t.Errorf("a parameter left out: %s", res.stderr)
	}
	if res := do(2, "@changes"); !strings.Contains(res.stderr, "--param before=… and --param after=…") {
		t.Errorf("two parameters left out: %s", res.stderr)
	}
	if res := do(2, "@failed_gates", "--param", "run=god"); !strings.Contains(res.stderr, "did you mean good?") {
		t.Errorf("a run that is not there must not be a run without failed gates: %s", res.stderr)
	}
	if out := do(0, "@slowest_cells", "--param", "run=latest").stdout; !strings.Contains(out, "(1 row)") {
		t.Errorf("the latest run: %s", out)
	}
	do(2, "@failed_gate")
	do(2, "@key_census", "--param", "run=x")
	if out := do(0, "@slowest_cells", "--param", "run=good", "--format", "csv").stdout; !strings.Contains(out, "mean_ttft_ms") {
		t.Errorf("slowest_cells: %s", out)
	}
	if out := do(0, "SELECT run_id FROM run ORDER BY run_id", "--limit", "1", "--offset", "1", "--format", "markdown").stdout; !strings.Contains(out, "| current |") {
		t.Errorf("paging: %s", out)
	}
	if out := do(0, "--schema", "slo").stdout; !strings.HasPrefix(out, "table macro slo(this_run, want): ") || strings.Contains(out, "view gates") {
		t.Errorf("the schema of one macro: %s", out)
	}
	if out := do(0, "--schema", "Measurement").stdout; !strings.HasPrefix(out, "table measurement: ") {
		t.Errorf("the schema of one table: %s", out)
	}
	if res := do(2, "--schema", "gate"); !strings.Contains(res.stderr, "did you mean gates?") {
		t.Errorf("the schema of nothing: %s", res.stderr)
	}
	if out := do(0, "SELECT 1 AS a", "--format", "parquet").stdout; !strings.HasPrefix(out, "PAR1") {
		t.Errorf("parquet: %q", out)
	}
}

// TestPromptWords: what the prompt completes, wherever the word stands.
func TestPromptWords(t *testing.T) {
	t.Parallel()
	db, err := warehouse.Open(t.Context(), "", warehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	words, err := promptWords(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	complete := lastWord{readline.NewPrefixCompleter(words...)}
	for line, want := range map[string]string{
		"SELECT * FROM gat":           "es",      // a view
		"SELECT margin_p":             "ct",      // a column
		"FROM signoff_st":             "anding(", // a macro
		"@key_c":                      "ensus",   // a saved query
		"SELECT run_id FROM unmeasur": "ed",      // a table
		"SELECT better_p":             "ct",      // a column that is a macro too
	} {
		found, n := complete.Do([]rune(line), len(line))
		var rest []string
		for _, f := range found {
			rest = append(rest, strings.TrimSpace(string(f)))
		}
		if n == 0 || !slices.Contains(rest, want) {
			t.Errorf("%q completes to %q, want %q among them", line, rest, want)
		}
	}
}

// backtest holds that the runs of a series are counted as wholes, and that a spec
// which cannot be read is an error instead of a bound that nothing breaks.
func backtest(t *testing.T, db, series, run, cell string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b_threshold.json")
	try := func(specs string) cvsResult {
		if err := os.WriteFile(file, []byte(`{"`+cell+`": {`+specs+`}}`), 0o644); err != nil {
			t.Fatal(err)
		}
		return compareCommand(t, nil, "thresholds", "backtest", file, "--series", series, "--warehouse", db)
	}
	runs := regexp.MustCompile(`would have failed (\d+) of (\d+) runs`)
	for specs, all := range map[string]bool{
		`"output_throughput": {"kind": "min", "value": "1e9"}, "mean_ttft_ms": {"kind": "max", "value": 1e9}`:     true,
		`"output_throughput": {"kind": "min_tok_s", "value": 0}, "mean_ttft_ms": {"kind": "info"}, "_note": "no"`: false,
	} {
		res := try(specs)
		m := runs.FindStringSubmatch(res.stdout)
		if m == nil || m[2] == "0" || (m[1] == m[2]) != all || (m[1] == "0") == all || strings.Contains(res.stdout, "the last of them "+run) != all || strings.Count(res.stdout, "would have failed") != 2 {
			t.Errorf("%s: exit %d\n%s%s", specs, res.code, res.stdout, res.stderr)
		}
	}
	res := try(`"a": {"kind": "mini", "value": 1}, "b": {"kind": "min", "value": "x"}, "c": {"kind": "within", "value": 1}`)
	if res.code != 2 || !strings.Contains(res.stderr, `unknown kind "mini"`) || !strings.Contains(res.stderr, ".b: value is missing") || !strings.Contains(res.stderr, ".c: tolerance_pct") {
		t.Errorf("unreadable specs: exit %d\n%s", res.code, res.stderr)
	}
	if res := compareCommand(t, nil, "thresholds", "backtest", file, "--series", "nobody", "--warehouse", db); res.code != 2 {
		t.Errorf("exit %d: %s", res.code, res.stderr)
	}
}
