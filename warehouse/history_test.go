package warehouse_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// historyFile is a published history of nightly runs; see testdata/history.
func historyFile(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "history", name+".gz"))
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
	return data
}

// loadHistory loads published history files into memory.
func loadHistory(t *testing.T, names ...string) *warehouse.DB {
	t.Helper()
	w := open(t, "")
	for _, name := range names {
		runs, err := warehouse.Loose(name, historyFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		load(t, w, runs...)
	}
	return w
}

// TestHistoryCountsOnce: 5,561 rows of the published history are 5,004
// measurements; the rest was published again.
func TestHistoryCountsOnce(t *testing.T) {
	t.Parallel()
	data := historyFile(t, "atom_ci_perf.csv")
	w := loadHistory(t, "atom_ci_perf.csv")
	if got := values(t, w, "SELECT count(*) FROM cell_result"); got[0] != strconv.Itoa(bytes.Count(data, []byte("\n"))-1) {
		t.Errorf("%s cells of %d rows", got[0], bytes.Count(data, []byte("\n"))-1)
	}
	if got := values(t, w, "SELECT count(*) FROM history WHERE metric = 'output_throughput'"); got[0] != "5004" {
		t.Errorf("%s measurements, want 5004", got[0])
	}
	// loading again, also under another name, changes nothing
	runs, err := warehouse.Loose("copy of it.csv", data)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range load(t, w, runs...) {
		if r.Outcome != warehouse.Unchanged {
			t.Fatalf("run %s is %s", r.RunID, r.Outcome)
		}
	}
}

// TestShiftsGrow: a warehouse that grew run by run has the change points of one
// built at once, also when runs come in late.
func TestShiftsGrow(t *testing.T) {
	t.Parallel()
	runs, err := warehouse.Loose("h.csv", historyFile(t, "atom_ci_perf.csv"))
	if err != nil {
		t.Fatal(err)
	}
	runs = slices.DeleteFunc(runs, func(r *artifact.Run) bool { return !strings.Contains(r.Meta.Identity.Model, "gpt-oss") })
	const question = "SELECT to_json(c)::VARCHAR FROM change_points c ORDER BY ALL"
	once := open(t, "")
	load(t, once, runs...)
	want := values(t, once, question)
	if len(want) == 0 {
		t.Fatal("no change point in the history")
	}
	grown := open(t, "")
	r := rand.New(rand.NewPCG(5, 6))
	late := slices.Clone(runs)
	r.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
	for batch := range slices.Chunk(late, 7) {
		load(t, grown, batch...)
	}
	if got := values(t, grown, question); !slices.Equal(got, want) {
		t.Errorf("%d change points after growing, %d at once", len(got), len(want))
	}
}

// TestExplainHosts: what is explained of one host has only that host's past, and a
// formula has all that it was computed from.
func TestExplainHosts(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	two := func(r *artifact.Run) {
		r.Results[0].Host = "n1"
		other := r.Results[0]
		other.Path, other.Host, other.Data = "results/n2.json", "n2", resultJSON(*r.Thresholds.Specs[0].Value+500)
		r.Results = append(r.Results, other)
	}
	load(t, w, at("a", 0, 1000, two), at("b", 1, 1001, two), at("c", 2, 1002, two))
	rows, err := w.Explain(t.Context(), "c", "w1-conc128", "output_throughput")
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for _, x := range rows {
		if len(x.Earlier) != 2 || len(x.Sources) != 1 {
			t.Errorf("%s: %d earlier, %d sources", x.Host, len(x.Earlier), len(x.Sources))
		}
		for _, e := range x.Earlier {
			if e.Slot != x.Host || (e.Value >= 2000) != (x.Host == "n2") {
				t.Errorf("%s has the past of %s: %v", x.Host, e.Slot, e.Value)
			}
		}
	}
	rows, err = w.Explain(t.Context(), "c", "w1-conc128", "success_rate")
	if err != nil || len(rows) != 2 || len(rows[0].Sources) != 2 {
		t.Errorf("success rate: %+v (%v)", rows, err)
	}
}
