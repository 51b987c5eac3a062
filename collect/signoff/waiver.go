package signoff

import (
	"fmt"
	"net/url"
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
