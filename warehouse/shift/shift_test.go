package shift

import (
	"math/rand/v2"
	"testing"
)

func level(n int, at, spread float64, r *rand.Rand) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = at * (1 + spread*r.NormFloat64())
	}
	return out
}

func TestFind(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	steady := level(12, 100, 0.01, r)
	tests := []struct {
		name   string
		values []float64
		bad    Bad
		at     []int // first values of the new levels; found within five
	}{
		{"steady", level(40, 100, 0.01, r), Lower, nil},
		{"constant", []float64{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, Lower, nil},
		{"too short", []float64{100, 100, 100, 100, 50, 50, 50, 50}, Lower, nil},
		{"down 8 %", append(steady[:12:12], level(8, 92, 0.01, r)...), Lower, []int{12}},
		{"up 20 %", append(steady[:12:12], level(8, 120, 0.01, r)...), Lower, []int{12}},
		{"one outlier", append(append(steady[:12:12], 60), level(8, 100, 0.01, r)...), Lower, nil},
		{"two outliers", append(append(steady[:12:12], 60, 62), level(8, 100, 0.01, r)...), Lower, nil},
		{"down and up again", append(append(steady[:12:12], level(10, 80, 0.01, r)...), level(10, 100, 0.01, r)...), Lower, []int{12, 22}},
		{"a loss of 4 %", append(steady[:12:12], level(8, 96, 0.01, r)...), Lower, []int{12}},
		{"latency up 4 %", append(steady[:12:12], level(8, 104, 0.01, r)...), Higher, []int{12}},
		{"a gain of 3.5 % is too small", append(steady[:12:12], 103.4, 103.6, 103.5, 103.4, 103.6, 103.5, 103.4), Lower, nil},
		{"a loss of 3.5 %", append(steady[:12:12], 96.4, 96.6, 96.5, 96.4, 96.6, 96.5, 96.4), Lower, []int{12}},
		{"neither is worse", append(steady[:12:12], 96.4, 96.6, 96.5, 96.4, 96.6, 96.5, 96.4), Neither, nil},
		{"20 % shows by the third", append(steady[:12:12], 80, 81, 80), Lower, []int{12}},
		{"4 % does not", append(steady[:12:12], 96, 96.1, 96), Lower, nil},
		{"ranks overlap by one", []float64{100, 101, 99, 91.5, 100, 101, 100, 91.8, 92.1, 92, 91, 92}, Lower, []int{7}},
		{"not measured", []float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, Lower, nil},
	}
	for _, tt := range tests {
		got := Default().Find(tt.values, tt.bad)
		if len(got) != len(tt.at) {
			t.Errorf("%s: found %+v, want shifts at %v", tt.name, got, tt.at)
			continue
		}
		for i, s := range got {
			if s.At < tt.at[i]-1 || s.At > tt.at[i]+1 || s.Found > tt.at[i]+4 || s.P > 0.1 {
				t.Errorf("%s: %+v, want at %d, seen by %d", tt.name, s, tt.at[i], tt.at[i]+4)
			}
		}
	}
}

// TestLast holds that looking again from the last shift on, and only as far back
// as the method does, gives what the whole series gave: a warehouse that grows
// run by run must find what one that is built at once finds.
func TestLast(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	values := append(append(level(60, 100, 0.02, r), level(40, 90, 0.02, r)...), level(50, 103, 0.02, r)...)
	want := Default().Find(values, Lower)
	if len(want) < 2 {
		t.Fatalf("found %+v", want)
	}
	var got []Shift
	start := 0
	for n := range values {
		from := max(start, n+1-MaxBefore-MaxAfter)
		if s, ok := Default().Last(values[from:n+1], Lower); ok {
			s.At, s.Found = s.At+from, n
			got = append(got, s)
			start = s.At
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d shifts step by step, %d at once", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("step by step %+v, at once %+v", got[i], want[i])
		}
	}
}

// TestDrift holds that a slow decline, of which no single step is out of the
// noise, is found in the end.
func TestDrift(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	values := level(40, 100, 0.01, r)
	for i := range values {
		values[i] *= 1 - 0.004*float64(max(0, i-15))
	}
	found := Default().Find(values, Lower)
	if len(found) == 0 || found[0].Pct > 0 {
		t.Errorf("a decline of 0.4 %% a run from run 15 on: %+v", found)
	}
}
