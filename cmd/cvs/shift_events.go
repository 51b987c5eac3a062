package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"cvs/warehouse"
)

// shiftEvent is what moved to one side at one run of a series.
type shiftEvent struct {
	Series        string        `json:"series"`
	FirstRun      string        `json:"first_run"`
	FirstAt       time.Time     `json:"first_at"`
	LastRun       string        `json:"last_run_before"`
	Worse         bool          `json:"worse"`
	CellsMoved    int           `json:"cells_moved"`
	CellsMeasured int           `json:"cells_measured"`
	Shifts        []shiftJSON   `json:"shifts"`
	Changed       []changedJSON `json:"changed"`
}

// shiftJSON is a shift of one value, the worst cells of an event first.
type shiftJSON struct {
	Cell          string     `json:"cell"`
	Host          string     `json:"host,omitempty"`
	Metric        string     `json:"metric"`
	Unit          string     `json:"unit"`
	Before        float64    `json:"before"`
	After         float64    `json:"after"`
	ChangePct     float64    `json:"change_pct"`
	BetterPct     float64    `json:"better_pct"`
	PValue        float64    `json:"p_value"`
	ConfidencePct float64    `json:"confidence_pct"`
	FoundRun      string     `json:"found_run"`
	NextRun       string     `json:"next_run,omitempty"` // where the level after this one begins
	NextAt        *time.Time `json:"next_at,omitempty"`
	NextBetterPct *float64   `json:"next_better_pct,omitempty"`
	Method        string     `json:"method"`
	Version       int        `json:"version"`
}

type changedJSON struct {
	Field  string  `json:"field"`
	Before *string `json:"before"`
	After  *string `json:"after"`
}

// shiftEvents groups shifts into events, the newest first.
func shiftEvents(ctx context.Context, db *warehouse.DB, rows []warehouse.ChangePointRow, all bool) ([]*shiftEvent, error) {
	events := []*shiftEvent{}
	for _, group := range together(rows) {
		first := group[0]
		if !first.Worse && !all {
			continue
		}
		x := &shiftEvent{
			Series: first.SeriesID, FirstRun: first.FirstRun, FirstAt: first.FirstAt, LastRun: first.LastRun, Worse: first.Worse,
			CellsMoved: movedCells(group), CellsMeasured: first.CellsMeasured, Changed: []changedJSON{},
		}
		changed, err := db.WhatChanged(ctx, x.LastRun, x.FirstRun)
		if err != nil {
			return nil, err
		}
		for _, c := range changed {
			x.Changed = append(x.Changed, changedJSON(c))
		}
		for _, r := range worstCellsFirst(group) {
			x.Shifts = append(x.Shifts, shiftJSON{
				r.CellKey, r.Slot, r.Metric, r.Unit, r.BeforeMid, r.AfterMid, r.ChangePct, r.BetterPct, r.PValue, r.ConfidencePct, r.FoundRun,
				r.NextRun, r.NextAt, r.NextBetterPct, r.Method, r.Version,
			})
		}
		events = append(events, x)
	}
	slices.SortStableFunc(events, func(a, b *shiftEvent) int {
		return cmp.Or(b.FirstAt.Compare(a.FirstAt), cmp.Compare(a.Series, b.Series))
	})
	return events, nil
}

// together groups shifts that are one event: those of a series to one side at one
// run, in the order they come. What moved at the run beside it stays apart,
// because another change of the software may be behind it.
func together(rows []warehouse.ChangePointRow) [][]warehouse.ChangePointRow {
	type event struct {
		series, run string
		worse       bool
	}
	place := make(map[event]int)
	var groups [][]warehouse.ChangePointRow
	for _, r := range rows {
		k := event{r.SeriesID, r.FirstRun, r.Worse}
		i, ok := place[k]
		if !ok {
			i = len(groups)
			place[k], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// A cellSlot is a cell where it was measured.
type cellSlot struct{ cell, slot string }

func movedCells(rows []warehouse.ChangePointRow) int {
	seen := make(map[cellSlot]bool)
	for _, r := range rows {
		seen[cellSlot{r.CellKey, r.Slot}] = true
	}
	return len(seen)
}

// worstCellsFirst orders by the largest shift of a cell, and leaves the metrics of
// a cell together in their order.
func worstCellsFirst(rows []warehouse.ChangePointRow) []warehouse.ChangePointRow {
	worst := make(map[cellSlot]float64)
	for _, r := range rows {
		c := cellSlot{r.CellKey, r.Slot}
		worst[c] = max(worst[c], math.Abs(r.BetterPct))
	}
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b warehouse.ChangePointRow) int {
		x, y := cellSlot{a.CellKey, a.Slot}, cellSlot{b.CellKey, b.Slot}
		return cmp.Or(cmp.Compare(worst[y], worst[x]), cmp.Compare(x.cell, y.cell), cmp.Compare(x.slot, y.slot))
	})
	return out
}

// A shiftLine is a line of the table: a shift and the metrics of its cell that say
// the same, as total throughput does of output throughput.
type shiftLine struct {
	shiftJSON
	alike int
}

// alikePct is how far apart the changes of two metrics may be that say the same,
// in points.
const alikePct = 0.1

func (x *shiftEvent) lines() []shiftLine {
	var out []shiftLine
next:
	for _, s := range x.Shifts {
		for i := range out {
			if l := &out[i]; l.Cell == s.Cell && l.Host == s.Host && math.Abs(l.ChangePct-s.ChangePct) <= alikePct {
				l.alike++
				continue next
			}
		}
		out = append(out, shiftLine{shiftJSON: s})
	}
	return out
}

// largest is the shift that is named first.
func (x *shiftEvent) largest() shiftJSON {
	return slices.MaxFunc(x.Shifts, func(a, b shiftJSON) int { return cmp.Compare(math.Abs(a.BetterPct), math.Abs(b.BetterPct)) })
}

// standing says how many of the lines have seen no shift back since.
func (x *shiftEvent) standing() string {
	back, lines := 0, x.lines()
	for _, l := range lines {
		if l.returned(x.Worse) {
			back++
		}
	}
	good := "good again"
	if !x.Worse {
		good = "lost again"
	}
	switch back {
	case 0:
		return "no shift back since"
	case len(lines):
		return good
	}
	return fmt.Sprintf("%s in %d of %d lines", good, back, len(lines))
}

// returned says that the next shift of the value goes the other way.
func (s shiftJSON) returned(worse bool) bool {
	return s.NextBetterPct != nil && (*s.NextBetterPct > 0) == worse
}

const minute = "2006-01-02 15:04 UTC"

func printEvents(w io.Writer, events []*shiftEvent) {
	if len(events) == 0 {
		fmt.Fprintf(w, "no lasting shift was found; series of fewer than %d runs cannot show one\n", warehouse.ShortestHistory)
		return
	}
	tw := newTable()
	tw.AppendHeader(table.Row{"#", "since", "series", "cells", "largest change", "metric", "state"})
	for i, x := range events {
		l := x.largest()
		tw.AppendRow(table.Row{
			i + 1, x.FirstAt.UTC().Format(minute), visible(x.Series), fmt.Sprintf("%d of %d", x.CellsMoved, x.CellsMeasured),
			signed(&l.ChangePct) + " %", l.Metric, x.standing(),
		})
	}
	fmt.Fprintf(w, "%s\n\n", tw.Render())
	for i, x := range events {
		word, bad, good := "WORSE", "first bad run: ", "last good run: "
		if !x.Worse {
			word, bad, good = "better", "first run of the new level: ", "last run of the old level:  "
		}
		fmt.Fprintf(w, "#%d %s since %s: %d of %d cells\n  %s\n  %s%s\n  %s%s\n", i+1, word, x.FirstAt.UTC().Format(minute), x.CellsMoved, x.CellsMeasured,
			visible(x.Series), bad, visible(x.FirstRun), good, visible(x.LastRun))
		for _, c := range x.Changed {
			fmt.Fprintf(w, "  changed then: %s: %s → %s\n", visible(c.Field), visible(textOr(c.Before)), visible(textOr(c.After)))
		}
		if len(x.Changed) == 0 {
			fmt.Fprintln(w, "  changed then: nothing that was recorded")
		}
		tw := newTable()
		tw.AppendHeader(table.Row{"cell", "metric", "before", "after", "change", "confidence", "later"})
		for _, l := range x.lines() {
			name := l.Metric
			if l.alike > 0 {
				name = fmt.Sprintf("%s (+%d alike)", name, l.alike)
			}
			tw.AppendRow(table.Row{
				visible(join(l.Cell, l.Host)), name, plain(&l.Before), plain(&l.After), signed(&l.ChangePct) + " %", fmt.Sprintf("%.1f %%", l.ConfidencePct), l.later(),
			})
		}
		fmt.Fprintf(w, "%s\n\n", tw.Render())
	}
}

// later says what became of a shift.
func (l shiftLine) later() string {
	if l.NextBetterPct == nil {
		return ""
	}
	word := "better"
	if *l.NextBetterPct < 0 {
		word = "worse"
	}
	return fmt.Sprintf("%.2f %% %s from %s on", math.Abs(*l.NextBetterPct), word, visible(l.NextRun))
}

// textOr cuts what would flood a terminal; JSON has it whole.
func textOr(s *string) string {
	switch {
	case s == nil:
		return "none"
	case len(*s) > 120:
		return (*s)[:120] + "…"
	}
	return *s
}
