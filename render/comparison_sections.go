package render

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cvs/warehouse"
)

var keyParts = regexp.MustCompile(`^ISL=(\d{1,9}),OSL=(\d{1,9}),.*CONC=(\d{1,9})$`)

// values are a side's measurements by cell and metric. Of several hosts only the
// first is kept, as in the charts of a run deck.
func (s Side) values() others {
	o := others{values: map[[2]string]float64{}}
	for _, x := range s.Baseline.Values {
		k := [2]string{x.CellKey, x.Metric}
		if _, dup := o.values[k]; !dup && x.Value != nil && finite(*x.Value) {
			o.values[k] = *x.Value
		}
	}
	return o
}

// sides are the values of all runs under their names.
func (v comparisonView) sides() []others {
	all := []others{v.c.Now.values()}
	for _, p := range v.c.Pairs {
		all = append(all, p.Other.values())
	}
	for i := range all {
		all[i].label = v.lines[i]
	}
	return all
}

// shapes are the cells of any of the runs, by input and output length.
func (v comparisonView) shapes(all []others) []*group {
	keys := map[string]bool{}
	for _, o := range all {
		for k := range o.values {
			keys[k[0]] = true
		}
	}
	by := map[[2]int]*group{}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		m := keyParts.FindStringSubmatch(k)
		if m == nil {
			continue
		}
		number := func(i int) int { n, _ := strconv.Atoi(m[i]); return n } // nine digits always are one
		c := &cell{CellStatusRow: warehouse.CellStatusRow{CellKey: k, ISL: number(1), OSL: number(2), Concurrency: number(3)}, name: text(k)}
		g := by[[2]int{c.ISL, c.OSL}]
		if g == nil {
			g = &group{isl: c.ISL, osl: c.OSL, title: fmt.Sprintf("%s input, %s output tokens", grouped(float64(c.ISL), 0), grouped(float64(c.OSL), 0))}
			by[[2]int{c.ISL, c.OSL}] = g
		}
		g.cells = append(g.cells, c)
	}
	out := slices.Collect(maps.Values(by))
	slices.SortFunc(out, func(a, b *group) int { return cmp.Or(cmp.Compare(a.isl, b.isl), cmp.Compare(a.osl, b.osl)) })
	for _, g := range out {
		slices.SortStableFunc(g.cells, func(a, b *cell) int { return cmp.Compare(a.Concurrency, b.Concurrency) })
	}
	return out
}

// maxShapes bounds the shapes whose charts a comparison deck shows.
const maxShapes = 24

// drawn are the shapes to draw: of many those with something worse before the
// others, and how many are left out.
func (v comparisonView) drawn(all []others) (shapes []*group, left int) {
	shapes = v.shapes(all)
	if len(shapes) <= maxShapes {
		return shapes, 0
	}
	worse := map[string]bool{}
	for _, p := range v.c.Pairs {
		for _, r := range p.Rows {
			if r.Regression {
				worse[r.CellKey] = true
			}
		}
	}
	rank := func(g *group) int {
		if slices.ContainsFunc(g.cells, func(c *cell) bool { return worse[c.CellKey] }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(shapes, func(a, b *group) int { return rank(a) - rank(b) })
	return shapes[:maxShapes], len(shapes) - maxShapes
}

// leftOut says what a section does not draw.
func leftOut(s *Section, left int) {
	if left > 0 {
		s.Notes = append(s.Notes, plural(left, "more shape")+" not drawn; shapes with something worse come first.")
	}
}

// charts draw all runs against concurrency.
func (v comparisonView) charts() *Section {
	s := &Section{ID: "charts", Title: "Against concurrency", Queries: v.query("a.metric IN ('" + strings.Join(chartMetrics, "', '") + "')"),
		Intro: "The same cells of all runs. Values start at zero; concurrency is on a base-2 scale."}
	all := v.sides()
	shapes, left := v.drawn(all)
	leftOut(s, left)
	for _, g := range shapes {
		sh := Shape{Title: g.title, cells: g.cells}
		for _, name := range chartMetrics {
			cv := curve{id: anchor("chart", fmt.Sprintf("%s-%d-%d", name, g.isl, g.osl), v.b.ids), metric: name, label: v.lines[0], title: labelOf(name), unit: unitOf(name)}
			for i, c := range g.cells {
				p := point{cell: i, conc: c.Concurrency, missing: "not measured in " + v.names[0]}
				if y, ok := all[0].values[[2]string{c.CellKey, name}]; ok {
					p.value, p.missing = &y, ""
				}
				cv.points = append(cv.points, p)
			}
			drawn := slices.ContainsFunc(cv.points, func(p point) bool { return p.value != nil })
			for _, o := range all[1:] {
				if line := o.against(g.cells, name); line.points != nil {
					cv.also, drawn = append(cv.also, line), true
				}
			}
			if !drawn {
				continue
			}
			f := cv.figure(true)
			f.Alt = g.title + ", " + f.Alt
			sh.Figures = append(sh.Figures, f)
		}
		if sh.Figures != nil {
			s.Shapes = append(s.Shapes, sh)
		}
	}
	if s.Shapes == nil {
		s.Empty = "No cell has a number that could be drawn."
	}
	return s
}

// fronts draw throughput per GPU against interactivity with the front of each
// run.
func (v comparisonView) fronts() *Section {
	s := &Section{ID: "interactivity", Title: "Interactivity", Queries: v.query("a.metric IN ('" + frontMetric + "', 'mean_tpot_ms')"),
		Intro: "Total throughput per GPU against what one user sees, 1000 / mean TPOT, with the Pareto front of each run."}
	all := v.sides()
	var figures []*Figure
	shapes, left := v.drawn(all)
	leftOut(s, left)
	for _, g := range shapes {
		f := &Figure{ID: anchor("front", fmt.Sprintf("%d-%d", g.isl, g.osl), v.b.ids), Title: g.title, Label: v.lines[0], Unit: "tok/s", data: figureData{kind: "front", metric: frontMetric, cells: g.cells}}
		for i, c := range g.cells {
			tpot, y := all[0].values[[2]string{c.CellKey, "mean_tpot_ms"}], all[0].values[[2]string{c.CellKey, frontMetric}]
			if tpot > 0 && y > 0 {
				f.data.points = append(f.data.points, point{cell: i, conc: c.Concurrency, x: 1000 / tpot, value: &y, name: c.name})
			}
		}
		paretoFront(f.data.points)
		var fronts []series
		for _, o := range all[1:] {
			if line := o.front(g.cells); line.points != nil {
				fronts = append(fronts, line)
			}
		}
		if len(f.data.points) == 0 {
			continue
		}
		f.labels(fronts)
		f.Alt = fmt.Sprintf("%s: throughput per GPU against interactivity, %s.", g.title, plural(len(f.data.points), "cell"))
		figures = append(figures, f)
	}
	if figures == nil {
		s.Empty = "No cell has both a throughput per GPU and a mean TPOT."
		return s
	}
	s.Shapes = []Shape{{Figures: figures}}
	return s
}

// beside is every cell with the values of all runs in one row.
func (v comparisonView) beside() *Section {
	s := &Section{ID: "beside", Title: "Side by side", Queries: v.query("a.metric IN ('" + strings.Join(meanMetrics, "', '") + "')"), Intro: "The values of all runs in one row; the change says how " + v.names[0] + " compares, + is better."}
	t := &Table{ID: "beside-table", Caption: "Side by side", Tall: true, Tools: true, Head: []Column{{Text: "Cell"}, {Text: "Metric", Filter: true}, {Text: v.names[0], Class: "n"}}}
	for _, n := range v.names[1:] {
		t.Head = append(t.Head, Column{Text: n, Class: "n"}, Column{Text: "Change", Title: "of " + v.names[0] + " against " + n, Class: "n"})
	}
	all := v.sides()
	compared := make([]map[[2]string]ComparedRow, len(v.c.Pairs))
	for i, p := range v.c.Pairs {
		compared[i] = map[[2]string]ComparedRow{}
		for _, r := range p.Rows {
			if _, dup := compared[i][[2]string{r.CellKey, r.Metric}]; !dup {
				compared[i][[2]string{r.CellKey, r.Metric}] = r
			}
		}
	}
	for _, g := range v.shapes(all) {
		for _, c := range g.cells {
			for _, name := range meanMetrics {
				k := [2]string{c.CellKey, name}
				value := func(o others) Cell {
					if y, ok := o.values[k]; ok {
						return metricValue(&warehouse.MetricRow{Metric: name, Unit: unitOf(name), Value: &y}, true)
					}
					return Cell{Text: "not measured", Class: "n dim", HasRaw: true}
				}
				row := Row{Cells: []Cell{{Text: text(c.CellKey)}, metricCell(name), value(all[0])}}
				for i := range v.c.Pairs {
					change := Cell{Text: "—", Class: "n dim", HasRaw: true}
					r, ok := compared[i][k]
					if !ok {
						r = compared[i][[2]string{c.CellKey, ""}]
					}
					switch {
					case r.BetterPct != nil && finite(*r.BetterPct):
						change = v.b.number(*r.BetterPct, percent(*r.BetterPct))
						if r.Regression {
							change.Class = "n bad"
						}
					case r.State != "":
						change.Title = strings.ReplaceAll(text(r.State), "_", " ") + ": " + text(r.Reason)
						change.Text = strings.ReplaceAll(text(r.State), "_", " ")
					}
					row.Cells = append(row.Cells, value(all[i+1]), change)
				}
				t.Rows = append(t.Rows, row)
			}
		}
	}
	if t.Rows == nil {
		s.Empty = "No run has a cell."
		return s
	}
	s.Tables = []*Table{t}
	return s
}

// pair is every value against one other run, with its state.
func (v comparisonView) pair(i int) *Section {
	p := v.c.Pairs[i]
	s := &Section{ID: pairID(i), Title: "Against " + v.names[i+1], Queries: v.queryOf(i, "true"),
		Intro: "Every gated metric of every cell; + is better in " + v.names[0] + ". New: only there. Gone: only in the other run. More than 5 % to the worse is marked; one run against one other cannot tell that from noise."}
	other := "Before"
	if p.Parity {
		s.Intro = "Output throughput, mean TTFT and mean TPOT of every cell; + is better in " + v.names[0] + " than in " + v.names[i+1] + ". Workloads whose mean lengths differ by more than 5 % are not compared."
		other = "Reference"
	}
	s = v.b.compared(s, p.Rows, other)
	s.Notes = append(s.Notes, "Means over cells are geometric; their 95 % intervals are Student's t over the logarithms of the ratios (macro mean_change). They say how far the mean would move with other cells, not how far the next run would be off.")
	return s
}

func (v comparisonView) changed(i int) *Section {
	p := v.c.Pairs[i]
	s := &Section{ID: fmt.Sprintf("changed-%d", i+1), Title: "What differs from " + v.names[i+1], Count: strconv.Itoa(len(p.Changed)),
		Intro: "What differs from it besides the results. A change in a number may come from here."}
	if p.Unknown != "" {
		s.Count, s.Empty = "", p.Unknown
		return s
	}
	s.Queries = v.b.sql("SELECT * FROM what_changed(" + quoted(p.Other.Baseline.RunID) + ", %s)")
	if len(p.Changed) == 0 {
		s.Empty = "Nothing that is recorded."
		return s
	}
	s.Tables = []*Table{changedTable(s.ID+"-table", s.first(p.Changed))}
	return s
}

// query asks for the values of all runs; queryOf for those of one pair.
func (v comparisonView) query(where string) []string {
	var out []string
	for i := range v.c.Pairs {
		out = append(out, v.queryOf(i, where)...)
	}
	return out
}

func (v comparisonView) queryOf(i int, where string) []string {
	if v.c.Pairs[i].Other.Run == nil {
		return nil // it is in no warehouse
	}
	return v.b.sql("SELECT a.cell_key, a.metric, b.value AS other, a.value AS now, 100 * (a.value / b.value - 1) AS change_pct FROM metrics a JOIN metrics b USING (cell_key, metric) WHERE a.run_id = %s AND b.run_id = " +
		quoted(v.c.Pairs[i].Other.Baseline.RunID) + " AND " + where)
}

// quoted is a run id as a text in the format of a query.
func quoted(id string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text(id), "%", "%%"), "'", "''") + "'"
}
