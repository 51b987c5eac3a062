package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestParseSLO(t *testing.T) {
	t.Parallel()
	good, err := parseSLO("p99_ttft_ms<=2000, client.p95_tpot_ms < 50,output_throughput>=1e3")
	if err != nil || levelWords(good) != "p99_ttft_ms <= 2000 ms and p95_tpot_ms < 50 ms and output_throughput >= 1000 tok/s" {
		t.Errorf("%q, %v", levelWords(good), err)
	}
	for text, want := range map[string]string{
		"p99_tfft_ms<=2000":                `objective 1 "p99_tfft_ms<=2000": unknown metric "p99_tfft_ms" (did you mean p99_ttft_ms?)`,
		"p99_ttft_ms":                      "expected METRIC<=NUMBER",
		"":                                 "expected METRIC<=NUMBER",
		"p99_ttft_ms=2000":                 "expected <=, <, >= or >, found =",
		"p99_ttft_ms<=2s":                  `expected a number of ms without its unit, found "2s"`,
		"p99_ttft_ms<=NaN":                 "expected a number of ms",
		"p99_ttft_ms>=2000":                "lower is better for p99_ttft_ms: write <=",
		"output_throughput<=10":            "higher is better for output_throughput: write >=",
		"p99_ttft_ms<=1,p99_ttft_ms<2":     "p99_ttft_ms is bounded twice",
		"p99_ttft_ms<=2000,p95_tpot_ms<=x": "objective 2",
		"quite unlike any metric<=1":       "cvs sql",
	} {
		if level, err := parseSLO(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, level, err, want)
		}
	}
	// every mistake at once
	if _, err := parseSLO("a<=1,b<=2"); err == nil || strings.Count(err.Error(), "unknown metric") != 2 {
		t.Errorf("two mistakes: %v", err)
	}
}

// A comparison page says for both runs up to which concurrency they meet a
// service level.
func TestCompareSLO(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := reviewRun{id: "r1", driver: "atom"}.write(t, dir)
	two := reviewRun{id: "r2", driver: "vllm_atom"}.write(t, dir)
	page := filepath.Join(dir, "both.html")
	if res := cvsCommand(t, nil, "compare", one, two, "--html", page, "--slo", "output_throughput>=150"); res.code != 0 {
		t.Fatalf("exit %d\n%s", res.code, res.stderr)
	}
	text := readFile(t, page)
	for _, want := range []string{"id=slo-table", "SELECT * FROM slo(&#39;r1&#39;", "SELECT * FROM slo(&#39;r2&#39;", "the highest measured concurrency meets it"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if res := cvsCommand(t, nil, "compare", one, two, "--html", page, "--slo", "p99_tfft_ms<=1"); res.code != 2 {
		t.Errorf("a metric that is none: exit %d\n%s", res.code, res.stderr)
	}
}
