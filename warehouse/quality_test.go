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

// TestChangedConditions: what may explain a cell besides its configuration is among
// what changed, if both runs recorded it and it differs enough.
func TestChangedConditions(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	start := time.Date(2026, 9, 24, 18, 0, 0, 0, time.UTC)
	run := func(id string, hour int, watts, mhz float64, limited, warm bool) *artifact.Run {
		return at(id, hour, 2000, func(r *artifact.Run) {
			c := r.Expected.Cells[0]
			r.Expected.Tasks = []artifact.ExpectedTask{{Kind: "platform", ID: "gpu_metrics_poll"}}
			var samples []check.GPUSample
			for i := range 10 {
				samples = append(samples, check.GPUSample{Host: "n1", Time: start.Add(time.Duration(i) * 2 * time.Second), GPUs: []check.Reading{{GPU: 0, PowerW: &watts, GFXMHz: &mhz, Throttled: &limited}}})
			}
			lines, err := check.JSONL(samples)
			if err != nil {
				t.Fatal(err)
			}
			r.Checks = []artifact.Result{checkFile(t, "gpu/"+c.ID+".json", check.Summarise(c.ID, samples, nil, start)), {Path: "checks/gpu/" + c.ID + ".jsonl", CellKey: c.ID, Data: lines}}
			r.Results[0].Record = &artifact.Record{CellKey: c.Key, CellID: c.ID, Repeat: 1, Status: artifact.Done, StartedAt: &start, EndedAt: &start, ServerSession: 1, Warm: warm}
			r.Records = []artifact.Record{*r.Results[0].Record}
		})
	}
	load(t, w, run("a", 0, 700, 2100, false, false), run("b", 1, 690, 2000, true, true), run("c", 2, 600, 2090, true, true))
	got := func(before, after string) string {
		rows, err := w.WhatChanged(t.Context(), before, after)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, r := range rows {
			if field, ok := strings.CutPrefix(r.Field, "cell ISL=1024,OSL=1024,TP=8,PP=1,CONC=128 "); ok && r.Before != nil && r.After != nil {
				out = append(out, field+": "+*r.Before+" -> "+*r.After)
			}
		}
		return strings.Join(out, "; ")
	}
	for _, tt := range []struct{ before, after, want string }{
		{"a", "b", "place: cold server, cell 1 on it -> warm server, cell 1 on it; GPUs throttled: 0 % of the time -> 100 % of the time"},
		{"b", "c", "GPU power: 690 W -> 600 W"},
		{"c", "c", ""},
	} {
		if g := got(tt.before, tt.after); g != tt.want {
			t.Errorf("%s, %s: %s\nwant %s", tt.before, tt.after, g, tt.want)
		}
	}
}
