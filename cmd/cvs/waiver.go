package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// A runCoverage is what the waivers do to the failures of a run. A waived
// failure stays a failure: it is counted apart, never as a pass.
type runCoverage struct {
	RunID     string          `json:"run_id"`
	Verdict   string          `json:"verdict"` // unchanged by waivers
	Waived    []waivedFailure `json:"waived"`
	Unwaived  []string        `json:"unwaived"`  // failed, and nothing covers them
	Expired   []string        `json:"expired"`   // waivers that would cover a failure but are over
	Outside   []string        `json:"outside"`   // waivers whose condition a failure does not meet
	Passing   []string        `json:"passing"`   // waivers all of whose gates pass: to be removed
	Unmatched []string        `json:"unmatched"` // waivers that match no gate
}

// A waivedFailure is a failed gate and the waiver that covers it.
type waivedFailure struct {
	Gate   string `json:"gate"`
	State  string `json:"state"` // fail or invalid
	Reason string `json:"reason"`
	Waiver string `json:"waiver"` // id
	Until  string `json:"until"`  // last day, UTC
	Owner  string `json:"owner"`
	Issue  string `json:"issue"`
}

// coverageOf reads what the views say of a run's waivers.
func coverageOf(ctx context.Context, r *artifact.Run, at time.Time) (*runCoverage, error) {
	c, err := caseOf(ctx, r, at)
	if err != nil {
		return nil, err
	}
	defer c.db.Close()
	out := &runCoverage{RunID: r.Meta.RunID, Verdict: c.Seen.Headline}
	for _, b := range c.Blocks {
		switch b.Class {
		case "failure":
			out.Unwaived = append(out.Unwaived, b.Reason)
		case "expired":
			out.Expired = append(out.Expired, b.Reason)
		case "outside":
			out.Outside = append(out.Outside, b.Reason)
		}
	}
	rows, err := c.db.GateWaivers(ctx, r.Meta.RunID, at)
	if err != nil {
		return nil, badStore(err)
	}
	seen := map[string]bool{}
	for _, g := range rows {
		if key := strings.Join([]string{g.Gate, g.Host, g.Reason}, "\x00"); g.Standing == "waived" && !seen[key] {
			seen[key] = true // two waivers of one gate waive one gate
			out.Waived = append(out.Waived, waivedFailure{g.Gate, string(g.State), g.Reason, g.WaiverID, g.LastDay.Format(time.DateOnly), g.Owner, g.Issue})
		}
	}
	use, err := c.db.WaiverUse(ctx, r.Meta.RunID, at)
	if err != nil {
		return nil, badStore(err)
	}
	for _, u := range use {
		switch u.Remark {
		case "remove":
			out.Passing = append(out.Passing, waiverRemark(u))
		case "unmatched":
			out.Unmatched = append(out.Unmatched, waiverRemark(u))
		}
	}
	return out, nil
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
		r, err := readRunAgainst(dir, signoff.Against{Waivers: w})
		if err != nil {
			return badData("%v", err)
		}
		c, err := coverageOf(ctx, r, e.now())
		if err != nil {
			return err
		}
		report.Runs = append(report.Runs, *c)
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
	fmt.Fprintf(e.stdout, "%s: %s\n", w.Name, count(len(w.List), "waiver"))
	for _, one := range w.List {
		if !e.now().UTC().Before(one.Expires) {
			fmt.Fprintf(e.stdout, "expired    waiver %s, on %s (line %d)\n", visible(one.ID), one.LastDay(), one.Line)
		}
	}
	for _, c := range r.Runs {
		fmt.Fprintf(e.stdout, "%s: verdict %s (waivers do not change it); failed: %d, of which waived: %d\n", visible(c.RunID), c.Verdict, len(c.Waived)+len(c.Unwaived), len(c.Waived))
		for _, g := range c.Waived {
			fmt.Fprintf(e.stdout, "  %s (waived)  %s: %s [waiver %s of %s until %s, %s]\n", g.State, visible(g.Gate), visible(g.Reason), visible(g.Waiver), visible(g.Owner), g.Until, visible(g.Issue))
		}
		for _, msg := range c.Unwaived {
			fmt.Fprintf(e.stdout, "  FAIL           %s\n", visible(msg))
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
