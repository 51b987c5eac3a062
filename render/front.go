package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"cvs/warehouse"
)

// frontMetric is what stands against interactivity.
const frontMetric = "per_gpu_throughput"

// front plots throughput per GPU against interactivity, per shape, and lists
// the cells that no other cell beats in both.
func (b *builder) front() *Section {
	s := &Section{ID: "interactivity", Title: "Interactivity", Queries: b.sql(
		"SELECT p.cell_key, p.value AS tok_s_gpu, 1000 / t.value AS tok_s_user FROM metrics p JOIN metrics t USING (run_id, cell_key, host) WHERE p.run_id = %s AND p.metric = '" + frontMetric + "' AND t.metric = 'mean_tpot_ms' AND t.value > 0"),
		Intro: "Total throughput per GPU against what one user sees, 1000 / mean TPOT. The line joins the Pareto front: the cells that no other cell of the same shape beats in both."}
	t := &Table{ID: "front-table", Caption: "Pareto front", Tall: true, Tools: true, Head: []Column{{Text: "Shape", Title: "input / output tokens"}, {Text: "Cell"},
		{Text: "Interactivity", Unit: "tok/s per user", Class: "n"}, {Text: "Throughput per GPU", Unit: "tok/s", Class: "n"}}}
	var figures []*Figure
	before := b.earlier()
	for _, g := range b.shapes() {
		f := &Figure{ID: anchor("front", fmt.Sprintf("%d-%d", g.isl, g.osl), b.ids), Title: g.title, Label: "Total throughput per GPU", Unit: "tok/s",
			data: figureData{kind: "front", metric: frontMetric, cells: g.cells}}
		for i, c := range g.cells {
			tpot, y := c.metric("mean_tpot_ms").Value, c.metric(frontMetric).Value
			// A run without a completed request has zeros for both.
			if c.State == warehouse.Error || tpot == nil || y == nil || !finite(*tpot) || !finite(*y) || *tpot <= 0 || *y <= 0 {
				continue
			}
			f.data.points = append(f.data.points, point{cell: i, conc: c.Concurrency, x: 1000 / *tpot, value: y, name: c.name, failed: c.State == warehouse.Fail})
			f.Bad = f.Bad || c.State == warehouse.Fail
		}
		if len(f.data.points) < 2 {
			continue // one cell is no front
		}
		paretoFront(f.data.points)
		var fronts []series
		for _, o := range before {
			if line := o.front(g.cells); line.points != nil {
				fronts = append(fronts, line)
			}
		}
		f.labels(fronts)
		for _, p := range f.data.points {
			if !p.front {
				continue
			}
			where := Cell{Text: p.name}
			if i := slices.IndexFunc(g.cells, func(c *cell) bool { return c.name == p.name }); i >= 0 {
				where = b.cellLink(g.cells[i])
			}
			t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: g.short()}, where, b.number(p.x, grouped(p.x, 2)), b.number(*p.value, rounded(frontMetric, *p.value))}})
		}
		f.Alt = fmt.Sprintf("%s: throughput per GPU against interactivity, %s.", g.title, plural(len(f.data.points), "cell"))
		figures = append(figures, f)
	}
	if figures == nil {
		s.Intro, s.Empty = "", "No shape has two cells with both a throughput per GPU and a mean TPOT."
		return s
	}
	s.Count = strconv.Itoa(len(t.Rows))
	if b.large() {
		for _, f := range figures {
			s.Shapes = append(s.Shapes, Shape{Title: f.Title, Figures: []*Figure{f}, cells: f.data.cells})
		}
		s.Folded = true
	} else {
		s.Shapes = []Shape{{Figures: figures}}
	}
	s.Tables = []*Table{t}
	return s
}

// paretoFront sorts points by x and marks those that no other beats in both.
func paretoFront(points []point) {
	slices.SortStableFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(*a.value, *b.value))
	})
	best := 0.0
	for i := range slices.Backward(points) {
		if v := *points[i].value; v > best {
			points[i].front, best = true, v
		}
	}
}

// A group is the cells of one input and output length.
type group struct {
	isl, osl int
	title    string
	cells    []*cell
}

// shapes groups the cells in the order of the plan.
func (b *builder) shapes() []*group {
	var order []*group
	by := map[[2]int]*group{}
	for _, c := range b.cells {
		k := [2]int{c.ISL, c.OSL}
		g := by[k]
		if g == nil {
			g = &group{isl: c.ISL, osl: c.OSL, title: fmt.Sprintf("%s input, %s output tokens", grouped(float64(c.ISL), 0), grouped(float64(c.OSL), 0))}
			if c.ISL == 0 || c.OSL == 0 {
				g.title = "Input and output length not stated"
			}
			by[k] = g
			order = append(order, g)
		}
		g.cells = append(g.cells, c)
	}
	return order
}

// concurrencies counts the different ones of a shape.
func (g *group) concurrencies() int {
	seen := map[int]bool{}
	for _, c := range g.cells {
		seen[c.Concurrency] = true
	}
	return len(seen)
}

func (g *group) short() string {
	if g.isl == 0 || g.osl == 0 {
		return "not stated"
	}
	return grouped(float64(g.isl), 0) + " / " + grouped(float64(g.osl), 0)
}

// number is a figure with its exact value beside it. In a large deck, where it
// can be had from the page's data, it is not written twice.
func (b *builder) number(v float64, shown string) Cell {
	if b.large() {
		return Cell{Text: shown, Class: "n"}
	}
	return Cell{Text: shown, Class: "n", Title: exact(v), Raw: exact(v), HasRaw: true}
}
