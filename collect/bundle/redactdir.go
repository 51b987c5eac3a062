package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cvs/collect/artifact"
)

// maxRedact bounds a file that is redacted whole, in bytes.
const maxRedact = 256 << 20

// RunDir writes a redacted copy of the run directory src to dst, which must not
// exist: names of files too. Hashes in the records, in run.json and in the
// manifest are those of the copies, so that the copy is a sound run directory of
// its own. Sign-offs are left out: they name people, and a redacted one no
// longer carries its signature. What is left out is returned.
func (r *Redactor) RunDir(src, dst, id string) ([]Omitted, error) {
	run, err := artifact.Read(src)
	if err != nil {
		return nil, fmt.Errorf("redact run %s: %w", id, err)
	}
	hosts := append([]string{run.Meta.Launcher.Host}, run.Meta.Identity.Hosts...)
	for h := range run.Meta.Identity.ImageDigests {
		hosts = append(hosts, h)
	}
	for _, rec := range run.Records {
		hosts = append(hosts, rec.Host)
	}
	r.Learn(hosts, []string{run.Meta.Launcher.User})
	root, err := os.OpenRoot(src)
	if err != nil {
		return nil, fmt.Errorf("redact run %s: %w", id, err)
	}
	defer root.Close()
	var omitted []Omitted
	leave := func(name string, size int64, why string) {
		omitted = append(omitted, Omitted{Path: path.Join(RunsDir, id, r.Text(name)), Bytes: size, Why: why})
	}
	sums := map[string]sized{} // original hash → that of the copy
	var late []string          // files that hold hashes of others
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(base, "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case name == "signoff":
			leave(name, 0, "sign-offs name people; redacted, their signatures would not hold")
			return fs.SkipDir
		case d.IsDir():
			return nil
		case name == ManifestFile, base == "atom_run_deck.html", base == "atom_run_deck.json":
			leave(name, 0, "made anew from the redacted files")
			return nil
		case name == "run.json", base == "record.json":
			late = append(late, name)
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case !fi.Mode().IsRegular():
			leave(name, 0, "not a regular file")
			return nil
		case fi.Size() > maxRedact:
			leave(name, fi.Size(), fmt.Sprintf("more than the %d bytes that are redacted", maxRedact))
			return nil
		}
		data, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
			leave(name, fi.Size(), "not text, so it cannot be redacted")
			return nil
		}
		clean := r.content(name, data)
		sums[hashOf(data)] = sized{hashOf(clean), len(clean), len(data)}
		return r.put(dst, name, clean)
	})
	if err != nil {
		return nil, fmt.Errorf("redact run %s: %w", id, err)
	}
	for _, name := range late {
		data, err := root.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("redact run %s: %w", id, err)
		}
		if err := r.put(dst, name, rehash(r.JSON(data), sums)); err != nil {
			return nil, fmt.Errorf("redact run %s: %w", id, err)
		}
	}
	if _, err := root.Lstat(ManifestFile); err == nil {
		if err := sealCopy(dst); err != nil {
			return nil, fmt.Errorf("redact run %s: %w", id, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("redact run %s: %w", id, err)
	}
	return omitted, nil
}

type sized struct {
	sha      string
	len, was int
}

func (r *Redactor) content(name string, data []byte) []byte {
	switch path.Ext(name) {
	case ".json":
		return r.JSON(data)
	case ".jsonl":
		var out []byte
		for raw := range bytes.Lines(data) {
			text, nl := bytes.CutSuffix(raw, []byte{'\n'})
			if len(bytes.TrimSpace(text)) > 0 {
				text = r.JSON(text)
			}
			out = append(out, text...)
			if nl {
				out = append(out, '\n')
			}
		}
		return out
	}
	return []byte(r.Text(string(data)))
}

var fileHash = regexp.MustCompile(`"sha256": "([0-9a-f]{64})",(\s*)"bytes": (\d+)`)

// rehash puts the hashes and sizes of the copies in the place of the originals',
// in records as this suite writes them.
func rehash(data []byte, sums map[string]sized) []byte {
	return fileHash.ReplaceAllFunc(data, func(m []byte) []byte {
		g := fileHash.FindSubmatch(m)
		s, ok := sums[string(g[1])]
		if !ok {
			return m
		}
		return fmt.Appendf(nil, `"sha256": "%s",%s"bytes": %d`, s.sha, g[2], s.len)
	})
}

func (r *Redactor) put(dst, name string, data []byte) error {
	file := filepath.Join(dst, filepath.FromSlash(r.path(name)))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// path redacts the parts of a file's name; they are single words.
func (r *Redactor) path(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = r.text(p, true)
	}
	return strings.Join(parts, "/")
}

// sealCopy writes the manifest of the copy: what the run itself covers.
func sealCopy(dst string) error {
	root, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer root.Close()
	sums := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		top, _, nested := strings.Cut(name, "/")
		covered := slices.Contains([]string{"run.json", "config.json", "thresholds.json", "cluster.json", "expected.json", "stages.jsonl"}, name) ||
			nested && slices.Contains([]string{"inputs", "cells", "accuracy", "checks"}, top)
		if !covered {
			return nil
		}
		data, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		sums[name] = hashOf(data)
		return nil
	})
	if err != nil {
		return err
	}
	return root.WriteFile(ManifestFile, artifact.FormatSums(sums), 0o644)
}

func hashOf(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
