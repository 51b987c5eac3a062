package warehouse_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
