package shift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A noise makes the values of a series whose level is 100. losses is how many may
// be reported per 1,000 comparisons, found how many losses of 8 % in a hundred must
// be: what the method does, not what one would wish.
type noise struct {
	name          string
	losses, found float64
	next          func(*rand.Rand) func(i int) float64
}

// white is noise without memory: draw has mean 0 and is in per cent.
func white(draw func(*rand.Rand) float64) func(*rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return 100 + draw(r) }
	}
}

func normal(sd float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return sd * r.NormFloat64() }
}

// student has three degrees of freedom: single values far out are ordinary.
func student(scale float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		c := 0.0
		for range 3 {
			x := r.NormFloat64()
			c += x * x
		}
		return scale * r.NormFloat64() / math.Sqrt(c/3)
	}
}

// ar1 remembers: each value carries phi of what the last one was off by. sd is that
// of the values.
func ar1(phi, sd float64) func(*rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		x := sd * r.NormFloat64()
		return func(int) float64 {
			x = phi*x + math.Sqrt(1-phi*phi)*sd*r.NormFloat64()
			return 100 + x
		}
	}
}

// flapping has two levels, as of two nodes; each value is at the other one than the
// value before with probability p.
func flapping(gap, p, sd float64) func(*rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		low := r.Float64() < 0.5
		return func(int) float64 {
			if r.Float64() < p {
				low = !low
			}
			v := 100 + sd*r.NormFloat64()
			if low {
				v -= gap
			}
			return v
		}
	}
}

func noises() []noise {
	return []noise{
		{"normal, 0.5 %", 0, 100, white(normal(0.5))},
		{"normal, 1 %", 0.5, 100, white(normal(1))},
		{"normal, 2 %", 5, 100, white(normal(2))},
		{"normal, 3 %", 15, 97, white(normal(3))},
		{"Student t, 3 df, 1 %", 2, 99, white(student(1))},
		{"Student t, 3 df, 2 %", 10, 97, white(student(2))},
		{"normal, 1 %, every tenth 15 to 40 % down", 5, 93, white(func(r *rand.Rand) float64 {
			if r.IntN(10) == 0 {
				return -15 - 25*r.Float64()
			}
			return r.NormFloat64()
		})},
		{"AR(1) 0.3, 1 %", 1, 100, ar1(0.3, 1)},
		{"AR(1) 0.5, 1 %", 1, 100, ar1(0.5, 1)},
		{"AR(1) 0.5, 2 %", 20, 95, ar1(0.5, 2)},
		{"AR(1) 0.8, 1 %", 1, 100, ar1(0.8, 1)},
		{"AR(1) 0.8, 2 %", 20, 95, ar1(0.8, 2)},
		{"two levels 4 % apart, at random", 14, 98, flapping(4, 0.5, 0.5)},
		{"two levels 6 % apart, at random", 17, 93, flapping(6, 0.5, 0.5)},
		{"two levels 6 % apart, sticky", 35, 80, flapping(6, 0.2, 0.5)},
		{"normal, 1 %, rounded to whole numbers", 0, 100, func(r *rand.Rand) func(int) float64 {
			return func(int) float64 { return math.Round(100 + r.NormFloat64()) }
		}},
		{"normal, 1 %, rounded to fives", 0, 100, func(r *rand.Rand) func(int) float64 {
			return func(int) float64 { return 5 * math.Round((100+r.NormFloat64())/5) }
		}},
		{"normal, 1 %, first three 10 % lower", 0.5, 100, func(r *rand.Rand) func(int) float64 {
			return func(i int) float64 {
				v := 100 + r.NormFloat64()
				if i < 3 {
					v -= 10
				}
				return v
			}
		}},
		{"normal, 1 %, first seven 10 % higher", 26, 93, func(r *rand.Rand) func(int) float64 {
			return func(i int) float64 {
				v := 100 + r.NormFloat64()
				if i < 7 {
					v += 10
				}
				return v
			}
		}},
		{"normal, 1 %, slow warm-up over ten", 0.5, 98, func(r *rand.Rand) func(int) float64 {
			return func(i int) float64 { return 100 + r.NormFloat64() - 8*math.Exp(-float64(i)/3) }
		}},
		{"uniform, 3 % either way", 5, 100, white(func(r *rand.Rand) float64 { return 6*r.Float64() - 3 })},
	}
}

// TestNoise measures the method on made-up series whose noise is not that of the
// history on which the limits were chosen. -v prints the table.
func TestNoise(t *testing.T) {
	t.Parallel()
	const n, runs = 80, 40
	sizes := []float64{3, 5, 8, 12, 20}
	var out strings.Builder
	fmt.Fprintf(&out, "%-42s %6s %6s   %s\n", "", "losses", "gains", "losses found within five runs: 3, 5, 8, 12, 20 %")
	for _, kind := range noises() {
		r := rand.New(rand.NewPCG(5, 6))
		losses, gains := 0, 0
		found := make([]int, len(sizes))
		for range n {
			next := kind.next(r)
			values := make([]float64, runs)
			for i := range values {
				values[i] = next(i)
			}
			for _, s := range Default().Find(values, Lower) {
				if s.Pct < 0 {
					losses++
				} else {
					gains++
				}
			}
			at := 8 + r.IntN(runs-12)
			for k, pct := range sizes {
				if lossFound(values, at, pct) {
					found[k]++
				}
			}
		}
		per1000 := 1000 / float64(n*(runs-1))
		fmt.Fprintf(&out, "%-42s %6.1f %6.1f  ", kind.name, per1000*float64(losses), per1000*float64(gains))
		for _, f := range found {
			fmt.Fprintf(&out, " %5.1f", 100*float64(f)/n)
		}
		out.WriteString("\n")
		if got := per1000 * float64(losses); got > kind.losses {
			t.Errorf("%s: %.1f losses per 1,000 comparisons, want at most %v", kind.name, got, kind.losses)
		}
		if got := 100 * float64(found[2]) / n; got < kind.found {
			t.Errorf("%s: %.1f %% of the losses of 8 %% were found, want %v", kind.name, got, kind.found)
		}
	}
	t.Log("\n" + out.String())
}

// lossFound says whether a loss of pct from values[at] on is found within five
// values.
func lossFound(values []float64, at int, pct float64) bool {
	shifted := slices.Clone(values[:at+5])
	for i := at; i < len(shifted); i++ {
		shifted[i] *= 1 - pct/100
	}
	return slices.ContainsFunc(Default().Find(shifted, Lower), func(s Shift) bool {
		return s.Pct < 0 && s.Found >= at && s.At >= at-5
	})
}
