package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Bounds on what is read, in bytes. Everything in a run directory may come from
// elsewhere; none of it may exhaust memory.
const (
	maxResult = 1 << 30
	maxJSON   = 64 << 20 // of our own records, and of the snapshots
	maxStages = 256 << 20
	maxNotes  = 64 << 10
	maxDepth  = 8 // of folders below accuracy/ and checks/
)

// A NewerFormatError reports a run directory, or a record in it, that a later
// version of this tool wrote.
type NewerFormatError struct {
	Path    string
	Version int
}

// Error names the file, its version and the newest version understood.
func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("%s has format version %d, this version of cvs reads up to %d: use a newer cvs", e.Path, e.Version, FormatVersion)
}

// Read reads a run directory, whole or not. What is missing, cut off or not what
// its record says becomes a Problem and is left out; the rest is returned. Only
// a directory that cannot be opened, has no run.json or is of a newer format
// (*NewerFormatError) is an error. Links that lead out of the directory are not
// followed. Nothing is written.
func Read(dir string) (*Run, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read run directory: %w", err)
	}
	defer root.Close()
	r := &reader{root: root, run: &Run{Dir: dir}}
	if _, err := root.Lstat(runFile); err != nil {
		return nil, fmt.Errorf("read run directory %s: %w", dir, err)
	}
	if decode(r, runFile, &r.run.Meta) {
		switch v := r.run.Meta.FormatVersion; {
		case v > FormatVersion:
			return nil, &NewerFormatError{Path: filepath.Join(dir, runFile), Version: v}
		case v < 1:
			r.problem(runFile, "", "no format_version: not written by cvs, or damaged")
		}
		if r.run.Meta.Status == Running {
			r.problem(runFile, "", "status is running: the run is still being written, or was cut off")
		} else {
			r.loadManifest()
		}
	}
	decode(r, expectedFile, &r.run.Expected)
	decode(r, thresholdsFile, &r.run.Thresholds)
	decode(r, configFile, &r.run.Config)
	r.readStages()
	r.readCells()
	r.readAccuracy()
	r.readChecks()
	r.readNotes()
	return r.run, nil
}

// A reader collects what Read returns.
type reader struct {
	root     *os.Root
	run      *Run
	manifest map[string]string // path → SHA-256; nil when there is none to go by
}

func (r *reader) problem(file, cell, format string, args ...any) {
	r.run.Problems = append(r.run.Problems, Problem{Path: file, Cell: cell, Msg: fmt.Sprintf(format, args...)})
}

// plain turns an error of os.Root into words that do not repeat the path, which
// the Problem has.
func plain(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "missing"
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// openRegular opens a regular file and returns its size. Devices and pipes are refused
// before they are opened, and again after, because opening one may block.
func openRegular(root *os.Root, name string) (*os.File, int64, error) {
	fi, err := root.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	if fi, err = f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, 0, errors.Join(errors.New("not a regular file"), err, f.Close())
	}
	return f, fi.Size(), nil
}

// file reads a regular file of at most limit bytes.
func (r *reader) file(name string, limit int64) ([]byte, error) {
	f, size, err := openRegular(r.root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%d bytes, more than the %d that are read", size, limit)
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	// It may grow while it is read.
	n, err := buf.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("more than the %d bytes that are read", limit)
	}
	return buf.Bytes(), err
}

// decode reads one of our own JSON files into v, or leaves v as it was and adds
// a Problem: a decoder that fails half way leaves half a value.
func decode[T any](r *reader, name string, v *T) bool {
	b, err := r.file(name, maxJSON)
	if err != nil {
		r.problem(name, "", "%s", plain(err))
		return false
	}
	var whole T
	if err := json.Unmarshal(b, &whole); err != nil {
		r.problem(name, "", "cut off or damaged: %v", err)
		return false
	}
	*v = whole
	r.unchanged(name, "", b)
	return true
}

// unchanged compares a file with the manifest of a closed run.
func (r *reader) unchanged(name, cell string, data []byte) bool {
	if r.manifest == nil {
		return true
	}
	want, ok := r.manifest[name]
	switch {
	case !ok:
		r.problem(name, cell, "not in %s: added after the run closed", manifestFile)
	case want != digest(data):
		r.problem(name, cell, "changed after the run closed: its SHA-256 is not that of %s", manifestFile)
	}
	return ok && want == digest(data)
}

func (r *reader) loadManifest() {
	m, err := readManifest(r.root)
	if err != nil {
		r.problem(manifestFile, "", "%s", plain(err))
		return
	}
	b, err := r.file(runFile, maxJSON)
	r.manifest = m
	if err == nil {
		r.unchanged(runFile, "", b)
	}
}

// readStages takes every whole line. Lines of one seq are one stage, the last
// one standing.
func (r *reader) readStages() {
	b, err := r.file(stagesFile, maxStages)
	if err != nil {
		r.problem(stagesFile, "", "%s", plain(err))
		return
	}
	stages, bad := parseStages(b)
	r.run.Stages = stages
	for _, p := range bad {
		r.problem(stagesFile, "", "%s", p)
	}
	r.unchanged(stagesFile, "", b)
}

func parseStages(b []byte) (stages []Stage, bad []string) {
	at := map[int]int{} // seq → index
	for n := 1; len(b) > 0; n++ {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		b = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if !whole {
			bad = append(bad, fmt.Sprintf("line %d is cut off", n))
			break
		}
		var s Stage
		if err := json.Unmarshal(line, &s); err != nil {
			bad = append(bad, fmt.Sprintf("line %d is cut off or damaged: %v", n, err))
			continue
		}
		if i, seen := at[s.Seq]; seen && s.Seq != 0 {
			stages[i] = s
			continue
		}
		at[s.Seq] = len(stages)
		stages = append(stages, s)
	}
	return stages, bad
}

// readAccuracy takes lm-eval's results*.json below accuracy/<task>/, where the
// tool makes folders of its own.
func (r *reader) readAccuracy() {
	tasks := map[string]string{}
	for _, t := range r.run.Expected.Tasks {
		tasks[SafeName(t.ID)] = t.ID
	}
	r.walk(accuracyDir, func(name string) {
		rel := strings.TrimPrefix(name, accuracyDir+"/")
		folder, _, nested := strings.Cut(rel, "/")
		base := path.Base(name)
		if !nested || !strings.HasPrefix(base, "results") || path.Ext(base) != ".json" {
			return // samples and logs; kept, not results
		}
		task, ok := tasks[folder]
		if !ok {
			task = folder
		}
		if res, ok := r.loose(name); ok {
			res.CellKey = task
			r.run.Accuracy = append(r.run.Accuracy, res)
		}
	})
}

func (r *reader) readChecks() {
	r.walk(checksDir, func(name string) {
		if res, ok := r.loose(name); ok {
			res.CellKey = strings.TrimPrefix(name, checksDir+"/")
			r.run.Checks = append(r.run.Checks, res)
		}
	})
}

// loose reads a file that no record describes.
func (r *reader) loose(name string) (Result, bool) {
	b, err := r.file(name, maxResult)
	if err != nil {
		r.problem(name, "", "%s", plain(err))
		return Result{}, false
	}
	if !r.unchanged(name, "", b) {
		return Result{}, false
	}
	return Result{Path: name, Data: b, SHA256: digest(b), Repeat: 1}, true
}

// walk calls file for every visible file below dir in name order. A folder that
// is not there holds nothing.
func (r *reader) walk(dir string, file func(name string)) {
	err := fs.WalkDir(r.root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && name == dir && errors.Is(err, fs.ErrNotExist):
			return fs.SkipDir
		case err != nil:
			r.problem(name, "", "%s", plain(err))
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
		case strings.HasPrefix(e.Name(), "."): // temporary files of a run that was cut off
			if e.IsDir() {
				return fs.SkipDir
			}
		case e.IsDir():
			if strings.Count(name, "/") > maxDepth {
				r.problem(name, "", "folders below this depth are not read")
				return fs.SkipDir
			}
		default:
			file(name)
		}
		return nil
	})
	if err != nil {
		r.problem(dir, "", "%s", plain(err))
	}
}

func (r *reader) readNotes() {
	f, size, err := openRegular(r.root, notesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.problem(notesFile, "", "%s", plain(err))
		return
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxNotes))
	if err != nil {
		r.problem(notesFile, "", "%s", plain(err))
	}
	if size > maxNotes {
		r.problem(notesFile, "", "%d bytes, of which the first %d are used", size, maxNotes)
		for range utf8.UTFMax - 1 { // the cut may be inside a character
			if c, n := utf8.DecodeLastRune(b); c != utf8.RuneError || n != 1 {
				break
			}
			b = b[:len(b)-1]
		}
	}
	r.run.Notes = strings.ToValidUTF8(string(b), "\uFFFD")
}
