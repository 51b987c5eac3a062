package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// RunSources lists the members of a run directory: everything but hidden files.
// Logs of more than maxLog bytes keep only their last part, as a member of
// LogsDir, and are listed as omitted with the hash of the whole. Links are not
// followed.
func RunSources(dir, id string, maxLog int64) (*Pack, error) {
	p := &Pack{}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("pack run %s: %w", id, err)
	}
	defer root.Close()
	prefix := path.Join(RunsDir, id)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(path.Base(name), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			entries, err := fs.ReadDir(root.FS(), name)
			if len(entries) == 0 {
				p.Folders = append(p.Folders, path.Join(prefix, name))
			}
			return err
		case !d.Type().IsRegular():
			p.Omitted = append(p.Omitted, Omitted{Path: path.Join(prefix, name), Why: "not a regular file"})
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if isLog(name) && fi.Size() > maxLog {
			s, o, err := capped(root, name, prefix, id, fi.Size(), maxLog)
			if err != nil {
				return err
			}
			p.Sources, p.Omitted = append(p.Sources, s), append(p.Omitted, o)
			return nil
		}
		p.Sources = append(p.Sources, File(path.Join(prefix, name), filepath.Join(dir, filepath.FromSlash(name))))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pack run %s: %w", id, err)
	}
	return p, nil
}

// A Pack is what a run directory gives to a bundle.
type Pack struct {
	Sources []Source
	Omitted []Omitted
	Folders []string
}

// isLog reports a file that may be cut without losing evidence of a gate: a
// client's or server's log.
func isLog(name string) bool { return path.Ext(name) == ".log" }

func capped(root *os.Root, name, prefix, id string, size, maxLog int64) (Source, Omitted, error) {
	f, err := root.Open(name)
	if err != nil {
		return Source{}, Omitted{}, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return Source{}, Omitted{}, err
	}
	tail := make([]byte, maxLog)
	n, err := f.ReadAt(tail, size-maxLog)
	if err != nil && !errors.Is(err, io.EOF) {
		return Source{}, Omitted{}, err
	}
	keep := path.Join(LogsDir, id, name)
	return Bytes(keep, tail[:n]), Omitted{
		Path: path.Join(prefix, name), SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: size,
		Why: fmt.Sprintf("log of more than %d bytes; its last %d bytes are kept", maxLog, n), Kept: keep,
	}, nil
}

// maxRestored bounds the claimed size of a log, in bytes; it is made sparse.
const maxRestored = 1 << 40

// Restore gives an extracted bundle back what the zip could not hold: empty
// folders, and each cut log at its full size with its last part in place, so
// that a reader of the run directory finds what the records say. The start of
// such a log is zeros, and its hash can no longer be checked.
func Restore(dir string, info *Info) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("restore bundle: %w", err)
	}
	defer root.Close()
	for _, name := range info.Folders {
		if !fs.ValidPath(name) {
			return fmt.Errorf("restore bundle: %q is no path below it", name)
		}
		if err := root.MkdirAll(name, 0o755); err != nil {
			return fmt.Errorf("restore bundle: %w", err)
		}
	}
	for _, o := range info.Omitted {
		if o.Kept == "" {
			continue
		}
		if err := restoreLog(root, o); err != nil {
			return fmt.Errorf("restore bundle: %s: %w", o.Path, err)
		}
	}
	return nil
}

func restoreLog(root *os.Root, o Omitted) error {
	if !fs.ValidPath(o.Path) || !fs.ValidPath(o.Kept) || !isLog(o.Path) || o.Bytes < 0 || o.Bytes > maxRestored {
		return errors.New("not a log that was cut")
	}
	tail, err := root.ReadFile(o.Kept)
	if err != nil {
		return err
	}
	if int64(len(tail)) > o.Bytes {
		return errors.New("the kept part is longer than the log")
	}
	if err := root.MkdirAll(path.Dir(o.Path), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(o.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = f.Truncate(o.Bytes)
	if err == nil {
		_, err = f.WriteAt(tail, o.Bytes-int64(len(tail)))
	}
	return errors.Join(err, f.Close())
}
