package warehouse

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A TelemetryRow is one row of view gpu_telemetry about all GPUs of a cell.
type TelemetryRow struct {
	CellKey, CellID string
	Repeat          int    // 0: no telemetry
	State           string // sampled, partial, absent, not_run, not_requested
	Reason          string
	Samples         int
	Problems        int
	Seconds         *float64
	PeakVRAMMB      *float64
	MeanGFXPct      *float64
	MeanUMCPct      *float64
	MeanGFXMHz      *float64
	MeanPowerW      *float64
	PeakPowerW      *float64
	PeakHotspotC    *float64
	EnergyJ         *float64
	EnergyFrom      string
	ThrottledPct    *float64
	Limits          string
	Path            string
	Unpriced        string    // why tokens per joule are not known
	Power           []float64 // W, of all hosts, over the cell's time; at most 60
}

// Telemetry lists what the GPUs of each cell of a run did together, also of cells
// without telemetry, in plan order.
func (w *DB) Telemetry(ctx context.Context, runID string) ([]TelemetryRow, error) {
	// each part filters by the run itself: a warehouse has many
	return readRun(ctx, w, runID, "gpu_telemetry", `
		WITH watts AS (
			SELECT cell_id, repeat, to_json(list(v ORDER BY ordinal))::VARCHAR AS power
			FROM (SELECT cell_id, repeat, ordinal, sum(power_w) AS v FROM gpu_point WHERE run_id = ? AND power_w IS NOT NULL GROUP BY cell_id, repeat, ordinal) GROUP BY cell_id, repeat
		), held AS (
			SELECT cell_id, repeat, string_agg(DISTINCT limits, ', ' ORDER BY limits) AS limits FROM gpu_stat WHERE run_id = ? GROUP BY cell_id, repeat
		), unpriced AS (
			SELECT cell_key, any_value(note) AS note FROM telemetry_metrics WHERE run_id = ? AND metric = 'energy.output_tokens_per_joule' AND value IS NULL GROUP BY cell_key
		)
		SELECT t.cell_key, t.cell_id, coalesce(t.repeat, 0), t.state, coalesce(t.reason, ''), t.samples, t.problems, t.seconds, t.peak_vram_mb, t.mean_gfx_pct, t.mean_umc_pct,
			t.mean_gfx_mhz, t.mean_power_w, t.peak_power_w, t.peak_hotspot_c, t.energy_j, coalesce(t.energy_from, ''), t.throttled_pct,
			coalesce(h.limits, ''), coalesce(t.path, ''), coalesce(u.note, ''), w.power
		FROM gpu_telemetry t
		LEFT JOIN watts w ON w.cell_id = t.cell_id AND w.repeat = t.repeat
		LEFT JOIN held h ON h.cell_id = t.cell_id AND h.repeat = t.repeat
		LEFT JOIN unpriced u ON u.cell_key = t.cell_key
		WHERE t.run_id = ? AND t.scope = 'total' ORDER BY t.ordinal NULLS LAST, t.cell_id, t.repeat`,
		func(r *TelemetryRow) []any {
			return []any{&r.CellKey, &r.CellID, &r.Repeat, &r.State, &r.Reason, &r.Samples, &r.Problems, &r.Seconds, &r.PeakVRAMMB, &r.MeanGFXPct, &r.MeanUMCPct,
				&r.MeanGFXMHz, &r.MeanPowerW, &r.PeakPowerW, &r.PeakHotspotC, &r.EnergyJ, &r.EnergyFrom, &r.ThrottledPct, &r.Limits, &r.Path, &r.Unpriced, (*numbers)(&r.Power)}
		}, runID, runID, runID, runID)
}

// numbers reads a list of numbers that came as JSON; NULL is none.
type numbers []float64

// Scan implements sql.Scanner.
func (n *numbers) Scan(v any) error {
	*n = nil
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), (*[]float64)(n))
	}
	return fmt.Errorf("numbers: %T", v)
}

// A LongContextRow is one row of view long_context.
type LongContextRow struct {
	TaskID   string
	ISL      int // tokens; 0: no result
	DepthPct int
	State    string // measured, or why not
	Reason   string
	Correct  int
	Errors   int
	Total    int
	PassRate *float64
	CILow    *float64
	CIHigh   *float64
	Path     string
}

// LongContext lists the needle-in-a-haystack cells of a run, by length and depth.
func (w *DB) LongContext(ctx context.Context, runID string) ([]LongContextRow, error) {
	return readRun(ctx, w, runID, "long_context", `
		SELECT task_id, coalesce(isl, 0), coalesce(depth_pct, 0), state, coalesce(reason, ''), coalesce(correct, 0), coalesce(errors, 0), coalesce(total, 0),
			pass_rate, ci_low, ci_high, coalesce(path, '')
		FROM long_context WHERE run_id = ? ORDER BY isl NULLS LAST, depth_pct, task_id`,
		func(r *LongContextRow) []any {
			return []any{&r.TaskID, &r.ISL, &r.DepthPct, &r.State, &r.Reason, &r.Correct, &r.Errors, &r.Total, &r.PassRate, &r.CILow, &r.CIHigh, &r.Path}
		}, runID)
}

// A KernelEventRow is one line of a kernel log that means something.
type KernelEventRow struct {
	Host     string
	At       *time.Time // the host's clock, UTC
	Severity string     // error, warning
	Source   string     // group of patterns, or of hardware errors
	Times    int
	Line     string
}

// KernelEvents lists what the scans of the kernel logs found, errors first, at
// most 200 lines a host and attempt.
func (w *DB) KernelEvents(ctx context.Context, runID string) ([]KernelEventRow, error) {
	return readRun(ctx, w, runID, "kernel_event", `
		SELECT host, moment, severity, source, times, line FROM kernel_event WHERE run_id = ? ORDER BY severity <> 'error', ordinal`,
		func(r *KernelEventRow) []any {
			return []any{&r.Host, &r.At, &r.Severity, &r.Source, &r.Times, &r.Line}
		}, runID)
}

// A DraftRow is one fact of the checks of speculative decoding.
type DraftRow struct {
	Status string // of the check
	Metric string // "": the check as a whole
	Value  *float64
	Text   string
	Detail string // why there is no value
	Path   string
}

// Drafts lists what the checks of speculative decoding found.
func (w *DB) Drafts(ctx context.Context, runID string) ([]DraftRow, error) {
	return readRun(ctx, w, runID, "check_result", `
		SELECT status, metric, value, coalesce(text, ''), coalesce(detail, ''), path FROM check_result WHERE run_id = ? AND scope = 'mtp_quality' ORDER BY ordinal`,
		func(r *DraftRow) []any { return []any{&r.Status, &r.Metric, &r.Value, &r.Text, &r.Detail, &r.Path} }, runID)
}

// An Objective is one part of a service level.
type Objective struct {
	Metric string  `json:"metric"` // name in metric_def
	Op     string  `json:"op"`     // <= < >= >
	Bound  float64 `json:"bound"`  // in the metric's unit
}

// An SLORow is one row of macro slo: how far one shape meets a service level.
type SLORow struct {
	ISL, OSL        int // tokens; 0: unknown
	Shape           string
	Concurrency     *int   // the highest that meets it; nil: none does
	CellID          string // its cell
	NextConcurrency *int   // the next one that does not
	NextReason      string
	OpenEnd         bool   // the highest measured one meets it: more might
	MissedBelow     string // lower concurrencies that do not
	Measured, Cells int
}

// SLO says for each shape of a run up to which concurrency it meets the level.
func (w *DB) SLO(ctx context.Context, runID string, level []Objective) ([]SLORow, error) {
	want, err := json.Marshal(level)
	if err != nil {
		return nil, fmt.Errorf("service level: %w", err)
	}
	return readRunLate(ctx, w, runID, "slo", `
		SELECT coalesce(isl, 0), coalesce(osl, 0), shape, concurrency, coalesce(cell_id, ''), next_concurrency, coalesce(next_reason, ''), open_end,
			coalesce(missed_below, ''), measured, cells
		FROM slo(?, ?) ORDER BY isl, osl, shape`,
		func(r *SLORow) []any {
			return []any{&r.ISL, &r.OSL, &r.Shape, &r.Concurrency, &r.CellID, &r.NextConcurrency, &r.NextReason, &r.OpenEnd, &r.MissedBelow, &r.Measured, &r.Cells}
		}, runID, string(want))
}
