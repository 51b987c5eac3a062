package warehouse_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

func TestResultsLayout(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"results/isl1024_osl1024_conc128/results.json":        "{}",
		"results/isl1024_osl1_conc64/results.jsonl":           "{}",
		"results/isl1024_osl1_conc64/results":                 "{}",
		"results/isl1024_osl1_conc64/client.log":              "text",
		"results/all.jsonl":                                   "{}",
		"results/notes/x.json":                                "{}",
		"results/ISL8_OSL8_CONC8/results.json":                "{}",
		"results/isl1024_osl1024_conc128/node0/results.json":  "{}",
		"accuracy/gsm8k/org__M/results_2026.json":             "{}",
		"accuracy/gsm8k/lm_eval.log":                          "text",
		"accuracy/gsm8k/org__M/samples_gsm8k_2026-01-01.json": "{}",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret.json"), filepath.Join(dir, "results", "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "results", "isl1_osl1_conc1")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "results", "isl1024_osl1024_conc128", "x.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	results, accuracy, problems, err := warehouse.ResultsLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	show := func(list []artifact.Result) (out []string) {
		for _, r := range list {
			out = append(out, r.Path+" "+r.CellKey)
		}
		return out
	}
	if want := []string{
		"results/all.jsonl ",
		"results/isl1024_osl1024_conc128/results.json ISL=1024,OSL=1024,CONC=128",
		"results/isl1024_osl1_conc64/results ISL=1024,OSL=1,CONC=64",
		"results/isl1024_osl1_conc64/results.jsonl ISL=1024,OSL=1,CONC=64",
	}; !slices.Equal(show(results), want) {
		t.Errorf("results %q, want %q", show(results), want)
	}
	if want := []string{"accuracy/gsm8k/org__M/results_2026.json gsm8k"}; !slices.Equal(show(accuracy), want) {
		t.Errorf("accuracy %q, want %q", show(accuracy), want)
	}
	said := make(map[string]string)
	for _, p := range problems {
		said[p.Path] = fmt.Sprint(p.Note, " ", p.Msg)
	}
	for path, want := range map[string]string{
		"results/link.json":                                  "false is a link",
		"results/isl1_osl1_conc1":                            "false is a link",
		"results/notes/x.json":                               "true is in no folder of a cell: not read; expected results/isl<ISL>_osl<OSL>_conc<CONC>/x.json",
		"results/ISL8_OSL8_CONC8/results.json":               "true is in no folder of a cell",
		"results/isl1024_osl1024_conc128/node0/results.json": "true is in no folder of a cell",
		"results/isl1024_osl1024_conc128/x.jsonl":            "false is a pipe",
		"results/isl1024_osl1_conc64/results.json":           "",
	} {
		if got := said[path]; !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		delete(said, path)
	}
	if len(said) > 0 {
		t.Errorf("also said: %q", said)
	}
	if _, _, _, err := warehouse.ResultsLayout(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing folder must be an error")
	}
}

func TestLoose(t *testing.T) {
	t.Parallel()
	file := "ingest/testdata/files/sglang_bench_serving_jsonl_2024__llama_3_3_70b_online_output.jsonl"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := warehouse.Loose(file, data)
	if err != nil || len(runs) != 1 {
		t.Fatal(len(runs), err)
	}
	run := runs[0]
	w := open(t, "")
	load(t, w, run)
	status, err := w.RunStatus(t.Context(), run.Meta.RunID)
	if err != nil {
		t.Fatal(err)
	}
	// seven lines of one shape without a concurrency: one cell, seven repeats
	if status.Headline != "RECORD" || status.ExitCode != 0 || status.Cells != 1 {
		t.Errorf("loose file: %+v", status)
	}
	if got := values(t, w, "SELECT cell_key || ' ' || repeats FROM cells"); !slices.Equal(got, []string{"ISL=1024,OSL=1024,TP=?,PP=1,CONC=? 7"}) {
		t.Errorf("cells %v", got)
	}
	if _, err := warehouse.Loose("x", []byte("{}")); err == nil {
		t.Error("an unknown file must be an error")
	}
}
