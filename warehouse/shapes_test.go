package warehouse_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cvs/warehouse"
)

// TestEveryMetricIsThere: of real files of every client and age, each loads or is
// refused with the reason, and every value that means a metric can be asked for:
// with its number, or with the reason why it is none. What means none of ours is
// kept under its own key.
func TestEveryMetricIsThere(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	var files []string
	for _, pattern := range []string{"ingest/testdata/files/*", "ingest/testdata/histories/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	refused := map[string]string{
		"lm_eval_v03_and_older___cb.jsonl":            "the file is empty",
		"rdma_link_json__rdma_link_example_data.json": "it looks like a list",
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := warehouse.Loose(f, data)
		why := refused[filepath.Base(f)]
		if why == "" && (err != nil || len(runs) == 0) || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %d runs, %v; want refused %q", f, len(runs), err, why)
			continue
		}
		load(t, w, runs...)
	}
	for what, question := range map[string]string{
		"of a sweep": `SELECT s.format || ' ' || v.key FROM raw_value v JOIN sample s ON s.run_id = v.run_id AND s.sample_no = v.sample_no
			LEFT JOIN metrics m ON m.run_id = v.run_id AND m.cell_key = s.cell_key AND m.metric = v.metric
			WHERE s.role = 'cell' AND v.metric IS NOT NULL AND (m.metric IS NULL OR (m.value IS NULL) AND m.note IS NULL)`,
		"of lm-eval": `SELECT s.format || ' ' || v.key FROM raw_value v JOIN sample s ON s.run_id = v.run_id AND s.sample_no = v.sample_no
			LEFT JOIN accuracy a ON a.run_id = v.run_id AND a.metric = v.metric AND a.pointer = v.pointer
			WHERE s.role = 'accuracy' AND v.metric IS NOT NULL AND starts_with(v.parent, '/results/')
				AND (a.metric IS NULL OR a.value IS NULL AND a.quality = 'ok' OR v.quality = 'ok' AND a.value IS DISTINCT FROM v.number)`,
		"of one benchmark, as it was written": `SELECT s.format || ' ' || v.key FROM raw_value v JOIN sample s ON s.run_id = v.run_id AND s.sample_no = v.sample_no
			JOIN sample_metrics m ON m.run_id = v.run_id AND m.sample_no = v.sample_no AND m.metric = v.metric
			WHERE s.role = 'cell' AND v.quality = 'ok' AND NOT m.derived AND m.quality = 'ok' AND m.value IS DISTINCT FROM v.number`,
	} {
		if lost := values(t, w, question); len(lost) > 0 {
			t.Errorf("%d values %s are not there: %.20q", len(lost), what, lost)
		}
	}
	for table, least := range map[string]string{"sample": "40", "metrics": "500", "accuracy": "50", "raw_value": "1500"} {
		if got := values(t, w, "SELECT count(*) >= "+least+" FROM "+table); got[0] != "true" {
			t.Errorf("%s has less than %s rows: nothing was compared", table, least)
		}
	}
}
