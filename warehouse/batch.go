package warehouse

import (
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/gpu"
	"cvs/warehouse/ingest"
)

// A batch is every row of one run, in memory. Building it is pure; rows follow
// the column order of sql/schema.
type batch struct {
	run      *artifact.Run
	doc      *ingest.Document // of the run's one file, where it was read before
	meta     artifact.Meta
	rows     map[string][]row
	shapes   map[string]shape // keys of its samples
	book     *shapeBook       // has them instead, where there is one
	entered  []string         // ids of those in the book
	cells    []*cellRow
	byKey    map[string]*cellRow
	tasks    map[string]bool // planned accuracy tasks
	samples  []*sampleRow
	loose    bool // nothing was planned: cells are made from what is found
	badGPU   bool
	errors   int
	warnings int
}

type cellRow struct {
	artifact.ExpectedCell
	planned bool
	files   int // raw files assigned
	tried   bool
}

// A sampleRow is a benchmark on its way to a cell.
type sampleRow struct {
	ingest.Sample
	result   artifact.Result
	format   ingest.Format
	role     string
	cell     *cellRow // nil: belongs to none
	task     string
	repeat   int
	unusable bool
}

func build(src *Source, digest string, book *shapeBook) *batch {
	run := src.Run
	b := &batch{book: book, run: run, doc: src.doc, meta: run.Meta, rows: make(map[string][]row), shapes: make(map[string]shape), byKey: make(map[string]*cellRow), tasks: make(map[string]bool)}
	for _, c := range run.Expected.Cells {
		row := &cellRow{ExpectedCell: c, planned: true}
		b.cells, b.byKey[c.Key] = append(b.cells, row), row
	}
	b.loose = len(b.cells) == 0 && len(run.Expected.Tasks) == 0
	for _, t := range run.Expected.Tasks {
		if t.Kind == "accuracy" {
			b.tasks[t.ID] = true
		}
	}
	b.checkRun()
	b.results()
	b.accuracy()
	b.checks()
	b.oneEach()
	b.newestAccuracy()
	b.absent()
	b.runRows(digest)
	b.planRows()
	b.sampleRows()
	b.originRow()
	b.add("unmeasured", b.meta.RunID)
	return b
}

// rowsOnly lets go of everything but the rows.
func (b *batch) rowsOnly() {
	b.run, b.doc, b.cells, b.byKey, b.tasks, b.samples = nil, nil, nil, nil, nil, nil
}

// parse reads a result, unless that was done when its run was made.
func (b *batch) parse(r artifact.Result) (*ingest.Document, error) {
	if b.doc != nil && len(b.run.Results)+len(b.run.Accuracy) == 1 {
		return b.doc, nil
	}
	return ingest.Parse(r.Path, r.Data)
}

func (b *batch) add(table string, row ...driver.Value) { b.rows[table] = append(b.rows[table], row) }

// severities of problems.
const (
	dataError = "data_error"
	warning   = "warning"
)

// A where is what a problem is about; empty fields are not.
type where struct {
	path, cell, task string
	line             int
}

func (b *batch) problem(severity, code string, at where, format string, args ...any) {
	if severity == dataError {
		b.errors++
	} else {
		b.warnings++
	}
	msg := fmt.Sprintf(format, args...)
	if at.path != "" && !strings.Contains(msg, at.path) {
		msg = at.path + ": " + msg
	}
	b.add("problem", b.meta.RunID, int32(len(b.rows["problem"])+1), severity, code, str(at.path), int32(at.line), str(at.cell), str(at.task), valid(msg))
}

// checkRun looks at the run as a whole: what was not whole on disk, and whether
// the node was the one that was meant.
func (b *batch) checkRun() {
	for _, p := range b.run.Problems {
		severity := warning
		top, _, _ := strings.Cut(p.Path, "/")
		switch {
		case p.Note:
		case p.Cell != "", top == "cells", top == "results", top == "accuracy", strings.HasSuffix(top, ".json"):
			severity = dataError
		}
		cell := p.Cell
		if c := b.find(p.Cell); c != nil {
			cell = c.Key
		}
		b.problem(severity, "not_whole", where{path: p.Path, cell: cell}, "%s", p.Msg)
	}
	switch gpu.Compare(b.meta.Identity.GPUArch, b.meta.Identity.GPUSeen) {
	case gpu.Another:
		b.badGPU = true
		b.problem(dataError, "gpu", where{}, "gpu_arch is %s (%s), but the node reports %s: the results do not count for %s",
			b.meta.Identity.GPUArch, gpu.GFX(b.meta.Identity.GPUArch), b.meta.Identity.GPUSeen, b.meta.Identity.GPUArch)
	case gpu.Unknown:
		if !b.meta.Simulated {
			b.problem(warning, "gpu", where{}, "GPU not confirmed: the node reports %q, gpu_arch is %s", b.meta.Identity.GPUSeen, b.meta.Identity.GPUArch)
		}
	}
}

func (b *batch) runRows(digest string) {
	m, id := b.meta, b.meta.Identity
	arch := str(id.GPUArch)
	if b.badGPU {
		arch = nil // not stored under a name that the node contradicts
	}
	b.add("run", m.RunID, digest, str(b.run.Dir), str(m.Suite), str(m.Profile), string(m.Status), str(m.Reason), at(m.StartedAt), at(m.EndedAt),
		str(m.ToolVersion), list(m.CommandLine), str(m.Launcher.Host), str(m.Launcher.User), str(m.Launcher.OS), m.Enforce, str(m.EnforceOrigin), m.Simulated,
		str(id.Model), str(id.Precision), arch, str(id.GPUArch), str(id.GPUSeen), gpu.Compare(id.GPUArch, id.GPUSeen) == gpu.Same, str(id.Driver),
		int32(id.TP), int32(id.PP), int32(max(id.DP, 1)), int32(id.NNodes), str(id.Image), list(id.Hosts), num(id.ScalingBaseline),
		object(m.Labels), list(m.Warnings), str(string(b.run.Config)), str(b.run.Notes), thresholdSet(b.run.Thresholds.Specs))
	for _, i := range m.Inputs {
		b.add("input_file", m.RunID, i.Kind, valid(i.Path), str(i.SHA256), i.Bytes)
	}
	hosts := make([]string, 0, len(id.ImageDigests))
	for host := range id.ImageDigests {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	for _, host := range hosts {
		b.add("image_digest", m.RunID, valid(host), valid(id.ImageDigests[host]))
	}
	for _, s := range b.run.Stages {
		started := s.Started
		b.add("stage", m.RunID, int32(s.Seq), valid(s.Stage), str(s.Host), str(s.Cell), at(&started), at(s.Ended), string(s.Status), str(s.Reason))
	}
}

func (b *batch) planRows() {
	for i, c := range b.cells {
		b.add("expected_cell", b.meta.RunID, int32(i+1), valid(c.Key), str(c.ID), str(c.Combo), positive(c.ISL), positive(c.OSL), positive(c.Concurrency),
			positive(c.NumPrompts), int32(max(c.Repeats, 1)), c.planned)
	}
	for i, t := range b.run.Expected.Tasks {
		b.add("expected_task", b.meta.RunID, int32(i+1), valid(t.Kind), valid(t.ID), str(string(t.Status)), str(t.Reason))
	}
	for i, t := range b.run.Thresholds.Specs {
		b.add("threshold", b.meta.RunID, int32(i+1), t.Scope, valid(t.Target), valid(t.Metric), t.Kind, num(t.Value), num(t.TolerancePct), str(t.Reference),
			str(t.File), int32(t.Line), str(t.Pointer))
	}
}

// thresholdSet is a hash of specs, equal for runs that are judged by the same.
func thresholdSet(specs []artifact.Threshold) driver.Value {
	if len(specs) == 0 {
		return nil
	}
	h := sha256.New()
	for _, t := range specs {
		fmt.Fprintf(h, "%q %q %q %q %v %v %q\n", t.Scope, t.Target, t.Metric, t.Kind, num(t.Value), num(t.TolerancePct), t.Reference)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// absent names the place where the result of a cell was looked for.
func (b *batch) absent() {
	foreign := len(b.run.Stages) == 0 && len(b.run.Records) == 0 && !slices.ContainsFunc(b.run.Results, func(r artifact.Result) bool { return r.Record != nil })
	for i, c := range b.cells {
		if !c.planned || c.files > 0 || c.tried {
			continue
		}
		if reason := b.whyNot(c.ID); !foreign && reason != "" {
			b.attempt(&artifact.Record{CellKey: c.Key, CellID: c.ID, Repeat: 1, Status: artifact.Skipped, Reason: reason})
			continue
		}
		place := path.Join("cells", artifact.CellFolder(i+1, c.ExpectedCell))
		if foreign {
			place = path.Join("results", LayoutFolder(c.ISL, c.OSL, c.Concurrency))
		}
		b.problem(dataError, "no_result", where{cell: c.Key}, "no result file was found in %s", place)
	}
}

// whyNot says why a cell was never tried, as far as the run's stages and its
// status tell; "" if nothing does.
func (b *batch) whyNot(cell string) string {
	for _, s := range slices.Backward(b.run.Stages) {
		if s.Stage != "sweep" && (s.Stage != "cell" || s.Cell != cell) {
			continue
		}
		switch {
		case s.Status == artifact.Skipped && s.Reason != "":
			return s.Reason
		case s.Status == artifact.Running:
			return "the launcher ended while it was measured"
		}
		break // what the last word on the cell does not explain, no earlier one does
	}
	switch b.meta.Status {
	case artifact.Running:
		return "the run did not come to it: it is still running, or its launcher was killed"
	case artifact.Failed, artifact.Interrupted:
		return "the run ended before: " + b.meta.Reason
	}
	return ""
}

// str is NULL for "", and storable text otherwise.
func str(s string) driver.Value {
	if s == "" {
		return nil
	}
	return valid(s)
}

// valid makes text storable: UTF-8 without NUL, which DuckDB's API would cut.
func valid(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func num(f *float64) driver.Value {
	if f == nil {
		return nil
	}
	return *f
}

func big(n *int64) driver.Value {
	if n == nil {
		return nil
	}
	return *n
}

func positive(n int) driver.Value {
	if n == 0 {
		return nil
	}
	return int32(n)
}

func at(t *time.Time) driver.Value {
	if t == nil {
		return nil
	}
	return t.UTC()
}

func list(s []string) driver.Value {
	if len(s) == 0 {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil // strings always encode
	}
	return valid(string(text))
}

func object(m map[string]string) driver.Value {
	if len(m) == 0 {
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil // strings always encode
	}
	return valid(string(text))
}
