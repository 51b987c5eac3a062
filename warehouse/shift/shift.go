// Package shift finds lasting shifts of level in a series of measurements, as a
// nightly job would: run after run, never looking ahead.
//
// The method. A shift is reported when the last four or five values stand apart
// from the five, eight or twenty before them by three standards at once:
//
//   - effect: the Hodges–Lehmann estimate of the shift, the median of all ratios
//     after/before (Hodges and Lehmann 1963), is at least MinPct;
//   - noise: it is at least Noise robust standard deviations (1.4826 * MAD) of the
//     values before;
//   - chance: the Mann–Whitney U-test (1947), exact for samples this small, gives
//     at most Alpha.
//
// Each part is deaf to the single outliers that benchmarks are full of, and needs
// no normal distribution. Of published methods for benchmark histories, E-divisive
// (Matteson and James 2014; MongoDB's and Hunter's use of it) needs longer series
// and all of them at once: with the twenty runs that a configuration lives in
// practice its permutation test has no power at the end, where a regression must
// be found. CUSUM (Page 1954) needs a level and a variance known in advance. The
// two-sample test at the end of the series keeps E-divisive's question and the
// small sample's exact answer; the cumulative sum only says where, once it is
// known that.
//
// It must know nothing of runs, metrics or databases.
package shift

import (
	"math"
	"slices"

	// The Go team's benchmark statistics: an exact Mann–Whitney test.
	"golang.org/x/perf/benchmath"
)

// Method and Version name what a stored change point was found with. Version
// changes with any constant below.
const (
	Method  = "mann-whitney window"
	Version = 1
)

// Options are the limits of the method.
type Options struct {
	MinPct float64 // smallest shift, per cent
	Noise  float64 // smallest shift, robust standard deviations of the values before
	Alpha  float64 // largest p of the test
}

// Default is what the stored change points use. The figures behind it are those
// of TestShiftsOnHistory in package warehouse.
func Default() Options { return Options{MinPct: 4, Noise: 1.5, Alpha: 0.02} }

// The windows: how many values must stand apart, from how many before.
var (
	afterSizes  = []int{4, 5}
	beforeSizes = []int{5, 8, 20}
)

// MaxBefore and MaxAfter are how far back the method looks from a value.
const (
	MaxBefore = 20
	MaxAfter  = 5
)

// A Shift is a change of level.
type Shift struct {
	At     int     // index of the first value of the new level
	Found  int     // index of the value that showed it
	Before int     // values of the old level that were looked at
	Pct    float64 // Hodges–Lehmann shift, per cent, signed
	P      float64 // of the hypothesis that nothing changed
	// medians of the values looked at, before At and from there on
	BeforeMid, AfterMid float64
}

// Find returns the shifts of a series in the order of time. Values must be
// positive; others are passed over as if they had not been measured.
func (o Options) Find(values []float64) []Shift {
	var found []Shift
	start := 0
	for n := range values {
		if s, ok := o.Last(values[start : n+1]); ok {
			s.At, s.Found = s.At+start, n
			found = append(found, s)
			start = s.At
		}
	}
	return found
}

// Last says whether the last value of a series completes a shift. values must
// begin no earlier than the last shift before it.
func (o Options) Last(values []float64) (Shift, bool) {
	var best Shift
	ok := false
	for _, k := range afterSizes {
		cut := len(values) - k
		if cut < beforeSizes[0] {
			break
		}
		after := values[cut:]
		seen := 0
		for _, size := range beforeSizes {
			before := values[max(0, cut-size):cut]
			if len(before) == seen {
				break // no longer window than the last
			}
			seen = len(before)
			if s, apart := o.compare(before, after); apart && (!ok || s.P < best.P) {
				window := values[cut-len(before):]
				at := turn(window)
				s.At, s.Found = cut-len(before)+at, len(values)-1
				s.Before, s.BeforeMid, s.AfterMid = at, median(window[:at]), median(window[at:])
				best, ok = s, true
			}
		}
	}
	return best, ok
}

func (o Options) compare(before, after []float64) (Shift, bool) {
	mid := median(before)
	if mid <= 0 {
		return Shift{}, false
	}
	pct := hodgesLehmann(before, after)
	if math.IsNaN(pct) || math.Abs(pct) < o.MinPct || math.Abs(pct) < o.Noise*100*spread(before, mid)/mid {
		return Shift{}, false
	}
	t := &benchmath.Thresholds{CompareAlpha: o.Alpha}
	// NewSample sorts what it is given
	p := benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(before), t), benchmath.NewSample(slices.Clone(after), t)).P
	if p > o.Alpha {
		return Shift{}, false
	}
	return Shift{Pct: pct, P: p}, true
}

// turn is where the level of values most likely changes: where the cumulative sum
// of their deviations from the mean is farthest from 0 (Page 1954, Pettitt 1979).
func turn(values []float64) int {
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	at, far, sum := 1, -1.0, 0.0
	for i, v := range values[:len(values)-1] {
		sum += v - mean
		if math.Abs(sum) > far {
			at, far = i+1, math.Abs(sum)
		}
	}
	return at
}

// hodgesLehmann is the median of all ratios after/before, as a change in per
// cent.
func hodgesLehmann(before, after []float64) float64 {
	ratios := make([]float64, 0, len(before)*len(after))
	for _, b := range before {
		for _, a := range after {
			if b > 0 && a > 0 {
				ratios = append(ratios, a/b)
			}
		}
	}
	if len(ratios) == 0 {
		return math.NaN()
	}
	return 100 * (median(ratios) - 1)
}

// spread is a robust standard deviation: 1.4826 times the median absolute
// deviation.
func spread(values []float64, mid float64) float64 {
	d := make([]float64, len(values))
	for i, v := range values {
		d[i] = math.Abs(v - mid)
	}
	return 1.4826 * median(d)
}

func median(values []float64) float64 {
	s := slices.Clone(values)
	slices.Sort(s)
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
