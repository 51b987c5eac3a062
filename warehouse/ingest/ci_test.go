package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSplit cuts published histories of every shape and reads the parts.
func TestSplit(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/histories/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("no files: %v", err)
	}
	var b strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parts, ok, err := Split(filepath.Base(name), data)
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", name, ok, err)
		}
		fmt.Fprintf(&b, "== %s: %d parts\n", filepath.Base(name), len(parts))
		for _, p := range parts {
			d, err := Parse(p.ID, p.Data)
			fmt.Fprintf(&b, "part, accuracy %t: %s", p.Accuracy, describe(d, err))
			if err != nil {
				continue
			}
			for _, s := range d.Samples {
				id := s.Identity
				fmt.Fprintf(&b, "    driver %q gpu %q image %q ci run %q commit %q\n", id.Driver, id.GPU, id.Image, id.CIRun, id.Commit)
			}
		}
	}
	golden := "testdata/histories.golden"
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

// TestExtra: keys and values of a dashboard's extra text, in either spelling.
func TestExtra(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Identity{
		"Run: https://github.com/o/r/actions/runs/17 | GPU: AMD Instinct MI355X | Docker: rocm/atom:x@sha256:ab":     {CIRun: "17", GPU: "AMD Instinct MI355X", Image: "rocm/atom:x@sha256:ab"},
		"run=https://github.com/o/r/actions/runs/17 | gpu=MI355X | image=rocm/atom:x | perf_point=%7B%22a%22%3A1%7D": {CIRun: "17", GPU: "MI355X", Image: "rocm/atom:x"},
		"no pairs here": {},
	} {
		var id Identity
		id.fill(parseExtra(text))
		if d := cmp.Diff(want, id); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

// TestSplitByHardware: benches of one name on another GPU or image are another
// measurement.
func TestSplitByHardware(t *testing.T) {
	t.Parallel()
	bench := func(extra string, v int) string {
		return fmt.Sprintf(`{"name": "ATOM::m TP8 1/1 c=1 throughput (tok/s)", "value": %d, "unit": "tok/s", "extra": "%s"}`, v, extra)
	}
	for what, extras := range map[string][2]string{
		"GPU":   {"GPU: MI355X | Docker: a", "GPU: MI350X | Docker: a"},
		"image": {"GPU: MI355X | Docker: a", "gpu=MI355X | image=b"},
	} {
		data := `window.BENCHMARK_DATA = {"entries": {"Benchmark": [{"commit": {"id": "c"}, "date": 1785546000000, "benches": [` + bench(extras[0], 1) + ", " + bench(extras[1], 2) + `]}]}}`
		parts, ok, err := Split("data.js", []byte(data))
		if err != nil || !ok || len(parts) != 2 {
			t.Errorf("another %s: %d parts, %t, %v", what, len(parts), ok, err)
		}
	}
}

// TestSplitBroken: a file that was cut while it was written gives what is whole in
// it, and says which line is not.
func TestSplitBroken(t *testing.T) {
	t.Parallel()
	const head = "date_ms,backend,model,isl,osl,conc,output_tput\n"
	entry := `{"commit": {"id": "c"}, "date": %d, "benches": [{"name": "m 1/1 c=1 throughput (tok/s)", "value": 1}]}`
	for name, tt := range map[string]struct {
		data  string
		parts int
		want  string
	}{
		"cut row":       {head + "1,ATOM,m,1,1,1,5\n2,ATOM,m,1,1,1,6\n3,ATOM,m", 2, "line 4"},
		"row too long":  {head + "1,ATOM,m,1,1,1,5,000\n2,ATOM,m,1,1,1,6\n", 1, "line 2"},
		"other order":   {"output_tput,conc,osl,isl,model,backend,date_ms\n5,1,1,1,m,ATOM,1\n", 1, ""},
		"cut entry":     {fmt.Sprintf(entry, 1) + "\n" + fmt.Sprintf(entry, 2) + "\n" + entry[:40], 2, "line 3 is not used"},
		"foreign entry": {fmt.Sprintf(entry, 1) + "\n{\"a\": 1}\n" + fmt.Sprintf(entry, 2), 2, "line 2 is no dashboard entry"},
		"all cut":       {head + "1,ATOM\n2\n3\n4\n5\n6\n7\n", 0, "and 2 lines more"},
	} {
		parts, ok, err := Split("h", []byte(tt.data))
		if !ok || len(parts) != tt.parts || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d parts, %t, %v; want %d, %q", name, len(parts), ok, err, tt.parts, tt.want)
		}
	}
}

// TestNames: what dashboards pack into names, in every spelling they had.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]benchName{
		"DeepSeek-R1-0528 1024/1024 c=128 throughput (tok/s)":         {model: "DeepSeek-R1-0528", isl: 1024, osl: 1024, conc: 128, metric: "throughput (tok/s)"},
		"ATOM-vLLM::gpt-oss-120b TP2 1024/8192 c=4 TTFT (ms)":         {backend: "ATOM-vLLM", model: "gpt-oss-120b", tp: 2, isl: 1024, osl: 8192, conc: 4, metric: "TTFT (ms)"},
		"Kimi-K2.5-MXFP4-tp4 1024/1024 c=8 _gpu_count":                {model: "Kimi-K2.5-MXFP4", tp: 4, isl: 1024, osl: 1024, conc: 8, metric: "_gpu_count"},
		"Qwen3-Next-80B-aw-tp2 1024/1024 c=8 TPOT (ms)":               {model: "Qwen3-Next-80B", tp: 2, isl: 1024, osl: 1024, conc: 8, metric: "TPOT (ms)"},
		"DeepSeek-R1-0528 MTP3 0/0 c=1 Total Tput (tok/s)":            {model: "DeepSeek-R1-0528-mtp3", conc: 1, metric: "Total Tput (tok/s)"},
		"ATOM::DeepSeek-R1-0528-mtp3 0/0 c=1 Accept Length (tok/fwd)": {backend: "ATOM", model: "DeepSeek-R1-0528-mtp3", conc: 1, metric: "Accept Length (tok/fwd)"},
		"ATOM::DeepSeek-R1-0528 TP8 MTP3 1024/1024 c=1 TTFT (ms)":     {backend: "ATOM", model: "DeepSeek-R1-0528-mtp3", tp: 8, isl: 1024, osl: 1024, conc: 1, metric: "TTFT (ms)"},
		"ATOM::DeepSeek-R1-0528-mtp3 TP8 1024/1024 c=1 TTFT (ms)":     {backend: "ATOM", model: "DeepSeek-R1-0528-mtp3", tp: 8, isl: 1024, osl: 1024, conc: 1, metric: "TTFT (ms)"},
		"DeepSeek-R1-0528-tp4-mtp 1024/1024 c=1 TTFT (ms)":            {model: "DeepSeek-R1-0528-mtp", tp: 4, isl: 1024, osl: 1024, conc: 1, metric: "TTFT (ms)"},
	} {
		got, ok := parseBench(name)
		if !ok || got != want {
			t.Errorf("%q is %+v, %t; want %+v", name, got, ok, want)
		}
	}
	if _, ok := parseBench("gpt-oss-120b accuracy (GSM8K)"); ok {
		t.Error("an accuracy name must not be taken for a sweep")
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("window.BENCHMARK_DATA = {\"entries\": {\"B\": [{\"date\": 1, \"commit\": {}, \"benches\": [{\"name\": \"m 1/1 c=1 TTFT (ms)\", \"value\": 1}]}]}};"))
	f.Add([]byte("date_ms,backend,model,isl,osl,conc\n1,ATOM,m-tp8,1,1,1\n"))
	f.Add([]byte("{\"date\": 1, \"commit\": {}, \"benches\": []}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, ok, err := Split("f", data)
		if !ok && (err != nil || parts != nil) {
			t.Fatalf("not a history, but %v, %v", parts, err)
		}
		for _, p := range parts {
			if _, err := Parse(p.ID, p.Data); err != nil {
				t.Errorf("a part cannot be read: %v\n%s", err, p.Data)
			}
		}
	})
}
