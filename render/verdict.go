package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cvs/warehouse"
)

// verdict words the head of the first screen. An incomplete run is never shown
// as pass: the word itself changes.
func (b *builder) verdict() Verdict {
	s := b.d.Status
	var v Verdict
	switch {
	case s.Verdict == warehouse.Fail:
		v.State, v.Class = Mark{Class: "fail", Word: "FAIL"}, "fail"
	case s.Incomplete:
		v.State, v.Class = Mark{Class: "incomplete", Word: "INCOMPLETE"}, "incomplete"
	case s.Verdict == warehouse.Pass:
		v.State, v.Class = Mark{Class: "pass", Word: "PASS"}, "pass"
	case s.Verdict == warehouse.Record:
		v.State, v.Class = Mark{Class: "record", Word: "RECORD ONLY"}, "record"
	default:
		v.State, v.Class = Mark{Class: "warn", Word: "NO VERDICT"}, "incomplete"
	}
	if s.Incomplete && v.State.Class != "incomplete" {
		v.Badges = append(v.Badges, Mark{Class: "incomplete", Word: "INCOMPLETE", Title: "Something that was planned has no result"})
	}
	if s.Verdict == warehouse.Record && v.State.Class != "record" {
		v.Badges = append(v.Badges, Mark{Class: "record", Word: "RECORD ONLY", Title: "No gate was evaluated"})
	}
	if b.d.Run.Simulated {
		v.Badges = append(v.Badges, Mark{Class: "simulated", Word: "SIMULATED", Title: "Measured on the lab's simulated GPUs; never compared with real runs"})
	}
	v.Lead = b.lead()
	v.Reasons = b.reasons()
	return v
}

// reasons words the view's reasons, each with a link to its cell where it names
// one. The first screen has room for a few lines; it says what it leaves out.
func (b *builder) reasons() []Reason {
	const most, long = 8, 240
	byID := map[string]*cell{}
	for _, c := range b.cells {
		byID[c.CellID], byID[c.CellKey] = c, c
	}
	lines := b.reasonLines(byID)
	var out []Reason
	for i, line := range lines {
		if i == most {
			out = append(out, Reason{Text: plural(len(lines)-most, "more reason") + " in the sections below.", Href: "gates"})
			break
		}
		r := Reason{Text: shorter(text(line))}
		if r.Text != text(line) {
			r.Title = text(line)
		}
		if name, _, ok := strings.Cut(line, ": "); ok && byID[name] != nil {
			r.Href = byID[name].id
		}
		if runes := []rune(r.Text); len(runes) > long {
			r.Text = string(runes[:long]) + " … (cut; the whole text is below)"
			if r.Href == "" {
				r.Href = "quality"
			}
		}
		out = append(out, r)
	}
	return out
}

// runFailed begins the view's reason that the run itself gives.
const runFailed = "the run failed: "

// reasonLines are the view's reasons, one a line. A cell's reason may have lines
// of its own, the end of a log: they are in the cell's card, and here only the
// first of them is. What the run says of a cell that has a reason itself is said
// once.
func (b *builder) reasonLines(byID map[string]*cell) []string {
	all := b.d.Status.ReasonText
	for _, c := range b.cells {
		if first, more, ok := strings.Cut(c.Reason, "\n"); ok && strings.TrimSpace(more) != "" {
			all = strings.Replace(all, c.CellID+": "+c.Reason, c.CellID+": "+first+" …", 1)
		}
	}
	if all == "" {
		return nil
	}
	lines := strings.Split(all, "\n")
	for _, c := range b.d.Checks {
		// A check that is its only target has one name.
		if c.Scope != c.Target || c.Scope == "" {
			continue
		}
		for i, line := range lines {
			if rest, ok := strings.CutPrefix(line, c.Scope+" "+c.Target); ok {
				lines[i] = c.Scope + rest
			}
		}
	}
	for _, line := range lines {
		id, why, ok := strings.Cut(strings.TrimPrefix(line, runFailed), ": ")
		if !ok || !strings.HasPrefix(line, runFailed) || byID[id] == nil {
			continue
		}
		own := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, id+": ") })
		if own < 0 {
			continue
		}
		lines[own] = id + ": " + why
		return slices.DeleteFunc(lines, func(l string) bool { return l == line })
	}
	return lines
}

// lead is the verdict in one sentence.
func (b *builder) lead() string {
	var failed, missing, evaluated, broken, beside, would int
	for _, c := range b.cells {
		switch c.State {
		case warehouse.Fail:
			failed++
		case warehouse.Error:
			missing++
		}
	}
	for _, g := range b.gates {
		switch {
		case g.State == warehouse.Pass:
			evaluated++
		case bad(g.State):
			evaluated++
			broken++
			if g.CellKey == "" {
				beside++
			}
		case g.WouldFail:
			would++
		}
	}
	var parts []string
	switch {
	case evaluated == 0 && !b.d.Run.Enforce:
		parts = append(parts, "Thresholds were not enforced, so nothing was judged")
		if would > 0 {
			parts = append(parts, plural(would, "gate")+" would fail")
		}
	case evaluated == 0:
		parts = append(parts, "No gate was evaluated")
	case broken == 0 && failed == 0:
		parts = append(parts, fmt.Sprintf("All %s that could be evaluated passed", plural(evaluated, "gate")))
	case broken == 0:
		parts = append(parts, fmt.Sprintf("%d of %s failed", failed, plural(len(b.cells), "cell")))
	default:
		where := fmt.Sprintf("in %d of %s", failed, plural(len(b.cells), "cell"))
		switch {
		case beside == broken:
			where = "all of them on checks beside the cells"
			if broken == 1 {
				where = "on a check beside the cells"
			}
		case beside > 0:
			where += fmt.Sprintf(" and %d on checks beside them", beside)
		}
		parts = append(parts, fmt.Sprintf("%d of %s failed, %s", broken, plural(evaluated, "evaluated gate"), where))
	}
	if b.tasksOnly() {
		parts = append(parts, plural(len(b.d.Accuracy), "accuracy value")+" recorded, no cell planned")
	}
	if missing > 0 {
		verb := "have"
		if missing == 1 {
			verb = "has"
		}
		parts = append(parts, fmt.Sprintf("%s %s no result", plural(missing, "cell"), verb))
	}
	if n := b.orphans(); n > 0 {
		parts = append(parts, plural(n, "file")+" with results outside the plan")
	}
	return strings.Join(parts, "; ") + "."
}

// tallies count every state; the parts of each add up to its total.
func (b *builder) tallies() []Tally {
	cells, gates := map[warehouse.State]int{}, map[warehouse.State]int{}
	var planned, damaged, missing int
	damagedCells := map[string]bool{}
	for _, q := range b.d.Quality {
		// Something was found for the cell and cannot be used; that nothing was
		// found is a finding too.
		if q.Severity == "data_error" && q.Code != "no_result" {
			damagedCells[q.CellKey] = true
		}
	}
	for _, c := range b.cells {
		cells[c.State]++
		if c.Planned {
			planned++
		}
		if c.State == warehouse.Error {
			if damagedCells[c.CellKey] {
				damaged++
			} else {
				missing++
			}
		}
	}
	total := fmt.Sprintf("%d planned · %d measured", planned, len(b.cells)-damaged-missing)
	if planned == 0 && len(b.cells) > 0 {
		total = plural(len(b.cells), "cell") + " from loose results"
	}
	if damaged+missing > 0 {
		total += fmt.Sprintf(" · %d missing", missing)
	}
	if damaged > 0 {
		total += fmt.Sprintf(" · %d broken", damaged)
	}
	if n := b.orphans(); n > 0 {
		total += " · " + plural(n, "orphan")
	}
	var out []Tally
	if !b.tasksOnly() {
		out = append(out, tally("Cells", total, len(b.cells), cells))
	}
	for _, g := range b.gates {
		gates[shown(g)]++
	}
	if n := len(b.gates); n > 0 {
		out = append(out, tally("Gates", grouped(float64(n), 0)+" in all", n, gates))
	}
	return out
}

func tally(label, total string, n int, count map[warehouse.State]int) Tally {
	t := Tally{Label: label, Total: total, Bar: &Bar{}}
	order := make([]warehouse.State, 0, len(states)+2)
	for _, s := range states {
		order = append(order, s)
		if bad(s) {
			order = append(order, s+waivedWord)
		}
	}
	known := len(order)
	for s := range count {
		if !slices.Contains(order, s) {
			order = append(order, s)
		}
	}
	slices.Sort(order[known:])
	done := 0
	for _, s := range order {
		k := count[s]
		if k == 0 {
			continue
		}
		m := mark(s)
		t.Parts = append(t.Parts, Part{Mark: m, N: k})
		from, to := 100*float64(done)/float64(n), 100*float64(done+k)/float64(n)
		t.Bar.Parts = append(t.Bar.Parts, BarPart{Class: fill(m.Class), X: coord(from), W: coord(to - from)})
		done += k
	}
	return t
}

// fill is the class that colours a bar.
func fill(class string) string {
	switch class {
	case "pass":
		return "pass-f"
	case "fail", "invalid":
		return "fail-f"
	case "error", "warn", "incomplete":
		return "error-f"
	case "record", "info":
		return "record-f"
	}
	return "mute-f"
}

func coord(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
