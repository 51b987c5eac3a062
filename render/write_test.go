package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	// A parser that is not ours: what a browser would see.
	"golang.org/x/net/html"

	"cvs/templates"
	"cvs/warehouse"
)

// page parses the printed deck.
func parse(t *testing.T, d *Deck) (*html.Node, string) {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, d); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return root, b.String()
}

func walk(n *html.Node, f func(*html.Node)) {
	f(n)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		walk(c, f)
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// written are the elements and attributes of the templates. Nothing else may
// appear, whatever the input says.
var written = map[string]string{
	"html": "lang", "head": "", "meta": "charset http-equiv content name", "title": "", "style": "", "body": "class",
	"a": "href class", "header": "class", "div": "class id role aria-label hidden tabindex", "h1": "", "h2": "", "h3": "class",
	"nav": "class aria-label", "span": "class title tabindex", "b": "", "main": "class id", "p": "class role", "ul": "", "li": "",
	"dl": "class", "dt": "", "dd": "title class", "strong": "", "small": "", "section": "id", "details": "class id open", "summary": "",
	"pre": "tabindex", "code": "", "table": "id data-tools", "caption": "", "thead": "", "tbody": "class data-state", "tr": "id class data-state",
	"th": "scope class title data-m data-f", "td": "class title data-v data-sort", "svg": "role aria-label class viewBox preserveAspectRatio aria-hidden",
	// Of Markdown in notes.
	"em": "", "blockquote": "", "ol": "start", "del": "", "hr": "", "br": "", "h4": "", "h5": "", "h6": "",
	"rect": "class x width height", "path": "class d", "figure": "class", "figcaption": "", "i": "class", "script": "type id", "footer": "",
}

var hostileTexts = []string{
	`<img src=x onerror="document.title='PWN'">`,
	`</script><script>document.title='PWN'</script>`,
	`<!--<script>`, `]]>`, `</style><b>`, `</title><svg onload=alert(1)>`,
	`fp8" onmouseover="document.title='PWN'`, `x' style='position:fixed`,
	"\u2028\u2029\\'\"`", "javascript:alert(1)", "{{.}}", "\u202eSSAP", "\x00\x07\x1b[31m",
	strings.Repeat("A", 4000),
}

// poison puts text into every string of v, of any depth.
func poison(v reflect.Value, next func() string) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(next())
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			poison(v.Field(i), next)
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), next)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), next)
		}
	case reflect.Map:
		// Keys and values of text: what there was is no longer there.
		if v.Len() > 0 && v.Type().Key().Kind() == reflect.String && v.Type().Elem().Kind() == reflect.String {
			fresh := reflect.MakeMap(v.Type())
			for range v.Len() {
				fresh.SetMapIndex(reflect.ValueOf(next()).Convert(v.Type().Key()), reflect.ValueOf(next()).Convert(v.Type().Elem()))
			}
			v.Set(fresh)
		}
	}
}

// poisonJSON does the same where a text is JSON: what is in it is hostile, and
// it can be read.
func poisonJSON(t *testing.T, d *Data, next func() string) {
	words := func() string { return jsonOf(t, []string{next(), next()}) }
	d.Run.Hosts, d.Run.CommandLine, d.Run.Warnings = words(), words(), words()
	d.Run.Labels = jsonOf(t, map[string]string{"notes": next(), next(): next(), next(): next()})
	for i := range d.Attempts {
		d.Attempts[i].ServerArgv, d.Attempts[i].ClientArgv = words(), words()
	}
}

// populate gives every empty list of v, of any depth, an element, and every nil
// pointer something to point to, so that no panel stays away.
func populate(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				populate(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		}
		for i := range v.Len() {
			populate(v.Index(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		populate(v.Elem())
	case reflect.Map:
		if v.Len() == 0 && v.Type().Key().Kind() == reflect.String && v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			for _, text := range hostileTexts {
				v.SetMapIndex(reflect.ValueOf(text).Convert(v.Type().Key()), reflect.ValueOf(text).Convert(v.Type().Elem()))
			}
		}
	}
}

// Every list of rows that a deck is made of holds rows with hostile text that
// belong to a cell of the run, so that each panel shows them; small and large.
func TestHostilePanels(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func() *Data{"small": fixture, "large": func() *Data { return sized(static + 6) }} {
		for shift := range hostileTexts {
			if name == "large" && shift%4 != 0 {
				continue
			}
			d := make()
			populate(reflect.ValueOf(d).Elem())
			i := shift
			poison(reflect.ValueOf(d).Elem(), func() string {
				i++
				return hostileTexts[i%len(hostileTexts)]
			})
			if shift%2 == 1 {
				poisonJSON(t, d, func() string {
					i++
					return hostileTexts[i%len(hostileTexts)]
				})
			}
			clean := make()
			for i := range d.Cells {
				d.Cells[i].CellKey, d.Cells[i].State = clean.Cells[i].CellKey, clean.Cells[i].State
			}
			for i := range d.Metrics {
				if shift%2 == 0 { // where names are hostile too, nothing can be drawn
					d.Metrics[i].Metric = clean.Metrics[i].Metric
				}
			}
			d.Problems = nil
			for i := range d.Prev {
				d.Prev[i].State = "compared"
			}
			for i := range d.Checks {
				d.Checks[i].State = warehouse.Error
			}
			// Rows lead to cells of this run again.
			v := reflect.ValueOf(d).Elem()
			for f := range v.NumField() {
				rows := v.Field(f)
				if rows.Kind() != reflect.Slice || rows.Type().Elem().Kind() != reflect.Struct || v.Type().Field(f).Name == "Cells" {
					continue
				}
				for j := range rows.Len() {
					if key := rows.Index(j).FieldByName("CellKey"); key.IsValid() && key.Kind() == reflect.String {
						key.SetString(clean.Cells[j%len(clean.Cells)].CellKey)
						if v.Type().Field(f).Name == "Metrics" {
							key.SetString(clean.Metrics[j].CellKey) // together they make a cell
						}
					}
				}
			}
			checkWritten(t, d)
			shown := map[string]bool{}
			for _, s := range Build(d, testOptions).Sections {
				shown[s.ID] = s.Empty == ""
			}
			for _, id := range []string{"gates", "charts", "interactivity", "distributions", "results", "cells", "previous", "changed", "golden", "parity", "scaling", "accuracy", "needles", "drafts",
				"telemetry", "kernel", "tasks", "quality", "lifecycle", "logs", "signoff", "artifacts", "notes"} {
				if !shown[id] && (shift%2 == 0 || id != "interactivity") {
					t.Errorf("%s, %d: section %s shows nothing, so that it was not tried", name, shift, id)
				}
			}
		}
	}
}

// With hostile text in every field the parsed page holds no element and no
// attribute that the templates did not write, and every id is there once.
func TestHostileText(t *testing.T) {
	t.Parallel()
	for shift := range hostileTexts {
		d := fixture()
		i := shift
		poison(reflect.ValueOf(d).Elem(), func() string {
			i++
			return hostileTexts[i%len(hostileTexts)]
		})
		checkWritten(t, d)
	}
	// The same with states and keys that fit, so that every row is shown.
	for _, text := range hostileTexts {
		d := fixture()
		for i := range d.Cells {
			d.Cells[i].Combo, d.Cells[i].CellID, d.Cells[i].Reason = text, text, text
		}
		for i := range d.Gates {
			d.Gates[i].Reason, d.Gates[i].File, d.Gates[i].Reference, d.Gates[i].GotText, d.Gates[i].Unit = text, text, text, text, text
		}
		for i := range d.Metrics {
			d.Metrics[i].Host, d.Metrics[i].Text, d.Metrics[i].Note, d.Metrics[i].Key = text, text, text, text
		}
		d.Metrics = append(d.Metrics, warehouse.MetricRow{CellKey: d.Cells[0].CellKey, Metric: text, Value: ptr(1.0)})
		d.Run.Model, d.Run.Precision, d.Run.RunID, d.Run.Image = text, text, text, text
		d.Run.Labels, d.Run.CommandLine = jsonOf(t, map[string]string{"notes": text, text: text}), jsonOf(t, []string{text, text})
		checkWritten(t, d)
	}
}

func checkWritten(t *testing.T, d *Data) {
	t.Helper()
	root, source := parse(t, Build(d, testOptions))
	ids := map[string]int{}
	walk(root, func(n *html.Node) {
		if n.Type != html.ElementNode {
			return
		}
		allowed, ok := written[n.Data]
		if !ok {
			t.Errorf("element <%s> is not of the templates", n.Data)
		}
		for _, a := range n.Attr {
			if !strings.Contains(" "+allowed+" ", " "+a.Key+" ") {
				t.Errorf("attribute %s of <%s> is not of the templates", a.Key, n.Data)
			}
			if a.Key == "id" {
				ids[a.Val]++
			}
			if a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
				t.Errorf("href %q leaves the page", a.Val)
			}
		}
		if n.Data == "script" && attr(n, "type") == "application/json" {
			var v any
			if err := json.Unmarshal([]byte(n.FirstChild.Data), &v); err != nil {
				t.Errorf("embedded data is no strict JSON: %v", err)
			}
		}
	})
	for id, n := range ids {
		if n > 1 || strings.ContainsAny(id, " \t\n\"'<>") || id == "" {
			t.Errorf("id %q stands %d times", id, n)
		}
	}
	if strings.Contains(source, "\u202e") || strings.Contains(source, "\x1b") || strings.Contains(source, "ZgotmplZ") {
		t.Error("a control or bidirectional character, or a refused value, reached the page")
	}
	if !strings.HasSuffix(source, "</html>\n") {
		t.Error("the page does not end with </html>")
	}
}

// The policy allows exactly the bytes that the page holds, and the page asks
// for nothing.
func TestPolicy(t *testing.T) {
	t.Parallel()
	root, _ := parse(t, Build(fixture(), testOptions))
	var policy string
	sum := func(s string) string {
		h := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(h[:]) + "'"
	}
	scripts := 0
	walk(root, func(n *html.Node) {
		switch {
		case n.Data == "meta" && attr(n, "http-equiv") == "Content-Security-Policy":
			policy = attr(n, "content")
		case n.Data == "style" && n.Type == html.ElementNode:
			allowed, _, _ := strings.Cut(policy[strings.Index(policy, "style-src"):], ";")
			if !strings.Contains(allowed, sum(n.FirstChild.Data)) {
				t.Error("the policy does not allow the page's style")
			}
		case n.Data == "script" && attr(n, "type") != "application/json": // also the one that is evaluated later
			scripts++
			if !strings.Contains(policy, sum(n.FirstChild.Data)) {
				t.Error("the policy does not allow a script of the page")
			}
		}
		if n.Type == html.ElementNode && (n.Data == "link" || attr(n, "src") != "" || attr(n, "style") != "") {
			t.Errorf("<%s> asks for something or carries a style", n.Data)
		}
	})
	if scripts != 2 {
		t.Errorf("%d scripts, want the charts and boot.js", scripts)
	}
	for _, part := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'", "img-src data:"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy lacks %s", part)
		}
	}
	css, err := fs.ReadFile(templates.Deck(), "deck.css")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(css, []byte("url(")) || bytes.Contains(css, []byte("@import")) {
		t.Error("deck.css can ask for something")
	}
}

// Equal input gives equal bytes.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	_, a := parse(t, Build(fixture(), testOptions))
	_, b := parse(t, Build(fixture(), testOptions))
	if a != b {
		t.Error("two decks of the same rows differ")
	}
}

// The visible text of the deck, without charts' data, style and scripts.
func TestGolden(t *testing.T) {
	t.Parallel()
	d := fixture()
	// Two cells are enough to read.
	d.Cells = []warehouse.CellStatusRow{d.Cells[2], d.Cells[3]}
	keep := func(k string) bool { return k == d.Cells[0].CellKey || k == d.Cells[1].CellKey }
	d.Gates = filter(d.Gates, func(g warehouse.GateRow) bool { return keep(g.CellKey) })
	d.Tiers = filter(d.Tiers, func(g warehouse.TierRow) bool { return keep(g.CellKey) })
	d.Metrics = filter(d.Metrics, func(g warehouse.MetricRow) bool { return keep(g.CellKey) })
	d.Artifacts = filter(d.Artifacts, func(a warehouse.ArtifactRow) bool { return keep(a.CellKey) })
	d.Stages = d.Stages[:3]
	root, _ := parse(t, Build(d, testOptions))
	var b strings.Builder
	walk(root, func(n *html.Node) {
		if n.Type == html.TextNode && n.Parent.Data != "script" && n.Parent.Data != "style" {
			if s := strings.Join(strings.Fields(n.Data), " "); s != "" {
				b.WriteString(s + "\n")
			}
		}
	})
	golden := filepath.Join("testdata", "deck.txt")
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the deck's text changed (UPDATE=1 accepts it):\n%s", diff)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func filter[T any](in []T, keep func(T) bool) []T {
	var out []T
	for _, v := range in {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// Every optional branch of the templates runs: an empty run, one that holds
// everything, and one with an error in every section.
func TestEveryBranch(t *testing.T) {
	t.Parallel()
	full := fixture()
	full.Accuracy = []warehouse.AccuracyRow{{TaskID: "gsm8k", Metric: "gsm8k.exact_match__strict-match", Value: ptr(0.9447), StdErr: ptr(0.006)}, {TaskID: "gsm8k", Metric: "x", Text: "NaN"}}
	full.Checks = append(full.Checks, warehouse.CheckGateRow{Scope: "accuracy", Target: "gsm8k", Metric: "m", Kind: "min", State: warehouse.Error, Reason: "no result", File: "t.json", Line: 3})
	full.Cells[0].Planned = false
	full.Gates = append(full.Gates,
		warehouse.GateRow{CellKey: full.Cells[0].CellKey, Metric: "a", Tier: "other", Kind: "within", Wanted: ptr(1.0), TolerancePct: ptr(5.0), Got: ptr(1.01), State: "pass", MarginPct: ptr(4.0)},
		warehouse.GateRow{CellKey: full.Cells[0].CellKey, Metric: "b", Tier: "other", Kind: "min_ratio", Reference: "a", Wanted: ptr(0.9), Got: ptr(1.0), State: "pass", MarginPct: ptr(math.Inf(1))},
		warehouse.GateRow{CellKey: full.Cells[0].CellKey, Metric: "c", Tier: "other", Kind: "info", State: "info"},
		warehouse.GateRow{CellKey: full.Cells[0].CellKey, Metric: "d", Tier: "tomorrow", Kind: "median", State: "waived", Host: "other"},
	)
	problems := fixture()
	problems.Problems = map[string]string{}
	for _, s := range Build(problems, testOptions).Sections {
		problems.Problems[s.ID] = "the view is gone"
	}
	for name, d := range map[string]*Data{"empty": {}, "full": full, "problems": problems} {
		root, source := parse(t, Build(d, Options{}))
		if !strings.HasSuffix(source, "</html>\n") {
			t.Errorf("%s: the page is cut off", name)
		}
		sections := 0
		walk(root, func(n *html.Node) {
			if n.Data == "section" {
				sections++
			}
		})
		if sections < 6 {
			t.Errorf("%s: %d sections", name, sections)
		}
		if got := strings.Count(source, "could not be built: the view is gone"); name == "problems" && got != sections {
			t.Errorf("%d of %d sections show their error", got, sections)
		}
	}
}

// An older deck survives whatever goes wrong.
func TestOldDeckSurvives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "deck.html")
	if err := WriteFile(path, Build(fixture(), testOptions)); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(failing{}, Build(fixture(), testOptions), templates.Deck()); !errors.Is(err, errFull) {
		t.Errorf("a full disk gives %v", err)
	}
	if err := write(&bytes.Buffer{}, Build(fixture(), testOptions), fstest.MapFS{}); err == nil {
		t.Error("missing templates give no error")
	}
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(old, now) {
		t.Errorf("the old deck changed (%v)", err)
	}
	if err := WriteFile(dir, Build(fixture(), testOptions)); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a folder as target gives %v", err)
	}
	if err := WriteFile(filepath.Join(dir, "none", "deck.html"), Build(fixture(), testOptions)); err == nil {
		t.Error("a missing folder gives no error")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files left over: %v (%v)", left, err)
	}
}

var errFull = errors.New("disk full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestSidecar(t *testing.T) {
	t.Parallel()
	d := fixture()
	notes := `</script><script>document.title='PWN'</script>` + "<!--<script>]]>\u2028\u2029\\'\""
	d.Run.Labels = jsonOf(t, map[string]string{"notes": notes})
	d.Metrics = append(d.Metrics, warehouse.MetricRow{CellKey: d.Cells[0].CellKey, Metric: "odd", Value: ptr(math.NaN()), Text: "NaN"}, warehouse.MetricRow{CellKey: d.Cells[0].CellKey, Metric: "odder", Value: ptr(math.Inf(1))})
	var b bytes.Buffer
	if err := WriteJSON(&b, d, testOptions); err != nil {
		t.Fatal(err)
	}
	var got sidecarCheck
	dec := json.NewDecoder(&b)
	if err := dec.Decode(&got); err != nil {
		t.Fatalf("no strict JSON: %v", err)
	}
	if got.SchemaVersion != 2 || got.OverallStatus != "fail" || got.RunCardNotes != notes {
		t.Errorf("head: %d %q %q", got.SchemaVersion, got.OverallStatus, got.RunCardNotes)
	}
	if len(got.Expected) != 8 || len(got.Cells) != 7 || len(got.GateMatrix) != 8 || len(got.ResultsTable.Rows) != 8 || len(got.Gates) != len(d.Gates) {
		t.Errorf("%d expected, %d cells, %d matrix, %d rows, %d gates", len(got.Expected), len(got.Cells), len(got.GateMatrix), len(got.ResultsTable.Rows), len(got.Gates))
	}
	c := got.Cells[0]
	if v, ok := c.Actuals["client.odd"]; !ok || v != nil || c.Text["client.odd"] != "NaN" {
		t.Errorf("NaN is %v with text %q", v, c.Text["client.odd"])
	}
	if v := c.Actuals["client.queue_ms"]; v == nil || *v != 0 {
		t.Errorf("queue_ms is %v, want 0", v)
	}
	if v := c.Actuals["mtp.accept_length"]; v != nil {
		t.Errorf("mtp.accept_length is %v, want null", *v)
	}
	d.Status = warehouse.RunStatusRow{Verdict: "pass", Incomplete: true}
	if s := side(d, testOptions).OverallStatus; s != "incomplete" {
		t.Errorf("an incomplete run says %q", s)
	}
}

type sidecarCheck struct {
	SchemaVersion int    `json:"schema_version"`
	OverallStatus string `json:"overall_status"`
	RunCardNotes  string `json:"run_card_notes"`
	Expected      []any  `json:"expected_cells"`
	Cells         []struct {
		Actuals map[string]*float64 `json:"actuals"`
		Text    map[string]string   `json:"actuals_text"`
	} `json:"cells"`
	GateMatrix   []any `json:"gate_matrix"`
	Gates        []any `json:"gates"`
	ResultsTable struct {
		Rows [][]any `json:"rows"`
	} `json:"results_table"`
}
