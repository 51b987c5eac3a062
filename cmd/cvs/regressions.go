package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
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
first bad run and the last good one before it, the size, the confidence, and where
it was good again. Cells that moved together are one event, with what changed
between the two runs. A shift needs three to five runs to be seen, and five before
it; single bad runs are not listed (cvs compare shows them). Metrics of a cell that
moved by the same per cent are one line; --format json has all of them.

Confidence is 100 % less the p of the rank test behind a shift: how rarely such
ranks come about where nothing changed. Many cells at once say more than one cell's
confidence does.
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
		printEvents(e.stdout, events)
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
