package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// sql writes queries a reader can paste; the run id is quoted as SQL wants it.
func (b *builder) sql(formats ...string) []string {
	id := "'" + strings.ReplaceAll(text(b.d.Run.RunID), "'", "''") + "'"
	var out []string
	for _, f := range formats {
		out = append(out, fmt.Sprintf(f, id)+";")
	}
	return out
}

// chartMetrics are drawn against concurrency, in pairs.
var chartMetrics = []string{metric.Headline, "mean_ttft_ms", "mean_tpot_ms", "mean_itl_ms", "mean_e2el_ms", "p99_ttft_ms"}

// charts draws the chartMetrics of each shape.
func (b *builder) charts() *Section {
	s := &Section{ID: "charts", Title: "Against concurrency", Queries: b.sql(
		"SELECT cell_key, metric, value FROM metrics WHERE run_id = %s AND metric IN ('" + strings.Join(chartMetrics, "', '") + "')"),
		Intro: "Values start at zero; concurrency is on a base-2 scale. A point without a value is a gap and is named below its chart."}
	before := b.earlier()
	shapes, points := b.shapes(), 0
	for _, g := range shapes {
		if g.concurrencies() < 2 {
			points++
			continue // six frames with a dot in each say less than the row in Results
		}
		sh := Shape{Title: g.title, cells: g.cells}
		for _, name := range chartMetrics {
			cv := curve{id: anchor("chart", fmt.Sprintf("%s-%d-%d", name, g.isl, g.osl), b.ids),
				metric: name, label: labelOf(name), title: labelOf(name), unit: unitOf(name)}
			seen := false
			for i, c := range g.cells {
				p, sign := chartPoint(c, name)
				p.cell = i
				cv.points = append(cv.points, p)
				seen = seen || p.value != nil
				if sign != "" {
					cv.sign = sign
				}
			}
			if !seen && name != metric.Headline {
				continue // nothing to draw, and the headline's gaps say why
			}
			for _, o := range before {
				if line := o.against(g.cells, name); line.points != nil {
					cv.also = append(cv.also, line)
				}
			}
			f := cv.figure(!b.large())
			f.data.cells = g.cells
			f.Alt = g.title + ", " + f.Alt
			sh.Figures = append(sh.Figures, f)
		}
		s.Shapes = append(s.Shapes, sh)
	}
	if t := b.peaks(shapes); t.Rows != nil {
		s.Tables = []*Table{t}
	}
	if points > 0 && points < len(shapes) {
		s.Intro += " Shapes of one concurrency have no curve; their numbers are in Results."
	}
	if len(shapes) == 0 {
		s.Empty = "No cell was planned and no result was found."
	} else if s.Shapes == nil {
		s.Intro, s.Empty = "", "No shape was planned at more than one concurrency, so that there is no curve. The numbers are in Results."
	} else if b.large() {
		s.Folded = true
		s.Intro += " The charts of a shape are drawn when it is opened; without script their numbers are in Results."
	}
	return s
}

// chartPoint is one cell's value and bound. A value that does not stand for a
// measurement is a gap, also where the client wrote zeros for it.
func chartPoint(c *cell, name string) (point, string) {
	p := point{conc: c.Concurrency}
	sign := ""
	if g := c.gate(name); g != nil {
		p.failed = g.State == warehouse.Fail
		if g.Wanted != nil && finite(*g.Wanted) {
			switch g.Kind {
			case "min", "min_tok_s":
				p.gate, sign = g.Wanted, "≥"
			case "max", "max_ms":
				p.gate, sign = g.Wanted, "≤"
			}
		}
	}
	m, done := c.metric(name), c.metric("completed")
	switch {
	case c.State == warehouse.Error:
		p.missing = "no result"
	case done.Value != nil && *done.Value == 0:
		p.missing = "no request completed"
	case m.Value == nil && m.Text == "":
		p.missing = "not reported"
	case m.Value == nil:
		p.missing = text(m.Text)
	case !finite(*m.Value):
		p.missing = grouped(*m.Value, 0)
	default:
		p.value = m.Value
		if m.Repeats > 1 && m.Low != nil && m.High != nil {
			p.low, p.high, p.repeats = m.Low, m.High, m.Repeats
		}
		if c.thinAt(name) && done.Value != nil {
			p.thin = rounded("completed", *done.Value)
		}
	}
	return p, sign
}

type resultColumn struct{ name, head string }

// resultColumns are the metrics of the results table.
var resultColumns = []resultColumn{
	{"output_throughput", "Output"}, {"total_token_throughput", "Total"}, {"output_tput_per_gpu", "Output per GPU"}, {"per_gpu_throughput", "Total per GPU"},
	{"request_throughput", "Requests"},
	{"mean_ttft_ms", "Mean TTFT"}, {"p99_ttft_ms", "P99 TTFT"}, {"mean_tpot_ms", "Mean TPOT"}, {"p99_tpot_ms", "P99 TPOT"}, {"p99_itl_ms", "P99 ITL"}, {"mean_e2el_ms", "Mean E2EL"},
	{"completed", "Completed"}, {"success_rate", "Success rate"}, {"failed", "Failed"}, {metric.ScalingEfficiency, "Scaling"},
}

// results is one row per planned cell, with or without a result.
func (b *builder) results() *Section {
	cells := b.worstFirst()
	s := &Section{ID: "results", Title: "Results", Count: strconv.Itoa(len(cells)), Queries: b.sql("SELECT * FROM cells WHERE run_id = %s"),
		Intro: "Every cell, also those without a result. Hover a number for its exact value; a number in red fails its gate."}
	if len(cells) == 0 {
		s.Empty = "No cell was planned and no result was found."
		return s
	}
	t := &Table{ID: "results-table", Caption: "Results", Tall: true, Pin: true, Tools: true, Head: []Column{
		{Text: "Cell"}, {Text: "Result"}, {Text: "ISL", Title: "input tokens", Class: "n"}, {Text: "OSL", Title: "output tokens", Class: "n"}, {Text: "Conc", Title: "concurrency", Class: "n"}}}
	var cols, lacking []string
	said := func(name string) bool {
		return slices.ContainsFunc(cells, func(c *cell) bool { m := c.metric(name); return m.Value != nil || m.Text != "" })
	}
	measured := slices.ContainsFunc(resultColumns, func(col resultColumn) bool { return said(col.name) })
	for _, col := range resultColumns {
		// An empty column takes room from those that say something.
		if !said(col.name) && (measured || col.name == metric.ScalingEfficiency) {
			if col.name != metric.ScalingEfficiency { // which only several nodes have
				lacking = append(lacking, labelOf(col.name))
			}
			continue
		}
		cols = append(cols, col.name)
		t.Head = append(t.Head, Column{Text: col.head, Unit: unitOf(col.name), Title: col.name, Class: "n", Metric: b.dataColumn(col.name)})
	}
	if len(lacking) > 0 {
		s.Intro += " No cell reported " + strings.Join(lacking, ", ") + "."
	}
	if slices.ContainsFunc(cells, func(c *cell) bool { return c.thin != "" }) {
		s.Intro += " A P99 in grey rests on few requests, see Data quality."
	}
	if slices.ContainsFunc(b.d.Metrics, func(m warehouse.MetricRow) bool { return m.Repeats > 1 }) {
		s.Intro += " Of cells that were measured several times a number is the median; its range is on hover and in the charts."
	}
	hosts := b.hosts(cells)
	if len(hosts) == 1 {
		s.Intro += " All of them were measured on " + hosts[0] + "."
	} else {
		t.Head = append(t.Head, Column{Text: "Host"})
	}
	if b.large() {
		t.Head[0].Metric = "key"
	}
	fillRows(t, b.large(), cells, func(c *cell) Row {
		row := Row{Mark: c.mark, Cells: make([]Cell, 0, len(t.Head))}
		name := b.cellLink(c)
		if b.large() && !c.attention() {
			// Its card is made by script and takes the anchor from here.
			row.ID, name.Href = c.id, ""
		}
		row.Cells = append(row.Cells, name, b.state(c), whole(c.ISL), whole(c.OSL), whole(c.Concurrency))
		for _, name := range cols {
			m := c.metric(name)
			v := metricValue(m, false)
			if v.Text == "—" && m.Metric == "" {
				v.Title = "not in the result"
				if c.State == warehouse.Error {
					v.Title = "no result"
				}
			}
			if g := c.gate(name); g != nil && bad(g.State) {
				v.Class = "n bad"
			}
			c.grey(name, &v)
			if b.large() && v.HasRaw {
				// The exact value stands in the page's data.
				v.HasRaw = false
				if m.Value != nil {
					v.Title = ""
				}
			}
			row.Cells = append(row.Cells, v)
		}
		if len(hosts) != 1 {
			row.Cells = append(row.Cells, Cell{Text: orDash(c.hosts()), Class: "host"})
		}
		return row
	})
	s.Tables = []*Table{t}
	return s
}

// hosts are the nodes of all cells.
func (b *builder) hosts(cells []*cell) []string {
	var out []string
	for _, c := range cells {
		if h := c.hosts(); h != "" && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// dataColumn is where the page's data of a large deck holds a metric.
func (b *builder) dataColumn(name string) string {
	if i := slices.Index(b.names, name); i >= 0 && b.large() {
		return strconv.Itoa(i)
	}
	return ""
}

// state is the verdict on a cell; its reason stands in the cell's card.
func (b *builder) state(c *cell) Cell {
	m := c.mark
	return Cell{Mark: &m}
}

// cellLink leads to the card of a cell; exports get its key. In a large deck
// both are in the page's data.
func (b *builder) cellLink(c *cell) Cell {
	if b.large() {
		return Cell{Text: c.name, Href: c.id}
	}
	return Cell{Text: c.name, Class: "nm", Href: c.id, Title: text(c.CellKey), Raw: text(c.CellKey), HasRaw: true}
}

// whole is a length or a concurrency; 0 stands for one that is not known.
func whole(n int) Cell {
	if n == 0 {
		return Cell{Text: "—", Class: "n dim", Title: "not stated", HasRaw: true}
	}
	return Cell{Text: grouped(float64(n), 0), Class: "n"}
}

func (b *builder) quality() *Section {
	s := &Section{ID: "quality", Title: "Data quality", Queries: b.sql("SELECT * FROM data_quality WHERE run_id = %s"),
		Intro: "What a reader should know before trusting a number. Findings stand beside the gates and change none."}
	rows := slices.Clone(b.d.Quality)
	for _, w := range list(b.d.Run.Warnings) {
		rows = append(rows, warehouse.DataQualityRow{Severity: "warning", Code: "run", Message: w})
	}
	if len(rows) == 0 {
		s.Empty = "No finding."
		return s
	}
	s.Count = strconv.Itoa(len(rows))
	t := &Table{ID: "quality-table", Caption: "Data quality findings", Tall: true, Tools: true, Head: []Column{{Text: "Severity"}, {Text: "Kind"}, {Text: "Cell"}, {Text: "Finding"}}}
	for _, q := range rows {
		m := Mark{Class: "warn", Word: orDash(text(q.Severity))}
		switch q.Severity {
		case "data_error":
			m = Mark{Class: "error", Word: "not used", Title: "the result cannot be used"}
		case "finding":
			m.Class = "info"
		}
		where := Cell{Text: orDash(strings.TrimSpace(text(q.CellKey) + " " + text(q.TaskID))), Class: "id"}
		if c := b.by[q.CellKey]; c != nil {
			where = b.cellLink(c)
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: strings.ReplaceAll(text(q.Code), "_", " ")}, where, {Text: text(q.Message), Class: "w", Small: place(q)}}})
	}
	s.Tables = []*Table{t}
	return s
}

// lifecycle is a timeline from the stages' own clocks.
func (b *builder) lifecycle() *Section {
	s := &Section{ID: "lifecycle", Title: "Lifecycle", Queries: b.sql("SELECT * FROM stage WHERE run_id = %s ORDER BY seq")}
	if len(b.d.Stages) == 0 {
		s.Empty = "No stage was recorded: the results were not measured by a run of this tool, or its record is gone."
		return s
	}
	stages := slices.DeleteFunc(slices.Clone(b.d.Stages), func(st warehouse.StageRow) bool { return st.StartedAt == nil })
	if len(stages) == 0 {
		s.Empty = "No stage has a start."
		return s
	}
	slices.SortStableFunc(stages, func(x, y warehouse.StageRow) int { return cmp.Compare(x.Seq, y.Seq) })
	first, last := *stages[0].StartedAt, *stages[0].StartedAt
	for _, st := range stages {
		if st.StartedAt.Before(first) {
			first = *st.StartedAt
		}
		for _, at := range []*time.Time{st.StartedAt, st.EndedAt} {
			if at != nil && at.After(last) {
				last = *at
			}
		}
	}
	wall := last.Sub(first)
	s.Intro = fmt.Sprintf("%s from the first stage to the last recorded moment", span(wall))
	if idle := idleTime(stages, last); idle > 0 {
		s.Intro += fmt.Sprintf(", of which no stage ran for %s", span(idle))
	}
	s.Intro += "."
	s.Count = strconv.Itoa(len(stages))
	t := &Table{ID: "stages", Caption: "Stages", Tall: true, Tools: true, Head: []Column{{Text: "Status"}, {Text: "Stage"}, {Text: "Where"},
		{Text: "Start", Class: "n", Title: "after the first stage began"}, {Text: "Took", Class: "n"}}}
	why := slices.ContainsFunc(stages, func(st warehouse.StageRow) bool { return st.Reason != "" })
	if why {
		t.Head = append(t.Head, Column{Text: "Reason"})
	}
	hosts := map[string]bool{}
	for _, st := range stages {
		hosts[st.Host] = true
	}
	s.Timeline = timeline(stages, first, last)
	fillRows(t, b.large(), stages, func(st warehouse.StageRow) Row {
		m := stageMark(st.Status)
		where := text(st.CellID)
		if len(hosts) > 1 || where == "" {
			where = strings.Trim(text(st.Host)+" · "+where, " ·")
		}
		start := st.StartedAt.Sub(first)
		from := b.number(start.Seconds(), span(start))
		took := Cell{Text: "not ended", Class: "n", HasRaw: true}
		if st.EndedAt != nil {
			took = b.number(st.EndedAt.Sub(*st.StartedAt).Seconds(), span(st.EndedAt.Sub(*st.StartedAt)))
		}
		if !b.large() {
			from.Title = instant(*st.StartedAt)
		}
		row := Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: text(st.Stage)}, {Text: orDash(where)}, from, took}}
		if why {
			row.Cells = append(row.Cells, Cell{Text: visible(strings.TrimSpace(st.Reason), true), Class: "w"})
		}
		return row
	})
	s.Tables = []*Table{t}
	return s
}

// place is the file a finding is about.
func place(q warehouse.DataQualityRow) string {
	s := text(q.Path)
	if q.Line > 0 && s != "" {
		s += ":" + strconv.Itoa(q.Line)
	}
	if q.Host != "" {
		s = strings.TrimPrefix(s+" · "+text(q.Host), " · ")
	}
	return s
}

func stageMark(status string) Mark {
	switch status {
	case "done":
		return Mark{Class: "pass", Word: "done"}
	case "failed":
		return Mark{Class: "fail", Word: "failed"}
	case "skipped":
		return Mark{Class: "skipped", Word: "skipped"}
	}
	return Mark{Class: "incomplete", Word: strings.ReplaceAll(orDash(text(status)), "_", " ")}
}

func (b *builder) artifacts() *Section {
	s := &Section{ID: "artifacts", Title: "Artefacts", Queries: b.sql("SELECT * FROM artifact WHERE run_id = %s"),
		Intro: "The files the numbers come from, kept byte for byte. sha256sum of a file must give the hash below."}
	if len(b.d.Artifacts)+len(b.d.Inputs) == 0 {
		s.Empty = "No artefact was loaded."
		return s
	}
	s.Count = strconv.Itoa(len(b.d.Artifacts) + len(b.d.Inputs))
	type file struct {
		path, kind, sum string
		cell            Cell
		bytes           int64
	}
	var files []file
	kinds := map[string]bool{}
	for _, a := range b.d.Artifacts {
		where := Cell{Text: orDash(strings.TrimSpace(text(a.CellKey) + " " + text(a.TaskID)))}
		if c := b.by[a.CellKey]; c != nil {
			if where = b.cellLink(c); b.large() {
				where.Href = "" // its path leads there too
			}
		}
		kind := orDash(strings.Trim(text(a.Role)+" · "+text(a.Format), " ·"))
		kinds[kind] = true
		files = append(files, file{a.Path, kind, a.SHA256, where, a.Bytes})
	}
	for _, in := range b.d.Inputs {
		kind := "input · " + text(in.Kind)
		kinds[kind] = true
		files = append(files, file{in.Path, kind, in.SHA256, Cell{Text: "—"}, in.Bytes})
	}
	slices.SortStableFunc(files, func(x, y file) int { return cmp.Compare(x.kind, y.kind) })
	if !b.large() {
		kinds = map[string]bool{"": true}
	}
	// In a large deck one table for each kind, which its rows need not repeat.
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		t := &Table{ID: "artifact-table", Caption: "Artefacts", Tall: true, Tools: true, Head: []Column{{Text: "File"}, {Text: "Cell"}, {Text: "Size", Unit: "bytes", Class: "n"}, {Text: "SHA-256"}}}
		if i > 0 {
			t.ID += "-" + strconv.Itoa(i+1)
		}
		if kind == "" {
			t.Head = slices.Insert(t.Head, 1, Column{Text: "Kind"})
		} else {
			t.Title, t.Caption = capital(kind), "Artefacts: "+kind
		}
		ours := slices.DeleteFunc(slices.Clone(files), func(f file) bool { return kind != "" && f.kind != kind })
		fillRows(t, b.large(), ours, func(f file) Row {
			cells := []Cell{{Text: text(f.path)}, {Text: f.kind}, f.cell, {Text: grouped(float64(f.bytes), 0), Class: "n"}, {Text: text(f.sum)}}
			if kind != "" {
				cells = slices.Delete(cells, 1, 2)
			}
			return Row{Cells: cells}
		})
		s.Tables = append(s.Tables, t)
	}
	return s
}
