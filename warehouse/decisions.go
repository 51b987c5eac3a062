package warehouse

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
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

// decide stores the decisions of the runs that are not refused and reports for
// each whether anything changed. A log that lost an entry, or has another in its
// place, is a conflict: that is what shows a log that was cut at its end.
func decide(ctx context.Context, conn *sql.Conn, runs []*artifact.Run, results []LoadResult) (conflicts []error, changed bool, err error) {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.Meta.RunID
	}
	stored, err := query(ctx, conn, "SELECT run_id, digest FROM signoff_rule WHERE run_id IN "+listed,
		func(r *[2]string) []any { return []any{&r[0], &r[1]} }, list(ids))
	if err != nil {
		return nil, false, err
	}
	digests := make(map[string]string, len(stored))
	for _, s := range stored {
		digests[s[0]] = s[1]
	}
	var batches []*batch
	for i, run := range runs {
		id := run.Meta.RunID
		old, was := digests[id]
		if results[i].Outcome == Refused || run.Decisions == nil && !was {
			continue
		}
		digest := ""
		if run.Decisions != nil {
			if digest, err = decisionDigest(run.Decisions); err != nil {
				return nil, false, err
			}
		}
		if was && old == digest {
			continue
		}
		why, err := lostDecision(ctx, conn, run)
		if err != nil {
			return nil, false, err
		}
		if why != "" {
			results[i].Outcome = Refused
			conflicts = append(conflicts, &ConflictError{RunID: id, Why: why})
			continue
		}
		if was {
			for _, table := range decisionTables() {
				if _, err := conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE run_id = ?", id); err != nil {
					return nil, false, err
				}
			}
		}
		if results[i].Outcome == Unchanged {
			results[i].Outcome = Replaced
		}
		changed = true
		if run.Decisions != nil {
			batches = append(batches, decisionRows(id, run.Decisions, digest))
		}
	}
	return conflicts, changed, appendTo(ctx, conn, nil, decisionTables(), batches)
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
	b := &batch{rows: make(map[string][][]driver.Value)}
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
