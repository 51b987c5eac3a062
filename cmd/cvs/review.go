package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/signoff"
	"cvs/render"
	"cvs/warehouse"
)

// review adds what people decided about the run to a deck's data. Where the run
// directory still stands, it is asked anew: a decision is stale from the moment
// its evidence changes, not from the next load.
func review(ctx context.Context, e *env, src any, data *render.Data, at time.Time) error {
	stored, ok := src.(render.Reviewed)
	if !ok {
		return nil
	}
	id := data.Run.RunID
	// A path that was given relative to another place does not lead there now.
	for _, dir := range []string{data.Run.Dir, filepath.Join(workspace(e, ""), "cvs_runs", artifact.SafeName(id))} {
		if dir == "" || !artifact.IsRunDir(dir) {
			continue
		}
		now, done, err := reviewNow(ctx, stored, id, dir, at)
		if err != nil {
			return err
		}
		defer done()
		return data.QueryReview(ctx, now, at)
	}
	if err := data.QueryReview(ctx, stored, at); err != nil {
		return err
	}
	data.Review.AsLoaded = true
	return nil
}

// A freshReview answers about decisions from the run directory and about the age
// of thresholds from the warehouse, which knows the history.
type freshReview struct {
	*warehouse.DB
	history render.Reviewed
}

// ThresholdOrigins is the history's answer.
func (f freshReview) ThresholdOrigins(ctx context.Context, runID string) ([]warehouse.ThresholdOriginRow, error) {
	return f.history.ThresholdOrigins(ctx, runID)
}

func reviewNow(ctx context.Context, stored render.Reviewed, runID, dir string, at time.Time) (render.Reviewed, func(), error) {
	nothing := func() {}
	r, err := readRun(dir)
	if err != nil || r.Meta.RunID != runID {
		return stored, nothing, nil // another run, or none that can be read: what was loaded stands
	}
	was, err := stored.SignoffStandings(ctx, runID, at)
	if err != nil {
		return nil, nothing, badStore(err)
	}
	missing := lostEntries(was, r.Decisions)
	if r.Decisions == nil && len(missing) == 0 {
		return stored, nothing, nil
	}
	if r.Decisions == nil {
		r.Decisions = &artifact.Decisions{Rules: artifact.DecisionRules{Approvals: 1}}
	}
	r.Decisions.Findings = append(r.Decisions.Findings, missing...)
	db, err := warehouse.Open(ctx, "", warehouse.Options{})
	if err != nil {
		return nil, nothing, badStore(err)
	}
	if _, err := db.Load(ctx, r); err != nil {
		db.Close()
		return nil, nothing, err
	}
	return freshReview{db, stored}, func() { db.Close() }, nil
}

// lostEntries are the stored decisions that the log no longer has.
func lostEntries(was []warehouse.StandingRow, d *artifact.Decisions) []artifact.DecisionFinding {
	have := map[int]string{}
	if d != nil {
		for _, e := range d.Entries {
			have[e.Seq] = e.LineSHA256
		}
	}
	var out []artifact.DecisionFinding
	for _, s := range was {
		if have[s.Seq] != s.SHA {
			out = append(out, artifact.DecisionFinding{Seq: s.Seq, Class: artifact.FindingLog, Code: "chain",
				Msg: fmt.Sprintf("the warehouse holds entry %d (%s), which the log no longer has", s.Seq, s.Identity)})
		}
	}
	return out
}

// decisionsAsOf are the decisions that a deck made at a moment could show: those
// taken by then, under the waivers they were taken under, with nothing changed
// since. Decisions carry whole seconds, so that one of the same second may or may
// not be in it; inclusive says which.
func decisionsAsOf(dir, runID string, d *artifact.Decisions, made time.Time, inclusive bool) (*artifact.Decisions, error) {
	if d == nil {
		return nil, nil
	}
	n := 0
	for _, e := range d.Entries {
		if e.SignedAt.Before(made) || inclusive && e.SignedAt.Equal(made) {
			n++
		}
	}
	return signoff.AsSigned(dir, runID, n)
}
