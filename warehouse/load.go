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
	"time"

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
func (w *DB) LoadSources(ctx context.Context, sources ...*Source) (results []LoadResult, err error) {
	ids := make([]string, len(sources))
	for i, s := range sources {
		ids[i] = s.Run.Meta.RunID
	}
	l, err := w.loading(ctx, ids)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var conflicts []error
	for len(sources) > 0 {
		n := batchLen(sources)
		r, refused, err := l.batch(ctx, sources[:n])
		if err != nil && n > 1 && ctx.Err() == nil {
			n = 1 // so that one bad run takes no other with it
			r, refused, err = l.batch(ctx, sources[:n])
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

// batchLen is how many of sources go into one transaction: never one id twice.
func batchLen(sources []*Source) int {
	ids := make(map[string]bool)
	bytes := 0
	for i, s := range sources {
		bytes += s.Size()
		if i > 0 && (i == batchRuns || bytes > batchBytes || ids[s.Run.Meta.RunID]) {
			return i
		}
		ids[s.Run.Meta.RunID] = true
	}
	return len(sources)
}

// batch stores sources in a transaction of their own.
func (l *Loading) batch(ctx context.Context, sources []*Source) (results []LoadResult, conflicts []error, err error) {
	each(len(sources), func(i int) {
		// what is stored need not be made into rows again
		if s := sources[i]; l.digest(s.Run.Meta.RunID) != s.contentDigest() {
			s.Prepare()
		}
	})
	for _, s := range sources {
		r, err := l.Add(ctx, s)
		var refused *ConflictError
		switch {
		case errors.As(err, &refused):
			conflicts = append(conflicts, refused)
		case err != nil:
			return nil, nil, err
		}
		results = append(results, r)
	}
	return results, conflicts, l.Commit(ctx)
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

// otherStart says that a planned run started at another instant than the stored
// one: it is another run under the same id, whatever its results are. A resumed
// run keeps its start.
func otherStart(ctx context.Context, conn *sql.Conn, run *artifact.Run) (string, error) {
	if len(run.Expected.Cells) == 0 || run.Meta.StartedAt == nil {
		return "", nil
	}
	stored, err := query(ctx, conn, "SELECT started_at FROM run WHERE run_id = ? AND started_at IS NOT NULL",
		func(t *time.Time) []any { return []any{t} }, run.Meta.RunID)
	if err != nil || len(stored) == 0 {
		return "", err
	}
	was, is := stored[0].UTC().Truncate(time.Microsecond), run.Meta.StartedAt.UTC().Truncate(time.Microsecond)
	if was.Equal(is) {
		return "", nil
	}
	return fmt.Sprintf("it started at %s, the stored run of this id at %s", is.Format(time.RFC3339Nano), was.Format(time.RFC3339Nano)), nil
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
