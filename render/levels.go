package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"cvs/warehouse"
)

// serviceLevel is how far each shape meets the level that was asked about.
func (b *builder) serviceLevel() *Section {
	q := &b.d.Beside
	if q.Level == "" {
		return b.failedPanel("slo", "Service level")
	}
	s := &Section{ID: "slo", Title: "Service level", Count: strconv.Itoa(len(q.SLO)), Queries: b.sql("SELECT * FROM slo(%s, " + levelSQL(q.Want) + ")"),
		Intro: "The highest measured concurrency of each shape at which " + text(q.Level) + ". A missing value does not meet it; nothing is interpolated. This is an answer, not a gate."}
	t := &Table{ID: "slo-table", Caption: "Highest concurrency that meets the service level", Tools: true, Head: []Column{{Text: "ISL", Class: "n"}, {Text: "OSL", Class: "n"}, {Text: "Shape"},
		{Text: "Concurrency", Class: "n"}, {Text: "Next that does not", Class: "n"}, {Text: "Because"}, {Text: "Measured", Class: "n"}}}
	for _, r := range q.SLO {
		best, why := levelCells(&r)
		next := Cell{Text: "—", Class: "n dim", HasRaw: true}
		if r.NextConcurrency != nil {
			next = Cell{Text: grouped(float64(*r.NextConcurrency), 0), Class: "n"}
		}
		t.Rows = append(t.Rows, Row{Mark: Mark{Class: "info"}, Cells: []Cell{whole(r.ISL), whole(r.OSL), {Text: text(r.Shape), Class: "id"}, best, next, why, {Text: fmt.Sprintf("%d of %d", r.Measured, r.Cells), Class: "n"}}})
	}
	s.Tables = []*Table{t}
	if t.Rows == nil {
		s.Tables, s.Empty = nil, "No cell was planned and no result was found."
	}
	return s
}

// levels says how far each run meets the service level that was asked about;
// nil where none was.
func (v comparisonView) levels() *Section {
	if v.c.Level == "" {
		return nil
	}
	s := &Section{ID: "slo", Title: "Service level",
		Intro: "The highest measured concurrency of each shape at which " + text(v.c.Level) + ", and why the next one does not meet it. A missing value does not meet it; nothing is interpolated. This is an answer, not a gate."}
	t := &Table{ID: "slo-table", Caption: "Highest concurrency that meets the service level", Tools: true, Head: []Column{{Text: "ISL", Class: "n"}, {Text: "OSL", Class: "n"}, {Text: "Shape"}}}
	type shape struct {
		isl, osl int
		name     string
	}
	var order []shape
	by := map[shape][]*warehouse.SLORow{}
	sides := v.c.sides()
	for i := range sides {
		t.Head = append(t.Head, Column{Text: v.names[i], Title: "concurrency", Class: "n"}, Column{Text: "Then, in " + v.names[i]})
		for j := range sides[i].SLO {
			r := &sides[i].SLO[j]
			k := shape{r.ISL, r.OSL, r.Shape}
			if by[k] == nil {
				by[k], order = make([]*warehouse.SLORow, len(sides)), append(order, k)
			}
			by[k][i] = r
		}
		if sides[i].Run != nil {
			s.Queries = append(s.Queries, strings.ReplaceAll("SELECT * FROM slo("+quoted(sides[i].Run.RunID)+", "+levelSQL(v.c.Want)+");", "%%", "%"))
		} else {
			s.Notes = append(s.Notes, v.names[i]+" is not in the warehouse of "+v.names[0]+": how far it meets the level is not known.")
		}
	}
	for _, k := range order {
		row := Row{Mark: Mark{Class: "info"}, Cells: []Cell{whole(k.isl), whole(k.osl), {Text: text(k.name), Class: "id"}}}
		for i, r := range by[k] {
			switch {
			case r != nil:
				best, why := levelCells(r)
				row.Cells = append(row.Cells, best, why)
			case sides[i].Run == nil:
				row.Cells = append(row.Cells, Cell{Text: "not known", Class: "n dim", HasRaw: true}, Cell{Text: "—"})
			default:
				row.Cells = append(row.Cells, Cell{Text: "not measured", Class: "n dim", HasRaw: true}, Cell{Text: "—"})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	s.Count, s.Tables = strconv.Itoa(len(t.Rows)), []*Table{t}
	if t.Rows == nil {
		s.Count, s.Tables, s.Empty = "", nil, "No run has a cell."
	}
	return s
}

// levelCells are the highest concurrency that meets a level, and why no higher
// one does.
func levelCells(r *warehouse.SLORow) (best, why Cell) {
	best, because := Cell{Text: "none", Class: "n bad", Raw: "0", HasRaw: true}, text(r.NextReason)
	if r.Concurrency != nil {
		best = Cell{Text: grouped(float64(*r.Concurrency), 0), Class: "n"}
	}
	if r.OpenEnd {
		because = "the highest measured concurrency meets it: the limit is not known"
	}
	if r.MissedBelow != "" {
		because = strings.TrimPrefix(because+"; missed at the lower "+text(r.MissedBelow), "; ")
	}
	return best, Cell{Text: orDash(because), Class: "w"}
}

// levelSQL is a service level as a text of SQL, for a format.
func levelSQL(want []warehouse.Objective) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)     // a reader copies it
	if e.Encode(want) != nil { // a bound that is no number; it was refused long before
		return "'[]'"
	}
	quoted := strings.ReplaceAll(text(strings.TrimSpace(b.String())), "'", "''")
	return "'" + strings.ReplaceAll(quoted, "%", "%%") + "'"
}
