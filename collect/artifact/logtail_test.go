package artifact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogTails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(runFile, `{"format_version":1,"run_id":"r1"}`)
	write(expectedFile, `{"cells":[{"key":"a","combo":"chat","concurrency":4},{"key":"b","combo":"chat","concurrency":8},{"key":"c","combo":"chat","concurrency":16}]}`)
	long := strings.Repeat("0123456789abcde\n", 8<<10)
	for _, f := range []struct{ name, text string }{
		{"cells/001-chat-conc4/1/client.log", "of a good cell"},
		{"cells/002-chat-conc8/1/client.log", "of an older attempt"},
		{"cells/002-chat-conc8/2/client.log", "\x00\xff\x1b[31mshort"},
		{"cells/002-chat-conc8/2/server.log", long},
		{"cells/002-chat-conc8/2/results.json", "{}"},
		{"cells/002-chat-conc8/3.superseded-1/client.log", "superseded"},
	} {
		write(f.name, f.text)
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("not for the deck"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "cells/003-chat-conc16/1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "cells/003-chat-conc16/1/client.log")); err != nil {
		t.Fatal(err)
	}

	got, err := LogTails(dir, "r1", map[string]bool{"b": true})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "cells/002-chat-conc8/2/client.log" || got[0].Text != "\x00\xff\x1b[31mshort" || got[0].Cut || got[0].CellKey != "b" {
		t.Fatalf("got %d tails, the first %+v", len(got), got[0])
	}
	if s := got[1]; !s.Cut || !strings.HasSuffix(long, s.Text) || len(got[0].Text)+len(s.Text) != maxCellLogs {
		t.Errorf("the second log has %d bytes, cut %v", len(s.Text), s.Cut)
	}
	if got, err := LogTails(dir, "r1", map[string]bool{"c": true}); err == nil || len(got) > 0 {
		t.Errorf("a link that leads out gives %+v, %v", got, err)
	}
	if got, err := LogTails(dir, "r1", nil); err != nil || got != nil {
		t.Errorf("no cell wanted gives %v, %v", got, err)
	}
	if _, err := LogTails(dir, "r2", map[string]bool{"b": true}); err == nil || !strings.Contains(err.Error(), `holds run "r1"`) {
		t.Errorf("another run's folder gives %v", err)
	}
	if _, err := LogTails(filepath.Join(dir, "gone"), "r1", map[string]bool{"b": true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is gone gives %v", err)
	}
}
