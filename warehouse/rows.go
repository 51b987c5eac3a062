package warehouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A State is the state of a gate, tier, cell or check.
type State string

// The states. Which of them a row can have is in the view's column comment.
const (
	Pass    State = "pass"
	Fail    State = "fail"
	Invalid State = "invalid" // the value cannot be used; counts as fail
	Skipped State = "skipped" // not in the artifact
	NA      State = "na"      // cannot exist here
	Info    State = "info"
	Record  State = "record" // not judged
	Error   State = "error"  // expected, but no usable result
)

func read[T any](ctx context.Context, w *DB, what, text string, dest func(*T) []any, args ...any) ([]T, error) {
	if err := w.Measure(ctx); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	rows, err := query(ctx, w.db, text, dest, args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return rows, nil
}

// readLate is read for the views that [DB.late] puts in.
func readLate[T any](ctx context.Context, w *DB, what, text string, dest func(*T) []any, args ...any) ([]T, error) {
	if err := w.late(ctx); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return read(ctx, w, what, text, dest, args...)
}

// A RunRow is one row of view runs.
type RunRow struct {
	RunID           string
	Suite           string
	Profile         string
	StartedAt       *time.Time // UTC
	EndedAt         *time.Time // UTC
	Model           string
	Precision       string
	GPUArch         string
	GPUSeen         string
	GPUConfirmed    bool
	Driver          string
	TP              int
	PP              int
	DP              int
	NNodes          int
	GPUs            int // TP * PP * DP
	Image           string
	Hosts           string   // JSON list, head first
	ScalingBaseline *float64 // tok/s
	Simulated       bool
	Enforce         bool
	EnforceOrigin   string
	ToolVersion     string
	CommandLine     string // JSON list
	LauncherHost    string
	LauncherUser    string
	Labels          string // JSON object
	Warnings        string // JSON list
	Dir             string
	Status          string
	Verdict         State // pass, fail, record
	Incomplete      bool
	Headline        string // FAIL, INCOMPLETE, PASS, RECORD
	ExitCode        int
	Expected        int // cells
	Measured        int
	Pass            int // gates
	Fail            int
	Invalid         int
	Skipped         int
}

// runColumns are the columns of view runs in the order of [runDest].
const runColumns = `run_id, coalesce(suite, ''), coalesce(profile, ''), started_at, ended_at, coalesce(model, ''), coalesce(precision, ''),
			coalesce(gpu_arch, ''), coalesce(gpu_seen, ''), gpu_confirmed, coalesce(driver, ''), coalesce(tp, 0), coalesce(pp, 0), coalesce(dp, 0),
			coalesce(nnodes, 0), coalesce(gpus, 0), coalesce(image, ''), coalesce(hosts, '[]'), scaling_baseline, simulated, enforce,
			coalesce(enforce_origin, ''), coalesce(tool_version, ''), coalesce(command_line, '[]'), coalesce(launcher_host, ''),
			coalesce(launcher_user, ''), coalesce(labels, '{}'), coalesce(warnings, '[]'), coalesce(dir, ''), status, verdict, incomplete, headline,
			exit_code, expected, measured, pass, fail, invalid, skipped`

func runDest(r *RunRow) []any {
	return []any{
		&r.RunID, &r.Suite, &r.Profile, &r.StartedAt, &r.EndedAt, &r.Model, &r.Precision, &r.GPUArch, &r.GPUSeen, &r.GPUConfirmed,
		&r.Driver, &r.TP, &r.PP, &r.DP, &r.NNodes, &r.GPUs, &r.Image, &r.Hosts, &r.ScalingBaseline, &r.Simulated, &r.Enforce,
		&r.EnforceOrigin, &r.ToolVersion, &r.CommandLine, &r.LauncherHost, &r.LauncherUser, &r.Labels, &r.Warnings, &r.Dir, &r.Status,
		&r.Verdict, &r.Incomplete, &r.Headline, &r.ExitCode, &r.Expected, &r.Measured, &r.Pass, &r.Fail, &r.Invalid, &r.Skipped,
	}
}

// newestFirst is the order of lists of runs; runs without a start come last.
const newestFirst = "started_at DESC NULLS LAST, run_id DESC"

// Runs lists the newest runs, at most limit of them, the newest first; limit 0
// lists all. Only the runs listed are judged.
func (w *DB) Runs(ctx context.Context, limit int) ([]RunRow, error) {
	if limit <= 0 {
		return read(ctx, w, "runs", "SELECT "+runColumns+" FROM runs ORDER BY "+newestFirst, runDest)
	}
	ids, err := w.RunIDs(ctx, limit)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	where, args := Among(ids)
	return read(ctx, w, "runs", "SELECT "+runColumns+" FROM runs WHERE "+where+" ORDER BY "+newestFirst, runDest, args...)
}

// RunIDs lists the ids of the newest runs, at most limit of them, the newest
// first; limit 0 lists all.
func (w *DB) RunIDs(ctx context.Context, limit int) ([]string, error) {
	text := "SELECT run_id FROM run ORDER BY " + newestFirst
	if limit > 0 {
		text += fmt.Sprintf(" LIMIT %d", limit)
	}
	return read(ctx, w, "run ids", text, func(id *string) []any { return []any{id} })
}

// Among is a condition on run_id that reaches the tables at the bottom of the
// views, and its arguments. A list of ids alone would not: DuckDB sends a range
// through an outer join, but no list. Ids begin with the time, so the range of
// neighbours holds few others.
func Among(ids []string) (where string, args []any) {
	if len(ids) == 0 {
		return "false", nil
	}
	marks, args := placeholders(ids)
	return "run_id BETWEEN ? AND ? AND run_id IN (" + marks + ")", append([]any{slices.Min(ids), slices.Max(ids)}, args...)
}

// placeholders are the question marks of a list and their arguments.
func placeholders(ids []string) (marks string, args []any) {
	for _, id := range ids {
		args = append(args, id)
	}
	return strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", "), args
}

// Run returns one run; ErrNoRun if it is not there.
func (w *DB) Run(ctx context.Context, runID string) (RunRow, error) {
	return only(readRun(ctx, w, runID, "run", "SELECT "+runColumns+" FROM runs WHERE run_id = ?", runDest, runID))
}

// Notes are the reviewers' words about a run, Markdown; "" without any.
func (w *DB) Notes(ctx context.Context, runID string) (string, error) {
	return only(readRun(ctx, w, runID, "notes", "SELECT coalesce(notes, '') FROM run WHERE run_id = ?", func(s *string) []any { return []any{s} }, runID))
}

// ImageDigests are the digests of a run's image by host; empty if unknown.
func (w *DB) ImageDigests(ctx context.Context, runID string) (map[string]string, error) {
	rows, err := readRun(ctx, w, runID, "image digests", "SELECT host, digest FROM image_digest WHERE run_id = ? ORDER BY host",
		func(r *[2]string) []any { return []any{&r[0], &r[1]} }, runID)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[r[0]] = r[1]
	}
	return out, nil
}

// ErrNoRun reports a run id that the warehouse does not hold.
var ErrNoRun = errors.New("no such run in the warehouse")

func only[T any](rows []T, err error) (T, error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case len(rows) == 0:
		return none, ErrNoRun
	}
	return rows[0], nil
}

// Latest returns the id of the run that started last; ErrNoRun if there is none
// with a start.
func (w *DB) Latest(ctx context.Context) (string, error) {
	return only(read(ctx, w, "latest run", `SELECT run_id FROM run WHERE started_at IS NOT NULL ORDER BY started_at DESC, run_id DESC LIMIT 1`,
		func(id *string) []any { return []any{id} }))
}

// A RunStatusRow is one row of view run_status.
type RunStatusRow struct {
	RunID       string
	Status      string
	Verdict     State // pass, fail, record
	Incomplete  bool
	Headline    string // FAIL, INCOMPLETE, PASS, RECORD
	ExitCode    int    // 0, 1, 3, 4, 130
	ReasonText  string // one reason a line
	Enforce     bool
	Simulated   bool
	Expected    int // cells
	Measured    int
	Cells       int
	CellsPass   int
	CellsFail   int
	CellsRecord int
	CellsError  int
	Pass        int // gates and check gates
	Fail        int
	Invalid     int
	Skipped     int
	NA          int
	Info        int
	Record      int
	WouldFail   int
	Tasks       int // planned checks
	TasksError  int
	TasksNotRun int
	DataErrors  int
	Warnings    int
}

// Reasons are the reasons of the verdict, most severe first.
func (r RunStatusRow) Reasons() []string {
	if r.ReasonText == "" {
		return nil
	}
	return strings.Split(r.ReasonText, "\n")
}

// RunStatus returns the verdict on a run; ErrNoRun if it is not there.
func (w *DB) RunStatus(ctx context.Context, runID string) (RunStatusRow, error) {
	return only(readRun(ctx, w, runID, "run_status", `
		SELECT run_id, status, verdict, incomplete, headline, exit_code, coalesce(reasons, ''), enforce, simulated, expected, measured, cells,
			cells_pass, cells_fail, cells_record, cells_error, pass, fail, invalid, skipped, na, info, record, would_fail, tasks, tasks_error,
			tasks_not_run, data_errors, warnings
		FROM run_status WHERE run_id = ?`,
		func(r *RunStatusRow) []any {
			return []any{
				&r.RunID, &r.Status, &r.Verdict, &r.Incomplete, &r.Headline, &r.ExitCode, &r.ReasonText, &r.Enforce, &r.Simulated, &r.Expected,
				&r.Measured, &r.Cells, &r.CellsPass, &r.CellsFail, &r.CellsRecord, &r.CellsError, &r.Pass, &r.Fail, &r.Invalid, &r.Skipped,
				&r.NA, &r.Info, &r.Record, &r.WouldFail, &r.Tasks, &r.TasksError, &r.TasksNotRun, &r.DataErrors, &r.Warnings,
			}
		}, runID))
}

// A CellRow is one row of view cells: the known metrics of a cell side by side, nil
// where not measured or not usable. Units are in the names.
type CellRow struct {
	Ordinal                int
	CellKey                string
	CellID                 string
	Combo                  string
	ISL                    int // tokens; 0: unknown
	OSL                    int
	TP                     int
	PP                     int
	Concurrency            int
	Planned                bool
	Host                   string
	Repeats                int
	State                  State
	Reason                 string
	MaxConcurrency         *float64
	MaxConcurrentRequests  *float64
	NumPrompts             *float64
	Completed              *float64
	Failed                 *float64
	SuccessRate            *float64
	Duration               *float64
	RequestThroughput      *float64
	Goodput                *float64
	OutputThroughput       *float64
	TotalTokenThroughput   *float64
	PerGPUThroughput       *float64
	OutputTputPerGPU       *float64
	DecodeThroughputP50    *float64
	MaxOutputTokensPerS    *float64
	TotalInputTokens       *float64
	TotalOutputTokens      *float64
	MeanTTFTMs             *float64
	MedianTTFTMs           *float64
	P90TTFTMs              *float64
	P95TTFTMs              *float64
	P99TTFTMs              *float64
	NormalizedTTFTMsPerTok *float64
	MeanTPOTMs             *float64
	MedianTPOTMs           *float64
	P90TPOTMs              *float64
	P95TPOTMs              *float64
	P99TPOTMs              *float64
	MeanITLMs              *float64
	MedianITLMs            *float64
	P95ITLMs               *float64
	P99ITLMs               *float64
	DecodeLatencyRatio     *float64
	MeanE2ELMs             *float64
	MedianE2ELMs           *float64
	P90E2ELMs              *float64
	P95E2ELMs              *float64
	P99E2ELMs              *float64
	ScalingEfficiencyPct   *float64
}

// Cells lists the cells of a run in plan order, one row a host.
func (w *DB) Cells(ctx context.Context, runID string) ([]CellRow, error) {
	return readRun(ctx, w, runID, "cells", `
		SELECT ordinal, cell_key, coalesce(cell_id, ''), coalesce(combo, ''), coalesce(isl, 0), coalesce(osl, 0), coalesce(tp, 0),
			coalesce(pp, 0), coalesce(concurrency, 0), planned, coalesce(host, ''), coalesce(repeats, 0), state, coalesce(reason, ''),
			max_concurrency, max_concurrent_requests, num_prompts, completed, failed, success_rate, duration, request_throughput, goodput,
			output_throughput, total_token_throughput, per_gpu_throughput, output_tput_per_gpu, decode_throughput_p50, max_output_tokens_per_s,
			total_input_tokens, total_output_tokens, mean_ttft_ms, median_ttft_ms, p90_ttft_ms, p95_ttft_ms, p99_ttft_ms, normalized_ttft_ms_per_tok,
			mean_tpot_ms, median_tpot_ms, p90_tpot_ms, p95_tpot_ms, p99_tpot_ms, mean_itl_ms, median_itl_ms, p95_itl_ms, p99_itl_ms,
			decode_latency_ratio, mean_e2el_ms, median_e2el_ms, p90_e2el_ms, p95_e2el_ms, p99_e2el_ms, scaling_efficiency_pct
		FROM cells WHERE run_id = ? ORDER BY ordinal, host`,
		func(r *CellRow) []any {
			return []any{
				&r.Ordinal, &r.CellKey, &r.CellID, &r.Combo, &r.ISL, &r.OSL, &r.TP, &r.PP, &r.Concurrency, &r.Planned, &r.Host, &r.Repeats,
				&r.State, &r.Reason, &r.MaxConcurrency, &r.MaxConcurrentRequests, &r.NumPrompts, &r.Completed, &r.Failed, &r.SuccessRate,
				&r.Duration, &r.RequestThroughput, &r.Goodput, &r.OutputThroughput, &r.TotalTokenThroughput, &r.PerGPUThroughput,
				&r.OutputTputPerGPU, &r.DecodeThroughputP50, &r.MaxOutputTokensPerS, &r.TotalInputTokens, &r.TotalOutputTokens, &r.MeanTTFTMs,
				&r.MedianTTFTMs, &r.P90TTFTMs, &r.P95TTFTMs, &r.P99TTFTMs, &r.NormalizedTTFTMsPerTok, &r.MeanTPOTMs, &r.MedianTPOTMs,
				&r.P90TPOTMs, &r.P95TPOTMs, &r.P99TPOTMs, &r.MeanITLMs, &r.MedianITLMs, &r.P95ITLMs, &r.P99ITLMs, &r.DecodeLatencyRatio,
				&r.MeanE2ELMs, &r.MedianE2ELMs, &r.P90E2ELMs, &r.P95E2ELMs, &r.P99E2ELMs, &r.ScalingEfficiencyPct,
			}
		}, runID)
}
