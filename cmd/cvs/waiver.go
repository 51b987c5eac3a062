package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"cvs/collect/artifact"
	"cvs/collect/signoff"
)

func newWaivers(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "waivers",
		Short: "Check accepted failures: format, expiry, and what they cover",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWaiversCheck(e))
	return cmd
}

func newWaiversCheck(e *env) *cobra.Command {
	var format, ws string
	cmd := &cobra.Command{
		Use:   "check [flags] FILE [RUN…]",
		Short: "Check a waiver file and, with runs, what it does to their failures",
		Long: `Reports every mistake of a waiver file with its line. With runs it says which
failures are waived, which are not, which waivers expired, match nothing, or have
nothing left to waive. It is a report beside the verdict: a waived failure stays
failed, and the verdict and exit status of the run stay what the views say.

The exit status is 1 when a failure is not waived or a waiver expired.
`,
		Args: needArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWaiversCheck(cmd.Context(), e, format, ws, args)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "output `format`: text or json")
	cmd.Flags().StringVar(&ws, "workspace", "", "`folder` whose cvs_runs holds the runs")
	return cmd
}

// A waiverReport is what a waiver file does to several runs.
type waiverReport struct {
	Runs      []runCoverage `json:"runs"`
	Passing   []string      `json:"passing"`   // in every run they match
	Unmatched []string      `json:"unmatched"` // in every run
}

type runCoverage struct {
	RunID   string `json:"run_id"`
	Verdict string `json:"verdict"` // unchanged by waivers
	signoff.Coverage
}

func runWaiversCheck(ctx context.Context, e *env, format, ws string, args []string) error {
	if format != "text" && format != "json" {
		return badInput("--format %s: want text or json", format)
	}
	w, _, err := readWaivers(args[0])
	if err != nil {
		return err
	}
	dirs, err := runDirs(e, ws, args[1:])
	if err != nil {
		return err
	}
	report := waiverReport{Runs: []runCoverage{}}
	for _, dir := range dirs {
		r, err := artifact.Read(dir)
		if err != nil {
			return badData("%v", err)
		}
		c, err := caseOf(ctx, r, w, e.now().UTC())
		if err != nil {
			return err
		}
		report.Runs = append(report.Runs, runCoverage{c.Facts.RunID, c.Seen.Headline, c.Coverage})
	}
	report.join()
	if format == "json" {
		err = printJSON(e, report)
	} else {
		printWaivers(e, w, report)
	}
	return errors.Join(err, report.err())
}

// join keeps of the reminders those that hold for all runs: a waiver for one of
// them matches nothing in another.
func (r *waiverReport) join() {
	r.Passing, r.Unmatched = []string{}, []string{}
	if len(r.Runs) == 0 {
		return
	}
	for _, msg := range r.Runs[0].Unmatched {
		if !slices.ContainsFunc(r.Runs, func(c runCoverage) bool { return !slices.Contains(c.Unmatched, msg) }) {
			r.Unmatched = append(r.Unmatched, msg)
		}
	}
	// A waiver has nothing left to do if it passes somewhere and fails nowhere:
	// in every run it is passing or unmatched.
	for _, c := range r.Runs {
		for _, msg := range c.Passing {
			id := waiverID(msg)
			if !slices.Contains(r.Passing, msg) && !slices.ContainsFunc(r.Runs, func(c runCoverage) bool {
				return !slices.ContainsFunc(append(slices.Clone(c.Passing), c.Unmatched...), func(m string) bool { return waiverID(m) == id })
			}) {
				r.Passing = append(r.Passing, msg)
			}
		}
	}
}

// waiverID is the id that a reminder begins with, up to its bracket.
func waiverID(msg string) string {
	for i := range msg {
		if msg[i] == '(' {
			return msg[:i]
		}
	}
	return msg
}

func (r *waiverReport) err() error {
	var errs []error
	for _, c := range r.Runs {
		if n := len(c.Unwaived); n > 0 {
			errs = append(errs, &statusError{1, visible(fmt.Sprintf("run %s: %d failed gate(s) are not waived", c.RunID, n))})
		}
		for _, msg := range c.Expired {
			errs = append(errs, &statusError{1, visible(fmt.Sprintf("run %s: %s", c.RunID, msg))})
		}
	}
	return errors.Join(errs...)
}

func printWaivers(e *env, w *signoff.Waivers, r waiverReport) {
	fmt.Fprintf(e.stdout, "%s: %d waivers\n", w.Name, len(w.List))
	for _, one := range w.List {
		if !e.now().UTC().Before(one.Expires) {
			fmt.Fprintf(e.stdout, "expired    waiver %s, on %s (line %d)\n", visible(one.ID), one.LastDay(), one.Line)
		}
	}
	for _, c := range r.Runs {
		fmt.Fprintf(e.stdout, "%s: verdict %s (waivers do not change it); failed: %d, of which waived: %d\n", visible(c.RunID), c.Verdict, len(c.Waived)+len(c.Unwaived), len(c.Waived))
		for _, g := range c.Waived {
			fmt.Fprintf(e.stdout, "  fail (waived)  %s: %s [waiver %s of %s until %s, %s]\n", visible(g.Gate.Name()), visible(g.Gate.Reason), visible(g.Waiver), visible(g.Owner), g.Until, visible(g.Issue))
		}
		for _, g := range c.Unwaived {
			fmt.Fprintf(e.stdout, "  FAIL           %s: %s\n", visible(g.Name()), visible(g.Reason))
		}
		for _, msg := range c.Outside {
			fmt.Fprintf(e.stdout, "  condition      %s\n", visible(msg))
		}
	}
	for _, msg := range r.Passing {
		fmt.Fprintf(e.stdout, "remove     %s\n", visible(msg))
	}
	for _, msg := range r.Unmatched {
		fmt.Fprintf(e.stdout, "unmatched  %s\n", visible(msg))
	}
}
