package warehouse

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"cvs/collect/artifact"
)

// maxFile is the largest result file read, in bytes.
const maxFile = 1 << 30

// maxFolders bounds the depth of folders below accuracy/.
const maxFolders = 8

// LayoutFolder is the folder of a cell below results/ in the plain layout.
func LayoutFolder(isl, osl, concurrency int) string {
	return fmt.Sprintf("isl%d_osl%d_conc%d", isl, osl, concurrency)
}

var cellFolder = regexp.MustCompile(`^isl(\d+)_osl(\d+)_conc(\d+)$`)

// ResultsLayout reads the plain layout of result files that other tools leave:
//
//	results/isl<I>_osl<O>_conc<C>/<any>.json, .jsonl or without extension
//	results/<any>.json or .jsonl, whose content says which cells it holds
//	accuracy/<task id>/**/results_*.json
//
// The CellKey of a file in a cell's folder is ISL=…,OSL=…,CONC=…, without the
// parallelism that a folder name does not tell: [DB.Load] completes it from the
// plan. That of an accuracy file is its task id. Links that lead out of dir are
// not followed and are problems, as are files that cannot be read. A missing
// results or accuracy folder is none. Paths are relative to dir.
func ResultsLayout(dir string) (results, accuracy []artifact.Result, problems []artifact.Problem, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read results: %w", err)
	}
	defer root.Close()
	l := &layout{root: root}
	l.walk("results", 2, func(name string) {
		parts := strings.Split(name, "/")
		base := parts[len(parts)-1]
		m := cellFolder.FindStringSubmatch(parts[1])
		switch ext := path.Ext(base); {
		case len(parts) == 3 && m != nil && (ext == ".json" || ext == ".jsonl" || ext == ""):
			l.read(&l.results, name, fmt.Sprintf("ISL=%s,OSL=%s,CONC=%s", m[1], m[2], m[3]))
		case len(parts) == 2 && (ext == ".json" || ext == ".jsonl"):
			l.read(&l.results, name, "")
		case ext == ".json" || ext == ".jsonl":
			l.note(name, "is in no folder of a cell: not read; expected results/isl<ISL>_osl<OSL>_conc<CONC>/%s", base)
		}
	})
	l.walk("accuracy", maxFolders, func(name string) {
		parts := strings.Split(name, "/")
		base := parts[len(parts)-1]
		if len(parts) >= 3 && strings.HasPrefix(base, "results") && path.Ext(base) == ".json" {
			l.read(&l.accuracy, name, parts[1])
		}
	})
	return l.results, l.accuracy, l.problems, nil
}

type layout struct {
	root              *os.Root
	results, accuracy []artifact.Result
	problems          []artifact.Problem
}

func (l *layout) problem(name, format string, args ...any) {
	l.problems = append(l.problems, artifact.Problem{Path: name, Msg: fmt.Sprintf(format, args...)})
}

// note lists what makes no result unusable.
func (l *layout) note(name, format string, args ...any) {
	l.problem(name, format, args...)
	l.problems[len(l.problems)-1].Note = true
}

// walk calls file for each regular file below name in lexical order.
func (l *layout) walk(name string, depth int, file func(name string)) {
	entries, err := fs.ReadDir(l.root.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.problem(name, "cannot be read: %v", err)
		return
	}
	for _, e := range entries {
		child := path.Join(name, e.Name())
		// Stat follows links inside the folder; the root refuses those that leave it.
		info, err := l.root.Stat(child)
		switch {
		case err != nil && e.Type()&fs.ModeSymlink != 0:
			l.problem(child, "is a link that is broken or leads out of the folder: not followed")
		case err != nil:
			l.problem(child, "cannot be read: %v", err)
		case info.IsDir() && e.Type()&fs.ModeSymlink != 0:
			l.problem(child, "is a link to a folder: not followed")
		case info.IsDir() && depth > 0:
			l.walk(child, depth-1, file)
		case info.IsDir():
		case info.Mode().IsRegular():
			file(child)
		default:
			l.problem(child, "is a pipe, a socket or a device: not read")
		}
	}
}

func (l *layout) read(into *[]artifact.Result, name, key string) {
	f, err := l.root.Open(name)
	if err != nil {
		l.problem(name, "cannot be read: %v", err)
		return
	}
	defer f.Close()
	var data []byte
	if info, err := f.Stat(); err == nil && info.Size() <= maxFile {
		data = make([]byte, 0, info.Size()+1) // one allocation for large files
	}
	w := &buffer{data}
	n, err := io.Copy(w, io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		l.problem(name, "cannot be read: %v", err)
		return
	case n > maxFile:
		l.problem(name, "is larger than %d bytes: not read", maxFile)
		return
	}
	if path.Ext(name) == "" && !looksLikeJSON(w.b) {
		// Only the vLLM client writes results without an extension; notes and logs
		// may lie beside any result.
		l.note(name, "is no benchmark result: not read")
		return
	}
	s := sha256.Sum256(w.b)
	*into = append(*into, artifact.Result{Path: name, Data: w.b, SHA256: hex.EncodeToString(s[:]), CellKey: key, Repeat: 1})
}

// looksLikeJSON reports whether data is empty or begins as JSON does; what was
// cut off still begins so.
func looksLikeJSON(data []byte) bool {
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(data) == 0 || data[0] == '{' || data[0] == '['
}

type buffer struct{ b []byte }

func (w *buffer) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}
