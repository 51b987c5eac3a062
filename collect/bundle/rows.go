package bundle

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"cvs/collect/strictjson"
)

// DiffRows compares two answers of a view, JSON lines in one order, and says
// what differs: by column where a row of one side stands for one of the other,
// else row by row. At most limit
// differences are spelt out; n counts all.
func DiffRows(view string, recorded, now []byte, limit int) (diffs []string, n int) {
	add := func(format string, args ...any) {
		if n++; n <= limit {
			diffs = append(diffs, fmt.Sprintf(format, args...))
		}
	}
	order, was, is := group(lines(recorded), lines(now))
	for _, name := range order {
		a, b := was[name], is[name]
		for i := range max(len(a), len(b)) {
			switch {
			case i >= len(b):
				add("%s: this row is gone: %s", view, clip(a[i]))
			case i >= len(a):
				add("%s: this row is new: %s", view, clip(b[i]))
			case a[i] != b[i]:
				for _, d := range columnDiffs(a[i], b[i]) {
					add("%s %s", strings.TrimSpace(view+" "+name), d)
				}
			}
		}
	}
	return diffs, n
}

// group pairs rows up by what identifies them to people; rows that are equal on
// both sides are dropped first.
func group(a, b []string) (order []string, was, is map[string][]string) {
	left := map[string]int{}
	for _, row := range a {
		left[row]++
	}
	was, is = map[string][]string{}, map[string][]string{}
	put := func(m map[string][]string, row string) {
		name := ""
		if v, _, err := strictjson.Parse([]byte(row), strictjson.Options{}); err == nil {
			name = rowName(v)
		}
		if was[name] == nil && is[name] == nil {
			order = append(order, name)
		}
		m[name] = append(m[name], row)
	}
	var new []string
	for _, row := range b {
		if left[row] > 0 {
			left[row]--
			continue
		}
		new = append(new, row)
	}
	for i := len(a) - 1; i >= 0; i-- { // equal rows were counted off from the front
		if left[a[i]] > 0 {
			left[a[i]]--
			put(was, a[i])
		}
	}
	for _, rows := range was {
		slices.Reverse(rows)
	}
	slices.Reverse(order)
	for _, row := range new {
		put(is, row)
	}
	return order, was, is
}

func lines(data []byte) []string {
	var out []string
	for raw := range bytes.Lines(data) {
		out = append(out, strings.TrimSuffix(string(raw), "\n"))
	}
	return out
}

func columnDiffs(a, b string) []string {
	va, _, aerr := strictjson.Parse([]byte(a), strictjson.Options{})
	vb, _, berr := strictjson.Parse([]byte(b), strictjson.Options{})
	if aerr != nil || berr != nil || va.Kind != strictjson.Object || vb.Kind != strictjson.Object {
		return []string{fmt.Sprintf("recorded %s, recomputed %s", clip(a), clip(b))}
	}
	var out []string
	for _, m := range va.Members {
		was := a[m.Value.Offset:m.Value.End]
		other := vb.Get(m.Name)
		switch {
		case other == nil:
			out = append(out, fmt.Sprintf("column %s is gone", m.Name))
		case b[other.Offset:other.End] != was:
			out = append(out, fmt.Sprintf("%s is %s, recorded was %s", m.Name, clip(b[other.Offset:other.End]), clip(was)))
		}
	}
	for _, m := range vb.Members {
		if va.Get(m.Name) == nil {
			out = append(out, fmt.Sprintf("column %s is new", m.Name))
		}
	}
	return out
}

// rowName is what identifies a row to people, from columns that views share.
func rowName(v *strictjson.Value) string {
	var parts []string
	for _, key := range []string{"run_id", "cell_key", "task_id", "target", "host", "tier", "metric", "path", "key"} {
		if m := v.Get(key); m != nil && m.Kind == strictjson.String && m.Text != "" {
			parts = append(parts, m.Text)
		}
	}
	return strings.Join(parts, " ")
}

func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
