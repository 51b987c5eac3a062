package render

import (
	"cmp"
	"slices"
	"strconv"
)

// A series is the line of another run in a chart, such as the previous run's.
type series struct {
	label  string
	points []xy // by x
}

type xy struct{ x, y float64 }

// labels are the series' names for a legend.
func (f *Figure) labels(also []series) {
	for _, s := range also {
		f.Also = append(f.Also, s.label)
	}
	f.data.also = also
}

// at is the value at x; nil without one.
func (s series) at(x float64) *float64 {
	for i := range s.points {
		if s.points[i].x == x {
			return &s.points[i].y
		}
	}
	return nil
}

// others are the values that views compared those of a run with, by cell and
// metric. Of several hosts only the first is kept: a line has one value a point.
type others struct {
	label  string
	values map[[2]string]float64
}

// earlier are the previous and the golden run, where something was compared with
// them.
func (b *builder) earlier() []others {
	var out []others
	for _, s := range []struct {
		label string
		rows  []ComparedRow
	}{{"Previous run", b.d.Prev}, {"Golden run", b.d.Golden}} {
		o := others{s.label, map[[2]string]float64{}}
		for _, r := range s.rows {
			k := [2]string{r.CellKey, r.Metric}
			if _, dup := o.values[k]; !dup && r.State == "compared" && r.Other != nil && finite(*r.Other) {
				o.values[k] = *r.Other
			}
		}
		if len(o.values) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// against is the metric of these cells against concurrency.
func (o others) against(cells []*cell, name string) series {
	s := series{label: o.label}
	for _, c := range cells {
		if v, ok := o.values[[2]string{c.CellKey, name}]; ok {
			s.points = append(s.points, xy{float64(c.Concurrency), v})
		}
	}
	slices.SortStableFunc(s.points, func(a, b xy) int { return cmp.Compare(a.x, b.x) })
	return s
}

// front is the Pareto front of these cells.
func (o others) front(cells []*cell) series {
	var points []point
	for _, c := range cells {
		tpot, y := o.values[[2]string{c.CellKey, "mean_tpot_ms"}], o.values[[2]string{c.CellKey, frontMetric}]
		if tpot > 0 && y > 0 {
			points = append(points, point{x: 1000 / tpot, value: &y})
		}
	}
	paretoFront(points)
	s := series{label: o.label + ", front"}
	for _, p := range points {
		if p.front {
			s.points = append(s.points, xy{p.x, *p.value})
		}
	}
	return s
}

// ranges appends concurrency, least and most of the points that were repeated.
func (d *blob) ranges(f *Figure) {
	if f.Range == "" {
		return
	}
	d.raw(`,"range":[`)
	n := 0
	for _, p := range f.data.points {
		if p.low == nil {
			continue
		}
		d.comma(n)
		n++
		d.raw("[")
		d.int(p.conc)
		d.raw(",")
		d.number(p.low)
		d.raw(",")
		d.number(p.high)
		d.raw("]")
	}
	d.raw("]")
}

// also appends the lines of other runs. Six digits are more than a line shows;
// the exact values are in the comparison's table.
func (d *blob) also(all []series) {
	if len(all) == 0 {
		return
	}
	d.raw(`,"also":[`)
	for i, s := range all {
		d.comma(i)
		d.raw(`{"label":`)
		d.text(s.label)
		d.raw(`,"points":[`)
		for j, p := range s.points {
			d.comma(j)
			d.raw("[")
			d.b = strconv.AppendFloat(d.b, p.x, 'g', 6, 64)
			d.raw(",")
			d.b = strconv.AppendFloat(d.b, p.y, 'g', 6, 64)
			d.raw("]")
		}
		d.raw("]}")
	}
	d.raw("]")
}
