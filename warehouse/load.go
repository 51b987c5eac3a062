package warehouse

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/duckdb/duckdb-go/v2"

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
}

// Error names the run and the file.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflict: run %q is already stored with other results: %s differs or is gone; nothing was changed", e.RunID, e.Path)
}

// loaderVersion changes when the loader stores more or other rows of the same
// files, so that loading again replaces them.
const loaderVersion = 1

// Load stores runs, each in one transaction: wholly or not at all. A run that is
// there already is left alone if nothing changed, and replaced if every stored
// file is still there byte for byte. The results are in the order of the runs
// and end before the first run that could not be stored for a reason other than
// a conflict; conflicts are joined into the error as *ConflictError.
func (w *DB) Load(ctx context.Context, runs ...*artifact.Run) ([]LoadResult, error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer conn.Close()
	var results []LoadResult
	var conflicts []error
	for _, run := range runs {
		r, err := loadRun(ctx, conn, run)
		var conflict *ConflictError
		switch {
		case errors.As(err, &conflict):
			conflicts = append(conflicts, err)
		case err != nil:
			return results, errors.Join(append(conflicts, fmt.Errorf("load run %s: %w", run.Meta.RunID, err))...)
		}
		results = append(results, r)
	}
	return results, errors.Join(conflicts...)
}

func loadRun(ctx context.Context, conn *sql.Conn, run *artifact.Run) (r LoadResult, err error) {
	r = LoadResult{RunID: run.Meta.RunID, Outcome: Loaded}
	if r.RunID == "" {
		return r, errors.New("the run has no id")
	}
	digest := contentDigest(run)
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return r, err
	}
	open := true
	defer func() {
		if open { // not ctx: a cancelled load must still let go
			_, rerr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rerr)
		}
	}()
	var stored string
	switch err := conn.QueryRowContext(ctx, "SELECT content_sha256 FROM run WHERE run_id = ?", r.RunID).Scan(&stored); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return r, err
	case stored == digest:
		r.Outcome = Unchanged
		return r, nil
	default:
		missing, err := lost(ctx, conn, run)
		if err != nil {
			return r, err
		}
		if missing != "" {
			r.Outcome = Refused
			return r, &ConflictError{RunID: r.RunID, Path: missing}
		}
		r.Outcome = Replaced
		for _, table := range runTables() {
			if _, err := conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE run_id = ?", r.RunID); err != nil {
				return r, err
			}
		}
	}
	b := build(run, digest)
	r.Artifacts, r.Samples, r.Errors, r.Warnings = len(b.rows["artifact"]), len(b.rows["sample"]), b.errors, b.warnings
	if err := b.append(ctx, conn); err != nil {
		return r, err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return r, err
	}
	open = false
	return r, nil
}

// lost returns the first stored file of the run that is not among the new ones.
func lost(ctx context.Context, conn *sql.Conn, run *artifact.Run) (string, error) {
	have := make(map[string]bool)
	for _, r := range slices.Concat(run.Results, run.Superseded, run.Accuracy, run.Checks) {
		have[sum(r)] = true
	}
	type file struct{ path, sha string }
	stored, err := query(ctx, conn, "SELECT path, sha256 FROM artifact WHERE run_id = ? ORDER BY path",
		func(f *file) []any { return []any{&f.path, &f.sha} }, run.Meta.RunID)
	if err != nil {
		return "", err
	}
	for _, f := range stored {
		if !have[f.sha] {
			return f.path, nil
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
		all = append(all, file{r.Path, sum(r), r.CellKey, r.Host, r.Repeat, r.Record})
	}
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, v := range []any{loaderVersion, run.Meta, run.Expected, run.Thresholds, run.Stages, run.Records, all, run.Problems, []byte(run.Config), run.Notes} {
		// Encoding these types cannot fail but for a NaN in a threshold, which
		// the plan refuses; its text then stands for it.
		if err := enc.Encode(v); err != nil {
			fmt.Fprintf(h, "%+v", v)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// runTables are the tables that hold rows of a run, in the order of appending.
func runTables() []string {
	return []string{"run", "input_file", "image_digest", "expected_cell", "expected_task", "threshold",
		"stage", "artifact", "attempt", "sample", "raw_value", "problem"}
}

// append writes the rows within the transaction of conn.
func (b *batch) append(ctx context.Context, conn *sql.Conn) error {
	return conn.Raw(func(dc any) error {
		c, ok := dc.(driver.Conn)
		if !ok {
			return fmt.Errorf("unexpected driver connection %T", dc)
		}
		for _, table := range runTables() {
			rows := b.rows[table]
			if len(rows) == 0 {
				continue
			}
			a, err := duckdb.NewAppenderFromConn(c, "", table)
			if err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
			for _, row := range rows {
				if err = a.AppendRow(row...); err != nil {
					break
				}
			}
			if err = errors.Join(err, a.Close()); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
}
