package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

type inspectOptions struct {
	format string
	sets   []string
}

func newInspect(e *env) *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what a result file is, and its metrics in our vocabulary",
		Args:  needAll("FILE"),
		RunE:  func(cmd *cobra.Command, args []string) error { return runInspect(cmd.Context(), e, o, args[0]) },
	}
	cmd.Flags().StringVar(&o.format, "format", "text", "output `format`: text or json")
	cmd.Flags().StringArrayVar(&o.sets, "set", nil, "state a fact the file lacks, e.g. tp=8, isl=1024, osl=1024 (for derived metrics)")
	return cmd
}

// inspection is the JSON form.
type inspection struct {
	Path     string        `json:"path"`
	Format   string        `json:"format"`
	SHA256   string        `json:"sha256"`
	Bytes    int64         `json:"bytes"`
	Metrics  []metricJSON  `json:"metrics"`
	Problems []problemJSON `json:"problems"`
}

func runInspect(ctx context.Context, e *env, o inspectOptions, path string) error {
	facts, err := parseSets(o.sets)
	if err != nil {
		return err
	}
	found := looseRuns(path, 0, nil)
	if len(found) != 1 {
		return badInput("%s holds the results of %d runs; load it with: cvs load %s", path, len(found), path)
	}
	if found[0].err != nil {
		return found[0].err
	}
	r := found[0].run
	if err := facts.apply(found[0].src); err != nil {
		return err
	}
	db, j, err := judgeInMemory(ctx, r)
	if err != nil {
		return err
	}
	defer db.Close()
	arts, err := db.Artifacts(ctx, r.Meta.RunID)
	if err != nil {
		return badStore(err)
	}
	x := inspection{Path: path, Problems: problemsJSON(j.quality)}
	if len(arts) > 0 {
		x.Format, x.SHA256, x.Bytes = arts[0].Format, arts[0].SHA256, arts[0].Bytes
	}
	metrics, err := db.Metrics(ctx, r.Meta.RunID)
	if err != nil {
		return badStore(err)
	}
	x.Metrics = metricsJSON(metrics)
	if o.format == "json" {
		return printJSON(e, x)
	}
	fmt.Fprintf(e.stdout, "%s: %s, %d bytes, sha256 %s\n", visible(path), x.Format, x.Bytes, x.SHA256)
	tw := tabwriter.NewWriter(e.stdout, 0, 4, 2, ' ', 0)
	for _, m := range x.Metrics {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", visible(m.Cell), visible(m.Metric), exact(m.Value), m.Unit, m.Quality)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, p := range x.Problems {
		fmt.Fprintf(e.stdout, "%s: %s\n", p.Severity, visible(p.Msg))
	}
	return nil
}

func exact(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprint(*v)
}
