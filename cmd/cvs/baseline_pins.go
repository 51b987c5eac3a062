package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"cvs/collect/artifact"
	"cvs/collect/strictjson"
	"cvs/warehouse"
)

// Pins are kept as files beside the run directories, because the warehouse is a
// cache that may be deleted: one file a pin, so that launchers which share a
// folder never write the same one.
const (
	pinsFolder = "pins"
	pinFormat  = "cvs-pin@v1"
	maxPin     = 64 << 10 // bytes
)

type pinFile struct {
	Format   string    `json:"format"`
	Name     string    `json:"name"`
	RunID    string    `json:"run_id"`
	PinnedAt time.Time `json:"pinned_at"` // UTC
	PinnedBy string    `json:"pinned_by"`
	Note     string    `json:"note,omitempty"`
}

// A foundPin is a pin among the files of a folder; to whoever looks for results
// it is a file to be skipped.
type foundPin struct {
	skippedError
	row warehouse.BaselineRow
}

// Unwrap makes it a skipped file.
func (p *foundPin) Unwrap() error { return &p.skippedError }

// workspacePins is the folder of pins of runs that have no directory.
func workspacePins(e *env, store storeOptions) string {
	return filepath.Join(workspace(e, store.workspace), "cvs_runs", pinsFolder)
}

// pinsBeside is the folder of pins beside a run directory; "" if dir, which may
// have been recorded on another machine, is none of that run.
func pinsBeside(dir, runID string) string {
	if dir == "" || !artifact.IsRunDir(dir) || filepath.Base(dir) != artifact.SafeName(runID) {
		return ""
	}
	return filepath.Join(filepath.Dir(filepath.Clean(dir)), pinsFolder)
}

// keepPin writes the pin into the first of the folders that can be written to,
// and says where.
func keepPin(folders []string, row warehouse.BaselineRow) (string, error) {
	data, err := json.MarshalIndent(pinFile{pinFormat, row.Name, row.RunID, row.PinnedAt, row.PinnedBy, row.Note}, "", "  ")
	if err != nil {
		return "", err
	}
	if len(data) > maxPin {
		return "", fmt.Errorf("name and note of a pin are at most %d bytes", maxPin)
	}
	name := artifact.SafeName(row.PinnedAt.UTC().Format("20060102T150405.000000Z") + "-" + row.RunID + ".json")
	var errs []error
	for _, dir := range folders {
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			path := filepath.Join(dir, name)
			if err = renameio.WriteFile(path, append(data, '\n'), 0o644, renameio.WithTempDir(dir)); err == nil {
				return path, nil
			}
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// pinsIn are the files of a folder of pins; a folder that is not there has none.
// What is no pin is handed on to be read as any other file.
func pinsIn(dir string) ([]finding, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, badStore(err)
	}
	var out []finding
	for _, d := range entries {
		path := filepath.Join(dir, d.Name())
		if !d.Type().IsRegular() {
			out = append(out, finding{loadedRun: loadedRun{path: path, err: &skippedError{path, "no regular file"}}})
			continue
		}
		row, ok, err := readPin(path)
		switch {
		case err != nil:
			out = append(out, finding{loadedRun: loadedRun{path: path, err: err}})
		case ok:
			out = append(out, finding{loadedRun: loadedRun{path: path, err: &foundPin{skippedError{path, "a pin, no result"}, row}}})
		default:
			out = append(out, finding{loadedRun: loadedRun{path: path}, unread: true, listed: true})
		}
	}
	return out, nil
}

// readPin reads a pin; ok is false for a file that does not say it is one.
func readPin(path string) (row warehouse.BaselineRow, ok bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return row, false, badStore(err)
	}
	if info.Size() > maxPin {
		return row, false, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return row, false, badStore(err)
	}
	if !bytes.Contains(data, []byte(`"cvs-pin@`)) {
		return row, false, nil
	}
	v, _, err := strictjson.Parse(data, strictjson.Options{MaxBytes: maxPin})
	if err != nil {
		return row, false, badData("%s: %v", path, err)
	}
	text := func(key string) string {
		if m := v.Get(key); m != nil && m.Kind == strictjson.String {
			return m.Text
		}
		return ""
	}
	row = warehouse.BaselineRow{Name: text("name"), RunID: text("run_id"), PinnedBy: text("pinned_by"), Note: text("note")}
	var wrong []error
	if f := text("format"); f != pinFormat {
		wrong = append(wrong, badData("%s: format: expected %q, found %q", path, pinFormat, f))
	}
	if row.Name == "" || row.RunID == "" {
		wrong = append(wrong, badData("%s: expected texts name and run_id, found %q and %q", path, row.Name, row.RunID))
	}
	if row.PinnedAt, err = time.Parse(time.RFC3339, text("pinned_at")); err != nil {
		wrong = append(wrong, badData("%s: pinned_at: expected an RFC 3339 time, found %q", path, text("pinned_at")))
	}
	return row, len(wrong) == 0, errors.Join(wrong...)
}

// pinsOf sorts pins out of what was found.
func pinsOf(found []finding) []warehouse.BaselineRow {
	var rows []warehouse.BaselineRow
	for _, f := range found {
		if pin := (*foundPin)(nil); errors.As(f.err, &pin) {
			rows = append(rows, pin.row)
		}
	}
	return rows
}

// restorePins brings back these pins and those of the folders, as far as their
// runs are in the warehouse.
func restorePins(ctx context.Context, db *warehouse.DB, rows []warehouse.BaselineRow, folders ...string) error {
	var errs []error
	for _, dir := range folders {
		found, err := pinsIn(dir)
		errs = append(errs, err)
		for _, f := range found {
			if code := (*statusError)(nil); errors.As(f.err, &code) {
				errs = append(errs, f.err) // a pin that cannot be read
			}
		}
		rows = append(rows, pinsOf(found)...)
	}
	if _, err := db.RestorePins(ctx, rows); err != nil {
		errs = append(errs, badStore(err))
	}
	return errors.Join(errs...)
}
