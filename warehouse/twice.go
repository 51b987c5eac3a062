package warehouse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cvs/warehouse/ingest"
)

// oneEach makes sure that one benchmark speaks for a cell, host and repeat. The
// same one written twice counts once; different ones contradict each other, and
// choosing would be a guess.
func (b *batch) oneEach() {
	groups := make(map[string][]*sampleRow)
	var order []string
	for _, s := range b.samples {
		if s.role != "cell" || s.cell == nil || s.unusable {
			continue
		}
		k := fmt.Sprintf("%s\x00%s\x00%d", s.cell.Key, s.result.Host, s.repeat)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], s)
	}
	for _, k := range order {
		g := groups[k]
		if len(g) == 1 {
			continue
		}
		at := where{path: g[0].result.Path, cell: g[0].cell.Key}
		var different []*sampleRow
		var found []string
		for _, s := range g {
			if !slices.ContainsFunc(different, func(d *sampleRow) bool { return sameResult(s, d) }) {
				different = append(different, s)
			}
			found = append(found, s.foundAt(g[0].result.Path))
		}
		if len(different) == 1 {
			for _, s := range g[1:] {
				s.unusable = true
			}
			b.problem(warning, "twice", at, "the same object was found %d times and counts once", len(g))
			continue
		}
		for _, s := range g {
			s.unusable = true
		}
		what := fmt.Sprintf("%d different objects", len(g))
		if len(different) < len(g) {
			what = fmt.Sprintf("%d objects, %d of them different,", len(g), len(different))
		}
		b.problem(dataError, "ambiguous", at, "%s were found for one cell (%s): none is used", what, strings.Join(found, ", "))
	}
}

// foundAt tells one of several objects from the others: by its date, and by its
// file where that is not the one already named.
func (s *sampleRow) foundAt(named string) string {
	what := s.Identity.Date
	if what == "" {
		what = fmt.Sprintf("line %d", s.Line)
	}
	if s.result.Path != named {
		what += " in " + s.result.Path
	}
	return what
}

// newestAccuracy makes sure that one file speaks for an accuracy task: the one
// that is newest by its own date. Two of one date, or two without any, contradict
// each other unless they say the same; which is meant would be a guess.
func (b *batch) newestAccuracy() {
	groups := make(map[string][]*sampleRow)
	var order []string
	for _, s := range b.samples {
		if s.role != "accuracy" || s.unusable {
			continue
		}
		if groups[s.task] == nil {
			order = append(order, s.task)
		}
		groups[s.task] = append(groups[s.task], s)
	}
	for _, task := range order {
		g := groups[task]
		slices.SortStableFunc(g, func(a, b *sampleRow) int { return cmp.Compare(dated(b), dated(a)) })
		n := 1
		for n < len(g) && dated(g[n]) == dated(g[0]) {
			n++
		}
		if n == 1 {
			continue
		}
		at := where{path: g[0].result.Path, task: task}
		var paths []string
		same := true
		for _, s := range g[:n] {
			same = same && sameResult(s, g[0])
			paths = append(paths, s.result.Path)
		}
		if same {
			for _, s := range g[1:n] {
				s.unusable = true
			}
			b.problem(warning, "twice", at, "the same result was found %d times and counts once", n)
			continue
		}
		for _, s := range g { // an older one would be no better a guess
			s.unusable = true
		}
		b.problem(dataError, "ambiguous", at, "%d different results of accuracy task %s have %s (%s): none is used", n, task, dateWords(g[0]), strings.Join(paths, ", "))
	}
}

// dated orders lm-eval results: one without a date is older than any other.
func dated(s *sampleRow) float64 {
	if s.Identity.StartUnix == nil {
		return math.Inf(-1)
	}
	return *s.Identity.StartUnix
}

func dateWords(s *sampleRow) string {
	if s.Identity.StartUnix == nil {
		return "no date"
	}
	return "the same date " + strconv.FormatFloat(*s.Identity.StartUnix, 'f', -1, 64)
}

// sameResult reports whether two benchmarks are one, written twice: equal byte
// for byte, or equal but for white space, the order of keys and how a number is
// spelt.
func sameResult(a, b *sampleRow) bool {
	if a.Digest == b.Digest {
		return true
	}
	if len(a.Values) != len(b.Values) {
		return false
	}
	values := make(map[string]ingest.Value, len(a.Values))
	for _, v := range a.Values {
		values[v.Pointer()] = v
	}
	for _, v := range b.Values {
		w, ok := values[v.Pointer()]
		if !ok || v.Kind != w.Kind {
			return false
		}
		delete(values, v.Pointer()) // a key that stands twice needs two
		switch {
		case v.Raw == w.Raw && v.SHA256 == w.SHA256:
		case v.SHA256 != "" || w.SHA256 != "":
			return false
		case v.Kind == "number":
			// beyond 2^53 two counts may be one double
			if v.Number != w.Number || math.Abs(v.Number) >= 1<<53 {
				return false
			}
		default:
			x, y := canonical(v.Raw), canonical(w.Raw)
			if x == "" || x != y {
				return false
			}
		}
	}
	return true
}

// canonical is JSON without white space, with sorted keys and numbers in one
// spelling; "" for what strict JSON is not.
func canonical(raw string) string {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any // only to be written again
	if d.Decode(&v) != nil {
		return ""
	}
	text, err := json.Marshal(spelt(v))
	if err != nil {
		return ""
	}
	return string(text)
}

// spelt replaces numbers by doubles, as far as one is the number.
func spelt(v any) any {
	switch x := v.(type) {
	case json.Number:
		if f, err := x.Float64(); err == nil && math.Abs(f) < 1<<53 {
			return f
		}
	case []any:
		for i := range x {
			x[i] = spelt(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = spelt(x[k])
		}
	}
	return v
}
