package lab

import (
	"math"
	"slices"
)

// A sample is a set of measurements, sorted once. The empty sample behaves as
// numpy does for the literal 0 the clients put in its place: every figure is 0.
type sample []float64

func newSample(v []float64) sample {
	if len(v) == 0 {
		return sample{0}
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return s
}

func (s sample) mean() float64 { return sumOf(s) / float64(len(s)) }

// std is the population standard deviation, numpy's default.
func (s sample) std() float64 {
	m, t := s.mean(), 0.0
	for _, v := range s {
		t += (v - m) * (v - m)
	}
	return math.Sqrt(t / float64(len(s)))
}

// percentile interpolates linearly between order statistics, numpy's default.
func (s sample) percentile(p float64) float64 {
	at := p / 100 * float64(len(s)-1)
	lo := int(math.Floor(at))
	hi := min(lo+1, len(s)-1)
	return s[lo] + (at-float64(lo))*(s[hi]-s[lo])
}

func sumOf(v []float64) float64 {
	t := 0.0
	for _, x := range v {
		t += x
	}
	return t
}
