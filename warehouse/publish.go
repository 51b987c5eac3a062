package warehouse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// LatestSnapshot is the link in a snapshot folder that names the newest one.
const LatestSnapshot = "latest.duckdb"

// Snapshot copies the warehouse at path into dir for others to read and returns
// the file's name: cvs-<first 12 digits of its sha256>.duckdb. The file is written
// aside and renamed, and the link latest.duckdb is changed last and at once, so a
// reader never sees half of it. Writers wait while it is copied; readers of a
// snapshot lock nobody. An equal snapshot that is there already is kept.
func Snapshot(ctx context.Context, path, dir string, wait time.Duration) (string, error) {
	// Opening for writing brings tables and views up to date and closing writes
	// the log into the file: a copy without its log would lack the last loads.
	w, err := Open(ctx, path, Options{Wait: wait})
	if err != nil {
		return "", err
	}
	if err := errors.Join(w.Measure(ctx), w.Close()); err != nil {
		return "", err
	}
	r, err := Open(ctx, path, Options{ReadOnly: true, Wait: wait}) // keeps writers out
	if err != nil {
		return "", err
	}
	defer r.Close()
	if _, err := os.Stat(path + ".wal"); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("snapshot %s: another process wrote to it in between and has not finished: try again", path)
	}
	name, err := copyByContent(path, dir)
	if err != nil {
		return "", fmt.Errorf("snapshot %s: %w", path, err)
	}
	if err := pointTo(dir, name); err != nil {
		return "", fmt.Errorf("snapshot %s: %w", path, err)
	}
	return name, nil
}

func copyByContent(path, dir string) (name string, err error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(dir, ".cvs-snapshot-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name()) // after the rename there is nothing to remove
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), in)
	err = errors.Join(err, out.Sync(), out.Chmod(0o444), out.Close())
	if err != nil {
		return "", err
	}
	name = "cvs-" + hex.EncodeToString(h.Sum(nil))[:12] + ".duckdb"
	to := filepath.Join(dir, name)
	if _, err := os.Stat(to); err == nil {
		return name, nil
	}
	return name, os.Rename(out.Name(), to)
}

// pointTo changes the link to the newest snapshot in one step.
func pointTo(dir, name string) error {
	tmp := filepath.Join(dir, fmt.Sprintf(".latest-%d", os.Getpid()))
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(name, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, LatestSnapshot))
}
