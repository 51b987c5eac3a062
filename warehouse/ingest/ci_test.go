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
