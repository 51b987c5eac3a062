package signoff

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

const waiversFormat = "cvs-waivers@v1"

// A Waiver accepts a failure of some gates until a day.
type Waiver struct {
	ID      string
	Cell    string // pattern (* and ?) on cell key or cell id; "" when Task is set
	Task    string // pattern on the id of an accuracy or other task
	Metric  string // pattern on the bare name
	Reason  string
	Owner   string
	Issue   string    // link
	Expires time.Time // first moment it no longer holds, UTC
	When    Condition
	Line    int
}

// A Condition limits where a waiver holds; empty fields do not.
type Condition struct {
	WorstMarginPct *float64 // the failure may be no worse, per cent of the bound, at most 0
	Model          string   // patterns
	Driver         string
	GPUArch        string
	Precision      string
}

// Waivers is a waiver file.
type Waivers struct {
	Name string
	List []Waiver
}

// ParseWaivers reads a waiver file strictly; the error is an *InputError with
// everything that is wrong with it.
func ParseWaivers(name string, data []byte) (*Waivers, error) {
	d, top := open(name, data, waiversFormat)
	w := &Waivers{Name: name}
	ids := map[string]bool{}
	for _, o := range top.objects("waivers", true) {
		one := readWaiver(o)
		if one.ID != "" && ids[one.ID] {
			d.bad(o.v.Get("id"), o.at("id"), "%q stands twice", one.ID)
		}
		ids[one.ID] = true
		w.List = append(w.List, one)
	}
	top.done()
	return w, d.err()
}

func readWaiver(o obj) Waiver {
	w := Waiver{
		ID: o.text("id", true), Cell: o.text("cell", false), Task: o.text("task", false), Metric: o.text("metric", true),
		Reason: o.text("reason", true), Owner: o.text("owner", true), Issue: o.text("issue", true), Expires: o.day("expires"),
	}
	if o.v != nil {
		w.Line = lineOf(o)
	}
	if (w.Cell == "") == (w.Task == "") {
		o.d.bad(o.v, o.pointer, "want either cell or task")
	}
	if w.Issue != "" {
		if u, err := url.Parse(w.Issue); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			o.d.bad(o.v.Get("issue"), o.at("issue"), "want a link, found %q", w.Issue)
		}
	}
	if strings.Trim(w.Cell+w.Task, "*?") == "" && strings.Trim(w.Metric, "*?") == "" && w.Metric != "" {
		o.d.bad(o.v, o.pointer, "waives everything; name the cells or the metric")
	}
	if c, ok := o.child("condition"); ok {
		w.When = Condition{
			WorstMarginPct: c.number("worst_margin_pct"), Model: c.text("model", false), Driver: c.text("driver", false),
			GPUArch: c.text("gpu_arch", false), Precision: c.text("precision", false),
		}
		if m := w.When.WorstMarginPct; m != nil && *m > 0 {
			c.d.bad(c.v.Get("worst_margin_pct"), c.at("worst_margin_pct"), "a failure's margin is negative; want 0 or less")
		}
		c.done()
	}
	o.done()
	return w
}

func lineOf(o obj) int {
	return len(strings.Split(string(o.d.data[:o.v.Offset]), "\n"))
}

// LastDay is the last day the waiver holds, UTC.
func (w Waiver) LastDay() string {
	if w.Expires.IsZero() {
		return ""
	}
	return w.Expires.AddDate(0, 0, -1).Format(time.DateOnly)
}

func (w Waiver) target() string {
	if w.Task != "" {
		return "task " + w.Task
	}
	return "cell " + w.Cell
}

// text is everything of a waiver that means something, in one line.
func (w Waiver) text() string {
	s := fmt.Sprintf("%s, metric %s, until %s, owner %s, %s, %q", w.target(), w.Metric, w.LastDay(), w.Owner, w.Issue, w.Reason)
	if m := w.When.WorstMarginPct; m != nil {
		s += fmt.Sprintf(", no worse than %g %%", *m)
	}
	for _, c := range [][2]string{{"model", w.When.Model}, {"driver", w.When.Driver}, {"gpu_arch", w.When.GPUArch}, {"precision", w.When.Precision}} {
		if c[1] != "" {
			s += ", " + c[0] + " " + c[1]
		}
	}
	return s
}

// A Gate is one gate as the views judged it.
type Gate struct {
	RunID     string   `json:"run_id"`
	Cell      string   `json:"cell,omitempty"` // cell key
	CellID    string   `json:"cell_id,omitempty"`
	Task      string   `json:"task,omitempty"`
	Host      string   `json:"host,omitempty"`
	Tier      string   `json:"tier,omitempty"`
	Metric    string   `json:"metric"`
	State     string   `json:"state"` // as in view gates
	MarginPct *float64 `json:"margin_pct,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Vacuous   string   `json:"vacuous,omitempty"` // why it cannot fail, "" if it can
}

// Failed reports a gate that counts as failed.
func (g Gate) Failed() bool { return g.State == "fail" || g.State == "invalid" }

// Name is where the gate is, for messages.
func (g Gate) Name() string {
	where := g.CellID
	if where == "" {
		where = g.Cell
	}
	if where == "" {
		where = g.Task
	}
	return strings.TrimSpace(where + " " + g.Metric)
}

// Facts are what a run is, for conditions and requirements.
type Facts struct {
	RunID, Profile, Model, Precision, GPUArch, Driver string
	NNodes, TP                                        int
	Started                                           time.Time // zero: not stated
	Simulated                                         bool
	LauncherUser                                      string
}

// A WaivedGate is a failed gate and the waiver that covers it.
type WaivedGate struct {
	Gate   Gate   `json:"gate"`
	Waiver string `json:"waiver"` // id
	Until  string `json:"until"`
	Owner  string `json:"owner"`
	Issue  string `json:"issue"`
}

// A Coverage is what the waivers do to the failures of a run. A waived failure
// stays a failure: it is counted apart, never as a pass.
type Coverage struct {
	Waived    []WaivedGate `json:"waived"`
	Unwaived  []Gate       `json:"unwaived"`  // failed, and nothing covers them
	Expired   []string     `json:"expired"`   // waivers that would cover a failure but are over
	Outside   []string     `json:"outside"`   // waivers whose condition a failure does not meet
	Passing   []string     `json:"passing"`   // waivers all of whose gates pass: to be removed
	Unmatched []string     `json:"unmatched"` // waivers that match no gate
}

// Used lists the waivers that cover a failure.
func (c Coverage) Used() []UsedWaiver {
	n := map[string]*UsedWaiver{}
	var ids []string
	for _, w := range c.Waived {
		if n[w.Waiver] == nil {
			n[w.Waiver] = &UsedWaiver{ID: w.Waiver, Expires: w.Until}
			ids = append(ids, w.Waiver)
		}
		n[w.Waiver].Gates++
	}
	slices.Sort(ids)
	var out []UsedWaiver
	for _, id := range ids {
		out = append(out, *n[id])
	}
	return out
}

func (w Waiver) fits(g Gate) bool {
	if !Glob(w.Metric, g.Metric) {
		return false
	}
	if w.Task != "" {
		return g.Task != "" && Glob(w.Task, g.Task)
	}
	return g.Cell != "" && (Glob(w.Cell, g.Cell) || Glob(w.Cell, g.CellID))
}

// holds reports whether the condition is met; why not otherwise.
func (c Condition) holds(g Gate, f Facts) (why string) {
	for _, x := range [][3]string{{"model", c.Model, f.Model}, {"driver", c.Driver, f.Driver}, {"gpu_arch", c.GPUArch, f.GPUArch}, {"precision", c.Precision, f.Precision}} {
		if x[1] != "" && !Glob(x[1], x[2]) {
			return fmt.Sprintf("%s is %s, not %s", x[0], x[2], x[1])
		}
	}
	if c.WorstMarginPct == nil {
		return ""
	}
	if g.MarginPct == nil {
		return "the failure has no margin"
	}
	if *g.MarginPct < *c.WorstMarginPct {
		return fmt.Sprintf("the margin is %.2f %%, worse than %g %%", *g.MarginPct, *c.WorstMarginPct)
	}
	return ""
}

// Apply says which failures of a run the waivers cover at a time. It may be
// called with nil, for no waivers. A cell without a result has no gates: nothing
// waives a missing measurement.
func (w *Waivers) Apply(gates []Gate, f Facts, at time.Time) Coverage {
	var c Coverage
	var list []Waiver
	if w != nil {
		list = w.List
	}
	matched, failed := make([]bool, len(list)), make([]bool, len(list))
	expired, outside := make([]bool, len(list)), make([]bool, len(list))
	for _, g := range gates {
		covered := false
		for i, one := range list {
			if !one.fits(g) || g.State != "pass" && !g.Failed() {
				continue
			}
			matched[i] = true
			if !g.Failed() {
				continue
			}
			failed[i] = true
			why := one.When.holds(g, f)
			switch {
			case why != "":
				if !outside[i] {
					outside[i] = true
					c.Outside = append(c.Outside, fmt.Sprintf("waiver %s does not cover %s: %s", one.ID, g.Name(), why))
				}
			case !at.Before(one.Expires):
				if !expired[i] {
					expired[i] = true
					c.Expired = append(c.Expired, fmt.Sprintf("waiver %s expired on %s: %s fails without it", one.ID, one.LastDay(), g.Name()))
				}
			case !covered:
				covered = true
				c.Waived = append(c.Waived, WaivedGate{Gate: g, Waiver: one.ID, Until: one.LastDay(), Owner: one.Owner, Issue: one.Issue})
			}
		}
		if g.Failed() && !covered {
			c.Unwaived = append(c.Unwaived, g)
		}
	}
	for i, one := range list {
		switch {
		case !matched[i]:
			c.Unmatched = append(c.Unmatched, fmt.Sprintf("waiver %s (%s, metric %s) matches no gate", one.ID, one.target(), one.Metric))
		case !failed[i]:
			c.Passing = append(c.Passing, fmt.Sprintf("waiver %s (%s, metric %s): every gate it matches passes; remove it", one.ID, one.target(), one.Metric))
		}
	}
	return c
}
