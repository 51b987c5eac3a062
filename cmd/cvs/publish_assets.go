package main

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
	"path/filepath"
	"strings"

	"cvs/render"
)

const (
	assetsInPages = "self-contained"
	assetsShared  = "shared"
	// maxPage bounds what is read of a page to find the assets it refers to.
	maxPage = 64 << 20
)

func (o publishOptions) shared() (bool, error) {
	switch o.assets {
	case assetsInPages:
		return false, nil
	case assetsShared:
		return true, nil
	}
	return false, badInput("--assets %s: want %s or %s", visible(o.assets), assetsInPages, assetsShared)
}

// putAssets writes what shared pages need, before the pages. A file that is
// there is written again only if it does not hold what its name says.
func (s shelf) putAssets() (names []string, err error) {
	if !s.opts.Shared {
		return nil, nil
	}
	assets, err := render.SharedAssets()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, render.AssetFolder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, badStore(err)
	}
	for _, a := range assets {
		names = append(names, a.Name)
		file := filepath.Join(dir, a.Name)
		if whole, err := isWhole(file, int64(len(a.Data)), a.Name); err != nil {
			return nil, badStore(err)
		} else if whole {
			continue
		}
		if err := s.replace(file, func(w io.Writer) error { _, err := w.Write(a.Data); return err }); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// isWhole reports whether path is a file whose hash is the one its name begins
// with.
func isWhole(path string, size int64, name string) (bool, error) {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !st.Mode().IsRegular() || st.Size() != size {
		return false, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(b)
	return strings.HasPrefix(name, hex.EncodeToString(sum[:])), nil
}

// collect removes assets that no page refers to any more; entries are the runs
// that are listed. A page whose entry cannot be read, of a newer version of this
// program perhaps, is asked itself. An asset goes only after every page that
// needs it.
func (s shelf) collect(entries []render.Entry) error {
	dir := filepath.Join(s.dir, render.AssetFolder)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return badStore(err)
	}
	used := map[string]bool{}
	listed := map[string]bool{}
	for _, x := range entries {
		listed[x.Folder] = true
		for _, name := range x.Assets {
			used[name] = true
		}
	}
	pages := []string{filepath.Join(s.dir, "index.html")}
	for _, pattern := range []string{"history/*.html", "runs/*/" + render.DeckName} {
		// The pattern is ours; the folder's own name must not act as one.
		found, err := fs.Glob(os.DirFS(s.dir), pattern)
		if err != nil {
			return badStore(err)
		}
		for _, page := range found {
			if folder, isRun := strings.CutPrefix(path.Dir(page), "runs/"); !isRun || !listed[folder] {
				pages = append(pages, filepath.Join(s.dir, filepath.FromSlash(page)))
			}
		}
	}
	for _, page := range pages {
		b, err := readPage(page)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return badStore(fmt.Errorf("find the assets that are still needed; none was removed: %w", err))
		}
		for _, name := range render.AssetsIn(b) {
			used[name] = true
		}
	}
	for _, f := range files {
		// Only what carries a name of ours: the folder is shared.
		if !f.Type().IsRegular() || !render.IsAsset(f.Name()) || used[f.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return badStore(err)
		}
	}
	return nil
}

func readPage(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(f, maxPage)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
