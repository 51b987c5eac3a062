package warehouse

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"cvs/collect/metric"
	"cvs/warehouse/shift"
)

// viewDigest changes with whatever the computed tables are computed by: any view,
// the metric table, the search for shifts.
func viewDigest() string {
	h := sha256.New()
	names, _ := fs.Glob(files, "sql/views/*.sql") // the pattern is ours and valid
	for _, name := range names {
		text, _ := files.ReadFile(name) // embedded
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	table, _ := json.Marshal(metric.Table()) // plain strings and numbers
	h.Write(table)
	fmt.Fprintf(h, "%s %d", shift.Method, shift.Version)
	return hex.EncodeToString(h.Sum(nil))
}

// putViews replaces every view and macro by this version's, drops those no file
// defines any more, fills metric_def and computes the measurements again.
func (w *DB) putViews(ctx context.Context, digest string, fresh bool) error {
	return w.transact(ctx, func(tx *sql.Tx) error {
		if !fresh {
			if err := dropViews(ctx, tx); err != nil {
				return err
			}
		}
		if err := fillMetrics(ctx, tx); err != nil {
			return err
		}
		early, late, err := viewFiles()
		if err != nil {
			return err
		}
		if w.path != "" {
			early = append(early, late...)
		}
		if err := createViews(ctx, tx, early, w.path != ""); err != nil {
			return err
		}
		if !fresh {
			if err := measureAll(ctx, tx); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE warehouse_info SET view_digest = ?", digest)
		return err
	})
}

// createViews puts in views and macros. Their three hundred comments take longer
// than the rest together; a database in memory has them put in when somebody asks
// for the schema.
func createViews(ctx context.Context, tx *sql.Tx, names []string, comments bool) error {
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		make, remarks := splitComments(string(text))
		if comments {
			make += remarks
		}
		if make == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, make); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func splitComments(text string) (make, comments string) {
	if at := strings.Index(text, "\nCOMMENT ON"); at >= 0 {
		make, comments = text[:at+1], text[at+1:]
		if !strings.Contains(make, "CREATE") {
			make = "" // nothing but remarks about the tables
		}
		return make, comments
	}
	return text, ""
}

// viewFiles are the files of the views: those that judge one run, and those,
// numbered from 60, that compare runs.
func viewFiles() (early, late []string, err error) {
	names, err := fs.Glob(files, "sql/views/*.sql")
	for _, name := range names {
		if path.Base(name) < "60" {
			early = append(early, name)
		} else {
			late = append(late, name)
		}
	}
	return early, late, err
}

// late puts in the views that compare runs. A database in memory mostly judges
// one run and is closed again, and they take longer than the rest.
func (w *DB) late(ctx context.Context) error {
	if w.path != "" && !w.attached {
		return nil // a file has them all
	}
	w.lateOnce.Do(func() {
		w.lateErr = w.define(ctx, func(tx *sql.Tx) error {
			_, late, err := viewFiles()
			if err != nil {
				return err
			}
			return createViews(ctx, tx, late, false)
		})
	})
	return w.lateErr
}

// putComments adds the comments that createViews left out.
func (w *DB) putComments(ctx context.Context) error {
	var err error
	w.comments.Do(func() {
		if w.path != "" && !w.attached {
			return
		}
		err = w.define(ctx, func(tx *sql.Tx) error {
			names, err := fs.Glob(files, "sql/views/*.sql")
			if err != nil {
				return err
			}
			for _, name := range names {
				if w.attached && path.Base(name) == "00_tables.sql" {
					continue // these tables are views of the file's
				}
				text, err := files.ReadFile(name)
				if err != nil {
					return err
				}
				if _, remarks := splitComments(string(text)); remarks != "" {
					if _, err := tx.ExecContext(ctx, remarks); err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
				}
			}
			return nil
		})
	})
	return err
}

func dropViews(ctx context.Context, tx *sql.Tx) error {
	drops, err := query(ctx, tx, `SELECT 'DROP VIEW IF EXISTS "' || replace(view_name, '"', '""') || '"' FROM duckdb_views() WHERE NOT internal AND NOT temporary
		UNION ALL SELECT DISTINCT 'DROP MACRO ' || CASE function_type WHEN 'table_macro' THEN 'TABLE ' ELSE '' END || 'IF EXISTS "' || replace(function_name, '"', '""') || '"'
		FROM duckdb_functions() WHERE NOT internal AND function_type IN ('macro', 'table_macro')`,
		func(s *string) []any { return []any{s} })
	if err != nil {
		return err
	}
	for _, d := range drops {
		if _, err := tx.ExecContext(ctx, d); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

func fillMetrics(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM metric_def"); err != nil {
		return err
	}
	var rows []string
	var args []any
	for i, d := range metric.Table() {
		rows = append(rows, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
		args = append(args, d.Name, i, d.Label, d.Unit, d.Direction.String(), string(d.Tier), d.Gated, d.Derived, len(d.Keys) == 0, d.Digits)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO metric_def (name, ordinal, label, unit, direction, tier, gated, derived, only_derived, digits) VALUES `+
		strings.Join(rows, ", "), args...); err != nil {
		return fmt.Errorf("metric_def: %w", err)
	}
	return nil
}

// An execer is a connection or a transaction.
type execer interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// attach opens a file that has the views of another version: a database in
// memory reads its tables and has views of this version over them. It is how a
// share that nobody here may write to stays readable.
func attach(ctx context.Context, path string, o Options) (_ *DB, err error) {
	w := &DB{path: path, readOnly: true, attached: true}
	connector, err := duckdb.NewConnector("?autoinstall_known_extensions=false&autoload_known_extensions=false", nil)
	if err != nil {
		return nil, fmt.Errorf("open warehouse %s: %w", path, err)
	}
	w.db = sql.OpenDB(connector)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open warehouse %s: %w", path, err), w.db.Close())
		}
	}()
	if err := w.patient(ctx, o.Wait, func() error {
		_, err := w.db.ExecContext(ctx, "ATTACH '"+strings.ReplaceAll(path, "'", "''")+"' AS stored (READ_ONLY)")
		return err
	}); err != nil {
		return nil, err
	}
	if _, err := w.db.ExecContext(ctx, "SET enable_external_access = false"); err != nil {
		return nil, err
	}
	steps, err := fs.Glob(files, "sql/schema/*.sql")
	if err != nil {
		return nil, err
	}
	if err := w.migrate(ctx, steps, 0); err != nil {
		return nil, err
	}
	if err := w.transact(ctx, func(tx *sql.Tx) error { return w.overlay(ctx, tx) }); err != nil {
		return nil, err
	}
	return w, w.lock(ctx)
}

// overlay replaces the empty tables in memory by views of the stored ones, puts
// in this version's views and computes the measurements they need.
func (w *DB) overlay(ctx context.Context, tx *sql.Tx) error {
	// columns that came after the file are empty, tables have the name they had in it
	stored, err := query(ctx, tx, `SELECT m.table_name, s.table_name, string_agg(CASE WHEN c.column_name IS NULL THEN 'NULL::' || m.data_type || ' AS ' ELSE '' END || '"' || m.column_name || '"', ', ' ORDER BY m.column_index)
		FROM duckdb_columns() m JOIN duckdb_tables() s ON s.database_name = 'stored' AND (s.table_name = m.table_name OR s.table_name = 'raw_value' AND m.table_name = 'raw_row')
		LEFT JOIN duckdb_columns() c ON c.database_name = 'stored' AND c.table_name = s.table_name AND c.column_name = m.column_name
		WHERE m.database_name = 'memory' AND NOT m.internal AND m.table_name NOT IN ('metric_def', 'measurement', 'cell_result', 'change_point', 'unmeasured', 'warehouse_info')
		GROUP BY m.table_name, s.table_name ORDER BY m.table_name`,
		func(t *[3]string) []any { return []any{&t[0], &t[1], &t[2]} })
	if err != nil {
		return err
	}
	for _, t := range stored {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`DROP TABLE "%s"; CREATE VIEW "%s" AS SELECT %s FROM stored."%s"`, t[0], t[0], t[2], t[1])); err != nil {
			return err
		}
	}
	if err := fillMetrics(ctx, tx); err != nil {
		return err
	}
	early, late, err := viewFiles()
	if err != nil {
		return err
	}
	if err := createViews(ctx, tx, append(early, late...), false); err != nil {
		return err
	}
	w.lateOnce.Do(func() {})
	return measureAll(ctx, tx)
}
