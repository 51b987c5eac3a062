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
	if first < 1 {
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
	// A row that passed says so by its first status; the filter reads it there.
	if r.Mark.Class != "pass" || r.Mark.Word != "pass" {
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
		p.raw(` data-v="`)
		p.text(c.Raw)
		p.raw(`"`)
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
	if c.Href != "" {
		p.raw("<a")
		p.attr("href", "#"+c.Href)
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
