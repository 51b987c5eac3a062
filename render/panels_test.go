package render

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"cvs/warehouse"
)

// full is a run that has something for every panel.
func full() *Data {
	d := fixture()
	populate(reflect.ValueOf(d).Elem())
	for i := range d.Checks {
		d.Checks[i].State, d.Checks[i].Metric = warehouse.Fail, "accuracy.m"
	}
	for i := range d.Prev {
		d.Prev[i].State, d.Prev[i].CellKey = "compared", d.Cells[0].CellKey
		d.Prev[i].OtherRun = "before"
	}
	d.Problems = nil
	d.Beside.Level = "P99 TTFT is at most 2,000 ms"
	d.Beside.Want = []warehouse.Objective{{Metric: "p99_ttft_ms", Op: "<=", Bound: 2000}}
	return d
}

// Every panel of a deck has the SQL that answers the same, and every table of it
// can be saved: it has tools, an id and a name of its own, and a text in each
// head.
func TestPanels(t *testing.T) {
	t.Parallel()
	deck := Build(full(), testOptions)
	ids, names := map[string]bool{}, map[string]bool{}
	table := func(where string, x *Table) {
		if names[x.Caption] || x.Caption == "" {
			t.Errorf("%s: table %q has no name of its own", where, x.Caption)
		}
		names[x.Caption] = true
		for i, h := range x.Head {
			if h.Text == "" {
				t.Errorf("%s: head %d of table %q is empty", where, i, x.Caption)
			}
		}
	}
	var queries strings.Builder
	table("first screen", deck.Families)
	table("first screen", deck.Worst)
	var have []string
	for _, s := range deck.Sections {
		have = append(have, s.ID)
		if len(s.Queries) == 0 {
			t.Errorf("panel %s has no SQL", s.ID)
		}
		for _, q := range s.Queries {
			if strings.Contains(q, "%!") || !strings.HasSuffix(q, ";") {
				t.Errorf("panel %s: SQL %q", s.ID, q)
			}
			fmt.Fprintf(&queries, "-- %s\n%s\n", s.ID, q)
		}
		for _, x := range s.Tables {
			table(s.ID, x)
			if !x.Tools || x.ID == "" || ids[x.ID] {
				t.Errorf("panel %s: table %q (id %q) cannot be saved", s.ID, x.Caption, x.ID)
			}
			ids[x.ID] = true
		}
		for _, sh := range s.Shapes {
			for _, f := range sh.Figures {
				if f.Table != nil {
					table(s.ID, f.Table)
				}
			}
		}
		for _, c := range s.Cells {
			for _, x := range c.Tables {
				table(s.ID, x)
			}
		}
	}
	// A test of the command asks them of a warehouse.
	golden := filepath.Join("testdata", "panels.sql")
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(golden, []byte(queries.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != queries.String() {
		t.Errorf("the panels' SQL changed (%v; UPDATE=1 accepts it):\n%s", err, queries.String())
	}
	for _, id := range []string{"gates", "charts", "interactivity", "distributions", "previous", "changed", "golden", "trend", "parity", "scaling", "results", "cells", "slo", "checks", "accuracy",
		"needles", "drafts", "telemetry", "kernel", "quality", "lifecycle", "logs", "signoff", "artifacts", "notes"} {
		if !slices.Contains(have, id) {
			t.Errorf("no panel %s in %q", id, have)
		}
	}
	i := slices.IndexFunc(deck.Sections, func(s *Section) bool { return s.ID == "slo" })
	if want := `SELECT * FROM slo('20260924T180211Z-4f9c2a', '[{"metric":"p99_ttft_ms","op":"<=","bound":2000}]');`; i >= 0 && deck.Sections[i].Queries[0] != want {
		t.Errorf("the service level's SQL is %s", deck.Sections[i].Queries[0])
	}
}

// A cell's reason with the end of a log in it is one reason, and what the run
// says of the cell is not said again.
func TestReasonsOnce(t *testing.T) {
	t.Parallel()
	d := fixture()
	bad := &d.Cells[3]
	bad.State, bad.Reason = warehouse.Error, "no result: the client ended with exit status 1; its last lines:\nTraceback (most recent call last):\n  File \"x\"\nRuntimeError: out of memory"
	d.Status.ReasonText = strings.Join([]string{
		"the run failed: " + bad.CellID + ": the client ended with exit status 1; its last lines: RuntimeError: out of memory",
		bad.CellID + ": " + bad.Reason,
		"accuracy gsm8k: not run",
	}, "\n")
	deck := Build(d, testOptions)
	var got []string
	for _, r := range deck.Verdict.Reasons {
		got = append(got, r.Text)
	}
	want := []string{bad.CellID + ": the client ended with exit status 1; its last lines: RuntimeError: out of memory", "accuracy gsm8k: not run"}
	if !slices.Equal(got, want) {
		t.Errorf("reasons %q, want %q", got, want)
	}
	if deck.Verdict.Reasons[0].Href == "" {
		t.Error("the reason does not lead to its cell")
	}
	_, source := parse(t, deck)
	if strings.Contains(source, `\nTraceback`) || !strings.Contains(source, "\nTraceback") {
		t.Error("the lines of the reason are not lines on the page")
	}
	// Without a reason of the cell's own, the run's stays as it is.
	d.Status.ReasonText, bad.Reason = "the run failed: "+bad.CellID+": x", ""
	if got := Build(d, testOptions).Verdict.Reasons; len(got) != 1 || got[0].Text != d.Status.ReasonText {
		t.Errorf("reasons %+v", got)
	}
}

// The foot of printed pages holds a text from outside and cannot be anything
// but that text.
func TestPaper(t *testing.T) {
	t.Parallel()
	for _, s := range append(slices.Clone(hostileTexts), `"; } </style><script>`, "PASS · model · run", strings.Repeat("m", 5000)) {
		got, ok := strings.CutPrefix(string(paper(s)), paperStart)
		inside, end := strings.CutSuffix(got, paperEnd)
		if !ok || !end || !regexp.MustCompile(`^([a-zA-Z0-9]|\\[0-9a-f]+ )*$`).MatchString(inside) || len(inside) > 1100 {
			t.Errorf("%q gives %q", s, got)
		}
	}
	if got := string(paper("a·b")); got != paperStart+`a\b7 b`+paperEnd {
		t.Errorf("a·b gives %q", got)
	}
}

// Failures on checks are not told as failures in cells, and a run of accuracy
// tasks alone does not count cells.
func TestLeadOfChecks(t *testing.T) {
	t.Parallel()
	d := fixture()
	for i := range d.Gates {
		d.Gates[i].State = warehouse.Pass
	}
	d.Cells = d.Cells[:1]
	d.Checks = []warehouse.CheckGateRow{{Scope: "mtp_quality", Target: "mtp_quality", Metric: "mtp.empty_or_repeat_ratio", State: warehouse.Fail}}
	if got := Build(d, testOptions).Verdict.Lead; !strings.Contains(got, "failed, on a check beside the cells") {
		t.Errorf("lead %q", got)
	}
	d.Status.ReasonText = "mtp_quality mtp_quality mtp.empty_or_repeat_ratio: 1 > 0.1"
	if got := Build(d, testOptions).Verdict.Reasons[0].Text; got != "mtp_quality mtp.empty_or_repeat_ratio: 1 > 0.1" {
		t.Errorf("reason %q", got)
	}
	if got := Build(d, testOptions).Worst.Rows[0].Cells[6].Text; got != "mtp_quality" {
		t.Errorf("the check is called %q", got)
	}
	d.Cells, d.Gates, d.Checks, d.Metrics, d.Tiers = nil, nil, nil, nil, nil
	d.Run.Enforce = false
	d.Accuracy = []warehouse.AccuracyRow{{TaskID: "gsm8k", Metric: "m", Value: ptr(0.9)}}
	deck := Build(d, testOptions)
	if len(deck.Tallies) != 0 || !strings.Contains(deck.Verdict.Lead, "1 accuracy value recorded, no cell planned") {
		t.Errorf("lead %q, tallies %+v", deck.Verdict.Lead, deck.Tallies)
	}
}

// A gate that is waived is marked so wherever its state is shown.
func TestWaivedInLarge(t *testing.T) {
	t.Parallel()
	d := sized(static + 6)
	for i := range d.Gates {
		if g := &d.Gates[i]; bad(g.State) {
			g.Waiver = "W-1"
		}
	}
	for i := range d.Tiers {
		if t := &d.Tiers[i]; t.CellKey == d.Cells[0].CellKey {
			t.State, t.Fail, t.Specs = warehouse.Fail, 1, 1
		}
	}
	b := newBuilder(d)
	blob := &blob{index: map[string]int{}, spec: map[string]int{}, words: map[string]*wordList{"file": {index: map[string]int{}}, "server": {index: map[string]int{}}}}
	b.cellData(blob)
	if !strings.Contains(string(blob.b), `"fail (waived)"`) {
		t.Error("the data of a large deck does not mark the waived gate")
	}
	var tier Cell
	for r := range b.matrix().Tables[0].rows() {
		for _, c := range r.Cells[2:] {
			if c.Mark != nil && strings.HasSuffix(c.Mark.Word, waivedWord) {
				tier = c
			}
		}
	}
	if tier.Mark == nil || tier.Mark.Word != "fail (waived)" {
		t.Errorf("the matrix shows %+v", tier.Mark)
	}
}

// A panel that panics is a box in its place, and so is a table; the others stay.
func TestPanelFails(t *testing.T) {
	t.Parallel()
	s := panel("scaling", func() *Section { var d *Data; return &Section{Title: d.Notes} })
	if s.ID != "scaling" || !strings.Contains(s.Problem, "a mistake in cvs: runtime error") {
		t.Errorf("%+v", s)
	}
	x := &Table{Caption: "c", Head: []Column{{Text: "a"}}, Each: func(func(Row) bool) { panic("<b>") }}
	if got := string(tableHTML(x)); !strings.Contains(got, "a mistake in cvs: &lt;b&gt;") || strings.Contains(got, "<table") {
		t.Errorf("%s", got)
	}
}

// Each gate has an anchor, to which the first screen leads.
func TestGateAnchors(t *testing.T) {
	t.Parallel()
	deck := Build(fixture(), testOptions)
	root, _ := parse(t, deck)
	ids := map[string]bool{}
	walk(root, func(n *html.Node) { ids[attr(n, "id")] = true })
	for _, r := range deck.Worst.Rows {
		if to := r.Cells[1].Href; !strings.HasPrefix(to, "gate-") || !ids[to] {
			t.Errorf("the gate %s leads to %q", r.Cells[1].Text, to)
		}
	}
	if !ids["gate-w1-1k-1k-conc16-p99-ttft-ms"] {
		t.Error("a gate has no stable anchor")
	}
}

func TestIdleTime(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	stage := func(from, to int) warehouse.StageRow {
		s := warehouse.StageRow{StartedAt: ptr(start.Add(time.Duration(from) * time.Second))}
		if to > 0 {
			s.EndedAt = ptr(start.Add(time.Duration(to) * time.Second))
		}
		return s
	}
	for _, tt := range []struct {
		stages []warehouse.StageRow
		want   int
	}{
		{[]warehouse.StageRow{stage(0, 5), stage(5, 9)}, 0},
		{[]warehouse.StageRow{stage(8, 9), stage(0, 5), stage(1, 6)}, 2},
		{[]warehouse.StageRow{stage(0, 0), stage(7, 8)}, 0},
	} {
		if got := idleTime(tt.stages, start.Add(20*time.Second)); got != time.Duration(tt.want)*time.Second {
			t.Errorf("idle %s, want %d s", got, tt.want)
		}
	}
}
