package warehouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cvs/warehouse/shift"
)

// ShortestHistory is the fewest runs of a series in which a lasting shift can be
// seen.
const ShortestHistory = shift.Shortest

// shiftRuns is how many runs of an identity the search looks back from a run.
// It bounds what loading one run costs, however long the history is.
const shiftRuns = 64

// findShifts brings table change_point up to date after runs were stored. Only
// the series of their identities are looked at, from the first of the runs on:
// what was found before it stays, because the search never looks ahead. A
// warehouse that grew run by run so has the same change points as one built at
// once.
func findShifts(ctx context.Context, x execer, runIDs []string) error {
	if len(runIDs) == 0 {
		return nil
	}
	type place struct{ identity, first string }
	marks, args := placeholders(runIDs)
	places, err := query(ctx, x, `SELECT identity, min(sequence) FROM run_identity WHERE run_id IN (`+marks+`) AND started_at IS NOT NULL
		GROUP BY identity ORDER BY identity`, func(p *place) []any { return []any{&p.identity, &p.first} }, args...)
	if err != nil {
		return fmt.Errorf("find shifts: %w", err)
	}
	for _, p := range places {
		if err := findShiftsOf(ctx, x, p.identity, p.first); err != nil {
			return fmt.Errorf("find shifts of %s: %w", p.identity, err)
		}
	}
	return nil
}

// A point is one value of a series.
type point struct {
	cell, slot, metric, direction string
	runID, sequence               string
	startedAt                     time.Time
	order                         int // of the run within its identity
	value                         float64
}

func findShiftsOf(ctx context.Context, x execer, identity, first string) error {
	type run struct {
		id    string
		order int
	}
	runs, err := query(ctx, x, `
		WITH r AS (SELECT run_id, sequence, row_number() OVER (ORDER BY sequence) AS n FROM run_identity WHERE identity = ? AND started_at IS NOT NULL)
		SELECT run_id, n FROM r WHERE n > (SELECT min(n) FROM r WHERE sequence >= ?) - ? ORDER BY n`,
		func(r *run) []any { return []any{&r.id, &r.order} }, identity, first, shiftRuns)
	if err != nil {
		return err
	}
	if _, err := x.ExecContext(ctx, "DELETE FROM change_point WHERE series_id = ? AND found_seq >= ?", identity, first); err != nil {
		return err
	}
	if len(runs) < ShortestHistory {
		return nil
	}
	order := make(map[string]int, len(runs))
	ids := make([]string, len(runs))
	for i, r := range runs {
		order[r.id], ids[i] = r.order, r.id
	}
	type start struct{ cell, slot, metric, sequence string }
	starts, err := query(ctx, x, "SELECT cell_key, slot, metric, max(first_seq) FROM change_point WHERE series_id = ? GROUP BY ALL",
		func(s *start) []any { return []any{&s.cell, &s.slot, &s.metric, &s.sequence} }, identity)
	if err != nil {
		return err
	}
	from := make(map[[3]string]string, len(starts))
	for _, s := range starts {
		from[[3]string{s.cell, s.slot, s.metric}] = s.sequence
	}
	marks, args := placeholders(ids)
	points, err := query(ctx, x, `SELECT h.cell_key, h.slot, h.metric, h.direction, h.run_id, h.sequence, h.started_at, h.value
		FROM history h JOIN metric_def d ON d.name = h.metric AND d.gated
		WHERE h.run_id IN (`+marks+`) AND h.healthy AND h.value > 0 ORDER BY h.cell_key, h.slot, h.metric, h.sequence`,
		func(p *point) []any {
			return []any{&p.cell, &p.slot, &p.metric, &p.direction, &p.runID, &p.sequence, &p.startedAt, &p.value}
		}, args...)
	if err != nil {
		return err
	}
	var rows [][]any
	for begin := 0; begin < len(points); {
		end := begin + 1
		for end < len(points) && points[end].cell == points[begin].cell && points[end].slot == points[begin].slot && points[end].metric == points[begin].metric {
			end++
		}
		series := points[begin:end]
		for i := range series {
			series[i].order = order[series[i].runID]
		}
		rows = append(rows, shiftsOf(identity, series, first, from[[3]string{series[0].cell, series[0].slot, series[0].metric}])...)
		begin = end
	}
	return insertShifts(ctx, x, rows)
}

// shiftsOf looks at each value from sequence first on, as if it had just come
// in; level is the sequence of the run where the present level began.
func shiftsOf(identity string, series []point, first, level string) [][]any {
	values := make([]float64, len(series))
	for i, p := range series {
		values[i] = p.value
	}
	start := 0
	for start < len(series) && series[start].sequence < level {
		start++
	}
	bad := shift.Neither
	switch series[0].direction {
	case "higher":
		bad = shift.Lower
	case "lower":
		bad = shift.Higher
	}
	var rows [][]any
	for n, p := range series {
		if p.sequence < first {
			continue
		}
		from := max(start, n+1-shift.MaxBefore-shift.MaxAfter)
		for from < n && series[from].order <= p.order-shiftRuns {
			from++
		}
		s, ok := shift.Default().Last(values[from:n+1], bad)
		if !ok {
			continue
		}
		at := from + s.At
		start = at
		worse := s.Pct < 0
		if bad == shift.Higher {
			worse = s.Pct > 0
		}
		rows = append(rows, []any{
			identity, p.cell, p.slot, p.metric, series[at-1].runID, series[at].runID, series[at].startedAt, p.runID, p.sequence, series[at].sequence,
			s.Before, s.BeforeMid, n + 1 - at, s.AfterMid, s.Pct, worse, s.P, shift.Method, shift.Version,
		})
	}
	return rows
}

func insertShifts(ctx context.Context, x execer, rows [][]any) error {
	const columns = "series_id, cell_key, slot, metric, last_run, first_run, first_at, found_run, found_seq, first_seq, before_n, before_mid, after_n, after_mid, change_pct, worse, p_value, method, version"
	n := strings.Count(columns, ",") + 1
	one := "(" + strings.TrimSuffix(strings.Repeat("?, ", n), ", ") + ")"
	for len(rows) > 0 {
		some := rows[:min(len(rows), 100)]
		rows = rows[len(some):]
		var args []any
		for _, r := range some {
			args = append(args, r...)
		}
		text := "INSERT INTO change_point (" + columns + ") VALUES " + strings.TrimSuffix(strings.Repeat(one+", ", len(some)), ", ")
		if _, err := x.ExecContext(ctx, text, args...); err != nil {
			return err
		}
	}
	return nil
}
