package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"cvs/render"
)

// assetFiles are the names below assets/.
func assetFiles(t *testing.T, shelf string) []string {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(shelf, "assets"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

// Shared assets are written once, by their hash, also by several publishers at
// the same time; every page leads to files that are there; and they go with the
// last page that needs them.
func TestPublishShared(t *testing.T) {
	t.Parallel()
	db, to := manyRuns(t, 4), filepath.Join(t.TempDir(), "share")
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		own := filepath.Join(t.TempDir(), "own.duckdb")
		if err := os.WriteFile(own, []byte(readFile(t, db)), 0o644); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			_, errs[i] = command(t, newPublish, nil, "--warehouse", own, "--to", to, "--assets", "shared", fmt.Sprintf("r%d", i))
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("publisher %d: %v", i, err)
		}
	}
	names := assetFiles(t, to)
	if len(names) != 3 {
		t.Fatalf("assets %q, want style, script and chart library", names)
	}
	for _, name := range names {
		sum := sha256.Sum256([]byte(readFile(t, filepath.Join(to, "assets", name))))
		if hash, _, _ := strings.Cut(name, "."); hash != hex.EncodeToString(sum[:]) {
			t.Errorf("%s does not hold what its name says", name)
		}
	}
	leads := func(page string) {
		t.Helper()
		text := readFile(t, page)
		if len(text) > 500_000 {
			t.Errorf("%s has %d bytes: does it carry the chart library?", page, len(text))
		}
		found := render.AssetsIn([]byte(text))
		if len(found) < 2 {
			t.Errorf("%s refers to %q", page, found)
		}
		up, err := filepath.Rel(filepath.Dir(page), filepath.Join(to, "assets"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if !strings.Contains(text, `"`+filepath.ToSlash(up)+"/"+name+`"`) {
				t.Errorf("%s does not lead to %s by %s", page, name, up)
			}
			if !slices.Contains(names, name) {
				t.Errorf("%s needs %s, which is not there", page, name)
			}
		}
	}
	history, err := filepath.Glob(filepath.Join(to, "history", "*.html"))
	if err != nil || len(history) == 0 {
		t.Fatalf("no history page: %v", err)
	}
	for _, page := range append(history, filepath.Join(to, "index.html"), filepath.Join(to, "runs", "r0", render.DeckName), filepath.Join(to, "runs", "r2", render.DeckName)) {
		leads(page)
	}

	// What somebody else put there stays, what no page needs goes, what was
	// damaged is made whole.
	stale := strings.Repeat("ab", 32) + ".js"
	for _, name := range []string{stale, "readme.txt"} {
		if err := os.WriteFile(filepath.Join(to, "assets", name), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	damaged := filepath.Join(to, "assets", names[0])
	good := readFile(t, damaged)
	if err := os.WriteFile(damaged, []byte(strings.Repeat("x", len(good))), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, newUnpublish, nil, "--to", to, "r2"); err != nil {
		t.Fatal(err)
	}
	leads(filepath.Join(to, "index.html"))
	if got := assetFiles(t, to); slices.Contains(got, stale) || !slices.Contains(got, "readme.txt") || len(got) != 4 {
		t.Errorf("after unpublish: %q", got)
	}
	if readFile(t, damaged) != good {
		t.Error("a damaged asset was left as it was")
	}

	// A deck of a version that this one cannot read still needs its assets.
	other := filepath.Join(to, "runs", "other")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(other, entryName):                `{"entry_version": 9}`,
		filepath.Join(other, render.DeckName):          `<link rel="stylesheet" href="../../assets/` + stale[:64] + `.css">`,
		filepath.Join(to, "assets", stale[:64]+".css"): "body {}",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A self-contained publisher takes the pages around over; the shared decks
	// keep what they need until --keep removes the last of them.
	if _, err := command(t, newPublish, nil, "--warehouse", db, "--to", to, "r3"); err != nil {
		t.Fatal(err)
	}
	if got := assetFiles(t, to); len(got) != 5 {
		t.Errorf("with shared and self-contained decks: %q", got)
	}
	if _, err := command(t, newPublish, nil, "--warehouse", db, "--to", to, "--keep", "1", "r3"); err != nil {
		t.Fatal(err)
	}
	if got := assetFiles(t, to); len(got) != 2 || !slices.Contains(got, stale[:64]+".css") {
		t.Errorf("after the last shared deck of ours: %q, want only what others need", got)
	}
	if page := readFile(t, filepath.Join(to, "index.html")); len(render.AssetsIn([]byte(page))) > 0 {
		t.Error("the index is not self-contained")
	}
	if _, err := command(t, newPublish, nil, "--to", to, "--all", "--assets", "none"); exitCode(err) != 2 {
		t.Errorf("--assets none: %v, want exit 2", err)
	}
}
