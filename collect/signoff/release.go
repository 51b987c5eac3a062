package signoff

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The verdicts on a release candidate.
const (
	ReleaseReady       = "READY"
	ReleaseConditional = "CONDITIONAL"
	ReleaseBlocked     = "BLOCKED"
)

// A Candidate is one run offered for a release.
type Candidate struct {
	Case
	State   string   // of its sign-off
	Reasons []string // of that state
}

// A Need is one requirement and the run that is taken for it.
type Need struct {
	Name    string   `json:"name"`
	RunID   string   `json:"run_id,omitempty"` // "" when none fits
	Verdict string   `json:"verdict"`          // READY, CONDITIONAL, BLOCKED
	Reasons []string `json:"reasons,omitempty"`
	Signoff string   `json:"signoff,omitempty"`
	Gates   int      `json:"gates"` // that passed or failed
	Vacuous int      `json:"vacuous"`
	Waived  int      `json:"waived"`
}

// A Verdict is that on the release: the worst of its needs.
type Verdict struct {
	Title   string   `json:"title,omitempty"`
	Verdict string   `json:"verdict"`
	Needs   []Need   `json:"needs"`
	Unused  []string `json:"unused,omitempty"` // runs no requirement asked for
}

func (r Requirement) fits(f Facts) bool {
	for _, x := range [][2]string{{r.Model, f.Model}, {r.Driver, f.Driver}, {r.GPUArch, f.GPUArch}, {r.Precision, f.Precision}, {r.Profile, f.Profile}} {
		if x[0] != "" && !Glob(x[0], x[1]) {
			return false
		}
	}
	return (r.NNodes == 0 || r.NNodes == f.NNodes) && (r.TP == 0 || r.TP == f.TP)
}

// Wants says in words which run is asked for.
func (r Requirement) Wants() string {
	var out []string
	for _, x := range [][2]string{{"model", r.Model}, {"driver", r.Driver}, {"gpu_arch", r.GPUArch}, {"precision", r.Precision}, {"profile", r.Profile}} {
		if x[1] != "" {
			out = append(out, x[0]+" "+x[1])
		}
	}
	if r.NNodes > 0 {
		out = append(out, fmt.Sprintf("nnodes %d", r.NNodes))
	}
	if r.TP > 0 {
		out = append(out, fmt.Sprintf("tp %d", r.TP))
	}
	return strings.Join(out, ", ")
}

// Check holds the runs against the policy at a time. For each requirement the
// newest fitting run counts, whatever an older one said: a bad result is not
// replaced by a good one that came before it.
func (p *Policy) Check(runs []Candidate, at time.Time) Verdict {
	v := Verdict{Title: p.Title, Verdict: ReleaseReady, Needs: []Need{}}
	used := map[string]bool{}
	for _, r := range p.Release.Require {
		n := Need{Name: r.Name, Verdict: ReleaseReady}
		var best *Candidate
		for i := range runs {
			c := &runs[i]
			if !r.fits(c.Facts) {
				continue
			}
			used[c.Facts.RunID] = true
			if best == nil || c.Facts.Started.After(best.Facts.Started) {
				best = c
			}
		}
		if best == nil {
			n.Verdict, n.Reasons = ReleaseBlocked, []string{"no run with " + r.Wants()}
		} else {
			p.need(&n, r, best, at)
		}
		v.Needs = append(v.Needs, n)
		v.Verdict = worse(v.Verdict, n.Verdict)
	}
	for _, c := range runs {
		if !used[c.Facts.RunID] {
			v.Unused = append(v.Unused, c.Facts.RunID)
		}
	}
	return v
}

func worse(a, b string) string {
	order := []string{ReleaseReady, ReleaseConditional, ReleaseBlocked}
	if slices.Index(order, a) >= slices.Index(order, b) {
		return a
	}
	return b
}

func (p *Policy) need(n *Need, r Requirement, c *Candidate, at time.Time) {
	n.RunID, n.Signoff, n.Waived, n.Gates, n.Vacuous = c.Facts.RunID, c.State, c.Seen.Waived, c.Judged, c.Judged-c.CanFail
	block := func(format string, args ...any) {
		n.Verdict = ReleaseBlocked
		n.Reasons = append(n.Reasons, fmt.Sprintf(format, args...))
	}
	for _, why := range c.Block(r.Calibrated) {
		block("%s", why)
	}
	if n.Waived > 0 && !p.Release.AllowWaived {
		block("%d failed gate(s) are waived; the policy accepts none", n.Waived)
	} else if n.Waived > 0 {
		n.Reasons = append(n.Reasons, fmt.Sprintf("%d failed gate(s) are waived; they remain failures", n.Waived))
	}
	if c.Facts.Simulated && !p.Release.AllowSimulated {
		block("the run is simulated")
	}
	limit := p.Release.MaxAgeDays
	if r.MaxAgeDays > 0 {
		limit = r.MaxAgeDays
	}
	switch age := at.Sub(c.Facts.Started); {
	case limit == 0:
	case c.Facts.Started.IsZero():
		block("the run states no start, so its age is unknown; at most %d days are accepted", limit)
	case age > time.Duration(limit)*24*time.Hour:
		block("the run is %.1f days old, at most %d are accepted", age.Hours()/24, limit)
	case age < -time.Hour: // clocks differ a little, not by an hour
		block("the run starts in the future: %s", c.Facts.Started.UTC().Format(time.RFC3339))
	}
	if !p.Release.NeedSignoff {
		return
	}
	switch c.State {
	case StateApproved:
	case StateConditional:
		n.Verdict = worse(n.Verdict, ReleaseConditional)
		n.Reasons = append(n.Reasons, c.Reasons...)
	default:
		block("sign-off: %s", strings.Join(append([]string{c.State}, c.Reasons...), ": "))
	}
}
