package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"cvs/warehouse"
)

func newExplain(e *env) *cobra.Command {
	var store storeOptions
	cmd := &cobra.Command{
		Use:   "explain [flags] RUN CELL METRIC",
		Short: "Show where one number and its verdict come from",
		Long: `Shows the raw file and JSON pointer a value was read from with the file's
sha256, the formula of a derived one, the threshold with its file and line, the
comparison and margin, the ten comparable values before, and the SQL that gives
the verdict again. RUN is a run id, "latest" or a run directory; CELL a cell key
or id.
` + exitHelp,
		Example: `  cvs explain latest w1_1k_1k-conc128 output_throughput
  cvs explain RUN "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128" p99_ttft_ms`,
		Args: needAll("RUN", "CELL", "METRIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExplain(cmd.Context(), e, store, args[0], args[1], args[2])
		},
	}
	store.addFlags(cmd.Flags())
	return cmd
}

func runExplain(ctx context.Context, e *env, store storeOptions, run, cell, name string) error {
	db, j, err := judgedRun(ctx, e, inputOptions{}, store, "", []string{run})
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Explain(ctx, j.status.RunID, cell, name)
	if errors.Is(err, warehouse.ErrNoRun) {
		return notExplained(ctx, db, j.status.RunID, cell, name)
	}
	if err != nil {
		return badStore(err)
	}
	for _, x := range rows {
		printExplanation(e, j.status.RunID, x)
	}
	return nil
}

// notExplained says which of cell and metric the run does not have, and what it
// has.
func notExplained(ctx context.Context, db *warehouse.DB, runID, cell, name string) error {
	cells := texts(ctx, db, "SELECT DISTINCT cell_key FROM metrics WHERE run_id = ? UNION SELECT DISTINCT cell_id FROM expected_cell WHERE run_id = ? AND planned ORDER BY 1", runID, runID)
	if !slices.Contains(cells, cell) {
		return badInput("run %s has no cell %s%s", runID, cell, thereAre("cells", cell, cells))
	}
	metrics := texts(ctx, db, `SELECT DISTINCT metric FROM metrics WHERE run_id = ? AND (cell_key = ? OR cell_key IN
		(SELECT cell_key FROM expected_cell WHERE run_id = metrics.run_id AND cell_id = ?)) ORDER BY 1`, runID, cell, cell)
	return badInput("cell %s of run %s has no metric %s%s", cell, runID, name, thereAre("metrics", name, metrics))
}

func printExplanation(e *env, runID string, x warehouse.Explanation) {
	out := func(format string, args ...any) { fmt.Fprintln(e.stdout, visible(fmt.Sprintf(format, args...))) }
	value := "no usable value"
	if x.Value != nil {
		value = warehouseNumber(*x.Value)
	}
	out("%s of %s in run %s", x.Metric, join(x.CellKey, x.Host), runID)
	out("  value      %s %s (%s, better is %s)", value, x.Unit, x.Quality, x.Direction)
	if x.Text != "" {
		out("  written    %s", x.Text)
	}
	if x.Note != "" {
		out("  %s %s", map[bool]string{true: "formula   ", false: "note      "}[x.Derived], x.Note)
	}
	for _, s := range x.Sources {
		out("  read from  %s line %d, repeat %d, pointer %s = %s", s.Path, s.Line, s.Repeat, s.Pointer, textOr(&s.Raw))
		out("             sha256 %s", s.SHA256)
	}
	for _, g := range x.Gates {
		out("  threshold  %s, %s line %d %s", g.Bound, g.File, g.Line, g.Pointer)
		out("  verdict    %s: %s", stateWord(g.State), g.Reason)
		if g.Margin != nil {
			out("  margin     %s %s (%s %%), positive is good", plain(g.Margin), g.Unit, signed(g.MarginPct))
		}
	}
	if len(x.Gates) == 0 {
		out("  threshold  none")
	}
	for _, h := range x.Earlier {
		out("  before     %s %s in run %s%s", h.StartedAt.UTC().Format("2006-01-02 15:04"), plain(&h.Value), h.RunID, suffix(!h.Healthy, " (requests failed)"))
	}
	if len(x.Earlier) == 0 {
		out("  before     no earlier comparable value")
	}
	out("  sql        %s", x.SQL)
}

// warehouseNumber is a number with every digit it has.
func warehouseNumber(v float64) string { return fmt.Sprint(v) }
