package warehouse_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"cvs/warehouse"
	"cvs/warehouse/shift"
)

// A series is one metric of one configuration in time.
type series struct {
	identity, cell string
	conc           int64
	values         []float64
}

// heldOut says that the limits of the method were not chosen on this series:
// half of the configurations, by a hash of what they are.
func (s series) heldOut() bool {
	h := fnv.New32a()
	h.Write([]byte(s.identity))
	return h.Sum32()>>3%2 == 1
}

// steady says that nothing lasting happened: the medians of the first and the
// second half differ by less than 3 %.
func (s series) steady() bool {
	h := len(s.values) / 2
	return math.Abs(middle(s.values[:h])-middle(s.values[h:]))/middle(s.values) < 0.03
}

func seriesOf(t *testing.T, w *warehouse.DB, metric string, shortest int) []series {
	t.Helper()
	rows, err := w.Ask(t.Context(), `SELECT series_id, cell_key, regexp_extract(cell_key, 'CONC=(\d+)', 1)::BIGINT, value FROM history
		WHERE metric = ? AND healthy AND value > 0 ORDER BY series_id, cell_key, sequence`, metric)
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
		one := series{identity: v[0].(string), cell: v[1].(string), conc: v[2].(int64)}
		if n := len(all); n == 0 || all[n-1].identity != one.identity || all[n-1].cell != one.cell {
			all = append(all, one)
		}
		s := &all[len(all)-1]
		s.values = append(s.values, v[3].(float64))
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

// alarms counts what is reported about series as they are.
type alarms struct {
	comparisons, plain, losses, gains int
	// losses by what came after: at least three later runs whose median is on the
	// new side of the middle between the two levels, or on the old side, or too few
	lasted, passed, open int
}

func (a *alarms) add(s series, bad shift.Bad) {
	sign := 1.0
	if bad == shift.Lower {
		sign = -1
	}
	a.comparisons += len(s.values) - 1
	for i, v := range s.values[1:] {
		if sign*100*(v-s.values[i])/s.values[i] > 5 {
			a.plain++
		}
	}
	for _, x := range shift.Default().Find(s.values, bad) {
		if sign*x.Pct < 0 {
			a.gains++
			continue
		}
		a.losses++
		switch later := s.values[x.Found+1:]; {
		case len(later) < 3:
			a.open++
		case sign*(middle(later)-(x.BeforeMid+x.AfterMid)/2) > 0:
			a.lasted++
		default:
			a.passed++
		}
	}
}

func (a alarms) per1000(n int) float64 { return 1000 * float64(n) / float64(a.comparisons) }

// injected counts losses put into copies of real series.
type injected struct {
	tried, found, calm, calmFound int
	exact, delay                  int // of those found: first run right; runs until found
}

// inject puts a loss of pct at every place with eight runs before it and five
// from there on, and looks whether it is found within these five.
func (n *injected) inject(s series, bad shift.Bad, pct float64) {
	factor := 1 + pct/100
	if bad == shift.Lower {
		factor = 1 - pct/100
	}
	for at := 8; at+5 <= len(s.values); at++ {
		shifted := slices.Clone(s.values[:at+5])
		for i := at; i < len(shifted); i++ {
			shifted[i] *= factor
		}
		found := shift.Default().Find(shifted, bad)
		i := slices.IndexFunc(found, func(x shift.Shift) bool {
			return (x.Pct < 0) == (factor < 1) && x.Found >= at && x.At >= at-5 // where it began may be off by an outlier
		})
		n.tried++
		calm := robustCV(s.values) <= 3
		if calm {
			n.calm++
		}
		if i < 0 {
			continue
		}
		n.found++
		n.delay += found[i].Found - at + 1
		if found[i].At == at {
			n.exact++
		}
		if calm {
			n.calmFound++
		}
	}
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// TestShiftsOnHistory measures the method on real series: how often it cries wolf
// beside the plain 5 % rule on the same rows, and which injected losses it finds.
// No alarm is excused: what real shifts there are count as false, too. -v prints
// the tables.
func TestShiftsOnHistory(t *testing.T) {
	t.Parallel()
	w := loadHistory(t, "atom_ci_perf.csv")
	halves := []struct {
		name string
		has  func(series) bool
	}{
		{"chosen on", func(s series) bool { return !s.heldOut() }},
		{"held out", series.heldOut},
		{"all", func(series) bool { return true }},
	}
	for _, m := range []struct {
		name        string
		bad         shift.Bad
		share, calm float64 // of the losses of 8 % that are found at least, per cent: of all, on calm series
		steady, all float64 // alarms per 1,000 at most: on steady series both ways, on all series losses
	}{
		{"output_throughput", shift.Lower, 90, 100, 5, 5},
		{"mean_tpot_ms", shift.Higher, 85, 100, 5, 5},
		{"mean_ttft_ms", shift.Higher, 70, 85, 12, 15}, // its spread is four times as large
	} {
		all := seriesOf(t, w, m.name, 8)
		var out strings.Builder
		fmt.Fprintf(&out, "%s, alarms per 1,000 comparisons\n%-10s %-7s %11s %8s %7s %6s   %s\n", m.name, "half", "series", "comparisons", "5 % rule", "losses", "gains", "losses: lasted, passed, too new")
		for _, half := range halves {
			for _, only := range []string{"steady", "all"} {
				var a alarms
				for _, s := range all {
					if half.has(s) && (only == "all" || s.steady()) {
						a.add(s, m.bad)
					}
				}
				fmt.Fprintf(&out, "%-10s %-7s %11d %8.1f %7.1f %6.1f   %d, %d, %d\n", half.name, only, a.comparisons, a.per1000(a.plain), a.per1000(a.losses), a.per1000(a.gains), a.lasted, a.passed, a.open)
				if got := a.per1000(a.losses + a.gains); only == "steady" && got > m.steady {
					t.Errorf("%s, %s: %.1f alarms per 1,000 comparisons on steady series, want at most %v", m.name, half.name, got, m.steady)
				}
				if got := a.per1000(a.losses); only == "all" && half.name == "all" && got > m.all {
					t.Errorf("%s: %.1f losses per 1,000 comparisons, want at most %v", m.name, got, m.all)
				}
			}
		}
		fmt.Fprintf(&out, "injected into copies of series of concurrency 32 and more: found within five runs, per cent\n%-10s %5s %6s %6s %22s %6s   %s\n", "half", "loss", "trials", "found", "spread <= 3 %: trials", "found", "of those found: first run right, mean runs until found")
		for _, half := range halves {
			for _, pct := range []float64{3, 5, 8, 12, 20} {
				var n injected
				for _, s := range all {
					if half.has(s) && s.conc >= 32 {
						n.inject(s, m.bad, pct)
					}
				}
				fmt.Fprintf(&out, "%-10s %3.0f %% %6d %6.1f %22d %6.1f   %.1f, %.1f\n", half.name, pct, n.tried, percent(n.found, n.tried), n.calm, percent(n.calmFound, n.calm), percent(n.exact, n.found), float64(n.delay)/float64(max(n.found, 1)))
				if pct != 8 {
					continue
				}
				if got := percent(n.calmFound, n.calm); got < m.calm {
					t.Errorf("%s, %s: %.1f %% of %d losses of 8 %% on calm series were found, want %v", m.name, half.name, got, n.calm, m.calm)
				}
				if got := percent(n.found, n.tried); half.name == "all" && got < m.share {
					t.Errorf("%s: %.1f %% of %d losses of 8 %% were found, want %v", m.name, got, n.tried, m.share)
				}
			}
		}
		t.Log(out.String())
	}
}
