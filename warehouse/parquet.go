package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// viewsFile defines tables and views over an export.
const viewsFile = "views.sql"

// An exported is a table as it is exported.
type exported struct {
	name  string
	ofRun bool
	rows  string // the SELECT list that gives its columns their types again
	empty string // the same without a file to read
	parts []string
}

type partition struct{ suite, month string }

// ExportParquet writes every table of the warehouse into dir as Parquet and
// returns how many files there are: <table>/suite=<suite>/month=<YYYY-MM>/part-0.parquet
// for what belongs to a run, <table>/part-0.parquet for the rest. views.sql makes
// them and all views of this version in any DuckDB. Files of an older export are
// replaced one by one; those that have no rows any more are removed.
func (w *DB) ExportParquet(ctx context.Context, dir string) (int, error) {
	if err := errors.Join(w.Measure(ctx), w.late(ctx)); err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	tables, err := w.exportedTables(ctx)
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	parts, err := query(ctx, w.db, `SELECT DISTINCT coalesce(suite, 'none'), coalesce(strftime(started_at, '%Y-%m'), 'none') FROM run ORDER BY ALL`,
		func(p *partition) []any { return []any{&p.suite, &p.month} })
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	files := 0
	for i := range tables {
		t := &tables[i]
		if err := w.exportTable(ctx, dir, t, parts); err != nil {
			return files, fmt.Errorf("export %s: %w", t.name, err)
		}
		files += len(t.parts)
		if err := removeOthers(dir, t); err != nil {
			return files, fmt.Errorf("export %s: %w", t.name, err)
		}
	}
	if err := writeViews(filepath.Join(dir, viewsFile), tables); err != nil {
		return files, fmt.Errorf("export: %w", err)
	}
	return files, nil
}

// exportedTables are the tables of this version; in a database that reads a file
// of another version some of them are views over its tables.
func (w *DB) exportedTables(ctx context.Context) ([]exported, error) {
	views, err := viewObjects()
	if err != nil {
		return nil, err
	}
	marks, args := placeholders(views)
	return query(ctx, w.db, `SELECT table_name, bool_or(column_name = 'run_id'),
			string_agg('"' || column_name || '"::' || data_type || ' AS "' || column_name || '"', ', ' ORDER BY column_index),
			string_agg('NULL::' || data_type || ' AS "' || column_name || '"', ', ' ORDER BY column_index)
		FROM duckdb_columns() WHERE NOT internal AND database_name = current_database() AND table_name <> 'warehouse_info' AND table_name NOT IN (`+marks+`)
		GROUP BY table_name ORDER BY table_name`,
		func(t *exported) []any { return []any{&t.name, &t.ofRun, &t.rows, &t.empty} }, args...)
}

// viewObjects are the names of views and macros, which their files have.
func viewObjects() ([]string, error) {
	names, err := fs.Glob(files, "sql/views/*.sql")
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		_, names[i], _ = strings.Cut(strings.TrimSuffix(path.Base(name), ".sql"), "_")
	}
	return names, nil
}

func (w *DB) exportTable(ctx context.Context, dir string, t *exported, parts []partition) error {
	part := func(sub, text string, args ...any) error {
		name := path.Join(t.name, sub, "part-0.parquet")
		some, err := w.exportPart(ctx, filepath.Join(dir, filepath.FromSlash(name)), text, args...)
		if some {
			t.parts = append(t.parts, name)
		}
		return err
	}
	if !t.ofRun {
		return part("", fmt.Sprintf(`SELECT * FROM "%s"`, t.name))
	}
	for _, p := range parts {
		if err := part("suite="+url.PathEscape(p.suite)+"/month="+p.month, fmt.Sprintf(`SELECT t.* FROM "%s" t JOIN run r ON r.run_id = t.run_id
			WHERE coalesce(r.suite, 'none') = ? AND coalesce(strftime(r.started_at, '%%Y-%%m'), 'none') = ?`, t.name), p.suite, p.month); err != nil {
			return err
		}
	}
	return nil
}

// exportPart writes the rows of one question as one file; none, if there are
// none.
func (w *DB) exportPart(ctx context.Context, file, text string, args ...any) (some bool, err error) {
	rows, err := w.db.QueryContext(ctx, text, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return false, rows.Err()
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	tmp, err := os.CreateTemp(dir, ".part-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp.Name()) // after the rename there is nothing to remove
	p, err := newParquet(tmp, rows)
	if err != nil {
		return false, errors.Join(err, tmp.Close())
	}
	for more := true; more; more = rows.Next() {
		if err := p.row(rows.Scan); err != nil {
			return false, errors.Join(err, tmp.Close())
		}
	}
	if err := errors.Join(rows.Err(), p.close(), tmp.Sync(), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return false, err
	}
	return true, os.Rename(tmp.Name(), file)
}

// removeOthers removes files of an older export that this one did not write: the
// definitions would read them.
func removeOthers(dir string, t *exported) error {
	written := make(map[string]bool)
	for _, name := range t.parts {
		written[name] = true
	}
	root := os.DirFS(dir)
	for _, pattern := range []string{t.name + "/part-0.parquet", t.name + "/suite=*/month=*/part-0.parquet"} {
		have, err := fs.Glob(root, pattern)
		if err != nil {
			return err
		}
		for _, name := range have {
			if !written[name] {
				if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// writeViews puts the definitions of tables and views beside the data they read.
func writeViews(file string, tables []exported) error {
	var b strings.Builder
	b.WriteString(`-- The tables of this folder and the views over them, for any DuckDB. Run it in
-- this folder, or say first where it is: SET file_search_path = '…';

`)
	for _, t := range tables {
		fmt.Fprintf(&b, "CREATE OR REPLACE VIEW \"%s\" AS SELECT ", t.name)
		switch {
		case len(t.parts) == 0:
			fmt.Fprintf(&b, "%s WHERE false;\n", t.empty)
		case t.ofRun:
			fmt.Fprintf(&b, "%s FROM read_parquet('%s/*/*/part-0.parquet', hive_partitioning = false);\n", t.rows, t.name)
		default:
			fmt.Fprintf(&b, "%s FROM read_parquet('%s/part-0.parquet');\n", t.rows, t.name)
		}
	}
	names, err := fs.Glob(files, "sql/views/*.sql")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		// what is a table in the warehouse is a view here
		b.WriteString("\n" + strings.ReplaceAll(string(text), "COMMENT ON TABLE ", "COMMENT ON VIEW "))
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
