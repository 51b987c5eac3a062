package check

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/strictjson"
)

// A Reading is what one GPU reported at one moment. Nil was not reported: the tool
// says "N/A", or has no such key.
type Reading struct {
	GPU         int      `json:"gpu"`
	GFXPct      *float64 `json:"gfx_pct,omitempty"` // compute activity, percent
	UMCPct      *float64 `json:"umc_pct,omitempty"` // memory controller activity, percent
	MMPct       *float64 `json:"mm_pct,omitempty"`  // media activity, percent
	UsedVRAMMB  *float64 `json:"used_vram_mb,omitempty"`
	FreeVRAMMB  *float64 `json:"free_vram_mb,omitempty"`
	TotalVRAMMB *float64 `json:"total_vram_mb,omitempty"`
	PowerW      *float64 `json:"power_w,omitempty"`  // socket
	EnergyJ     *float64 `json:"energy_j,omitempty"` // counter since the driver was loaded
	HotspotC    *float64 `json:"hotspot_c,omitempty"`
	MemC        *float64 `json:"mem_c,omitempty"`
	GFXMHz      *float64 `json:"gfx_mhz,omitempty"` // compute clock, mean over the GPU's dies
	// Throttled reports whether any limit is violated now; nil when the tool says
	// nothing about it. Limits names them.
	Throttled *bool    `json:"throttled,omitempty"`
	Limits    []string `json:"limits,omitempty"`
	// Accumulated counts throttling since the driver was loaded, by limit (ppt,
	// socket_thermal, …); its unit is the firmware's.
	Accumulated   map[string]float64 `json:"throttle_accumulated,omitempty"`
	Uncorrectable *float64           `json:"ecc_uncorrectable,omitempty"` // errors since the driver was loaded
}

// empty reports that a GPU told nothing that can be used.
func (r Reading) empty() bool {
	return r.GFXPct == nil && r.UMCPct == nil && r.UsedVRAMMB == nil && r.PowerW == nil && r.EnergyJ == nil && r.TotalVRAMMB == nil && r.Throttled == nil && r.HotspotC == nil
}

// SMIFields are the scalar values that amd-smi reported for one GPU: lower-case
// path, such as usage.gfx_activity, to text with its unit, such as "97 %". Items of
// lists are left out.
type SMIFields struct {
	GPU    int
	Values map[string]string
}

// The most of its output that is read, and the GPUs a host can have.
const (
	maxSMI  = 16 << 20
	maxGPUs = 256
)

// ParseSMI reads the JSON of amd-smi metric: a list of GPUs, or an object with
// gpu_data. Values are {"value": 97, "unit": "%"} or plain. Cut-off JSON is an error
// that says where it ends.
func ParseSMI(data []byte) ([]SMIFields, error) {
	v, _, err := strictjson.Parse(data, strictjson.Options{NonFinite: true, KeepDuplicates: true, MaxBytes: maxSMI})
	if err != nil {
		return nil, fmt.Errorf("amd-smi: not whole JSON: %w", err)
	}
	if v.Kind == strictjson.Object {
		if v = v.Get("gpu_data"); v == nil {
			return nil, errors.New("amd-smi: an object without gpu_data")
		}
	}
	if v.Kind != strictjson.Array {
		return nil, fmt.Errorf("amd-smi: a %s, expected a list of GPUs", v.Kind)
	}
	var out []SMIFields
	for i, g := range v.Items {
		if g.Kind != strictjson.Object || len(out) == maxGPUs {
			continue
		}
		f := SMIFields{GPU: i, Values: map[string]string{}}
		if n, err := g.Get("gpu").Float(); err == nil && n >= 0 && n < maxGPUs {
			f.GPU = int(n)
		}
		flatten("", g, f.Values)
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, errors.New("amd-smi: it lists no GPU")
	}
	return out, nil
}

func flatten(path string, v *strictjson.Value, into map[string]string) {
	switch v.Kind {
	case strictjson.Object:
		if val := v.Get("value"); val != nil && val.Kind != strictjson.Object && val.Kind != strictjson.Array {
			text := val.Text
			if u := v.Get("unit"); u != nil && u.Kind == strictjson.String && u.Text != "" {
				text += " " + u.Text
			}
			into[path] = text
			return
		}
		for _, m := range v.Members {
			name := strings.ToLower(m.Name)
			if path != "" {
				name = path + "." + name
			}
			flatten(name, m.Value, into)
		}
	case strictjson.Number, strictjson.String:
		into[path] = v.Text
	case strictjson.Bool:
		into[path] = strconv.FormatBool(v.Bool)
	}
}

var smiLine = regexp.MustCompile(`^( *)([A-Za-z][A-Za-z0-9_ ]*?): ?(.*)$`)

// ParseSMIText reads what amd-smi prints for people: blocks of "GPU: n" with keys
// nested by four spaces, or the tables of amd-smi monitor and amd-smi xgmi.
func ParseSMIText(text string) ([]SMIFields, error) {
	if len(text) > maxSMI {
		return nil, errors.New("amd-smi: the output is too long")
	}
	if strings.Contains(text, linkTitle) {
		return parseLinks(text)
	}
	var out []SMIFields
	var path []string
	var columns []string
	inList := false
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \r")
		if inList { // lists wrap over lines
			inList = !strings.HasSuffix(line, "]")
			continue
		}
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "$" {
			continue
		}
		if words[0] == "GPU" && len(words) > 1 {
			columns = words
			continue
		}
		if columns != nil {
			if f, ok := tableRow(columns, words); ok && len(out) < maxGPUs {
				out = append(out, f)
			}
			continue
		}
		m := smiLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		depth, key, value := len(m[1])/4, strings.ToLower(m[2]), strings.TrimSpace(m[3])
		if depth == 0 && key == "gpu" {
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n >= maxGPUs || len(out) == maxGPUs {
				return nil, fmt.Errorf("amd-smi: %q is no GPU", clip(value, 40))
			}
			out = append(out, SMIFields{GPU: n, Values: map[string]string{}})
			path = nil
			continue
		}
		if len(out) == 0 || depth == 0 || depth > len(path)+1 || depth > 8 {
			continue
		}
		path = append(path[:depth-1], key)
		switch {
		case strings.HasPrefix(value, "["):
			inList = !strings.HasSuffix(value, "]")
		case value != "":
			out[len(out)-1].Values[strings.Join(path, ".")] = value
		}
	}
	if len(out) == 0 {
		return nil, errors.New("amd-smi: it lists no GPU")
	}
	return out, nil
}

// monitorColumns are the columns of amd-smi monitor under the paths of amd-smi
// metric.
var monitorColumns = map[string]string{
	"POWER": "power.socket_power", "PWR": "power.socket_power", "GPU_TEMP": "temperature.hotspot", "GPU_T": "temperature.hotspot",
	"MEM_TEMP": "temperature.mem", "MEM_T": "temperature.mem", "VRAM_USED": "mem_usage.used_vram", "VRAM_TOTAL": "mem_usage.total_vram",
	"GFX_UTIL": "usage.gfx_activity", "GFX%": "usage.gfx_activity", "MEM_UTIL": "usage.umc_activity", "MEM%": "usage.umc_activity",
}

// tableRow reads one row: a value a column, each with or without its unit.
func tableRow(columns, words []string) (SMIFields, bool) {
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 0 || n >= maxGPUs {
		return SMIFields{}, false
	}
	f := SMIFields{GPU: n, Values: map[string]string{}}
	for i, value := range row(words[1:], len(columns)-1) {
		if path := monitorColumns[columns[i+1]]; path != "" {
			f.Values[path] = value
		}
	}
	return f, true
}

// startsValue reports that a word is a value, not the unit of the one before.
func startsValue(w string) bool {
	return w == "N/A" || w[0] >= '0' && w[0] <= '9' || w[0] == '-'
}

// units converts to MB, W, J, °C and percent.
var units = map[string]float64{
	"": 1, "%": 1, "MB": 1, "MIB": 1, "GB": 1024, "GIB": 1024, "KB": 1.0 / 1024, "B": 1.0 / (1 << 20),
	"W": 1, "MW": 1e-3, "KW": 1e3, "J": 1, "KJ": 1e3, "°C": 1, "C": 1, "MHZ": 1, "GHZ": 1e3,
}

// quantity reads "97 %"; nil for "N/A" and whatever is no number.
func quantity(text string) *float64 {
	i := strings.LastIndexAny(text, "0123456789.") + 1
	scale, known := units[strings.ToUpper(strings.TrimSpace(text[i:]))]
	f, err := strconv.ParseFloat(strings.TrimSpace(text[:i]), 64)
	if err != nil || !known || f < 0 || f > 1e18 {
		return nil
	}
	f *= scale
	return &f
}

// Reading picks what telemetry needs, under the names of all known versions.
func (f SMIFields) Reading() Reading {
	get := func(paths ...string) *float64 {
		for _, p := range paths {
			if q := quantity(f.Values[p]); q != nil {
				return q
			}
		}
		return nil
	}
	r := Reading{GPU: f.GPU,
		GFXPct: get("usage.gfx_activity"), UMCPct: get("usage.umc_activity"), MMPct: get("usage.mm_activity"),
		UsedVRAMMB: get("mem_usage.used_vram"), FreeVRAMMB: get("mem_usage.free_vram"), TotalVRAMMB: get("mem_usage.total_vram"),
		PowerW:   get("power.socket_power", "power.current_socket_power", "power.average_socket_power"),
		EnergyJ:  get("energy.total_energy_consumption"),
		HotspotC: get("temperature.hotspot"), MemC: get("temperature.mem"),
		Uncorrectable: get("ecc.total_uncorrectable_count"),
	}
	var clocks []point
	for path, text := range f.Values {
		if strings.HasPrefix(path, "clock.gfx_") && strings.HasSuffix(path, ".clk") {
			if q := quantity(text); q != nil {
				clocks = append(clocks, point{v: *q})
			}
		}
	}
	r.GFXMHz = meanOf(clocks)
	throttled, told := false, false
	for path, text := range f.Values {
		limit, ok := strings.CutPrefix(path, "throttle.")
		if !ok {
			if path == "power.throttle_status" && text != "N/A" {
				told = true
				throttled = throttled || text == "THROTTLED"
			}
			continue
		}
		if name, ok := strings.CutSuffix(limit, "_violation_status"); ok && text != "N/A" {
			told = true
			if text == "ACTIVE" {
				throttled = true
				r.Limits = append(r.Limits, name)
			}
		}
		if name, ok := strings.CutSuffix(limit, "_accumulated"); ok {
			if q := quantity(text); q != nil {
				if r.Accumulated == nil {
					r.Accumulated = map[string]float64{}
				}
				r.Accumulated[name] = *q
			}
		}
	}
	slices.Sort(r.Limits)
	if told {
		r.Throttled = &throttled
	}
	return r
}

// Readings reads what amd-smi metric printed, JSON or text.
func Readings(out []byte) ([]Reading, error) {
	text := strings.TrimSpace(string(out))
	var fields []SMIFields
	var err error
	if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
		fields, err = ParseSMI([]byte(text))
	} else {
		fields, err = ParseSMIText(text)
	}
	if err != nil {
		return nil, err
	}
	readings := make([]Reading, len(fields))
	for i, f := range fields {
		readings[i] = f.Reading()
	}
	return readings, nil
}
