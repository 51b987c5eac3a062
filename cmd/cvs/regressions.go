package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"cvs/warehouse"
)

type regressionsOptions struct {
	store  storeOptions
	since  string
	format string
	all    bool
	fail   bool
}

func newRegressions(e *env) *cobra.Command {
	var o regressionsOptions
	cmd := &cobra.Command{
		Use:   "regressions [flags]",
		Short: "List what got worse and stayed worse, with the run it began at",
		Long: `Lists lasting shifts of level in the history of every comparable series: the
last run of the old level, the first of the new one, the size and the chance that
it is noise, cells that moved together as one event, and what changed between the
two runs. A shift needs four or five runs to be seen; single bad runs are not
listed (cvs compare shows them).
` + exitHelp,
		Example: `  cvs regressions --since 14d
  cvs regressions --since 2026-04-01 --improvements --format json`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runRegressions(cmd.Context(), e, o) },
	}
	o.store.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.since, "since", "", "only shifts that began at or after this `time`: 2006-01-02, RFC 3339, or days such as 14d")
	cmd.Flags().StringVar(&o.format, "format", "table", "output `format`: table or json")
	cmd.Flags().BoolVar(&o.all, "improvements", false, "list shifts to the better as well")
	cmd.Flags().BoolVar(&o.fail, "fail-on-regression", false, "exit 1 if a shift to the worse is listed")
	return cmd
}

// parseSince reads a day, an instant, or a number of days before now.
func parseSince(e *env, s string) (time.Time, error) {
	var days int
	if n, err := fmt.Sscanf(s, "%dd", &days); n == 1 && err == nil && s == fmt.Sprintf("%dd", days) {
		return e.now().AddDate(0, 0, -days), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, badInput("--since %s: want 2006-01-02, an RFC 3339 time, or days such as 14d", s)
}

// shiftEvent is what moved to one side at one run of a series.
type shiftEvent struct {
	Series   string                     `json:"series"`
	FirstRun string                     `json:"first_run"`
	FirstAt  time.Time                  `json:"first_at"`
	LastRun  string                     `json:"last_run_before"`
	Worse    bool                       `json:"worse"`
	Shifts   []shiftJSON                `json:"shifts"`
	Changed  []changedJSON              `json:"changed"`
	rows     []warehouse.ChangePointRow // of Shifts
}

type shiftJSON struct {
	Cell      string  `json:"cell"`
	Host      string  `json:"host,omitempty"`
	Metric    string  `json:"metric"`
	Unit      string  `json:"unit"`
	Before    float64 `json:"before"`
	After     float64 `json:"after"`
	ChangePct float64 `json:"change_pct"`
	BetterPct float64 `json:"better_pct"`
	PValue    float64 `json:"p_value"`
	FoundRun  string  `json:"found_run"`
	Method    string  `json:"method"`
	Version   int     `json:"version"`
}

type changedJSON struct {
	Field  string  `json:"field"`
	Before *string `json:"before"`
	After  *string `json:"after"`
}

func runRegressions(ctx context.Context, e *env, o regressionsOptions) error {
	if err := tableOrJSON(o.format); err != nil {
		return err
	}
	var since time.Time
	if o.since != "" {
		var err error
		if since, err = parseSince(e, o.since); err != nil {
			return err
		}
	}
	db, err := readStore(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.ChangePoints(ctx, since)
	if err != nil {
		return badStore(err)
	}
	events, err := shiftEvents(ctx, db, rows, o.all)
	if err != nil {
		return badStore(err)
	}
	if o.format == "json" {
		if err := printJSON(e, events); err != nil {
			return err
		}
	} else {
		printEvents(e, events)
	}
	worse := 0
	for _, x := range events {
		if x.Worse {
			worse++
		}
	}
	if o.fail && worse > 0 {
		return &statusError{1, fmt.Sprintf("%d lasting regressions", worse)}
	}
	return nil
}

func shiftEvents(ctx context.Context, db *warehouse.DB, rows []warehouse.ChangePointRow, all bool) ([]*shiftEvent, error) {
	events := []*shiftEvent{}
	for _, r := range rows {
		if !r.Worse && !all {
			continue
		}
		var x *shiftEvent
		for _, have := range events {
			if have.Series == r.SeriesID && have.FirstRun == r.FirstRun && have.Worse == r.Worse {
				x = have
			}
		}
		if x == nil {
			x = &shiftEvent{Series: r.SeriesID, FirstRun: r.FirstRun, FirstAt: r.FirstAt, LastRun: r.LastRun, Worse: r.Worse, Changed: []changedJSON{}}
			changed, err := db.WhatChanged(ctx, r.LastRun, r.FirstRun)
			if err != nil {
				return nil, err
			}
			for _, c := range changed {
				x.Changed = append(x.Changed, changedJSON(c))
			}
			events = append(events, x)
		}
		x.rows = append(x.rows, r)
		x.Shifts = append(x.Shifts, shiftJSON{r.CellKey, r.Slot, r.Metric, r.Unit, r.BeforeMid, r.AfterMid, r.ChangePct, r.BetterPct, r.PValue, r.FoundRun, r.Method, r.Version})
	}
	return events, nil
}

func printEvents(e *env, events []*shiftEvent) {
	for _, x := range events {
		word := "WORSE"
		if !x.Worse {
			word = "better"
		}
		fmt.Fprintf(e.stdout, "%s since run %s (%s): %d values moved together\n  %s\n  last run of the old level: %s\n",
			word, visible(x.FirstRun), x.FirstAt.UTC().Format("2006-01-02 15:04 UTC"), len(x.Shifts), visible(x.Series), visible(x.LastRun))
		tw := newTable()
		tw.AppendHeader(table.Row{"cell", "metric", "before", "after", "change", "p"})
		for _, r := range x.rows {
			tw.AppendRow(table.Row{visible(join(r.CellKey, r.Slot)), r.Metric, plain(&r.BeforeMid), plain(&r.AfterMid), signed(&r.ChangePct) + " %", fmt.Sprintf("%.4f", r.PValue)})
		}
		fmt.Fprintln(e.stdout, tw.Render())
		for _, c := range x.Changed {
			fmt.Fprintf(e.stdout, "  changed: %s: %s → %s\n", visible(c.Field), visible(textOr(c.Before)), visible(textOr(c.After)))
		}
		fmt.Fprintln(e.stdout)
	}
	if len(events) == 0 {
		fmt.Fprintln(e.stdout, "no lasting shift was found; series of fewer than nine runs cannot show one")
	}
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
