package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/remote"

	"github.com/google/go-cmp/cmp"
)

func TestReadingsJSON(t *testing.T) {
	t.Parallel()
	wrapped := testdata(t, "constructed_amd_smi_gpu_data.json")
	want := []Reading{{GPU: 0, GFXPct: ptr(97.0), UMCPct: ptr(41.0), UsedVRAMMB: ptr(231904.0), FreeVRAMMB: ptr(30224.0), TotalVRAMMB: ptr(262128.0),
		PowerW: ptr(700.0), EnergyJ: ptr(1834112.4), HotspotC: ptr(71.0), MemC: ptr(60.0), Throttled: ptr(true), Limits: []string{"ppt"},
		Accumulated: map[string]float64{"ppt": 585613}, Uncorrectable: ptr(1.0)}}
	bare := strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(wrapped, `{"gpu_data": `)), "}")
	for name, text := range map[string]string{"gpu_data": wrapped, "list": bare} {
		got, err := Readings([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	// Whatever it is cut off at, half a document is an error that says so.
	for _, n := range []int{1, 20, 200, len(wrapped) / 2, len(strings.TrimSpace(wrapped)) - 1} {
		if _, err := Readings([]byte(wrapped[:n])); err == nil || !strings.Contains(err.Error(), "not whole JSON") {
			t.Errorf("cut off at %d: %v", n, err)
		}
	}
	for text, part := range map[string]string{`[]`: "no GPU", `{"gpu":[]}`: "without gpu_data", `{"gpu_data":3}`: "expected a list", `["x"]`: "no GPU", ``: "no GPU", `ERROR: driver not loaded`: "no GPU"} {
		if _, err := Readings([]byte(text)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", text, err)
		}
	}
	got, err := Readings([]byte(`[{"gpu":3,"usage":{"gfx_activity":"N/A","umc_activity":{"value":"N/A","unit":"%"}},"usage_gfx":null,"power":{"current_socket_power":240,"throttle_status":"N/A"},"mem_usage":{"used_vram":{"value":2,"unit":"GB"}},"energy":"N/A"}]`))
	if diff := cmp.Diff([]Reading{{GPU: 3, PowerW: ptr(240.0), UsedVRAMMB: ptr(2048.0)}}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestReadingsText(t *testing.T) {
	t.Parallel()
	usage, err := Readings([]byte(testdata(t, "amdsmi__amd_smi_metric_usage.txt")))
	if err != nil || len(usage) == 0 || usage[0].GFXPct == nil || *usage[0].GFXPct != 0 || *usage[0].UMCPct != 0 || usage[0].MMPct != nil {
		t.Errorf("%+v %v", usage, err)
	}
	throttle, err := Readings([]byte(testdata(t, "amdsmi__amd_smi_metric_throttle.txt")))
	if err != nil || len(throttle) != 2 || *throttle[1].Throttled || throttle[1].GPU != 1 || throttle[1].Accumulated["socket_thermal"] != 18010 || throttle[0].Accumulated["ppt"] != 585613 {
		t.Errorf("%+v %v", throttle, err)
	}
	monitor, err := Readings([]byte(testdata(t, "amdsmi__amd_smi_monitor_p_t_v.txt")))
	if err != nil || len(monitor) != 32 {
		t.Fatalf("%d rows, %v", len(monitor), err)
	}
	if diff := cmp.Diff(Reading{GPU: 31, PowerW: ptr(227.0), HotspotC: ptr(51.0), MemC: ptr(49.0), UsedVRAMMB: ptr(283.0), TotalVRAMMB: ptr(196300.0)}, monitor[31]); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]map[string]string{
		"clock":     {"clock.gfx_0.clk": "113 MHz", "clock.mem_0.clk_locked": "N/A", "clock.vclk_0.min_clk": "914 MHz"},
		"ecc_block": {"ecc_blocks.umc.correctable_count": "0", "ecc_blocks.xgmi_wafl.deferred_count": "0"},
	} {
		got, err := ParseSMIText(testdata(t, "amdsmi__amd_smi_metric_"+name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		for path, v := range want {
			if got[0].Values[path] != v {
				t.Errorf("%s: %s = %q, want %q", name, path, got[0].Values[path], v)
			}
		}
	}
	asic, err := ParseSMIText(testdata(t, "amdsmi__amd_smi_static_asic.txt"))
	if err != nil || asic[0].Values["asic.market_name"] != "MI308X" || asic[0].Values["asic.target_graphics_version"] != "gfx942" {
		t.Errorf("%+v %v", asic, err)
	}
	links, err := ParseSMIText(testdata(t, "amdsmi__amd_smi_xgmi.txt"))
	if err != nil || len(links) != 8 || links[7].GPU != 7 || len(links[7].Values) != 4+2*8 {
		t.Fatalf("%+v %v", links, err)
	}
	if v := links[0].Values; v["xgmi.bit_rate"] != "32 Gb/s" || v["xgmi.read.0000:0c:00.0"] != "N/A" || v["xgmi.read.0000:22:00.0"] != "2 KB" || v["xgmi.write.0000:df:00.0"] != "1 KB" {
		t.Errorf("%+v", v)
	}
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*float64{
		"97 %": ptr(97.0), "97%": ptr(97.0), "0": ptr(0.0), "1.5 GB": ptr(1536.0), "250000 mW": ptr(250.0), "3 kJ": ptr(3000.0), "71 °C": ptr(71.0),
		"N/A": nil, "": nil, "ACTIVE": nil, "NaN": nil, "-5 W": nil, "5 furlongs": nil, "1e400": nil, "0x10": nil,
	} {
		if diff := cmp.Diff(want, quantity(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// smi is a sample as the sampler prints it, of two GPUs.
func smi(t float64, used, gfx, power, energy float64) string {
	one := func(gpu int) string {
		return fmt.Sprintf(`{"gpu":%d,"usage":{"gfx_activity":{"value":%g,"unit":"%%"},"umc_activity":"N/A"},"mem_usage":{"used_vram":{"value":%g,"unit":"MB"}},"power":{"socket_power":{"value":%g,"unit":"W"}},"energy":{"total_energy_consumption":{"value":%g,"unit":"J"}}}`,
			gpu, gfx, used+float64(gpu), power, energy)
	}
	return fmt.Sprintf("%s%.3f 0\n[%s,%s]\n", sampleMark, t, one(0), one(1))
}

func TestSummarise(t *testing.T) {
	t.Parallel()
	out := smi(1000, 100, 50, 300, 5000) + smi(1002, 300, 100, 500, 5800) + sampleMark + "1004.0 1\nUnable to detect any GPU devices\n" + smi(1006, 200, 90, 400, 7400)
	samples := ParseSamples("n1", []byte(out))
	if len(samples) != 4 || samples[2].Problem == "" || samples[0].Host != "n1" || !samples[0].Time.Equal(time.Unix(1000, 0)) {
		t.Fatalf("%+v", samples)
	}
	r := Summarise("c1", samples, nil, at(12, 0, 0))
	want := GPUStats{PeakVRAMMB: ptr(601.0), MeanGFXPct: ptr(80.0), MeanPowerW: ptr(800.0), PeakPowerW: ptr(1000.0), EnergyJ: ptr(4800.0), EnergyFrom: "counter"}
	if diff := cmp.Diff(want, r.Total); diff != "" {
		t.Error(diff)
	}
	if r.Status != artifact.Done || r.Samples != 3 || r.Problems != 1 || r.Seconds != 6 || len(r.GPUs) != 2 || *r.GPUs[1].PeakVRAMMB != 301 || *r.GPUs[1].GPU != 1 || len(r.Notes) != 1 || !strings.Contains(r.Problem, "Unable to detect") {
		t.Errorf("%+v", r)
	}
	// Two hosts: sums add, means do not.
	two := Summarise("c1", append(samples, ParseSamples("n2", []byte(out))...), nil, at(12, 0, 0))
	if *two.Total.PeakVRAMMB != 1202 || *two.Total.MeanGFXPct != 80 || *two.Total.EnergyJ != 9600 || len(two.GPUs) != 4 {
		t.Errorf("%+v", two.Total)
	}
	lines, err := JSONL(samples)
	if err != nil || strings.Count(string(lines), "\n") != 4 {
		t.Errorf("%s %v", lines, err)
	}
	var back GPUSample
	if err := json.Unmarshal(lines[:strings.IndexByte(string(lines), '\n')], &back); err != nil || cmp.Diff(samples[0], back) != "" {
		t.Errorf("%+v %v", back, err)
	}
}

func TestEnergyWithoutCounter(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		energy [3]float64
		want   float64
		from   string
		notes  int
	}{
		"counter":         {[3]float64{10, 20, 40}, 30, "counter", 0},
		"went backwards":  {[3]float64{10, 5, 40}, 1600, "power", 2},
		"does not move":   {[3]float64{0, 0, 0}, 1600, "power", 0},
		"power and N/A's": {[3]float64{math.NaN(), math.NaN(), math.NaN()}, 1600, "power", 0},
	} {
		var out string
		for i, e := range tt.energy {
			out += smi(1000+2*float64(i), 1, 1, 400, e)
		}
		r := Summarise("c", ParseSamples("n", []byte(strings.ReplaceAll(out, `"value":NaN`, `"value":"N/A"`))), nil, at(12, 0, 0))
		if g := r.GPUs[0]; g.EnergyJ == nil || *g.EnergyJ != tt.want || g.EnergyFrom != tt.from || len(r.Notes) != tt.notes {
			t.Errorf("%s: %+v %q", name, g, r.Notes)
		}
	}
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	one := func(t float64, status string, acc int) string {
		return fmt.Sprintf("%s%.1f 0\n[{\"gpu\":0,\"throttle\":{\"ppt_violation_status\":%q,\"ppt_accumulated\":%d}}]\n", sampleMark, t, status, acc)
	}
	r := Summarise("c", ParseSamples("n", []byte(one(1, "NOT ACTIVE", 5)+one(2, "ACTIVE", 9)+one(3, "NOT ACTIVE", 11)+one(4, "ACTIVE", 12))), nil, at(12, 0, 0))
	if g := r.Total; *g.ThrottledPct != 50 || cmp.Diff(g.Limits, []string{"ppt"}) != "" || g.Accumulated["ppt"] != 7 || g.EnergyJ != nil || g.PeakVRAMMB != nil {
		t.Errorf("%+v", g)
	}
}

func TestTelemetryAbsent(t *testing.T) {
	t.Parallel()
	na := sampleMark + `1.5 0` + "\n" + `[{"gpu":0,"usage":"N/A","power":{"socket_power":"N/A"}}]` + "\n"
	for name, tt := range map[string]struct {
		out  string
		err  error
		want string
	}{
		"not installed": {absentMark + "amd-smi: not found in /usr/bin\n", nil, "n: amd-smi: not found in /usr/bin"},
		"all N/A":       {na, nil, "reports N/A for everything"},
		"no output":     {"", errors.New("connection lost"), "connection lost"},
		"nothing":       {"", nil, "no sample was taken"},
		"a traceback":   {"Traceback\nboom\n", nil, "not a sample: Traceback"},
		"cut off":       {sampleMark + "1.5 0\n[{\"gpu\":0,\n" + sampleMark + "2.5 0\n[{\n", nil, "not whole JSON"},
	} {
		r := Summarise("c", ParseSamples("n", []byte(tt.out)), tt.err, at(12, 0, 0))
		if r.Status != artifact.Failed || !strings.Contains(r.Reason, "no GPU telemetry") || !strings.Contains(r.Reason, tt.want) || r.Total.EnergyJ != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Nor is what the shell says when it is stopped in its pause.
	if s := ParseSamples("n", []byte(smi(1, 1, 1, 1, 1)+smi(3, 1, 1, 1, 1)+"Terminated\n")); len(s) != 2 || s[1].Problem != "" || s[1].GPUs == nil {
		t.Errorf("%+v", s)
	}
	// The sample that was being written when sampling was stopped is nobody's fault.
	if s := ParseSamples("n", []byte(smi(1, 1, 1, 1, 1)+sampleMark+"2.5 0\n[{\"gpu\":")); len(s) != 1 || s[0].Problem != "" {
		t.Errorf("%+v", s)
	}
}

// TestSampler runs the sampler's script and job on this machine.
func TestSampler(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	calls, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	r := standIns(t, map[string]string{"amd-smi": `echo x >` + remote.Quote([]string{fifo}) + `; [ "$*" = "metric --json" ] || exit 9
cat <<'E'
[
    {
        "gpu": 0,
        "usage": {"gfx_activity": {"value": 12, "unit": "%"}}
    }
]
E
`})
	s := Sampler{Host: "n", Runner: r, JobDir: filepath.Join(dir, "job"), Interval: 100 * time.Millisecond, Lease: time.Minute}
	g, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// When the third has begun, two are whole.
	if _, err := io.ReadFull(calls, make([]byte, 3*len("x\n"))); err != nil {
		t.Fatal(err)
	}
	samples, err := g.Stop(t.Context())
	if err != nil || len(samples) < 2 || samples[0].Problem != "" || *samples[0].GPUs[0].GFXPct != 12 || time.Since(samples[0].Time) > time.Minute {
		t.Errorf("%+v %v", samples, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "job")); !os.IsNotExist(err) {
		t.Errorf("the job's folder is still there: %v", err)
	}
	readings, err := Snapshot(t.Context(), r, "n")
	if err != nil || len(readings) != 1 || UsedVRAM(readings) != nil {
		t.Errorf("%+v %v", readings, err)
	}
}

func TestSamplerWithoutTool(t *testing.T) {
	t.Parallel()
	s := Sampler{Host: "n", Runner: standIns(t, nil), JobDir: filepath.Join(t.TempDir(), "job")}
	g, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Job().Wait(t.Context(), s.Runner); err != nil {
		t.Fatal(err)
	}
	samples, err := g.Stop(t.Context())
	if err != nil || len(samples) != 1 || !strings.Contains(samples[0].Problem, "amd-smi: not found") {
		t.Errorf("%+v %v", samples, err)
	}
	if _, err := Snapshot(t.Context(), s.Runner, "n"); err == nil {
		t.Error("a snapshot without amd-smi")
	}
}

func TestSamplerArgs(t *testing.T) {
	t.Parallel()
	golden(t, "sampler.txt", remote.Quote(SamplerArgs(DefaultInterval))+"\n"+remote.Quote(DmesgArgs(true))+"\n"+
		remote.Quote(JournalArgs(false, at(12, 0, 0)))+"\n"+remote.Quote(ClockArgs())+"\n")
}

func FuzzReadings(f *testing.F) {
	f.Add([]byte(`{"gpu_data":[{"gpu":0,"usage":{"gfx_activity":{"value":97,"unit":"%"}}}]}`))
	f.Add([]byte("GPU: 0\n    USAGE:\n        GFX_ACTIVITY: 0 %\n        V: [0 %,\n  N/A]\n"))
	f.Add([]byte("GPU  POWER\n  0  248 W\n  1  N/A\n"))
	f.Add([]byte("LINK METRIC TABLE:\n bdf x 0000:0c:00.0\nGPU0 0000:0c:00.0 32 Gb/s 512 Gb/s XGMI\n Read N/A 2 KB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		readings, err := Readings(b)
		if err == nil && (len(readings) == 0 || len(readings) > maxGPUs) {
			t.Errorf("%d GPUs", len(readings))
		}
	})
}

func FuzzParseSamples(f *testing.F) {
	f.Add([]byte(sampleMark + "1.5 0\n[{\"gpu\":0}]\n" + sampleMark + "x\n"))
	f.Add([]byte(absentMark))
	f.Fuzz(func(t *testing.T, b []byte) {
		samples := ParseSamples("n", b)
		if _, err := JSONL(samples); err != nil {
			t.Error(err)
		}
		Summarise("c", samples, nil, at(12, 0, 0))
	})
}
