package warehouse

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A HistoryRow is one row of view history.
type HistoryRow struct {
	SeriesID, CellKey, Slot, Metric, Unit, Direction string
	RunID                                            string
	StartedAt                                        time.Time // UTC
	Value                                            float64
	Healthy                                          bool
	Image, Version, Source                           string
}

// History lists one metric of the cells whose key is, or contains, cell, in every
// comparable series, oldest first.
func (w *DB) History(ctx context.Context, cell, metric string) ([]HistoryRow, error) {
	return readLate(ctx, w, "history", `
		SELECT series_id, cell_key, slot, metric, unit, direction, run_id, started_at, value, healthy, coalesce(image, ''), coalesce(version, ''), coalesce(source, '')
		FROM history WHERE (cell_key = ? OR contains(cell_key || ',', ? || ',')) AND metric = ? ORDER BY series_id, cell_key, slot, sequence`,
		func(r *HistoryRow) []any {
			return []any{
				&r.SeriesID, &r.CellKey, &r.Slot, &r.Metric, &r.Unit, &r.Direction, &r.RunID, &r.StartedAt, &r.Value, &r.Healthy, &r.Image, &r.Version, &r.Source,
			}
		}, cell, cell, metric)
}

// A ChangePointRow is one row of view change_points.
type ChangePointRow struct {
	SeriesID, CellKey, Slot, Metric, Unit, Direction string
	LastRun, FirstRun, FoundRun                      string
	FirstAt                                          time.Time // UTC
	BeforeN, AfterN                                  int
	BeforeMid, AfterMid                              float64
	ChangePct, BetterPct                             float64 // BetterPct: + for better
	Worse                                            bool
	PValue                                           float64
	Method                                           string
	Version                                          int
	ConfidencePct                                    float64
	MovedWith                                        int        // other shifts to the same side at the same run
	CellsMeasured                                    int        // that FirstRun measured
	NextRun                                          string     // where the next level begins; "": no later shift
	NextAt                                           *time.Time // UTC
	NextBetterPct                                    *float64
}

// ChangePoints lists the lasting shifts whose new level began at or after since,
// the newest first, those of one run together.
func (w *DB) ChangePoints(ctx context.Context, since time.Time) ([]ChangePointRow, error) {
	return readLate(ctx, w, "change_points", `
		SELECT series_id, cell_key, slot, metric, unit, direction, last_run, first_run, found_run, first_at, before_n, after_n, before_mid, after_mid, change_pct, better_pct,
			worse, p_value, method, version, confidence_pct, moved_with, cells_measured, coalesce(next_run, ''), next_at, next_better_pct
		FROM change_points WHERE first_at >= ? ORDER BY first_at DESC, first_run, series_id, worse DESC, cell_key, slot, metric_ordinal`,
		func(r *ChangePointRow) []any {
			return []any{
				&r.SeriesID, &r.CellKey, &r.Slot, &r.Metric, &r.Unit, &r.Direction, &r.LastRun, &r.FirstRun, &r.FoundRun, &r.FirstAt, &r.BeforeN, &r.AfterN,
				&r.BeforeMid, &r.AfterMid, &r.ChangePct, &r.BetterPct, &r.Worse, &r.PValue, &r.Method, &r.Version, &r.ConfidencePct, &r.MovedWith, &r.CellsMeasured, &r.NextRun, &r.NextAt, &r.NextBetterPct,
			}
		}, since.UTC())
}

// A BaselineRow is one pin.
type BaselineRow struct {
	Name, RunID, PinnedBy, Note string
	PinnedAt                    time.Time // UTC
	Identity                    string    // of the run; "" if it is not in the warehouse
}

// Baselines lists the pins, the newest first.
func (w *DB) Baselines(ctx context.Context) ([]BaselineRow, error) {
	return readLate(ctx, w, "baseline", `
		SELECT b.name, b.run_id, coalesce(b.pinned_by, ''), coalesce(b.note, ''), b.pinned_at, coalesce(i.identity, '')
		FROM baseline b LEFT JOIN run_identity i ON i.run_id = b.run_id ORDER BY b.pinned_at DESC, b.name, b.run_id`,
		func(r *BaselineRow) []any {
			return []any{&r.Name, &r.RunID, &r.PinnedBy, &r.Note, &r.PinnedAt, &r.Identity}
		})
}

// An Explanation is where one number comes from.
type Explanation struct {
	CellKey, Host, Metric, Unit, Direction string
	Value                                  *float64
	Quality, Text, Note                    string
	Derived                                bool
	Sources                                []ExplainedSource
	Gates                                  []GateRow // of this metric in this cell
	Earlier                                []HistoryRow
	SQL                                    string // that gives the gate again
}

// An ExplainedSource is one raw value behind it.
type ExplainedSource struct {
	Path, SHA256, Pointer, Key, Raw string
	Line, Repeat                    int
}

// Explain says where a metric of a cell of a run comes from: raw files and
// pointers, formula, thresholds, and the ten values before. cell is a key or an
// id; ErrNoRun if the run has no such cell or metric.
func (w *DB) Explain(ctx context.Context, runID, cell, metric string) ([]Explanation, error) {
	rows, err := readLate(ctx, w, "metric", `
		SELECT m.cell_key, m.host, m.metric, m.unit, m.direction, m.value, m.quality, coalesce(m.text, ''), coalesce(m.note, ''), m.derived
		FROM metrics m LEFT JOIN expected_cell e ON e.run_id = m.run_id AND e.cell_key = m.cell_key
		WHERE m.run_id = ? AND (m.cell_key = ? OR e.cell_id = ?) AND m.metric = ? ORDER BY m.cell_key, m.host`,
		func(x *Explanation) []any {
			return []any{&x.CellKey, &x.Host, &x.Metric, &x.Unit, &x.Direction, &x.Value, &x.Quality, &x.Text, &x.Note, &x.Derived}
		}, runID, cell, cell, metric)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, ErrNoRun
	}
	gates, err := w.Gates(ctx, runID)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		x := &rows[i]
		for _, g := range gates {
			if g.CellKey == x.CellKey && g.Host == x.Host && g.Metric == metric {
				x.Gates = append(x.Gates, g)
			}
		}
		view := "gates"
		if len(x.Gates) == 0 { // there is a value and no verdict
			view = "metrics"
		}
		x.SQL = fmt.Sprintf("SELECT * FROM %s WHERE run_id = %s AND cell_key = %s AND metric = %s", view, quoted(runID), quoted(x.CellKey), quoted(metric))
		// a derived metric has no key: what its formula names is looked up instead,
		// and requests that failed are those sent less those completed
		formula := x.Note
		if strings.Contains(formula, "failed") {
			formula += " num_prompts"
		}
		x.Sources, err = readLate(ctx, w, "sources", `
			SELECT s.path, coalesce(a.sha256, ''), v.pointer, v.key, coalesce(v.raw, ''), s.line, s.repeat
			FROM sample s JOIN raw_value v ON v.run_id = s.run_id AND v.sample_no = s.sample_no
			LEFT JOIN artifact a ON a.run_id = s.run_id AND a.path = s.path
			WHERE s.run_id = ? AND s.cell_key = ? AND s.host = ? AND s.usable AND (v.metric = ? OR v.key = ? AND v.parent = ''
				OR ? AND v.metric IS NOT NULL AND contains(regexp_replace(?, '[^a-z0-9_]+', ' ', 'g') || ' ', v.metric || ' '))
			ORDER BY s.repeat, s.path, v.ordinal`,
			func(r *ExplainedSource) []any {
				return []any{&r.Path, &r.SHA256, &r.Pointer, &r.Key, &r.Raw, &r.Line, &r.Repeat}
			}, runID, x.CellKey, x.Host, metric, metric, x.Derived, formula)
		if err != nil {
			return nil, err
		}
		x.Earlier, err = readLate(ctx, w, "earlier values", `
			SELECT h.series_id, h.cell_key, h.slot, h.metric, h.unit, h.direction, h.run_id, h.started_at, h.value, h.healthy, coalesce(h.image, ''), coalesce(h.version, ''), coalesce(h.source, '')
			FROM history h JOIN run_identity i ON i.identity = h.series_id AND h.sequence < i.sequence
			JOIN cell_run c ON c.run_id = i.run_id AND c.cell_key = h.cell_key AND c.slot = h.slot
			WHERE i.run_id = ? AND h.cell_key = ? AND c.host = ? AND h.metric = ? ORDER BY h.sequence DESC LIMIT 10`,
			func(r *HistoryRow) []any {
				return []any{
					&r.SeriesID, &r.CellKey, &r.Slot, &r.Metric, &r.Unit, &r.Direction, &r.RunID, &r.StartedAt, &r.Value, &r.Healthy, &r.Image, &r.Version, &r.Source,
				}
			}, runID, x.CellKey, x.Host, metric)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// quoted is text as an SQL literal.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
