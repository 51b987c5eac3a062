package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A gpuLoad is what a running server says about the GPUs, in gpu/<id>.json of
// the node's folder. amd-smi reads it.
type gpuLoad struct {
	At     time.Time `json:"at"`
	GPUs   int       `json:"gpus"`   // of this node that the server uses
	Busy   float64   `json:"busy"`   // share of the last interval spent in steps
	Cache  float64   `json:"cache"`  // share of the KV cache in use
	Joules float64   `json:"joules"` // above idle since the server's start, per GPU
	VRAM   float64   `json:"vram"`   // share of the memory that is reserved
}

// The simulated accelerator's limits.
const (
	vramMB      = 196592
	idleWatts   = 140
	busyWatts   = 560 // on top of idle, at full load
	loadRefresh = 200 * time.Millisecond
	loadStale   = 2 * time.Second
)

// A loadFile is one server's report.
type loadFile struct {
	path string
	last gpuLoad
}

func (s *shim) newLoadFile() (*loadFile, error) {
	dir := filepath.Join(s.dir, "gpu")
	return &loadFile{path: filepath.Join(dir, randomID()[:12]+".json")}, os.MkdirAll(dir, 0o700)
}

// write loses a report when it cannot: the next one follows.
func (f *loadFile) write(l gpuLoad) {
	f.last = l
	writeJSON(f.path, l)
}

// close leaves the energy spent and nothing else.
func (f *loadFile) close() { f.write(gpuLoad{GPUs: f.last.GPUs, Joules: f.last.Joules}) }

// reportLoad writes the load of a server's GPUs until stop is closed, and tells
// the other ranks.
func (s *shim) reportLoad(e *engine, spec serverSpec, ranks *membership, stop <-chan struct{}) {
	file, err := s.newLoadFile()
	if err != nil {
		s.errorf("%v", err)
		return
	}
	defer file.close()
	load := gpuLoad{GPUs: min(nodeGPUs, max(1, spec.tp)*max(1, spec.dp)), VRAM: spec.memory}
	tick := time.NewTicker(loadRefresh)
	defer tick.Stop()
	last, busyBefore := time.Now(), 0.0
	for {
		g := e.snapshot()
		now := time.Now()
		if d := now.Sub(last).Seconds(); d > 0 {
			load.Busy = math.Min(1, math.Max(0, (g.busy-busyBefore)/d))
			load.Joules += load.Busy * busyWatts * d
		}
		last, busyBefore = now, g.busy
		load.At, load.Cache = now, float64(g.blocksUsed)/float64(max(1, g.blocksTotal))
		file.write(load)
		if ranks != nil {
			ranks.tell(load)
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// gpuStates adds up what all servers of the node report.
func gpuStates(dir string, now time.Time) []gpuLoad {
	out := make([]gpuLoad, nodeGPUs)
	paths, err := filepath.Glob(filepath.Join(dir, "gpu", "*.json"))
	if err != nil {
		return out
	}
	for _, p := range paths {
		var l gpuLoad
		data, err := os.ReadFile(p)
		if err != nil || json.Unmarshal(data, &l) != nil {
			continue
		}
		live := now.Sub(l.At) < loadStale
		for i := range min(l.GPUs, len(out)) {
			out[i].Joules += l.Joules
			if live {
				out[i].Busy = math.Max(out[i].Busy, l.Busy)
				out[i].Cache = math.Max(out[i].Cache, l.Cache)
				out[i].VRAM = math.Min(1, out[i].VRAM+l.VRAM)
			}
		}
	}
	return out
}

// amdSMI is the part of amd-smi that telemetry and inventory ask for.
func (s *shim) amdSMI() int {
	f, err := readFaults(s.dir)
	if err != nil {
		s.errorf("amd-smi: %v", err)
		return 1
	}
	switch f.SMI {
	case SMIAbsent:
		s.errorf("bash: amd-smi: command not found")
		return 127
	case SMIFails:
		s.errorf("ERROR: Unable to get devices, driver not initialized (amdgpu not found in modules)")
		return 255
	}
	args := s.args[1:]
	command, asJSON := "", false
	for _, a := range args {
		switch {
		case a == "--json":
			asJSON = true
		case !strings.HasPrefix(a, "-") && command == "":
			command = a
		}
	}
	var list []object
	switch command {
	case "metric":
		for i, l := range gpuStates(s.dir, time.Now()) {
			list = append(list, s.gpuMetric(i, l, f))
		}
	case "static":
		for i := range nodeGPUs {
			list = append(list, object{{"gpu", i}, {"asic", object{
				{"market_name", GPUName}, {"vendor_id", "0x1002"}, {"vendor_name", "Advanced Micro Devices Inc. [AMD/ATI]"}, {"device_id", "0x0000"},
				{"asic_serial", fmt.Sprintf("0x%016X", s.node.Seed<<8+uint64(i))}, {"oam_id", i}, {"num_compute_units", 304}, {"target_graphics_version", "N/A"}}},
				{"driver", object{{"name", "amdgpu"}, {"version", labVersion}}},
				{"vram", object{{"type", "HBM3"}, {"vendor", "N/A"}, {"size", object{{"value", vramMB}, {"unit", "MB"}}}}}})
		}
	case "list":
		for i := range nodeGPUs {
			list = append(list, object{{"gpu", i}, {"bdf", fmt.Sprintf("0000:%02x:00.0", 5+i*16)}, {"uuid", fmt.Sprintf("00000000-0000-1000-8000-%012x", i)}})
		}
	case "version":
		list = []object{{{"tool", "AMDSMI Tool"}, {"version", labVersion}, {"amdsmi_library_version", labVersion}, {"rocm_version", rocmVersion}}}
	default:
		s.errorf("usage: amd-smi [-h]  ...\namd-smi: error: argument : invalid choice: %s (choose from 'version', 'list', 'static', 'metric')", pyRepr(command))
		return 2
	}
	var b strings.Builder
	if !asJSON {
		for _, g := range list {
			smiText(&b, g, "")
			b.WriteByte('\n')
		}
		io.WriteString(s.stdout, b.String())
		return 0
	}
	var doc any = list
	if command == "metric" && f.SMI != SMIList {
		doc = object{{"gpu_data", list}}
	}
	text, err := pythonJSON(doc)
	if err != nil {
		s.errorf("amd-smi: %v", err)
		return 1
	}
	if f.SMI == SMITruncated {
		text = text[:len(text)*2/3]
	}
	fmt.Fprintln(s.stdout, text)
	return 0
}

// rocmVersion is what a node's /opt/rocm says.
const rocmVersion = "0.0.0-lab"

func quantity(v any, unit string) object { return object{{"value", v}, {"unit", unit}} }

func (s *shim) gpuMetric(i int, l gpuLoad, f Faults) object {
	na := f.SMI == SMINotAvailable
	value := func(v any, unit string) any {
		if na {
			return "N/A"
		}
		return quantity(v, unit)
	}
	// GPUs of one server differ a little, always in the same way.
	skew := 1 + 0.02*math.Sin(float64(i)*1.7+float64(s.node.Seed))
	watts := idleWatts + l.Busy*busyWatts*skew
	used := int(300 + l.VRAM*vramMB*0.98)
	started := s.started()
	joules := idleWatts*time.Since(started).Seconds() + l.Joules*skew
	errors := 0
	if f.ECCError {
		errors = 1
	}
	throttle, active := "UNTHROTTLED", "NOT ACTIVE"
	if f.Throttled && l.Busy > 0 {
		throttle, active = "THROTTLED", "ACTIVE"
	}
	if na {
		throttle, active = "N/A", "N/A"
	}
	return object{
		{"gpu", i},
		{"usage", object{{"gfx_activity", value(int(math.Round(100*l.Busy)), "%")}, {"umc_activity", value(int(math.Round(100*l.Busy*(0.35+0.4*l.Cache))), "%")}, {"mm_activity", "N/A"},
			{"vcn_activity", []string{"N/A", "N/A", "N/A", "N/A"}}, {"jpeg_activity", []string{"N/A"}}}},
		{"power", object{{"socket_power", value(int(watts), "W")}, {"gfx_voltage", "N/A"}, {"throttle_status", throttle}, {"power_management", "ENABLED"}}},
		{"clock", object{{"gfx_0", object{{"clk", value(int(132+1968*l.Busy), "MHz")}, {"min_clk", value(132, "MHz")}, {"max_clk", value(2100, "MHz")}, {"clk_locked", "DISABLED"}, {"deep_sleep", "DISABLED"}}}}},
		{"temperature", object{{"edge", "N/A"}, {"hotspot", value(int(38+40*l.Busy*skew), "C")}, {"mem", value(int(34+30*l.Busy*skew), "C")}}},
		{"ecc", object{{"total_correctable_count", 0}, {"total_uncorrectable_count", errors}, {"total_deferred_count", 0}}},
		{"energy", object{{"total_energy_consumption", value(math.Round(joules*1000)/1000, "J")}}},
		{"mem_usage", object{{"total_vram", value(vramMB, "MB")}, {"used_vram", value(used, "MB")}, {"free_vram", value(vramMB-used, "MB")}}},
		{"throttle", object{{"accumulation_counter", 0}, {"prochot_accumulated", 0}, {"ppt_accumulated", 0}, {"socket_thermal_accumulated", 0},
			{"prochot_violation_status", active}, {"ppt_violation_status", active}, {"socket_thermal_violation_status", "NOT ACTIVE"}}},
	}
}

// started is when the node was laid out; its counters count from there.
func (s *shim) started() time.Time {
	st, err := os.Stat(filepath.Join(s.dir, "node.json"))
	if err != nil {
		return time.Now()
	}
	return st.ModTime()
}

// smiText prints an object as amd-smi does for people.
func smiText(b *strings.Builder, o object, indent string) {
	for _, m := range o {
		key := indent + strings.ToUpper(m.key) + ":"
		switch v := m.value.(type) {
		case object:
			if len(v) == 2 && v[0].key == "value" {
				fmt.Fprintf(b, "%s %v %v\n", key, v[0].value, v[1].value)
				continue
			}
			fmt.Fprintln(b, key)
			smiText(b, v, indent+"    ")
		case []string:
			fmt.Fprintf(b, "%s [%s]\n", key, strings.Join(v, ", "))
		default:
			fmt.Fprintf(b, "%s %v\n", key, v)
		}
	}
}
