package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestReadSized: whatever was known of the size, a file is read whole, and what
// cannot be read is an error that names it, as os has it.
func TestReadSized(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	want := bytes.Repeat([]byte("0123456789"), 50_000)
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 1, 10, int64(len(want)) - 1, int64(len(want)), int64(len(want)) + 1, 1 << 20, 1 << 40} {
		if got, err := readSized(file, size); err != nil || !bytes.Equal(got, want) {
			t.Errorf("size %d: %d bytes, %v", size, len(got), err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		_, want := os.ReadFile(path)
		if _, err := readSized(path, 10); err == nil || err.Error() != want.Error() || errors.Is(err, fs.ErrNotExist) != errors.Is(want, fs.ErrNotExist) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
