package warehouse_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"cvs/warehouse"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	file, dir := filepath.Join(t.TempDir(), "w.duckdb"), t.TempDir()
	w, err := warehouse.Open(t.Context(), file, warehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	load(t, w, sampleRun("r1", resultJSON(2048)))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	first, err := warehouse.Snapshot(t.Context(), file, dir, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	again, err := warehouse.Snapshot(t.Context(), file, dir, time.Second)
	if err != nil || again != first {
		t.Errorf("the same warehouse again is %s, want %s (%v)", again, first, err)
	}
	// a reader of the first snapshot sees it to the end, whatever comes after
	reader := openReadOnly(t, filepath.Join(dir, warehouse.LatestSnapshot))
	w, err = warehouse.Open(t.Context(), file, warehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	load(t, w, sampleRun("r2", resultJSON(2049)))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := warehouse.Snapshot(t.Context(), file, dir, time.Second)
	if err != nil || second == first {
		t.Fatalf("second snapshot %s: %v", second, err)
	}
	if got := values(t, reader, "SELECT count(*) FROM run"); got[0] != "1" {
		t.Errorf("the open reader sees %s runs", got[0])
	}
	if got := values(t, openReadOnly(t, filepath.Join(dir, warehouse.LatestSnapshot)), "SELECT count(*) FROM run"); got[0] != "2" {
		t.Errorf("latest has %s runs", got[0])
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("%v in the folder (%v), want two snapshots and the link", left, err)
	}
}

func openReadOnly(t *testing.T, path string) *warehouse.DB {
	t.Helper()
	w, err := warehouse.Open(t.Context(), path, warehouse.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// TestExportParquet reads the files back with the library; the types and the
// number of rows must be those of the tables.
func TestExportParquet(t *testing.T) {
	t.Parallel()
	w, dir := open(t, ""), t.TempDir()
	load(t, w, sampleRun("r1", resultJSON(2048)), sampleRun("r2", resultJSON(2049)))
	n, err := w.ExportParquet(t.Context(), dir)
	if err != nil || n == 0 {
		t.Fatalf("%d files: %v", n, err)
	}
	type measured struct {
		RunID  string   `parquet:"run_id,optional"`
		Metric string   `parquet:"metric,optional"`
		Value  *float64 `parquet:"value,optional"`
	}
	rows, err := parquet.ReadFile[measured](filepath.Join(dir, "measurement", "suite=atom", "month=2026-09", "part-0.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if got := values(t, w, "SELECT count(*) FROM measurement"); got[0] != strconv.Itoa(len(rows)) {
		t.Errorf("%d rows in the file, %s in the table", len(rows), got[0])
	}
	i := slices.IndexFunc(rows, func(m measured) bool { return m.RunID == "r2" && m.Metric == "output_throughput" })
	if i < 0 || rows[i].Value == nil || *rows[i].Value != 2049 {
		t.Errorf("output_throughput of r2 is not in the file: %d of %d", i, len(rows))
	}
	text, err := os.ReadFile(filepath.Join(dir, "views.sql"))
	if err != nil || !strings.Contains(string(text), "CREATE OR REPLACE VIEW gates") {
		t.Errorf("views.sql lacks the views: %v", err)
	}
}
