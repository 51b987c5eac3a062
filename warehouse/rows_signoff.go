package warehouse

import (
	"context"
	"strings"
	"time"
)

// day is how a moment is given to the views that ask for one: its day, UTC.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// A CalibrationRow is one row of view calibration.
type CalibrationRow struct {
	CellKey, CellID, Tier string
	Judged, Calibrated    int // gates
	WhollyVacuous         bool
}

// Calibration says how many of the judged gates of a run can fail, tier by tier.
func (w *DB) Calibration(ctx context.Context, runID string) ([]CalibrationRow, error) {
	return readRun(ctx, w, runID, "calibration", `
		SELECT cell_key, coalesce(cell_id, ''), tier, judged, calibrated, wholly_vacuous
		FROM calibration WHERE run_id = ? ORDER BY cell_ordinal, cell_key, tier`,
		func(r *CalibrationRow) []any {
			return []any{&r.CellKey, &r.CellID, &r.Tier, &r.Judged, &r.Calibrated, &r.WhollyVacuous}
		}, runID)
}

// A VacuousRow is one row of view vacuous.
type VacuousRow struct {
	CellKey, CellID, Host, Tier, Metric, Kind string
	Wanted, Got                               *float64
	Why                                       string
}

// Vacuous lists the gates of a run that hold and could not have failed.
func (w *DB) Vacuous(ctx context.Context, runID string) ([]VacuousRow, error) {
	return readRun(ctx, w, runID, "vacuous", `
		SELECT cell_key, coalesce(cell_id, ''), host, tier, metric, kind, wanted, got, why
		FROM vacuous WHERE run_id = ? ORDER BY cell_key, host, metric, kind`,
		func(r *VacuousRow) []any {
			return []any{&r.CellKey, &r.CellID, &r.Host, &r.Tier, &r.Metric, &r.Kind, &r.Wanted, &r.Got, &r.Why}
		}, runID)
}

// A GateWaiverRow is what one waiver does to one gate, a row of gate_waivers.
type GateWaiverRow struct {
	CellKey, CellID, TaskID, Host, Tier, Metric string
	Gate                                        string // cell or task and metric, for people
	State                                       State  // stays fail or invalid when waived
	MarginPct                                   *float64
	Reason, WaiverID, Owner, Issue              string
	LastDay                                     time.Time // UTC
	Standing                                    string    // waived, outside, expired, passing
	Why                                         string    // of outside
}

// GateWaivers lists what the waivers of a run do to its gates on the day of at,
// UTC.
func (w *DB) GateWaivers(ctx context.Context, runID string, at time.Time) ([]GateWaiverRow, error) {
	return readRun(ctx, w, runID, "gate_waivers", `
		SELECT coalesce(cell_key, ''), coalesce(cell_id, ''), coalesce(task_id, ''), coalesce(host, ''), coalesce(tier, ''), metric, gate, state, margin_pct,
			coalesce(reason, ''), waiver_id, owner, issue, last_day, standing, coalesce(why, '')
		FROM gate_waivers(?) WHERE run_id = ? ORDER BY place, metric_ordinal, host, ordinal, line`,
		func(r *GateWaiverRow) []any {
			return []any{
				&r.CellKey, &r.CellID, &r.TaskID, &r.Host, &r.Tier, &r.Metric, &r.Gate, &r.State, &r.MarginPct,
				&r.Reason, &r.WaiverID, &r.Owner, &r.Issue, &r.LastDay, &r.Standing, &r.Why,
			}
		}, day(at), runID)
}

// A WaiverUseRow is one row of waiver_use.
type WaiverUseRow struct {
	WaiverID, Target, Owner, Issue, Reason string
	LastDay                                time.Time // UTC
	Waived, Expired, Outside, Passing      int       // gates
	Remark                                 string    // in use, expired, outside, remove, unmatched
}

// WaiverUse says what each waiver of a run is good for on the day of at, UTC.
func (w *DB) WaiverUse(ctx context.Context, runID string, at time.Time) ([]WaiverUseRow, error) {
	return readRun(ctx, w, runID, "waiver_use", `
		SELECT waiver_id, target, owner, issue, reason, last_day, waived, expired, outside, passing, remark
		FROM waiver_use(?) WHERE run_id = ? ORDER BY line, waiver_id`,
		func(r *WaiverUseRow) []any {
			return []any{&r.WaiverID, &r.Target, &r.Owner, &r.Issue, &r.Reason, &r.LastDay, &r.Waived, &r.Expired, &r.Outside, &r.Passing, &r.Remark}
		}, day(at), runID)
}

// A BlockRow is one reason against approving a run, a row of signoff_block.
type BlockRow struct {
	Class, Tier, Reason string
	Holds, Absolute     bool
}

// SignoffBlocks lists what stands against approving a run on the day of at, UTC.
func (w *DB) SignoffBlocks(ctx context.Context, runID string, at time.Time) ([]BlockRow, error) {
	return readRun(ctx, w, runID, "signoff_block", `
		SELECT class, coalesce(tier, ''), reason, holds, absolute FROM signoff_block(?) WHERE run_id = ? ORDER BY ordinal`,
		func(r *BlockRow) []any { return []any{&r.Class, &r.Tier, &r.Reason, &r.Holds, &r.Absolute} }, day(at), runID)
}

// A StandingRow is one decision and whether it holds, a row of signoff_standing.
type StandingRow struct {
	Seq                                int
	Decision, Role, Identity, Key, SHA string
	SignedAt                           time.Time // UTC
	Replaced, Counts                   bool
	Note                               string
	stale, problems                    string
}

// Stale lists what is no longer as it was signed.
func (r StandingRow) Stale() []string { return lines(r.stale) }

// Problems lists why the decision is not accepted.
func (r StandingRow) Problems() []string { return lines(r.problems) }

// SignoffStandings lists the decisions on a run, the first one first.
func (w *DB) SignoffStandings(ctx context.Context, runID string, at time.Time) ([]StandingRow, error) {
	return readRun(ctx, w, runID, "signoff_standing", `
		SELECT seq, decision, role, identity, coalesce(key, ''), line_sha256, signed_at, replaced, counts, coalesce(note, ''), coalesce(stale, ''), coalesce(problems, '')
		FROM signoff_standing(?) WHERE run_id = ? ORDER BY seq`,
		func(r *StandingRow) []any {
			return []any{&r.Seq, &r.Decision, &r.Role, &r.Identity, &r.Key, &r.SHA, &r.SignedAt, &r.Replaced, &r.Counts, &r.Note, &r.stale, &r.problems}
		}, day(at), runID)
}

// A SignoffStateRow is one row of signoff_state.
type SignoffStateRow struct {
	RunID                     string
	State                     string // none recorded, tampered, rejected, stale, pending, conditional, approved
	Signers                   string // whose decisions count, with their roles
	Head                      string // SHA-256 of the log's last line
	Entries                   int
	Failed, Waived, NotWaived int // gates
	reasons                   string
}

// Reasons lists why the state is what it is.
func (r SignoffStateRow) Reasons() []string { return lines(r.reasons) }

// SignoffState says how the sign-off of a run stands on the day of at, UTC. Of a
// run without decisions, waivers and policy the views need not be asked.
func (w *DB) SignoffState(ctx context.Context, runID string, at time.Time) (SignoffStateRow, error) {
	none, err := readRun(ctx, w, runID, "signoff_rule", `
		SELECT run_id, 'none recorded', (fail + invalid)::INTEGER, (fail + invalid)::INTEGER FROM run_status
		WHERE run_id = ? AND NOT EXISTS (SELECT 1 FROM signoff_rule WHERE run_id = ?)`,
		func(r *SignoffStateRow) []any { return []any{&r.RunID, &r.State, &r.Failed, &r.NotWaived} }, runID, runID)
	if err != nil || len(none) == 1 {
		return append(none, SignoffStateRow{})[0], err
	}
	rows, err := readRun(ctx, w, runID, "signoff_state", `
		SELECT run_id, state, signers, head, entries, failed, waived, not_waived, reasons FROM signoff_state(?) WHERE run_id = ?`,
		func(r *SignoffStateRow) []any {
			return []any{&r.RunID, &r.State, &r.Signers, &r.Head, &r.Entries, &r.Failed, &r.Waived, &r.NotWaived, &r.reasons}
		}, day(at), runID)
	if err != nil || len(rows) == 0 {
		return SignoffStateRow{RunID: runID, State: "none recorded"}, err
	}
	return rows[0], nil
}

// A ThresholdOriginRow is the thresholds of a run that came into use together:
// rows of view threshold_age with one file and one first run.
type ThresholdOriginRow struct {
	File, SHA256        string
	FirstLine, LastLine int
	Specs               int
	FirstRun            string
	FirstAt             *time.Time // UTC
	FileFirstRun        string
	FileFirstAt         *time.Time // UTC
	AgeDays             *float64   // to the start of this run
	New                 bool
	Vacuous             int // of the gates they make
}

// ThresholdOrigins says where the thresholds of a run come from and since when
// they are as they are, the oldest first.
func (w *DB) ThresholdOrigins(ctx context.Context, runID string) ([]ThresholdOriginRow, error) {
	return readRun(ctx, w, runID, "threshold_age", `
		WITH v AS (SELECT DISTINCT 'cell' AS scope, cell_key, metric, kind FROM vacuous WHERE run_id = ?)
		SELECT coalesce(file, ''), coalesce(sha256, ''), coalesce(min(line), 0), coalesce(max(line), 0), count(*)::INTEGER, first_run, any_value(first_at),
			any_value(file_first_run), any_value(file_first_at), any_value(age_days), any_value(new_here), count(v.metric)::INTEGER
		FROM threshold_age a LEFT JOIN v ON v.scope = a.scope AND v.cell_key = a.target AND v.metric = a.metric AND v.kind = a.kind
		WHERE a.run_id = ? GROUP BY file, sha256, first_run ORDER BY any_value(first_at) NULLS LAST, first_run, file`,
		func(r *ThresholdOriginRow) []any {
			return []any{&r.File, &r.SHA256, &r.FirstLine, &r.LastLine, &r.Specs, &r.FirstRun, &r.FirstAt, &r.FileFirstRun, &r.FileFirstAt, &r.AgeDays, &r.New, &r.Vacuous}
		}, runID, runID)
}

// A ReleaseRunRow is one row of view release_runs.
type ReleaseRunRow struct {
	RunID, Model, Driver, GPUArch, Precision, Profile string
	TP, NNodes                                        int
	StartedAt                                         *time.Time // UTC
	Simulated                                         bool
	Headline                                          string
	Incomplete                                        bool
	Gates, Failed, Missing                            int
	Judged, Calibrated, VacuousTiers                  int
}

// ReleaseRun sums up a run for a release.
func (w *DB) ReleaseRun(ctx context.Context, runID string) (ReleaseRunRow, error) {
	rows, err := readRun(ctx, w, runID, "release_runs", `
		SELECT run_id, coalesce(model, ''), coalesce(driver, ''), coalesce(gpu_arch, ''), coalesce(precision, ''), coalesce(profile, ''), coalesce(tp, 0),
			coalesce(nnodes, 0), started_at, simulated, headline, incomplete, gates, failed, missing, judged, calibrated, vacuous_tiers
		FROM release_runs WHERE run_id = ?`,
		func(r *ReleaseRunRow) []any {
			return []any{
				&r.RunID, &r.Model, &r.Driver, &r.GPUArch, &r.Precision, &r.Profile, &r.TP,
				&r.NNodes, &r.StartedAt, &r.Simulated, &r.Headline, &r.Incomplete, &r.Gates, &r.Failed, &r.Missing, &r.Judged, &r.Calibrated, &r.VacuousTiers,
			}
		}, runID)
	if err != nil || len(rows) == 0 {
		return ReleaseRunRow{RunID: runID}, err
	}
	return rows[0], nil
}

// A ReleaseCheckRow is one row of release_check.
type ReleaseCheckRow struct {
	Scope      string // requirement, release, unused
	Name       string // of the requirement; title of the release
	Wants      string // which run is asked for
	RunID      string // the run that is taken; "" when none fits
	Verdict    string // READY, CONDITIONAL, BLOCKED; "" for unused runs
	Signoff    string // state of the run's sign-off
	Gates      int    // that were judged
	Calibrated int    // of them, those that can fail
	Waived     int
	ExitCode   int
	reasons    string
}

// Reasons lists what stands against it, or should be known.
func (r ReleaseCheckRow) Reasons() []string { return lines(r.reasons) }

// ReleaseCheck holds the stored runs of these ids, or all for none, against a policy, the text of a
// policy file, at a moment: its requirements in order, then the release as a
// whole, then the runs that nothing asks for.
func (w *DB) ReleaseCheck(ctx context.Context, policy string, runIDs []string, at time.Time) ([]ReleaseCheckRow, error) {
	return readLate(ctx, w, "release_check", `
		SELECT scope, name, wants, run_id, coalesce(verdict, ''), signoff, gates, calibrated, waived, exit_code, reasons
		FROM release_check(?, (SELECT from_json(?::VARCHAR, '["VARCHAR"]')), ?) ORDER BY scope = 'unused', scope = 'release', ordinal`,
		func(r *ReleaseCheckRow) []any {
			return []any{&r.Scope, &r.Name, &r.Wants, &r.RunID, &r.Verdict, &r.Signoff, &r.Gates, &r.Calibrated, &r.Waived, &r.ExitCode, &r.reasons}
		}, policy, list(runIDs), at.UTC())
}

// lines splits what a view joined with line feeds.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}
