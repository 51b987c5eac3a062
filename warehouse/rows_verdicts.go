package warehouse

import "context"

// A GateRow is one row of view gates.
type GateRow struct {
	CellKey      string
	CellID       string
	Host         string
	Tier         string
	Metric       string
	Unit         string
	Kind         string
	Wanted       *float64 // value of the spec
	TolerancePct *float64
	Reference    string   // of min_ratio
	Got          *float64 // nil if there is no usable value
	GotText      string   // also of what cannot be used, e.g. NaN
	Quality      string
	Derived      bool
	Ratio        *float64 // of min_ratio
	Bound        string   // what was asked, in words
	State        State
	WouldFail    bool // not enforced, but violated
	Reason       string
	Margin       *float64 // in the unit, positive is good
	MarginPct    *float64 // per cent of |Wanted|, positive is good
	File         string   // threshold file
	Line         int      // in it
	Pointer      string   // in it
	// Waiver is who covers the failure; [DB.GateWaivers] knows, [DB.Gates] does not
	// ask.
	Waiver string
}

// Gates lists the verdict on each spec of a run, cell by cell in plan order.
func (w *DB) Gates(ctx context.Context, runID string) ([]GateRow, error) {
	return readRun(ctx, w, runID, "gates", `
		SELECT cell_key, coalesce(cell_id, ''), host, tier, metric, unit, kind, wanted, tolerance_pct, coalesce(reference, ''), got,
			coalesce(got_text, ''), quality, derived, ratio, coalesce(bound, ''), state, would_fail, coalesce(reason, ''), margin, margin_pct,
			coalesce(file, ''), coalesce(line, 0), coalesce(pointer, '')
		FROM gates WHERE run_id = ? ORDER BY cell_ordinal, host, metric_ordinal, metric, ordinal`,
		func(r *GateRow) []any {
			return []any{
				&r.CellKey, &r.CellID, &r.Host, &r.Tier, &r.Metric, &r.Unit, &r.Kind, &r.Wanted, &r.TolerancePct, &r.Reference, &r.Got,
				&r.GotText, &r.Quality, &r.Derived, &r.Ratio, &r.Bound, &r.State, &r.WouldFail, &r.Reason, &r.Margin, &r.MarginPct, &r.File,
				&r.Line, &r.Pointer,
			}
		}, runID)
}

// A TierRow is one row of view tiers.
type TierRow struct {
	CellKey        string
	Host           string
	Tier           string
	State          State
	Reason         string
	Specs          int
	Pass           int
	Fail           int
	Invalid        int
	Skipped        int
	NA             int
	Info           int
	WouldFail      int
	WorstMarginPct *float64
}

// Tiers lists the tiers of each measured cell of a run, in plan and display order.
func (w *DB) Tiers(ctx context.Context, runID string) ([]TierRow, error) {
	return readRun(ctx, w, runID, "tiers", `
		SELECT t.cell_key, t.host, t.tier, t.state, coalesce(t.reason, ''), t.specs, t.pass, t.fail, t.invalid, t.skipped, t.na, t.info,
			t.would_fail, t.worst_margin_pct
		FROM tiers t JOIN expected_cell e ON e.run_id = t.run_id AND e.cell_key = t.cell_key
		WHERE t.run_id = ? ORDER BY e.ordinal, t.host, t.ordinal`,
		func(r *TierRow) []any {
			return []any{
				&r.CellKey, &r.Host, &r.Tier, &r.State, &r.Reason, &r.Specs, &r.Pass, &r.Fail, &r.Invalid, &r.Skipped, &r.NA, &r.Info,
				&r.WouldFail, &r.WorstMarginPct,
			}
		}, runID)
}

// A CellStatusRow is one row of view cell_status.
type CellStatusRow struct {
	Ordinal        int // from 1
	CellKey        string
	CellID         string
	Combo          string
	ISL            int // tokens; 0: unknown
	OSL            int
	Concurrency    int
	Planned        bool
	State          State
	Reason         string
	Samples        int // usable benchmarks
	Hosts          int
	Pass           int // counts of gates
	Fail           int
	Invalid        int
	Skipped        int
	NA             int
	Info           int
	Record         int
	WouldFail      int
	WorstMarginPct *float64
	WorstMetric    string
	DataErrors     int
	Warnings       int
}

// CellStatus lists the verdict on every cell of a run in plan order, also on those
// without a result.
func (w *DB) CellStatus(ctx context.Context, runID string) ([]CellStatusRow, error) {
	return readRun(ctx, w, runID, "cell_status", `
		SELECT ordinal, cell_key, coalesce(cell_id, ''), coalesce(combo, ''), coalesce(isl, 0), coalesce(osl, 0), coalesce(concurrency, 0),
			planned, state, coalesce(reason, ''), samples, hosts, pass, fail, invalid, skipped, na, info, record, would_fail, worst_margin_pct,
			coalesce(worst_metric, ''), data_errors, warnings
		FROM cell_status WHERE run_id = ? ORDER BY ordinal`,
		func(r *CellStatusRow) []any {
			return []any{
				&r.Ordinal, &r.CellKey, &r.CellID, &r.Combo, &r.ISL, &r.OSL, &r.Concurrency, &r.Planned, &r.State, &r.Reason, &r.Samples,
				&r.Hosts, &r.Pass, &r.Fail, &r.Invalid, &r.Skipped, &r.NA, &r.Info, &r.Record, &r.WouldFail, &r.WorstMarginPct, &r.WorstMetric,
				&r.DataErrors, &r.Warnings,
			}
		}, runID)
}

// A CheckGateRow is one row of view check_gates.
type CheckGateRow struct {
	Scope        string // accuracy, functional, …
	Target       string // task id
	Metric       string // "": the task has no specs
	Kind         string
	Wanted       *float64
	TolerancePct *float64
	Reference    string
	Got          *float64
	GotText      string
	StdErr       *float64
	Bound        string
	State        State
	WouldFail    bool
	Reason       string
	MarginPct    *float64
	Path         string // raw file
	File         string // threshold file
	Line         int
	Pointer      string
	Waiver       string // as in [GateRow]
}

// CheckGates lists the verdicts of a run on everything that is not a sweep cell.
func (w *DB) CheckGates(ctx context.Context, runID string) ([]CheckGateRow, error) {
	return readRun(ctx, w, runID, "check_gates", `
		SELECT scope, target, metric, kind, wanted, tolerance_pct, coalesce(reference, ''), got, coalesce(got_text, ''), stderr,
			coalesce(bound, ''), state, would_fail, coalesce(reason, ''), margin_pct, coalesce(path, ''), coalesce(file, ''), coalesce(line, 0),
			coalesce(pointer, '')
		FROM check_gates WHERE run_id = ? ORDER BY scope, target, ordinal, metric`,
		func(r *CheckGateRow) []any {
			return []any{
				&r.Scope, &r.Target, &r.Metric, &r.Kind, &r.Wanted, &r.TolerancePct, &r.Reference, &r.Got, &r.GotText, &r.StdErr, &r.Bound,
				&r.State, &r.WouldFail, &r.Reason, &r.MarginPct, &r.Path, &r.File, &r.Line, &r.Pointer,
			}
		}, runID)
}
