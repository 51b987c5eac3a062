package render

import (
	"bytes"
	"compress/gzip"
	"encoding/ascii85"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// static is how many cells are printed with all their gates and metrics as
// tables. Beyond it those of the cells that need no attention are data, which a
// script shows when it is asked for: forty rows for each of a thousand cells
// are twelve megabytes that nobody reads.
const static = 64

// blob is the page's data: exact values, gates and commands of every cell of a
// large deck, and the points of all charts. It is strict JSON, safe to stand in
// a script element, and compressed in a large deck.
//
// Numbers stand in columns whose heads are said once. Shape:
//
//	{"names":[…], "labels":[…], "units":[…], "digits":[…|null], "origins":[…],
//	 "specs":[[name, kind, tolerance, reference]…], "files":[…], "servers":[…],
//	 "cells":[[key, state, [[host, [value…], {name: [text as written, origin]}]…],
//	           [[host, [spec…], [wanted…], [state…], [margin…], file, [line step…], {row: [reason, got text, got]}]…],
//	           [[repeat, host, status, exit status, server, start, warm, client]…],
//	           null | [anchor, name, gates in a line, headline]]…],
//	 "options":{kind: ECharts option}, "shapes":[{"title":…, "section":…, "cells":[place in cells…], "figures":[…]}…]}
//
// The last of a cell is null where its card is part of the page. In a large deck
// a point's value is [place in the shape's cells, place of the host], and its gate
// [place in the shape's cells, place of the host's gates, row]: the numbers stand
// with their cell.
type blob struct {
	b     []byte
	names []string
	index map[string]int
	specs []string
	spec  map[string]int
	words map[string]*wordList
}

// A wordList numbers texts that repeat.
type wordList struct {
	index map[string]int
	list  []string
}

func (w *wordList) of(s string) int {
	i, ok := w.index[s]
	if !ok {
		i = len(w.list)
		w.index[s] = i
		w.list = append(w.list, s)
	}
	return i
}

// text appends s as JSON that may stand inside a script element.
func (d *blob) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			// encoding/json also escapes what ends a script element.
			j, err := json.Marshal(text(s))
			if err != nil {
				j = []byte(`""`) // cannot happen for a string
			}
			d.b = append(d.b, j...)
			return
		}
	}
	d.b = append(d.b, '"')
	d.b = append(d.b, s...)
	d.b = append(d.b, '"')
}

func (d *blob) raw(s string) { d.b = append(d.b, s...) }

func (d *blob) int(n int) { d.b = strconv.AppendInt(d.b, int64(n), 10) }

// number appends v with all its digits; what JSON cannot hold is null.
func (d *blob) number(v *float64) {
	if v == nil || !finite(*v) {
		d.raw("null")
		return
	}
	d.float(*v)
}

// float appends v as JSON with the digits that read back as the same number.
func (d *blob) float(v float64) {
	format := byte('e')
	if a := math.Abs(v); v == 0 || a >= 1e-6 && a < 1e21 {
		format = 'f'
	}
	d.b = strconv.AppendFloat(d.b, v, format, -1, 64)
}

func (d *blob) texts(list []string) {
	d.raw("[")
	for i, s := range list {
		d.comma(i)
		d.text(s)
	}
	d.raw("]")
}

func (d *blob) comma(i int) {
	if i > 0 {
		d.b = append(d.b, ',')
	}
}

// data packs what the page's script needs: a JSON object, or in a large deck a
// JSON string that holds it gzipped in base 85, which is 6 % shorter than base 64.
func (b *builder) data(sections []*Section) (template.JS, error) {
	d := &blob{index: map[string]int{}, spec: map[string]int{}, words: map[string]*wordList{}}
	for _, k := range []string{"file", "server"} {
		d.words[k] = &wordList{index: map[string]int{}}
	}
	d.raw("{")
	if b.large() {
		b.cellData(d)
		d.raw(",")
	}
	if err := chartData(d, sections); err != nil {
		return "", err
	}
	d.raw("}")
	if !b.large() {
		return template.JS(d.b), nil
	}
	var packed bytes.Buffer
	packed.WriteByte('"')
	enc := ascii85.NewEncoder(&packed)
	z, err := gzip.NewWriterLevel(enc, gzip.DefaultCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(d.b); err != nil {
		return "", err
	}
	if err := errors.Join(z.Close(), enc.Close()); err != nil {
		return "", err
	}
	for i, c := range packed.Bytes()[1:] {
		if k := strings.IndexByte(unsafe85, c); k >= 0 {
			packed.Bytes()[1+i] = instead85[k]
		}
	}
	packed.WriteByte('"')
	return template.JS(packed.Bytes()), nil
}

// What base 85 has and a JSON string in a script element should not, and what
// stands for it there.
const unsafe85, instead85 = "\"\\<>&", "vwxy{"

func (b *builder) large() bool { return len(b.cells) > static }

// metricNames are the metrics of any cell, in display order; unknown ones last.
func (b *builder) metricNames() []string {
	have := map[string]bool{}
	for i := range b.d.Metrics {
		have[b.d.Metrics[i].Metric] = true
	}
	for _, g := range b.gates {
		if g.CellKey != "" {
			have[g.Metric] = true
		}
	}
	var out []string
	for _, def := range metric.Table() {
		if have[def.Name] {
			out = append(out, def.Name)
			delete(have, def.Name)
		}
	}
	known := len(out)
	for name := range have {
		out = append(out, name)
	}
	slices.Sort(out[known:])
	return out
}

func (b *builder) cellData(d *blob) {
	d.names = b.names
	for i, n := range d.names {
		d.index[n] = i
	}
	d.raw(`"names":`)
	d.texts(d.names)
	d.raw(`,"labels":[`)
	for i, n := range d.names {
		d.comma(i)
		d.text(labelOf(n))
	}
	units := make([]string, len(d.names))
	origins := make([]string, len(d.names))
	seen := make([]bool, len(d.names))
	for i := range b.d.Metrics {
		m := &b.d.Metrics[i]
		if k := d.index[m.Metric]; !seen[k] {
			seen[k], units[k], origins[k] = true, m.Unit, origin(m)
		}
	}
	d.raw(`],"units":`)
	d.texts(units)
	d.raw(`,"digits":[`)
	for i, n := range d.names {
		d.comma(i)
		if def, ok := lookup(n); ok {
			d.int(def.Digits)
		} else {
			d.raw("null")
		}
	}
	d.raw(`],"origins":`)
	d.texts(origins)
	d.raw(`,"cells":[`)
	for i, c := range b.worstFirst() {
		d.comma(i)
		d.raw("\n[")
		d.text(c.CellKey)
		d.raw(",")
		d.text(string(c.State))
		d.raw(",[")
		d.values(c, origins)
		d.raw("],[")
		d.gates(c)
		d.raw("],[")
		d.attempts(b.attempts[c.CellKey])
		d.raw("],")
		if c.attention() {
			d.raw("null]")
			continue
		}
		d.texts([]string{c.id, c.name, gateSummary(c), headline(c)})
		d.raw("]")
	}
	d.raw(`],"thin":[`) // the cells whose P99 rests on few requests
	for n, i := 0, 0; i < len(b.order); i++ {
		if b.order[i].thin != "" {
			d.comma(n)
			d.int(i)
			n++
		}
	}
	d.raw(`],"specs":[`)
	d.raw(strings.Join(d.specs, ","))
	d.raw(`],"files":`)
	d.texts(d.words["file"].list)
	d.raw(`,"servers":`)
	d.texts(d.words["server"].list)
}

// origin is where a value comes from, in words.
func origin(m *warehouse.MetricRow) string {
	s := orDash(strings.TrimSuffix(m.Key, ":")) // vLLM's goodput key ends in one
	if m.Derived {
		s = "derived"
	}
	if m.Note != "" {
		s += ": " + m.Note
	}
	if m.Repeats > 1 {
		s += fmt.Sprintf(" (median of %d)", m.Repeats)
	}
	return s
}

// values appends the cell's metrics, host by host.
func (d *blob) values(c *cell, origins []string) {
	values := make([]*warehouse.MetricRow, len(d.names))
	for from, n := 0, 0; from < len(c.metrics); n++ {
		host, to := c.metrics[from].Host, from
		clear(values)
		for ; to < len(c.metrics) && c.metrics[to].Host == host; to++ {
			values[d.index[c.metrics[to].Metric]] = c.metrics[to]
		}
		from = to
		d.comma(n)
		d.raw("[")
		d.text(host)
		d.raw(",[")
		for i, m := range values {
			d.comma(i)
			if m == nil {
				d.raw("null") // and nothing in the list of oddities: not in this result
				continue
			}
			d.number(m.Value)
		}
		d.raw("],{")
		odd := 0
		for i, m := range values {
			if m == nil {
				continue
			}
			shown := ""
			if m.Value == nil || !finite(*m.Value) {
				shown = m.Text
				if shown == "" && m.Value != nil {
					shown = grouped(*m.Value, 0)
				}
			}
			from := origin(m)
			if m.Value != nil && shown == "" && from == origins[i] {
				continue
			}
			d.comma(odd)
			odd++
			d.raw(`"` + strconv.Itoa(i) + `":[`)
			d.text(shown)
			d.raw(",")
			d.text(from)
			d.raw("]")
		}
		d.raw("}]")
	}
}

// gates appends the cell's gates, host by host, as columns.
func (d *blob) gates(c *cell) {
	for from, n := 0, 0; from < len(c.gates); n++ {
		first, to := c.gates[from], from
		for ; to < len(c.gates) && c.gates[to].Host == first.Host && c.gates[to].File == first.File; to++ {
		}
		rows := c.gates[from:to]
		from = to
		d.comma(n)
		d.raw("[")
		d.text(first.Host)
		column := func(f func(g *warehouse.GateRow)) {
			d.raw(",[")
			for i, g := range rows {
				d.comma(i)
				f(g)
			}
			d.raw("]")
		}
		column(func(g *warehouse.GateRow) { d.int(d.specOf(g)) })
		column(func(g *warehouse.GateRow) { d.number(g.Wanted) })
		column(func(g *warehouse.GateRow) { d.text(stateCode(g)) })
		column(func(g *warehouse.GateRow) {
			if g.MarginPct == nil || !finite(*g.MarginPct) {
				d.raw("null")
				return
			}
			// As it is shown: the exact one can be had from its two numbers.
			d.b = strconv.AppendFloat(d.b, *g.MarginPct, 'f', percentDigits(*g.MarginPct), 64)
		})
		d.raw(",")
		d.int(d.words["file"].of(first.File))
		line := 0
		column(func(g *warehouse.GateRow) { d.int(g.Line - line); line = g.Line })
		d.raw(",{")
		odd := 0
		for i, g := range rows {
			m := c.metric(g.Metric)
			same := g.Got == nil && g.GotText == "" || g.Got != nil && m.Value != nil && *g.Got == *m.Value && g.Host == m.Host
			reason := g.Reason
			if g.State == warehouse.Pass {
				reason = "" // says nothing that its row does not show
			}
			if same && (g.Got != nil) == (m.Value != nil) && reason == "" {
				continue
			}
			d.comma(odd)
			odd++
			d.raw(`"` + strconv.Itoa(i) + `":[`)
			d.text(reason)
			d.raw(",")
			d.text(g.GotText)
			d.raw(",")
			d.number(g.Got)
			d.raw("]")
		}
		d.raw("}]")
	}
}

// stateCode is the state of a gate, and whether a bound that is not enforced is
// violated.
func stateCode(g *warehouse.GateRow) string {
	if g.State == warehouse.Record && g.WouldFail {
		return "would"
	}
	return string(shown(g))
}

func (d *blob) specOf(g *warehouse.GateRow) int {
	key := g.Metric + "\x00" + g.Kind + "\x00" + g.Reference
	if g.TolerancePct != nil {
		key += "\x00" + exact(*g.TolerancePct)
	}
	i, ok := d.spec[key]
	if !ok {
		s := &blob{}
		s.raw("[")
		s.int(d.index[g.Metric])
		s.raw(",")
		s.text(g.Kind)
		s.raw(",")
		s.number(g.TolerancePct)
		s.raw(",")
		s.text(g.Reference)
		s.raw("]")
		i = len(d.specs)
		d.specs = append(d.specs, string(s.b))
		d.spec[key] = i
	}
	return i
}

func (d *blob) attempts(list []warehouse.AttemptRow) {
	for i, a := range list {
		d.comma(i)
		d.raw("[")
		d.int(a.Repeat)
		d.raw(",")
		d.text(a.Host)
		d.raw(",")
		d.text(a.Status)
		d.raw(",")
		if a.ExitCode == nil {
			d.raw("null")
		} else {
			d.int(*a.ExitCode)
		}
		d.raw(",")
		d.int(d.words["server"].of(command(a.ServerArgv)))
		d.raw(",")
		d.int(a.ServerSession)
		d.raw(",")
		d.raw(strconv.FormatBool(a.Warm))
		d.raw(",")
		d.text(command(a.ClientArgv))
		d.raw("]")
	}
}
