package warehouse

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestEmptyFile holds the packed warehouse against one that is made from the SQL
// files: the same tables, views, macros, comments and rows.
func TestEmptyFile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	made := filepath.Join(t.TempDir(), "made.duckdb")
	if err := makeEmpty(ctx, made); err != nil {
		t.Fatal(err)
	}
	packed := emptyFile
	// no two files that DuckDB makes are alike: one that is right stays
	if done, err := unpackEmpty(packed, filepath.Join(t.TempDir(), "old.duckdb")); os.Getenv("UPDATE") != "" && (!done || err != nil) {
		packed = pack(t, made)
		if err := os.WriteFile("empty.duckdb.gz", packed, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	unpacked := filepath.Join(t.TempDir(), "unpacked.duckdb")
	if done, err := unpackEmpty(packed, unpacked); !done || err != nil {
		t.Fatalf("empty.duckdb.gz is of other SQL files (%v); UPDATE=1 go test ./warehouse -run TestEmptyFile makes it anew", err)
	}
	got, want := inventory(ctx, t, unpacked), inventory(ctx, t, made)
	for what := range want {
		if len(want[what]) == 0 {
			t.Errorf("%s: nothing to compare", what)
		}
		if !slices.Equal(got[what], want[what]) {
			t.Errorf("%s: empty.duckdb.gz differs from what the SQL files make:\ngot  %q\nwant %q", what, got[what], want[what])
		}
	}
}

// TestEmptyFileOfOtherSources makes a warehouse from the SQL files if the packed one
// is of others, and refuses one that is damaged.
func TestEmptyFileOfOtherSources(t *testing.T) {
	t.Parallel()
	var other bytes.Buffer
	z := gzip.NewWriter(&other)
	z.Comment = "of others"
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "w.duckdb")
	if done, err := unpackEmpty(other.Bytes(), path); done || err != nil {
		t.Errorf("of other sources: unpacked %v, %v", done, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("of other sources: a file was written")
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if err := os.WriteFile(whole, bytes.Repeat([]byte("a warehouse "), 1<<12), 0o644); err != nil {
		t.Fatal(err)
	}
	packed := pack(t, whole)
	if done, err := unpackEmpty(packed[:len(packed)-12], path); done || err == nil {
		t.Errorf("cut off: unpacked %v, %v", done, err)
	}
}

func pack(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	z.Comment = sourceDigest()
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inventory is all that a warehouse without a run holds.
func inventory(ctx context.Context, t *testing.T, file string) map[string][]string {
	t.Helper()
	w, err := Open(ctx, file, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w.attached {
		t.Error(file + ": the views are of another version")
	}
	all := make(map[string][]string)
	for what, text := range map[string]string{
		"storage": "SELECT tags::VARCHAR FROM duckdb_databases() WHERE NOT internal",
		"tables":  "SELECT concat_ws(' | ', table_name, sql, comment) AS x FROM duckdb_tables() WHERE NOT internal ORDER BY x",
		"views":   "SELECT concat_ws(' | ', view_name, sql, comment) AS x FROM duckdb_views() WHERE NOT internal ORDER BY x",
		"columns": "SELECT concat_ws(' | ', table_name, column_name, data_type, comment) AS x FROM duckdb_columns() WHERE NOT internal ORDER BY x",
		"macros":  "SELECT concat_ws(' | ', function_name, parameters::VARCHAR, macro_definition, comment) AS x FROM duckdb_functions() WHERE NOT internal ORDER BY x",
		"metrics": "SELECT metric_def::VARCHAR AS x FROM metric_def ORDER BY x",
		"info":    "SELECT warehouse_info::VARCHAR FROM warehouse_info",
	} {
		if all[what], err = query(ctx, w.db, text, func(s *string) []any { return []any{s} }); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	return all
}
