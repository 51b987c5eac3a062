package render

import (
	"cmp"
	"fmt"
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

// charts draws two charts per shape.
func (b *builder) charts() *Section {
	s := &Section{ID: "charts", Title: "Against concurrency", Queries: b.sql(
		"SELECT cell_key, metric, value FROM metrics WHERE run_id = %s AND metric IN ('output_throughput', 'mean_ttft_ms')"),
		Intro: "Values start at zero; concurrency is on a base-2 scale. A point without a value is a gap and is named below its chart."}
	type shape struct{ isl, osl int }
	var order []shape
	groups := map[shape][]*cell{}
	for _, c := range b.cells {
		k := shape{c.ISL, c.OSL}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], c)
	}
	if len(order) == 0 {
		s.Empty = "No cell was planned and no result was found."
		return s
	}
	for _, k := range order {
		title := fmt.Sprintf("%s input, %s output tokens", grouped(float64(k.isl), 0), grouped(float64(k.osl), 0))
		if k.isl == 0 || k.osl == 0 {
			title = "Input and output length not stated"
		}
		sh := Shape{Title: title}
		for _, name := range []string{metric.Headline, "mean_ttft_ms"} {
			cv := curve{id: anchor("chart", fmt.Sprintf("%s-%d-%d", name, k.isl, k.osl), b.ids),
				metric: name, label: labelOf(name), title: labelOf(name), unit: unitOf(name)}
			for _, c := range groups[k] {
				p, sign := chartPoint(c, name)
				cv.points = append(cv.points, p)
				if sign != "" {
					cv.sign = sign
				}
			}
			f := cv.figure()
			f.Alt = title + ", " + f.Alt
			sh.Figures = append(sh.Figures, f)
		}
		s.Shapes = append(s.Shapes, sh)
	}
	return s
}

// chartPoint is one cell's value and bound. A value that does not stand for a
// measurement is a gap, also where the client wrote zeros for it.
func chartPoint(c *cell, name string) (point, string) {
	p := point{conc: c.Concurrency}
	sign := ""
	if g, ok := c.gate[name]; ok {
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
	m, ok := c.value[name]
	done, counted := c.value["completed"]
	switch {
	case c.State == warehouse.Error:
		p.missing = "no result"
	case counted && done.Value != nil && *done.Value == 0:
		p.missing = "no request completed"
	case !ok || m.Value == nil && m.Text == "":
		p.missing = "not reported"
	case m.Value == nil:
		p.missing = text(m.Text)
	case !finite(*m.Value):
		p.missing = grouped(*m.Value, 0)
	default:
		p.value = m.Value
	}
	return p, sign
}

// resultColumns are the metrics of the results table.
var resultColumns = []struct{ name, head string }{
	{"output_throughput", "Output"}, {"total_token_throughput", "Total"}, {"output_tput_per_gpu", "Output per GPU"}, {"per_gpu_throughput", "Total per GPU"},
	{"request_throughput", "Requests"},
	{"mean_ttft_ms", "Mean TTFT"}, {"p99_ttft_ms", "P99 TTFT"}, {"mean_tpot_ms", "Mean TPOT"}, {"p99_tpot_ms", "P99 TPOT"}, {"p99_itl_ms", "P99 ITL"}, {"mean_e2el_ms", "Mean E2EL"},
	{"success_rate", "Success rate"}, {"failed", "Failed"}, {metric.ScalingEfficiency, "Scaling"},
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
	var cols []string
	for _, col := range resultColumns {
		// Scaling exists on several nodes only; an empty column says nothing.
		if col.name == metric.ScalingEfficiency && !slices.ContainsFunc(cells, func(c *cell) bool { return c.value[col.name].Value != nil }) {
			continue
		}
		cols = append(cols, col.name)
		t.Head = append(t.Head, Column{Text: col.head, Unit: unitOf(col.name), Title: col.name, Class: "n"})
	}
	t.Head = append(t.Head, Column{Text: "Host"})
	for _, c := range cells {
		m := c.mark
		row := Row{Mark: m, Cells: []Cell{cellLink(c), {Mark: &m},
			whole(c.ISL), whole(c.OSL), whole(c.Concurrency)}}
		for _, name := range cols {
			v := metricValue(c.value[name], false)
			if v.Text == "—" && c.value[name].Metric == "" {
				v.Title = "not in the result"
				if c.State == warehouse.Error {
					v.Title = "no result"
				}
			}
			if bad(c.gate[name].State) {
				v.Class = "n bad"
			}
			row.Cells = append(row.Cells, v)
		}
		row.Cells = append(row.Cells, Cell{Text: orDash(c.hosts()), Class: "host"})
		t.Rows = append(t.Rows, row)
	}
	s.Tables = []*Table{t}
	return s
}

// cellLink leads to the card of a cell; exports get its key.
func cellLink(c *cell) Cell {
	return Cell{Text: c.name, Class: "nm", Href: c.id, Title: text(c.CellKey), Raw: text(c.CellKey), HasRaw: true}
}

// whole is a length or a concurrency; 0 stands for one that is not known.
func whole(n int) Cell {
	if n == 0 {
		return Cell{Text: "—", Class: "n dim", Title: "not stated", HasRaw: true}
	}
	return Cell{Text: grouped(float64(n), 0), Class: "n", Raw: strconv.Itoa(n), HasRaw: true}
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
			where = cellLink(c)
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
	s.Intro = fmt.Sprintf("%s from the first stage to the last recorded moment.", span(wall))
	s.Count = strconv.Itoa(len(stages))
	t := &Table{ID: "stages", Caption: "Stages", Tall: true, Tools: len(stages) > 12, Head: []Column{{Text: "Status"}, {Text: "Stage"}, {Text: "Where"},
		{Text: "Start", Class: "n", Title: "after the first stage began"}, {Text: "Took", Class: "n"}, {Text: "Timeline", Class: "wide"}}}
	why := slices.ContainsFunc(stages, func(st warehouse.StageRow) bool { return st.Reason != "" })
	if why {
		t.Head = append(t.Head, Column{Text: "Reason"})
	}
	for _, st := range stages {
		m := stageMark(st.Status)
		where := strings.Trim(text(st.Host)+" · "+text(st.CellID), " ·")
		start := st.StartedAt.Sub(first)
		took := Cell{Text: "not ended", Class: "n", HasRaw: true}
		end := last
		if st.EndedAt != nil {
			end = *st.EndedAt
			took = Cell{Text: span(end.Sub(*st.StartedAt)), Class: "n", Raw: exact(end.Sub(*st.StartedAt).Seconds()), HasRaw: true, Title: exact(end.Sub(*st.StartedAt).Seconds()) + " s"}
		}
		bar := &Bar{}
		if wall > 0 {
			from := 100 * start.Seconds() / wall.Seconds()
			width := max(100*end.Sub(*st.StartedAt).Seconds()/wall.Seconds(), 0.3)
			class := "run-f"
			if m.Class != "pass" {
				class = fill(m.Class)
			}
			bar.Parts = []BarPart{{Class: class, X: coord(min(from, 99.7)), W: coord(width)}}
		}
		row := Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: text(st.Stage)}, {Text: orDash(where)},
			{Text: span(start), Class: "n", Raw: exact(start.Seconds()), HasRaw: true, Title: instant(*st.StartedAt)}, took, {Bar: bar, Class: "wide"}}}
		if why {
			row.Cells = append(row.Cells, Cell{Text: text(st.Reason), Class: "w"})
		}
		t.Rows = append(t.Rows, row)
	}
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
	t := &Table{ID: "artifact-table", Caption: "Artefacts", Tall: true, Tools: true, Head: []Column{{Text: "File"}, {Text: "Kind"}, {Text: "Cell"}, {Text: "Size", Class: "n"}, {Text: "SHA-256"}}}
	for _, a := range b.d.Artifacts {
		where := Cell{Text: orDash(strings.TrimSpace(text(a.CellKey) + " " + text(a.TaskID))), Class: "id"}
		if c := b.by[a.CellKey]; c != nil {
			where = cellLink(c)
		}
		kind := strings.Trim(text(a.Role)+" · "+text(a.Format), " ·")
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: text(a.Path), Class: "id"}, {Text: orDash(kind)}, where,
			{Text: bytesText(a.Bytes), Class: "n", Raw: strconv.FormatInt(a.Bytes, 10), HasRaw: true}, {Text: text(a.SHA256), Class: "id"}}})
	}
	for _, in := range b.d.Inputs {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: text(in.Path), Class: "id"}, {Text: "input · " + text(in.Kind)}, {Text: "—", Class: "id"},
			{Text: bytesText(in.Bytes), Class: "n", Raw: strconv.FormatInt(in.Bytes, 10), HasRaw: true}, {Text: text(in.SHA256), Class: "id"}}})
	}
	s.Tables = []*Table{t}
	return s
}

func (b *builder) notes() *Section {
	notes := b.words()
	if strings.TrimSpace(notes) == "" && b.d.Problems["notes"] == "" {
		return nil
	}
	return &Section{ID: "notes", Title: "Notes", Text: visible(notes, true)}
}
