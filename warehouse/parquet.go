package warehouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	bignum "math/big" // HUGEINT, which sums of integers are
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	// Parquet in Go, because SQL has no access to files here.
	"github.com/parquet-go/parquet-go"
)

// ExportParquet writes every table of the warehouse into dir as Parquet and
// returns how many files there are: <table>/suite=<suite>/month=<YYYY-MM>/part-0.parquet
// for what belongs to a run, <table>/part-0.parquet for the rest; the views stand
// in views.sql. Files of an older export are replaced one by one.
func (w *DB) ExportParquet(ctx context.Context, dir string) (int, error) {
	if err := w.Measure(ctx); err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	tables, err := query(ctx, w.db, `SELECT t.table_name, bool_or(c.column_name = 'run_id') FROM duckdb_tables() t
		JOIN duckdb_columns() c ON c.database_name = t.database_name AND c.table_name = t.table_name
		WHERE NOT t.internal AND t.table_name <> 'warehouse_info' GROUP BY t.table_name ORDER BY t.table_name`,
		func(t *exported) []any { return []any{&t.name, &t.ofRun} })
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	parts, err := query(ctx, w.db, `SELECT DISTINCT coalesce(suite, 'none'), coalesce(strftime(started_at, '%Y-%m'), 'none') FROM run ORDER BY ALL`,
		func(p *partition) []any { return []any{&p.suite, &p.month} })
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	files := 0
	for _, t := range tables {
		if !t.ofRun {
			n, err := w.exportPart(ctx, filepath.Join(dir, t.name), fmt.Sprintf(`SELECT * FROM "%s"`, t.name))
			if err != nil {
				return files, fmt.Errorf("export %s: %w", t.name, err)
			}
			files += n
			continue
		}
		for _, p := range parts {
			sub := filepath.Join(dir, t.name, "suite="+url.QueryEscape(p.suite), "month="+p.month)
			n, err := w.exportPart(ctx, sub, fmt.Sprintf(`SELECT t.* FROM "%s" t JOIN run r ON r.run_id = t.run_id
				WHERE coalesce(r.suite, 'none') = ? AND coalesce(strftime(r.started_at, '%%Y-%%m'), 'none') = ?`, t.name), p.suite, p.month)
			if err != nil {
				return files, fmt.Errorf("export %s: %w", t.name, err)
			}
			files += n
		}
	}
	return files, writeViews(filepath.Join(dir, "views.sql"))
}

type (
	exported struct {
		name  string
		ofRun bool
	}
	partition struct{ suite, month string }
)

// exportPart writes the rows of one question as one file; none, if there are
// none.
func (w *DB) exportPart(ctx context.Context, dir, text string, args ...any) (int, error) {
	rows, err := w.db.QueryContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if !rows.Next() {
		return 0, rows.Err()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	tmp, err := os.CreateTemp(dir, ".part-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(tmp.Name()) // after the rename there is nothing to remove
	p, err := newParquet(tmp, rows)
	if err != nil {
		return 0, errors.Join(err, tmp.Close())
	}
	for more := true; more; more = rows.Next() {
		if err := p.row(rows.Scan); err != nil {
			return 0, errors.Join(err, tmp.Close())
		}
	}
	if err := errors.Join(rows.Err(), p.close(), tmp.Sync(), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return 0, err
	}
	return 1, os.Rename(tmp.Name(), filepath.Join(dir, "part-0.parquet"))
}

// WriteParquet writes the answer to a question as one Parquet file.
func WriteParquet(out io.Writer, r *Rows) error {
	p, err := newParquet(out, r.rows)
	if err != nil {
		return err
	}
	for r.Next() {
		if err := p.row(r.rows.Scan); err != nil {
			return err
		}
	}
	return errors.Join(r.Err(), p.close())
}

// A parquetWriter writes rows of an SQL answer; every column is optional.
type parquetWriter struct {
	w     *parquet.GenericWriter[any]
	kinds []string // DuckDB's types
	place []int    // of each column in the file, where they are sorted by name
	buf   parquet.Row
}

func newParquet(out io.Writer, rows *sql.Rows) (*parquetWriter, error) {
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	group := parquet.Group{}
	p := &parquetWriter{}
	var names []string
	for i, t := range types {
		name, kind := t.Name(), t.DatabaseTypeName()
		for group[name] != nil { // two columns of one name in somebody's own question
			name += "_" + fmt.Sprint(i+1)
		}
		names, p.kinds = append(names, name), append(p.kinds, kind)
		group[name] = parquet.Optional(node(kind))
	}
	sorted := append([]string(nil), names...)
	sort.Strings(sorted)
	for _, n := range names {
		p.place = append(p.place, sort.SearchStrings(sorted, n))
	}
	p.buf = make(parquet.Row, len(names))
	p.w = parquet.NewGenericWriter[any](out, parquet.NewSchema("cvs", group), parquet.Compression(&parquet.Zstd))
	return p, nil
}

func node(kind string) parquet.Node {
	switch kind {
	case "BOOLEAN":
		return parquet.Leaf(parquet.BooleanType)
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER":
		return parquet.Int(64)
	case "FLOAT", "DOUBLE":
		return parquet.Leaf(parquet.DoubleType)
	case "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ":
		return parquet.Timestamp(parquet.Microsecond)
	}
	return parquet.String() // anything else as text
}

func (p *parquetWriter) row(scan func(...any) error) error {
	values := make([]any, len(p.kinds))
	dest := make([]any, len(values))
	for i := range values {
		dest[i] = &values[i]
	}
	if err := scan(dest...); err != nil {
		return err
	}
	for i, v := range values {
		at := p.place[i]
		p.buf[at] = parquetValue(p.kinds[i], v)
		if v == nil {
			p.buf[at] = p.buf[at].Level(0, 0, at)
		} else {
			p.buf[at] = p.buf[at].Level(0, 1, at)
		}
	}
	_, err := p.w.WriteRows([]parquet.Row{p.buf})
	return err
}

func parquetValue(kind string, v any) parquet.Value {
	switch x := v.(type) {
	case nil:
		return parquet.NullValue()
	case bool:
		return parquet.BooleanValue(x)
	case int8:
		return parquet.Int64Value(int64(x))
	case int16:
		return parquet.Int64Value(int64(x))
	case int32:
		return parquet.Int64Value(int64(x))
	case int64:
		return parquet.Int64Value(x)
	case uint8:
		return parquet.Int64Value(int64(x))
	case uint16:
		return parquet.Int64Value(int64(x))
	case uint32:
		return parquet.Int64Value(int64(x))
	case float32:
		return parquet.DoubleValue(float64(x))
	case float64:
		return parquet.DoubleValue(x)
	case time.Time:
		if strings.HasPrefix(kind, "TIMESTAMP") {
			return parquet.Int64Value(x.UnixMicro())
		}
		return parquet.ByteArrayValue([]byte(x.Format(time.RFC3339Nano)))
	case string:
		return parquet.ByteArrayValue([]byte(x))
	case []byte:
		return parquet.ByteArrayValue(x)
	case []any: // as DuckDB writes lists, so that a cast reads it back
		items := make([]string, len(x))
		for i, item := range x {
			items[i] = "NULL"
			if item != nil {
				items[i] = fmt.Sprint(item)
			}
		}
		return parquet.ByteArrayValue([]byte("[" + strings.Join(items, ", ") + "]"))
	case *bignum.Int:
		return parquet.ByteArrayValue([]byte(x.String()))
	}
	return parquet.ByteArrayValue([]byte(fmt.Sprint(v)))
}

func (p *parquetWriter) close() error { return p.w.Close() }

// writeViews puts the view definitions beside the data they read.
func writeViews(path string) error {
	names, err := fs.Glob(files, "sql/views/*.sql")
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("-- The views over these tables. Make a view of each table first, for example\n-- CREATE VIEW run AS SELECT * FROM read_parquet('run/**/*.parquet', hive_partitioning = false);\n\n")
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
