package signoff

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cvs/collect/artifact"
)

// Against says what decisions are held against. The zero value takes everything
// from the run directory and knows nobody.
type Against struct {
	Policy  *Policy  // nil: that of the last decision
	Allowed *Signers // nil: signatures are checked, but nobody is known
	Waivers *Waivers // nil: those kept with the run
	// Stated are hashes of files that are not there whole, such as the cut logs of
	// a bundle; it may be nil.
	Stated Listing
}

// Read reads the decisions on the run in dir, checks chain and signatures, and
// compares what was signed with what the directory holds now. It decides
// nothing: the views do. A run that nobody decided on and that has no waivers
// and no policy has none, nil. The error is about files that cannot be read at
// all; one that can and makes no sense is a finding.
func Read(dir, runID string, a Against) (*artifact.Decisions, error) {
	l, err := ReadLog(dir, runID)
	if err != nil {
		return nil, err
	}
	d := &artifact.Decisions{}
	if err := readInForce(d, dir, a.Waivers); err != nil {
		return nil, err
	}
	if len(l.Records) == 0 && len(l.Findings) == 0 && len(d.Waivers) == 0 && len(d.Findings) == 0 && a.Policy == nil {
		return nil, nil
	}
	p := a.Policy
	if p == nil {
		if p, err = SignedPolicy(l); err != nil {
			d.Findings = append(d.Findings, artifact.DecisionFinding{Class: artifact.FindingInput, Code: "policy", Msg: err.Error()})
		}
	}
	d.Rules = rulesOf(p)
	d.Rules.SignersChecked = a.Allowed != nil
	for _, f := range l.Findings {
		d.Findings = append(d.Findings, artifact.DecisionFinding{Seq: f.Seq, Class: artifact.FindingLog, Code: f.Code, Msg: f.String()})
	}
	for _, f := range l.Signed(a.Allowed) {
		d.Findings = append(d.Findings, artifact.DecisionFinding{Seq: f.Seq, Class: artifact.FindingSigner, Code: f.Code, Msg: f.String()})
	}
	if len(l.Records) == 0 {
		return d, nil
	}
	now, err := Survey(dir, a.Stated)
	if err != nil {
		return nil, err
	}
	for _, r := range l.Records {
		d.Entries = append(d.Entries, decisionOf(r))
		for _, why := range stale(dir, r.Entry, now) {
			d.Findings = append(d.Findings, artifact.DecisionFinding{Seq: r.Entry.Seq, Class: artifact.FindingStale, Code: "evidence", Msg: why})
		}
	}
	return d, nil
}

// AsSigned are the first n decisions as they stood when the last of them was
// taken: under its waivers and policy, as far as they are kept, with nothing
// changed since and nobody known.
func AsSigned(dir, runID string, n int) (*artifact.Decisions, error) {
	l, err := ReadLog(dir, runID)
	if err != nil {
		return nil, err
	}
	if n > len(l.Records) {
		n = len(l.Records)
	}
	if n == 0 {
		return nil, nil
	}
	d := &artifact.Decisions{}
	last := &Log{Dir: dir, Records: l.Records[:n]}
	p, err := SignedPolicy(last)
	if err != nil {
		return nil, err
	}
	d.Rules = rulesOf(p)
	if data := kept(dir, "waivers", l.Records[n-1].Entry.Evidence.Waivers); data != nil {
		w, err := ParseWaivers(waiversFile, data)
		if err != nil {
			return nil, err
		}
		if err := readInForce(d, dir, w); err != nil {
			return nil, err
		}
	}
	for _, r := range last.Records {
		d.Entries = append(d.Entries, decisionOf(r))
	}
	return d, nil
}

// DeckNotes say, one sentence for each decision it is true of, that the deck in
// dir is not the one that was read. A deck is made of the evidence and may be
// made again; that is no change of it.
func DeckNotes(dir string, d *artifact.Decisions) ([]string, error) {
	if d == nil || len(d.Entries) == 0 {
		return nil, nil
	}
	deck, err := readFile(dir, deckFile, maxEvidence)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range d.Entries {
		switch {
		case e.Deck == "":
		case deck == nil:
			out = append(out, "the deck that "+e.Identity+" read is gone; its SHA-256 was "+short(e.Deck))
		case sum(deck) != e.Deck:
			out = append(out, "the deck was written again since "+e.Identity+" read it; that one had SHA-256 "+short(e.Deck))
		}
	}
	return out, nil
}

// readInForce adds the waivers: those given, else those kept with the run.
func readInForce(d *artifact.Decisions, dir string, given *Waivers) error {
	w := given
	if w == nil {
		name := filepath.Join(Folder, waiversFile)
		data, err := readFile(dir, name, maxEvidence)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if w, err = ParseWaivers(filepath.ToSlash(name), data); err != nil {
			d.Findings = append(d.Findings, artifact.DecisionFinding{Class: artifact.FindingInput, Code: "waivers", Msg: "no waiver holds: " + err.Error()})
			return nil
		}
	}
	for _, one := range w.List {
		d.Waivers = append(d.Waivers, artifact.Waiver{
			ID: one.ID, Cell: one.Cell, Task: one.Task, Metric: one.Metric, Reason: one.Reason, Owner: one.Owner, Issue: one.Issue,
			LastDay: one.Expires.AddDate(0, 0, -1), WorstMarginPct: one.When.WorstMarginPct,
			Model: one.When.Model, Driver: one.When.Driver, GPUArch: one.When.GPUArch, Precision: one.When.Precision, Line: one.Line,
		})
	}
	return nil
}

func rulesOf(p *Policy) artifact.DecisionRules {
	r := artifact.DecisionRules{Approvals: 1}
	if p == nil {
		return r
	}
	s := p.Signoff
	return artifact.DecisionRules{
		Approvals: max(s.Approvals, 1), Roles: s.Roles, Checklist: s.Checklist, Calibrated: s.Calibrated,
		NotLauncher: s.NotLauncher, AllowRecord: s.AllowRecord, AllowPartial: s.AllowPartial,
	}
}

func decisionOf(r Record) artifact.Decision {
	e := r.Entry
	d := artifact.Decision{
		Seq: e.Seq, LineSHA256: r.Hash, Prev: e.Prev, Decision: string(e.Decision), Role: e.Role, Identity: e.Identity, Key: e.Key,
		SignedAt: e.Time.UTC(), Tool: e.Tool, Raw: e.Evidence.Raw, Thresholds: e.Evidence.Thresholds, Waivers: e.Evidence.Waivers,
		Deck: e.Evidence.Deck, Policy: e.Evidence.Policy, Headline: e.Seen.Headline, Failed: e.Seen.Failed, Waived: e.Seen.Waived,
		Vacuous: e.Seen.Vacuous, Conditions: slices.Clone(e.Conditions), Confirmed: slices.Clone(e.Checklist), Note: e.Note,
	}
	for _, w := range e.Waivers {
		// A day that is none was over long ago.
		day, err := time.Parse(time.DateOnly, w.Expires)
		if err != nil {
			day = time.Unix(0, 0).UTC()
		}
		d.Used = append(d.Used, artifact.UsedWaiver{ID: w.ID, LastDay: day, Gates: w.Gates})
	}
	return d
}

// The states of a run's sign-off, as view signoff_state says them.
const (
	StateNone        = "none recorded"
	StateTampered    = "tampered"
	StateRejected    = "rejected"
	StateStale       = "stale"
	StatePending     = "pending"
	StateConditional = "conditional"
	StateApproved    = "approved"
)

// SamePerson compares an identity such as alice@example.com with the user name
// of who started a run.
func SamePerson(identity, user string) bool {
	if user == "" {
		return false
	}
	name, _, _ := strings.Cut(identity, "@")
	return strings.EqualFold(name, user) || strings.EqualFold(identity, user)
}
