package render

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
)

// tableHTML prints a table. Rows are the part of a deck that there are
// thousands of: html/template spends two microseconds on each field of each of
// them, which is seconds for a large sweep, and end tags and quotes that HTML
// does not need are a third of its size. So they are written here, and every
// value goes through [printer.text] or [printer.attr].
func tableHTML(t *Table) (out template.HTML) {
	defer func() {
		if r := recover(); r != nil { // as in panel: the rows of a large deck are made here
			p := printer{}
			p.raw(`<p class="problem" role="alert">This table could not be printed: a mistake in cvs: `)
			p.text(text(fmt.Sprint(r)))
			p.raw("</p>\n")
			out = template.HTML(p.b)
		}
	}()
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
	p.mark(&Mark{Class: c.Mark.Class, Word: c.Mark.Word})
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
	columns, word := columnKinds(t)
	p.attr("class", columnClass(columns))
	p.attr("data-state", word)
	p.raw(">\n")
	for r := range t.rows() {
		p.row(r, columns, word)
	}
	p.raw("</tbody></table></div>\n")
}

// Kinds of field that most of a column may be of. The body of the table says
// them once, by column, which is shorter than a class in each field.
const (
	numberKind byte = 'n' // right-aligned
	passedKind byte = 'p' // nothing but the word of a status that went well
)

// mostColumns is the last column whose kind the style sheet has a rule for.
const mostColumns = 24

// kind is the kind of a field, 0 for any other, and the classes it has besides.
func (c *Cell) kind() (kind byte, rest string) {
	if rest, ok := strings.CutPrefix(c.Class, "n"); ok && (rest == "" || rest[0] == ' ') {
		return numberKind, strings.TrimPrefix(rest, " ")
	}
	if m := c.Mark; m != nil && m.Class == "pass" && m.Title == "" && c.Class == "" && c.Small == "" && c.Text == "" && c.Bar == nil {
		return passedKind, ""
	}
	return 0, c.Class
}

// columnKinds are the kinds of most fields of each column, and the status of the
// rows that went well, for the filter; "" where they have none or not all the
// same.
func columnKinds(t *Table) (kinds []byte, word string) {
	kinds = make([]byte, min(len(t.Head), mostColumns))
	numbers, passes := make([]int, len(kinds)), make([]int, len(kinds))
	n, one := 0, true
	for r := range t.rows() {
		n++
		for col := range min(len(kinds), len(r.Cells)) {
			switch k, _ := r.Cells[col].kind(); k {
			case numberKind:
				numbers[col]++
			case passedKind:
				passes[col]++
			}
		}
		switch m := &r.Mark; {
		case m.Class == "" || m.Class == "pass" && (m.Word == "" || word != "" && m.Word != word):
			one = false
		case m.Class == "pass":
			word = m.Word
		}
	}
	for col := range kinds {
		switch half := n / 2; {
		case numbers[col] > half:
			kinds[col] = numberKind
		case passes[col] > half:
			kinds[col] = passedKind
		}
	}
	if !one {
		word = ""
	}
	return kinds, word
}

// columnClass is one class for each column of a kind: n3 for numbers in the
// third.
func columnClass(kinds []byte) string {
	var b []byte
	for i, k := range kinds {
		if k == 0 {
			continue
		}
		if b != nil {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(append(b, k), int64(i+1), 10)
	}
	return string(b)
}

// row prints a line; common is the status that the table says for all rows that
// went well.
func (p *printer) row(r *Row, columns []byte, common string) {
	p.raw("<tr")
	p.attr("id", r.ID)
	if r.Mark.Class != "pass" {
		p.attr("class", r.Mark.Class)
	}
	if r.Mark.Class != "pass" || r.Mark.Word != common {
		p.attr("data-state", r.Mark.Word)
	}
	p.raw(">")
	for i := range r.Cells {
		var k byte
		if i < len(columns) {
			k = columns[i]
		}
		p.cell(&r.Cells[i], k)
	}
	// The end tag keeps the line break out of a last field that shows its own.
	p.raw("</tr>\n")
}

// cell prints a field of a column that is mostly of kind column.
func (p *printer) cell(c *Cell, column byte) {
	kind, class := c.kind()
	if kind != column {
		if kind != 0 {
			class = strings.TrimSpace(string(kind) + " " + class)
		}
		if column != 0 {
			class = strings.TrimSpace("t " + class)
		}
	}
	m, short := c.Mark, kind == passedKind
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
