package render

import (
	"strings"
	"testing"
	"time"

	"cvs/warehouse"
)

var testOptions = Options{Now: time.Date(2026, 9, 25, 8, 0, 0, 0, time.UTC), ToolVersion: "0.1.0"}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		status     warehouse.RunStatusRow
		simulated  bool
		word       string
		class      string
		badges     string
		neverGreen bool
	}{
		{"pass", warehouse.RunStatusRow{Verdict: "pass"}, false, "PASS", "pass", "", false},
		{"pass but incomplete", warehouse.RunStatusRow{Verdict: "pass", Incomplete: true}, false, "INCOMPLETE", "incomplete", "", true},
		{"fail", warehouse.RunStatusRow{Verdict: "fail"}, false, "FAIL", "fail", "", true},
		{"fail and incomplete", warehouse.RunStatusRow{Verdict: "fail", Incomplete: true}, false, "FAIL", "fail", "INCOMPLETE", true},
		{"record", warehouse.RunStatusRow{Verdict: "record"}, false, "RECORD ONLY", "record", "", true},
		{"record and incomplete", warehouse.RunStatusRow{Verdict: "record", Incomplete: true}, false, "INCOMPLETE", "incomplete", "RECORD ONLY", true},
		{"simulated", warehouse.RunStatusRow{Verdict: "pass"}, true, "PASS", "pass", "SIMULATED", false},
		{"a verdict of tomorrow", warehouse.RunStatusRow{Verdict: "waived"}, false, "NO VERDICT", "incomplete", "", true},
	} {
		d := &Data{Status: tc.status, Run: warehouse.RunRow{Simulated: tc.simulated}}
		v := Build(d, Options{}).Verdict
		var badges []string
		for _, b := range v.Badges {
			badges = append(badges, b.Word)
		}
		if v.State.Word != tc.word || v.Class != tc.class || strings.Join(badges, " ") != tc.badges {
			t.Errorf("%s: %q, class %q, badges %q", tc.name, v.State.Word, v.Class, badges)
		}
		if tc.neverGreen && (v.Class == "pass" || v.State.Class == "pass") {
			t.Errorf("%s is shown as pass", tc.name)
		}
	}
}

// Every planned cell is counted once, whatever happened to it, and so is every
// gate.
func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	d := fixture()
	d.Quality = append(d.Quality, warehouse.DataQualityRow{Severity: "warning", Code: "orphan", Path: "results/isl1_osl1_conc512/results.json", Message: "kept, not judged"})
	d.Cells[0].State = warehouse.Error
	d.Quality = append(d.Quality,
		warehouse.DataQualityRow{Severity: "data_error", Code: "malformed", CellKey: d.Cells[0].CellKey, Message: "the file ends inside a string"},
		warehouse.DataQualityRow{Severity: "data_error", Code: "no_result", CellKey: key(1024, 64), Message: "no result file was found"})
	d.Checks = append(d.Checks, warehouse.CheckGateRow{Scope: "accuracy", Target: "gsm8k", Metric: "gsm8k.exact_match__strict-match", Kind: "min", State: warehouse.Fail, Wanted: ptr(0.94), Got: ptr(0.93)})
	deck := Build(d, testOptions)
	for i, want := range []int{8, len(d.Gates) + 1} {
		sum := 0
		for _, p := range deck.Tallies[i].Parts {
			sum += p.N
		}
		if sum != want {
			t.Errorf("%s: the parts are %d, the total is %d", deck.Tallies[i].Label, sum, want)
		}
	}
	if got, want := deck.Tallies[0].Total, "8 planned · 6 measured · 1 missing · 1 broken · 1 orphan"; got != want {
		t.Errorf("cells: %q, want %q", got, want)
	}
	all := 0
	for _, r := range deck.Families.Rows {
		sum := 0
		for _, c := range r.Cells[2 : len(r.Cells)-1] {
			if c.Raw == "" {
				sum += atoi(t, c.Text)
			}
		}
		total := atoi(t, r.Cells[len(r.Cells)-1].Text)
		if sum != total {
			t.Errorf("family %s: the states are %d, the total is %d", r.Cells[0].Text, sum, total)
		}
		all += total
	}
	if all != len(d.Gates)+1 {
		t.Errorf("the families hold %d gates of %d", all, len(d.Gates)+1)
	}
}

// Failing cells come first, then those without a result.
func TestMatrixOrder(t *testing.T) {
	t.Parallel()
	var got []string
	for _, r := range section(t, Build(fixture(), testOptions), "gates").Tables[0].Rows {
		got = append(got, r.Mark.Word)
	}
	if s := strings.Join(got, ","); s != "fail,fail,fail,no result,pass,pass,pass,pass" {
		t.Errorf("order: %s", s)
	}
}

// A point that was not measured is a gap with a reason, never a zero.
func TestGaps(t *testing.T) {
	t.Parallel()
	charts := section(t, Build(fixture(), testOptions), "charts")
	got := charts.Shapes[0].Figures[0].Gaps + " | " + charts.Shapes[1].Figures[0].Gaps
	want := "No value at concurrency 64 (no result). | No value at concurrency 32 (NaN), 128 (no request completed)."
	if got != want {
		t.Errorf("gaps: %s\nwant: %s", got, want)
	}
}

// Zero is a value; what the client did not report is not.
func TestZeroIsAValue(t *testing.T) {
	t.Parallel()
	cells := section(t, Build(fixture(), testOptions), "cells").Cells
	seen := map[string]string{}
	for _, r := range cells[len(cells)-1].Tables[1].Rows {
		seen[r.Cells[0].Raw] = r.Cells[1].Text
	}
	if seen["queue_ms"] != "0" || seen["mtp.accept_length"] != "—" {
		t.Errorf("queue_ms %q, mtp.accept_length %q", seen["queue_ms"], seen["mtp.accept_length"])
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	d := fixture()
	d.Status.ReasonText = "w1_1k_1k-conc64: no result\nthresholds are not enforced\n" + strings.Repeat("x", 300) + strings.Repeat("\nmore", 10)
	got := Build(d, testOptions).Verdict.Reasons
	if got[0].Href != "cell-w1-1k-1k-conc64" || got[1].Href != "" || got[2].Href == "" {
		t.Errorf("links: %q %q %q", got[0].Href, got[1].Href, got[2].Href)
	}
	if last := got[len(got)-1].Text; len(got) != 9 || last != "5 more reasons in the sections below." {
		t.Errorf("%d reasons, the last is %q", len(got), last)
	}
}

// A violated bound of a run that enforces none is named and is not a failure.
func TestWouldFail(t *testing.T) {
	t.Parallel()
	d := &Data{
		Run: warehouse.RunRow{RunID: "r"}, Status: warehouse.RunStatusRow{Verdict: "record"},
		Cells: []warehouse.CellStatusRow{{CellKey: "k", CellID: "c", State: "record", Planned: true}},
		Gates: []warehouse.GateRow{{CellKey: "k", Metric: "failed", Tier: "health", Kind: "max", State: "record", WouldFail: true, Wanted: ptr(0.0), Got: ptr(3.0)}},
		Tiers: []warehouse.TierRow{{CellKey: "k", Tier: "health", State: "record", Specs: 1, WouldFail: 1}},
	}
	deck := Build(d, Options{})
	if got := section(t, deck, "cells").Cells[0].Tables[0].Rows[0].Cells[0].Mark; got.Word != "would fail" || got.Class == "fail" {
		t.Errorf("mark %+v", got)
	}
	if got := section(t, deck, "gates").Tables[0].Rows[0].Cells[2].Small; got != "1 would fail" {
		t.Errorf("matrix says %q", got)
	}
	if deck.Verdict.State.Word != "RECORD ONLY" {
		t.Errorf("verdict %q", deck.Verdict.State.Word)
	}
}

func section(t *testing.T, d *Deck, id string) *Section {
	t.Helper()
	for _, s := range d.Sections {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("no section %q", id)
	return nil
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n := 0
	for _, r := range s {
		if r < '0' || r > '9' {
			if r == ',' {
				continue
			}
			t.Fatalf("%q is no count", s)
		}
		n = n*10 + int(r-'0')
	}
	return n
}
