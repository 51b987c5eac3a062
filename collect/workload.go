package collect

import (
	"bytes"
	"errors"
	"fmt"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/collect/plan"
	"cvs/collect/strictjson"
)

// simulatedGPU is what the lab's client reports as its GPU.
const simulatedGPU = "lab-sim"

// understand checks that a result is whole and notes what it says about the
// workload and the machine, and gives the number of completed requests, nil if
// it says none. It judges no metric.
func (x *run) understand(data []byte, rec *artifact.Record) (completed *float64, err error) {
	doc := bytes.TrimSpace(data)
	if len(doc) == 0 {
		return nil, errors.New("the file is empty")
	}
	if i := bytes.LastIndexByte(doc, '\n'); i >= 0 && x.drv.Format() == "sglang_bench_serving" {
		doc = doc[i+1:] // one object a line, appended; the last is this run's
	}
	v, _, err := strictjson.Parse(doc, strictjson.Options{NonFinite: true, KeepDuplicates: true, SkipLists: true, MaxDepth: 1000})
	if err != nil {
		return nil, err
	}
	if v.Kind != strictjson.Object {
		return nil, fmt.Errorf("expected a JSON object, found a %v", v.Kind)
	}
	rec.Workload = delivered(rec.Workload, v)
	completed = number(v.Get("completed"))
	x.learnAcceptance(data)
	if failed := number(v.Get("failed")); failed != nil && *failed > float64(x.p.Params.MaxFailedRequests) {
		// The gates on failed and success_rate decide; this only makes it visible.
		if err := x.warn("cell", "%s: %g requests failed, more than params.bench_max_failed_requests (%d)", rec.CellID, *failed, x.p.Params.MaxFailedRequests); err != nil {
			return nil, err
		}
	}
	gpu := v.Get("gpu_name")
	if gpu == nil || gpu.Kind != strictjson.String || gpu.Text == "" {
		return completed, nil
	}
	// What the node itself said comes first; see identifyGPU.
	m := x.r.Store.Meta()
	simulated := gpu.Text == simulatedGPU
	if m.Identity.GPUSeen != "" && (m.Simulated || !simulated) {
		return completed, nil
	}
	if err := x.r.Store.UpdateMeta(func(m *artifact.Meta) {
		if m.Identity.GPUSeen == "" {
			m.Identity.GPUSeen = clip(gpu.Text, 200)
		}
		m.Simulated = m.Simulated || simulated
	}); err != nil {
		return nil, &storeError{err}
	}
	return completed, nil
}

// learnAcceptance notes what an artefact says about drafts, unless one before did.
func (x *run) learnAcceptance(data []byte) {
	if x.acceptance.Rate != nil || x.acceptance.Length != nil {
		return
	}
	// An artefact without it, or that is not understood here, is no news.
	if a, err := check.ReadAcceptance(data); err == nil {
		x.acceptance = a
	}
}

// asked is what the client of a cell is told to draw its lengths from; nil for a
// data set that has lengths of its own.
func (x *run) asked(c plan.Cell) *artifact.Workload {
	if x.p.Params.DatasetName != "random" {
		return nil
	}
	in, out := x.drv.Lengths(x.p, c)
	return &artifact.Workload{InputLen: (*artifact.Span)(&in), OutputLen: (*artifact.Span)(&out), Matched: x.p.Params.MatchLengths}
}

// delivered adds the mean lengths of the completed requests to what was asked for, as
// far as the result says; nil when nothing is known.
func delivered(asked *artifact.Workload, v *strictjson.Value) *artifact.Workload {
	completed := number(v.Get("completed"))
	if completed == nil || *completed <= 0 {
		return asked
	}
	mean := func(key string) *float64 {
		total := number(v.Get(key))
		if total == nil {
			return nil
		}
		m := *total / *completed
		return &m
	}
	w := artifact.Workload{}
	if asked != nil {
		w = *asked
	}
	w.MeanInputLen, w.MeanOutputLen = mean("total_input_tokens"), mean("total_output_tokens")
	if w == (artifact.Workload{}) {
		return nil
	}
	return &w
}

// number is a finite number, or nil: what is written here becomes JSON again.
func number(v *strictjson.Value) *float64 {
	f, err := v.Float()
	if err != nil || f != f || f > 1e300 || f < -1e300 {
		return nil
	}
	return &f
}
