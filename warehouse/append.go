package warehouse

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/duckdb/duckdb-go/v2"
)

// runTables are the tables that hold rows of a run, in the order of appending.
func runTables() []string {
	return []string{"run", "input_file", "image_digest", "expected_cell", "expected_task", "threshold",
		"stage", "artifact", "attempt", "sample", "raw_row", "problem", "run_origin", "check_result",
		"gpu_stat", "gpu_point", "model_load", "kernel_event", "needle", "unmeasured"}
}

// A row is one row of a table, in the column order of sql/schema.
type row = []driver.Value

// appenders write rows within the transaction of a connection.
type appenders struct {
	conn    *sql.Conn
	open    map[string]*appender
	flushed int // bytes of texts
}

// An appender writes to one table. DuckDB keeps what is appended in memory of its
// own, three times over, until it is flushed.
type appender struct {
	*duckdb.Appender
	bytes int // of texts since the last flush
}

const flushBytes = 1 << 20

func newAppenders(conn *sql.Conn) *appenders {
	return &appenders{conn: conn, open: make(map[string]*appender)}
}

// add writes the rows of these tables, in that order.
func (a *appenders) add(ctx context.Context, tables []string, rows map[string][]row) error {
	return a.conn.Raw(func(dc any) error {
		c, ok := dc.(driver.Conn)
		if !ok {
			return fmt.Errorf("unexpected driver connection %T", dc)
		}
		for _, table := range tables {
			if len(rows[table]) == 0 {
				continue
			}
			t := a.open[table]
			if t == nil {
				to, err := duckdb.NewAppenderFromConn(c, "", table)
				if err != nil {
					return fmt.Errorf("%s: %w", table, err)
				}
				t = &appender{Appender: to}
				a.open[table] = t
			}
			if err := errors.Join(a.addTo(t, rows[table]), ctx.Err()); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
		}
		return nil
	})
}

func (a *appenders) addTo(t *appender, rows []row) error {
	for _, r := range rows {
		if err := t.AppendRow(r...); err != nil {
			return err
		}
		for _, v := range r {
			if s, ok := v.(string); ok {
				t.bytes += len(s)
			}
		}
		if t.bytes > flushBytes {
			a.flushed += t.bytes
			t.bytes = 0
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// close writes what is left. After an error the transaction must be given up.
func (a *appenders) close() error {
	return a.end(func(*appender) error { return nil })
}

// discard drops what was not written yet, as far as that can be told apart.
func (a *appenders) discard() error {
	return a.end(func(t *appender) error { return t.Clear() })
}

func (a *appenders) end(before func(*appender) error) error {
	if len(a.open) == 0 {
		return nil
	}
	return a.conn.Raw(func(any) error {
		var errs []error
		for table, t := range a.open {
			if err := errors.Join(before(t), t.Close()); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", table, err))
			}
		}
		clear(a.open)
		return errors.Join(errs...)
	})
}
