package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"sync"
)

// A CellDir is the folder of one cell and repeat, open for writing. Its methods
// may be called from several goroutines.
type CellDir struct {
	dir  *Dir
	name string // slash-separated, below the run directory

	mu    sync.Mutex
	files []File
}

// CellDir makes the folder cells/<n>-<combo>-conc<c>/<repeat> of a cell. Ordinal
// is the cell's place in expected.json and repeat counts the measurements of
// one cell, both from 1. A folder that an earlier attempt left is set aside as
// <repeat>.superseded-<n>, never written into: a result must not lie beside the
// record of another attempt.
func (d *Dir) CellDir(ordinal int, cell ExpectedCell, repeat int) (*CellDir, error) {
	if ordinal < 1 || repeat < 1 {
		return nil, fmt.Errorf("cell folder of %s: ordinal %d and repeat %d must be at least 1", cell.ID, ordinal, repeat)
	}
	name := path.Join(cellsDir, CellFolder(ordinal, cell), strconv.Itoa(repeat))
	if err := d.setAside(name); err != nil {
		return nil, fmt.Errorf("cell folder of %s: %w", cell.ID, err)
	}
	if err := d.root.MkdirAll(name, 0o755); err != nil {
		return nil, fmt.Errorf("cell folder of %s: %w", cell.ID, err)
	}
	return &CellDir{dir: d, name: name}, nil
}

// setAside renames a folder that exists to the first free superseded name.
func (d *Dir) setAside(name string) error {
	if _, err := d.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for n := 1; ; n++ {
		aside := name + supersededMark + strconv.Itoa(n)
		_, err := d.root.Lstat(aside)
		if errors.Is(err, fs.ErrNotExist) {
			return d.root.Rename(name, aside)
		}
		if err != nil {
			return err
		}
	}
}

// supersededMark stands between the repeat and the count of attempts.
const supersededMark = ".superseded-"

// Path is where the folder is, for messages and for reading back.
func (c *CellDir) Path() string { return filepath.Join(c.dir.path, filepath.FromSlash(c.name)) }

// WriteFile keeps a raw file byte for byte. Kind is result, client_log or
// server_log; name may be any text and becomes one file name, which the File
// holds. The next WriteRecord lists it.
func (c *CellDir) WriteFile(name, kind, format string, r io.Reader) (File, error) {
	base := SafeName(name)
	if base == recordFile {
		return File{}, fmt.Errorf("write %s: the name is taken by the cell's record", path.Join(c.name, base))
	}
	full := path.Join(c.name, base)
	f, err := c.dir.pending(full)
	if err != nil {
		return File{}, fmt.Errorf("write %s: %w", full, err)
	}
	defer f.Cleanup() // nothing left to remove once renamed
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), r)
	if err != nil {
		return File{}, fmt.Errorf("write %s: %w", full, err)
	}
	if err := c.dir.commit(f, full); err != nil {
		return File{}, err
	}
	file := File{Name: base, Kind: kind, SHA256: hex.EncodeToString(sum.Sum(nil)), Bytes: n, Format: format}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.files {
		if c.files[i].Name == base {
			c.files[i] = file
			return file, nil
		}
	}
	c.files = append(c.files, file)
	return file, nil
}

// WriteRecord writes record.json. It comes last: a folder without a record was
// cut off. A record without files lists those that WriteFile kept.
func (c *CellDir) WriteRecord(r Record) error {
	r.FormatVersion = FormatVersion
	if r.Files == nil {
		c.mu.Lock()
		r.Files = append([]File{}, c.files...)
		c.mu.Unlock()
	}
	return c.dir.writeJSON(path.Join(c.name, recordFile), r)
}
