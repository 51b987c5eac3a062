package warehouse

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/duckdb/duckdb-go/v2"
)

// runTables are the tables that hold rows of a run, in the order of appending.
func runTables() []string {
	return []string{"run", "input_file", "image_digest", "expected_cell", "expected_task", "threshold",
		"stage", "artifact", "attempt", "sample", "raw_row", "problem", "run_origin", "check_result",
		"gpu_stat", "gpu_point", "model_load", "kernel_event", "needle", "unmeasured"}
}

// appendRows writes the rows of all batches within the transaction of conn.
func appendRows(ctx context.Context, conn *sql.Conn, batches []*batch) error {
	shapes, err := newShapes(ctx, conn, batches)
	if err != nil {
		return err
	}
	return appendTo(ctx, conn, shapes, runTables(), batches)
}

// appendTo writes the rows that batches hold for tables, and shapes, which may be
// nil, before them.
func appendTo(ctx context.Context, conn *sql.Conn, shapes [][]driver.Value, tables []string, batches []*batch) error {
	if len(batches) == 0 {
		return nil
	}
	return conn.Raw(func(dc any) error {
		c, ok := dc.(driver.Conn)
		if !ok {
			return fmt.Errorf("unexpected driver connection %T", dc)
		}
		if err := appendTable(c, "shape_key", slices.Values(shapes)); err != nil {
			return err
		}
		for _, table := range tables {
			rows := func(yield func([]driver.Value) bool) {
				for _, b := range batches {
					for _, row := range b.rows[table] {
						if !yield(row) {
							return
						}
					}
				}
			}
			if err := errors.Join(appendTable(c, table, rows), ctx.Err()); err != nil {
				return err
			}
		}
		return nil
	})
}

// newShapes are the rows of the shapes that are not stored yet, each once.
func newShapes(ctx context.Context, conn *sql.Conn, batches []*batch) ([][]driver.Value, error) {
	stored, err := query(ctx, conn, "SELECT shape FROM shape_key WHERE place = 1", func(s *string) []any { return []any{s} })
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(stored))
	for _, s := range stored {
		have[s] = true
	}
	var rows [][]driver.Value
	for _, b := range batches {
		for _, id := range slices.Sorted(maps.Keys(b.shapes)) {
			if !have[id] {
				have[id] = true
				rows = append(rows, b.shapes[id].rows(id)...)
			}
		}
	}
	return rows, nil
}

// appendTable appends rows to a table; without any it costs nothing.
func appendTable(c driver.Conn, table string, rows iter.Seq[[]driver.Value]) error {
	var a *duckdb.Appender
	for row := range rows {
		var err error
		if a == nil {
			a, err = duckdb.NewAppenderFromConn(c, "", table)
		}
		if err == nil {
			err = a.AppendRow(row...)
		}
		if err != nil {
			if a != nil {
				err = errors.Join(err, a.Close())
			}
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	if a == nil {
		return nil
	}
	if err := a.Close(); err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	return nil
}
