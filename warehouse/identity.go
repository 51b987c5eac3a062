package warehouse

import (
	"math"
	"path"
	"strings"
	"time"

	"cvs/collect/gpu"
	"cvs/warehouse/ingest"
)

// staleAfter is how far before the run's start an artefact's own date may lie: a
// date without zone can be most of a day off (decision: only a whole day is an
// error).
const staleAfter = 24 * time.Hour

// identify checks that a benchmark is of this cell of this run. A contradiction
// makes it unusable; silence is a warning, and the row keeps NULL as the mark.
func (b *batch) identify(s *sampleRow) {
	at := where{path: s.result.Path, line: s.Line, cell: s.cell.Key}
	if b.loose {
		return // nothing was promised
	}
	id, c := s.Identity, s.cell
	var silent []string
	if id.Model == "" {
		silent = append(silent, "model")
	} else {
		b.checkModel(s, at)
	}
	if id.Concurrency == nil {
		silent = append(silent, "concurrency")
	}
	if len(silent) > 0 {
		b.problem(warning, "identity_unstated", at, "the artifact does not state its %s: taken from the configuration", strings.Join(silent, " and "))
	}
	for _, x := range []struct {
		what string
		got  *int64
		want int
	}{
		{"max_concurrency", id.Concurrency, c.Concurrency},
		{"the input length", id.ISL, c.ISL},
		{"the output length", id.OSL, c.OSL},
		{"tensor parallelism", id.TP, b.meta.Identity.TP},
	} {
		if x.got != nil && x.want > 0 && *x.got != int64(x.want) {
			s.unusable = true
			b.problem(dataError, "identity", at, "%s is %d in the artifact, the cell has %d", x.what, *x.got, x.want)
		}
	}
	b.checkPrompts(s, at)
	if n := c.NumPrompts; id.NumPrompts != nil && n > 0 && *id.NumPrompts != int64(n) {
		b.problem(warning, "num_prompts", at, "the client was given %d prompts, the plan has %d", *id.NumPrompts, n)
	}
	switch gpu.Compare(b.meta.Identity.GPUArch, id.GPU) {
	case gpu.Another:
		s.unusable = true
		b.problem(dataError, "gpu", at, "the artifact names the GPU %q, gpu_arch is %s", id.GPU, b.meta.Identity.GPUArch)
	case gpu.Unknown:
		if !b.meta.Simulated {
			b.problem(warning, "gpu", at, "GPU not confirmed: the artifact names %q, gpu_arch is %s", id.GPU, b.meta.Identity.GPUArch)
		}
	}
	b.checkTime(s, at)
}

// checkPrompts refuses a number of prompts that cannot be one. The plan's would
// else stand in for it, as for a client that says nothing, and hide that the file
// is of something else.
func (b *batch) checkPrompts(s *sampleRow, at where) {
	for _, v := range s.Values {
		if v.Metric != "num_prompts" || v.Quality == ingest.Null || v.Quality == ingest.OK && v.Number >= 1 && v.Number == math.Trunc(v.Number) {
			continue
		}
		s.unusable = true
		b.problem(dataError, "identity", at, "num_prompts is %s in the artifact: expected a count of at least 1", v.Raw)
	}
}

// checkModel compares the model of the artefact with the configured one. A local
// path that ends in the same name is the same model under another spelling.
func (b *batch) checkModel(s *sampleRow, at where) {
	got, want := s.Identity.Model, b.meta.Identity.Model
	if got == "" || want == "" || got == want || strings.TrimRight(got, "/") == strings.TrimRight(want, "/") {
		return
	}
	local := func(p string) bool { return strings.HasPrefix(p, "/") || strings.HasPrefix(p, ".") }
	if path.Base(got) == path.Base(want) && (local(got) || local(want)) {
		b.problem(warning, "model_path", at, "the artifact names the model %s, the configuration %s: taken as the same", got, want)
		return
	}
	s.unusable = true
	b.problem(dataError, "identity", at, "the artifact is of model %s, the configuration has %s", got, want)
}

// checkTime refuses results that are older than the run. A start time in epoch
// seconds is exact; a date without zone is read in the offset of the run.
func (b *batch) checkTime(s *sampleRow, at where) {
	if b.meta.StartedAt == nil {
		return
	}
	when, text, ok := measuredAt(s, b.meta.StartedAt.Location())
	if !ok || b.meta.StartedAt.Sub(when) < staleAfter {
		return
	}
	s.unusable = true
	b.problem(dataError, "stale", at, "the artifact is dated %s, the run started at %s: left over from an earlier run", text, b.meta.StartedAt.Format(time.RFC3339))
}

func measuredAt(s *sampleRow, zone *time.Location) (when time.Time, text string, ok bool) {
	if t, ok := exactStart(s.Identity); ok {
		return t, t.Format(time.RFC3339), true
	}
	d := s.Identity.Date
	if t, err := time.ParseInLocation("20060102-150405", d, zone); err == nil {
		return t, d, true
	}
	if t, err := time.Parse(time.RFC3339, d); err == nil {
		return t, d, true
	}
	return time.Time{}, "", false
}

// exactStart is the start of a benchmark where the client wrote it in epoch
// seconds; nothing else has a zone.
func exactStart(id ingest.Identity) (time.Time, bool) {
	if id.StartUnix == nil || *id.StartUnix <= 0 || *id.StartUnix >= 1e11 {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(*id.StartUnix * 1e6)).UTC(), true
}
