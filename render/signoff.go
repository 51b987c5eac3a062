package render

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cvs/warehouse"
)

// A Reviewed source knows what people decided about a run and what its
// thresholds are worth. [*warehouse.DB] is one.
type Reviewed interface {
	SignoffState(ctx context.Context, runID string, at time.Time) (warehouse.SignoffStateRow, error)
	SignoffStandings(ctx context.Context, runID string, at time.Time) ([]warehouse.StandingRow, error)
	GateWaivers(ctx context.Context, runID string, at time.Time) ([]warehouse.GateWaiverRow, error)
	WaiverUse(ctx context.Context, runID string, at time.Time) ([]warehouse.WaiverUseRow, error)
	Calibration(ctx context.Context, runID string) ([]warehouse.CalibrationRow, error)
	ThresholdOrigins(ctx context.Context, runID string) ([]warehouse.ThresholdOriginRow, error)
}

// A Review is what a deck shows of decisions, waivers and thresholds.
type Review struct {
	State       warehouse.SignoffStateRow
	Standings   []warehouse.StandingRow
	Waived      []warehouse.GateWaiverRow // what waivers do to gates
	Use         []warehouse.WaiverUseRow
	Calibration []warehouse.CalibrationRow
	Origins     []warehouse.ThresholdOriginRow
	// AsLoaded: the run directory was not at hand, so that what changed in it since
	// it was loaded is not known.
	AsLoaded bool
}

// QueryReview asks how the sign-off of the run stands on the day of at. A
// question that fails leaves a visible note. Failures that are waived are marked;
// their state stays.
func (d *Data) QueryReview(ctx context.Context, src Reviewed, at time.Time) error {
	r, err := ReviewOf(ctx, src, d.Run.RunID, at)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("run %s: %w", d.Run.RunID, err)
		}
		d.Problems["signoff"] = err.Error()
	}
	d.Review = r
	d.markWaived()
	return nil
}

// ReviewOf asks what people decided about a run. What was answered before an
// error comes back with it.
func ReviewOf(ctx context.Context, src Reviewed, id string, at time.Time) (*Review, error) {
	r := &Review{}
	state, err := src.SignoffState(ctx, id, at)
	if err == nil {
		r.State = state
		if state.Entries > 0 {
			r.Standings, err = src.SignoffStandings(ctx, id, at)
		}
	}
	if err == nil {
		r.Use, err = src.WaiverUse(ctx, id, at)
	}
	if err == nil && len(r.Use) > 0 {
		r.Waived, err = src.GateWaivers(ctx, id, at)
	}
	if err == nil {
		r.Calibration, err = src.Calibration(ctx, id)
	}
	if err == nil {
		r.Origins, err = src.ThresholdOrigins(ctx, id)
	}
	return r, err
}

// markWaived tells the gates which waiver covers them.
func (d *Data) markWaived() {
	type at struct{ cell, host, metric string }
	by := map[at]warehouse.GateWaiverRow{}
	for _, w := range d.Review.Waived {
		if w.Standing == "waived" {
			by[at{w.CellKey + w.TaskID, w.Host, w.Metric}] = w
		}
	}
	if len(by) == 0 {
		return
	}
	note := func(w warehouse.GateWaiverRow) string {
		return fmt.Sprintf(" (waived by %s until %s; it remains a failure)", w.WaiverID, w.LastDay.Format(time.DateOnly))
	}
	for i := range d.Gates {
		g := &d.Gates[i]
		if w, ok := by[at{g.CellKey, g.Host, g.Metric}]; ok && bad(g.State) {
			g.Waiver = w.WaiverID
			g.Reason += note(w)
		}
	}
	for i := range d.Checks {
		g := &d.Checks[i]
		target := g.Target
		if target == "" {
			target = g.Scope
		}
		if w, ok := by[at{target, "", g.Metric}]; ok && bad(g.State) {
			g.Waiver = w.WaiverID
			g.Reason += note(w)
		}
	}
}

// waivedWord follows the word of a state that is waived.
const waivedWord = " (waived)"

// shown is the state by which a gate is counted and shown: waived failures are
// failures apart.
func shown(g *warehouse.GateRow) warehouse.State {
	if g.Waiver != "" && bad(g.State) {
		return g.State + waivedWord
	}
	return g.State
}

// base is a state without what was decided about it.
func base(s warehouse.State) warehouse.State {
	return warehouse.State(strings.TrimSuffix(string(s), waivedWord))
}

// signoffFacts are the lines of the first screen.
func (b *builder) signoffFacts() []Field {
	f := Field{Label: "Sign-off", Value: "none recorded"}
	r := b.d.Review
	if r == nil || r.State.State == "" {
		if b.d.Problems["signoff"] != "" {
			f.Value, f.Href = "could not be read", "signoff"
		}
		return []Field{f}
	}
	f.Value = text(r.State.State)
	switch r.State.State {
	case "stale", "tampered":
		f.Value = strings.ToUpper(f.Value)
	}
	if r.State.Signers != "" {
		f.Value += " by " + text(r.State.Signers)
	}
	reasons := r.State.Reasons()
	if len(reasons) > 0 {
		f.Note = clipped(reasons[0], 200)
		if len(reasons) > 1 {
			f.Note += fmt.Sprintf(" (and %d more)", len(reasons)-1)
		}
		f.Href = "signoff"
	}
	out := []Field{f}
	if len(r.Use) > 0 {
		out = append(out, Field{Label: "Waived", Value: fmt.Sprintf("%d of %s", r.State.Waived, plural(r.State.Failed, "failed gate")), Note: "Waived failures remain failures.", Href: "signoff"})
	}
	if n := b.vacuousTiers(); n > 0 {
		out = append(out, Field{Label: "Cannot fail", Value: plural(n, "tier") + " of cells wholly vacuous", Note: "A run with such a tier is not signed off.", Href: "signoff"})
	}
	return out
}

func (b *builder) vacuousTiers() int {
	n := 0
	for _, c := range b.d.Review.Calibration {
		if c.WhollyVacuous {
			n++
		}
	}
	return n
}

// clipped cuts words that come from elsewhere.
func clipped(s string, most int) string {
	if runes := []rune(text(s)); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return text(s)
}

// signoff lists the decisions, waivers, what cannot fail, and where thresholds
// come from. Without any of them it is left out.
func (b *builder) signoff() *Section {
	r := b.d.Review
	if r == nil {
		return nil
	}
	s := &Section{ID: "signoff", Title: "Sign-off", Queries: b.sql("SELECT * FROM signoff_state(current_date) WHERE run_id = %s", "SELECT * FROM threshold_age WHERE run_id = %s")}
	for _, why := range r.State.Reasons() {
		s.Notes = append(s.Notes, text(why))
	}
	if r.AsLoaded && r.State.Entries > 0 {
		s.Notes = append(s.Notes, "The run directory was not at hand: this is how the sign-off stood when the run was loaded. cvs verify on the run directory says what changed since.")
	}
	s.Tables = r.tables(s.ID)
	if len(s.Tables) == 0 && len(s.Notes) == 0 && b.d.Problems["signoff"] == "" {
		return nil
	}
	if r.State.State != "" {
		s.Mark = signoffMark(r.State.State)
	}
	return s
}

// tables are everything that was decided; section makes their ids and names its
// own.
func (r *Review) tables(section string) []*Table {
	var out []*Table
	for _, x := range []struct {
		id string
		t  *Table
	}{{"decisions", decisionTable(r.Standings)}, {"waivers", waiverTable(r)}, {"vacuous", vacuousTable(r.Calibration)}, {"origins", originTable(r.Origins)}} {
		if x.t != nil {
			x.t.ID, x.t.Tools = section+"-"+x.id, true
			out = append(out, x.t)
		}
	}
	return out
}

func signoffMark(state string) *Mark {
	class := map[string]string{"approved": "pass", "tampered": "fail", "rejected": "fail", "stale": "fail", "pending": "warn", "conditional": "warn"}[state]
	if class == "" {
		class = "record"
	}
	word := text(state)
	if state == "stale" || state == "tampered" {
		word = strings.ToUpper(word)
	}
	return &Mark{Class: class, Word: word}
}

func decisionTable(rows []warehouse.StandingRow) *Table {
	if len(rows) == 0 {
		return nil
	}
	t := &Table{Title: "Decisions", Caption: "Decisions", Head: []Column{{Text: "Entry", Class: "n"}, {Text: "Decision"}, {Text: "Who"}, {Text: "Role"}, {Text: "When"}, {Text: "Holds"}, {Text: "Why not"}}}
	for _, x := range rows {
		m, why := Mark{Class: "pass", Word: "counts"}, append(x.Problems(), x.Stale()...)
		switch {
		case x.Replaced:
			m = Mark{Class: "na", Word: "replaced"}
		case len(x.Problems()) > 0:
			m = Mark{Class: "fail", Word: "does not count"}
		case len(x.Stale()) > 0:
			m = Mark{Class: "fail", Word: "STALE"}
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Text: strconv.Itoa(x.Seq), Class: "n"}, {Text: text(x.Decision)}, {Text: text(x.Identity), Title: text(x.Key)}, {Text: text(x.Role)},
			{Text: instant(x.SignedAt)}, {Mark: &m}, {Text: text(strings.Join(why, "; "))}}})
	}
	return t
}

// waiverTable is one line a waiver and gate; a waiver that matches none has a
// line too.
func waiverTable(r *Review) *Table {
	if len(r.Use) == 0 {
		return nil
	}
	t := &Table{Title: "Waivers", Caption: "Waivers", Head: []Column{{Text: "State"}, {Text: "Gate"}, {Text: "Waiver"}, {Text: "Last day"}, {Text: "Owner"}, {Text: "Issue"}, {Text: "Why"}}}
	for _, u := range r.Use {
		matched := false
		for _, w := range r.Waived {
			if w.WaiverID != u.WaiverID || w.Standing == "passing" && u.Remark != "remove" {
				continue
			}
			matched = true
			m, why := mark(w.State), w.Reason
			switch w.Standing {
			case "waived":
				m.Word += waivedWord
			case "expired":
				m.Word += " (waiver expired)"
			case "outside":
				m.Word += " (not covered)"
				why = w.Why
			case "passing":
				why = "it passes: remove the waiver"
			}
			t.Rows = append(t.Rows, waiverRow(m, w.Gate, u, why))
		}
		if !matched {
			t.Rows = append(t.Rows, waiverRow(Mark{Class: "warn", Word: "unmatched"}, u.Target, u, "matches no gate"))
		}
	}
	return t
}

func waiverRow(m Mark, gate string, u warehouse.WaiverUseRow, why string) Row {
	return Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: text(gate)}, {Text: text(u.WaiverID), Title: text(u.Reason)}, {Text: u.LastDay.Format(time.DateOnly)}, {Text: text(u.Owner)}, {Text: text(u.Issue)}, {Text: text(why)}}}
}

// vacuousTable lists the tiers none of whose gates can fail; the first of many.
func vacuousTable(rows []warehouse.CalibrationRow) *Table {
	const most = 50
	t := &Table{Title: "Tiers that cannot fail", Caption: "Tiers none of whose gates can fail", Head: []Column{{Text: "Cell"}, {Text: "Tier"}, {Text: "Calibrated", Class: "n"}, {Text: "Judged", Class: "n"}}}
	n := 0
	for _, c := range rows {
		if !c.WhollyVacuous {
			continue
		}
		if n++; n > most {
			continue
		}
		name := c.CellID
		if name == "" {
			name = c.CellKey
		}
		t.Rows = append(t.Rows, Row{Mark: Mark{Class: "warn", Word: "vacuous"}, Cells: []Cell{{Text: text(name)}, {Text: tierLabel(c.Tier)}, {Text: strconv.Itoa(c.Calibrated), Class: "n"}, {Text: strconv.Itoa(c.Judged), Class: "n"}}})
	}
	if n == 0 {
		return nil
	}
	if n > most {
		t.Caption += fmt.Sprintf(" (%d of %d)", most, n)
	}
	return t
}

func originTable(rows []warehouse.ThresholdOriginRow) *Table {
	if len(rows) == 0 {
		return nil
	}
	t := &Table{Title: "Thresholds: origin and age", Caption: "Where thresholds come from and since when they are as they are",
		Head: []Column{{Text: "File"}, {Text: "Lines"}, {Text: "SHA-256"}, {Text: "Specs", Class: "n"}, {Text: "Cannot fail", Class: "n"}, {Text: "In use since"}, {Text: "Age", Unit: "days", Class: "n"}, {Text: "This file since"}}}
	for _, o := range rows {
		since := func(run string, at *time.Time) Cell {
			when := "no time stated"
			if at != nil {
				when = at.UTC().Format(time.DateOnly)
			}
			return Cell{Text: when, Small: text(run)}
		}
		first, file := since(o.FirstRun, o.FirstAt), since(o.FileFirstRun, o.FileFirstAt)
		if o.New {
			first.Small = "this run: new, or the history before it is not loaded"
		}
		if o.FileFirstRun == o.FirstRun {
			file.Small = ""
		}
		age := "—"
		if o.AgeDays != nil {
			age = grouped(*o.AgeDays, 1)
		}
		sha := Cell{Text: "—"}
		if len(o.SHA256) >= 12 {
			sha = Cell{Text: o.SHA256[:12] + "…", Title: text(o.SHA256), Class: "mono"}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: orDash(text(o.File))}, {Text: fmt.Sprintf("%d–%d", o.FirstLine, o.LastLine)}, sha, {Text: strconv.Itoa(o.Specs), Class: "n"},
			{Text: strconv.Itoa(o.Vacuous), Class: "n"}, first, {Text: age, Class: "n"}, file}})
	}
	return t
}
