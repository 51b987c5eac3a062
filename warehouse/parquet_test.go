package warehouse_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	// Apache Arrow's own Parquet reader, a second implementation.
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/google/go-cmp/cmp"

	_ "github.com/duckdb/duckdb-go/v2" // a DuckDB that knows nothing of cvs

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// everything is a warehouse with something in nearly every table: runs that pass,
// fail and are waived, checks, real result files of every client, a pin.
func everything(t *testing.T) *warehouse.DB {
	t.Helper()
	w := open(t, "")
	odd := at("odd suite", 9, 2000, nil)
	odd.Meta.Suite, odd.Meta.StartedAt = "nightly/50 %", nil
	runs := []*artifact.Run{checksRun(t), odd, at("sg", 3, 1900, driver("sglang"))}
	for i, v := range []float64{2048, 2049, 2047, 2050, 2046, 1400, 2051} {
		runs = append(runs, at(fmt.Sprintf("r%d", i), 24*i, v, nil))
	}
	files, err := filepath.Glob("ingest/testdata/files/*")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d result files: %v", len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := warehouse.Loose(f, data); err == nil { // some are refused on purpose
			runs = append(runs, found...)
		}
	}
	load(t, w, runs...)
	if err := w.Pin(t.Context(), warehouse.BaselineRow{Name: "golden", RunID: "r0", PinnedAt: *runs[3].Meta.StartedAt}); err != nil {
		t.Fatal(err)
	}
	return w
}

// relations lists tables and views with their columns, the digest of a file apart.
func relations(t *testing.T, w *warehouse.DB) map[string][]string {
	t.Helper()
	columns, err := w.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, c := range columns {
		out[c.Relation] = append(out[c.Relation], c.Name+" "+c.Type)
	}
	return out
}

// TestExportedViews: an export stands on its own. A stock DuckDB makes its tables
// and views from views.sql and answers every question as the warehouse does.
func TestExportedViews(t *testing.T) {
	t.Parallel()
	w, dir := everything(t), t.TempDir()
	if n, err := w.ExportParquet(t.Context(), dir); err != nil || n < 20 {
		t.Fatalf("%d files: %v", n, err)
	}
	stock := stockDuckDB(t, dir)
	full := 0
	for name, columns := range relations(t, w) {
		rows, err := w.Ask(t.Context(), `SELECT * FROM "`+name+`" ORDER BY ALL`)
		if err != nil {
			t.Fatal(err)
		}
		want := rowsText(t, rows)
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		got := askStock(t, stock, `SELECT * FROM "`+name+`" ORDER BY ALL`)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-warehouse +export):\n%.2000s", name, d)
		}
		if types := askStock(t, stock, "SELECT column_name || ' ' || column_type FROM (DESCRIBE \""+name+"\")"); cmp.Diff(columns, types) != "" {
			t.Errorf("%s has other columns: %s", name, cmp.Diff(columns, types))
		}
		if len(got) > 0 {
			full++
		}
	}
	for _, name := range []string{"gates", "run_status", "measured", "measurement", "prev_run", "golden", "check_gates", "history", "noise", "regressions", "accuracy", "raw_value", "data_quality"} {
		if n := askStock(t, stock, "SELECT count(*) FROM "+name); n[0] == "0" {
			t.Errorf("%s is empty: nothing was compared", name)
		}
	}
	if got := askStock(t, stock, "SELECT field FROM what_changed('r0', 'sg')"); len(got) == 0 {
		t.Error("the macros are not there")
	}
	t.Logf("%d relations with rows", full)

	// a run that is gone, as after a rebuild from other folders, is gone here too
	fewer := open(t, "")
	load(t, fewer, sampleRun("r0", resultJSON(2048)))
	if _, err := fewer.ExportParquet(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := askStock(t, stockDuckDB(t, dir), "SELECT run_id FROM run_status UNION ALL SELECT name FROM baseline"); len(got) != 1 || got[0] != "r0" {
		t.Errorf("after an export of less: %q", got)
	}
}

// stockDuckDB is an in-memory DuckDB with the definitions of an export.
func stockDuckDB(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	text, err := os.ReadFile(filepath.Join(dir, "views.sql"))
	if err != nil {
		t.Fatal(err)
	}
	// another zone than UTC must not move a time
	for _, q := range []string{"SET TimeZone = 'America/New_York'", "SET file_search_path = '" + dir + "'", string(text)} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// askStock returns rows as text.
func askStock(t *testing.T, db *sql.DB, text string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rows.Next() {
		values := make([]any, len(columns))
		dest := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		out = append(out, rowText(values))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func rowsText(t *testing.T, rows *warehouse.Rows) []string {
	t.Helper()
	var out []string
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rowText(values))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func rowText(values []any) string {
	if len(values) == 1 {
		return fmt.Sprint(values[0])
	}
	return strings.TrimSuffix(fmt.Sprintln(values...), "\n")
}

// TestWriteParquet: the answer to somebody's own question keeps the order of its
// columns, and numbers stay numbers.
func TestWriteParquet(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	const question = `SELECT 2::TINYINT AS z, -0.5 AS a, 'x' AS z2, sum(n) AS total, [1.5::DOUBLE, NULL, 'NaN'] AS l, []::INTEGER[] AS none, NULL::VARCHAR[] AS no, ['a', NULL] AS texts,
		DATE '1969-07-20' AS day, TIMESTAMP '2026-09-01 10:00:00.123456' AS moment, true AS yes, -170141183460469231731687303715::HUGEINT AS huge, NULL::INTEGER AS nothing,
		{'k': 1} AS s, 'infinity'::DOUBLE AS inf FROM (VALUES (1), (9007199254740993)) v(n)`
	rows, err := w.Ask(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := warehouse.WriteParquet(&b, rows); err != nil {
		t.Fatal(err)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.parquet")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	types := askStock(t, db, "SELECT column_name || ' ' || column_type FROM (DESCRIBE FROM '"+file+"')")
	want := []string{"z TINYINT", "a DECIMAL(2,1)", "z2 VARCHAR", "total DECIMAL(38,0)", "l DOUBLE[]", "none INTEGER[]", "no VARCHAR[]", "texts VARCHAR[]",
		"day DATE", "moment TIMESTAMP", "yes BOOLEAN", "huge DECIMAL(38,0)", "nothing INTEGER", "s VARCHAR", "inf DOUBLE"}
	if d := cmp.Diff(want, types); d != "" {
		t.Errorf("types (-want +got):\n%s", d)
	}
	got := askStock(t, db, `SELECT concat_ws(' ', z, a, z2, total, l, none, coalesce(no::VARCHAR, '-'), texts, day, moment, yes, huge, coalesce(nothing::VARCHAR, '-'), s, inf) FROM '`+file+`'`)
	if len(got) != 1 || got[0] != "2 -0.5 x 9007199254740994 [1.5, NULL, nan] [] - [a, NULL] 1969-07-20 2026-09-01 10:00:00.123456 true -170141183460469231731687303715 - {\"k\":1} inf" {
		t.Errorf("%q", got)
	}
	rows, err = w.Ask(t.Context(), "SELECT 170141183460469231731687303715884105727::HUGEINT AS h")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if err := warehouse.WriteParquet(&b, rows); err == nil || !strings.Contains(err.Error(), "38 digits") {
		t.Errorf("39 digits: %v", err)
	}
}

// TestSecondReader reads every file of an export with Apache Arrow's own Parquet
// reader: the writer and its library could agree on a mistake.
func TestSecondReader(t *testing.T) {
	t.Parallel()
	w, dir := everything(t), t.TempDir()
	n, err := w.ExportParquet(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*", "part-0.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "*", "suite=*", "month=*", "part-0.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if files = append(files, parts...); len(files) != n {
		t.Fatalf("%d files in the folder, %d were written", len(files), n)
	}
	for _, f := range files {
		rel, err := filepath.Rel(dir, f)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(rel, string(filepath.Separator))
		got[name] = append(got[name], arrowRows(t, f)...)
	}
	for name, have := range got {
		rows, err := w.Ask(t.Context(), `SELECT * FROM "`+name+`"`)
		if err != nil {
			t.Fatal(err)
		}
		want := rowsText(t, rows)
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		slices.Sort(have)
		if d := cmp.Diff(want, have); d != "" {
			t.Errorf("%s (-warehouse +arrow):\n%.2000s", name, d)
		}
	}
}

// arrowRows are the rows of a file as rowText prints those of the warehouse.
func arrowRows(t *testing.T, path string) []string {
	t.Helper()
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for g := range f.NumRowGroups() {
		group := f.RowGroup(g)
		rows := make([][]any, group.NumRows())
		for c := range group.NumColumns() {
			reader, err := group.Column(c)
			if err != nil {
				t.Fatal(err)
			}
			values := arrowColumn(t, reader)
			if len(values) != len(rows) {
				t.Fatalf("%s: column %s has %d values for %d rows", path, reader.Descriptor().Path(), len(values), len(rows))
			}
			for i, v := range values {
				rows[i] = append(rows[i], v)
			}
		}
		for _, r := range rows {
			out = append(out, rowText(r))
		}
	}
	return out
}

// arrowColumn are the values of a column as the driver of the warehouse decodes
// them.
func arrowColumn(t *testing.T, column file.ColumnChunkReader) []any {
	t.Helper()
	as := column.Descriptor().LogicalType().String()
	switch c := column.(type) {
	case *file.BooleanColumnChunkReader:
		return assembled(t, column, c.ReadBatch, func(v bool) any { return v })
	case *file.Float64ColumnChunkReader:
		return assembled(t, column, c.ReadBatch, func(v float64) any { return v })
	case *file.Int32ColumnChunkReader:
		return assembled(t, column, c.ReadBatch, func(v int32) any {
			if as == "Date" {
				return time.Unix(int64(v)*24*60*60, 0).UTC()
			}
			return v
		})
	case *file.Int64ColumnChunkReader:
		return assembled(t, column, c.ReadBatch, func(v int64) any {
			if strings.HasPrefix(as, "Timestamp(isAdjustedToUTC=false, timeUnit=microseconds") {
				return time.UnixMicro(v).UTC()
			}
			return v
		})
	case *file.ByteArrayColumnChunkReader:
		return assembled(t, column, c.ReadBatch, func(v parquet.ByteArray) any { return string(v) })
	}
	t.Fatalf("column %s is a %T", column.Descriptor().Path(), column)
	return nil
}

// assembled puts values and nulls, and the items of lists, together by their
// levels.
func assembled[T any](t *testing.T, column file.ColumnChunkReader, read func(int64, []T, []int16, []int16) (int64, int, error), show func(T) any) []any {
	t.Helper()
	const batch = 1000
	full := column.Descriptor().MaxDefinitionLevel()
	list := column.Descriptor().MaxRepetitionLevel() > 0
	var out []any
	for column.HasNext() {
		values, defs, reps := make([]T, batch), make([]int16, batch), make([]int16, batch)
		n, _, err := read(batch, values, defs, reps)
		if err != nil {
			t.Fatal(err)
		}
		next := 0
		for i := range n {
			var v any
			if defs[i] == full {
				v = show(values[next])
				next++
			}
			switch {
			case list && reps[i] > 0:
				out[len(out)-1] = append(out[len(out)-1].([]any), v)
			case list && defs[i] >= 2:
				out = append(out, []any{v})
			case list && defs[i] == 1:
				out = append(out, []any{})
			default:
				out = append(out, v)
			}
		}
	}
	return out
}
