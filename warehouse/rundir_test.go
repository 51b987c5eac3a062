package warehouse_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cvs/collect/artifact"
)

// TestRunDirectory loads a run as it stands on disk, then the same run cut
// short: what is whole counts, what is not is named.
func TestRunDirectory(t *testing.T) {
	t.Parallel()
	sample := sampleRun("20260901T100000Z-000000", resultJSON(2048))
	second := sample.Expected.Cells[0]
	second.Key, second.ID, second.Concurrency = "ISL=1024,OSL=1024,TP=8,PP=1,CONC=256", "w1-conc256", 256
	sample.Expected.Cells = append(sample.Expected.Cells, second)
	d, err := artifact.Create(t.TempDir(), sample.Meta)
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(d.WriteExpected(sample.Expected))
	check(d.WriteThresholds(sample.Thresholds))
	cell, err := d.CellDir(1, sample.Expected.Cells[0], 1)
	check(err)
	file, err := cell.WriteFile("results.json", "result", "atom_benchmark_serving", bytes.NewReader(resultJSON(2048)))
	check(err)
	check(cell.WriteRecord(artifact.Record{CellKey: sample.Expected.Cells[0].Key, CellID: "w1-conc128", Repeat: 1, Host: "n1", Driver: "atom", Status: artifact.Done, Files: []artifact.File{file}}))
	cell, err = d.CellDir(2, second, 1)
	check(err)
	check(cell.WriteRecord(artifact.Record{CellKey: second.Key, CellID: second.ID, Repeat: 1, Host: "n1", Driver: "atom", Status: artifact.Failed, Reason: "the client exited with status 1"}))
	check(d.Close(artifact.Failed, "one cell failed", time.Date(2026, 9, 1, 11, 0, 0, 0, time.UTC)))

	run, err := artifact.Read(d.Path())
	check(err)
	w := open(t, "")
	load(t, w, run)
	status, err := w.RunStatus(t.Context(), run.Meta.RunID)
	check(err)
	if status.ExitCode != 4 || status.Measured != 1 || status.CellsError != 1 || !status.Incomplete {
		t.Errorf("status %+v", status)
	}
	cells, err := w.CellStatus(t.Context(), run.Meta.RunID)
	check(err)
	if want := "no result: the client exited with status 1"; cells[1].Reason != want {
		t.Errorf("second cell: %q, want %q", cells[1].Reason, want)
	}
	attempts, err := w.Attempts(t.Context(), run.Meta.RunID)
	check(err)
	if len(attempts) != 2 {
		t.Errorf("attempts %+v", attempts)
	}

	// the result file is cut: it does not count, the reason is shown
	name := filepath.Join(d.Path(), "cells", artifact.CellFolder(1, sample.Expected.Cells[0]), "1", "results.json")
	check(os.Truncate(name, 100))
	run, err = artifact.Read(d.Path())
	check(err)
	run.Meta.RunID = "cut"
	load(t, w, run)
	cells, err = w.CellStatus(t.Context(), "cut")
	check(err)
	if cells[0].State != "error" || cells[0].DataErrors == 0 {
		t.Errorf("cut cell: %+v", cells[0])
	}
}
