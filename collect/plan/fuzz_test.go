package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// fuzzLoad puts data in the place of one of the base files and checks what must
// hold for any input: no panic; a plan or an error with printable messages; a
// plan that is sound.
func fuzzLoad(f *testing.F, file string, seeds ...string) {
	good := base(f)
	f.Add(good[names[file]])
	for _, pattern := range seeds {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("no seeds %s: %v", pattern, err)
		}
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := memory{}
		for k, v := range good {
			m[k] = v
		}
		m[names[file]] = data
		p, err := load(m, options())
		if (p == nil) == (err == nil) {
			t.Fatalf("plan %v, error %v", p != nil, err)
		}
		var list []Problem
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || len(e.Problems) == 0 {
				t.Fatalf("error of type %T: %v", err, err)
			}
			list = e.Problems
		} else {
			list = p.Warnings
			sound(t, p)
		}
		for _, pr := range list {
			s := pr.String()
			if !utf8.ValidString(s) || bytes.ContainsFunc([]byte(s), func(r rune) bool { return r < 0x20 || r == 0x7f }) {
				t.Errorf("a message that is not printable: %q", s)
			}
		}
	})
}

// sound checks what every plan promises to the rest of the program.
func sound(t *testing.T, p *Plan) {
	if len(p.Cells) == 0 || p.GPUArch == "" || p.Container.Image == "" || p.Container.Name == "" || p.Params.GPUs() < 1 || p.Params.ResultStem == "" {
		t.Errorf("an incomplete plan: %d cells, %+v", len(p.Cells), p.Params)
	}
	seen := map[string]bool{}
	for i, c := range p.Cells {
		_, _, _, _, _, err := ParseCellKey(c.Key)
		if err != nil || seen[c.Key] || c.Ordinal != i+1 {
			t.Errorf("cell %+v: %v", c, err)
		}
		seen[c.Key] = true
	}
	for _, s := range p.Thresholds {
		if s.Kind != "info" && s.Value == nil || s.Line == 0 {
			t.Errorf("threshold %+v", s)
		}
	}
	if !json.Valid(p.Resolved) {
		t.Errorf("resolved is no JSON: %s", p.Resolved)
	}
}

func FuzzLoadConfig(f *testing.F) { fuzzLoad(f, "config", "testdata/shipped/mi3xx_*.json") }

func FuzzLoadThreshold(f *testing.F) {
	fuzzLoad(f, "threshold", "testdata/shipped/*vllm*_threshold.json", "testdata/shipped/*qwen*_threshold.json")
}

func FuzzLoadCluster(f *testing.F) { fuzzLoad(f, "cluster", "testdata/shipped/*cluster.json") }
