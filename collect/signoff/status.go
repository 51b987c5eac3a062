package signoff

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The states of a run's sign-off.
const (
	StateNone        = "none recorded"
	StateTampered    = "tampered"
	StateRejected    = "rejected"
	StateStale       = "stale"
	StatePending     = "pending"
	StateConditional = "conditional"
	StateApproved    = "approved"
)

// A Standing is one decision and whether it still holds.
type Standing struct {
	Entry    Entry    `json:"entry"`
	Hash     string   `json:"line_sha256"`
	Stale    []string `json:"stale,omitempty"`    // what changed since
	Problems []string `json:"problems,omitempty"` // why the signature is not accepted
	Notes    []string `json:"notes,omitempty"`
	Replaced bool     `json:"replaced"` // the same person decided again later
	Counts   bool     `json:"counts"`
}

// A Status is the sign-off of one run as it stands now.
type Status struct {
	RunID     string     `json:"run_id"`
	State     string     `json:"state"`
	Reasons   []string   `json:"reasons,omitempty"`
	Head      string     `json:"head,omitempty"` // SHA-256 of the last line
	Standings []Standing `json:"decisions"`
	Findings  []Finding  `json:"findings,omitempty"`
}

// Assess says how the sign-off of a run stands: l is its log, now what the run
// directory holds, c the run as the views judge it now with the waivers in
// force. Without allowed signers the signatures are checked but nobody is known,
// which a reason says. Policy may be nil.
func Assess(l *Log, now *State, c Case, p *Policy, allowed *Signers, at time.Time) Status {
	s := Status{RunID: c.Facts.RunID, State: StateNone, Head: l.Head(), Standings: []Standing{}}
	signed := l.Signed(allowed)
	s.Findings = append(slices.Clone(l.Findings), signed...)
	rules := Rules{}
	if p != nil {
		rules = p.Signoff
	}
	last := map[string]int{} // person → their last decision
	for i, r := range l.Records {
		last[person(r)] = i
	}
	for i, r := range l.Records {
		st := Standing{Entry: r.Entry, Hash: r.Hash, Replaced: last[person(r)] != i}
		st.Stale = stale(l.Dir, r.Entry, now)
		for _, f := range signed {
			if f.Line == r.Line {
				st.Problems = append(st.Problems, f.Msg)
			}
		}
		st.Notes = standingNotes(r.Entry, now)
		if r.Entry.Decision != Reject {
			st.Stale = append(st.Stale, expiredSince(r.Entry, at)...)
			st.Problems = append(st.Problems, ruleProblems(rules, r.Entry, c)...)
		}
		st.Counts = !st.Replaced && len(st.Stale) == 0 && len(st.Problems) == 0
		s.Standings = append(s.Standings, st)
	}
	s.State, s.Reasons = decide(s, rules, c)
	if allowed == nil && len(l.Records) > 0 {
		s.Reasons = append(s.Reasons, "the signers were not checked: no allowed-signers file was given")
	}
	return s
}

// person tells signers apart: two identities with one key are one person.
func person(r Record) string {
	if r.Entry.Key != "" {
		return r.Entry.Key
	}
	return r.Entry.Identity
}

func standingNotes(e Entry, now *State) []string {
	var out []string
	switch {
	case now.Deck == "" && e.Evidence.Deck != "":
		out = append(out, "the deck that was read is gone; its SHA-256 was "+short(e.Evidence.Deck))
	case now.Deck != e.Evidence.Deck && e.Evidence.Deck != "":
		out = append(out, "the deck was written again since; the one that was read had SHA-256 "+short(e.Evidence.Deck))
	}
	return out
}

func expiredSince(e Entry, at time.Time) []string {
	var out []string
	for _, w := range e.Waivers {
		day, err := time.Parse(time.DateOnly, w.Expires)
		if err != nil || !at.Before(day.AddDate(0, 0, 1)) {
			out = append(out, fmt.Sprintf("waiver %s expired on %s; %d failed gate(s) stand on it", w.ID, w.Expires, w.Gates))
		}
	}
	return out
}

func ruleProblems(rules Rules, e Entry, c Case) []string {
	var out []string
	for _, item := range rules.MissingItems(e.Checklist) {
		out = append(out, fmt.Sprintf("checklist item %q was not confirmed", item))
	}
	if rules.NotLauncher && SamePerson(e.Identity, c.Facts.LauncherUser) {
		out = append(out, fmt.Sprintf("%s started the run; the policy wants somebody else", e.Identity))
	}
	return out
}

// SamePerson compares an identity such as alice@example.com with the user name
// of who started a run.
func SamePerson(identity, user string) bool {
	if user == "" {
		return false
	}
	name, _, _ := strings.Cut(identity, "@")
	return strings.EqualFold(name, user) || strings.EqualFold(identity, user)
}

func decide(s Status, rules Rules, c Case) (string, []string) {
	if len(s.Standings) == 0 && len(s.Findings) == 0 {
		return StateNone, nil
	}
	var reasons []string
	for _, f := range s.Findings {
		reasons = append(reasons, f.String())
	}
	tampered := slices.ContainsFunc(s.Findings, func(f Finding) bool {
		return !slices.Contains([]string{"unknown_signer", "wrong_key", "key_time"}, f.Code)
	})
	if tampered {
		return StateTampered, reasons
	}
	var approvals, conditional, staleOnes []Standing
	for _, st := range s.Standings {
		switch {
		case st.Replaced:
		case len(st.Problems) > 0:
			for _, p := range st.Problems {
				if !slices.Contains(reasons, p) && !containsMsg(s.Findings, p) {
					reasons = append(reasons, fmt.Sprintf("the decision of %s does not count: %s", st.Entry.Identity, p))
				}
			}
		case st.Entry.Decision == Reject:
			// stands even when the data changed: only its author can lift it
			return StateRejected, append(reasons, fmt.Sprintf("%s (%s) rejects: %s", st.Entry.Identity, st.Entry.Role, firstLine(st.Entry.Note)))
		case len(st.Stale) > 0:
			staleOnes = append(staleOnes, st)
		case st.Entry.Decision == Conditional:
			conditional = append(conditional, st)
		default:
			approvals = append(approvals, st)
		}
	}
	for _, st := range staleOnes {
		for _, why := range st.Stale {
			reasons = append(reasons, fmt.Sprintf("entry %d (%s): %s", st.Entry.Seq, st.Entry.Identity, why))
		}
	}
	missing := unmet(rules, append(slices.Clone(approvals), conditional...))
	switch {
	case len(staleOnes) > 0 && len(missing) > 0:
		return StateStale, reasons
	case len(missing) > 0:
		return StatePending, append(reasons, missing...)
	}
	// What stood against the run when it was signed could not be approved; what
	// stands against it now, without a change of the evidence, is the clock or a
	// stricter policy.
	if block := rules.Block(c); len(block) > 0 && len(unmet(rules, approvals)) == 0 {
		return StatePending, append(reasons, block...)
	}
	if more := unmet(rules, approvals); len(more) > 0 {
		for _, st := range conditional {
			for _, cond := range st.Entry.Conditions {
				reasons = append(reasons, fmt.Sprintf("condition of %s: %s", st.Entry.Identity, cond))
			}
		}
		return StateConditional, reasons
	}
	if len(c.Coverage.Waived) > 0 {
		reasons = append(reasons, fmt.Sprintf("%d failed gate(s) are waived; they remain failures", len(c.Coverage.Waived)))
	}
	return StateApproved, reasons
}

func containsMsg(list []Finding, msg string) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Msg == msg })
}

// unmet says what the rules still want beside these approvals.
func unmet(rules Rules, have []Standing) []string {
	var out []string
	if want := max(rules.Approvals, 1); len(have) < want {
		out = append(out, fmt.Sprintf("%d of %d approvals that count", len(have), want))
	}
	for _, role := range rules.Roles {
		if !slices.ContainsFunc(have, func(st Standing) bool { return strings.EqualFold(st.Entry.Role, role) }) {
			out = append(out, fmt.Sprintf("no approval in the role %q", role))
		}
	}
	return out
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if s == "" {
		return "(no note)"
	}
	return s
}
