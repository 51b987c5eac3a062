package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWriteAllOrNothing: one target that cannot be written leaves none behind,
// and the file that was there before stays.
func TestWriteAllOrNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.json")
	if err := os.WriteFile(old, []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere/at/all", filepath.Join(dir, "broken")); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		filepath.Join(old, "below-a-file.json"),
		filepath.Join(dir, "broken", "below-a-dead-link.json"),
		dir, // a folder
	} {
		written, err := writeAll([]placed{
			{path: filepath.Join(dir, "new.json"), data: []byte("2")},
			{path: old, data: []byte("2")},
			{path: bad, data: []byte("2")},
		}, true)
		if err == nil || len(written) > 0 || !hasCode(err, 5) {
			t.Errorf("%s: wrote %q, %v; want nothing and exit status 5", bad, written, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(old); len(entries) != 2 || err != nil || string(data) != "1" {
		t.Errorf("left behind: %v, old.json %q %v", entries, data, err)
	}
}
