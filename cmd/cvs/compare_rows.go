package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// cellLine and rowState are what every comparison says of a row.
type cellLine struct {
	Cell string `json:"cell"`
	Host string `json:"host,omitempty"`
}

func (c cellLine) where() string { return visible(join(c.Cell, c.Host)) }

type rowState struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// note is word, or else the state in words unless it is the usual one, and why.
func (o rowState) note(word string) string {
	if word == "" && o.State != "compared" {
		word = strings.ReplaceAll(o.State, "_", " ")
	}
	return strings.Join(nonEmpty(word, o.Reason), ": ")
}

// prevLine is a row of prev_run or golden as it is printed and written as JSON.
type prevLine struct {
	cellLine
	Metric    string   `json:"metric"`
	Unit      string   `json:"unit"`
	Direction string   `json:"direction"`
	Previous  *float64 `json:"previous"`
	Value     *float64 `json:"value"`
	Ratio     *float64 `json:"ratio"`
	DeltaPct  *float64 `json:"delta_pct"`
	BetterPct *float64 `json:"better_pct"`
	rowState
	Changed    bool       `json:"changed"`
	Regression bool       `json:"regression"`
	NoisePct   *float64   `json:"noise_pct"`
	NoiseRuns  int        `json:"noise_runs"`
	BaseRun    string     `json:"baseline,omitempty"`
	BaseAt     *time.Time `json:"baseline_started_at,omitempty"`
}

func (r prevLine) change() string {
	if r.DeltaPct == nil {
		return "–"
	}
	return signed(r.DeltaPct) + " %"
}

func (r prevLine) noise() string {
	if r.NoisePct == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %% of %d", *r.NoisePct, r.NoiseRuns)
}

// shown says whether people see the row: the headline metric and whole cells
// always, the rest where it moved.
func (r prevLine) shown() bool {
	if r.Cell == "" {
		return false
	}
	moved := r.Value != nil && r.Previous != nil && *r.Value != *r.Previous
	return r.Metric == "" || r.Metric == metric.Headline || r.Changed || r.State == "not_comparable" && moved
}

// note never leaves it to a sign or a colour whether a change is good.
func (r prevLine) note() string {
	switch {
	case r.Regression:
		return r.rowState.note("WORSE")
	case r.Changed:
		return r.rowState.note("better")
	}
	return r.rowState.note("")
}

// prevCounts counts cells by the state of their headline metric, and metrics
// beyond 5 %.
type prevCounts struct {
	Compared      int `json:"compared"`
	New           int `json:"new"`
	Gone          int `json:"gone"`
	NotComparable int `json:"not_comparable"`
	Regressions   int `json:"regressions"`
	Improvements  int `json:"improvements"`
}

func (c prevCounts) String() string {
	s := fmt.Sprintf("cells: %d compared, %d new, %d gone, not comparable: %d", c.Compared, c.New, c.Gone, c.NotComparable)
	if c.Compared == 0 {
		return s + "; nothing was compared"
	}
	return s + fmt.Sprintf("; metrics beyond 5 %%: %d worse, %d better", c.Regressions, c.Improvements)
}

type prevPanel struct {
	State    string     `json:"state"` // compared, not compared, error
	Baseline string     `json:"baseline,omitempty"`
	Message  string     `json:"message,omitempty"`
	Counts   prevCounts `json:"counts"`
	Rows     []prevLine `json:"rows"`
}

// Title says what the run is compared with, or why it is not.
func (p prevPanel) Title() string {
	if p.State == "compared" {
		return p.Baseline
	}
	return strings.Join(nonEmpty(p.State, p.Message), ": ")
}

func prevPanelOf(rows []warehouse.PrevRunRow, failed error) prevPanel {
	p := prevPanel{State: "not compared", Rows: []prevLine{}}
	if failed != nil {
		p.State, p.Message = "error", failed.Error()
		return p
	}
	var bases, reasons []string
	for _, r := range rows {
		p.Rows = append(p.Rows, prevLine{
			cellLine: cellLine{r.CellKey, r.Slot}, Metric: r.Metric, Unit: r.Unit, Direction: r.Direction, Previous: r.Previous, Value: r.Value, Ratio: r.Ratio,
			DeltaPct: r.DeltaPct, BetterPct: r.BetterPct, rowState: rowState{r.State, r.Reason}, Changed: r.Changed, Regression: r.Regression,
			NoisePct: r.NoisePct, NoiseRuns: r.NoiseRuns, BaseRun: r.BaseRun, BaseAt: r.BaseAt,
		})
		if r.Regression {
			p.Counts.Regressions++
		} else if r.Changed {
			p.Counts.Improvements++
		}
		if r.CellKey == "" {
			p.Message = r.Reason
			continue
		}
		if r.Metric != "" && r.Metric != metric.Headline {
			continue
		}
		switch r.State {
		case "compared":
			p.Counts.Compared++
			bases = appendNew(bases, r.BaseRun)
		case "new":
			p.Counts.New++
			reasons = appendNew(reasons, r.Reason)
		case "gone":
			p.Counts.Gone++
		default:
			p.Counts.NotComparable++
			reasons = appendNew(reasons, r.Reason)
		}
	}
	switch {
	case p.Counts.Compared > 0:
		p.State, p.Baseline = "compared", strings.Join(bases, ", ")
	case p.Message == "" && len(rows) == 0:
		p.Message = "no cell of this run was measured"
	case p.Message == "":
		p.Message = strings.Join(reasons, "; ")
	}
	return p
}

func appendNew(list []string, s string) []string {
	for _, x := range list {
		if x == s {
			return list
		}
	}
	return append(list, s)
}

type parityLine struct {
	cellLine
	Name      string   `json:"name"`
	Driver    string   `json:"driver"`
	Reference *float64 `json:"reference"`
	Value     *float64 `json:"value"`
	Ratio     *float64 `json:"ratio"`
	BetterPct *float64 `json:"better_pct"`
	rowState
	RefRun    string `json:"reference_run,omitempty"`
	RefDriver string `json:"reference_driver,omitempty"`
}

func (r parityLine) note() string { return r.rowState.note("") }

type parityCounts struct {
	Compared         int `json:"compared"`
	WithoutReference int `json:"without_reference"`
	OnlyReference    int `json:"only_reference"`
	NotComparable    int `json:"not_comparable"`
}

func (c parityCounts) String() string {
	return fmt.Sprintf("cells: %d compared, %d without reference, %d only in the reference, %d not comparable", c.Compared, c.WithoutReference, c.OnlyReference, c.NotComparable)
}

type parityPanel struct {
	State      string       `json:"state"`
	References []string     `json:"references,omitempty"`
	Message    string       `json:"message,omitempty"`
	Counts     parityCounts `json:"counts"`
	Rows       []parityLine `json:"rows"`
}

// Title says what the run is compared with, or why it is not.
func (p parityPanel) Title() string {
	if p.State == "compared" {
		return strings.Join(p.References, ", ")
	}
	return strings.Join(nonEmpty(p.State, p.Message), ": ")
}

func parityPanelOf(rows []warehouse.ParityRow, failed error) parityPanel {
	p := parityPanel{State: "not compared", Rows: []parityLine{}}
	if failed != nil {
		p.State, p.Message = "error", failed.Error()
		return p
	}
	if len(rows) == 0 {
		p.Message = "no run of another framework with all else equal"
	}
	for _, r := range rows {
		p.Rows = append(p.Rows, parityLine{cellLine{r.CellKey, r.Slot}, r.Name, r.Driver, r.Reference, r.Value, r.Ratio, r.BetterPct, rowState{r.State, r.Reason}, r.ReferenceRun, r.ReferenceDriver})
		if r.CellKey == "" {
			p.Message = r.Reason
			continue
		}
		if r.Metric != "" && r.Metric != metric.Headline {
			continue
		}
		switch {
		case r.State == "compared":
			p.Counts.Compared++
			p.State = "compared"
			p.References = appendNew(p.References, strings.Join(nonEmpty(r.ReferenceRun, r.ReferenceDriver), " of driver "))
		case r.State == "only_reference":
			p.Counts.OnlyReference++
		case r.Metric == "" && r.State == "not_comparable":
			p.Counts.NotComparable++
		case r.State == "no_reference", r.Reference == nil, *r.Reference == 0:
			p.Counts.WithoutReference++
		default:
			p.Counts.NotComparable++
		}
	}
	return p
}

type accuracyDelta struct {
	Task       string   `json:"task"`
	Metric     string   `json:"metric"`
	Value      *float64 `json:"value"`
	Previous   *float64 `json:"previous"`
	Delta      *float64 `json:"delta"`
	Noise      *float64 `json:"noise"`
	State      string   `json:"state"`
	Regression bool     `json:"regression"`
	Reason     string   `json:"reason,omitempty"`
	Baseline   string   `json:"baseline,omitempty"`
}

func accuracyDeltas(rows []warehouse.AccuracyPrevRow) []accuracyDelta {
	out := []accuracyDelta{}
	for _, r := range rows {
		out = append(out, accuracyDelta{r.TaskID, r.Metric, r.Value, r.Previous, r.Delta, r.Noise, r.State, r.Regression, r.Reason, r.BaseRun})
	}
	return out
}

type scalingLine struct {
	cellLine
	NNodes        int      `json:"nnodes"`
	ConfiguredPct *float64 `json:"configured_pct"`
	SinglePct     *float64 `json:"single_node_pct"`
	SingleRun     string   `json:"single_node_run,omitempty"`
	SingleAgeDays *float64 `json:"single_node_age_days"`
	SingleImage   string   `json:"single_node_image,omitempty"`
	Reason        string   `json:"reason,omitempty"`
}

func scalingLines(rows []warehouse.ScalingRow) []scalingLine {
	out := []scalingLine{}
	for _, r := range rows {
		out = append(out, scalingLine{cellLine{r.CellKey, r.Slot}, r.NNodes, r.ConfiguredPct, r.SinglePct, r.SingleRun, r.SingleAgeDays, r.SingleImage, r.Reason})
	}
	return out
}

func goldenLines(rows []warehouse.GoldenRow) []prevLine {
	out := []prevLine{}
	for _, r := range rows {
		out = append(out, prevLine{
			cellLine: cellLine{r.CellKey, r.Slot}, Metric: r.Metric, Unit: r.Unit, Direction: r.Direction, Previous: r.Golden, Value: r.Value, Ratio: r.Ratio, DeltaPct: r.DeltaPct,
			BetterPct: r.BetterPct, rowState: rowState{r.State, strings.Join(nonEmpty(r.Name, r.Reason), ": ")}, Regression: r.Regression, BaseRun: r.GoldenRun, BaseAt: r.PinnedAt,
		})
	}
	return out
}

type judgedLine struct {
	cellLine
	Metric      string   `json:"metric"`
	ChangePct   *float64 `json:"change_pct"`
	BetterPct   *float64 `json:"better_pct"`
	LimitPct    *float64 `json:"limit_pct"`
	EarlierRuns int      `json:"earlier_runs"`
	rowState
}

func judgedLines(rows []warehouse.RegressionRow) []judgedLine {
	out := []judgedLine{}
	for _, r := range rows {
		out = append(out, judgedLine{cellLine{r.CellKey, r.Slot}, r.Metric, r.ChangePct, r.BetterPct, r.LimitPct, r.EarlierRuns, rowState{r.State, r.Reason}})
	}
	return out
}

// plain prints a number with the digits it has, at most six significant ones.
func plain(v *float64) string {
	if v == nil {
		return "–"
	}
	return strconv.FormatFloat(*v, 'g', 6, 64)
}

func signed(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%+.2f", *v)
}

func join(cell, host string) string { return strings.Join(nonEmpty(cell, host), " on ") }

func suffix(when bool, s string) string {
	if when {
		return s
	}
	return ""
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// mdText makes text inert in a Markdown table.
func mdText(s string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "[", "\\[", "*", "\\*", "_", "\\_").Replace(visible(s))
}
