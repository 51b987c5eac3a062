package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cvs/warehouse"
)

// defaultWait is how long a reader waits for a writer of the warehouse.
const defaultWait = 30 * time.Second

// findRun resolves "latest", a full run id, or a prefix that only one run has.
func findRun(ctx context.Context, db *warehouse.DB, want string) (string, error) {
	ids, err := db.RunIDs(ctx, 0)
	if err != nil {
		return "", badStore(err)
	}
	if len(ids) == 0 {
		return "", badData("the warehouse holds no run; load one with: cvs load cvs_runs/")
	}
	if want == "latest" {
		return ids[0], nil
	}
	var hits []string
	for _, id := range ids {
		if id == want {
			return want, nil
		}
		if strings.HasPrefix(id, want) {
			hits = append(hits, id)
		}
	}
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		return "", badInput("no run %q in the warehouse%s (see: cvs runs)", want, didYouMean(want, append(ids, "latest")))
	}
	return "", badInput("run %q is ambiguous: %s", want, strings.Join(hits, ", "))
}

type runsOptions struct {
	store  storeOptions
	format string
	limit  int
}

func newRuns(e *env) *cobra.Command {
	var o runsOptions
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs of the warehouse, newest first",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return runRuns(cmd.Context(), e, o) },
	}
	o.store.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.format, "format", "table", "output `format`: table, csv, json or jsonl")
	cmd.Flags().IntVar(&o.limit, "limit", 50, "list at most `n` runs; 0 lists all")
	return cmd
}

func runRuns(ctx context.Context, e *env, o runsOptions) error {
	write, ok := rowWriters[o.format]
	if !ok {
		return badInput("--format %s: want table, csv, json or jsonl", o.format)
	}
	db, err := readStore(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer db.Close()
	if o.limit < 0 {
		return badInput("--limit %d: want 0 or more", o.limit)
	}
	ids, err := db.RunIDs(ctx, o.limit)
	if err != nil {
		return badStore(err)
	}
	where, params := warehouse.Among(ids) // only these runs are judged, not the whole history
	rows, err := db.Ask(ctx, `SELECT run_id, r.started_at, r.model, r.gpu_arch, r.driver, s.verdict, s.incomplete, r.simulated, replace(s.reasons, chr(10), '; ') AS reasons
		FROM run r JOIN (SELECT * FROM run_status WHERE `+where+`) s USING (run_id) ORDER BY r.started_at DESC NULLS LAST, run_id DESC`, params...)
	if err != nil {
		return badStore(fmt.Errorf("list runs: %w", err))
	}
	defer rows.Close()
	return write(e.stdout, rows)
}
