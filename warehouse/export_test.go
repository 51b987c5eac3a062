package warehouse

import (
	"context"
	"maps"
	"slices"
)

// AskRun asks as the methods about one run do, for tests, and says what was
// kept for it; row gets the values of each row.
func (w *DB) AskRun(ctx context.Context, runID, text string, row func(values []any)) (kept []string, err error) {
	if err := w.late(ctx); err != nil {
		return nil, err
	}
	w.slicer.mu.Lock()
	defer w.slicer.mu.Unlock()
	conn, err := w.sliced(ctx, runID, text)
	if err != nil {
		return nil, err
	}
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values := make([]any, len(columns))
		dest := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		row(values)
	}
	for _, s := range []*slice{w.slicer.one, w.slicer.all} {
		if s != nil {
			kept = slices.AppendSeq(kept, maps.Keys(s.have))
		}
	}
	return kept, rows.Err()
}

// Comparing reports whether a question looks at other runs than its own.
func Comparing(text string) bool {
	reads := readsOf(text)
	return slices.ContainsFunc(comparing, func(name string) bool { return reads[name] })
}
