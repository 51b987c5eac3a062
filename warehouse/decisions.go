package warehouse

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"cvs/collect/artifact"
)

// decisionTables hold what people decided about a run. They are apart from
// [runTables]: decisions come after a run closed and do not change what it is.
func decisionTables() []string {
	return []string{"waiver", "signoff", "signoff_waiver", "signoff_item", "signoff_finding", "signoff_rule"}
}

// decide stores the decisions of a run if they changed. A log that lost an entry,
// or has another in its place, is a *ConflictError: that is what shows a log that
// was cut at its end.
func (l *Loading) decide(ctx context.Context, run *artifact.Run, r *LoadResult) error {
	old, was := l.have.rules[r.RunID]
	if run.Decisions == nil && !was {
		return nil
	}
	digest := ""
	if run.Decisions != nil {
		var err error
		if digest, err = decisionDigest(run.Decisions); err != nil {
			return err
		}
	}
	if was && old == digest {
		return nil
	}
	why, err := lostDecision(ctx, l.conn, run)
	if err != nil {
		return err
	}
	if why != "" {
		r.Outcome = Refused
		return &ConflictError{RunID: r.RunID, Why: why}
	}
	if was {
		for _, table := range decisionTables() {
			if _, err := l.conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE run_id = ?", r.RunID); err != nil {
				return err
			}
		}
	}
	if r.Outcome == Unchanged {
		r.Outcome = Replaced
	}
	l.added.rules[r.RunID] = digest
	if run.Decisions == nil {
		return nil
	}
	return l.rows.add(ctx, decisionTables(), decisionRows(r.RunID, run.Decisions, digest).rows)
}

func decisionDigest(d *artifact.Decisions) (string, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:]), nil
}

// lostDecision says which stored entry the log of the run no longer has.
func lostDecision(ctx context.Context, conn *sql.Conn, run *artifact.Run) (string, error) {
	type line struct {
		seq      int
		sha, who string
	}
	stored, err := query(ctx, conn, "SELECT seq, line_sha256, identity FROM signoff WHERE run_id = ? ORDER BY seq",
		func(l *line) []any { return []any{&l.seq, &l.sha, &l.who} }, run.Meta.RunID)
	if err != nil {
		return "", err
	}
	have := make(map[int]string)
	if run.Decisions != nil {
		for _, e := range run.Decisions.Entries {
			have[e.Seq] = e.LineSHA256
		}
	}
	for _, l := range stored {
		switch sha, ok := have[l.seq]; {
		case !ok:
			return fmt.Sprintf("its sign-off log is shorter than the stored one: entry %d by %s is gone", l.seq, l.who), nil
		case sha != l.sha:
			return fmt.Sprintf("its sign-off log is another than the stored one: entry %d by %s was edited or replaced", l.seq, l.who), nil
		}
	}
	return "", nil
}

// decisionRows are the rows of one run, in the column order of sql/schema.
func decisionRows(id string, d *artifact.Decisions, digest string) *batch {
	b := &batch{rows: make(map[string][]row)}
	for _, w := range d.Waivers {
		b.add("waiver", id, valid(w.ID), str(w.Cell), str(w.Task), valid(w.Metric), valid(w.Reason), valid(w.Owner), valid(w.Issue), w.LastDay,
			num(w.WorstMarginPct), str(w.Model), str(w.Driver), str(w.GPUArch), str(w.Precision), int32(w.Line))
	}
	items := func(seq int, kind string, texts []string) {
		for i, text := range texts {
			b.add("signoff_item", id, int32(seq), kind, int32(i+1), valid(text))
		}
	}
	for _, e := range d.Entries {
		b.add("signoff", id, int32(e.Seq), valid(e.LineSHA256), str(e.Prev), valid(e.Decision), valid(e.Role), valid(e.Identity), str(e.Key), e.SignedAt.UTC(),
			str(e.Tool), str(e.Raw), str(e.Thresholds), str(e.Waivers), str(e.Deck), str(e.Policy), str(e.Headline), int32(e.Failed), int32(e.Waived),
			int32(e.Vacuous), str(e.Note))
		for _, w := range e.Used {
			b.add("signoff_waiver", id, int32(e.Seq), valid(w.ID), w.LastDay, int32(w.Gates))
		}
		items(e.Seq, "condition", e.Conditions)
		items(e.Seq, "confirmed", e.Confirmed)
	}
	for i, f := range d.Findings {
		b.add("signoff_finding", id, int32(i+1), int32(f.Seq), f.Class, valid(f.Code), valid(f.Msg))
	}
	r := d.Rules
	items(0, "role", r.Roles)
	items(0, "checklist", r.Checklist)
	items(0, "calibrated", r.Calibrated)
	b.add("signoff_rule", id, digest, int32(max(r.Approvals, 1)), r.NotLauncher, r.Calibrated == nil, r.AllowRecord, r.AllowPartial, r.SignersChecked)
	return b
}
