package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSweepTree loads what vllm bench sweep leaves: a folder for each combination
// with its runs and a summary that repeats them all. Nothing counts twice, and
// what is left out is listed with the reason.
func TestSweepTree(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for _, seqs := range []int{128, 256} {
		var runs []string
		dir := fmt.Sprintf("20260801_101500/SERVE--max_num_seqs=%d-BENCH--max_concurrency=32", seqs)
		for run := range 3 {
			text := fmt.Sprintf(`{"date": "20260801-1015%02d", "endpoint_type": "openai", "backend": "openai", "label": null, "model_id": "org/M", "num_prompts": 100, "request_rate": "inf",
				"max_concurrency": 32, "duration": 10.0, "completed": 100, "failed": 0, "output_throughput": %d.5, "mean_ttft_ms": 7.25, "run_number": %d, "max_num_seqs": %d}`,
				run, seqs+run, run, seqs)
			put(fmt.Sprintf("%s/run=%d.json", dir, run), text)
			runs = append(runs, text)
		}
		put(dir+"/summary.json", "["+strings.Join(runs, ", ")+"]")
		all = append(all, runs...)
	}
	put("20260801_101500/summary.json", "["+strings.Join(all, ", ")+"]")
	put("20260801_101500/summary.csv", "max_num_seqs,max_concurrency,output_throughput\n128,32,128.5\n")
	put("copy/of/the/first.json", all[0])

	db := filepath.Join(t.TempDir(), "w.duckdb")
	res := cvsCommand(t, nil, "load", "--warehouse", db, root)
	if res.code != 0 || !strings.Contains(res.stdout, "6 loaded, 1 already there, 0 replaced, 4 skipped, 0 failed") {
		t.Fatalf("load: exit %d, %s %s", res.code, res.stdout, res.stderr)
	}
	if n := strings.Count(res.stdout, "load the single result files, not their summary"); n != 3 {
		t.Errorf("%d summaries are listed with the reason, want 3:\n%s", n, res.stdout)
	}
	res = cvsCommand(t, nil, "sql", "--warehouse", db, "--format", "csv",
		`SELECT (SELECT count(*) FROM sample) AS samples, (SELECT count(*) FROM metrics WHERE metric = 'output_throughput') AS results, (SELECT sum(value) FROM metrics WHERE metric = 'output_throughput') AS total,
			(SELECT string_agg(text, ' ' ORDER BY text) FROM raw_value WHERE key = 'max_num_seqs') AS swept`)
	if got := strings.Split(res.stdout, "\n"); len(got) < 2 || got[1] != "6,6,1161,128 128 128 256 256 256" {
		t.Errorf("in the warehouse: %s %s", res.stdout, res.stderr)
	}
	if res := cvsCommand(t, nil, "load", "--warehouse", db, root); !strings.Contains(res.stdout, "0 loaded, 7 already there") {
		t.Errorf("again: %s", res.stdout)
	}
	// alone it is an error that says what to load
	if res := cvsCommand(t, nil, "load", "--warehouse", db, filepath.Join(root, "20260801_101500", "summary.json")); res.code != 3 || !strings.Contains(res.stderr, "single result files") {
		t.Errorf("a summary alone: exit %d, %s", res.code, res.stderr)
	}
}
