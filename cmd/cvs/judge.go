package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table" // aligned tables with wide characters counted right
	"github.com/jedib0t/go-pretty/v6/text"

	"cvs/collect/artifact"
	"cvs/collect/metric"
	"cvs/warehouse"
)

// A judgement is one run's rows of the verdict views; nothing here decides.
type judgement struct {
	status  warehouse.RunStatusRow
	cells   []warehouse.CellStatusRow
	values  []warehouse.CellRow
	tiers   []warehouse.TierRow
	gates   []warehouse.GateRow
	checks  []warehouse.CheckGateRow
	quality []warehouse.DataQualityRow
	waivers []warehouse.GateWaiverRow // where somebody asked for them
	// plan holds what is to be known of the files the run was planned from, where
	// nobody was told of it before.
	plan []string
}

// judge reads the verdict views of one run.
func judge(ctx context.Context, db *warehouse.DB, runID string) (*judgement, error) {
	var j judgement
	var err error
	if j.status, err = db.RunStatus(ctx, runID); err != nil {
		return nil, err
	}
	if j.cells, err = db.CellStatus(ctx, runID); err != nil {
		return nil, err
	}
	if j.values, err = db.Cells(ctx, runID); err != nil {
		return nil, err
	}
	if j.tiers, err = db.Tiers(ctx, runID); err != nil {
		return nil, err
	}
	if j.gates, err = db.Gates(ctx, runID); err != nil {
		return nil, err
	}
	if j.checks, err = db.CheckGates(ctx, runID); err != nil {
		return nil, err
	}
	if j.quality, err = db.DataQuality(ctx, runID); err != nil {
		return nil, err
	}
	return &j, nil
}

// judgeInMemory loads a run into a warehouse of its own and judges it there, so
// that a locked or missing shared warehouse cannot delay a verdict.
func judgeInMemory(ctx context.Context, r *artifact.Run) (*warehouse.DB, *judgement, error) {
	db, err := warehouse.Open(ctx, "", warehouse.Options{OneRun: true})
	if err != nil {
		return nil, nil, badStore(err)
	}
	if _, err := db.Load(ctx, r); err != nil {
		db.Close()
		return nil, nil, err
	}
	j, err := judge(ctx, db, r.Meta.RunID)
	if err != nil {
		db.Close()
		return nil, nil, badStore(err)
	}
	return db, j, nil
}

// verdictError is the exit status the view decided; its text goes to stderr so
// that a script that only sees stderr learns why.
func (j *judgement) verdictError() error {
	if j.status.ExitCode == 0 {
		return nil
	}
	why := verdictText(j.status)
	reasons := j.status.Reasons()
	for _, q := range j.quality {
		if len(reasons) == 0 && q.Severity == "data_error" {
			reasons = append(reasons, strings.Join(nonEmpty(q.Path, strings.TrimPrefix(q.Message, q.Path+": ")), ": "))
		}
	}
	if len(reasons) > 0 {
		why += ": " + clip(reasons[0])
		if len(reasons) > 1 {
			why += fmt.Sprintf(" (and %d more)", len(reasons)-1)
		}
	}
	return &statusError{j.status.ExitCode, visible("run " + j.status.RunID + ": " + why)}
}

// stateWord is how a state is printed: never by colour alone.
func stateWord(s warehouse.State) string {
	switch s {
	case "na":
		return "n/a"
	case "error":
		return "NO RESULT"
	case "fail", "invalid":
		return strings.ToUpper(string(s))
	}
	return string(s)
}

// newTable is the look all of our tables share.
func newTable() table.Writer {
	tw := table.NewWriter()
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	tw.SetStyle(style)
	return tw
}

// print writes the gate table: one row per cell, one column per tier, then what
// failed and why, and the verdict last.
func (j *judgement) print(w io.Writer) {
	type at struct{ cell, tier string }
	state := map[at]warehouse.State{}
	has := map[metric.Tier]bool{}
	for _, t := range j.tiers {
		has[metric.Tier(t.Tier)] = true
		if old, ok := state[at{t.CellKey, t.Tier}]; !ok || old != warehouse.Fail {
			state[at{t.CellKey, t.Tier}] = t.State
		}
	}
	head := table.Row{"cell", "state"}
	var tiers []string
	for _, t := range metric.Tiers() {
		if has[t] && t != metric.Record {
			tiers = append(tiers, string(t))
			head = append(head, string(t))
		}
	}
	tw := newTable()
	tw.AppendHeader(append(head, "output tok/s", "mean TTFT ms"))
	values := map[string]warehouse.CellRow{}
	for _, v := range j.values {
		values[v.CellKey] = v
	}
	for _, c := range j.cells {
		row := table.Row{visible(c.CellKey), stateWord(c.State)}
		for _, t := range tiers {
			row = append(row, stateWord(state[at{c.CellKey, t}]))
		}
		v := values[c.CellKey]
		tw.AppendRow(append(row, number(v.OutputThroughput, 1), number(v.MeanTTFTMs, 1)))
	}
	fmt.Fprintln(w, tw.Render())
	fmt.Fprintln(w)
	for _, p := range j.plan {
		fmt.Fprintf(w, "warning: %s\n", visible(clip(p)))
	}
	j.printFindings(w)
	s := j.status
	fmt.Fprintf(w, "gates: %d pass, %d fail, %d invalid, %d skipped, %d n/a, %d info, %d record\n", s.Pass, s.Fail, s.Invalid, s.Skipped, s.NA, s.Info, s.Record)
	j.printWaivers(w)
	fmt.Fprintf(w, "cells: %d expected, %d measured: %d pass, %d fail, %d record, %d without a result\n", s.Expected, s.Measured, s.CellsPass, s.CellsFail, s.CellsRecord, s.CellsError)
	fmt.Fprintf(w, "verdict: %s\n", verdictText(s))
	for _, r := range s.Reasons() {
		fmt.Fprintf(w, "  %s\n", visible(clip(r)))
	}
}

// printWaivers lists the failures that are waived: they are a part of those that
// fail, counted apart, and change nothing.
func (j *judgement) printWaivers(w io.Writer) {
	seen := map[string]bool{}
	for _, g := range j.waivers {
		word := stateWord(g.State) + " (waived)"
		switch g.Standing {
		case "expired":
			word = stateWord(g.State) + " (waiver expired)"
		case "waived":
			seen[g.Gate+"\x00"+g.Host] = true
		default:
			continue
		}
		fmt.Fprintf(w, "%s %s: %s until %s, %s\n", word, visible(g.Gate), visible(g.WaiverID), g.LastDay.Format(time.DateOnly), visible(g.Owner))
	}
	if len(seen) > 0 {
		fmt.Fprintf(w, "of those that fail %d waived; they remain failures\n", len(seen))
	}
}

// verdictText puts the verdict and what it must not be mistaken for in words.
func verdictText(s warehouse.RunStatusRow) string {
	words := []string{s.Headline}
	switch {
	case s.Headline == "INCOMPLETE":
		words = append(words, fmt.Sprintf("what was measured: %s", s.Verdict))
	case s.Incomplete:
		words = append(words, "INCOMPLETE")
	}
	if s.Verdict == warehouse.Record {
		words = append(words, "no gate decided anything")
	}
	if s.Simulated {
		words = append(words, "SIMULATED")
	}
	return strings.Join(words, ", ")
}

// printFindings lists what should be known beside the gates. What already is a
// reason of the verdict is not said twice, and what is said of many files stands
// once, with how many.
func (j *judgement) printFindings(w io.Writer) {
	type finding struct{ severity, msg string }
	where := map[finding][]string{}
	var order []finding
	lost := map[string]bool{}
	for _, c := range j.cells {
		lost[c.CellKey] = c.State == warehouse.Error
	}
	for _, q := range j.quality {
		if q.Severity == "data_error" && lost[q.CellKey] {
			continue // its cell is without a result, and the reasons say so
		}
		f, at := finding{q.Severity, strings.TrimPrefix(q.Message, q.Path+": ")}, strings.Join(nonEmpty(q.Path, q.TaskID), " ")
		switch q.Code {
		case "percentile_validity":
			// Most cells of a short sweep have it, each with numbers of its own.
			f.msg, at = "P99 of few requests, see the deck or view data_quality", q.CellKey
		case "few_prompts":
			f.msg, at = "fewer than ten prompts for each request in flight", q.CellKey
		}
		if len(where[f]) == 0 {
			order = append(order, f)
		}
		where[f] = append(where[f], at)
	}
	for _, f := range order {
		at := where[f][0]
		if n := len(where[f]); n > 1 {
			at = fmt.Sprintf("%s and %d more", at, n-1)
		}
		fmt.Fprintf(w, "%s: %s\n", strings.ReplaceAll(f.severity, "_", " "), visible(clip(strings.Join(nonEmpty(at, f.msg), ": "))))
	}
}

// clip bounds what a result file can make a line of ours hold.
func clip(s string) string {
	const most = 600
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes)", len(s))
}

// number prints a measured value, or a dash for what is absent.
func number(v *float64, digits int) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, *v)
}
