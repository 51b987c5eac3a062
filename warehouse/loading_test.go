package warehouse_test

import (
	"fmt"
	"sync"
	"testing"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// TestLoadingGivenUp gives up a transaction whose runs had a shape for the first
// time: what was packed before and is stored after must find its keys all the
// same, and so must what comes when they are stored.
func TestLoadingGivenUp(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w, err := warehouse.Open(ctx, "", warehouse.Options{Bulk: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := w.Loading(ctx)
	if err != nil {
		t.Fatal(err)
	}
	packed := func(i int) *warehouse.Source {
		t.Helper()
		s, err := warehouse.LooseSources(fmt.Sprintf("r%d.json", i), twoKB(i))
		if err != nil || len(s) != 1 {
			t.Fatal(s, err)
		}
		return s[0]
	}
	sources := make([]*warehouse.Source, 8)
	var all sync.WaitGroup
	for i := range sources {
		sources[i] = packed(i)
		all.Go(func() { l.Pack(sources[i]) })
	}
	all.Wait()
	add := func(s *warehouse.Source, want warehouse.Outcome) {
		t.Helper()
		if r, err := l.Add(ctx, s); err != nil || r.Outcome != want || !s.Packed() || s.Size() < 1500 {
			t.Fatal(r, err)
		}
	}
	add(sources[0], warehouse.Loaded)
	add(sources[1], warehouse.Loaded)
	if _, err := l.Add(ctx, warehouse.NewSource(&artifact.Run{})); err == nil {
		t.Fatal("a run without an id was stored")
	}
	for _, s := range sources[2:] { // 0 and 1 are given up
		add(s, warehouse.Loaded)
	}
	add(sources[2], warehouse.Unchanged)
	if err := l.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	later := packed(0)
	l.Pack(later)
	add(later, warehouse.Loaded)
	add(sources[3], warehouse.Unchanged)
	if err := l.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	lost := packed(9)
	l.Pack(lost)
	add(lost, warehouse.Loaded) // not committed
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := values(t, w, "SELECT concat_ws(' ', count(DISTINCT run_id), count(*), count(number), min(key), (SELECT count(DISTINCT shape) FROM shape_key)) FROM raw_value WHERE metric IN ('output_throughput', 'mean_ttft_ms')")
	if want := "7 14 14 mean_ttft_ms 1"; len(got) != 1 || got[0] != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
