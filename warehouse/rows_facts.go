package warehouse

import (
	"context"
	"fmt"
	"time"
)

// A MetricRow is one row of view metrics.
type MetricRow struct {
	CellKey   string
	Host      string
	Metric    string
	Label     string
	Unit      string
	Direction string // higher, lower, neutral
	Tier      string
	Gated     bool
	Known     bool     // one of our vocabulary
	Value     *float64 // nil unless Quality is ok
	Quality   string
	Text      string // as written
	Note      string // formula, or why it cannot be used
	Derived   bool
	Key       string // in the raw file
	Repeats   int
	Low       *float64
	High      *float64 // of the repeats
	Digits    int      // decimals shown to people
}

// Metrics lists what was measured in a run, cell by cell in plan order, metrics in
// display order.
func (w *DB) Metrics(ctx context.Context, runID string) ([]MetricRow, error) {
	return readRun(ctx, w, runID, "metrics", `
		SELECT m.cell_key, m.host, m.metric, m.label, m.unit, m.direction, m.tier, m.gated, m.known, m.value, m.quality, coalesce(m.text, ''),
			coalesce(m.note, ''), m.derived, coalesce(m.key, ''), m.repeats, m.low, m.high, m.digits
		FROM metrics m LEFT JOIN expected_cell e ON e.run_id = m.run_id AND e.cell_key = m.cell_key
		WHERE m.run_id = ? ORDER BY e.ordinal, m.cell_key, m.host, m.ordinal, m.metric`,
		func(r *MetricRow) []any {
			return []any{
				&r.CellKey, &r.Host, &r.Metric, &r.Label, &r.Unit, &r.Direction, &r.Tier, &r.Gated, &r.Known, &r.Value, &r.Quality, &r.Text,
				&r.Note, &r.Derived, &r.Key, &r.Repeats, &r.Low, &r.High, &r.Digits,
			}
		}, runID)
}

// An AccuracyRow is one row of view accuracy.
type AccuracyRow struct {
	TaskID     string
	LMTask     string
	Metric     string
	Stat       string
	Filter     string
	Value      *float64
	Quality    string
	Text       string
	StdErr     *float64
	CILow      *float64 // 95 per cent interval; nil without a standard error
	CIHigh     *float64
	Unreported bool   // of another filter than the task selects
	Direction  string // higher, lower, unknown
	Model      string
	Path       string
	Pointer    string
	MeasuredAt *time.Time // UTC
	Files      int
}

// Accuracy lists what lm-eval measured in a run.
func (w *DB) Accuracy(ctx context.Context, runID string) ([]AccuracyRow, error) {
	return readRun(ctx, w, runID, "accuracy", `
		SELECT task_id, lm_task, metric, stat, coalesce(filter, ''), value, quality, coalesce(text, ''), stderr, ci_low, ci_high, NOT reported, direction, coalesce(model, ''),
			path, pointer, measured_at, files
		FROM accuracy WHERE run_id = ? ORDER BY task_id, ordinal`,
		func(r *AccuracyRow) []any {
			return []any{
				&r.TaskID, &r.LMTask, &r.Metric, &r.Stat, &r.Filter, &r.Value, &r.Quality, &r.Text, &r.StdErr, &r.CILow, &r.CIHigh, &r.Unreported, &r.Direction, &r.Model, &r.Path,
				&r.Pointer, &r.MeasuredAt, &r.Files,
			}
		}, runID)
}

// A DataQualityRow is one row of view data_quality.
type DataQualityRow struct {
	Severity string // data_error, warning, finding
	Code     string
	CellKey  string
	TaskID   string
	Host     string
	Path     string
	Line     int
	Message  string
}

// DataQuality lists what to know before trusting the numbers of a run.
func (w *DB) DataQuality(ctx context.Context, runID string) ([]DataQualityRow, error) {
	return readRun(ctx, w, runID, "data_quality", `
		SELECT severity, code, coalesce(cell_key, ''), coalesce(task_id, ''), coalesce(host, ''), coalesce(path, ''), coalesce(line, 0), message
		FROM data_quality WHERE run_id = ? ORDER BY ordinal, cell_key, host, code, message`,
		func(r *DataQualityRow) []any {
			return []any{&r.Severity, &r.Code, &r.CellKey, &r.TaskID, &r.Host, &r.Path, &r.Line, &r.Message}
		}, runID)
}

// Problems lists what made results of runs unusable when they were loaded: the
// data errors of [DB.DataQuality], without its plausibility checks, by run id.
func (w *DB) Problems(ctx context.Context, runIDs ...string) (map[string][]DataQualityRow, error) {
	type row struct {
		id string
		DataQualityRow
	}
	found := make(map[string][]DataQualityRow)
	if len(runIDs) == 0 {
		return found, nil
	}
	// query, not read: no measurement is asked for
	rows, err := query(ctx, w.db, `
		SELECT run_id, severity, code, coalesce(cell_key, ''), coalesce(task_id, ''), coalesce(path, ''), coalesce(line, 0), message
		FROM problem WHERE severity = 'data_error' AND run_id IN `+listed+` ORDER BY run_id, ordinal`,
		func(r *row) []any {
			return []any{&r.id, &r.Severity, &r.Code, &r.CellKey, &r.TaskID, &r.Path, &r.Line, &r.Message}
		}, list(runIDs))
	if err != nil {
		return nil, fmt.Errorf("read problem: %w", err)
	}
	for _, r := range rows {
		found[r.id] = append(found[r.id], r.DataQualityRow)
	}
	return found, nil
}

// An ArtifactRow is one raw file of a run.
type ArtifactRow struct {
	Path    string
	Role    string // cell, accuracy, check, superseded
	CellKey string
	TaskID  string
	Repeat  int
	Host    string
	SHA256  string
	Bytes   int64
	Format  string // "": not recognised
	Samples int
}

// Artifacts lists the raw files of a run with their hashes.
func (w *DB) Artifacts(ctx context.Context, runID string) ([]ArtifactRow, error) {
	return readRun(ctx, w, runID, "artifact", `
		SELECT path, role, coalesce(cell_key, ''), coalesce(task_id, ''), repeat, coalesce(host, ''), sha256, bytes, coalesce(format, ''), samples
		FROM artifact WHERE run_id = ? ORDER BY role, path`,
		func(r *ArtifactRow) []any {
			return []any{
				&r.Path, &r.Role, &r.CellKey, &r.TaskID, &r.Repeat, &r.Host, &r.SHA256, &r.Bytes, &r.Format, &r.Samples,
			}
		}, runID)
}

// A StageRow is one stage of a run.
type StageRow struct {
	Seq       int
	Stage     string
	Host      string
	CellID    string
	StartedAt *time.Time // UTC
	EndedAt   *time.Time // UTC; nil: never ended
	Status    string
	Reason    string
}

// Stages lists what a run did, in order.
func (w *DB) Stages(ctx context.Context, runID string) ([]StageRow, error) {
	return readRun(ctx, w, runID, "stage", `
		SELECT seq, stage, coalesce(host, ''), coalesce(cell_id, ''), started_at, ended_at, coalesce(status, ''), coalesce(reason, '')
		FROM stage WHERE run_id = ? ORDER BY seq`,
		func(r *StageRow) []any {
			return []any{&r.Seq, &r.Stage, &r.Host, &r.CellID, &r.StartedAt, &r.EndedAt, &r.Status, &r.Reason}
		}, runID)
}

// An AttemptRow is how one repeat of a cell was carried out.
type AttemptRow struct {
	CellKey       string
	Repeat        int
	Host          string
	Status        string
	Reason        string
	StartedAt     *time.Time // UTC
	EndedAt       *time.Time // UTC
	ExitCode      *int       // of the client; nil: never learned
	ClientArgv    string     // JSON list
	ServerArgv    string     // JSON list
	ServerSession int
	Warm          bool
}

// Attempts lists how the cells of a run were carried out, in plan order.
func (w *DB) Attempts(ctx context.Context, runID string) ([]AttemptRow, error) {
	return readRun(ctx, w, runID, "attempt", `
		SELECT a.cell_key, a.repeat, coalesce(a.host, ''), coalesce(a.status, ''), coalesce(a.reason, ''), a.started_at, a.ended_at, a.exit_code,
			coalesce(a.client_argv, '[]'), coalesce(a.server_argv, '[]'), coalesce(a.server_session, 0), coalesce(a.warm, false)
		FROM attempt a LEFT JOIN expected_cell e ON e.run_id = a.run_id AND e.cell_key = a.cell_key
		WHERE a.run_id = ? ORDER BY e.ordinal, a.cell_key, a.repeat, a.host`,
		func(r *AttemptRow) []any {
			return []any{
				&r.CellKey, &r.Repeat, &r.Host, &r.Status, &r.Reason, &r.StartedAt, &r.EndedAt, &r.ExitCode, &r.ClientArgv, &r.ServerArgv,
				&r.ServerSession, &r.Warm,
			}
		}, runID)
}

// An InputRow is one file a run was started from.
type InputRow struct {
	Kind   string // config, thresholds, cluster
	Path   string
	SHA256 string
	Bytes  int64
}

// Inputs lists the files a run was started from.
func (w *DB) Inputs(ctx context.Context, runID string) ([]InputRow, error) {
	return readRun(ctx, w, runID, "input_file", `
		SELECT kind, path, coalesce(sha256, ''), coalesce(bytes, 0)
		FROM input_file WHERE run_id = ? ORDER BY kind, path`,
		func(r *InputRow) []any { return []any{&r.Kind, &r.Path, &r.SHA256, &r.Bytes} }, runID)
}
