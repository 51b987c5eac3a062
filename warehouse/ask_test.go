package warehouse_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cvs/warehouse"
)

func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "w.duckdb")
	w, err := warehouse.Open(t.Context(), file, warehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	load(t, w, sampleRun("r1", resultJSON(2048)))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	ro, err := warehouse.Open(t.Context(), file, warehouse.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if id, err := ro.Latest(t.Context()); err != nil || id != "r1" {
		t.Errorf("latest is %q: %v", id, err)
	}
	if _, err := ro.Load(t.Context(), sampleRun("r2", resultJSON(1))); err == nil {
		t.Error("loading into a read-only warehouse must fail")
	}
	if _, err := ro.Run(t.Context(), "nobody"); !errors.Is(err, warehouse.ErrNoRun) {
		t.Errorf("unknown run: %v", err)
	}
	if _, err := warehouse.Open(t.Context(), filepath.Join(dir, "none"), warehouse.Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	load(t, w, sampleRun("r1", resultJSON(2048)))
	for _, text := range []string{
		"DROP TABLE run", "DELETE FROM run", "INSERT INTO run SELECT * FROM run", "UPDATE run SET model = 'x'", "SELECT 1; DROP TABLE run",
		"COMMIT; DELETE FROM run", "SELECT * FROM read_text('/etc/hostname')", "SELECT * FROM glob('/etc/*')", "COPY run TO '/tmp/x.csv'",
		"ATTACH '/tmp/other.duckdb'", "INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true", "PRAGMA enable_profiling",
		"SELECT * FROM 'https://example.org/x.csv'", "EXPORT DATABASE '/tmp/x'", "CREATE TABLE t (x INT)", "", "SELEC 1", "EXPLAIN DROP TABLE run",
		"SELECT * FROM sniff_csv('/etc/passwd')", "SELECT * FROM read_blob('/etc/hostname')", "FROM '/etc/passwd'", "FROM query('DROP TABLE run')",
		"FROM query('FROM read_text(''/etc/hostname'')')", "FROM duckdb_secrets()", "CALL pragma_version()", "USE memory", "CHECKPOINT", "SELECT getenv('HOME')",
		"CREATE TEMP TABLE t AS SELECT 1", "SET VARIABLE a = 1", "EXPLAIN ANALYZE COPY run TO '/tmp/x.csv'", "SELECT 1; SELECT 2",
	} {
		rows, err := w.Ask(t.Context(), text)
		var ask *warehouse.AskError
		if !errors.As(err, &ask) {
			t.Errorf("%q: %v, want an AskError", text, err)
		}
		if rows != nil {
			rows.Close()
		}
	}
	for _, text := range []string{"SELECT run_id FROM runs", "DESCRIBE gates", "SHOW TABLES", "SUMMARIZE run", "EXPLAIN SELECT 1", "FROM cells", "VALUES (1)"} {
		if got := values(t, w, text); len(got) == 0 {
			t.Errorf("%q gives nothing", text)
		}
	}
	if got := values(t, w, "SELECT run_id FROM run WHERE model = ?", "org/M"); !slices.Equal(got, []string{"r1"}) {
		t.Errorf("with a parameter: %v", got)
	}
}

// TestAskSyntax wants the place of a mistake, in the line that the user wrote.
func TestAskSyntax(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	long := "SELECT " + strings.Repeat("a, ", 40) + "a FROM x WHERE )"
	for text, want := range map[string]string{
		"SELCT 1":                             "LINE 1: SELCT 1\n        ^",
		"SELECT 1 +\nFROM run\nWHERE x =":     "LINE 2: FROM run\n        ^",
		"SELECT 1 +\n\t2 )":                   "LINE 2: \t2 )\n        \t  ^",
		"EXPLAIN ANALYZE SELECT )":            "LINE 1: EXPLAIN ANALYZE SELECT )\n                               ^",
		"SELECT 'éé', \"日本\" )":               "LINE 1: SELECT 'éé', \"日本\" )\n                          ^",
		"SELECT (":                            "LINE 1: SELECT (\n                ^",
		long:                                  "LINE 1: " + long[len(long)-61:] + "\n" + strings.Repeat(" ", 8+60) + "^",
		"SELECT ) " + strings.Repeat("x", 99): "LINE 1: SELECT ) " + strings.Repeat("x", 58) + "\n               ^",
	} {
		_, err := w.Ask(t.Context(), text)
		if err == nil || !strings.HasSuffix(err.Error(), "\n\n"+want) {
			t.Errorf("%q: %v\nwant it to end in\n%s", text, err, want)
		}
	}
}
