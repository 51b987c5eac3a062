package warehouse

import (
	"errors"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/artifact"
	"cvs/warehouse/ingest"
)

var keyField = regexp.MustCompile(`(ISL|OSL|TP|PP|CONC)=(\d+)`)

// find returns the planned cell of a key. A layout that knows shapes but no
// parallelism gives a key without TP and PP; the shape then decides.
func (b *batch) find(key string) *cellRow {
	if key == "" {
		return nil
	}
	if c := b.byKey[key]; c != nil {
		return c
	}
	fields := make(map[string]int64)
	for _, m := range keyField.FindAllStringSubmatch(key, -1) {
		if n, err := strconv.ParseInt(m[2], 10, 64); err == nil {
			fields[m[1]] = n
		}
	}
	if len(fields) != 3 {
		return nil
	}
	isl, osl, conc := fields["ISL"], fields["OSL"], fields["CONC"]
	return b.shape(&isl, &osl, &conc)
}

// shape returns the planned cell of these lengths and this concurrency, nil if
// one is unknown or no cell has them.
func (b *batch) shape(isl, osl, conc *int64) *cellRow {
	if isl == nil || osl == nil || conc == nil {
		return nil
	}
	for _, c := range b.cells {
		if int64(c.ISL) == *isl && int64(c.OSL) == *osl && int64(c.Concurrency) == *conc {
			return c
		}
	}
	return nil
}

// results reads the raw files of the sweep and assigns what is in them.
func (b *batch) results() {
	seen := make(map[*artifact.Record]bool)
	type stranger struct {
		cell *cellRow
		err  error
		at   where
	}
	var strangers []stranger // whole files of a cell that are no results
	for i := range b.run.Records {
		b.attempt(&b.run.Records[i])
	}
	for _, r := range b.run.Results {
		cell := b.find(r.CellKey)
		// a run that was not read from a directory has its records here only
		if len(b.run.Records) == 0 && r.Record != nil && !seen[r.Record] {
			seen[r.Record] = true
			b.attempt(r.Record)
		}
		doc, err := b.parse(r)
		b.artifact(r, "cell", cell, "", doc)
		if cell != nil {
			cell.files++
		}
		at := where{path: r.Path}
		if cell != nil {
			at.cell = cell.Key
		}
		if err != nil {
			if errors.As(err, new(*ingest.UnknownError)) && cell != nil {
				strangers = append(strangers, stranger{cell, err, at})
				continue
			}
			b.unreadable(err, at, r.CellKey != "" && cell == nil)
			continue
		}
		if doc.Format == ingest.LMEval {
			b.problem(warning, "orphan", at, "an lm-eval result is not the result of a sweep cell: kept, not judged")
			continue
		}
		spoilt := b.findings(doc, at)
		orphans := 0
		for i := range doc.Samples {
			s := &sampleRow{Sample: doc.Samples[i], result: r, format: doc.Format, role: "cell", repeat: max(r.Repeat, 1)}
			b.assign(s, cell, len(doc.Samples))
			b.samples = append(b.samples, s)
			if s.cell == nil {
				orphans++
				continue
			}
			s.unusable = spoilt[s.Line] || spoilt[0]
			b.identify(s)
		}
		if orphans > 0 {
			b.problem(warning, "orphan", where{path: r.Path}, "%d of %d results belong to no cell of the sweep: kept, not judged", orphans, len(doc.Samples))
		}
	}
	// Beside a result they are listed; alone they are what a cell has instead of one.
	for _, x := range strangers {
		b.unreadable(x.err, x.at, slices.ContainsFunc(b.samples, func(s *sampleRow) bool { return s.cell == x.cell }))
	}
}

// unreadable reports a file that could not be used. An unknown file that no cell
// waits for is only listed; so is an orphan, which is one whatever it holds.
func (b *batch) unreadable(err error, at where, orphan bool) {
	var unknown *ingest.UnknownError
	severity, code := dataError, "broken"
	if errors.As(err, &unknown) {
		code = "unknown_format"
		if at.cell == "" && at.task == "" && !b.loose {
			severity = warning
		}
	}
	if orphan {
		b.problem(warning, "orphan", at, "belongs to nothing that was planned: kept, not judged; it could not be read: %s", err)
		return
	}
	b.problem(severity, code, at, "%s", err)
}

// findings reports what ingest found and returns the lines whose sample cannot
// be used; line 0 stands for all.
func (b *batch) findings(doc *ingest.Document, at where) map[int]bool {
	spoilt := make(map[int]bool)
	for _, f := range doc.Findings {
		severity, code := warning, "reading"
		if f.Fatal {
			severity, code = dataError, "contradiction"
			spoilt[f.Line] = true
			// In a file of one object the line is where the trouble stands in it.
			if len(doc.Samples) == 1 && doc.Format != ingest.SGLang {
				spoilt[0] = true
			}
		}
		at.line = f.Line
		b.problem(severity, code, at, "%s", f.Msg)
	}
	return spoilt
}

// assign finds the cell of a sample: the one its folder belongs to, or, in a
// file of many, the one whose shape it has.
func (b *batch) assign(s *sampleRow, folder *cellRow, inFile int) {
	id := s.Identity
	switch {
	case b.loose:
		s.cell = b.make(s)
	case folder != nil && inFile == 1:
		s.cell = folder
	case folder != nil:
		// appended by several runs of the client: those of this cell count
		if id.ISL == nil || id.OSL == nil || id.Concurrency == nil || b.shape(id.ISL, id.OSL, id.Concurrency) == folder {
			s.cell = folder
		}
	case s.result.CellKey == "":
		s.cell = b.shape(id.ISL, id.OSL, id.Concurrency)
		if s.cell != nil {
			s.cell.files++
		}
	}
}

// make invents a cell for a result that nobody planned. Repeats of one shape are
// repeats of one cell.
func (b *batch) make(s *sampleRow) *cellRow {
	part := func(name string, n *int64) string {
		if n == nil {
			return name + "=?"
		}
		return name + "=" + strconv.FormatInt(*n, 10)
	}
	id := s.Identity
	tp := id.TP
	if tp == nil && b.meta.Identity.TP > 0 {
		n := int64(b.meta.Identity.TP)
		tp = &n
	}
	pp := int64(max(b.meta.Identity.PP, 1))
	key := strings.Join([]string{part("ISL", id.ISL), part("OSL", id.OSL), part("TP", tp), part("PP", &pp), part("CONC", id.Concurrency)}, ",")
	if c := b.byKey[key]; c != nil {
		c.Repeats++
		s.repeat = c.Repeats
		return c
	}
	small := func(n *int64) int {
		if n == nil || *n < 0 || *n > math.MaxInt32 {
			return 0
		}
		return int(*n)
	}
	row := &cellRow{ExpectedCell: artifact.ExpectedCell{
		Key: key, ID: path.Base(s.result.Path), ISL: small(id.ISL), OSL: small(id.OSL), Concurrency: small(id.Concurrency), Repeats: 1,
	}, files: 1}
	b.cells, b.byKey[key] = append(b.cells, row), row
	return row
}

// accuracy reads lm-eval results; the layout says which task they belong to.
func (b *batch) accuracy() {
	type stranger struct {
		err error
		at  where
	}
	var strangers []stranger
	for _, r := range b.run.Accuracy {
		doc, err := b.parse(r)
		b.artifact(r, "accuracy", nil, r.CellKey, doc)
		at := where{path: r.Path, task: r.CellKey}
		if err != nil {
			if strings.HasPrefix(path.Base(r.Path), "results") {
				strangers = append(strangers, stranger{err, at})
			}
			continue
		}
		if doc.Format != ingest.LMEval && doc.Format != ingest.CIEntry && doc.Format != ingest.CICSV {
			b.problem(warning, "unknown_format", at, "not an lm-eval result but %s: kept, not judged", doc.Format)
			continue
		}
		if !b.tasks[r.CellKey] && !b.loose {
			b.problem(warning, "orphan", at, "accuracy task %s is not part of the plan: kept, not judged", r.CellKey)
		}
		spoilt := b.findings(doc, at)
		for i := range doc.Samples {
			s := &sampleRow{Sample: doc.Samples[i], result: r, format: doc.Format, role: "accuracy", task: r.CellKey, repeat: 1}
			s.unusable = spoilt[s.Line] || spoilt[0]
			b.checkModel(s, at)
			b.checkTime(s, at)
			b.samples = append(b.samples, s)
		}
	}
	for _, x := range strangers {
		var unknown *ingest.UnknownError
		if errors.As(x.err, &unknown) && slices.ContainsFunc(b.samples, func(s *sampleRow) bool { return s.task == x.at.task }) {
			b.problem(warning, "unknown_format", x.at, "%s", x.err) // listed beside a result; alone it is what the task has instead
			continue
		}
		b.unreadable(x.err, x.at, !b.tasks[x.at.task] && !b.loose)
	}
}

// checks registers the files that are kept but not read here.
func (b *batch) checks() {
	for _, r := range b.run.Checks {
		b.artifact(r, "check", nil, r.CellKey, nil)
		b.checkResult(r)
	}
	b.filters()
	for _, r := range b.run.Superseded {
		b.artifact(r, "superseded", b.find(r.CellKey), "", nil)
	}
}

// filters says which lm-eval filter is reported where the plan names one and no
// check left word of it, as with results that were collected by hand.
func (b *batch) filters() {
	said := make(map[any]bool)
	for _, row := range b.rows["check_result"] {
		if row[2] == "accuracy" && row[6] == "filter" {
			said[row[3]] = true
		}
	}
	config := ""
	for _, in := range b.meta.Inputs {
		if in.Kind == "config" {
			config = in.Path
		}
	}
	for _, t := range b.run.Expected.Tasks {
		if t.Kind == "accuracy" && t.Filter != "" && !said[valid(t.ID)] {
			b.add("check_result", b.meta.RunID, int32(len(b.rows["check_result"])+1), t.Kind, valid(t.ID), "", string(artifact.Done),
				"filter", nil, valid(t.Filter), nil, nil, valid(config))
		}
	}
}

func (b *batch) artifact(r artifact.Result, role string, cell *cellRow, task string, doc *ingest.Document) {
	key, format, samples := "", "", 0
	if cell != nil {
		key = cell.Key
	}
	if doc != nil {
		format, samples = string(doc.Format), len(doc.Samples)
	}
	b.add("artifact", b.meta.RunID, valid(r.Path), role, str(key), str(task), int32(max(r.Repeat, 1)), str(r.Host), sum(r), int64(len(r.Data)), str(format), int32(samples))
}

// attempt keeps how one repeat of a cell was carried out.
func (b *batch) attempt(rec *artifact.Record) {
	if c := b.find(rec.CellKey); c != nil {
		c.tried = true
	}
	var exit any
	if rec.ExitCode != nil {
		exit = int32(*rec.ExitCode)
	}
	w := artifact.Workload{}
	if rec.Workload != nil {
		w = *rec.Workload
	}
	b.add("attempt", b.meta.RunID, valid(rec.CellKey), int32(max(rec.Repeat, 1)), str(rec.Host), string(rec.Status), str(rec.Reason), at(rec.StartedAt), at(rec.EndedAt), exit,
		list(rec.ClientArgv), list(rec.ServerArgv), int32(rec.ServerSession), rec.Warm, str(rec.ConfigDigest), num(w.MeanInputLen), num(w.MeanOutputLen))
}

func (b *batch) sampleRows() {
	for i, s := range b.samples {
		no := int32(i + 1)
		key := ""
		if s.cell != nil {
			key = s.cell.Key
		}
		id := s.Identity
		shape, numbers, raws := b.pack(no, s)
		b.add("sample", b.meta.RunID, no, valid(s.result.Path), int32(s.Line), s.role, string(s.format), str(key), str(s.task), int32(s.repeat), valid(s.result.Host),
			!s.unusable && !b.badGPU, str(id.Model), str(id.Backend), str(id.GPU), big(id.Concurrency), big(id.ISL), big(id.OSL), big(id.NumPrompts), str(id.Date), num(id.StartUnix), s.Digest,
			shape, numbers, raws)
	}
}
