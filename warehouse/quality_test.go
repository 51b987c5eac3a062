package warehouse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/check"
)

// TestLoadTelemetry follows samples from their files to metrics of their cell.
func TestLoadTelemetry(t *testing.T) {
	t.Parallel()
	head := func(name string) check.Header {
		return check.Header{Check: name, Version: check.Version, Status: artifact.Done}
	}
	run := sampleRun("telemetry", resultJSON(2048))
	cell := run.Expected.Cells[0].ID
	run.Expected.Tasks = []artifact.ExpectedTask{{Kind: "platform", ID: "gpu_metrics_poll"}}
	start := time.Date(2026, 9, 24, 18, 0, 0, 0, time.UTC)
	power := 100.0
	var samples []check.GPUSample
	for i := range 150 { // two GPUs; the power rises
		w := power + float64(i)
		samples = append(samples, check.GPUSample{Host: "n1", Time: start.Add(time.Duration(i) * 2 * time.Second), GPUs: []check.Reading{{GPU: 0, PowerW: &w}, {GPU: 1, PowerW: &w}}})
	}
	samples = append(samples, check.GPUSample{Host: "n1", Time: start, Problem: "cut off"})
	lines, err := check.JSONL(samples)
	if err != nil {
		t.Fatal(err)
	}
	sum := check.Summarise(cell, samples, nil, start)
	dmesg := check.DmesgResult{Header: head(check.DmesgCheck), Host: "n1", Errors: 1, Warnings: 300, Records: []check.HardwareRecord{{ID: 1, Source: "amdgpu", Severity: check.Error, Time: &start, Lines: []string{"first", "second"}}}}
	for i := range 300 {
		dmesg.Events = append(dmesg.Events, check.DmesgEvent{Severity: check.Warning, Group: "thermal", Count: 2, Line: fmt.Sprint("warm ", i)})
	}
	run.Checks = []artifact.Result{
		checkFile(t, "gpu/"+cell+".json", sum),
		{Path: "checks/gpu/" + cell + ".jsonl", CellKey: cell, Data: append(lines, "{not json\n"...)},
		checkFile(t, "gpu/model_load-1.json", check.ModelLoad{Header: head(check.GPULoadCheck), Host: "n1", Session: 1, Seconds: 7.5}),
		checkFile(t, "dmesg/n1.json", dmesg),
		checkFile(t, "dmesg/n1.mark.json", check.MarkFile{Check: check.DmesgMark}),
		checkFile(t, "niah/a.json", check.NIAHResult{Header: head(check.LongContextCheck), ID: "a", ISL: 4096, Depth: 0.5, Correct: 3, Total: 4}),
	}
	w := open(t, "")
	load(t, w, run)
	rows, err := w.Telemetry(t.Context(), "telemetry")
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	r := rows[0]
	if r.State != "partial" || r.Samples != 150 || !strings.Contains(r.Reason, "1 of 151") || r.MeanPowerW == nil || *r.MeanPowerW != 2*(100+149/2.0) || r.EnergyJ == nil {
		t.Errorf("%+v", r)
	}
	// 150 samples in 50 buckets of three; each is the sum over both GPUs
	if len(r.Power) != 50 || r.Power[0] != 2*101 || r.Power[49] != 2*(100+148) {
		t.Errorf("%d points: %v", len(r.Power), r.Power)
	}
	events, err := w.KernelEvents(t.Context(), "telemetry")
	if err != nil || len(events) != 200 || events[0].Line != "first" || events[0].Severity != "error" || events[2].Times != 2 {
		t.Errorf("%d events, %v: %+v", len(events), err, events[:3])
	}
	needles, err := w.LongContext(t.Context(), "telemetry")
	if err != nil || len(needles) != 1 || needles[0].DepthPct != 50 || needles[0].ISL != 4096 {
		t.Errorf("%+v, %v", needles, err)
	}
	got := values(t, w, "SELECT metric || ' ' || value FROM metrics WHERE metric LIKE 'gpu.%power%' OR metric LIKE 'energy%per_joule' ORDER BY metric")
	if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "energy.output_tokens_per_joule 5.8") }) || !slices.Contains(got, "gpu.mean_power_w 349.0") {
		t.Errorf("metrics %q", got)
	}
	problems := values(t, w, "SELECT code || ' ' || message FROM problem WHERE code = 'check_unreadable'")
	if len(problems) != 0 {
		t.Errorf("problems %q", problems)
	}
}
