package main

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// A facts set is what the user states about a loose result file, because the
// file itself does not (decision 31).
type facts struct {
	startedAt                     *time.Time
	model, gpuArch, driver, image string
	tp, pp, dp, nnodes            int
	isl, osl                      int
}

var factNames = []string{"started_at", "model", "gpu_arch", "driver", "image", "tp", "pp", "dp", "nnodes", "isl", "osl"}

func parseSets(sets []string) (*facts, error) {
	f := &facts{}
	for _, s := range sets {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, badInput("--set %s: want name=value", s)
		}
		ints := map[string]*int{"tp": &f.tp, "pp": &f.pp, "dp": &f.dp, "nnodes": &f.nnodes, "isl": &f.isl, "osl": &f.osl}
		texts := map[string]*string{"model": &f.model, "gpu_arch": &f.gpuArch, "driver": &f.driver, "image": &f.image}
		switch {
		case name == "started_at":
			t, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return nil, badInput("--set started_at: want an RFC 3339 time with an offset such as 2026-09-01T10:00:00Z, found %q", value)
			}
			f.startedAt = &t
		case ints[name] != nil:
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return nil, badInput("--set %s: want an integer of at least 1, found %q", name, value)
			}
			*ints[name] = n
		case texts[name] != nil:
			*texts[name] = value
		default:
			return nil, badInput("--set %s: unknown; did you mean %s? (known: %s)", name, plan.Nearest(name, factNames), strings.Join(factNames, ", "))
		}
	}
	return f, nil
}

// apply lays the facts over a run that has no plan of its own.
func (f *facts) apply(r *artifact.Run) error {
	if *f == (facts{}) {
		return nil
	}
	if !strings.HasPrefix(r.Meta.RunID, "loose-") {
		return badInput("--set states facts of loose result files; %s has a record of its own", r.Meta.RunID)
	}
	id := &r.Meta.Identity
	for _, x := range []struct {
		to *string
		v  string
	}{{&id.Model, f.model}, {&id.GPUArch, f.gpuArch}, {&id.Driver, f.driver}, {&id.Image, f.image}} {
		if x.v != "" {
			*x.to = x.v
		}
	}
	for _, x := range []struct {
		to *int
		v  int
	}{{&id.TP, f.tp}, {&id.PP, f.pp}, {&id.DP, f.dp}, {&id.NNodes, f.nnodes}} {
		if x.v != 0 {
			*x.to = x.v
		}
	}
	if f.startedAt != nil {
		r.Meta.StartedAt = f.startedAt
	}
	for i := range r.Expected.Cells {
		c := &r.Expected.Cells[i]
		if f.isl != 0 {
			c.ISL = f.isl
		}
		if f.osl != 0 {
			c.OSL = f.osl
		}
		old := c.Key
		c.Key = plan.CellKey(c.ISL, c.OSL, max(id.TP, 1), max(id.PP, 1), c.Concurrency)
		for j := range r.Results {
			if r.Results[j].CellKey == old {
				r.Results[j].CellKey = c.Key
			}
		}
	}
	return nil
}

// visible makes control and direction characters of untrusted text readable, so
// that a file name cannot rewrite the terminal.
func visible(s string) string {
	clean := true
	for _, r := range s {
		if hidden(r) {
			clean = false
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func hidden(r rune) bool {
	return r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029')
}
