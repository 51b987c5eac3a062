// Package ingest recognises a result file by its content and turns it into
// values in the vocabulary of package metric, losing nothing.
//
// Every top-level key of the file becomes a [Value] with its text as written,
// whatever its type; the ones that mean a metric carry its name. What cannot be
// used as a number keeps its text and says so in its quality: nothing is
// guessed, rounded or replaced, and a number is only converted where its format
// states another unit than ours; its text stays as written. Each format is one file of this package;
// a new one adds a file and a line in formats.
//
// It must know nothing of runs, cells, thresholds or databases.
package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"cvs/collect/strictjson"
)

// A Format is a kind of result file; the word is stored.
type Format string

// The formats.
const (
	ATOM     Format = "atom_benchmark_serving"
	VLLM     Format = "vllm_bench_serve"
	SGLang   Format = "sglang_bench_serving"
	Wrapped  Format = "wrapped_submission"
	Together Format = "together_baseline"
	LMEval   Format = "lm_eval"

	InferenceX Format = "inferencex_aggregate"
	SLO        Format = "slo_goodput"
	Latency    Format = "vllm_bench_latency"
	AIPerf     Format = "aiperf_export"
	CIEntry    Format = "ci_dashboard_entry" // a part of a history, see [Split]
	CICSV      Format = "ci_history_csv"
)

// A Quality says whether a value can be compared.
type Quality string

// The qualities. Missing is never produced here: it is what a reader finds for
// a key that is not in the file.
const (
	OK         Quality = "ok"
	Missing    Quality = "missing"
	Null       Quality = "null"
	NonNumeric Quality = "non_numeric"  // a text, boolean, list or object
	NonFinite  Quality = "non_finite"   // NaN, Infinity or -Infinity
	OutOfRange Quality = "out_of_range" // a number beyond a double
)

// MaxRaw is the largest text kept for one key, in bytes; longer ones are kept
// by hash (the file itself stays in the run directory).
const MaxRaw = 1 << 20

// A Value is one key of the file.
type Value struct {
	Key     string // as written
	Parent  string // RFC 6901 pointer of the object that holds it; "" is the sample itself
	pointer string // where it is not Parent/Key; see Pointer
	Metric  string // name in our vocabulary, "" if the key means none
	Number  float64
	Text    string // of a number or text as written, decoded; "" for other kinds
	Kind    string // null, boolean, number, string, list, object
	Quality Quality
	Raw     string // the JSON as written, "" when it is longer than MaxRaw
	Bytes   int    // length of the JSON as written
	SHA256  string // of the JSON as written, hex; set only when Raw is ""
}

// Pointer is the place of the value in its sample, RFC 6901.
func (v *Value) Pointer() string {
	if v.pointer != "" {
		return v.pointer
	}
	return v.Parent + "/" + strictjson.EscapePointer(v.Key)
}

// An Identity is what a sample says about itself; nil or "" where it is silent.
type Identity struct {
	Model          string
	Backend        string // of the client, not of the server
	GPU            string
	Concurrency    *int64 // the configured limit
	ISL, OSL       *int64 // tokens, as configured
	TP             *int64
	NumPrompts     *int64
	Date           string          // as written, usually local time without zone
	StartUnix      *float64        // seconds, UTC
	HigherIsBetter map[string]bool // lm-eval only: by metric name

	// Known of published results only.
	Driver    string // serving framework
	Precision string
	Image     string
	CIRun     string // of the CI that measured
	Commit    string // of the software measured
}

// A Sample is one benchmark of a file.
type Sample struct {
	Line     int // from 1, where it starts
	Identity Identity
	Values   []Value // in file order
	Digest   string  // sha256 of the JSON as written: equal samples were written twice
}

// A Finding is something a reader should know although the file could be used.
type Finding struct {
	Line  int // 0: the file as a whole
	Msg   string
	Fatal bool // the sample of that line cannot be used
}

// A Document is a recognised file.
type Document struct {
	Format   Format
	Samples  []Sample
	Findings []Finding
	// SHA256 of the file, hex; only where reading it gave the sum for nothing.
	SHA256 string

	single bool // the file is one object
}

// values are used again by one file after another; see [Document.Free].
var values = sync.Pool{New: func() any { return new([]Value) }}

// maxFreed is how many values a list may have to be used again.
const maxFreed = 1024

// Free says that the document and what it holds are not used any more.
func (d *Document) Free() {
	for i := range d.Samples {
		if v := d.Samples[i].Values; cap(v) > 0 && cap(v) <= maxFreed {
			clear(v)
			v = v[:0]
			values.Put(&v)
		}
		d.Samples[i].Values = nil
	}
}

// An UnknownError reports a readable file that is no result we know. LooksLike
// names what it seems to be, "" if nothing came to mind.
type UnknownError struct {
	Name, LooksLike string
}

// Error names the file and what it looks like.
func (e *UnknownError) Error() string {
	if e.LooksLike == "" {
		return e.Name + ": not recognised as a result file"
	}
	return e.Name + ": not recognised as a result file; it looks like " + e.LooksLike
}

// A format recognises and reads one kind of sample.
type format struct {
	name Format
	// is looks at the keys only.
	is func(v *strictjson.Value) bool
	// read fills the sample's identity and values.
	read func(b *builder, v *strictjson.Value)
	// readAll replaces read where one object holds several samples.
	readAll func(d *Document, data []byte, line int, v *strictjson.Value)
	// lines says that a file of this format may hold many samples, of which a
	// broken one does not spoil the others.
	lines bool
}

// formats is in order of recognition: the more particular first.
var formats = sync.OnceValue(func() []format {
	return []format{ciEntry(), lmEval(), inferenceX(), together(), aiperf(), slo(), wrapped(), sglang(), atom(), latency(), vllm()}
})

// spaces are used again by one file after another; nothing of a document stays in
// them.
var spaces = sync.Pool{New: func() any { return new(strictjson.Space) }}

const (
	maxDepth  = 1000 // of nesting accepted in results
	maxBroken = 1000 // findings after which the rest of a file is left alone
	// maxShared is the longest file whose values are parts of it, in bytes: few
	// texts of a longer one are kept, and they must not hold it all in memory.
	maxShared = 4 << 20
)

// Parse recognises data and reads it. The error is a *[strictjson.SyntaxError]
// wrapped with the name, or an *[UnknownError]; nothing of such a file is used.
// name is for messages only. data must not be changed as long as the document is
// used: its values may be parts of it.
func Parse(name string, data []byte) (*Document, error) {
	space, ok := spaces.Get().(*strictjson.Space)
	if !ok {
		space = nil // never: the pool holds nothing else
	}
	defer spaces.Put(space)
	o := strictjson.Options{NonFinite: true, KeepDuplicates: true, SkipLists: true, MaxDepth: maxDepth, Space: space, Shared: len(data) <= maxShared}
	v, findings, err := strictjson.Parse(data, o)
	if err == nil && v.Kind == strictjson.Array {
		if doc := rows(data); doc != nil {
			return doc, nil
		}
	}
	if err == nil && isPart(v) { // its lists are what is read
		if v, findings, err = strictjson.Parse(data, ciOptions); err != nil {
			return nil, syntax(name, data, err)
		}
	}
	if err == nil {
		return one(name, data, v, findings)
	}
	if isCICSV(data) {
		return readCSV(name, data)
	}
	if doc := many(data, o); doc != nil {
		return doc, nil
	}
	if what := looksLike(data); what != "" {
		return nil, &UnknownError{Name: name, LooksLike: what}
	}
	return nil, syntax(name, data, err)
}

// syntax adds the byte count to errors at the very end: they mean a file that
// was cut off.
func syntax(name string, data []byte, err error) error {
	var s *strictjson.SyntaxError
	if errors.As(err, &s) && strings.HasPrefix(s.Msg, "the file ends") {
		return fmt.Errorf("%s: %w (the input ended early, after %d bytes)", name, err, len(data))
	}
	return fmt.Errorf("%s: %w", name, err)
}

func one(name string, data []byte, v *strictjson.Value, findings []strictjson.Finding) (*Document, error) {
	f, ok := recognise(v)
	if !ok {
		return nil, &UnknownError{Name: name, LooksLike: looksLikeJSON(v)}
	}
	d := &Document{Format: f.name, single: true}
	d.add(f, data, strictjson.PosAt(data, v.Offset).Line, v, findings)
	return d, nil
}

// rows reads a list of InferenceX rows, which its API gives. Any other list is a
// summary that repeats what single files hold: nil.
func rows(data []byte) *Document {
	v, _, err := strictjson.Parse(data, ciOptions)
	if err != nil || len(v.Items) == 0 {
		return nil
	}
	d := &Document{Format: InferenceX}
	for _, item := range v.Items {
		if item.Kind != strictjson.Object || !isInferenceX(item) {
			return nil
		}
		d.add(inferenceX(), data, strictjson.PosAt(data, item.Offset).Line, item, nil)
	}
	return d
}

// many reads several values in a row: one a line, or pretty-printed one after
// another. It returns nil if the file is not that. Only formats that are
// written line by line survive a broken line; in any other file, text between
// objects means that something else wrote into it.
func many(data []byte, o strictjson.Options) *Document {
	d := &Document{}
	line, counted := 1, 0
	for at := skipSpace(data, 0); at < len(data); at = skipSpace(data, at) {
		line, counted = line+bytes.Count(data[counted:at], []byte{'\n'}), at
		v, findings, end, err := strictjson.ParseAt(data, at, o)
		if err != nil {
			return lines(data, o)
		}
		f, ok := recognise(v)
		if !ok || d.Format != "" && f.name != d.Format {
			return lines(data, o)
		}
		d.Format = f.name
		d.add(f, data, line, v, findings)
		at = end
	}
	if len(d.Samples) == 0 {
		return nil
	}
	return d
}

func lines(data []byte, o strictjson.Options) *Document {
	d := &Document{}
	line := 0
	for start := 0; start < len(data); {
		if len(d.Findings) > maxBroken {
			d.Findings = append(d.Findings, Finding{Fatal: true, Msg: fmt.Sprintf("more than %d lines are not results; the lines after %d are not read", maxBroken, line)})
			break
		}
		line++
		end := bytes.IndexByte(data[start:], '\n')
		if end < 0 {
			end = len(data)
		} else {
			end += start
		}
		at := skipSpace(data[:end], start)
		if at < end {
			d.line(data[:end], at, line, o)
		}
		start = end + 1
	}
	if d.Format == "" {
		return nil
	}
	return d
}

func (d *Document) line(data []byte, at, line int, o strictjson.Options) {
	v, findings, end, err := strictjson.ParseAt(data, at, o)
	if err == nil && skipSpace(data, end) < len(data) {
		err = errors.New("text follows the object")
	}
	if err != nil {
		d.Findings = append(d.Findings, Finding{Line: line, Fatal: true, Msg: fmt.Sprintf("line %d is not used: %v", line, err)})
		return
	}
	f, ok := recognise(v)
	if !ok || !f.lines || d.Format != "" && d.Format != f.name {
		d.Findings = append(d.Findings, Finding{Line: line, Fatal: true, Msg: fmt.Sprintf("line %d is not used: not a result of this file's kind", line)})
		return
	}
	d.Format = f.name
	d.add(f, data, line, v, findings)
}

func skipSpace(data []byte, at int) int {
	if at == 0 && bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		at = 3
	}
	for at < len(data) && strings.IndexByte(" \t\r\n", data[at]) >= 0 {
		at++
	}
	return at
}

func recognise(v *strictjson.Value) (format, bool) {
	if v.Kind != strictjson.Object {
		return format{}, false
	}
	for _, f := range formats() {
		if f.is(v) {
			return f, true
		}
	}
	return format{}, false
}

func (d *Document) add(f format, data []byte, line int, v *strictjson.Value, findings []strictjson.Finding) {
	if f.readAll != nil {
		f.readAll(d, data, line, v)
		return
	}
	b := &builder{data: data, sample: Sample{Line: line}}
	h := sha256.New()
	h.Write(data[v.Offset:v.End])
	b.sample.Digest = hex.EncodeToString(h.Sum(nil))
	if d.single && v.Offset == 0 {
		h.Write(data[v.End:])
		d.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	if free, ok := values.Get().(*[]Value); ok {
		b.sample.Values = *free
	}
	b.members(v, "")
	f.read(b, v)
	for _, x := range findings {
		b.findings = append(b.findings, Finding{
			Line:  x.Pos.Line,
			Msg:   "at " + x.Pos.String() + ": " + x.Msg,
			Fatal: x.Duplicate != "" && !x.SameValue,
		})
	}
	if len(b.asText) > 0 {
		b.findings = append(b.findings, Finding{Line: line, Msg: "numbers written as text: " + strings.Join(b.asText, ", ")})
	}
	d.Samples = append(d.Samples, b.sample)
	d.Findings = append(d.Findings, b.findings...)
}

// clean makes text storable: valid UTF-8 without NUL.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
