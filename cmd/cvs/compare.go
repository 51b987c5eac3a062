package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/metric"
	"cvs/warehouse"
)

type compareOptions struct {
	in      inputOptions
	store   storeOptions
	results string
	format  string
	fail    bool
	html    string
	slo     string
}

func (o *compareOptions) addFlags(f *pflag.FlagSet) {
	o.in.addFlags(f)
	o.store.addFlags(f)
	f.StringVar(&o.results, "results", "", "compare the results in `folder` (with --config_file); nothing is stored")
	f.StringVar(&o.format, "format", "table", "output `format`: table, json or markdown")
	f.StringVar(&o.html, "html", "", "write the comparison as one self-contained page to `file`")
	sloFlag(f, &o.slo)
	f.BoolVar(&o.fail, "fail-on-regression", false, "exit 1 if a gated metric is more than 5 % worse")
}

func newCompare(e *env) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare [flags] [RUN [OTHER [THIRD]]]",
		Short: "Compare a run with the run before it, another run, or a baseline file",
		Long: `Compares RUN (a run id, "latest", or a run directory) with OTHER (the same, or
the JSON of an older deck). Without OTHER the baseline is the file that
CVS_INFERENCE_PREV_REPORT_JSON names, or else the latest earlier comparable run,
cell by cell. The reference for framework parity is the file that
CVS_ATOM_PARITY_REF_JSON names, or else the nearest run of another driver.

--html writes a page of RUN beside OTHER, or beside two others such as the same
cells under ATOM, vLLM-ATOM and SGLang: first whether anything is worse and the
geometric mean of the changes with its interval, then every value with its state.
A run of another framework is compared as framework parity does.

Every gated metric is compared in its direction; more than 5 % is marked, with
the noise of earlier runs beside it. Runs of another model, precision, GPU,
driver or cell are named and not compared. Comparing changes no verdict: the exit
status is 0 unless --fail-on-regression.
` + exitHelp,
		Example: `  cvs compare latest
  cvs compare RUN OTHER --html compare.html
  cvs compare RUN older_deck.json --format markdown --fail-on-regression`,
		Args: atMost(maxSides),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := emptyProfile(cmd, o.in); err != nil {
				return err
			}
			return runCompare(cmd.Context(), e, o, args)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// A comparison is everything one run is compared with.
type comparison struct {
	RunID     string          `json:"run_id"`
	Prev      prevPanel       `json:"prev_run"`
	Accuracy  []accuracyDelta `json:"accuracy_prev_run"`
	Parity    parityPanel     `json:"framework_parity"`
	Scaling   []scalingLine   `json:"scaling"`
	Golden    []prevLine      `json:"golden"`
	Judgement []judgedLine    `json:"regressions"`
	SLO       []*sloReport    `json:"slo,omitempty"` // of the run, then of the one before
}

func runCompare(ctx context.Context, e *env, o compareOptions, args []string) error {
	write, ok := map[string]func(io.Writer, *comparison) error{"table": printComparison, "json": nil, "markdown": markdownComparison}[o.format]
	if !ok {
		return badInput("--format %s: want table, json or markdown", o.format)
	}
	switch {
	case o.html != "" && len(args) < 2:
		return badInput("--html needs the runs to compare: cvs compare RUN OTHER --html %s", o.html)
	case o.html == "" && len(args) > 2:
		return badInput("three runs are compared on a page; name its file with --html")
	}
	sides := args
	level, err := optionalSLO(o.slo)
	if err != nil {
		return err
	}
	var other string
	if len(args) >= 2 {
		other, args = args[1], args[:1]
	}
	db, j, err := judgedRun(ctx, e, o.in, o.store, o.results, args)
	if err != nil {
		return err
	}
	defer db.Close()
	if o.html != "" {
		return compareOnPage(ctx, e, o, db, j, sides, level)
	}
	c := comparedWith(e, db, "")
	if other != "" {
		if c.Prev, err = baselineOf(ctx, e, o.store, db, other); err != nil {
			return err
		}
		c.PrevErr = nil
	}
	cmp, err := compareRun(ctx, c, j.status.RunID)
	if err != nil {
		return badStore(err)
	}
	if level != nil {
		if cmp.SLO, err = sloOfBoth(ctx, db, cmp, level); err != nil {
			return err
		}
	}
	if o.format == "json" {
		err = printJSON(e, cmp)
	} else {
		err = write(e.stdout, cmp)
	}
	if err != nil {
		return err
	}
	if n := cmp.Prev.Counts.Regressions; o.fail && n > 0 {
		return &statusError{1, fmt.Sprintf("run %s: %d gated metrics are more than 5 %% worse than %s", cmp.RunID, n, cmp.Prev.Baseline)}
	}
	return nil
}

// compareOnPage writes the page and says the most important of it.
func compareOnPage(ctx context.Context, e *env, o compareOptions, db *warehouse.DB, j *judgement, sides []string, level []warehouse.Objective) error {
	c, err := compareDeck(ctx, e, o, db, j, sides, level)
	if err != nil {
		return err
	}
	for _, line := range c.Summary() {
		fmt.Fprintln(e.stdout, visible(line))
	}
	fmt.Fprintln(e.stdout, o.html)
	for i := range c.Pairs {
		if n := c.Pairs[i].Worse(); o.fail && n > 0 {
			return &statusError{1, fmt.Sprintf("run %s: %d gated metrics are more than 5 %% worse than %s", j.status.RunID, n, sides[i+1])}
		}
	}
	return nil
}

// compareRun asks the comparison views about one run.
func compareRun(ctx context.Context, c *deckSource, runID string) (*comparison, error) {
	out := &comparison{RunID: runID}
	rows, err := c.PrevRun(ctx, runID)
	if err != nil && c.PrevErr == nil {
		return nil, err
	}
	out.Prev = prevPanelOf(rows, c.PrevErr)
	if len(rows) == 0 && c.Prev == nil && c.PrevErr == nil {
		run, err := c.Run(ctx, runID)
		if err != nil {
			return nil, err
		}
		if run.StartedAt == nil {
			out.Prev.Message = "this run states no start, so no other is known to be earlier"
		}
	}
	parity, err := c.FrameworkParity(ctx, runID)
	if err != nil && c.ParityErr == nil {
		return nil, err
	}
	out.Parity = parityPanelOf(parity, c.ParityErr)
	if c.PrevErr == nil {
		acc, err := c.AccuracyPrevRun(ctx, runID)
		if err != nil {
			return nil, err
		}
		out.Accuracy = accuracyDeltas(acc)
	}
	scaling, err := c.Scaling(ctx, runID)
	if err != nil {
		return nil, err
	}
	out.Scaling = scalingLines(scaling)
	golden, err := c.Golden(ctx, runID)
	if err != nil {
		return nil, err
	}
	out.Golden = goldenLines(golden)
	judged, err := c.Regressions(ctx, runID)
	if err != nil {
		return nil, err
	}
	out.Judgement = judgedLines(judged)
	return out, nil
}

// printComparison shows the headline metric of every cell, and of the others
// what moved.
func printComparison(w io.Writer, c *comparison) error {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s\n\nprevious run: %s\n", visible(c.RunID), visible(c.Prev.Title()))
	tw := newTable()
	tw.AppendHeader(table.Row{"cell", "metric", "previous", "now", "change", "noise", "note"})
	for _, r := range c.Prev.Rows {
		if r.shown() {
			tw.AppendRow(table.Row{r.where(), r.Metric, plain(r.Previous), plain(r.Value), r.change(), r.noise(), visible(r.note())})
		}
	}
	if tw.Length() > 0 {
		b.WriteString(tw.Render() + "\n")
	}
	fmt.Fprintf(&b, "%s\n", c.Prev.Counts)
	for _, a := range c.Accuracy {
		fmt.Fprintf(&b, "accuracy %s %s: %s against %s%s%s\n", visible(a.Task), visible(a.Metric), plain(a.Value), plain(a.Previous), suffix(a.Regression, " WORSE"), suffix(a.Reason != "", ": "+visible(a.Reason)))
	}
	fmt.Fprintf(&b, "\nframework parity: %s\n", visible(c.Parity.Title()))
	tw = newTable()
	tw.AppendHeader(table.Row{"cell", "ratio of", "reference", "now", "ratio", "note"})
	for _, r := range c.Parity.Rows {
		if r.Cell != "" {
			tw.AppendRow(table.Row{r.where(), r.Name, plain(r.Reference), plain(r.Value), number(r.Ratio, 3), visible(r.note())})
		}
	}
	if tw.Length() > 0 {
		fmt.Fprintf(&b, "%s\n%s\n", tw.Render(), c.Parity.Counts)
	}
	for _, s := range c.Scaling {
		fmt.Fprintf(&b, "scaling %s: %s %% of the configured baseline, %s %% of run %s%s\n", visible(s.Cell), number(s.ConfiguredPct, 1), number(s.SinglePct, 1), visible(orNone(s.SingleRun)), suffix(s.Reason != "", " ("+visible(s.Reason)+")"))
	}
	if len(c.Golden) > 0 {
		fmt.Fprintf(&b, "\npinned baseline %s (run %s):\n", visible(c.Golden[0].Reason), visible(c.Golden[0].BaseRun))
		for _, g := range c.Golden {
			if g.Metric == metric.Headline || g.Regression {
				fmt.Fprintf(&b, "  %s %s: %s\n", visible(g.Cell), g.Metric, g.change())
			}
		}
	}
	for _, r := range c.Judgement {
		if r.State == "regression" || r.State == "improvement" || r.State == "suspect" {
			fmt.Fprintf(&b, "%s: %s %s %s %% against the %d runs before (noise limit %s %%)%s\n", r.State, visible(r.Cell), r.Metric, signed(r.ChangePct), r.EarlierRuns, number(r.LimitPct, 1), suffix(r.Reason != "", ": "+visible(r.Reason)))
		}
	}
	for _, r := range c.SLO {
		r.print(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownComparison is the same for a pull request.
func markdownComparison(w io.Writer, c *comparison) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### Run %s against %s\n\n", mdText(c.RunID), mdText(c.Prev.Title()))
	b.WriteString("| cell | metric | previous | now | change | note |\n|---|---|---:|---:|---:|---|\n")
	for _, r := range c.Prev.Rows {
		if r.shown() {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", mdText(join(r.Cell, r.Host)), r.Metric, plain(r.Previous), plain(r.Value), r.change(), mdText(r.note()))
		}
	}
	fmt.Fprintf(&b, "\n%s\n\nFramework parity: %s\n", c.Prev.Counts, mdText(c.Parity.Title()))
	if len(c.Parity.Rows) > 0 {
		b.WriteString("\n| cell | ratio of | reference | now | ratio | note |\n|---|---|---:|---:|---:|---|\n")
		for _, r := range c.Parity.Rows {
			if r.Cell != "" {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", mdText(join(r.Cell, r.Host)), r.Name, plain(r.Reference), plain(r.Value), number(r.Ratio, 3), mdText(r.note()))
			}
		}
		fmt.Fprintf(&b, "\n%s\n", c.Parity.Counts)
	}
	for _, r := range c.SLO {
		r.markdown(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
