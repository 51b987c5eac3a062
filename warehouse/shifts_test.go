package warehouse_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/warehouse"
	"cvs/warehouse/shift"
)

// A series is one metric of one configuration in time.
type series struct {
	identity, cell string
	conc           int64
	values         []float64
	at             []time.Time
}

// fold is the number of a part of the configurations, by a hash of what they are.
func (s series) fold(of uint32) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s.identity))
	return (h.Sum32() >> 7) % of
}

// steady says that nothing lasting happened: the medians of the first and the
// second half differ by less than 3 %.
func (s series) steady() bool {
	h := len(s.values) / 2
	return math.Abs(middle(s.values[:h])-middle(s.values[h:]))/middle(s.values) < 0.03
}

func seriesOf(t *testing.T, w *warehouse.DB, metric string, shortest int) []series {
	t.Helper()
	rows, err := w.Ask(t.Context(), `SELECT series_id, cell_key, regexp_extract(cell_key, 'CONC=(\d+)', 1)::BIGINT, value, started_at FROM history
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
		s.values, s.at = append(s.values, v[3].(float64)), append(s.at, v[4].(time.Time))
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

func (a *alarms) add(s series, found []shift.Shift, bad shift.Bad, p part) {
	sign := 1.0
	if bad == shift.Lower {
		sign = -1
	}
	for i, v := range s.values[1:] {
		if !p.has(s, i+1) {
			continue
		}
		a.comparisons++
		if sign*100*(v-s.values[i])/s.values[i] > 5 {
			a.plain++
		}
	}
	for _, x := range found {
		if !p.has(s, x.Found) {
			continue
		}
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

func (a alarms) per1000(n int) float64 { return 1000 * float64(n) / float64(max(a.comparisons, 1)) }

// beyond says that n alarms are more than so many per 1,000 comparisons can be by
// chance: by two standard deviations of a Poisson count.
func (a alarms) beyond(n int, per1000 float64) bool {
	mean := per1000 * float64(a.comparisons) / 1000
	return float64(n) > mean+2*math.Sqrt(mean)
}

// A trial is a loss that was put into a copy of a series.
type trial struct {
	series
	from        int // first value of the loss
	calm, found bool
	exact       bool // the first run was named
	delay       int  // runs until it was found
}

// inject puts a loss of pct at every place with eight runs before it and five
// from there on, and looks whether it is found within these five.
func inject(s series, bad shift.Bad, pct float64) []trial {
	factor := 1 + pct/100
	if bad == shift.Lower {
		factor = 1 - pct/100
	}
	var trials []trial
	calm := robustCV(s.values) <= 3
	for at := 8; at+5 <= len(s.values); at++ {
		shifted := slices.Clone(s.values[:at+5])
		for i := at; i < len(shifted); i++ {
			shifted[i] *= factor
		}
		one := trial{series: s, from: at, calm: calm}
		found := shift.Default().Find(shifted, bad)
		if i := slices.IndexFunc(found, func(x shift.Shift) bool {
			return (x.Pct < 0) == (factor < 1) && x.Found >= at && x.At >= at-5 // where it began may be off by an outlier
		}); i >= 0 {
			one.found, one.exact, one.delay = true, found[i].At == at, found[i].Found-at+1
		}
		trials = append(trials, one)
	}
	return trials
}

// injected counts trials.
type injected struct {
	tried, found, calm, calmFound int
	exact, delay                  int // of those found
}

func (n *injected) add(x trial) {
	n.tried++
	if x.calm {
		n.calm++
	}
	if !x.found {
		return
	}
	n.found++
	n.delay += x.delay
	if x.exact {
		n.exact++
	}
	if x.calm {
		n.calmFound++
	}
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// A part is some of the comparisons: has says whether value i of a series is of it.
type part struct {
	name string
	has  func(s series, i int) bool
}

// parts are all comparisons, then thirds of the time that the history covers, then
// fifths of the configurations. All of them were seen when the limits were chosen:
// that the method does alike in each says that no part carries the result, not
// that it was tried on what nobody had seen.
func parts(all []series) []part {
	from, to := all[0].at[0], all[0].at[0]
	for _, s := range all {
		for _, t := range s.at {
			if t.Before(from) {
				from = t
			}
			if t.After(to) {
				to = t
			}
		}
	}
	list := []part{{"all", func(series, int) bool { return true }}}
	for k := range 3 {
		list = append(list, part{fmt.Sprintf("third %d of time", k+1), func(s series, i int) bool {
			return min(2, int(3*s.at[i].Sub(from)/to.Sub(from))) == k
		}})
	}
	for k := range uint32(5) {
		list = append(list, part{fmt.Sprintf("fifth %d of configs", k+1), func(s series, _ int) bool { return s.fold(5) == k }})
	}
	return list
}

// TestShiftsOnHistory measures the method on real series: how often it cries wolf
// beside the plain 5 % rule on the same rows, and which injected losses it finds,
// altogether and in each part. No alarm is excused: what real shifts there are
// count as false, too. -v prints the tables.
func TestShiftsOnHistory(t *testing.T) {
	t.Parallel()
	w := loadHistory(t, "atom_ci_perf.csv")
	sizes := []float64{3, 5, 8, 12, 20} // per cent
	for _, m := range []struct {
		name        string
		bad         shift.Bad
		share, calm float64 // of the losses of 8 % that are found at least, per cent: of all, on calm series
		steady, all float64 // alarms per 1,000 at most: on steady series both ways, on all series losses
	}{
		{"output_throughput", shift.Lower, 90, 100, 5, 5},
		{"mean_tpot_ms", shift.Higher, 85, 100, 5, 5},
		{"mean_ttft_ms", shift.Higher, 70, 80, 12, 15}, // its spread is four times as large
	} {
		all := seriesOf(t, w, m.name, 8)
		var out strings.Builder
		fmt.Fprintf(&out, "%s, alarms per 1,000 comparisons\n%-18s %-7s %11s %8s %7s %6s   %s\n", m.name, "part", "series", "comparisons", "5 % rule", "losses", "gains", "losses: lasted, passed, too new")
		found := make([][]shift.Shift, len(all))
		for i, s := range all {
			found[i] = shift.Default().Find(s.values, m.bad)
		}
		for _, p := range parts(all) {
			for _, only := range []string{"steady", "all"} {
				var a alarms
				for i, s := range all {
					if only == "all" || s.steady() {
						a.add(s, found[i], m.bad, p)
					}
				}
				fmt.Fprintf(&out, "%-18s %-7s %11d %8.1f %7.1f %6.1f   %d, %d, %d\n", p.name, only, a.comparisons, a.per1000(a.plain), a.per1000(a.losses), a.per1000(a.gains), a.lasted, a.passed, a.open)
				switch {
				case p.name == "all" && only == "steady" && a.per1000(a.losses+a.gains) > m.steady:
					t.Errorf("%s: %.1f alarms per 1,000 comparisons on steady series, want at most %v", m.name, a.per1000(a.losses+a.gains), m.steady)
				case p.name == "all" && only == "all" && a.per1000(a.losses) > m.all:
					t.Errorf("%s: %.1f losses per 1,000 comparisons, want at most %v", m.name, a.per1000(a.losses), m.all)
				case only == "steady" && a.beyond(a.losses, m.steady):
					t.Errorf("%s, %s: %d losses in %d comparisons on steady series, which %v per 1,000 do not explain", m.name, p.name, a.losses, a.comparisons, m.steady)
				}
			}
		}
		fmt.Fprintf(&out, "injected into copies of series of concurrency 32 and more: found within five runs, per cent\n%-18s %5s %6s %6s %22s %6s   %s\n", "part", "loss", "trials", "found", "spread <= 3 %: trials", "found", "of those found: first run right, mean runs until found")
		trials := make(map[float64][]trial)
		for _, s := range all {
			if s.conc < 32 {
				continue
			}
			for _, pct := range sizes {
				trials[pct] = append(trials[pct], inject(s, m.bad, pct)...)
			}
		}
		for _, p := range parts(all) {
			for _, pct := range sizes {
				var n injected
				for _, x := range trials[pct] {
					if p.has(x.series, x.from) {
						n.add(x)
					}
				}
				if n.tried == 0 {
					continue
				}
				fmt.Fprintf(&out, "%-18s %3.0f %% %6d %6.1f %22d %6.1f   %.1f, %.1f\n", p.name, pct, n.tried, percent(n.found, n.tried), n.calm, percent(n.calmFound, n.calm), percent(n.exact, n.found), float64(n.delay)/float64(max(n.found, 1)))
				if pct != 8 {
					continue
				}
				if got := percent(n.calmFound, n.calm); n.calm > 0 && got < m.calm {
					t.Errorf("%s, %s: %.1f %% of %d losses of 8 %% on calm series were found, want %v", m.name, p.name, got, n.calm, m.calm)
				}
				if got := percent(n.found, n.tried); p.name == "all" && got < m.share {
					t.Errorf("%s: %.1f %% of %d losses of 8 %% were found, want %v", m.name, got, n.tried, m.share)
				}
			}
		}
		t.Log(out.String())
	}
}
