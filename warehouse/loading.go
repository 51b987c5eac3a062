package warehouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cvs/collect/artifact"
)

// A Loading stores runs one after another, as many to a transaction as its user
// likes, and keeps none of them in memory. It is for one goroutine.
type Loading struct {
	w    *DB
	conn *sql.Conn
	have stored
	// of the transaction that is open
	open  bool
	rows  *appenders
	added stored
	book  *shapeBook
	// see trim
	trimmed int
}

// trimBytes is how many bytes of texts may be written before memory is trimmed.
const trimBytes = 8 << 20

// trim hands memory that was freed back to the system, where that is much.
func (l *Loading) trim(ctx context.Context) error {
	if !l.w.bulk || l.rows.flushed-l.trimmed < trimBytes {
		return nil
	}
	l.trimmed = l.rows.flushed
	return l.w.handBack(ctx, l.conn)
}

// stored is what a warehouse holds of the things that are looked up for every run.
type stored struct {
	digests map[string]string // of runs, by id
	rules   map[string]string // of decisions, by run id
	shapes  map[string]bool
}

func nothingStored() stored {
	return stored{digests: make(map[string]string), rules: make(map[string]string), shapes: make(map[string]bool)}
}

// Loading begins to store runs. It must be closed; no other loading may be open.
func (w *DB) Loading(ctx context.Context) (*Loading, error) { return w.loading(ctx, nil) }

// loading looks up these runs only; nil means all.
func (w *DB) loading(ctx context.Context, ids []string) (*Loading, error) {
	if w.readOnly {
		return nil, fmt.Errorf("load: the warehouse %s is open read-only", w.path)
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	have, err := lookUp(ctx, conn, ids)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load: %w", err), conn.Close())
	}
	return &Loading{w: w, conn: conn, have: have, added: nothingStored(), book: newShapeBook()}, nil
}

// listed is the set of texts in one JSON parameter: two thousand question marks
// take longer to parse than the question to answer.
const listed = `(SELECT unnest(from_json(?::VARCHAR, '["VARCHAR"]')))`

func lookUp(ctx context.Context, conn *sql.Conn, ids []string) (stored, error) {
	some, args := "", []any(nil)
	if ids != nil {
		some, args = " WHERE run_id IN "+listed, []any{list(ids)}
	}
	s := nothingStored()
	for _, x := range []struct {
		text string
		into map[string]string
	}{
		{"SELECT run_id, content_sha256 FROM run" + some, s.digests},
		{"SELECT run_id, digest FROM signoff_rule" + some, s.rules},
	} {
		rows, err := query(ctx, conn, x.text, func(r *[2]string) []any { return []any{&r[0], &r[1]} }, args...)
		if err != nil {
			return s, err
		}
		for _, r := range rows {
			x.into[r[0]] = r[1]
		}
	}
	shapes, err := query(ctx, conn, "SELECT shape FROM shape_key WHERE place = 1", func(s *string) []any { return []any{s} })
	if err != nil {
		return s, err
	}
	for _, id := range shapes {
		s.shapes[id] = true
	}
	return s, nil
}

// digest is that of a run that was stored before this transaction, "" if none was.
func (l *Loading) digest(runID string) string { return l.have.digests[runID] }

// Pack is [Source.Prepare] for who needs nothing of a run any more but to have it
// stored by this loading: bytes and contents of a loose file are let go. Unlike
// the rest it may be called on any goroutine.
func (l *Loading) Pack(s *Source) {
	if !s.filed || s.doc == nil {
		s.Prepare()
		return
	}
	s.prepare(l.book)
	s.size = s.Size()
	s.batch.rowsOnly()
	s.doc.Free()
	s.doc = nil
	for _, files := range [][]artifact.Result{s.Run.Results, s.Run.Accuracy} {
		for i := range files {
			files[i].Data = nil
		}
	}
}

// Add stores a run in the open transaction or, if there is none, in a new one. A
// *ConflictError means that nothing of this run was stored; after any other error
// nothing of the transaction is.
func (l *Loading) Add(ctx context.Context, s *Source) (r LoadResult, err error) {
	r = LoadResult{RunID: s.Run.Meta.RunID, Outcome: Loaded}
	if r.RunID == "" {
		return r, errors.Join(errors.New("the run has no id"), l.rollback(ctx))
	}
	if old, twice := l.added.digests[r.RunID]; twice {
		if old == s.contentDigest() && s.Run.Decisions == nil {
			r.Outcome = Unchanged
			return r, nil
		}
		if err := l.Commit(ctx); err != nil { // what replaces a run can only replace what is stored
			return r, err
		}
	}
	if !l.open {
		if err := l.begin(ctx); err != nil {
			return r, err
		}
	}
	err = l.add(ctx, s, &r)
	if err != nil && !errors.As(err, new(*ConflictError)) {
		err = errors.Join(err, l.rollback(ctx))
	}
	return r, err
}

func (l *Loading) begin(ctx context.Context) error {
	if _, err := l.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	l.open, l.rows, l.added, l.trimmed = true, newAppenders(l.conn), nothingStored(), 0
	return nil
}

func (l *Loading) add(ctx context.Context, s *Source, r *LoadResult) error {
	old, was := l.have.digests[r.RunID]
	same := was && old == s.contentDigest()
	switch {
	case same:
		r.Outcome = Unchanged
	case was:
		r.Outcome = Refused
		if err := l.contradiction(ctx, s.Run); err != nil {
			return err
		}
		r.Outcome = Replaced
		for _, table := range append(runTables(), "measurement", "cell_result") {
			if _, err := l.conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE run_id = ?", r.RunID); err != nil {
				return err
			}
		}
	}
	if err := l.decide(ctx, s.Run, r); err != nil || same {
		return err
	}
	s.Prepare()
	b := s.batch
	r.Artifacts, r.Samples, r.Errors, r.Warnings = len(b.rows["artifact"]), len(b.rows["sample"]), b.errors, b.warnings
	if shapes := l.newShapes(b); len(shapes) > 0 {
		if err := l.rows.add(ctx, []string{"shape_key"}, map[string][]row{"shape_key": shapes}); err != nil {
			return err
		}
	}
	l.added.digests[r.RunID] = s.contentDigest()
	return errors.Join(l.rows.add(ctx, runTables(), b.rows), l.trim(ctx))
}

// contradiction is a *ConflictError if something speaks against replacing the
// stored run by this one.
func (l *Loading) contradiction(ctx context.Context, run *artifact.Run) error {
	missing, err := lost(ctx, l.conn, run)
	if err != nil {
		return err
	}
	if missing != "" {
		return &ConflictError{RunID: run.Meta.RunID, Path: missing}
	}
	why, err := otherStart(ctx, l.conn, run)
	if err == nil && why == "" {
		why, err = lostDecision(ctx, l.conn, run)
	}
	if err != nil || why == "" {
		return err
	}
	return &ConflictError{RunID: run.Meta.RunID, Why: why}
}

// newShapes are the rows of the shapes of a run that are not stored yet.
func (l *Loading) newShapes(b *batch) []row {
	var rows []row
	for _, id := range slices.Sorted(slices.Values(slices.AppendSeq(b.entered, maps.Keys(b.shapes)))) {
		if l.have.shapes[id] || l.added.shapes[id] {
			continue
		}
		l.added.shapes[id] = true
		if x, ok := b.shapes[id]; ok {
			rows = append(rows, x.rows(id)...)
		} else {
			rows = append(rows, l.book.of(id)...)
		}
	}
	return rows
}

// Commit stores for good what was added since the last commit.
func (l *Loading) Commit(ctx context.Context) error {
	if !l.open {
		return nil
	}
	if len(l.added.digests)+len(l.added.rules) == 0 {
		return l.rollback(ctx)
	}
	if len(l.added.digests) > 0 {
		l.w.unmeasured.Store(true) // before the commit: the worst is a look in vain
	}
	err := l.rows.close()
	if err == nil {
		_, err = l.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		return errors.Join(err, l.rollback(ctx))
	}
	l.open = false
	l.w.version.Add(1)
	if l.trimmed > 0 {
		l.trimmed = -trimBytes
	}
	for id, d := range l.added.digests {
		l.have.digests[id] = d
	}
	for id, d := range l.added.rules {
		if l.have.rules[id] = d; d == "" {
			delete(l.have.rules, id)
		}
	}
	for id := range l.added.shapes {
		l.have.shapes[id] = true
	}
	l.book.drop(l.added.shapes)
	l.added = nothingStored()
	return l.trim(ctx)
}

// rollback forgets what was added since the last commit.
func (l *Loading) rollback(ctx context.Context) error {
	if !l.open {
		return nil
	}
	l.open, l.added = false, nothingStored()
	l.rows.discard()
	// not ctx: a cancelled load must still let go
	_, err := l.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return err
}

// Close ends the loading; what was not committed is not stored.
func (l *Loading) Close() error {
	return errors.Join(l.rollback(context.Background()), l.conn.Close())
}
