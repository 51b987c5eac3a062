package render

import (
	"slices"
	"strings"
	"testing"

	"cvs/warehouse"
)

// resultField is a cell's field of the results, by the head of its column.
func resultField(t *testing.T, s *Section, name, head string) Cell {
	t.Helper()
	table := s.Tables[0]
	col := slices.IndexFunc(table.Head, func(c Column) bool { return c.Text == head })
	row := slices.IndexFunc(table.Rows, func(r Row) bool { return r.Cells[0].Text == name })
	if col < 0 || row < 0 {
		t.Fatalf("no column %q or row %q", head, name)
	}
	return table.Rows[row].Cells[col]
}

// A P99 that the views call one of few requests is grey wherever it stands, and
// says of how many; other numbers of the cell and other cells are not. One that
// fails its gate stays red.
func TestThinPercentile(t *testing.T) {
	t.Parallel()
	d := fixture()
	d.Quality = append(d.Quality, warehouse.DataQualityRow{CellKey: key(1024, 128), Code: "percentile_validity", Severity: "finding", Message: "P99 of 77 requests"})
	deck := Build(d, testOptions)
	results := section(t, deck, "results")
	for _, tc := range []struct{ cell, head, class, title string }{
		{"w1_1k_1k · conc 16", "P99 TTFT", "n dim", "P99 of 160 requests"},
		{"w1_1k_1k · conc 16", "Mean TTFT", "n", ""},
		{"w1_1k_1k · conc 32", "P99 TTFT", "n", ""},
		{"w1_1k_1k · conc 128", "P99 TTFT", "n bad", "P99 of 77 requests"},
		{"w1_1k_1k · conc 128", "P99 TPOT", "n dim", "P99 of 77 requests"},
	} {
		if c := resultField(t, results, tc.cell, tc.head); c.Class != tc.class || !strings.Contains(c.Title, tc.title) || tc.title == "" && strings.Contains(c.Title, "requests") {
			t.Errorf("%s of %s: class %q, title %q", tc.head, tc.cell, c.Class, c.Title)
		}
	}
	figures := section(t, deck, "charts").Shapes[0].Figures
	for _, f := range figures {
		if want := strings.HasPrefix(f.Title, "P99"); (f.Thin == "Of few requests, so that it says little, at concurrency 16 (160), 128 (1,280).") != want {
			t.Errorf("%s: %q", f.Title, f.Thin)
		}
	}
	for _, c := range section(t, deck, "cells").Cells {
		for _, r := range c.Tables {
			for _, row := range r.Rows {
				if len(row.Cells) < 3 || row.Cells[1].Text != "P99 E2EL" {
					continue
				}
				if grey := row.Cells[2].Class == "n dim" && row.Cells[2].Text != "—"; grey != (c.Name == "w1_1k_1k · conc 16" || c.Name == "w1_1k_1k · conc 128") {
					t.Errorf("the card of %s shows P99 E2EL as %q", c.Name, row.Cells[2].Class)
				}
			}
		}
	}
}

// What no cell reported takes no column and is named; without any result every
// column stays.
func TestResultColumns(t *testing.T) {
	t.Parallel()
	heads := func(d *Data) (string, string) {
		s := section(t, Build(d, testOptions), "results")
		var out []string
		for _, c := range s.Tables[0].Head {
			out = append(out, c.Text)
		}
		return strings.Join(out, ","), s.Intro
	}
	whole, intro := heads(fixture())
	if !strings.Contains(whole, "P99 ITL") || strings.Contains(intro, "No cell reported") {
		t.Errorf("all columns: %s; %s", whole, intro)
	}
	d := fixture()
	d.Metrics = slices.DeleteFunc(d.Metrics, func(m warehouse.MetricRow) bool { return m.Metric == "p99_itl_ms" || m.Metric == "failed" })
	if got, intro := heads(d); strings.Contains(got, "P99 ITL") || !strings.Contains(intro, "No cell reported P99 ITL, Failed.") {
		t.Errorf("columns %s; %s", got, intro)
	}
	d.Metrics = nil
	if got, _ := heads(d); strings.TrimSuffix(got, ",Host") != whole {
		t.Errorf("without a result the columns are %s, want %s", got, whole)
	}
}

// A shape of one concurrency has no curve.
func TestOneConcurrency(t *testing.T) {
	t.Parallel()
	d := fixture()
	d.Cells = slices.DeleteFunc(d.Cells, func(c warehouse.CellStatusRow) bool { return c.Concurrency != 16 })
	deck := Build(d, testOptions)
	for _, id := range []string{"charts", "interactivity"} {
		if s := section(t, deck, id); s.Shapes != nil || s.Empty == "" {
			t.Errorf("%s: %d shapes, %q", id, len(s.Shapes), s.Empty)
		}
	}
	d = fixture()
	d.Cells = slices.DeleteFunc(d.Cells, func(c warehouse.CellStatusRow) bool { return c.ISL == 8192 && c.Concurrency != 16 })
	if s := section(t, Build(d, testOptions), "charts"); len(s.Shapes) != 1 || !strings.Contains(s.Intro, "Shapes of one concurrency") {
		t.Errorf("of two shapes %d are drawn: %s", len(s.Shapes), s.Intro)
	}
}

// The end of a curve in words, by the vectors that the older suite gets wrong.
func TestPeaks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values []float64 // at 64, 128 and so on
		want   string
	}{
		{[]float64{2412.6, 3905.4}, "3,905.4|128|still rising"},
		{[]float64{100, 100.5}, "100.5|128|saturated"},
		{[]float64{100, 100}, "100.0|64|saturated"},
		{[]float64{100, 90}, "100.0|64|past the knee: −10.0 % at 128"},
		{[]float64{100, 120, 119.5}, "120.0|128|saturated"},
		{[]float64{100}, ""},
	} {
		d := &Data{}
		for i, v := range tc.values {
			k := key(1024, 64<<i)
			d.Cells = append(d.Cells, warehouse.CellStatusRow{CellKey: k, Combo: "w", ISL: 1024, OSL: 1024, Concurrency: 64 << i, State: warehouse.Pass, Planned: true})
			d.Metrics = append(d.Metrics, warehouse.MetricRow{CellKey: k, Metric: "output_throughput", Value: ptr(v)})
		}
		got := ""
		for _, table := range section(t, Build(d, testOptions), "charts").Tables {
			for _, r := range table.Rows {
				got += r.Cells[1].Text + "|" + r.Cells[2].Text + "|" + r.Cells[4].Text
			}
		}
		if got != tc.want {
			t.Errorf("%v: %q, want %q", tc.values, got, tc.want)
		}
	}
}
