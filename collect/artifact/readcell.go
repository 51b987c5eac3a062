package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// readCells reads cells/<n>-<combo>-conc<c>/<repeat>/.
func (r *reader) readCells() {
	layout := map[string]string{} // folder → cell key
	for i, c := range r.run.Expected.Cells {
		layout[CellFolder(i+1, c)] = c.Key
	}
	for _, folder := range r.folders(cellsDir) {
		key := layout[folder]
		for _, attempt := range r.folders(path.Join(cellsDir, folder)) {
			name := path.Join(cellsDir, folder, attempt)
			repeatText, mark, old := strings.Cut(attempt, supersededMark)
			repeat, err := strconv.Atoi(repeatText)
			if _, merr := strconv.Atoi(mark); err != nil || repeat < 1 || old && merr != nil {
				r.problem(name, key, "not the number of a repeat")
				continue
			}
			if old && !r.exists(path.Join(name, recordFile)) {
				continue // its launcher was killed, and what it did not finish was repeated
			}
			results := r.readCell(name, key, repeat)
			if old {
				r.run.Superseded = append(r.run.Superseded, results...)
			} else {
				r.run.Results = append(r.run.Results, results...)
			}
		}
	}
}

func (r *reader) exists(name string) bool {
	_, err := r.root.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// folders lists the visible folders in dir, which need not exist, in name order.
func (r *reader) folders(dir string) (names []string) {
	entries, err := fs.ReadDir(r.root.FS(), dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(dir, "", "%s", plain(err))
	}
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			names = append(names, e.Name())
		default:
			r.problem(path.Join(dir, e.Name()), "", "not a folder; not read")
		}
	}
	return names
}

// readCell reads one repeat's folder. Key is what the layout says about it, ""
// when the folder is none that was planned.
func (r *reader) readCell(dir, key string, repeat int) []Result {
	var rec Record
	recName := path.Join(dir, recordFile)
	before := len(r.run.Problems)
	whole := decode(r, recName, &rec)
	for i := range r.run.Problems[before:] {
		r.run.Problems[before+i].Cell = key
	}
	if whole && rec.FormatVersion > FormatVersion {
		e := &NewerFormatError{Path: recName, Version: rec.FormatVersion}
		r.problem(recName, key, "%s", e)
		return nil
	}
	if !whole {
		return r.readUnrecorded(dir, key, repeat)
	}
	if !strings.Contains(path.Base(dir), supersededMark) {
		r.run.Records = append(r.run.Records, rec)
	}
	switch {
	case key == "":
		r.problem(recName, rec.CellKey, "this folder belongs to no cell of %s", expectedFile)
	case rec.CellKey != key:
		r.problem(recName, key, "the record is of cell %q, the folder belongs to %q", rec.CellKey, key)
	}
	if rec.Repeat != repeat {
		r.problem(recName, rec.CellKey, "the record is of repeat %d", rec.Repeat)
	}
	var results []Result
	listed := map[string]bool{recordFile: true}
	for _, f := range rec.Files {
		if f.Name != path.Base(f.Name) || strings.HasPrefix(f.Name, ".") || strings.ContainsAny(f.Name, "\x00\\") {
			r.problem(recName, rec.CellKey, "%q is not a plain file name", f.Name)
			continue
		}
		listed[f.Name] = true
		name := path.Join(dir, f.Name)
		data, err := r.recorded(name, f)
		if err != nil {
			r.problem(name, rec.CellKey, "%s", plain(err))
			continue
		}
		if f.Kind == "result" {
			results = append(results, Result{
				Path: name, Data: data, SHA256: f.SHA256, Record: &rec,
				CellKey: rec.CellKey, Repeat: repeat, Host: rec.Host,
			})
		}
	}
	for _, name := range r.files(dir) {
		if !listed[name] {
			r.problem(path.Join(dir, name), rec.CellKey, "not in the record; not read")
		}
	}
	return results
}

// recorded reads a file that must be what its record says. Of logs only the
// size is compared; Verify reads them.
func (r *reader) recorded(name string, f File) ([]byte, error) {
	if f.Kind != "result" {
		file, size, err := openRegular(r.root, name)
		if err != nil {
			return nil, err
		}
		if size != f.Bytes {
			err = fmt.Errorf("%d bytes, its record says %d", size, f.Bytes)
		}
		return nil, errors.Join(err, file.Close())
	}
	data, err := r.file(name, maxResult)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != f.Bytes {
		return nil, fmt.Errorf("%d bytes, its record says %d: not used", len(data), f.Bytes)
	}
	if got := digest(data); got != f.SHA256 {
		return nil, fmt.Errorf("SHA-256 is %s, its record says %s: not used", got, f.SHA256)
	}
	return data, nil
}

// readUnrecorded takes the results of a folder whose record is missing or cut
// off. They were written whole, so they are results of the planned cell; how
// they came to be is lost, which the Problem about the record says.
func (r *reader) readUnrecorded(dir, key string, repeat int) (results []Result) {
	if key == "" {
		return nil // nothing says which cell this was
	}
	for _, base := range r.files(dir) {
		if ext := path.Ext(base); base == recordFile || ext != ".json" && ext != ".jsonl" {
			continue
		}
		if res, ok := r.loose(path.Join(dir, base)); ok {
			res.CellKey, res.Repeat = key, repeat
			results = append(results, res)
		}
	}
	return results
}

// files lists the visible entries of dir that are not folders.
func (r *reader) files(dir string) (names []string) {
	entries, err := fs.ReadDir(r.root.FS(), dir)
	if err != nil {
		r.problem(dir, "", "%s", plain(err))
	}
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}
