package render

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"cvs/templates"
	"cvs/warehouse"
)

// WriteMarkdown prints the first screen of the deck as GitHub-flavoured
// Markdown, for pull requests and job summaries. deck is a link to the deck or
// "".
func WriteMarkdown(w io.Writer, d *Data, o Options, deck string) error {
	page := Build(d, o)
	p := bufio.NewWriter(w)
	words := []string{page.Verdict.State.Word}
	for _, m := range page.Verdict.Badges {
		words = append(words, m.Word)
	}
	fmt.Fprintf(p, "## %s: %s\n\n%s\n", markdown(strings.Join(words, ", ")), markdown(page.Heading), markdown(page.Verdict.Lead))
	fmt.Fprintf(p, "\n%s\n", markdown(strings.Join(page.Sub, " · ")))
	if deck != "" {
		fmt.Fprintf(p, "\n[Run deck](<%s>)\n", strings.NewReplacer("<", "%3C", ">", "%3E", "\n", "%0A", "\\", "%5C").Replace(deck))
	}
	if len(page.Verdict.Reasons) > 0 {
		p.WriteString("\n")
		for _, r := range page.Verdict.Reasons {
			fmt.Fprintf(p, "- %s\n", markdown(r.Text))
		}
	}
	p.WriteString("\n")
	for _, t := range page.Tallies {
		var parts []string
		for _, x := range t.Parts {
			parts = append(parts, fmt.Sprintf("%d %s", x.N, x.Mark.Word))
		}
		fmt.Fprintf(p, "**%s:** %s (%s)  \n", t.Label, markdown(t.Total), markdown(strings.Join(parts, ", ")))
	}
	for _, f := range page.Facts {
		fmt.Fprintf(p, "**%s:** %s  \n", f.Label, markdown(f.Value))
	}
	for _, t := range []*Table{page.Families, page.Worst} {
		if t != nil && len(t.Rows) > 0 {
			fmt.Fprintf(p, "\n### %s\n\n", markdown(t.Caption))
			markdownTable(p, t)
		}
	}
	if err := p.Flush(); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

func markdownTable(p *bufio.Writer, t *Table) {
	skip := map[int]bool{}
	head, rule := "|", "|"
	for i, h := range t.Head {
		if h.Class == "barcell" {
			skip[i] = true
			continue
		}
		head += " " + markdown(strings.TrimSpace(h.Text+" "+h.Unit)) + " |"
		if strings.HasPrefix(h.Class, "n") {
			rule += " ---: |"
		} else {
			rule += " --- |"
		}
	}
	fmt.Fprintf(p, "%s\n%s\n", head, rule)
	for _, r := range t.Rows {
		p.WriteString("|")
		for i, c := range r.Cells {
			if skip[i] {
				continue
			}
			s := c.Text
			if c.Mark != nil {
				s = c.Mark.Word
			}
			fmt.Fprintf(p, " %s |", markdown(strings.TrimSpace(s+" "+c.Small)))
		}
		p.WriteString("\n")
	}
}

// markdown makes s literal: nothing in it is markup, a table border or HTML.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range text(s) {
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '@', '#': // mentions and issue numbers
			fmt.Fprintf(&b, "&#%d;", r)
		case '\\', '`', '*', '_', '{', '}', '[', ']', '(', ')', '!', '|', '~':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string          `xml:"name,attr"`
		Tests    int             `xml:"tests,attr"`
		Failures int             `xml:"failures,attr"`
		Errors   int             `xml:"errors,attr"`
		Skipped  int             `xml:"skipped,attr"`
		Host     string          `xml:"hostname,attr,omitempty"`
		Time     string          `xml:"timestamp,attr,omitempty"`
		Props    []junitProperty `xml:"properties>property,omitempty"`
		Cases    []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Failure *junitNote `xml:"failure"`
		Error   *junitNote `xml:"error"`
		Skipped *junitNote `xml:"skipped"`
	}
	junitNote struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit prints one test suite per cell and per kind of check, with one test
// case per gate. What was not judged is skipped, never passed; a cell without a
// result is an error.
func WriteJUnit(w io.Writer, d *Data, _ Options) error {
	b := newBuilder(d)
	r := d.Run
	all := junitSuites{Name: text("cvs " + r.Suite + " " + r.RunID)}
	var started string
	if r.StartedAt != nil {
		started = r.StartedAt.UTC().Format("2006-01-02T15:04:05")
	}
	add := func(s junitSuite) {
		s.Time = started
		for _, c := range s.Cases {
			s.Tests++
			switch {
			case c.Failure != nil:
				s.Failures++
			case c.Error != nil:
				s.Errors++
			case c.Skipped != nil:
				s.Skipped++
			}
		}
		if s.Tests == 0 {
			return
		}
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
		all.Suites = append(all.Suites, s)
	}
	add(junitSuite{Name: "run", Cases: []junitCase{b.junitVerdict()}})
	for _, c := range b.cells {
		s := junitSuite{Name: text(c.CellKey), Host: c.hosts()}
		if c.State == warehouse.Error {
			s.Cases = append(s.Cases, junitCase{Class: text(c.CellKey), Name: "result", Error: &junitNote{Message: text(c.Reason), Type: "no result"}})
		}
		for _, g := range c.gates {
			s.Cases = append(s.Cases, junitGate(g, text(c.CellKey)))
		}
		if len(s.Cases) == 0 {
			s.Cases = append(s.Cases, junitCase{Class: text(c.CellKey), Name: "result", Skipped: &junitNote{Message: "no gate applies to this cell"}})
		}
		add(s)
	}
	checks := junitSuite{Name: "checks"}
	for _, k := range d.Checks {
		if k.Metric == "" && k.State != warehouse.Pass && !bad(k.State) { // those are among the gates
			c := junitCase{Class: text(k.Scope + "." + k.Target), Name: "result"}
			switch k.State {
			case warehouse.Error:
				c.Error = &junitNote{Message: text(k.Reason), Type: "no result"}
			default:
				c.Skipped = &junitNote{Message: text(k.Reason)}
			}
			checks.Cases = append(checks.Cases, c)
		}
	}
	for _, g := range b.gates {
		if g.CellKey == "" {
			checks.Cases = append(checks.Cases, junitGate(g, text(g.CellID)))
		}
	}
	add(checks)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing the JUnit file: %w", err)
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", " ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("writing the JUnit file: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitVerdict is the run's verdict as a test of its own, so that an incomplete
// run is never all green.
func (b *builder) junitVerdict() junitCase {
	c := junitCase{Class: "run", Name: "verdict"}
	s := b.d.Status
	why := text(strings.Join(s.Reasons(), "; "))
	switch {
	case s.Verdict == warehouse.Fail:
		c.Failure = &junitNote{Message: why, Type: "fail"}
	case s.Incomplete:
		c.Error = &junitNote{Message: why, Type: "incomplete"}
	case s.Verdict != warehouse.Pass:
		c.Skipped = &junitNote{Message: "record only: " + why}
	}
	return c
}

func junitGate(g *warehouse.GateRow, class string) junitCase {
	name := text(g.Metric)
	if g.Host != "" {
		name += " on " + text(g.Host)
	}
	c := junitCase{Class: class + "." + text(g.Tier), Name: name}
	got, want := gateNumbers(g)
	numbers := got.Text + ", wanted " + want.Text
	switch g.State {
	case warehouse.Pass:
	case warehouse.Fail, warehouse.Invalid:
		c.Failure = &junitNote{Message: text(g.Reason), Type: string(g.State), Text: numbers}
		if g.File != "" {
			c.Failure.Text += fmt.Sprintf(" (%s:%d)", text(g.File), g.Line)
		}
	case warehouse.Error:
		c.Error = &junitNote{Message: text(g.Reason), Type: "no result"}
	default:
		m := mark(g.State).Word
		if g.Reason != "" {
			m += ": " + text(g.Reason)
		}
		c.Skipped = &junitNote{Message: m, Text: numbers}
	}
	return c
}

// WriteSummary prints the deck's first screen as a page of its own, for a job
// that shows one page: no script and no charts. deck is a link to the deck or
// "".
func WriteSummary(w io.Writer, d *Data, o Options, deck string) error {
	page := Build(d, o)
	page.Sections, page.data = nil, ""
	// Nothing to jump to on this page.
	for i := range page.Verdict.Reasons {
		page.Verdict.Reasons[i].Href = ""
	}
	if page.Worst != nil {
		for _, r := range page.Worst.Rows {
			for i := range r.Cells {
				r.Cells[i].Href = ""
			}
		}
	}
	files := templates.Deck()
	t, err := pageTemplate(files)
	if err != nil {
		return err
	}
	a, err := assetsOf(files)
	if err != nil {
		return err
	}
	h := a.inPage(false, page.Title)
	h.Policy = policy(sourceHash(a.style) + " " + sourceHash([]byte(h.Paper)))
	buf := bufio.NewWriter(w)
	err = t.ExecuteTemplate(buf, "summary", struct {
		*Deck
		head
		Link string
	}{page, h, deck})
	if err != nil {
		return fmt.Errorf("printing the summary: %w", err)
	}
	return buf.Flush()
}
