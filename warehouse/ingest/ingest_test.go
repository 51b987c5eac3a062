package ingest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cvs/collect/strictjson"
)

// describe prints what was read of a document, for review in a golden file.
func describe(d *Document, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d samples\n", d.Format, len(d.Samples))
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "  finding, line %d, fatal %t: %s\n", f.Line, f.Fatal, f.Msg)
	}
	show := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	for _, s := range d.Samples {
		id := s.Identity
		fmt.Fprintf(&b, "  line %d: model %q backend %q isl %s osl %s concurrency %s tp %s prompts %s date %q\n",
			s.Line, id.Model, id.Backend, show(id.ISL), show(id.OSL), show(id.Concurrency), show(id.TP), show(id.NumPrompts), id.Date)
		for _, v := range s.Values {
			switch {
			case v.Metric != "" && v.Quality == OK:
				fmt.Fprintf(&b, "    %s = %v (%s)\n", v.Metric, v.Number, v.Pointer())
			case v.Metric != "":
				fmt.Fprintf(&b, "    %s is %s (%s)\n", v.Metric, v.Quality, v.Pointer())
			}
		}
	}
	return b.String()
}

// TestRealFiles reads real files of every age and kind.
func TestRealFiles(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/files/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("no files: %v", err)
	}
	var b strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Parse(filepath.Base(name), data)
		fmt.Fprintf(&b, "== %s: %s", filepath.Base(name), describe(d, err))
		if err != nil {
			continue
		}
		for _, s := range d.Samples {
			keepsEverything(t, data, s)
		}
	}
	golden := "testdata/files.golden"
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("-want +got (UPDATE=1 rewrites it):\n%s", d)
	}
}

// keepsEverything checks that each top-level key came back with its text.
func keepsEverything(t *testing.T, data []byte, s Sample) {
	t.Helper()
	top := 0
	for _, v := range s.Values {
		if v.Parent == "" {
			top++
		}
		if v.SHA256 == "" && v.Raw == "" || len(v.Raw) > 0 && !strings.Contains(string(data), v.Raw) {
			t.Errorf("the value of %s is not in the file as %q", v.Pointer(), v.Raw)
		}
	}
	if top == 0 {
		t.Error("a sample without keys")
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	const head = `{"backend": "vllm", "num_prompts": 10, "completed": 10, `
	find := func(t *testing.T, body, key string) Value {
		t.Helper()
		d, err := Parse("f", []byte(head+body+`}`))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(d.Samples[0].Values, func(v Value) bool { return v.Key == key })
		if i < 0 {
			t.Fatalf("no key %q", key)
		}
		return d.Samples[0].Values[i]
	}
	tests := []struct {
		body, key string
		metric    string
		quality   Quality
		number    float64
	}{
		{`"mean_ttft_ms": 412.5`, "mean_ttft_ms", "mean_ttft_ms", OK, 412.5},
		{`"mean_ttft_ms": "412.5"`, "mean_ttft_ms", "mean_ttft_ms", OK, 412.5},
		{`"mean_ttft_ms": "412,5"`, "mean_ttft_ms", "mean_ttft_ms", NonNumeric, 0},
		{`"mean_ttft_ms": " 412.5"`, "mean_ttft_ms", "mean_ttft_ms", NonNumeric, 0},
		{`"mean_ttft_ms": "NaN"`, "mean_ttft_ms", "mean_ttft_ms", NonNumeric, 0},
		{`"mean_ttft_ms": true`, "mean_ttft_ms", "mean_ttft_ms", NonNumeric, 0},
		{`"mean_ttft_ms": null`, "mean_ttft_ms", "mean_ttft_ms", Null, 0},
		{`"mean_ttft_ms": 1e400`, "mean_ttft_ms", "mean_ttft_ms", OutOfRange, 0},
		{`"mean_ttft_ms": -0.0`, "mean_ttft_ms", "mean_ttft_ms", OK, 0},
		{`"mean_ttft_ms": 2.048E+3`, "mean_ttft_ms", "mean_ttft_ms", OK, 2048},
		{`"mean_ttft_ms": 0`, "mean_ttft_ms", "mean_ttft_ms", OK, 0},
		{`"mean_ttft_ms": 1, "request_goodput:": 1.85`, "request_goodput:", "goodput", OK, 1.85},
		{`"mean_ttft_ms": 1, "request_goodput:": 1.85, "request_goodput": 2.1`, "request_goodput:", "", OK, 1.85},
		{`"mean_ttft_ms": 1, "request_goodput:": 1.85, "request_goodput": null`, "request_goodput:", "goodput", OK, 1.85},
		{`"mean_ttft_ms": 1, "mean_e2e_latency_ms": 7`, "mean_e2e_latency_ms", "mean_e2el_ms", OK, 7},
		{`"mean_ttft_ms": 1, "mean_latency_ms": 7`, "mean_latency_ms", "mean_e2el_ms", OK, 7},
		{`"mean_ttft_ms": 1, "Mean_TTFT_ms": 7`, "Mean_TTFT_ms", "", OK, 7},
		{`"mean_ttft": 1`, "mean_ttft", "", OK, 1},
		{`"mean_ttft_ms": 1, "success_rate": 1`, "success_rate", "", OK, 1},
	}
	for _, tt := range tests {
		v := find(t, tt.body, tt.key)
		if v.Metric != tt.metric || v.Quality != tt.quality || tt.quality == OK && v.Number != tt.number {
			t.Errorf("%s: %s is metric %q, %s, %v; want %q, %s, %v", tt.body, tt.key, v.Metric, v.Quality, v.Number, tt.metric, tt.quality, tt.number)
		}
	}
	if v := find(t, `"mean_ttft_ms": 1, "total_input_tokens": 12345678901234567`, "total_input_tokens"); v.Text != "12345678901234567" {
		t.Errorf("a large integer is kept as %q", v.Text)
	}
	if v := find(t, `"mean_ttft_ms": NaN`, "mean_ttft_ms"); v.Quality != NonFinite || v.Text != "NaN" {
		t.Errorf("NaN is %s %q", v.Quality, v.Text)
	}
	big := `"mean_ttft_ms": 1, "itls": [` + strings.Repeat("[0.01, 0.02], ", 100_000) + `[]]`
	if v := find(t, big, "itls"); v.Raw != "" || v.SHA256 == "" || v.Bytes < MaxRaw {
		t.Errorf("a list of %d bytes must be kept by hash", v.Bytes)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	good := `{"backend": "vllm", "num_prompts": 1, "completed": 1, "mean_ttft_ms": 1}`
	tests := []struct{ name, data, want string }{
		{"empty", "", "empty"},
		{"blank", " \r\n\t", "empty"},
		{"cut", good[:40], "the input ended early, after 40 bytes"},
		{"text before", "Starting\n" + good, "1:1: expected a JSON value"},
		{"text after", good + "\nResults saved", "2:1: unexpected text after the JSON value"},
		{"utf-16", "\xff\xfe{\x00", "UTF-16"},
		{"deep", strings.Repeat("[", 200_000), "nested deeper than 1000 levels"},
		{"list", "[" + good + "]", "a list"},
		{"csv", "a,b,c\n1,2,3\n", "a CSV table"},
		{"gzip", "\x1f\x8b\x08\x00", "a gzip archive"},
		{"config", `{"params": {}, "model": {}}`, "a cvs configuration"},
		{"single quotes", `{'a': 1}`, "double quotes"},
		{"lower-case nan", strings.Replace(good, ": 1,", ": nan,", 1), "expected a JSON value"},
		{"two kinds", good + "\n" + `{"x": 1}`, "unexpected text after the JSON value"},
	}
	for _, tt := range tests {
		_, err := Parse("f", []byte(tt.data))
		var syntax *strictjson.SyntaxError
		var unknown *UnknownError
		if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.As(err, &syntax) && !errors.As(err, &unknown) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	line := func(conc int) string {
		return fmt.Sprintf(`{"backend": "sglang", "request_rate": Infinity, "max_concurrency": %d, "random_input_len": 1024, "random_output_len": 1024, "duration": 1, "completed": 1, "mean_e2e_latency_ms": 1}`, conc)
	}
	d, err := Parse("all.jsonl", []byte("\ufeff"+line(256)+"\r\n\r\n"+line(64)+"\r\n{\"broken\r\n"+line(128)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range d.Samples {
		got = append(got, fmt.Sprintf("%d:%d", s.Line, *s.Identity.Concurrency))
	}
	if want := []string{"1:256", "3:64", "5:128"}; !slices.Equal(got, want) {
		t.Errorf("samples %v, want %v", got, want)
	}
	if len(d.Findings) != 1 || d.Findings[0].Line != 4 || !d.Findings[0].Fatal {
		t.Errorf("findings %+v, want the broken line 4", d.Findings)
	}
}

func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/files/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("{\"backend\": \"sglang\", \"completed\": 1, \"server_info\": {\"internal_states\": [{\"model_path\": 1}]}}\n{\n"))
	f.Add([]byte(`{"results": {"a/b~c": {"x,y": NaN, "x_stderr,y": "N/A"}}, "versions": {}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse("fuzz", data)
		if (d == nil) == (err == nil) {
			t.Fatalf("document %v, error %v", d, err)
		}
		if err != nil {
			return
		}
		for _, s := range d.Samples {
			for _, v := range s.Values {
				if v.Quality == OK && v.Number != v.Number {
					t.Errorf("%s is NaN and ok", v.Pointer())
				}
				if v.Key != clean(v.Key) || v.Text != clean(v.Text) || v.Raw != clean(v.Raw) {
					t.Errorf("%s is not storable", v.Pointer())
				}
				if v.SHA256 == "" && len(v.Raw) == 0 {
					t.Errorf("%s was lost", v.Pointer())
				}
			}
		}
	})
}
