package warehouse

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// Measure computes the measurements of runs that were stored without, and looks
// for shifts in the histories they belong to. It does nothing in a warehouse that
// is open read-only: such a one has none.
func (w *DB) Measure(ctx context.Context) error {
	if w.readOnly || !w.unmeasured.Load() {
		return nil
	}
	w.measuring.Lock()
	defer w.measuring.Unlock()
	if !w.unmeasured.Load() {
		return nil
	}
	ids, err := unmeasured(ctx, w.db)
	if err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	var stored int
	if err := w.db.QueryRowContext(ctx, "SELECT count(*) FROM run").Scan(&stored); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	search := stored >= ShortestHistory // a shorter history can show no shift
	if search {
		if err := w.late(ctx); err != nil {
			return fmt.Errorf("measure: %w", err)
		}
	}
	if err := w.transact(ctx, func(tx *sql.Tx) error {
		if err := measure(ctx, tx, ids); err != nil {
			return err
		}
		if search {
			if err := findShifts(ctx, tx, ids); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM unmeasured")
		return err
	}); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	w.unmeasured.Store(false)
	return nil
}

// Unmeasured is how many runs [DB.Measure] would compute.
func (w *DB) Unmeasured(ctx context.Context) (int, error) {
	ids, err := unmeasured(ctx, w.db)
	return len(ids), err
}

func unmeasured(ctx context.Context, q querier) ([]string, error) {
	return query(ctx, q, "SELECT u.run_id FROM unmeasured u JOIN run r ON r.run_id = u.run_id ORDER BY r.started_at NULLS FIRST, u.run_id", func(id *string) []any { return []any{id} })
}

// measureChunk bounds the memory of computing measurements, in runs.
const measureChunk = 2000

// measure keeps what view measured says about these runs.
func measure(ctx context.Context, x execer, runIDs []string) error {
	for ids := range slices.Chunk(runIDs, measureChunk) {
		marks, args := placeholders(ids)
		// ordered, so that two builds of one warehouse have equal tables
		if _, err := x.ExecContext(ctx, `INSERT INTO measurement
			SELECT run_id, cell_key, host, metric, value, quality, text, note, derived, key, repeats, low, high
			FROM measured WHERE run_id IN (`+marks+`) ORDER BY run_id, cell_key, host, metric`, args...); err != nil {
			return fmt.Errorf("measure: %w", err)
		}
		// few runs have telemetry; the others need not pay for the view
		if sampled, err := query(ctx, x, "SELECT DISTINCT run_id FROM (SELECT run_id FROM gpu_stat UNION ALL SELECT run_id FROM model_load) WHERE run_id IN ("+marks+")",
			func(id *string) []any { return []any{id} }, args...); err != nil {
			return fmt.Errorf("measure telemetry: %w", err)
		} else if len(sampled) > 0 {
			some, which := placeholders(sampled)
			if _, err := x.ExecContext(ctx, `INSERT INTO measurement
				SELECT run_id, cell_key, host, metric, value, 'ok', NULL, note, true, NULL, repeats, low, high
				FROM telemetry_metrics WHERE value IS NOT NULL AND run_id IN (`+some+`) ORDER BY run_id, cell_key, host, metric`, which...); err != nil {
				return fmt.Errorf("measure telemetry: %w", err)
			}
		}
		if _, err := x.ExecContext(ctx, `INSERT INTO cell_result
			SELECT run_id, cell_key, host, hosts, success_rate, failed, mean_input_len, mean_output_len
			FROM measured_cell WHERE run_id IN (`+marks+`) ORDER BY run_id, cell_key, host`, args...); err != nil {
			return fmt.Errorf("measure cells: %w", err)
		}
	}
	return nil
}

// measureAll computes the measurements of every run again.
func measureAll(ctx context.Context, x execer) error {
	if _, err := x.ExecContext(ctx, "DELETE FROM measurement; DELETE FROM cell_result; DELETE FROM unmeasured"); err != nil {
		return err
	}
	ids, err := query(ctx, x, "SELECT run_id FROM run ORDER BY started_at NULLS FIRST, run_id", func(id *string) []any { return []any{id} })
	if err != nil {
		return err
	}
	if err := measure(ctx, x, ids); err != nil {
		return err
	}
	if _, err := x.ExecContext(ctx, "DELETE FROM change_point"); err != nil {
		return err
	}
	return findShifts(ctx, x, ids)
}
