package warehouse_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/warehouse"
	"cvs/warehouse/shift"
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

// A series is one metric of one configuration in time.
type series struct {
	name   string
	conc   int
	values []float64
}

func seriesOf(t *testing.T, w *warehouse.DB, metric string, shortest int) []series {
	t.Helper()
	rows, err := w.Ask(t.Context(), `SELECT series_id || ' ' || cell_key, regexp_extract(cell_key, 'CONC=(\d+)', 1), value FROM history
		WHERE metric = ? AND value > 0 ORDER BY series_id, cell_key, sequence`, metric)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []series
	for rows.Next() {
		v, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		name, value := fmt.Sprint(v[0]), v[2].(float64)
		if len(all) == 0 || all[len(all)-1].name != name {
			conc, _ := strconv.Atoi(fmt.Sprint(v[1]))
			all = append(all, series{name: name, conc: conc})
		}
		s := &all[len(all)-1]
		s.values = append(s.values, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s series) bool { return len(s.values) < shortest })
}

func middle(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// robustCV is the robust spread in per cent of the median.
func robustCV(v []float64) float64 {
	mid := middle(v)
	d := make([]float64, len(v))
	for i, x := range v {
		d[i] = math.Abs(x - mid)
	}
	return 100 * 1.4826 * middle(d) / mid
}

// steady says that nothing lasting happened: the medians of the first and the
// second half differ by less than 3 %.
func (s series) steady() bool {
	h := len(s.values) / 2
	return math.Abs(middle(s.values[:h])-middle(s.values[h:]))/middle(s.values) < 0.03
}

// TestShiftsOnHistory measures the method on real series: how often it cries wolf
// beside the plain 5 % rule, and which injected losses it finds within five runs.
func TestShiftsOnHistory(t *testing.T) {
	t.Parallel()
	w := loadHistory(t, "atom_ci_perf.csv")
	all := seriesOf(t, w, "output_throughput", 8)
	var steps, plain, alarms, steadySteps, steadyPlain, steadyAlarms int
	for _, s := range all {
		n := len(s.values) - 1
		p := 0
		for i := range n {
			if 100*(s.values[i+1]-s.values[i])/s.values[i] < -5 {
				p++
			}
		}
		a := len(shift.Default().Find(s.values))
		steps, plain, alarms = steps+n, plain+p, alarms+a
		if s.steady() {
			steadySteps, steadyPlain, steadyAlarms = steadySteps+n, steadyPlain+p, steadyAlarms+a
		}
	}
	rate := func(n, of int) float64 { return 1000 * float64(n) / float64(of) }
	t.Logf("output throughput, %d series, %d comparisons: plain 5 %% rule %.1f alarms per 1,000, shifts %.1f per 1,000", len(all), steps, rate(plain, steps), rate(alarms, steps))
	t.Logf("steady series only, %d comparisons: plain 5 %% rule %.1f per 1,000, shifts %.1f per 1,000", steadySteps, rate(steadyPlain, steadySteps), rate(steadyAlarms, steadySteps))
	if r := rate(steadyAlarms, steadySteps); r > 5 {
		t.Errorf("%.1f alarms per 1,000 comparisons on steady series, want at most 5", r)
	}

	r := rand.New(rand.NewPCG(2026, 3))
	var found, tried int
	for _, pct := range []float64{3, 5, 8, 12, 20} {
		var hit, n, calmHit, calm int
		for _, s := range all {
			if s.conc < 32 || len(s.values) < 13 {
				continue
			}
			for range 10 {
				at := 8 + r.IntN(len(s.values)-12)
				shifted := slices.Clone(s.values[:at+5])
				for i := at; i < len(shifted); i++ {
					shifted[i] *= 1 - pct/100
				}
				ok := slices.ContainsFunc(shift.Default().Find(shifted), func(x shift.Shift) bool {
					return x.Pct < 0 && x.Found >= at && x.At >= at-5 // where it began may be off by an outlier
				})
				// calm as a whole and before the loss: what came before is all that can be known
				isCalm := robustCV(s.values) <= 3 && robustCV(s.values[:at]) <= 3
				n++
				if isCalm {
					calm++
				}
				if ok {
					hit++
					if isCalm {
						calmHit++
					}
				}
			}
		}
		t.Logf("injected loss of %2.0f %%: %5.1f %% found within five runs (%d trials); where the robust spread (whole series and before) is at most 3 %%: %5.1f %% (%d trials)",
			pct, 100*float64(hit)/float64(n), n, 100*float64(calmHit)/float64(calm), calm)
		if pct >= 8 {
			found, tried = found+hit, tried+n
		}
		if pct == 8 && calmHit < calm {
			t.Errorf("%d of %d losses of 8 %% on calm series were missed", calm-calmHit, calm)
		}
	}
	if share := 100 * float64(found) / float64(tried); share < 90 {
		t.Errorf("%.1f %% of the losses of 8 %% and more were found, want 90", share)
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
