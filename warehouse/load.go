package warehouse

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup" // bounded workers

	"cvs/collect/artifact"
)

// An Outcome says what loading a run did.
type Outcome string

// The outcomes.
const (
	Loaded    Outcome = "loaded"
	Replaced  Outcome = "replaced"  // the run was there with fewer or other facts
	Unchanged Outcome = "unchanged" // already loaded
	Refused   Outcome = "conflict"  // the same id with other results is there
)

// A LoadResult is what became of one run.
type LoadResult struct {
	RunID     string
	Outcome   Outcome
	Artifacts int // raw files
	Samples   int // benchmarks found in them
	Errors    int // problems that make a result unusable
	Warnings  int
}

// A ConflictError reports a run whose id is taken by other results. Nothing of
// it was stored.
type ConflictError struct {
	RunID string
	Path  string // the first stored file that is not among the new ones
	Why   string // what else contradicts what is stored, in place of Path
}

// Error names the run and what contradicts.
func (e *ConflictError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("conflict: run %q: %s; nothing was changed", e.RunID, e.Why)
	}
	return fmt.Sprintf("conflict: run %q is already stored with other results: %s differs or is gone; nothing was changed", e.RunID, e.Path)
}

// loaderVersion changes when the loader stores more or other rows of the same
// files, so that loading again replaces them.
const loaderVersion = 9

// A transaction of Load holds at most this many runs and bytes of raw files: a
// commit costs more than a small run, and a crash loses what is not committed.
const (
	batchRuns  = 2000
	batchBytes = 16 << 20
)

// Load stores runs, several to a transaction, each wholly or not at all. A run
// that is there already is left alone if nothing changed, and replaced if every
// stored file is still there byte for byte. The results are in the order of the
// runs and end before the first batch with a run that could not be stored for a
// reason other than a conflict; conflicts are joined into the error as
// *ConflictError.
func (w *DB) Load(ctx context.Context, runs ...*artifact.Run) ([]LoadResult, error) {
	sources := make([]*Source, len(runs))
	for i, r := range runs {
		sources[i] = NewSource(r)
	}
	results, err := w.LoadSources(ctx, sources...)
	if merr := w.Measure(ctx); merr != nil {
		err = errors.Join(err, merr)
	}
	return results, err
}

// LoadSources is [DB.Load] for many runs: computing their measurements is left
// to [DB.Measure], which the next question does by itself.
func (w *DB) LoadSources(ctx context.Context, sources ...*Source) ([]LoadResult, error) {
	if w.readOnly {
		return nil, fmt.Errorf("load: the warehouse %s is open read-only", w.path)
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer conn.Close()
	defer w.version.Add(1)
	var results []LoadResult
	var conflicts []error
	for len(sources) > 0 {
		n := batchLen(sources)
		r, refused, err := w.loadBatch(ctx, conn, sources[:n])
		if err != nil && n > 1 && ctx.Err() == nil {
			n = 1 // so that one bad run takes no other with it
			r, refused, err = w.loadBatch(ctx, conn, sources[:n])
		}
		conflicts = append(conflicts, refused...)
		if err != nil {
			return results, errors.Join(append(conflicts, fmt.Errorf("load run %s: %w", sources[0].Run.Meta.RunID, err))...)
		}
		results = append(results, r...)
		sources = sources[n:]
	}
	return results, errors.Join(conflicts...)
}

// batchLen is how many of runs go into one transaction: never one id twice.
func batchLen(sources []*Source) int {
	ids := make(map[string]bool)
	bytes := 0
	for i, s := range sources {
		for _, x := range s.Run.Results {
			bytes += len(x.Data)
		}
		for _, x := range s.Run.Accuracy {
			bytes += len(x.Data)
		}
		if i > 0 && (i == batchRuns || bytes > batchBytes || ids[s.Run.Meta.RunID]) {
			return i
		}
		ids[s.Run.Meta.RunID] = true
	}
	return len(sources)
}

func (w *DB) loadBatch(ctx context.Context, conn *sql.Conn, sources []*Source) (results []LoadResult, conflicts []error, err error) {
	each(len(sources), func(i int) { sources[i].contentDigest() })
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, nil, err
	}
	open := true
	defer func() {
		if open { // not ctx: a cancelled load must still let go
			_, rerr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rerr)
		}
	}()
	stored, err := storedDigests(ctx, conn, sources)
	if err != nil {
		return nil, nil, err
	}
	results = make([]LoadResult, len(sources))
	var fresh []int
	for i, s := range sources {
		r := &results[i]
		if r.RunID, r.Outcome = s.Run.Meta.RunID, Loaded; r.RunID == "" {
			return nil, nil, errors.New("the run has no id")
		}
		switch old, ok := stored[r.RunID]; {
		case ok && old == s.digest:
			r.Outcome = Unchanged
			continue
		case ok:
			missing, err := lost(ctx, conn, s.Run)
			if err != nil {
				return nil, nil, err
			}
			if missing != "" {
				r.Outcome = Refused
				conflicts = append(conflicts, &ConflictError{RunID: r.RunID, Path: missing})
				continue
			}
			why, err := lostDecision(ctx, conn, s.Run)
			if err != nil {
				return nil, nil, err
			}
			if why != "" {
				r.Outcome = Refused
				conflicts = append(conflicts, &ConflictError{RunID: r.RunID, Why: why})
				continue
			}
			r.Outcome = Replaced
			for _, table := range append(runTables(), "measurement", "cell_result") {
				if _, err := conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE run_id = ?", r.RunID); err != nil {
					return nil, nil, err
				}
			}
		}
		fresh = append(fresh, i)
	}
	refused, decided, err := decide(ctx, conn, runsOf(sources), results)
	if err != nil {
		return nil, nil, err
	}
	conflicts = append(conflicts, refused...)
	if len(fresh) == 0 && !decided {
		return results, conflicts, nil
	}
	if len(fresh) > 0 {
		if err := w.loadFresh(ctx, conn, sources, fresh, results); err != nil {
			return nil, nil, err
		}
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return nil, nil, err
	}
	open = false
	return results, conflicts, nil
}

// loadFresh stores the runs whose index is in fresh.
func (w *DB) loadFresh(ctx context.Context, conn *sql.Conn, sources []*Source, fresh []int, results []LoadResult) error {
	each(len(fresh), func(n int) { sources[fresh[n]].Prepare() })
	batches := make([]*batch, len(fresh))
	for n, i := range fresh {
		b := sources[i].batch
		batches[n] = b
		r := &results[i]
		r.Artifacts, r.Samples, r.Errors, r.Warnings = len(b.rows["artifact"]), len(b.rows["sample"]), b.errors, b.warnings
	}
	if err := appendRows(ctx, conn, batches); err != nil {
		return err
	}
	w.unmeasured.Store(true) // before the commit: the worst is a look in vain
	return nil
}

// each does f for 0 … n-1 on all processors.
func each(n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error { f(i); return nil })
	}
	_ = g.Wait() // f returns no error
}

// listed is the set of texts in one JSON parameter: two thousand question marks
// take longer to parse than the question to answer.
const listed = `(SELECT unnest(from_json(?::VARCHAR, '["VARCHAR"]')))`

// storedDigests are the content digests of those of runs that are stored.
func storedDigests(ctx context.Context, conn *sql.Conn, sources []*Source) (map[string]string, error) {
	ids := make([]string, len(sources))
	for i, s := range sources {
		ids[i] = s.Run.Meta.RunID
	}
	rows, err := query(ctx, conn, "SELECT run_id, content_sha256 FROM run WHERE run_id IN "+listed,
		func(r *[2]string) []any { return []any{&r[0], &r[1]} }, list(ids))
	if err != nil {
		return nil, err
	}
	stored := make(map[string]string, len(rows))
	for _, r := range rows {
		stored[r[0]] = r[1]
	}
	return stored, nil
}

// lost returns the first stored file of the run that is not among the new ones.
// Evidence of checks does not count: a resumed run asks again and replaces it.
func lost(ctx context.Context, conn *sql.Conn, run *artifact.Run) (string, error) {
	have := make(map[string]bool)
	for _, r := range slices.Concat(run.Results, run.Superseded, run.Accuracy, run.Checks) {
		have[sum(r)] = true
	}
	type file struct{ path, sha string }
	stored, err := query(ctx, conn, "SELECT path, sha256 FROM artifact WHERE run_id = ? AND role <> 'check' ORDER BY path",
		func(f *file) []any { return []any{&f.path, &f.sha} }, run.Meta.RunID)
	if err != nil {
		return "", err
	}
	for _, f := range stored {
		if !have[f.sha] {
			return f.path, nil
		}
	}
	return otherInput(ctx, conn, run)
}

// otherInput names the config or threshold file that is not the one the stored
// run was judged by: the same id would then carry another verdict without a
// word. A resumed run may have been given another config on purpose, and a loose
// file has none.
func otherInput(ctx context.Context, conn *sql.Conn, run *artifact.Run) (string, error) {
	if slices.ContainsFunc(run.Stages, func(s artifact.Stage) bool { return s.Stage == "resume" }) {
		return "", nil
	}
	now := make(map[string]string)
	for _, in := range run.Meta.Inputs {
		now[in.Kind] = in.SHA256
	}
	stored, err := query(ctx, conn, "SELECT kind, path, sha256 FROM input_file WHERE run_id = ? AND kind IN ('config', 'thresholds') ORDER BY kind",
		func(f *[3]string) []any { return []any{&f[0], &f[1], &f[2]} }, run.Meta.RunID)
	if err != nil {
		return "", err
	}
	for _, f := range stored {
		if sha, ok := now[f[0]]; ok && sha != f[2] {
			return f[1], nil
		}
	}
	return "", nil
}

// sum is the hash of a result, from its record or, for loose files, computed.
func sum(r artifact.Result) string {
	if r.SHA256 != "" {
		return r.SHA256
	}
	s := sha256.Sum256(r.Data)
	return hex.EncodeToString(s[:])
}

// contentDigest identifies everything of a run that is stored, wherever its
// directory stands.
func contentDigest(run *artifact.Run) string {
	type file struct {
		Path, SHA256, CellKey, Host string
		Repeat                      int
		Record                      *artifact.Record
	}
	var all []file
	for _, r := range slices.Concat(run.Results, run.Superseded, run.Accuracy, run.Checks) {
		if run.Meta.Suite == looseSuite { // a copy of the file is the same result
			r.Path, r.CellKey = "", ""
		}
		all = append(all, file{r.Path, sum(r), r.CellKey, r.Host, r.Repeat, r.Record})
	}
	meta := run.Meta // a copy of the folder is the same run
	meta.Inputs = slices.Clone(meta.Inputs)
	for i := range meta.Inputs {
		meta.Inputs[i].Path = filepath.Base(meta.Inputs[i].Path)
	}
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, v := range []any{loaderVersion, meta, run.Expected, run.Thresholds, run.Stages, run.Records, all, run.Problems, []byte(run.Config), run.Notes} {
		// Encoding these types cannot fail but for a NaN in a threshold, which
		// the plan refuses; its text then stands for it.
		if err := enc.Encode(v); err != nil {
			fmt.Fprintf(h, "%+v", v)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
