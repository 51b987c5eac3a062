package main

import (
	"context"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"cvs/collect/metric"
	"cvs/warehouse"
)

type historyOptions struct {
	store  storeOptions
	format string
	model  string
}

func newHistory(e *env) *cobra.Command {
	var o historyOptions
	cmd := &cobra.Command{
		Use:   "history [flags] CELL METRIC",
		Short: "Show one metric of a cell through every comparable run",
		Long: `Lists METRIC of CELL through time, one table for each comparable series (equal
driver, model, precision, GPU, parallelism, nodes; simulated apart from real).
CELL is a cell key or a part of one, such as CONC=128. A measurement that was
published twice is shown once.
` + exitHelp,
		Example: `  cvs history "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128" output_throughput
  cvs history CONC=64 p99_ttft_ms --model deepseek --format json`,
		Args: needAll("CELL", "METRIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHistory(cmd.Context(), e, o, args[0], args[1])
		},
	}
	o.store.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.format, "format", "table", "output `format`: table or json")
	cmd.Flags().StringVar(&o.model, "model", "", "only series whose identity contains `text`")
	return cmd
}

func runHistory(ctx context.Context, e *env, o historyOptions, cell, name string) error {
	if err := tableOrJSON(o.format); err != nil {
		return err
	}
	if err := knownMetric(name); err != nil {
		return err
	}
	db, err := readStore(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.History(ctx, cell, name)
	if err != nil {
		return badStore(err)
	}
	kept := rows[:0]
	for _, r := range rows {
		if strings.Contains(strings.ToLower(r.SeriesID), strings.ToLower(o.model)) {
			kept = append(kept, r)
		}
	}
	if len(kept) == 0 {
		series := texts(ctx, db, "SELECT DISTINCT series_id FROM history WHERE metric = ? AND contains(cell_key, ?) ORDER BY 1", name, cell)
		if len(series) > 0 {
			return badData("no %s of a cell like %s in a series like %s%s", name, cell, o.model, thereAre("series", o.model, series))
		}
		cells := texts(ctx, db, "SELECT DISTINCT cell_key FROM history WHERE metric = ? ORDER BY 1", name)
		return badData("no %s of a cell like %s in the warehouse%s", name, cell, thereAre("cells", cell, cells))
	}
	if o.format == "json" {
		return printJSON(e, historyJSON(kept))
	}
	out := sections{out: e.stdout}
	for _, r := range kept {
		out.columns = table.Row{"started", strings.Join(nonEmpty(r.Metric, r.Unit), " "), "run", "version", "image", ""}
		out.row(visible(r.SeriesID)+"\n"+visible(join(r.CellKey, r.Slot)),
			table.Row{r.StartedAt.Format("2006-01-02 15:04"), plain(&r.Value), visible(r.RunID), visible(short(r.Version)), visible(r.Image), suffix(!r.Healthy, "requests failed")})
	}
	out.end()
	return nil
}

// knownMetric refuses a name that no cell has, naming the nearest.
func knownMetric(name string) error {
	if _, ok := metric.Lookup(name); ok {
		return nil
	}
	var names []string
	for _, d := range metric.Table() {
		names = append(names, d.Name)
	}
	return badInput("unknown metric %q%s", name, thereAre("metrics", name, names))
}

// short cuts a commit to the length people use.
func short(s string) string {
	if len(s) == 40 {
		return s[:10]
	}
	return s
}

type historyPoint struct {
	Series    string  `json:"series"`
	Cell      string  `json:"cell"`
	Host      string  `json:"host,omitempty"`
	Metric    string  `json:"metric"`
	Unit      string  `json:"unit"`
	RunID     string  `json:"run_id"`
	StartedAt string  `json:"started_at"`
	Value     float64 `json:"value"`
	Healthy   bool    `json:"healthy"`
	Image     string  `json:"image,omitempty"`
	Version   string  `json:"version,omitempty"`
	Source    string  `json:"source,omitempty"`
}

func historyJSON(rows []warehouse.HistoryRow) []historyPoint {
	out := []historyPoint{}
	for _, r := range rows {
		out = append(out, historyPoint{r.SeriesID, r.CellKey, r.Slot, r.Metric, r.Unit, r.RunID, r.StartedAt.UTC().Format("2006-01-02T15:04:05.999Z"), r.Value, r.Healthy, r.Image, r.Version, r.Source})
	}
	return out
}
