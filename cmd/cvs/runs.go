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
		return "", badInput("no run %q in the warehouse%s (see: cvs runs)", want, didYouMean(want, ids))
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
	db, err := openStore(ctx, o.store.path(e), warehouse.Options{ReadOnly: true, Wait: defaultWait})
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
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	// the ids as a list: only these runs are judged, not the whole history
	rows, err := db.Ask(ctx, `SELECT r.run_id, r.started_at, r.model, r.gpu_arch, r.driver, s.verdict, s.incomplete, r.simulated, replace(s.reasons, chr(10), '; ') AS reasons
		FROM run r JOIN run_status s USING (run_id) WHERE r.run_id IN (`+strings.TrimSuffix(strings.Repeat("?, ", max(len(ids), 1)), ", ")+`)
		ORDER BY r.started_at DESC NULLS LAST, r.run_id DESC`, append(args, make([]any, max(0, 1-len(ids)))...)...)
	if err != nil {
		return badStore(fmt.Errorf("list runs: %w", err))
	}
	defer rows.Close()
	return write(e.stdout, rows)
}
