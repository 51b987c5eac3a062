package check

import (
	"slices"
	"time"
)

func larger(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// A point is one value at one time.
type point struct {
	t time.Time
	v float64
}

// perGPU sums up each GPU of one host, in the order of first mention.
func perGPU(host string, samples []GPUSample, h *Header) []GPUStats {
	var ids []int
	for _, s := range samples {
		for _, g := range s.GPUs {
			if !slices.Contains(ids, g.GPU) {
				ids = append(ids, g.GPU)
			}
		}
	}
	var out []GPUStats
	for _, id := range ids {
		series := func(value func(Reading) *float64) (p []point) {
			for _, s := range samples {
				for _, g := range s.GPUs {
					if v := value(g); g.GPU == id && v != nil {
						p = append(p, point{s.Time, *v})
					}
				}
			}
			return p
		}
		power := series(func(r Reading) *float64 { return r.PowerW })
		st := GPUStats{Host: host, GPU: &id,
			PeakVRAMMB: peakOf(series(func(r Reading) *float64 { return r.UsedVRAMMB })),
			MeanGFXPct: meanOf(series(func(r Reading) *float64 { return r.GFXPct })),
			MeanUMCPct: meanOf(series(func(r Reading) *float64 { return r.UMCPct })),
			MeanPowerW: meanOf(power), PeakPowerW: peakOf(power),
			PeakTempC:  peakOf(series(func(r Reading) *float64 { return r.HotspotC })),
			MeanGFXMHz: meanOf(series(func(r Reading) *float64 { return r.GFXMHz })),
		}
		st.energy(series(func(r Reading) *float64 { return r.EnergyJ }), power, h)
		st.throttle(samples)
		out = append(out, st)
	}
	return out
}

func peakOf(p []point) (peak *float64) {
	for i := range p {
		peak = larger(peak, &p[i].v)
	}
	return peak
}

func meanOf(p []point) *float64 {
	if len(p) == 0 {
		return nil
	}
	var sum float64
	for _, x := range p {
		sum += x.v
	}
	sum /= float64(len(p))
	return &sum
}

// energy takes the counter's growth; where there is no counter, or it went
// backwards (a reset of the driver), the power is integrated by trapezoids.
func (st *GPUStats) energy(counter, power []point, h *Header) {
	if len(counter) >= 2 {
		used, backwards := counter[len(counter)-1].v-counter[0].v, false
		for i := 1; i < len(counter); i++ {
			backwards = backwards || counter[i].v < counter[i-1].v
		}
		// A counter that stands still while power is drawn does not count.
		if !backwards && (used > 0 || len(power) == 0) {
			st.EnergyJ, st.EnergyFrom = &used, "counter"
			return
		}
		if backwards {
			h.note("%s GPU %d: the energy counter went backwards and is not used", st.Host, *st.GPU)
		}
	}
	if len(power) < 2 {
		return
	}
	var joules float64
	for i := 1; i < len(power); i++ {
		joules += (power[i].v + power[i-1].v) / 2 * power[i].t.Sub(power[i-1].t).Seconds()
	}
	if joules >= 0 { // a clock set back makes nonsense
		st.EnergyJ, st.EnergyFrom = &joules, "power"
	}
}

func (st *GPUStats) throttle(samples []GPUSample) {
	told, active := 0, 0
	first, last := map[string]float64{}, map[string]float64{}
	for _, s := range samples {
		for _, g := range s.GPUs {
			if g.GPU != *st.GPU {
				continue
			}
			if g.Throttled != nil {
				told++
				if *g.Throttled {
					active++
				}
			}
			for _, l := range g.Limits {
				if !slices.Contains(st.Limits, l) {
					st.Limits = append(st.Limits, l)
				}
			}
			for name, v := range g.Accumulated {
				if _, ok := first[name]; !ok {
					first[name] = v
				}
				last[name] = v
			}
		}
	}
	slices.Sort(st.Limits)
	if told > 0 {
		pct := 100 * float64(active) / float64(told)
		st.ThrottledPct = &pct
	}
	for name, v := range last {
		if grown := v - first[name]; grown >= 0 {
			if st.Accumulated == nil {
				st.Accumulated = map[string]float64{}
			}
			st.Accumulated[name] = grown
		}
	}
}

// total sums up GPUs; the peak of memory is not theirs to add, since GPUs peak at
// different times.
func total(gpus []GPUStats) GPUStats {
	mean := func(value func(GPUStats) *float64) *float64 {
		var p []point
		for _, g := range gpus {
			if v := value(g); v != nil {
				p = append(p, point{v: *v})
			}
		}
		return meanOf(p)
	}
	t := GPUStats{
		MeanGFXPct: mean(func(g GPUStats) *float64 { return g.MeanGFXPct }),
		MeanUMCPct: mean(func(g GPUStats) *float64 { return g.MeanUMCPct }),
		MeanGFXMHz: mean(func(g GPUStats) *float64 { return g.MeanGFXMHz }),
		MeanPowerW: sum(gpus, func(g GPUStats) *float64 { return g.MeanPowerW }),
		PeakPowerW: sum(gpus, func(g GPUStats) *float64 { return g.PeakPowerW }),
	}
	whole, from := true, ""
	for _, g := range gpus {
		t.PeakTempC = larger(t.PeakTempC, g.PeakTempC)
		t.ThrottledPct = larger(t.ThrottledPct, g.ThrottledPct)
		for _, l := range g.Limits {
			if !slices.Contains(t.Limits, l) {
				t.Limits = append(t.Limits, l)
			}
		}
		for name, v := range g.Accumulated {
			if t.Accumulated == nil {
				t.Accumulated = map[string]float64{}
			}
			t.Accumulated[name] += v
		}
		whole = whole && g.EnergyJ != nil
		switch {
		case from == "":
			from = g.EnergyFrom
		case from != g.EnergyFrom:
			from = "mixed"
		}
	}
	slices.Sort(t.Limits)
	if whole {
		t.EnergyJ, t.EnergyFrom = sum(gpus, func(g GPUStats) *float64 { return g.EnergyJ }), from
	}
	return t
}
