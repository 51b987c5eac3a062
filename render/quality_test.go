package render

import (
	"reflect"
	"strings"
	"testing"

	"cvs/warehouse"
)

// beside gives a run everything that can be asked beside speed.
func beside(d *Data) {
	cell := d.Cells[0]
	d.Beside = Quality{
		Telemetry: []warehouse.TelemetryRow{
			{CellKey: cell.CellKey, CellID: cell.CellID, Repeat: 1, State: "sampled", Samples: 40, MeanPowerW: ptr(5421.5), PeakPowerW: ptr(5900.0), EnergyJ: ptr(1.7e6),
				ThrottledPct: ptr(12.5), Limits: "ppt", PeakHotspotC: ptr(91.0), MeanGFXMHz: ptr(1834.5), PeakVRAMMB: ptr(1.4e6), MeanGFXPct: ptr(97.0), Power: []float64{900, 5600, 5900, 5400, 1100}},
			{CellKey: d.Cells[1].CellKey, CellID: d.Cells[1].CellID, State: "absent", Reason: "amd-smi: not found"},
		},
		Needles: []warehouse.LongContextRow{
			{TaskID: "start", ISL: 8192, State: "measured", Correct: 8, Total: 8, PassRate: ptr(1.0), CILow: ptr(0.676), CIHigh: ptr(1.0), Path: "checks/niah/start.json"},
			{TaskID: "end", ISL: 8192, DepthPct: 100, State: "measured", Correct: 5, Total: 8, PassRate: ptr(0.625), CILow: ptr(0.306), CIHigh: ptr(0.863)},
			{TaskID: "long", State: "not_run", Reason: "longer than the model takes"},
		},
		Drafts: []warehouse.DraftRow{{Status: "done"}, {Status: "done", Metric: "mtp.acceptance_rate", Value: ptr(0.71), Path: "checks/mtp.json"},
			{Status: "done", Metric: "accuracy.chat_template_sha256", Text: strings.Repeat("ab", 32)}, {Status: "done", Metric: "mtp.accept_length", Detail: "no statistics of drafts"}},
		Kernel: []warehouse.KernelEventRow{{Host: "node-01", Severity: "error", Source: "hardware error (amdgpu)", Times: 1, Line: "amdgpu 0000:15:00.0: <b>uncorrectable</b> hardware error"},
			{Host: "node-01", Severity: "warning", Source: "thermal", Times: 3, Line: "throttled"}},
		Level: "p99_ttft_ms <= 2000 ms",
		SLO: []warehouse.SLORow{{ISL: 1024, OSL: 1024, Shape: "TP=8", Concurrency: ptr(128), NextConcurrency: ptr(256), NextReason: "p99_ttft_ms 2100 > 2000", MissedBelow: "4", Measured: 4, Cells: 5},
			{ISL: 8192, OSL: 1024, Shape: "TP=8", NextConcurrency: ptr(4), NextReason: "no result", Measured: 3, Cells: 4}, {Shape: "TP=8", Concurrency: ptr(64), OpenEnd: true, Measured: 1, Cells: 1}},
	}
	d.Checks = append(d.Checks, warehouse.CheckGateRow{Scope: "long_context_accuracy", Target: "end", Metric: "pass_rate", State: warehouse.Fail, Reason: "0.625 < 1"},
		warehouse.CheckGateRow{Scope: "platform", Target: "dmesg_scan", State: warehouse.Fail, Reason: "uncorrectable hardware error"},
		warehouse.CheckGateRow{Scope: "mtp_quality", Target: "mtp_quality", Metric: "mtp.acceptance_rate", State: warehouse.Record, WouldFail: true, Reason: "0.71 < 0.8"})
	d.Accuracy = append(d.Accuracy, warehouse.AccuracyRow{TaskID: "gsm8k", Metric: "gsm8k.exact_match__strict-match", Value: ptr(0.94), StdErr: ptr(0.0066), CILow: ptr(0.927), CIHigh: ptr(0.953), Direction: "higher"})
}

// TestQualityPanels: every panel shows its rows, with its SQL, and what was asked
// for and did not come looks like that.
func TestQualityPanels(t *testing.T) {
	t.Parallel()
	d := fixture()
	beside(d)
	deck := Build(d, testOptions)
	_, page := parse(t, deck)
	for id, words := range map[string][]string{
		"telemetry": {"throttled", "absent", "amd-smi: not found", "limits violated: ppt", "power of all GPUs over the cell, mean"},
		"needles":   {"5 of 8", "0.306", "not run", "longer than the model takes"},
		"drafts":    {"would fail", "no statistics of drafts"},
		"kernel":    {"&lt;b&gt;uncorrectable"},
		"slo":       {"p99_ttft_ms &lt;= 2000 ms", "missed at the lower 4", "the limit is not known", "none"},
		"accuracy":  {"0.927", "higher"},
	} {
		s := section(t, deck, id)
		if len(s.Tables) == 0 || len(s.Queries) == 0 {
			t.Errorf("%s: %d tables, %d queries", id, len(s.Tables), len(s.Queries))
		}
		for _, table := range s.Tables {
			for _, r := range table.Rows {
				if len(r.Cells) != len(table.Head) {
					t.Errorf("%s: %d cells under %d heads", table.ID, len(r.Cells), len(table.Head))
				}
			}
		}
		for _, w := range words {
			if !strings.Contains(page, w) {
				t.Errorf("%s: the page does not say %q", id, w)
			}
		}
	}
	// what a check asserts by itself is a gate of its family, the worst first
	for i, want := range []string{"Long context accuracy", "Platform"} {
		found := false
		for at, r := range deck.Families.Rows {
			found = found || r.Cells[0].Text == want && r.Cells[1].Mark.Class == "fail" && at < 4+i
		}
		if !found {
			t.Errorf("no failing family %s at the top: %+v", want, deck.Families.Rows)
		}
	}
	if m := section(t, deck, "kernel").Mark; m == nil || m.Class != "fail" {
		t.Errorf("the kernel log's section says %+v", m)
	}
	for _, text := range hostileTexts {
		d := fixture()
		beside(d)
		poison(reflect.ValueOf(&d.Beside).Elem(), func() string { return text })
		checkWritten(t, d)
	}
}

// TestQualityPanelsAbsent: a run that asked for nothing beside speed pays nothing
// for it, and a question that failed leaves its error where the answer would be.
func TestQualityPanelsAbsent(t *testing.T) {
	t.Parallel()
	d := fixture()
	before := len(Build(d, testOptions).Sections)
	for i := range d.Cells {
		d.Beside.Telemetry = append(d.Beside.Telemetry, warehouse.TelemetryRow{CellKey: d.Cells[i].CellKey, State: "not_requested"})
	}
	if n := len(Build(d, testOptions).Sections); n != before {
		t.Errorf("%d sections, before %d", n, before)
	}
	d = fixture()
	for _, id := range []string{"telemetry", "needles", "drafts", "kernel", "slo"} {
		d.Problems = map[string]string{id: "disk on fire"}
		if s := section(t, Build(d, testOptions), id); s.Problem != "disk on fire" {
			t.Errorf("%s: %+v", id, s)
		}
	}
}

// TestQualitySize: telemetry of every cell of a large sweep leaves the deck within
// its bounds, too.
func TestQualitySize(t *testing.T) {
	t.Parallel()
	d := sized(1000)
	for i := range d.Cells {
		r := warehouse.TelemetryRow{CellKey: d.Cells[i].CellKey, CellID: d.Cells[i].CellID, Repeat: 1, State: "sampled", MeanPowerW: ptr(5000 + float64(i)), PeakPowerW: ptr(5900.25),
			EnergyJ: ptr(1e6 + float64(i)/3), PeakHotspotC: ptr(88.0), MeanGFXMHz: ptr(1834.123456), PeakVRAMMB: ptr(1.4e6), MeanGFXPct: ptr(97.0 / 3), ThrottledPct: ptr(0.0)}
		for p := range 60 {
			r.Power = append(r.Power, 4000+float64((i*7+p*13)%1900))
		}
		d.Beside.Telemetry = append(d.Beside.Telemetry, r)
	}
	var size counter
	if err := Write(&size, Build(d, testOptions)); err != nil {
		t.Fatal(err)
	}
	if beyond := int64(size) - 715_020; beyond > 1_500_000 {
		t.Errorf("a deck of 1,000 sampled cells is %d bytes beyond the chart library", beyond)
	} else {
		t.Logf("%d bytes beyond the chart library", beyond)
	}
}
