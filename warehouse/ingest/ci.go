package ingest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"cvs/collect/strictjson"
)

// A Part is what a published history holds of one run: one configuration of one
// publication. Its Data is cut from the file, value for value as written, and is
// a document for [Parse] of its own.
type Part struct {
	ID       string // equal for equal parts, wherever they were found
	Data     []byte
	Accuracy bool // lm-eval scores, not a sweep
}

// Split cuts a history of many published runs into its parts: the data.js of a
// benchmark dashboard, its entries as JSON lines, or the CSV files made of them.
// ok is false for any other file. Lines that cannot be used are an error beside the
// parts of the others. name is for messages.
func Split(name string, data []byte) (parts []Part, ok bool, err error) {
	switch {
	case isDashboard(data):
		parts, err = splitDashboard(data)
	case isEntryLines(data):
		parts, err = splitEntryLines(data)
	case isCICSV(data):
		parts, err = splitCSV(data)
	default:
		return nil, false, nil
	}
	if err != nil {
		return parts, true, fmt.Errorf("%s: %w", name, err)
	}
	return parts, true, nil
}

// few joins errors, of many the first ones and their number.
func few(errs []error) error {
	const most = 5
	if n := len(errs); n > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d lines more", n-most))
	}
	return errors.Join(errs...)
}

func part(data []byte, accuracy bool) Part {
	sum := sha256.Sum256(data)
	return Part{ID: hex.EncodeToString(sum[:])[:12], Data: data, Accuracy: accuracy}
}

var ciOptions = strictjson.Options{NonFinite: true, KeepDuplicates: true, MaxDepth: maxDepth, MaxBytes: 1 << 30}

func isDashboard(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data[:min(len(data), 256)], "\ufeff \r\n\t"), []byte("window.BENCHMARK_DATA"))
}

// splitDashboard reads the JavaScript that GitHub's benchmark action writes: an
// assignment of one JSON object.
func splitDashboard(data []byte) ([]Part, error) {
	at := bytes.IndexByte(data, '{')
	if at < 0 {
		return nil, errors.New("no data follows window.BENCHMARK_DATA")
	}
	v, _, end, err := strictjson.ParseAt(data, at, ciOptions)
	if err != nil {
		return nil, err
	}
	if rest := bytes.TrimLeft(data[end:], "; \r\n\t"); len(rest) > 0 {
		return nil, errors.New("more follows the data of the dashboard")
	}
	var parts []Part
	entries := v.Get("entries")
	if entries == nil {
		return nil, errors.New("the dashboard has no entries")
	}
	for _, suite := range entries.Members {
		for _, e := range suite.Value.Items {
			if !isEntry(e) {
				return nil, fmt.Errorf("line %d: an entry without commit, date or benches", strictjson.PosAt(data, e.Offset).Line)
			}
			parts = append(parts, splitEntry(data, e)...)
		}
	}
	return parts, nil
}

func isEntryLines(data []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(data, "\ufeff \r\n\t"), []byte("\n"))
	if len(line) == 0 || line[0] != '{' || !bytes.Contains(line, []byte(`"benches"`)) {
		return false
	}
	v, _, _, err := strictjson.ParseAt(line, 0, ciOptions)
	return err == nil && isEntry(v) && !isPart(v)
}

func splitEntryLines(data []byte) ([]Part, error) {
	var parts []Part
	var broken []error
	for at := skipSpace(data, 0); at < len(data); at = skipSpace(data, at) {
		v, _, end, err := strictjson.ParseAt(data, at, ciOptions)
		switch {
		case err != nil: // the others are on lines of their own
			broken = append(broken, fmt.Errorf("line %d is not used: %w", strictjson.PosAt(data, at).Line, err))
			end = len(data)
			if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
				end = at + n
			}
		case !isEntry(v):
			broken = append(broken, fmt.Errorf("line %d is no dashboard entry", strictjson.PosAt(data, v.Offset).Line))
		default:
			parts = append(parts, splitEntry(data, v)...)
		}
		at = end
	}
	return parts, few(broken)
}

func isEntry(v *strictjson.Value) bool {
	b := v.Get("benches")
	return b != nil && b.Kind == strictjson.Array && has(v, "commit", "date")
}

// isPart tells an entry that splitEntry made: it holds one configuration.
func isPart(v *strictjson.Value) bool { return v.Get("part") != nil }

// splitEntry groups the benches of an entry by what measured them.
func splitEntry(data []byte, e *strictjson.Value) []Part {
	groups := make(map[string][]*strictjson.Value)
	var order []string
	benches := e.Get("benches")
	if benches == nil {
		return nil
	}
	for _, b := range benches.Items {
		name, ok := parseBench(text(b.Get("name")))
		if !ok {
			name.model = text(b.Get("name"))
		}
		x := parseExtra(text(b.Get("extra")))
		if x["gpu"] == "" && name.metric == "_gpu_count" && len(order) > 0 {
			// the count stands behind its configuration, without the rest of the facts
			if last := order[len(order)-1]; strings.HasPrefix(last, name.who()+"\x00") {
				groups[last] = append(groups[last], b)
				continue
			}
		}
		key := name.who() + "\x00" + x["gpu"] + "\x00" + x.image()
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], b)
	}
	var parts []Part
	for _, key := range order {
		var buf bytes.Buffer
		buf.WriteString(`{"part": `)
		buf.WriteString(strconv.Quote(strings.ToValidUTF8(strings.SplitN(key, "\x00", 2)[0], "?")))
		for _, k := range []string{"date", "commit", "tool"} {
			if m := e.Get(k); m != nil {
				fmt.Fprintf(&buf, ", %q: %s", k, data[m.Offset:m.End])
			}
		}
		buf.WriteString(`, "benches": [`)
		accuracy := false
		for i, b := range groups[key] {
			if i > 0 {
				buf.WriteString(", ")
			}
			buf.Write(data[b.Offset:b.End])
			accuracy = accuracy || accuracyName.MatchString(text(b.Get("name")))
		}
		buf.WriteString("]}")
		parts = append(parts, part(buf.Bytes(), accuracy))
	}
	return parts
}

// A benchName is what a dashboard packs into the name of a value:
// [BACKEND::]model [TPn] ISL/OSL c=N metric.
type benchName struct {
	backend, model, metric string
	isl, osl, conc         int64
	tp                     int64
}

var (
	benchNames   = regexp.MustCompile(`^(?:([\w-]+)::)?(.+?) (\d+)/(\d+) c=(\d+) (.+)$`)
	accuracyName = regexp.MustCompile(`^(?:([\w-]+)::)?(.+?) accuracy \((.+)\)$`)
	tpSuffix     = regexp.MustCompile(`(?i)(?: |-aw-|-)tp(\d+)(?:\+ep\d+)?$`)
	mtpSuffix    = regexp.MustCompile(`(?i)[ -]mtp(\d*)$`)
)

func parseBench(name string) (benchName, bool) {
	m := benchNames.FindStringSubmatch(name)
	if m == nil {
		return benchName{}, false
	}
	b := benchName{backend: m[1], metric: m[6]}
	b.model, b.tp = ciModel(m[2])
	b.isl, b.osl, b.conc = atoi(m[3]), atoi(m[4]), atoi(m[5])
	return b, true
}

// ciModel separates the tensor parallelism that dashboards append to the model
// (" TP8", "-tp8", "-aw-tp2"), and spells speculative decoding one way. Either may
// stand last.
func ciModel(s string) (model string, tp int64) {
	mtp := ""
	if m := mtpSuffix.FindStringSubmatchIndex(s); m != nil {
		mtp = "-mtp" + s[m[2]:m[3]]
		s = s[:m[0]]
	}
	if m := tpSuffix.FindStringSubmatchIndex(s); m != nil {
		tp = atoi(s[m[2]:m[3]])
		s = s[:m[0]]
	}
	return mtpSuffix.ReplaceAllString(s, "-mtp$1") + mtp, tp
}

func atoi(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (b benchName) who() string {
	return fmt.Sprintf("%s %s tp%d", orATOM(b.backend), b.model, b.tp)
}

// orATOM names the backend of names that have no prefix, as all had until April
// 2026.
func orATOM(backend string) string {
	if backend == "" {
		return "ATOM"
	}
	return backend
}

// ciDriver is our name of a dashboard's backend.
func ciDriver(backend string) string {
	switch orATOM(backend) {
	case "ATOM":
		return "atom"
	case "ATOM-vLLM":
		return "vllm_atom"
	case "ATOM-SGLang":
		return "sglang_atom"
	}
	return strings.ToLower(backend)
}

// extraText is what a dashboard says beside a bench, by key in lower case.
type extraText map[string]string

func (x extraText) image() string { return cmp.Or(x["docker"], x["image"]) }

// parseExtra reads "Key: value | Key: value", also with = as later dashboards
// write it; keys come in lower case.
func parseExtra(s string) extraText {
	out := make(extraText)
	for _, f := range strings.Split(s, " | ") {
		if i := strings.IndexAny(f, ":="); i > 0 {
			out[strings.ToLower(strings.TrimSpace(f[:i]))] = strings.TrimSpace(f[i+1:])
		}
	}
	return out
}

var runInURL = regexp.MustCompile(`/runs/(\d+)`)

// ciMetrics are the metrics of dashboards; TTFT and TPOT are means, acceptance is
// in per cent.
var ciMetrics = map[string]struct {
	metric string
	factor float64
}{
	"throughput (tok/s)": {"output_throughput", 1}, "output_tput": {"output_throughput", 1},
	"Total Tput (tok/s)": {"total_token_throughput", 1}, "total_tput": {"total_token_throughput", 1},
	"TTFT (ms)": {"mean_ttft_ms", 1}, "ttft_ms": {"mean_ttft_ms", 1},
	"TPOT (ms)": {"mean_tpot_ms", 1}, "tpot_ms": {"mean_tpot_ms", 1},
	"Accept Length (tok/fwd)": {"mtp.accept_length", 1}, "accept_len": {"mtp.accept_length", 1},
	"Acceptance Rate (%)": {"mtp.acceptance_rate", 0.01}, "accept_rate": {"mtp.acceptance_rate", 0.01},
}

// ciEntry reads one part of a dashboard: a sample for every shape and
// concurrency. Of a value written twice the last counts.
func ciEntry() format {
	return format{name: CIEntry, is: func(v *strictjson.Value) bool { return isPart(v) && isEntry(v) }, readAll: readEntry}
}

func readEntry(d *Document, data []byte, line int, v *strictjson.Value) {
	type shape struct {
		isl, osl, conc int64
		task           string
	}
	byShape := make(map[shape]*builder)
	var order []shape
	seen := make(map[shape]map[string]int)
	for i, b := range v.Get("benches").Items {
		name := text(b.Get("name"))
		bench, ok := parseBench(name)
		at := shape{bench.isl, bench.osl, bench.conc, ""}
		metric := ""
		if acc := accuracyName.FindStringSubmatch(name); !ok && acc != nil {
			bench.backend = acc[1]
			bench.model, bench.tp = ciModel(acc[2])
			at.task = strings.ToLower(acc[3])
			metric = at.task + ".exact_match__flexible-extract"
		} else if m, known := ciMetrics[bench.metric]; known {
			metric = m.metric
		}
		s := byShape[at]
		if s == nil {
			s = &builder{data: data, sample: Sample{Line: line, Identity: ciIdentity(v, bench)}}
			byShape[at], seen[at] = s, make(map[string]int)
			order = append(order, at)
		}
		s.sample.Identity.fill(parseExtra(text(b.Get("extra"))))
		value := b.Get("value")
		if value == nil {
			continue
		}
		x := s.value(name, fmt.Sprintf("/benches/%d", i), value)
		x.pointer = fmt.Sprintf("/benches/%d/value", i)
		if at.task != "" {
			x.Key, x.Parent = "exact_match,flexible-extract", "/results/"+at.task
		}
		if m, known := ciMetrics[bench.metric]; known && x.Quality == OK {
			x.Number *= m.factor
		}
		if bench.metric == "_gpu_count" || bench.metric == "_tp" {
			if n := integer(value); n != nil && (bench.metric == "_tp" || s.sample.Identity.TP == nil) {
				s.sample.Identity.TP = n
			}
		}
		if metric != "" {
			x.Metric = metric
			if old, twice := seen[at][metric]; twice {
				s.sample.Values[old].Metric = ""
				d.Findings = append(d.Findings, Finding{Line: line, Msg: fmt.Sprintf("%q stands twice in one entry: the last counts", name)})
			}
			seen[at][metric] = len(s.sample.Values)
		}
		s.sample.Values = append(s.sample.Values, x)
	}
	for _, at := range order {
		s := byShape[at]
		s.sample.Digest = s.digest()
		d.Samples = append(d.Samples, s.sample)
	}
}

func ciIdentity(e *strictjson.Value, b benchName) Identity {
	id := Identity{Model: b.model, Driver: ciDriver(b.backend), Commit: text(e.Get("commit").Get("id"))}
	id.shape(b.isl, b.osl, b.conc, b.tp)
	if ms := float(e.Get("date")); ms != nil {
		s := *ms / 1000
		id.StartUnix = &s
	}
	return id
}

// shape sets what is known; 0 is how dashboards write an unknown length.
func (id *Identity) shape(isl, osl, conc, tp int64) {
	for _, x := range []struct {
		n    int64
		into **int64
	}{{isl, &id.ISL}, {osl, &id.OSL}, {conc, &id.Concurrency}, {tp, &id.TP}} {
		if x.n > 0 {
			n := x.n
			*x.into = &n
		}
	}
}

func (id *Identity) fill(extra extraText) {
	if g := extra["gpu"]; g != "" {
		id.GPU = g
	}
	if i := extra.image(); i != "" {
		id.Image = i
	}
	if m := runInURL.FindStringSubmatch(extra["run"]); m != nil {
		id.CIRun = m[1]
	}
}

// digest is that of the values a sample was put together from.
func (b *builder) digest() string {
	h := sha256.New()
	for _, v := range b.sample.Values {
		fmt.Fprintf(h, "%s %s\n", v.Key, v.Raw)
	}
	return hex.EncodeToString(h.Sum(nil))
}
