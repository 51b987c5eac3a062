package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

type loadOptions struct {
	store storeOptions
	wait  time.Duration
	sets  []string
}

func (o *loadOptions) addFlags(f *pflag.FlagSet) {
	o.store.addFlags(f)
	f.DurationVar(&o.wait, "wait", 30*time.Second, "how long to wait for another process that holds the warehouse")
	f.StringArrayVar(&o.sets, "set", nil, "state a fact a loose file lacks, e.g. started_at=2026-09-01T10:00:00Z, gpu_arch=mi325x, tp=8, isl=1024, osl=1024")
}

func newLoad(e *env) *cobra.Command {
	var o loadOptions
	cmd := &cobra.Command{
		Use:   "load [flags] PATH…",
		Short: "Load run directories, folders of them, or loose result files into the warehouse",
		Long: `Loads what each PATH holds: a run directory, a folder of run directories, a
folder of results with its config, or one loose benchmark result. Files are
recognised by content. Loading twice changes nothing; a run that gained results
replaces its older state; a run whose stored bytes changed is a conflict.
` + exitHelp,
		Args: needArgs("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error { return runLoad(cmd.Context(), e, o, args) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// needArgs asks for at least one argument and says which.
func needArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return badInput("%s: %s is missing; see '%s --help'", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

// exactly and atMost are cobra's rules with our exit status for a wrong line.
func exactly(n int) cobra.PositionalArgs { return asInput(cobra.ExactArgs(n)) }

func atMost(n int) cobra.PositionalArgs { return asInput(cobra.MaximumNArgs(n)) }

func asInput(rule cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := rule(cmd, args); err != nil {
			return badInput("%s: %v; see '%s --help'", cmd.CommandPath(), err, cmd.CommandPath())
		}
		return nil
	}
}

func runLoad(ctx context.Context, e *env, o loadOptions, paths []string) error {
	facts, err := parseSets(o.sets)
	if err != nil {
		return err
	}
	var found []loadedRun
	for _, p := range paths {
		runs, err := runsAt(e, p)
		if err != nil {
			return err
		}
		found = append(found, runs...)
	}
	if len(found) == 0 {
		return badData("nothing to load in %v", paths)
	}
	db, err := openStore(ctx, o.store.path(e), warehouse.Options{Wait: o.wait})
	if err != nil {
		return err
	}
	defer db.Close()

	l := &loading{e: e, db: db, counts: map[string]int{}}
	for _, f := range found {
		var skipped *skippedError
		switch {
		case errors.As(f.err, &skipped):
			l.counts["skipped"]++
			fmt.Fprintf(e.stdout, "skipped    %s\n", visible(skipped.Error()))
			continue
		case f.err != nil:
			l.counts["failed"]++
			l.errs = append(l.errs, f.err)
			continue
		}
		if err := facts.apply(f.run); err != nil {
			return err
		}
		l.runs, l.paths = append(l.runs, f.run), append(l.paths, f.path)
	}
	l.store(ctx)
	counts, errs := l.counts, l.errs
	fmt.Fprintf(e.stdout, "%d loaded, %d already there, %d replaced, %d skipped, %d failed: %s\n",
		counts[string(warehouse.Loaded)], counts[string(warehouse.Unchanged)], counts[string(warehouse.Replaced)], counts["skipped"], counts["failed"], o.store.path(e))
	return errors.Join(errs...)
}

// A loading collects what becomes of the runs of one command line.
type loading struct {
	e      *env
	db     *warehouse.DB
	runs   []*artifact.Run
	paths  []string
	counts map[string]int
	errs   []error
}

// loadAtOnce is how many runs are handed to the warehouse together: enough for
// it to share transactions, few enough to report progress.
const loadAtOnce = 2000

func (l *loading) store(ctx context.Context) {
	for len(l.runs) > 0 {
		n := min(len(l.runs), loadAtOnce)
		results, err := l.db.Load(ctx, l.runs[:n]...)
		if err != nil {
			l.errs = append(l.errs, err)
		}
		for i, r := range results {
			if r.Outcome == warehouse.Refused {
				l.counts["failed"]++
				continue
			}
			l.counts[string(r.Outcome)]++
			fmt.Fprintf(l.e.stdout, "%-10s %s (%d results) from %s\n", r.Outcome, visible(r.RunID), r.Samples, visible(l.paths[i]))
			if r.Errors > 0 || r.Outcome == warehouse.Unchanged {
				if err := unusable(ctx, l.db, r.RunID); err != nil {
					l.errs = append(l.errs, err)
				}
			}
		}
		if len(results) < n { // the rest could not be stored at all
			l.counts["failed"] += len(l.runs) - len(results)
			return
		}
		l.runs, l.paths = l.runs[n:], l.paths[n:]
	}
}

// unusable reports what makes results of a stored run unusable.
func unusable(ctx context.Context, db *warehouse.DB, runID string) error {
	rows, err := db.Problems(ctx, runID)
	if err != nil {
		return badStore(err)
	}
	var errs []error
	for _, q := range rows {
		errs = append(errs, badData("%s: %s", strings.Join(nonEmpty(q.Path, q.CellKey), " "), q.Message))
	}
	return errors.Join(errs...)
}

// openStore opens the warehouse and maps what can go wrong to exit 5.
func openStore(ctx context.Context, path string, o warehouse.Options) (*warehouse.DB, error) {
	db, err := warehouse.Open(ctx, path, o)
	if err == nil {
		return db, nil
	}
	var locked *warehouse.LockedError
	if errors.As(err, &locked) || errors.Is(err, context.Canceled) {
		return nil, err
	}
	return nil, badStore(err)
}
