package warehouse

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Questions about one run share most of what the views compute: the gates alone
// are needed for the verdict, the tiers, the cells and the sign-off. So a
// connection is kept on which temporary tables of the views' and tables' own
// names hold what was already computed of the run that was asked about last.
// DuckDB looks names up among temporary tables first, also within views, so every
// number still comes from the one view file that defines it, but once, and each
// question is planned one level deep.
//
// Views that look at one run alone and views that compare it with others need
// different tables under the same names, and so a connection each.

// A slice is such a connection.
type slice struct {
	conn  *sql.Conn
	runID string
	from  string // catalog and schema of what the temporary tables hide
	long  bool   // the tables have so many runs that one's rows are better kept apart
	have  map[string]bool
}

// slicer holds the slices of the run that was asked about last.
type slicer struct {
	mu       sync.Mutex
	version  int64 // of the data they were made from
	one, all *slice
}

// oneRun lists the views of which a run's rows are kept, each after those it
// reads. Cheap ones and those that only one question reads are not among them.
var oneRun = []string{"accuracy", "gates", "tiers", "cell_status", "check_gates", "run_status", "vacuous"}

// allRuns lists what is kept to compare a run with others: who they are and what
// they measured, of the runs it may be compared with; the rest of this run alone.
var allRuns = []struct{ name, where string }{
	{"vacuous", ofRun},
	{"run_identity", ofCompared},
	{"cell_result", ofCompared},
	{"cell_run", ""},
	{"noise", ofRun},
	{"prev_run", ofRun},
}

// What is kept of a table or view.
const (
	ofRun      = " WHERE run_id = %[2]s"
	ofCompared = " WHERE run_id IN (SELECT run_id FROM " + comparedRuns + ")"
)

// comparedRuns is the temporary table of what macro compared_runs finds.
const comparedRuns = "runs_compared_here"

// comparing are the views that look at other runs than the one they speak of.
var comparing = []string{"run_identity", "cell_run", "threshold_age"}

// unbounded are the views that look further back than macro compared_runs.
var unbounded = []string{"accuracy_prev_run"}

// readRun is read for a question about one run: args may name no other.
func readRun[T any](ctx context.Context, w *DB, runID, what, text string, dest func(*T) []any, args ...any) ([]T, error) {
	if err := w.Measure(ctx); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if !w.slicer.mu.TryLock() { // somebody else asks; the views answer alike without
		return read(ctx, w, what, text, dest, args...)
	}
	defer w.slicer.mu.Unlock()
	conn, err := w.sliced(ctx, runID, text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, errors.Join(err, w.dropSlices()))
	}
	rows, err := query(ctx, conn, text, dest, args...)
	if c, ok := conn.(*sql.Conn); ok && err == nil && w.oneRun {
		err = w.handBack(ctx, c)
	}
	if err != nil { // the connection may be broken
		return nil, fmt.Errorf("read %s: %w", what, errors.Join(err, w.dropSlices()))
	}
	return rows, nil
}

// readRunLate is readRun for the views that [DB.late] puts in.
func readRunLate[T any](ctx context.Context, w *DB, runID, what, text string, dest func(*T) []any, args ...any) ([]T, error) {
	if err := w.late(ctx); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return readRun(ctx, w, runID, what, text, dest, args...)
}

// sliced is where a question about a run is best asked, with what it reads in
// place.
func (w *DB) sliced(ctx context.Context, runID, text string) (querier, error) {
	s := &w.slicer
	version := w.version.Load()
	if s.version != version || s.one != nil && s.one.runID != runID || s.all != nil && s.all.runID != runID {
		if err := w.dropSlices(); err != nil {
			return nil, err
		}
		s.version = version
	}
	reads := readsOf(text)
	isRead := func(name string) bool { return reads[name] }
	if slices.ContainsFunc(unbounded, isRead) {
		return w.db, nil
	}
	if slices.ContainsFunc(comparing, isRead) {
		if err := w.open(ctx, &s.all, runID); err != nil {
			return nil, err
		}
		for _, t := range allRuns {
			if reads[t.name] {
				if err := s.all.keep(ctx, t.name, t.where); err != nil {
					return nil, err
				}
			}
		}
		return s.all.conn, nil
	}
	if err := w.open(ctx, &s.one, runID); err != nil {
		return nil, err
	}
	names := oneRun
	if s.one.long {
		names = append(sliceTables(), oneRun...)
	}
	for _, t := range names {
		if reads[t] {
			if err := s.one.keep(ctx, t, ofRun); err != nil {
				return nil, err
			}
		}
	}
	return s.one.conn, nil
}

// fewRuns are not worth a copy of one's rows.
const fewRuns = 8

// sliceTables are the tables with rows of runs.
func sliceTables() []string {
	return append(append(runTables(), decisionTables()...), "measurement", "cell_result")
}

// open makes the slice unless it is there.
func (w *DB) open(ctx context.Context, at **slice, runID string) error {
	if *at != nil {
		return nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	s := &slice{conn: conn, runID: runID, have: make(map[string]bool)}
	*at = s
	var catalog string
	if err := conn.QueryRowContext(ctx, "SELECT current_database(), count(*) > ? FROM run", fewRuns).Scan(&catalog, &s.long); err != nil {
		return err
	}
	s.from = `"` + strings.ReplaceAll(catalog, `"`, `""`) + `".main`
	return nil
}

// keep puts in a temporary table of what the name stands for without it.
func (s *slice) keep(ctx context.Context, name, where string) error {
	if s.have[name] {
		return nil
	}
	if where == ofCompared && !s.have[comparedRuns] {
		if _, err := s.conn.ExecContext(ctx, fmt.Sprintf("CREATE TEMP TABLE %s AS SELECT run_id FROM %s.compared_runs(%s)", comparedRuns, s.from, quoted(s.runID))); err != nil {
			return fmt.Errorf("runs to compare with: %w", err)
		}
		s.have[comparedRuns] = true
	}
	if where == ofRun {
		where = fmt.Sprintf(where, s.from, quoted(s.runID))
	}
	if _, err := s.conn.ExecContext(ctx, fmt.Sprintf("CREATE TEMP TABLE %[1]s AS SELECT * FROM %[2]s.%[1]s%[3]s", name, s.from, where)); err != nil {
		return fmt.Errorf("%s of one run: %w", name, err)
	}
	s.have[name] = true
	return nil
}

// dropSlices closes the connections for good: back in the pool their temporary
// tables would answer for all runs.
func (w *DB) dropSlices() error {
	var errs []error
	for _, at := range []**slice{&w.slicer.one, &w.slicer.all} {
		if *at == nil {
			continue
		}
		err := (*at).conn.Raw(func(any) error { return driver.ErrBadConn })
		if err != nil && !errors.Is(err, driver.ErrBadConn) && !errors.Is(err, sql.ErrConnDone) {
			errs = append(errs, err)
		}
		*at = nil
	}
	return errors.Join(errs...)
}

var fromName = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+"?([a-z_0-9]+)`)

// readsOf are the tables and views that a question reads, itself or through
// views.
func readsOf(text string) map[string]bool {
	reads := make(map[string]bool)
	var follow func(name string)
	follow = func(name string) {
		if reads[name] {
			return
		}
		reads[name] = true
		for _, n := range viewReads()[name] {
			follow(n)
		}
	}
	for _, m := range fromName.FindAllStringSubmatch(text, -1) {
		follow(m[1])
	}
	return reads
}

// viewReads is what each view and macro reads, as the header of its file says.
var viewReads = sync.OnceValue(func() map[string][]string {
	all := make(map[string][]string)
	names, _ := fs.Glob(files, "sql/views/*.sql") // the pattern is ours and valid
	for _, name := range names {
		text, _ := files.ReadFile(name) // embedded
		_, object, _ := strings.Cut(strings.TrimSuffix(path.Base(name), ".sql"), "_")
		_, rest, _ := strings.Cut(string(text), "\n-- reads: ")
		line, _, _ := strings.Cut(rest, "\n")
		all[object] = strings.FieldsFunc(line, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	}
	return all
})
