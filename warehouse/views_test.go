package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

func memory(t *testing.T) *DB {
	t.Helper()
	w, err := Open(t.Context(), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// golden compares got with a file and rewrites it with UPDATE=1.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got, UPDATE=1 rewrites it):\n%s", file, d)
	}
}

// TestViews runs testdata/views: rows in, a question, the expected table. A
// performance engineer can write one.
func TestViews(t *testing.T) {
	t.Parallel()
	prelude, err := os.ReadFile("testdata/views/prelude.sql")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/views/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no view tests: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := make(map[string]string)
			for _, f := range ar.Files {
				parts[f.Name] = string(f.Data)
			}
			w := memory(t)
			conn, err := w.db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, text := range []string{string(prelude), parts["load.sql"]} {
				if _, err := conn.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(w.late(t.Context()), measureAll(t.Context(), conn)); err != nil {
				t.Fatal(err)
			}
			got := table(t, w, parts["query.sql"])
			if os.Getenv("UPDATE") == "1" {
				for i := range ar.Files {
					if ar.Files[i].Name == "want" {
						ar.Files[i].Data = []byte(got)
					}
				}
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(parts["want"], got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// table prints an answer with two spaces between columns.
func table(t *testing.T, w *DB, text string) string {
	t.Helper()
	rows, err := w.Ask(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lines [][]string
	var head []string
	for _, c := range rows.Columns {
		head = append(head, c.Name)
	}
	lines = append(lines, head)
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		var line []string
		for _, v := range values {
			if v == nil {
				v = "-"
			}
			line = append(line, fmt.Sprint(v))
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	width := make([]int, len(head))
	for _, line := range lines {
		for i, s := range line {
			width[i] = max(width[i], len([]rune(s)))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		out := ""
		for i, s := range line {
			out += s + strings.Repeat(" ", width[i]-len([]rune(s))+2)
		}
		b.WriteString(strings.TrimRight(out, " ") + "\n")
	}
	return b.String()
}

var creates = regexp.MustCompile(`(?m)^CREATE OR REPLACE (?:VIEW|MACRO) (\w+)`)

// TestViewFiles holds the form of the files: one object each, named as the file,
// with the header that says what a row is.
func TestViewFiles(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(files, "sql/views/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, object, _ := strings.Cut(strings.TrimSuffix(path.Base(name), ".sql"), "_")
		if object == "tables" {
			continue // remarks on tables, which sql/schema creates
		}
		made := creates.FindAllStringSubmatch(string(text), -1)
		if len(made) != 1 || made[0][1] != object {
			t.Errorf("%s creates %v, want exactly %s", name, made, object)
		}
		for _, line := range []string{"-- " + object + ": ", "-- grain: ", "-- reads: ", "-- unit: "} {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s: the header lacks %q", name, line)
			}
		}
	}
}

// TestColumns guards the contract: a changed column shows in review, and none is
// without a comment.
func TestColumns(t *testing.T) {
	t.Parallel()
	w := memory(t)
	columns, err := w.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range columns {
		if !c.IsView {
			if c.RelationComment == "" {
				t.Errorf("table %s has no comment", c.Relation)
			}
			continue
		}
		fmt.Fprintf(&b, "%s.%s %s\n", c.Relation, c.Name, c.Type)
		if c.Comment == "" || c.RelationComment == "" {
			t.Errorf("%s.%s has no comment", c.Relation, c.Name)
		}
	}
	macros, err := w.Macros(t.Context())
	if err != nil || len(macros) == 0 {
		t.Fatalf("%d macros: %v", len(macros), err)
	}
	for _, m := range macros {
		// a macro's parameters cannot have comments of their own
		for _, p := range m.Params {
			if !regexp.MustCompile(`\b` + p + `\b`).MatchString(m.Comment) {
				t.Errorf("macro %s: parameter %s is not explained in %q", m.Name, p, m.Comment)
			}
		}
		fmt.Fprintf(&b, "%s\n", m.Signature())
		for _, c := range m.Columns {
			fmt.Fprintf(&b, "%s().%s %s\n", m.Name, c.Name, c.Type)
		}
	}
	golden(t, "testdata/columns.golden", b.String())
	text, err := w.SchemaText(t.Context(), "")
	if err != nil || !strings.Contains(text, "view gates: Did each threshold hold?") {
		t.Errorf("schema text lacks the gates view: %v\n%s", err, text)
	}
}

// TestStaleViews: a view that no file defines any more must go.
func TestStaleViews(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w.duckdb")
	ctx := context.Background()
	w, err := Open(ctx, file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.ExecContext(ctx, "CREATE VIEW old_view AS SELECT 1 AS x; UPDATE warehouse_info SET view_digest = 'other'"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// a reader lays the views of its own version over it
	ro, err := Open(ctx, file, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := table(t, ro, "SELECT count(*) AS n FROM gates"); got != "n\n0\n" {
		t.Errorf("views over the file: %s", got)
	}
	if err := ro.Close(); err != nil {
		t.Fatal(err)
	}
	w, err = Open(ctx, file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got := table(t, w, "SELECT count(*) AS n FROM duckdb_views() WHERE view_name = 'old_view'"); got != "n\n0\n" {
		t.Errorf("old_view is still there: %s", got)
	}
}
