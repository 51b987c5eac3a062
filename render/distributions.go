package render

import (
	"fmt"
	"strconv"

	"cvs/warehouse"
)

// maxDistributions bounds the cells whose distributions a deck shows.
const maxDistributions = 64

// measures are what is known of single requests, in display order.
var measures = []struct{ name, label string }{{"ttft", "TTFT"}, {"tpot", "TPOT"}, {"e2el", "E2EL"}}

// shares are the columns of the distributions' table, as probabilities.
var shares = []struct {
	p    float64
	head string
}{{0, "Fastest"}, {0.1, "P10"}, {0.5, "Median"}, {0.9, "P90"}, {0.95, "P95"}, {0.99, "P99"}, {1, "Slowest"}}

// distributions draw how the times of single requests are spread, per shape a
// line a concurrency; nil where the client kept no such times.
func (b *builder) distributions() *Section {
	if len(b.d.Quantiles) == 0 && b.d.Problems["distributions"] == "" {
		return nil
	}
	s := &Section{ID: "distributions", Title: "Distributions", Queries: b.sql("SELECT * FROM request_quantiles WHERE run_id = %s"),
		Intro: "The times of single requests of each cell, from the fastest to the slowest: at 90 % nine of ten requests were at least as fast. Requests that failed are left out."}
	type line struct{ cell, host, measure string }
	by := map[line][]warehouse.QuantileRow{}
	var order []line
	for _, r := range b.d.Quantiles {
		k := line{r.CellKey, r.Host, r.Measure}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], r)
	}
	shown, left := map[string]bool{}, 0
	for _, c := range b.worstFirst() {
		switch {
		case !b.hasQuantiles(c.CellKey):
		case len(shown) < maxDistributions:
			shown[c.CellKey] = true
		default:
			left++
		}
	}
	if left > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s not shown; the query below gives them.", plural(left, "more cell")))
	}
	t := &Table{ID: "distribution-table", Caption: "Distributions", Tall: true, Tools: true, Head: []Column{{Text: "Cell"}, {Text: "Of a request", Filter: true}, {Text: "Requests", Class: "n"}}}
	for _, x := range shares {
		t.Head = append(t.Head, Column{Text: x.head, Unit: "ms", Class: "n"})
	}
	for _, g := range b.shapes() {
		sh := Shape{Title: g.title}
		for _, m := range measures {
			f := &Figure{ID: anchor("quantile", fmt.Sprintf("%s-%d-%d", m.name, g.isl, g.osl), b.ids), Title: m.label + " of a request", Unit: "ms", data: figureData{kind: "quantile", metric: "mean_" + m.name + "_ms", cells: g.cells}}
			for _, c := range g.cells {
				if !shown[c.CellKey] {
					continue
				}
				for _, k := range order {
					if k.cell != c.CellKey || k.measure != m.name {
						continue
					}
					l := series{label: strconv.Itoa(c.Concurrency)}
					row := Row{Cells: []Cell{b.cellLink(c), {Text: m.label}, whole(by[k][0].Requests)}}
					row.Cells[0].Small = text(k.host)
					for _, r := range by[k] {
						l.points = append(l.points, xy{100 * r.Probability, r.MS})
					}
					for _, x := range shares {
						row.Cells = append(row.Cells, quantileCell(by[k], x.p, "mean_"+m.name+"_ms"))
					}
					t.Rows = append(t.Rows, row)
					f.data.also = append(f.data.also, l)
				}
			}
			if f.data.also == nil {
				continue
			}
			f.Label = "one line a concurrency"
			f.Alt = fmt.Sprintf("%s, %s of single requests from the fastest to the slowest, at %s.", g.title, m.label, plural(len(f.data.also), "concurrency level"))
			sh.Figures = append(sh.Figures, f)
		}
		if sh.Figures != nil && !b.large() {
			s.Shapes = append(s.Shapes, sh)
		}
	}
	s.Tables = []*Table{t}
	return s
}

func (b *builder) hasQuantiles(key string) bool {
	for i := range b.d.Quantiles {
		if b.d.Quantiles[i].CellKey == key {
			return true
		}
	}
	return false
}

func quantileCell(rows []warehouse.QuantileRow, p float64, name string) Cell {
	for _, r := range rows {
		if r.Probability == p && finite(r.MS) {
			return Cell{Text: rounded(name, r.MS), Class: "n", Title: exact(r.MS), Raw: exact(r.MS), HasRaw: true}
		}
	}
	return Cell{Text: "—", Class: "n dim", HasRaw: true}
}
