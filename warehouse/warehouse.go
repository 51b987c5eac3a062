// Package warehouse keeps results in DuckDB and judges them with SQL views.
//
// Tables hold what was measured and what was asked for; every verdict, count
// and statistic is a view in sql/views, read alike by the exit status, the
// console, the deck and people's own SQL. Go selects, orders and scans, nothing
// more. The file is a cache: it may be deleted and built again from the run
// directories at any time.
//
// Questions about one run share what the views compute (slice.go), and runs are
// compared within the few that macro compared_runs finds, so that a history of
// ten thousand runs is asked about its newest at little more than the cost of a
// thousand:
//
//	go test ./warehouse -run NONE -bench Scale -benchtime 1x -timeout 60m
//	go test ./cmd/cvs -run NONE -bench DeckCommand -benchtime 5x
//
// print what each question takes at 1,000 and 10,000 runs, and what the command
// that makes a deck takes and holds at 14 to 5,000 cells.
//
// It must not know how results were collected, nor how they are shown. It reads
// no environment and no clock, and is the only package that touches DuckDB.
package warehouse

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	// The official driver; its version encodes DuckDB's (1.5.6).
	"github.com/duckdb/duckdb-go/v2"
)

//go:embed sql/schema/*.sql sql/views/*.sql
var files embed.FS

// dsn switches off what SQL must never do: extensions would be fetched from the
// network, files read and written.
const dsn = "?autoinstall_known_extensions=false&autoload_known_extensions=false&enable_external_access=false"

// Options say how a warehouse is opened.
type Options struct {
	// ReadOnly opens an existing file without writing to it, also from a place
	// where nothing may be written.
	ReadOnly bool
	// Wait is how long to wait for another process to let go of the file; 0
	// means not at all.
	Wait time.Duration
	// Bulk is for who stores many runs and asks little: one thread of DuckDB, as
	// the others read files, and large transactions go straight into the file.
	// Its settings are not locked: it is not for SQL that somebody else writes.
	Bulk bool
	// OneRun is for who asks about one run and ends, as for a deck: one thread of
	// DuckDB, and memory it frees is handed back. Its settings are not locked
	// either.
	OneRun bool
}

// bulk are the settings of [Options.Bulk]. A commit of more than the threshold is
// a checkpoint instead of an entry of the log that a checkpoint reads later. A
// second thread is waited for in a loop that takes a processor.
const bulk = "&threads=1&checkpoint_threshold=1MB"

// oneThread are the settings of [Options.OneRun]: what the many small questions about
// a run gain from a second thread is less than what waiting for it costs.
const oneThread = "&threads=1"

// A DB is an open warehouse. It is safe for concurrent use.
type DB struct {
	db       *sql.DB
	path     string
	readOnly bool
	bulk     bool
	oneRun   bool
	attached bool      // the file is read through views of this version, kept in memory
	comments sync.Once // puts in the comments that a database in memory goes without
	lateOnce sync.Once // puts in the views that a database in memory starts without
	lateErr  error

	unmeasured atomic.Bool // runs may be stored whose measurements are not
	measuring  sync.Mutex

	memory string // its limit, see handBack; only who loads or has the slicer uses it

	version atomic.Int64 // changes with every change of the data
	slicer  slicer
}

// A LockedError reports that another process has the warehouse open.
type LockedError struct {
	Path   string
	Holder string // program and process id, "" if DuckDB does not say
	Waited time.Duration
}

// Error says who holds the file and how long was waited.
func (e *LockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	return fmt.Sprintf("the warehouse %s is in use by %s (waited %s)", e.Path, holder, e.Waited.Round(time.Millisecond))
}

// A VersionError reports a file that this version of cvs cannot use as it is.
type VersionError struct{ Path, Msg string }

// Error names the file and what to do.
func (e *VersionError) Error() string { return "the warehouse " + e.Path + " " + e.Msg }

// Open opens the warehouse at path and creates it if need be; "" keeps it in
// memory. Tables are brought up to date and the views of this version put in;
// read-only, views of this version are laid over the file in memory if it has
// others. Network, file and extension access of SQL are switched off
// for good. The error is a *LockedError if another process held the file for
// all of Options.Wait, and a *VersionError if a newer version wrote it.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	if strings.Contains(path, "?") {
		return nil, fmt.Errorf("open warehouse %s: the path must not hold a question mark", path)
	}
	if st, err := os.Stat(path); o.ReadOnly && err != nil {
		return nil, fmt.Errorf("open warehouse: %w", err)
	} else if err == nil && !st.Mode().IsRegular() { // DuckDB would wait for a pipe for ever
		return nil, fmt.Errorf("open warehouse %s: expected a DuckDB file, found a folder, a pipe or a device", path)
	}
	if path != "" && !o.ReadOnly {
		if err := create(ctx, path); err != nil {
			return nil, fmt.Errorf("create warehouse %s: %w", path, err)
		}
	}
	w := &DB{path: path, readOnly: o.ReadOnly, bulk: o.Bulk, oneRun: o.OneRun}
	if err := w.connect(ctx, o); err != nil {
		return nil, err
	}
	err := w.prepare(ctx)
	switch {
	case errors.Is(err, errOtherVersion):
		if err = w.db.Close(); err == nil {
			return attach(ctx, path, o)
		}
	case errors.Is(err, errUnmeasured):
		if err = w.db.Close(); err == nil {
			return openMeasured(ctx, path, o)
		}
	}
	if err != nil {
		w.db.Close()
		return nil, fmt.Errorf("open warehouse %s: %w", path, err)
	}
	return w, nil
}

// openMeasured opens a file for reading in which a bulk load left measurements to
// be computed: they are computed and kept or, where that cannot be because
// others read the file or nothing may be written, in memory.
func openMeasured(ctx context.Context, path string, o Options) (*DB, error) {
	w, err := Open(ctx, path, Options{})
	if err != nil {
		return attach(ctx, path, o)
	}
	if err := errors.Join(w.Measure(ctx), w.Close()); err != nil {
		return nil, err
	}
	return Open(ctx, path, o)
}

func (w *DB) connect(ctx context.Context, o Options) error {
	name := w.path + dsn
	if o.ReadOnly {
		name += "&access_mode=READ_ONLY"
	}
	switch {
	case o.Bulk:
		name += bulk
	case o.OneRun:
		name += oneThread
	}
	return w.patient(ctx, o.Wait, func() error {
		connector, err := duckdb.NewConnector(name, nil)
		if err != nil {
			return err
		}
		w.db = sql.OpenDB(connector)
		if err := w.db.PingContext(ctx); err != nil {
			return errors.Join(err, w.db.Close())
		}
		return nil
	})
}

// patient tries to open the file until another process lets go of it or wait is
// over.
func (w *DB) patient(ctx context.Context, wait time.Duration, open func() error) error {
	const step = 50 * time.Millisecond
	for waited := time.Duration(0); ; waited += step {
		err := open()
		if err == nil {
			return nil
		}
		// The driver has no error value for this; the text is DuckDB's own.
		if !strings.Contains(err.Error(), "Could not set lock on file") {
			return fmt.Errorf("open warehouse %s: %w", w.path, err)
		}
		if waited >= wait {
			return &LockedError{Path: w.path, Holder: holder(err.Error()), Waited: waited}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(step):
		}
	}
}

var heldIn = regexp.MustCompile(`held in (.+? \(PID \d+\)(?: by user [^\s.]+)?)`)

func holder(msg string) string {
	if m := heldIn.FindStringSubmatch(msg); m != nil {
		return m[1]
	}
	return ""
}

// Close checkpoints and closes the file.
func (w *DB) Close() error {
	w.slicer.mu.Lock()
	defer w.slicer.mu.Unlock()
	if err := errors.Join(w.dropSlices(), w.db.Close()); err != nil {
		return fmt.Errorf("close warehouse %s: %w", w.path, err)
	}
	return nil
}

func (w *DB) prepare(ctx context.Context) error {
	current, err := w.info(ctx)
	if err != nil {
		return err
	}
	steps, err := fs.Glob(files, "sql/schema/*.sql")
	if err != nil {
		return err
	}
	newest, err := version(steps[len(steps)-1])
	if err != nil {
		return err
	}
	if current.schema > newest {
		return &VersionError{w.path, fmt.Sprintf("has schema version %d, this version of cvs knows up to %d: use a newer cvs", current.schema, newest)}
	}
	digest := viewDigest()
	fresh := current.schema == 0
	switch {
	case w.readOnly && (current.schema < newest || current.views != digest):
		return errOtherVersion
	case !w.readOnly:
		if err := w.migrate(ctx, steps, current.schema); err != nil {
			return err
		}
		if current.views != digest {
			if err := w.putViews(ctx, digest, fresh); err != nil {
				return err
			}
		}
	}
	if w.path != "" {
		n, err := w.Unmeasured(ctx)
		if err != nil {
			return err
		}
		if n > 0 && w.readOnly {
			return errUnmeasured
		}
		w.unmeasured.Store(n > 0)
	}
	return w.lock(ctx)
}

func (w *DB) lock(ctx context.Context) error {
	if w.bulk || w.oneRun {
		return nil
	}
	_, err := w.db.ExecContext(ctx, "SET lock_configuration = true")
	return err
}

// handBack gives memory that DuckDB freed to the system: its allocator keeps it,
// and what comes next has other sizes. Setting the limit of memory, if only to what
// it is, does it; settings must not be locked.
func (w *DB) handBack(ctx context.Context, conn *sql.Conn) error {
	if w.memory == "" {
		if err := conn.QueryRowContext(ctx, "SELECT current_setting('memory_limit')").Scan(&w.memory); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, "SET memory_limit = '"+w.memory+"'")
	return err
}

// errUnmeasured says that a bulk load left a read-only file with measurements to
// be computed.
var errUnmeasured = errors.New("there are runs without measurements")

// errOtherVersion says that a read-only file has the views of another version.
var errOtherVersion = errors.New("the views are those of another version of cvs")

type info struct {
	schema int
	views  string
}

// info reads what the file says about itself; zero values for a new one.
func (w *DB) info(ctx context.Context) (info, error) {
	var n int
	if err := w.db.QueryRowContext(ctx, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'warehouse_info'").Scan(&n); err != nil || n == 0 {
		return info{}, err
	}
	var i info
	err := w.db.QueryRowContext(ctx, "SELECT schema_version, view_digest FROM warehouse_info").Scan(&i.schema, &i.views)
	return i, err
}

func version(file string) (int, error) {
	n, _, _ := strings.Cut(path.Base(file), "_")
	return strconv.Atoi(n)
}

// migrate applies the schema files that are newer than have, each in one
// transaction with its bookkeeping.
func (w *DB) migrate(ctx context.Context, steps []string, have int) error {
	for _, step := range steps {
		v, err := version(step)
		if err != nil {
			return err
		}
		if v <= have {
			continue
		}
		text, err := files.ReadFile(step)
		if err != nil {
			return err
		}
		err = w.transact(ctx, func(tx *sql.Tx) error {
			if v == 1 {
				if _, err := tx.ExecContext(ctx, `CREATE TABLE warehouse_info (schema_version INTEGER NOT NULL, view_digest VARCHAR NOT NULL);
					INSERT INTO warehouse_info VALUES (0, '')`); err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE warehouse_info SET schema_version = ?", v)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return nil
}

// transact runs f, which may change the data, in one transaction.
func (w *DB) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	defer w.version.Add(1)
	return w.define(ctx, f)
}

// define runs f, which changes views or comments, in one transaction.
func (w *DB) define(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// A querier is a database, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query scans every row of a question into a T; dest lists where its columns go.
func query[T any](ctx context.Context, q querier, text string, dest func(*T) []any, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	seen := make(words)
	for rows.Next() {
		var t T
		to := dest(&t)
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		for _, d := range to {
			switch d := d.(type) {
			case *string:
				*d = seen.one(*d)
			case *State:
				*d = State(seen.one(string(*d)))
			}
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// words holds each of the texts that columns repeat once: names of metrics, cells
// and files are most of what the rows of a large run are.
type words map[string]string

// one is the text, kept once if it is short.
func (w words) one(s string) string {
	const longest, most = 80, 1 << 13
	if s == "" || len(s) > longest {
		return s
	}
	if old, ok := w[s]; ok {
		return old
	}
	if len(w) < most {
		w[s] = s
	}
	return s
}
