package render

import (
	"html"
	"html/template"
	"slices"
	"strings"
)

// tableHTML prints a table. Rows are the part of a deck that there are
// thousands of: html/template spends two microseconds on each field of each of
// them, which is seconds for a large sweep, and end tags and quotes that HTML
// does not need are a third of its size. So they are written here, and every
// value goes through [printer.text] or [printer.attr].
func tableHTML(t *Table) template.HTML {
	p := printer{b: make([]byte, 0, 256+len(t.Rows)*(16+24*len(t.Head)))}
	p.table(t)
	return template.HTML(p.b)
}

// cardsHTML prints the cells' cards, for the same reason.
func cardsHTML(cards []*CellCard) template.HTML {
	p := printer{b: make([]byte, 0, 256*len(cards))}
	for _, c := range cards {
		p.card(c)
	}
	return template.HTML(p.b)
}

func (p *printer) card(c *CellCard) {
	p.raw(`<details`)
	if !c.Lazy { // what the style sheet says of the others by their parent
		p.attr("class", "panel cell")
	}
	p.attr("id", c.ID)
	if c.Open {
		p.raw(" open")
	}
	p.raw("><summary>")
	if c.Lazy && c.Mark.Class == "pass" {
		p.raw("<b>")
		p.text(c.Mark.Word)
		p.raw("</b>")
	} else {
		p.mark(&Mark{Class: c.Mark.Class, Word: c.Mark.Word})
	}
	p.raw("<strong>")
	p.text(c.Name)
	p.raw("</strong>")
	if c.Key != "" {
		p.raw("<span class=mono>")
		p.text(c.Key)
		p.raw("</span>")
	}
	if c.Gates != "" {
		p.raw("<small>")
		p.text(c.Gates)
		p.raw("</small>")
	}
	if c.Headline != "" {
		p.raw("<i>")
		p.text(c.Headline)
		p.raw("</i>")
	}
	p.raw("</summary>")
	if len(c.Reasons)+len(c.Tables)+len(c.Commands) > 0 {
		p.raw("<div class=body>")
		for _, r := range c.Reasons {
			p.raw("<p>")
			p.text(r)
			p.raw("</p>")
		}
		for _, t := range c.Tables {
			if t.Title != "" {
				p.raw("<h3>")
				p.text(t.Title)
				p.raw("</h3>")
			}
			if len(t.Rows) > 0 {
				p.table(t)
			} else {
				p.raw("<p>")
				p.text(t.Empty)
				p.raw("</p>")
			}
		}
		for _, f := range c.Commands {
			p.raw("<p>")
			p.text(f.Label)
			p.raw("</p><pre>")
			p.text(f.Value)
			p.raw("</pre>")
		}
		p.raw("</div>")
	}
	p.raw("</details>\n")
}

// A printer writes HTML.
type printer struct{ b []byte }

func (p *printer) raw(s string) { p.b = append(p.b, s...) }

// text writes s as text.
func (p *printer) text(s string) {
	if strings.ContainsAny(s, "&<>\"'\x00") {
		s = strings.ReplaceAll(html.EscapeString(s), "\x00", "\uFFFD")
	}
	p.raw(s)
}

// attr writes one attribute, with quotes only where its value needs them;
// nothing for an empty value.
func (p *printer) attr(name, value string) {
	if value != "" {
		p.always(name, value)
	}
}

func (p *printer) always(name, value string) {
	p.raw(" ")
	p.raw(name)
	p.raw("=")
	if plain(value) {
		p.raw(value)
		return
	}
	p.raw(`"`)
	p.text(value)
	p.raw(`"`)
}

// plain says whether an attribute's value may stand without quotes.
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != '#' {
			return false
		}
	}
	return s != ""
}

func (p *printer) table(t *Table) {
	p.raw(`<div class="tw`)
	if t.Tall {
		p.raw(" tall")
	}
	if t.Pin {
		p.raw(" pin")
	}
	p.raw(`" tabindex=0 role=region`)
	p.attr("aria-label", t.Caption)
	p.raw("><table")
	p.attr("id", t.ID)
	if t.Tools {
		p.raw(" data-tools")
	}
	p.raw("><caption>")
	p.text(t.Caption)
	p.raw("</caption><thead><tr>")
	numbers := numbersFrom(t)
	for _, h := range t.Head {
		p.raw("<th scope=col")
		p.attr("class", h.Class)
		p.attr("title", h.Title)
		p.attr("data-m", h.Metric)
		if h.Filter {
			p.raw(" data-f")
		}
		p.raw(">")
		p.text(h.Text)
		if h.Unit != "" {
			p.raw("<small>")
			p.text(h.Unit)
			p.raw("</small>")
		}
		p.raw("</th>")
	}
	p.raw("</tr></thead><tbody")
	if numbers < len(numberClass) {
		p.attr("class", numberClass[numbers])
	} else {
		numbers = len(t.Head)
	}
	p.raw(">\n")
	for i := range t.Rows {
		p.row(&t.Rows[i], numbers)
	}
	p.raw("</tbody></table></div>\n")
}

// numberClass are the style sheet's classes of bodies whose columns hold
// numbers from that one on (counted from 0).
var numberClass = [...]string{"", "n1", "n2", "n3", "n4"}

// numbersFrom is the first of the columns that hold numbers down to the last
// column but those of text at the end. Saying it once for the table is
// shorter than in each field.
func numbersFrom(t *Table) int {
	first := slices.IndexFunc(t.Head, func(h Column) bool { return h.Class == "n" })
	if first < 1 || len(t.Head)-first < 4 {
		return len(numberClass)
	}
	return first
}

func (p *printer) row(r *Row, numbers int) {
	p.raw("<tr")
	p.attr("id", r.ID)
	if r.Mark.Class != "pass" {
		p.attr("class", r.Mark.Class)
	}
	// A row that went well says so by its first status; the filter reads it there.
	if r.Mark.Class != "pass" {
		p.attr("data-state", r.Mark.Word)
	}
	p.raw(">")
	for i := range r.Cells {
		p.cell(&r.Cells[i], i >= numbers)
	}
	p.raw("\n")
}

func (p *printer) cell(c *Cell, number bool) {
	class := c.Class
	if number {
		if rest, ok := strings.CutPrefix(class, "n"); ok && (rest == "" || rest[0] == ' ') {
			class = strings.TrimPrefix(rest, " ")
		} else if class == "" && c.Mark == nil {
			class = "t"
		} else {
			class = strings.TrimSpace("t " + class)
		}
	}
	m := c.Mark
	short := m != nil && m.Class == "pass" && m.Title == "" && class == "" && c.Small == "" && c.Text == "" && c.Bar == nil
	if short {
		class = "p"
	}
	p.raw("<td")
	p.attr("class", class)
	p.attr("title", c.Title)
	if c.HasRaw {
		p.always("data-v", c.Raw)
	}
	p.attr("data-sort", c.Sort)
	p.raw(">")
	switch {
	case short:
		p.text(m.Word)
	case m != nil:
		p.mark(m)
	}
	if c.Bar != nil {
		p.bar(c.Bar)
	}
	if s := c.Spark; s != nil {
		p.raw(`<svg class=spark viewBox="0 0 100 24" preserveAspectRatio=none role=img`)
		p.attr("aria-label", s.Label)
		p.raw("><path class=line")
		p.attr("d", s.Line)
		p.raw("></path><path class=dot")
		p.attr("d", s.Dot)
		p.raw("></path></svg>")
	}
	if c.Href != "" || c.Page != "" {
		to := c.Page
		if c.Href != "" {
			to = "#" + c.Href
		}
		p.raw("<a")
		p.attr("href", to)
		p.raw(">")
		p.text(c.Text)
		p.raw("</a>")
	} else {
		p.text(c.Text)
	}
	if c.Small != "" {
		p.raw("<span class=x>")
		p.text(c.Small)
		p.raw("</span>")
	}
}

// mark writes a state; one with a reason can be focused, so that the reason is
// not for the mouse alone.
func (p *printer) mark(m *Mark) {
	p.raw("<span")
	p.attr("class", "s "+m.Class)
	if m.Title != "" {
		p.attr("title", m.Title)
		p.raw(" tabindex=0")
	}
	p.raw(">")
	p.text(m.Word)
	p.raw("</span>")
}

// bar writes a drawing: attributes, not styles, which the page's policy forbids.
func (p *printer) bar(b *Bar) {
	p.raw(`<svg class="bar`)
	if b.Middle {
		p.raw(" mid")
	}
	p.raw(`" viewBox="0 0 100 1" preserveAspectRatio=none aria-hidden=true>`)
	for _, part := range b.Parts {
		p.raw("<rect")
		p.attr("class", part.Class)
		p.attr("x", part.X)
		p.attr("width", part.W)
		p.raw(" height=1></rect>")
	}
	p.raw("</svg>")
}
