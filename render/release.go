package render

import (
	"fmt"
	"io"
	"strconv"

	"cvs/warehouse"
)

// A Release is several runs held against a policy, as the deck of a release
// candidate shows it.
type Release struct {
	Title   string
	Policy  string // file
	Verdict string // READY, CONDITIONAL, BLOCKED
	Needs   []ReleaseNeed
	Runs    []ReleaseRun
}

// A ReleaseNeed is one requirement and the run that is taken for it.
type ReleaseNeed struct {
	Name, Wants    string
	RunID, Verdict string // RunID is "" when none fits
	Reasons        []string
}

// A ReleaseRun is one run that was offered.
type ReleaseRun struct {
	Row    warehouse.ReleaseRunRow
	Review *Review
	Blocks []warehouse.BlockRow
	Deck   string // link to its deck, relative; "" for none
	Asked  bool   // a requirement asks for such a run
}

// WriteRelease prints the deck of a release candidate.
func WriteRelease(w io.Writer, r Release, o Options) error {
	title := text(r.Title)
	if title == "" {
		title = "Release candidate"
	}
	s := &site{Title: text(r.Verdict) + " · " + title + " · cvs", Eyebrow: "Release deck · cvs", Heading: title + ": " + text(r.Verdict),
		Sub: []string{"policy " + text(r.Policy), plural(len(r.Needs), "requirement"), plural(len(r.Runs), "run")}}
	made := "Made by cvs " + orDash(text(o.ToolVersion))
	if !o.Now.IsZero() {
		made += " on " + instant(o.Now)
	}
	s.Footer = append(s.Footer, made+".", "For each requirement the newest run that fits counts, whatever an older one said. Missing evidence blocks.")
	s.Sections = []*Section{r.matrix(), r.lines(), r.against()}
	for _, run := range r.Runs {
		if sec := run.section(); sec != nil {
			s.Sections = append(s.Sections, sec)
		}
	}
	return s.write(w, o, "")
}

func releaseMark(verdict string) Mark {
	class := map[string]string{"READY": "pass", "CONDITIONAL": "warn"}[verdict]
	if class == "" {
		class = "fail"
	}
	return Mark{Class: class, Word: text(verdict)}
}

func (r Release) matrix() *Section {
	m := releaseMark(r.Verdict)
	s := &Section{ID: "required", Title: "Required matrix", Count: strconv.Itoa(len(r.Needs)), Mark: &m, Intro: "What the policy asks for, and what stands against it."}
	t := &Table{ID: "required-table", Caption: "Required runs", Tools: true, Head: []Column{{Text: "Verdict"}, {Text: "Requirement"}, {Text: "Asks for"}, {Text: "Run"}, {Text: "Why"}}}
	for _, n := range r.Needs {
		m := releaseMark(n.Verdict)
		run := Cell{Text: "no run"}
		if n.RunID != "" {
			run = Cell{Text: text(n.RunID), Href: runAnchor(n.RunID)}
		}
		reasons := n.Reasons
		if len(reasons) == 0 {
			reasons = []string{"nothing stands against it"}
		}
		for i, why := range reasons {
			row := Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: text(n.Name)}, {Text: text(n.Wants)}, run, {Text: text(why), Class: "w"}}}
			if i > 0 { // once is enough
				row.Cells[1], row.Cells[2], row.Cells[3] = Cell{}, Cell{}, Cell{}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	s.Tables = []*Table{t}
	return s
}

func runAnchor(id string) string { return "run-" + short(id) }

// lines is one line a run.
func (r Release) lines() *Section {
	s := &Section{ID: "runs", Title: "Runs", Count: strconv.Itoa(len(r.Runs)), Intro: "Failed counts waived ones too: they remain failures. Calibrated are the judged gates that can fail."}
	t := &Table{ID: "runs-table", Caption: "Runs", Pin: true, Tools: true, Head: []Column{{Text: "Run"}, {Text: "Verdict"}, {Text: "Sign-off"}, {Text: "Model"}, {Text: "Framework"}, {Text: "GPU"}, {Text: "Started"},
		{Text: "Gates", Class: "n"}, {Text: "Failed", Class: "n"}, {Text: "Waived", Class: "n"}, {Text: "Calibrated", Class: "n"}, {Text: "Vacuous tiers", Class: "n"}, {Text: "No result", Class: "n"}}}
	for _, run := range r.Runs {
		x := run.Row
		m := releaseRunMark(x)
		name := Cell{Text: text(x.RunID), Href: runAnchor(x.RunID)}
		if run.Deck != "" {
			name = Cell{Text: text(x.RunID), Page: run.Deck}
		}
		if !run.Asked {
			name.Small = "no requirement asks for it"
		}
		if x.Simulated {
			name.Small = "simulated " + name.Small
		}
		when := "not stated"
		if x.StartedAt != nil {
			when = instant(*x.StartedAt)
		}
		number := func(n int) Cell { return Cell{Text: strconv.Itoa(n), Class: "n"} }
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{name, {Mark: &m}, {Mark: signoffMark(run.Review.State.State), Small: text(run.Review.State.Signers)}, {Text: orDash(text(x.Model))},
			{Text: orDash(text(x.Driver))}, {Text: orDash(text(x.GPUArch))}, {Text: when}, number(x.Gates), number(x.Failed), number(run.Review.State.Waived),
			{Text: fmt.Sprintf("%d of %d", x.Calibrated, x.Judged), Class: "n"}, number(x.VacuousTiers), number(x.Missing)}})
	}
	s.Tables = []*Table{t}
	return s
}

func releaseRunMark(x warehouse.ReleaseRunRow) Mark {
	switch {
	case x.Headline == "FAIL":
		return Mark{Class: "fail", Word: "fail"}
	case x.Incomplete:
		return Mark{Class: "incomplete", Word: "incomplete"}
	case x.Headline == "PASS":
		return Mark{Class: "pass", Word: "pass"}
	}
	return Mark{Class: "record", Word: "record only"}
}

// against lists what stands against each run: failures that are not waived,
// expired waivers, missing results, tiers that cannot fail.
func (r Release) against() *Section {
	s := &Section{ID: "against", Title: "What stands against it"}
	t := &Table{ID: "against-table", Caption: "Reasons against the runs", Tall: true, Tools: true, Head: []Column{{Text: "Run"}, {Text: "Kind"}, {Text: "Reason"}}}
	for _, run := range r.Runs {
		for _, b := range run.Blocks {
			if b.Holds {
				t.Rows = append(t.Rows, Row{Mark: Mark{Class: "fail", Word: text(b.Class)}, Cells: []Cell{{Text: text(run.Row.RunID), Href: runAnchor(run.Row.RunID)}, {Text: text(b.Class)}, {Text: text(b.Reason), Class: "w"}}})
			}
		}
	}
	s.Count = strconv.Itoa(len(t.Rows))
	if len(t.Rows) == 0 {
		s.Empty = "Nothing stands against any of the runs themselves; the required matrix says whether age, matrix and sign-off do."
		return s
	}
	s.Tables = []*Table{t}
	return s
}

// section is everything that was decided about one run.
func (run ReleaseRun) section() *Section {
	s := &Section{ID: runAnchor(run.Row.RunID), Title: text(run.Row.RunID), Mark: signoffMark(run.Review.State.State)}
	for _, why := range run.Review.State.Reasons() {
		s.Notes = append(s.Notes, text(why))
	}
	s.Tables = run.Review.tables(s.ID)
	for _, t := range s.Tables {
		t.Caption += " of run " + text(run.Row.RunID)
	}
	if run.Deck != "" {
		s.Links = []Link{{Text: "Deck of the run", Page: run.Deck}}
	}
	return s
}
