package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	// flock: a run directory has one writer, also when its predecessor died.
	"github.com/gofrs/flock"
	// renameio: temporary file, fsync and rename, without leftovers on failure.
	"github.com/google/renameio/v2"
)

// The names inside a run directory.
const (
	runFile        = "run.json"
	configFile     = "config.json"
	thresholdsFile = "thresholds.json"
	clusterFile    = "cluster.json"
	expectedFile   = "expected.json"
	stagesFile     = "stages.jsonl"
	notesFile      = "notes.md"
	manifestFile   = "MANIFEST.sha256"
	recordFile     = "record.json"
	lockFile       = ".lock"

	inputsDir   = "inputs"
	cellsDir    = "cells"
	accuracyDir = "accuracy"
	checksDir   = "checks"
)

// ErrInUse reports that another process is writing to the run directory.
var ErrInUse = errors.New("another process is writing to this run directory")

var runIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$`)

// A Dir is a run directory open for writing. Its methods may be called from
// several goroutines. An error of one of them, a full disk for example, leaves
// every file that was there before as it was; the Dir stays usable.
type Dir struct {
	path string
	root *os.Root // every write goes through it, so that none can leave the directory
	lock *flock.Flock

	mu     sync.Mutex
	meta   Meta
	stages *os.File
	seq    int  // of the last stage
	torn   bool // the last append may have left half a line
	closed bool
}

// Create makes the run directory root/<meta.RunID> and writes its run.json, with
// the current format version and, unless meta says otherwise, status Running.
// It never reuses a directory: one that exists is an error (fs.ErrExist).
func Create(root string, meta Meta) (*Dir, error) {
	if !runIDPattern.MatchString(meta.RunID) {
		return nil, fmt.Errorf("create run directory: run id %q is not a plain file name", meta.RunID)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	dir := filepath.Join(root, meta.RunID)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	if err := syncDir(root); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	d, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	meta.FormatVersion = FormatVersion
	if meta.Status == "" {
		meta.Status = Running
	}
	if err := d.UpdateMeta(func(m *Meta) { *m = meta }); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// Open opens an existing run directory to continue its run: status becomes
// Running, and a manifest, which the continuation makes untrue, goes. A line of
// stages.jsonl that was cut off is left as it is. A directory that another
// process writes to is refused with ErrInUse, one of a newer format with a
// *NewerFormatError.
func Open(dir string) (*Dir, error) {
	run, err := Read(dir)
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	if run.Meta.RunID == "" {
		return nil, fmt.Errorf("open run directory %s: run.json cannot be used: %s", dir, problemsOf(run.Problems, runFile))
	}
	d, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	for _, s := range run.Stages {
		d.seq = max(d.seq, s.Seq)
	}
	d.torn = true // cheap to assume: costs an empty line, which readers skip
	err = d.UpdateMeta(func(m *Meta) {
		*m = run.Meta
		m.FormatVersion, m.Status, m.Reason, m.EndedAt = FormatVersion, Running, "", nil
	})
	if err == nil {
		if err = d.root.Remove(manifestFile); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open run directory: %w", err), d.release())
	}
	return d, nil
}

// open takes the directory's lock and opens its stages.jsonl for appending.
func open(dir string) (*Dir, error) {
	lock := flock.New(filepath.Join(dir, lockFile))
	switch got, err := lock.TryLock(); {
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK):
		// A file system without locks: two writers are then the user's care.
	case err != nil:
		return nil, err
	case !got:
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	d := &Dir{path: dir, lock: lock}
	var err error
	if d.root, err = os.OpenRoot(dir); err != nil {
		return nil, errors.Join(err, d.release())
	}
	d.stages, err = d.root.OpenFile(stagesFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// release gives back what open took.
func (d *Dir) release() error {
	var errs []error
	if d.stages != nil {
		errs = append(errs, d.stages.Close())
	}
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// Path is the run directory's path as it was given.
func (d *Dir) Path() string { return d.path }

// Meta returns run.json as last written.
func (d *Dir) Meta() Meta {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta
}

// UpdateMeta changes run.json. Change gets the current content; the format
// version stays what this package writes. If the file cannot be written, the
// change does not take place.
func (d *Dir) UpdateMeta(change func(*Meta)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.meta
	change(&m)
	m.FormatVersion = FormatVersion
	if err := d.writeJSON(runFile, m); err != nil {
		return err
	}
	d.meta = m
	return nil
}

// AddInput keeps a file that the run was started from, byte for byte, as
// inputs/<kind>-<base name>, and lists it in run.json. Kind is config,
// thresholds or cluster; name is the path as the user gave it.
func (d *Dir) AddInput(kind, name string, data []byte) error {
	file := SafeName(kind + "-" + filepath.Base(name))
	if err := d.write(path.Join(inputsDir, file), data); err != nil {
		return err
	}
	in := Input{Kind: kind, Path: name, SHA256: digest(data), Bytes: int64(len(data))}
	return d.UpdateMeta(func(m *Meta) {
		inputs := make([]Input, 0, len(m.Inputs)+1)
		for _, old := range m.Inputs { // the same file again replaces its entry
			if old.Kind != kind || old.Path != name {
				inputs = append(inputs, old)
			}
		}
		m.Inputs = append(inputs, in)
	})
}

// WriteConfig writes the resolved and redacted configuration. V is marshalled
// as JSON; a json.RawMessage is written as it is, indented.
func (d *Dir) WriteConfig(v any) error { return d.writeJSON(configFile, v) }

// WriteCluster writes the resolved and redacted cluster file, like WriteConfig.
func (d *Dir) WriteCluster(v any) error { return d.writeJSON(clusterFile, v) }

// WriteThresholds writes the specs of the chosen profile.
func (d *Dir) WriteThresholds(t Thresholds) error { return d.writeJSON(thresholdsFile, t) }

// WriteExpected writes the list of everything that was planned. It comes before
// the first cell: only what stands there can be missed.
func (d *Dir) WriteExpected(e Expected) error { return d.writeJSON(expectedFile, e) }

// AppendStage adds one line to stages.jsonl, which is on disk when it returns.
// A stage without Seq gets the next one, which is returned. To end a stage that
// was appended when it began, append it again under the same Seq: readers take
// the last line of each, and a stage that never ended stays visible.
func (d *Dir) AppendStage(s Stage) (seq int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, fmt.Errorf("append stage %s: %w", s.Stage, fs.ErrClosed)
	}
	if s.Seq == 0 {
		s.Seq = d.seq + 1
	}
	s.Started = s.Started.UTC()
	line, err := json.Marshal(s)
	if err != nil {
		return 0, fmt.Errorf("append stage %s: %w", s.Stage, err)
	}
	line = append(line, '\n')
	if d.torn {
		line = append([]byte{'\n'}, line...)
	}
	d.torn = true
	if _, err = d.stages.Write(line); err == nil {
		err = d.stages.Sync()
	}
	if err != nil {
		return 0, fmt.Errorf("append stage %s: %w", s.Stage, err)
	}
	d.torn = false
	d.seq = max(d.seq, s.Seq)
	return s.Seq, nil
}

// WriteAccuracy keeps one output file of an accuracy task as written by the
// tool, as accuracy/<task id>/<name>. Both may be any text.
func (d *Dir) WriteAccuracy(task, name string, data []byte) error {
	return d.write(path.Join(accuracyDir, SafeName(task), SafeName(name)), data)
}

// WriteCheck keeps a file of a check as checks/<elem>/<elem>…; each element may
// be any text and becomes one name. For example WriteCheck(b, "dmesg", host+".txt").
func (d *Dir) WriteCheck(data []byte, elem ...string) error {
	if len(elem) == 0 {
		return errors.New("write check: no name")
	}
	name := checksDir
	for _, e := range elem {
		name = path.Join(name, SafeName(e))
	}
	return d.write(name, data)
}

// Close ends the run: the manifest first, then run.json with its final status,
// so that a directory which says it is done has its manifest. Both are tried
// even if one fails. Afterwards nothing more can be appended; closing again
// does nothing.
func (d *Dir) Close(status Status, reason string, ended time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	m := d.meta
	ended = ended.UTC()
	m.Status, m.Reason, m.EndedAt = status, reason, &ended
	final, err := encode(m)
	if err != nil {
		return errors.Join(err, d.release())
	}
	merr := d.writeManifest(final)
	err = d.write(runFile, final)
	if err == nil {
		d.meta = m
	}
	return errors.Join(merr, err, d.release())
}

// encode is how every JSON file of ours is written: indented, because people
// read run directories too.
func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

func (d *Dir) writeJSON(name string, v any) error {
	b, err := encode(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return d.write(name, b)
}

// write puts data at name, slash-separated below the run directory, whole or not
// at all, making the folders it needs.
func (d *Dir) write(name string, data []byte) error {
	f, err := d.pending(name)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer f.Cleanup() // nothing left to remove once renamed
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return d.commit(f, name)
}

// pending opens the temporary file that commit will rename to name.
func (d *Dir) pending(name string) (*renameio.PendingFile, error) {
	if err := d.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return nil, err
	}
	return renameio.NewPendingFile(name, renameio.WithRoot(d.root), renameio.WithPermissions(0o644))
}

func (d *Dir) commit(f *renameio.PendingFile, name string) error {
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	// The rename itself must survive a power cut too; so must new folders.
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if err := syncDir(filepath.Join(d.path, filepath.FromSlash(dir))); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if dir == "." {
			return nil
		}
	}
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	// Some network file systems cannot sync a directory; the rename is then as
	// durable as it gets there.
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// problemsOf returns the first message about one file.
func problemsOf(ps []Problem, name string) string {
	for _, p := range ps {
		if p.Path == name {
			return p.Msg
		}
	}
	return "no run id"
}
