package warehouse

import (
	"bytes"
	"encoding/json"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cvs/collect/artifact"
)

// The parts of the files below checks/ that are more than single values.

type gpuStats struct {
	Host         string   `json:"host"`
	GPU          *int32   `json:"gpu"`
	PeakVRAMMB   *float64 `json:"peak_vram_mb"`
	MeanGFXPct   *float64 `json:"mean_gfx_pct"`
	MeanUMCPct   *float64 `json:"mean_umc_pct"`
	MeanGFXMHz   *float64 `json:"mean_gfx_mhz"`
	MeanPowerW   *float64 `json:"mean_power_w"`
	PeakPowerW   *float64 `json:"peak_power_w"`
	PeakTempC    *float64 `json:"peak_hotspot_c"`
	EnergyJ      *float64 `json:"energy_j"`
	EnergyFrom   string   `json:"energy_from"`
	ThrottledPct *float64 `json:"throttled_pct"`
	Limits       []string `json:"limits"`
}

type telemetryFile struct {
	checkHeader
	Cell     string     `json:"cell"`
	Samples  int32      `json:"samples"`
	Problems int32      `json:"problems"`
	Seconds  *float64   `json:"seconds"`
	From     *time.Time `json:"from"`
	To       *time.Time `json:"to"`
	Total    gpuStats   `json:"total"`
	GPUs     []gpuStats `json:"gpus"`
}

type modelLoadFile struct {
	Host     string   `json:"host"`
	Session  int32    `json:"session"`
	Seconds  *float64 `json:"seconds"`
	MemoryMB *float64 `json:"memory_mb"`
	Notes    []string `json:"notes"`
}

type kernelFile struct {
	Host   string `json:"host"`
	Events []struct {
		Time     *time.Time `json:"time"`
		Group    string     `json:"group"`
		Severity string     `json:"severity"`
		Count    int32      `json:"count"`
		Line     string     `json:"line"`
	} `json:"events"`
	Records []struct {
		Source   string     `json:"source"`
		Time     *time.Time `json:"time"`
		Severity string     `json:"severity"`
		Lines    []string   `json:"lines"`
	} `json:"records"`
}

type needleFile struct {
	checkHeader
	ID          string   `json:"id"`
	ISL         int32    `json:"isl"`
	Depth       float64  `json:"depth"`
	Correct     int32    `json:"correct"`
	Errors      int32    `json:"errors"`
	Total       int32    `json:"total"`
	PassRate    *float64 `json:"pass_rate"`
	CILow       *float64 `json:"ci_low"`
	CIHigh      *float64 `json:"ci_high"`
	Calibration *struct {
		Exact bool `json:"exact"`
	} `json:"calibration"`
}

// quality loads what a check's file holds beside its single values. The file was
// read before, so that it is known to be one.
func (b *batch) quality(check string, r artifact.Result) error {
	id := b.meta.RunID
	switch check {
	case "gpu":
		f, err := decodeCheck[telemetryFile](r.Data)
		if err != nil {
			return err
		}
		repeat := repeatOf(r.Path)
		for _, s := range append([]gpuStats{f.Total}, f.GPUs...) {
			var gpu any
			if s.GPU != nil {
				gpu = *s.GPU
			}
			b.add("gpu_stat", id, valid(f.Cell), repeat, valid(s.Host), gpu, valid(string(f.Status)), str(f.Reason), f.Samples, f.Problems, instant(f.From), instant(f.To), num(f.Seconds),
				num(s.PeakVRAMMB), num(s.MeanGFXPct), num(s.MeanUMCPct), num(s.MeanGFXMHz), num(s.MeanPowerW), num(s.PeakPowerW), num(s.PeakTempC), num(s.EnergyJ),
				str(s.EnergyFrom), num(s.ThrottledPct), str(strings.Join(s.Limits, ", ")), valid(r.Path))
		}
		b.points(f.Cell, repeat, strings.TrimSuffix(r.Path, ".json")+".jsonl")
	case "gpu_load":
		f, err := decodeCheck[modelLoadFile](r.Data)
		if err != nil {
			return err
		}
		b.add("model_load", id, f.Session, valid(f.Host), num(f.Seconds), num(f.MemoryMB), str(strings.Join(f.Notes, "; ")), valid(r.Path))
	case "dmesg":
		f, err := decodeCheck[kernelFile](r.Data)
		if err != nil {
			return err
		}
		b.kernelEvents(f, r.Path)
	case "long_context_accuracy":
		f, err := decodeCheck[needleFile](r.Data)
		if err != nil {
			return err
		}
		var exact any
		if f.Calibration != nil {
			exact = f.Calibration.Exact
		}
		b.add("needle", id, valid(f.ID), f.ISL, int32(math.Round(100*min(max(f.Depth, 0), 1))), valid(string(f.Status)), str(f.Reason), f.Correct, f.Errors, f.Total,
			num(f.PassRate), num(f.CILow), num(f.CIHigh), exact, valid(r.Path))
	}
	return nil
}

var repeatSuffix = regexp.MustCompile(`\.repeat(\d{1,6})\.json$`)

func repeatOf(name string) int32 {
	if m := repeatSuffix.FindStringSubmatch(name); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 32) // digits
		return int32(n)
	}
	return 1
}

func instant(t *time.Time) any {
	if t == nil || t.Year() < 1970 || t.Year() > 9999 {
		return nil
	}
	return t.UTC()
}

// maxKernelLines bounds what is kept of one host's log for reading; the whole
// log lies beside the result.
const maxKernelLines = 200

// kernelEvents keeps what the scan found: first what is told in several lines,
// errors before warnings within the bound.
func (b *batch) kernelEvents(f kernelFile, path string) {
	left := maxKernelLines
	add := func(at *time.Time, severity, source string, count int32, line string) {
		if left > 0 {
			left--
			b.add("kernel_event", b.meta.RunID, int32(len(b.rows["kernel_event"])+1), valid(f.Host), instant(at), valid(severity), valid(source), max(count, 1), valid(line), valid(path))
		}
	}
	for _, severity := range []string{"error", "warning"} {
		for _, r := range f.Records {
			if r.Severity != severity {
				continue
			}
			for _, line := range r.Lines {
				add(r.Time, r.Severity, "hardware error ("+r.Source+")", 1, line)
			}
		}
		for _, e := range f.Events {
			if e.Severity == severity {
				add(e.Time, e.Severity, e.Group, e.Count, e.Line)
			}
		}
	}
}

// maxPoints is how many moments of a cell are kept for each host; what was sampled
// more often is averaged.
const maxPoints = 60

// A gpuMoment is one line of the samples.
type gpuMoment struct {
	Host string    `json:"host"`
	Time time.Time `json:"time"`
	GPUs []struct {
		PowerW *float64 `json:"power_w"`
		GFXPct *float64 `json:"gfx_pct"`
		UsedMB *float64 `json:"used_vram_mb"`
		HotC   *float64 `json:"hotspot_c"`
		GFXMHz *float64 `json:"gfx_mhz"`
	} `json:"gpus"`
}

// points loads the course of a cell's telemetry from the samples beside the
// summary. Lines that are none are left to the summary, which counted them.
func (b *batch) points(cell string, repeat int32, name string) {
	var hosts []string
	byHost := map[string][]gpuMoment{}
	for _, r := range b.run.Checks {
		if r.Path != name {
			continue
		}
		for line := range bytes.Lines(r.Data) {
			var m gpuMoment
			if json.Unmarshal(line, &m) != nil || len(m.GPUs) == 0 || instant(&m.Time) == nil {
				continue
			}
			if byHost[m.Host] == nil {
				hosts = append(hosts, m.Host)
			}
			byHost[m.Host] = append(byHost[m.Host], m)
		}
	}
	for _, host := range hosts {
		list := byHost[host]
		size := (len(list) + maxPoints - 1) / maxPoints
		for n := 0; n*size < len(list); n++ {
			part := list[n*size : min((n+1)*size, len(list))]
			var power, gfx, used, hot, clock mean
			for _, m := range part {
				var p, u, g, c mean
				var peak *float64
				for _, x := range m.GPUs {
					p.add(x.PowerW)
					g.add(x.GFXPct)
					u.add(x.UsedMB)
					c.add(x.GFXMHz)
					if peak == nil || x.HotC != nil && *x.HotC > *peak {
						peak = x.HotC
					}
				}
				power.add(p.total())
				used.add(u.total())
				gfx.add(g.mean())
				clock.add(c.mean())
				hot.add(peak)
			}
			b.add("gpu_point", b.meta.RunID, valid(cell), repeat, valid(host), int32(n+1), part[0].Time.UTC(), num(power.mean()), num(gfx.mean()), num(used.mean()), num(hot.mean()), num(clock.mean()))
		}
	}
}

// A mean adds up the values that are there.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v *float64) {
	if v != nil {
		m.sum += *v
		m.n++
	}
}

func (m *mean) total() *float64 {
	if m.n == 0 {
		return nil
	}
	return &m.sum
}

func (m *mean) mean() *float64 {
	if m.n == 0 {
		return nil
	}
	v := m.sum / float64(m.n)
	return &v
}

// checkName is what a file below checks/ calls itself.
func checkName(r artifact.Result) (checkHeader, bool, error) {
	var h checkHeader
	if path.Ext(r.Path) != ".json" {
		return h, false, nil
	}
	err := json.Unmarshal(r.Data, &h)
	return h, true, err
}
