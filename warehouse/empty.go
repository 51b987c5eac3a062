package warehouse

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed" // empty.duckdb.gz
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// emptyFile is a warehouse without a run, packed. DuckDB binds every view and
// macro while it is made, the large ones through all that they are built of, which
// takes nearly a second: most of the time in which ten thousand results could have
// been loaded. The comment of the gzip header is the [sourceDigest] it was made
// from; a warehouse of other sources is made from those. TestEmptyFile holds it
// against the SQL files and makes it anew with UPDATE=1.
//
//go:embed empty.duckdb.gz
var emptyFile []byte

// sourceDigest changes with whatever a warehouse without a run is made from.
func sourceDigest() string {
	h := sha256.New()
	steps, _ := fs.Glob(files, "sql/schema/*.sql") // the pattern is ours and valid
	for _, name := range steps {
		text, _ := files.ReadFile(name) // embedded
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	io.WriteString(h, viewDigest())
	return hex.EncodeToString(h.Sum(nil))
}

// create makes an empty database file at path unless there is one. DuckDB's own
// creation is not safe against a second process that opens the file before its
// header is written: both fail and leave an invalid file. So the file is made
// under another name and linked into place whole.
func create(ctx context.Context, file string) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), ".cvs-warehouse-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fresh := filepath.Join(dir, "new.duckdb")
	unpacked, err := unpackEmpty(emptyFile, fresh)
	if err != nil {
		return err
	}
	if !unpacked {
		if err := makeEmpty(ctx, fresh); err != nil {
			return err
		}
	}
	switch err := os.Link(fresh, file); {
	case err == nil, errors.Is(err, fs.ErrExist): // another process was faster
		return nil
	default: // a file system without hard links; here two first loaders could still race
		return os.Rename(fresh, file)
	}
}

// unpackEmpty writes a packed warehouse to a new file, unless it was made from
// other sources than ours.
func unpackEmpty(packed []byte, to string) (done bool, err error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil || z.Comment != sourceDigest() {
		return false, err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(f, z)
	// written for good before it has the name of a warehouse
	return err == nil, errors.Join(err, f.Sync(), f.Close())
}

// makeEmpty makes a warehouse from the SQL files.
func makeEmpty(ctx context.Context, path string) error {
	w := &DB{path: path}
	if err := w.connect(ctx, Options{Bulk: true}); err != nil {
		return err
	}
	return errors.Join(w.prepare(ctx), w.db.Close())
}
