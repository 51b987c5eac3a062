package collect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// An earlier attempt at the same run: what it measured, and what its names must
// not be used for again.
type earlier struct {
	attempts int // how many there were
	sessions int // server starts, so that numbers stay unique in the run
	results  []artifact.Result
	checks   []artifact.Result // evidence below checks/
	accuracy []artifact.Result // what lm-eval wrote
}

// earlier reads what is to be continued. A run directory of another plan is
// refused: its cells would be a mixture of two sweeps.
func (r *Runner) earlier() (earlier, error) {
	var e earlier
	prev := r.Previous
	if prev == nil {
		return e, nil
	}
	if r.Store != nil && prev.Meta.RunID != r.Store.Meta().RunID {
		return e, fmt.Errorf("%w: the run to resume is %s, the run directory is of %s", ErrInput, prev.Meta.RunID, r.Store.Meta().RunID)
	}
	now := NewMeta(r.Plan)
	for _, f := range []struct{ what, was, is string }{
		{"suite", prev.Meta.Suite, now.Suite}, {"profile", prev.Meta.Profile, now.Profile},
		{"driver", prev.Meta.Identity.Driver, now.Identity.Driver}, {"model", prev.Meta.Identity.Model, now.Identity.Model},
	} {
		if f.was != "" && f.was != f.is {
			return e, fmt.Errorf("%w: run %s was of %s %q, the plan is of %q: resume it with the config it was started with", ErrInput, prev.Meta.RunID, f.what, f.was, f.is)
		}
	}
	if len(prev.Expected.Cells) > 0 {
		was, is := cellIDs(prev.Expected), cellIDs(Expected(r.Plan, 1))
		if !slices.Equal(was, is) {
			return e, fmt.Errorf("%w: run %s has the cells %s, the plan has %s: resume it with the config and the selection (-k) it was started with",
				ErrInput, prev.Meta.RunID, strings.Join(was, ", "), strings.Join(is, ", "))
		}
	}
	e.attempts, e.results, e.checks, e.accuracy = 1, prev.Results, prev.Checks, prev.Accuracy
	for _, s := range prev.Stages {
		switch s.Stage {
		case "resume":
			e.attempts++
		case "server_start":
			e.sessions++
		}
	}
	for _, res := range slices.Concat(prev.Results, prev.Superseded) {
		if res.Record != nil {
			e.sessions = max(e.sessions, res.Record.ServerSession)
		}
	}
	return e, nil
}

func cellIDs(e artifact.Expected) []string {
	var out []string
	for _, c := range e.Cells {
		out = append(out, c.ID)
	}
	return out
}

// reusable is the earlier measurement of a cell that can stand: done, asked for
// in exactly the same way, from the same image, and its artefact whole. Reading
// the run directory compared every artefact with its SHA-256.
func (e earlier) reusable(x *run, c plan.Cell, repeat int) (*artifact.Record, *artifact.Result) {
	if len(e.results) == 0 {
		return nil, nil
	}
	want, err := x.digest(c)
	if err != nil {
		return nil, nil
	}
	for i, res := range e.results {
		rec := res.Record
		if rec == nil || rec.CellID != c.ID || rec.CellKey != c.Key || rec.Repeat != repeat {
			continue
		}
		if rec.Status == artifact.Done && rec.ConfigDigest == want {
			return rec, &e.results[i]
		}
		x.note("cell", "%s was measured before, but %s: it is measured again", c.ID, unlike(rec, want))
	}
	return nil, nil
}

func unlike(rec *artifact.Record, want string) string {
	if rec.Status != artifact.Done {
		return "ended as " + string(rec.Status)
	}
	return "with another configuration or image (digest " + clip(rec.ConfigDigest, 12) + ", now " + clip(want, 12) + ")"
}

// reuse records that a cell is not measured again.
func (x *run) reuse(c plan.Cell, rep, n, total int, rec *artifact.Record, res *artifact.Result) error {
	when := "earlier"
	if rec.StartedAt != nil {
		when = "at " + rec.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	reason := fmt.Sprintf("re-used: measured %s, same configuration digest, artefact whole (sha256 %s)", when, clip(res.SHA256, 12))
	if err := x.pass(artifact.Stage{Stage: "cell", Cell: c.ID}, artifact.Done, reason); err != nil {
		return err
	}
	x.r.Split.Reused++
	x.learnAcceptance(res.Data)
	x.event(Event{Kind: CellEnded, Cell: c.ID, Repeat: rep, Index: n, Total: total, Status: artifact.Done, Reused: true, Message: reason})
	return nil
}

// announceResume says in the record that a run goes on.
func (x *run) announceResume(context.Context) error {
	prev := x.r.Previous
	if prev == nil {
		return nil
	}
	reason := fmt.Sprintf("attempt %d: the run was %s; %d results are there", x.earlier.attempts+1, prev.Meta.Status, len(x.earlier.results))
	return x.pass(artifact.Stage{Stage: "resume"}, artifact.Done, reason)
}

// clearLeftovers ends what earlier attempts at this run left in a container that
// outlives runs, by the ids they recorded. Jobs of other runs end by their
// leases.
func (m *member) clearLeftovers(ctx context.Context) error {
	if m.run.earlier.attempts == 0 {
		return nil
	}
	res, err := m.must(ctx, m.cmds.listWork())
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(res.Stdout)) {
		job := strings.TrimRight(line, "\n")
		if !strings.HasPrefix(job, m.cmds.workBase()) {
			continue
		}
		m.run.note("container", "ending %s on %s, left by an earlier attempt", job, m.host())
		if err := m.stopJob(ctx, "container", job); err != nil {
			return err
		}
	}
	_, err = m.must(ctx, m.cmds.removeAllWork())
	return err
}
