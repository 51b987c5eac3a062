package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"cvs/collect/artifact"
	"cvs/warehouse"
	"cvs/warehouse/ingest"
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
			return nil, badInput("--set %s: unknown%s; known are %s", name, didYouMean(name, factNames), strings.Join(factNames, ", "))
		}
	}
	return f, nil
}

// apply lays the facts over a run that has no plan of its own.
func (f *facts) apply(src *warehouse.Source) error {
	r := src.Run
	if !strings.HasPrefix(r.Meta.RunID, "loose-") {
		if *f != (facts{}) {
			return badInput("--set states facts of loose result files; %s has a record of its own", r.Meta.RunID)
		}
		return nil
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
	if *f != (facts{}) {
		src.Stated()
	}
	f.cell(r, src.Document())
	return nil
}

// cellFolder is how both suites name a cell's folder; a file that lies in one
// need not be told its lengths.
var cellFolder = regexp.MustCompile(`(?:^|/)isl(\d{1,7})_osl(\d{1,7})_conc(\d{1,7})/[^/]+$`)

// cell gives a loose file with one benchmark the cell that folder or user state.
func (f *facts) cell(r *artifact.Run, doc *ingest.Document) {
	if len(r.Results) != 1 || doc == nil || len(doc.Samples) != 1 {
		return
	}
	found := doc.Samples[0].Identity
	isl, osl, conc := int64(f.isl), int64(f.osl), int64(0)
	if m := cellFolder.FindStringSubmatch(filepath.ToSlash(r.Results[0].Path)); m != nil {
		for i, n := range []*int64{&isl, &osl, &conc} {
			if *n == 0 {
				*n, _ = strconv.ParseInt(m[i+1], 10, 64) // the pattern only lets digits through
			}
		}
	}
	for _, x := range []struct{ to, from *int64 }{{&isl, found.ISL}, {&osl, found.OSL}, {&conc, found.Concurrency}} {
		if *x.to == 0 && x.from != nil {
			*x.to = *x.from
		}
	}
	if isl <= 0 || osl <= 0 || conc <= 0 {
		return
	}
	tp := "?"
	if r.Meta.Identity.TP > 0 {
		tp = strconv.Itoa(r.Meta.Identity.TP)
	}
	c := artifact.ExpectedCell{
		Key: fmt.Sprintf("ISL=%d,OSL=%d,TP=%s,PP=%d,CONC=%d", isl, osl, tp, max(r.Meta.Identity.PP, 1), conc),
		ID:  filepath.Base(r.Results[0].Path), ISL: int(isl), OSL: int(osl), Concurrency: int(conc), Repeats: 1,
	}
	r.Expected.Cells = []artifact.ExpectedCell{c}
	r.Results[0].CellKey = c.Key
}

// visible makes control characters of untrusted text, and those that have no width
// or turn the direction, readable, so that a file name cannot rewrite the terminal
// or look like another.
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
	return r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}
