package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/semaphore" // bounds what is read ahead

	"cvs/collect/artifact"
	"cvs/collect/signoff"
	"cvs/warehouse"
)

type loadOptions struct {
	store storeOptions
	wait  time.Duration
	sets  []string
	// what decisions are held against
	policy, allowed string
	list            bool
}

func (o *loadOptions) addFlags(f *pflag.FlagSet) {
	o.store.addFlags(f)
	f.DurationVar(&o.wait, "wait", 30*time.Second, "how long to wait for another process that holds the warehouse")
	f.StringArrayVar(&o.sets, "set", nil, "state a fact a loose file lacks, e.g. started_at=2026-09-01T10:00:00Z, gpu_arch=mi325x, tp=8, isl=1024, osl=1024")
	f.BoolVar(&o.list, "list", false, fmt.Sprintf("name every run, also after the first %d", listRuns))
	f.StringVar(&o.policy, "policy", "", "policy `file` that decisions are held against (default: that of the last decision)")
	f.StringVar(&o.allowed, "allowed-signers", "", "`file` that says whose keys may sign; without it nobody is known")
}

func newLoad(e *env) *cobra.Command {
	var o loadOptions
	cmd := &cobra.Command{
		Use:   "load [flags] PATH…",
		Short: "Load run directories, folders of them, or loose result files into the warehouse",
		Long: `Loads what each PATH holds: a run directory, a folder of run directories, a
folder of results with its config, or one loose benchmark result; a run directory
of the workspace may be named by its run id alone. Files are
recognised by content. Loading twice changes nothing; a run that gained results
replaces its older state; a run whose stored bytes changed is a conflict. What
is stored already is told by its SHA-256, never by its name or time. After more
than 200 new runs their measurements are computed by the next question instead
of by this command.

Sign-offs are loaded with their run, as they stand now against --policy and
--allowed-signers; 'cvs sql @release' then answers what 'cvs release check' does.
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

// needAll asks for exactly these arguments and names those that are missing.
func needAll(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			missing := strings.Join(names[len(args):], " and ")
			return badInput("%s: expected %s, found no %s; see '%s --help'", cmd.CommandPath(),
				strings.Join(names, " "), missing, cmd.CommandPath())
		case len(args) > len(names):
			return badInput("%s: expected %s, found %q more; see '%s --help'", cmd.CommandPath(),
				strings.Join(names, " "), args[len(names):], cmd.CommandPath())
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
	policy, _, err := readPolicy(o.policy)
	if err != nil {
		return err
	}
	allowed, err := readSigners(o.allowed)
	if err != nil {
		return err
	}
	var found []finding
	var wrong []error
	for _, p := range paths {
		runs, err := findRuns(e, pathOfRun(e, o.store, p), signoff.Against{Policy: policy, Allowed: allowed})
		if err != nil {
			wrong = append(wrong, err)
		}
		found = append(found, runs...)
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	if len(found) == 0 {
		return badData("nothing to load in %v", paths)
	}
	db, err := openStore(ctx, o.store.path(e), warehouse.Options{Wait: o.wait, Bulk: true})
	if err != nil {
		return err
	}
	defer db.Close()

	out := bufio.NewWriter(e.stdout)
	defer out.Flush()
	l := &loading{out: out, db: db, facts: facts, counts: map[string]int{}, list: o.list}
	if err := l.all(ctx, found); err != nil {
		return err
	}
	if !l.over {
		if err := l.pins(ctx, found, workspacePins(e, o.store)); err != nil {
			l.errs = append(l.errs, err)
		}
	}
	if l.unnamed > 0 {
		fmt.Fprintf(out, "… and %s more; --list names them all\n", count(l.unnamed, "run"))
	}
	counts, errs := l.counts, l.errs
	fmt.Fprintf(out, "%d loaded, %d already there, %d replaced, %d skipped, %d failed: %s\n",
		counts[string(warehouse.Loaded)], counts[string(warehouse.Unchanged)], counts[string(warehouse.Replaced)], counts["skipped"], counts["failed"], o.store.path(e))
	if l.unmeasured > 0 {
		fmt.Fprintf(out, "measurements of %d runs are computed by the next cvs command that asks; until then other DuckDB clients find none of them\n", l.unmeasured)
	}
	return errors.Join(errs...)
}

// pathOfRun is path, or the run directory of the workspace with that id, so that
// a run has the same name here as for release check and signoff.
func pathOfRun(e *env, o storeOptions, path string) string {
	if _, err := os.Lstat(path); err == nil || filepath.Base(path) != path {
		return path
	}
	if dir := filepath.Join(workspace(e, o.workspace), "cvs_runs", path); artifact.IsRunDir(dir) {
		return dir
	}
	return path
}

// A loading collects what becomes of the runs of one command line.
type loading struct {
	out    io.Writer
	db     *warehouse.DB
	facts  *facts
	known  warehouse.Inventory
	to     *warehouse.Loading
	batch  []stored // in the open transaction
	bytes  int      // of the files of batch
	counts map[string]int
	errs   []error
	list   bool // names every run
	named  int  // runs that were
	// and those that were only counted
	unnamed int
	// runs that were left for the next question to measure
	unmeasured int
	over       bool // a batch could not be stored: nothing more is tried
}

// A stored is a run of the open transaction.
type stored struct {
	loadedRun
	warehouse.LoadResult
}

// Bounds of what shares a transaction: a commit costs more than many small runs,
// and what is not committed is lost with the process and not reported yet.
const (
	loadRuns  = 10_000
	loadBytes = 64 << 20
	// freeBytes is how many bytes make a commit large: DuckDB needs memory then.
	freeBytes = 32 << 20
	// A reader takes so many files at a time, or files of so many bytes; files
	// of readAhead bytes, or one larger one, may be read and not stored yet.
	loadGroup  = 64
	groupBytes = 128 << 10
	readAhead  = 1 << 20
	// listRuns is how many runs are named; of ten thousand lines nobody reads one.
	listRuns = 100
	// measureAtOnce is how many loaded runs have their measurements computed
	// before the command ends; after more, the next question does it.
	measureAtOnce = 200
)

// all reads what was found on every processor, in order, and stores it as it
// comes. What the user stated may turn out to be wrong for the last file; nothing
// is stored before all are read then.
func (l *loading) all(ctx context.Context, found []finding) (err error) {
	stated := *l.facts != facts{}
	if !stated {
		if l.known, err = l.db.Inventory(ctx); err != nil {
			return badStore(err)
		}
	}
	if l.to, err = l.db.Loading(ctx); err != nil {
		return badStore(err)
	}
	defer func() { err = errors.Join(err, l.to.Close()) }()
	// little of what reading makes lives on: collecting it rarely is cheap
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// each group of files has its place in the queue, so that order is kept
	queue := make(chan reading, 64)
	room := semaphore.NewWeighted(readAhead)
	var readers sync.WaitGroup
	readers.Go(func() {
		defer close(queue)
		free := make(chan struct{}, runtime.GOMAXPROCS(0))
		for len(found) > 0 {
			n, size := groupOf(found)
			group := found[:n]
			found = found[n:]
			r := reading{runs: make(chan []loadedRun, 1), size: min(size, readAhead)}
			if stated {
				r.size = 0 // all are kept until the last is read
			}
			if room.Acquire(ctx, r.size) != nil {
				return
			}
			select {
			case queue <- r:
			case <-ctx.Done():
				return
			}
			free <- struct{}{}
			readers.Go(func() {
				r.runs <- l.read(group)
				<-free
			})
		}
	})
	defer readers.Wait()
	defer stop()
	var late []loadedRun
	for r := range queue {
		runs := <-r.runs
		if stated {
			late = append(late, runs...)
			continue
		}
		if err := l.take(ctx, runs); err != nil {
			return err
		}
		room.Release(r.size)
	}
	if err := l.take(ctx, late); err != nil {
		return err
	}
	l.commit(ctx)
	n, err := l.db.Unmeasured(ctx)
	if err != nil || n > measureAtOnce || l.over {
		l.unmeasured = n
		return ctx.Err()
	}
	if err := l.db.Measure(ctx); err != nil {
		l.errs = append(l.errs, badStore(err))
	}
	return nil
}

// A reading is a group of files that is being read.
type reading struct {
	runs chan []loadedRun
	size int64
}

// groupOf says how many of the files are to be read together, and their size.
func groupOf(found []finding) (n int, size int64) {
	for n < len(found) && n < loadGroup && size < groupBytes {
		if found[n].unread {
			if st, err := os.Stat(found[n].path); err == nil { // else reading says so
				found[n].size = st.Size()
				size += st.Size()
			}
		}
		n++
	}
	return n, size
}

// read makes sources of a group of files; what the facts do not fit is an error
// of its run.
func (l *loading) read(group []finding) []loadedRun {
	var out []loadedRun
	for _, f := range group {
		for _, r := range f.read(l.known) {
			if r.err == nil && !f.unread {
				r.src = warehouse.NewSource(r.run)
			}
			if r.src != nil {
				if err := l.facts.apply(r.src); err != nil {
					r.err = &unfitError{err}
				} else {
					l.to.Pack(r.src)
				}
			}
			out = append(out, r)
		}
	}
	return out
}

// An unfitError is a fact that was stated of a run it cannot be true of.
type unfitError struct{ error }

// take adds runs to the batch and stores it when it is full.
func (l *loading) take(ctx context.Context, runs []loadedRun) error {
	for _, f := range runs {
		if unfit := (*unfitError)(nil); errors.As(f.err, &unfit) {
			return unfit.error
		}
	}
	for _, f := range runs {
		var skipped *skippedError
		var pin *foundPin
		switch {
		case errors.As(f.err, &pin): // brought back when all runs are stored
			continue
		case errors.As(f.err, &skipped):
			l.counts["skipped"]++
			fmt.Fprintf(l.out, "skipped    %s\n", visible(skipped.Error()))
			continue
		case f.err != nil:
			l.counts["failed"]++
			l.errs = append(l.errs, f.err)
			continue
		}
		l.add(ctx, f)
		if len(l.batch) >= loadRuns || l.bytes >= loadBytes {
			l.commit(ctx)
		}
	}
	return nil
}

// add stores a run in the open transaction.
func (l *loading) add(ctx context.Context, f loadedRun) {
	if l.over {
		l.counts["failed"]++
		return
	}
	s := stored{f, warehouse.LoadResult{RunID: f.run.Meta.RunID, Outcome: warehouse.Unchanged}}
	if f.src == nil {
		l.batch = append(l.batch, s)
		return
	}
	var err error
	s.LoadResult, err = l.to.Add(ctx, f.src)
	switch {
	case errors.As(err, new(*warehouse.ConflictError)):
		l.errs = append(l.errs, err)
	case err != nil:
		l.batch = append(l.batch, s)
		l.oneByOne(ctx)
		return
	}
	if l.bytes += f.src.Size(); f.src.Packed() {
		s.run, s.src = nil, nil
	}
	l.batch = append(l.batch, s)
}

// oneByOne stores the runs of a transaction that failed, each in one of its own,
// so that one bad run takes no other with it. It ends at that one.
func (l *loading) oneByOne(ctx context.Context) {
	batch := l.batch
	l.batch, l.bytes = nil, 0
	for i, s := range batch {
		if s.src == nil && s.run == nil {
			s.loadedRun = l.again(s)
		}
		err := s.err
		if err == nil && s.src != nil && s.Outcome != warehouse.Refused {
			if s.LoadResult, err = l.to.Add(ctx, s.src); err == nil {
				err = l.to.Commit(ctx)
			}
		}
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("load run %s: %w", s.RunID, err))
			l.counts["failed"] += len(batch) - i
			l.over = true
			return
		}
		l.report(ctx, s)
	}
}

// again reads the run of a loose file a second time.
func (l *loading) again(s stored) loadedRun {
	for _, r := range looseRuns(s.path, 0, nil) {
		if r.err != nil {
			return r
		}
		if r.run.Meta.RunID == s.RunID {
			return r
		}
	}
	return loadedRun{path: s.path, err: badData("%s: it was changed while it was loaded", s.path)}
}

// pins brings back the pins among what was found, those beside the run
// directories and those of the workspace.
func (l *loading) pins(ctx context.Context, found []finding, more string) error {
	folders := map[string]bool{filepath.Clean(more): true}
	for _, f := range found {
		if f.run != nil {
			folders[pinsBeside(f.path, f.run.Meta.RunID)] = true
		}
	}
	delete(folders, "")
	for _, f := range found {
		delete(folders, filepath.Clean(filepath.Dir(f.path))) // read already
	}
	return restorePins(ctx, l.db, pinsOf(found), slices.Sorted(maps.Keys(folders))...)
}

// commit ends the transaction and reports what became of its runs.
func (l *loading) commit(ctx context.Context) {
	if l.bytes > freeBytes {
		debug.FreeOSMemory()
	}
	if err := l.to.Commit(ctx); err != nil {
		l.oneByOne(ctx)
		return
	}
	batch := l.batch
	l.batch, l.bytes = nil, 0
	l.report(ctx, batch...)
}

// report says what became of runs that are stored for good.
func (l *loading) report(ctx context.Context, runs ...stored) {
	var doubtful []string // runs whose errors have to be read
	for _, r := range runs {
		if r.Outcome == warehouse.Refused {
			l.counts["failed"]++
			continue
		}
		l.counts[string(r.Outcome)]++
		results := ""
		if r.Outcome == warehouse.Loaded || r.Samples > 0 { // of an unchanged run none were read
			results = " (" + count(r.Samples, "result") + ")"
		}
		if l.list || l.named < listRuns || r.Outcome == warehouse.Replaced {
			l.named++
			fmt.Fprintf(l.out, "%-10s %s%s from %s\n", r.Outcome, visible(r.RunID), results, visible(r.path))
		} else {
			l.unnamed++
		}
		if r.Errors > 0 || r.Outcome == warehouse.Unchanged {
			doubtful = append(doubtful, r.RunID)
		}
	}
	for ids := range slices.Chunk(doubtful, 2000) {
		l.unusable(ctx, ids)
	}
}

// unusable reports what makes results of stored runs unusable.
func (l *loading) unusable(ctx context.Context, runIDs []string) {
	rows, err := l.db.Problems(ctx, runIDs...)
	if err != nil {
		l.errs = append(l.errs, badStore(err))
		return
	}
	for _, id := range runIDs {
		for _, q := range rows[id] {
			// most messages about a file name it already
			where := strings.Join(nonEmpty(q.Path, q.CellKey), " ")
			l.errs = append(l.errs, badData("%s", strings.Join(nonEmpty(where, strings.TrimPrefix(q.Message, q.Path+": ")), ": ")))
		}
		delete(rows, id) // once, if the run was given twice
	}
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
	if o.ReadOnly && errors.Is(err, fs.ErrNotExist) {
		return nil, badStore(fmt.Errorf("there is no warehouse %s; cvs load cvs_runs/ makes one, --warehouse or CVS_WAREHOUSE names another", path))
	}
	return nil, badStore(err)
}
