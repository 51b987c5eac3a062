package warehouse

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// Pin makes a run the baseline of its identity under a name. An older pin of that
// name on the same identity is replaced; one that is not older is an error, since a
// warehouse that is built again would prefer it. ErrNoRun if the run is not there.
func (w *DB) Pin(ctx context.Context, b BaselineRow) error {
	if _, err := w.Run(ctx, b.RunID); err != nil {
		return err
	}
	stored, err := w.RestorePins(ctx, []BaselineRow{b})
	if err == nil && stored == 0 {
		err = fmt.Errorf("pin: a pin named %s of equal identity is not older than %s: look at the clocks, or choose another name", b.Name, b.PinnedAt.UTC().Format(time.RFC3339))
	}
	return err
}

// RestorePins stores pins again that are kept elsewhere, as if each had been made
// at its time, and returns how many it stored: a pin that is there already, or
// has a newer one of its name, changes nothing. Pins of runs that are not in the
// warehouse wait for their run; they are to be given again after it is loaded.
func (w *DB) RestorePins(ctx context.Context, pins []BaselineRow) (stored int, err error) {
	if len(pins) == 0 {
		return 0, nil
	}
	if w.readOnly {
		return 0, fmt.Errorf("pin: the warehouse %s is open read-only", w.path)
	}
	if err := w.late(ctx); err != nil {
		return 0, fmt.Errorf("pin: %w", err)
	}
	pins = slices.Clone(pins)
	slices.SortStableFunc(pins, func(a, b BaselineRow) int {
		return cmp.Or(a.PinnedAt.Compare(b.PinnedAt), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Name, b.Name))
	})
	// pins of one name on one identity
	const rivals = "name = ? AND run_id IN (SELECT o.run_id FROM run_identity o JOIN run_identity n ON n.identity = o.identity WHERE n.run_id = ?)"
	err = w.transact(ctx, func(tx *sql.Tx) error {
		for _, b := range pins {
			var there, outdone bool
			if err := tx.QueryRowContext(ctx, "SELECT EXISTS (FROM run WHERE run_id = ?), EXISTS (FROM baseline WHERE pinned_at >= ? AND "+rivals+")",
				b.RunID, b.PinnedAt.UTC(), b.Name, b.RunID).Scan(&there, &outdone); err != nil {
				return err
			}
			if !there || outdone {
				continue
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM baseline WHERE "+rivals, b.Name, b.RunID); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO baseline (name, run_id, pinned_at, pinned_by, note) VALUES (?, ?, ?, ?, ?)",
				b.Name, b.RunID, b.PinnedAt.UTC(), b.PinnedBy, b.Note); err != nil {
				return err
			}
			stored++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("pin: %w", err)
	}
	return stored, nil
}
