package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"cvs/collect/strictjson"
	"cvs/warehouse"
)

func newThresholds(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "thresholds",
		Short: "Suggest thresholds from history, and try a threshold file on it",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newThresholdsSuggest(e), newThresholdsBacktest(e))
	return cmd
}

type suggestOptions struct {
	store  storeOptions
	rate   float64
	format string
	series string
}

func newThresholdsSuggest(e *env) *cobra.Command {
	var o suggestOptions
	cmd := &cobra.Command{
		Use:   "suggest [flags]",
		Short: "Suggest a bound for each gated metric, with a stated false-alarm rate",
		Long: `Suggests bounds from the last 20 healthy runs of each comparable series (at
least five): the median and a margin in robust standard deviations, such that a run
as those before breaks a bound with the chance --false-alarm-pct. Beside each stands
how many runs of the whole series it would have failed. --format json prints a
threshold file for one series; choose it with --series.
` + exitHelp,
		Example: `  cvs thresholds suggest --series "gpt-oss-120b" --false-alarm-pct 0.5
  cvs thresholds suggest --series IDENTITY --format json > my_threshold.json`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runSuggest(cmd.Context(), e, o) },
	}
	o.store.addFlags(cmd.Flags())
	cmd.Flags().Float64Var(&o.rate, "false-alarm-pct", 1, "chance that a run as before breaks a bound, per cent")
	cmd.Flags().StringVar(&o.format, "format", "table", "output `format`: table or json")
	cmd.Flags().StringVar(&o.series, "series", "", "only series whose identity contains `text`")
	return cmd
}

func runSuggest(ctx context.Context, e *env, o suggestOptions) error {
	if err := tableOrJSON(o.format); err != nil {
		return err
	}
	if !(o.rate > 0 && o.rate < 50) {
		return badInput("--false-alarm-pct %v: want more than 0 and less than 50", o.rate)
	}
	db, err := readStore(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.SuggestThresholds(ctx, o.rate/100)
	if err != nil {
		return badStore(err)
	}
	var kept []warehouse.SuggestionRow
	series := map[string]bool{}
	wanted := seriesLike(o.series, seriesIDs(rows))
	for _, r := range rows {
		if wanted(r.SeriesID) {
			kept = append(kept, r)
			series[r.SeriesID] = true
		}
	}
	if len(kept) == 0 && len(rows) > 0 {
		return badData("no series with five healthy runs is like %s%s", o.series, thereAre("series", o.series, seriesIDs(rows)))
	}
	if len(kept) == 0 {
		return badData("no series with five healthy runs in the warehouse")
	}
	if o.format == "json" {
		if len(series) > 1 {
			return badInput("a threshold file is for one series, --series leaves %d%s", len(series), thereAre("series", "", seriesIDs(kept)))
		}
		type spec struct {
			Kind  string  `json:"kind"`
			Value float64 `json:"value"`
		}
		file := map[string]map[string]spec{}
		for _, r := range kept {
			if file[r.CellKey] == nil {
				file[r.CellKey] = map[string]spec{}
			}
			file[r.CellKey][r.Metric] = spec{r.Kind, roundTo(r.Value)}
		}
		return printJSON(e, file)
	}
	out := sections{out: e.stdout, columns: table.Row{"cell", "metric", "kind", "value", "median of runs", "would have failed"}}
	for _, r := range kept {
		out.row(visible(r.SeriesID), table.Row{visible(r.CellKey), r.Metric, r.Kind, plain(&r.Value), fmt.Sprintf("%s of %d", plain(&r.Mid), r.Runs), fmt.Sprintf("%d of %d runs", r.WouldFail, r.Tested)})
	}
	out.end()
	fmt.Fprintf(e.stdout, "chance that a run as before breaks one bound: %v %% (normal noise)\n", o.rate)
	return nil
}

// seriesLike tells the series that --series means: those that contain the text,
// but only the one that is the text, as one identity may be the end of another's.
func seriesLike(text string, all []string) func(id string) bool {
	if slices.Contains(all, text) {
		return func(id string) bool { return id == text }
	}
	return func(id string) bool { return strings.Contains(strings.ToLower(id), strings.ToLower(text)) }
}

// seriesIDs are the series of suggestions, which come in their order.
func seriesIDs(rows []warehouse.SuggestionRow) []string {
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.SeriesID)
	}
	return slices.Compact(ids)
}

// roundTo keeps five significant digits: a bound is no measurement.
func roundTo(v float64) float64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	if err != nil {
		return v
	}
	return f
}

func newThresholdsBacktest(e *env) *cobra.Command {
	var store storeOptions
	var series string
	cmd := &cobra.Command{
		Use:   "backtest [flags] THRESHOLD_FILE",
		Short: "Say how many runs of the history a threshold file would have failed",
		Long: `Tries every spec of THRESHOLD_FILE on the healthy runs of the history, series by
series: how many runs it would have failed as a whole, and spec by spec. A file is
for one configuration; --series chooses whose history counts. Specs of kind
min_ratio and info are not tried.
` + exitHelp,
		Example: `  cvs thresholds backtest my_threshold.json --series "gpt-oss-120b"`,
		Args:    needAll("THRESHOLD_FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBacktest(cmd.Context(), e, store, args[0], series)
		},
	}
	store.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&series, "series", "", "only series whose identity contains `text`")
	return cmd
}

func runBacktest(ctx context.Context, e *env, store storeOptions, path, series string) error {
	specs, err := readSpecs(path)
	if err != nil {
		return err
	}
	db, err := readStore(ctx, e, store)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Backtest(ctx, specs)
	if err != nil {
		return badStore(err)
	}
	runs, err := db.BacktestRuns(ctx, specs)
	if err != nil {
		return badStore(err)
	}
	var all []string
	head := map[string]string{}
	for _, r := range runs {
		all = append(all, r.SeriesID)
		head[r.SeriesID] = fmt.Sprintf("%s\nwould have failed %d of %d runs", visible(r.SeriesID), r.WouldFail, r.Runs)
		if r.LastFailed != "" {
			head[r.SeriesID] += ", the last of them " + visible(r.LastFailed)
		}
	}
	if len(rows) == 0 {
		return badData("the warehouse has no history of a cell of %s", path)
	}
	wanted := seriesLike(series, all)
	if !slices.ContainsFunc(all, wanted) {
		return badData("no series with a cell of %s is like %s%s", path, series, thereAre("series", series, all))
	}
	out := sections{out: e.stdout, columns: table.Row{"cell", "metric", "spec", "history", "would have failed"}}
	for _, r := range rows {
		if wanted(r.SeriesID) {
			out.row(head[r.SeriesID], table.Row{visible(r.CellKey), r.Metric, r.Kind + " " + plain(&r.Value), fmt.Sprintf("%s … %s … %s", plain(&r.Lowest), plain(&r.Mid), plain(&r.Highest)), fmt.Sprintf("%d of %d runs", r.WouldFail, r.Runs)})
		}
	}
	out.end()
	fmt.Fprintf(e.stdout, "%d specs in %s; those without history, min_ratio and info are not listed\n", len(specs), visible(path))
	return nil
}

// readSpecs reads the cells of a threshold file, of one profile or of all.
func readSpecs(path string) ([]warehouse.Spec, error) {
	data, err := readInput(path, maxInputFile)
	if err != nil {
		return nil, badInput("%v", err)
	}
	v, _, err := strictjson.Parse(data, strictjson.Options{MaxBytes: maxInputFile})
	if err != nil {
		return nil, badInput("%s: %v", path, err)
	}
	maps := []*strictjson.Value{v}
	if p := v.Get("profiles"); p != nil {
		for _, m := range p.Members {
			maps = append(maps, m.Value)
		}
	}
	var specs []warehouse.Spec
	var errs []error
	for _, m := range maps {
		for _, cell := range m.Members {
			if !strings.HasPrefix(cell.Name, "ISL=") {
				continue
			}
			for _, s := range cell.Value.Members {
				if strings.HasPrefix(s.Name, "_") {
					continue // a comment
				}
				x := warehouse.Spec{Cell: cell.Name, Metric: strings.TrimPrefix(s.Name, "client.")}
				if k := s.Value.Get("kind"); k != nil {
					x.Kind = k.Text
				}
				x.Value, x.TolerancePct = specNumber(s.Value.Get("value")), specNumber(s.Value.Get("tolerance_pct"))
				if lacks := specLacks(x); lacks != "" {
					errs = append(errs, badInput("%s:%s: %s.%s: %s", path, strictjson.PosAt(data, s.Value.Offset), cell.Name, s.Name, lacks))
				}
				specs = append(specs, x)
			}
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if len(specs) == 0 {
		return nil, badInput("%s: no cell with specs in it", path)
	}
	return specs, nil
}

// specLacks says what keeps a spec from being tried, "" if nothing does: a bound
// that cannot be read would break for no run.
func specLacks(x warehouse.Spec) string {
	switch x.Kind {
	case "info", "min_ratio":
		return ""
	case "min", "min_tok_s", "max", "max_ms", "within":
	default:
		return fmt.Sprintf("unknown kind %q", x.Kind)
	}
	switch {
	case x.Value == nil:
		return "value is missing or no number"
	case x.Kind == "within" && (x.TolerancePct == nil || *x.TolerancePct < 0):
		return "tolerance_pct is missing or no number of at least 0"
	}
	return ""
}

func specNumber(v *strictjson.Value) *float64 {
	if v == nil {
		return nil
	}
	f, err := v.Float()
	if v.Kind == strictjson.String && strictjson.IsNumber(v.Text) { // accepted, as everywhere
		f, err = strconv.ParseFloat(v.Text, 64)
	}
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}
