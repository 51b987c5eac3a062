package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// The manifest covers what the run wrote. Notes, sign-off and decks come later
// and are not part of the evidence.
var (
	coveredFiles = []string{runFile, configFile, thresholdsFile, clusterFile, expectedFile, stagesFile}
	coveredDirs  = []string{inputsDir, cellsDir, accuracyDir, checksDir}
)

// nameEscapes are those of sha256sum, so that "sha256sum -c MANIFEST.sha256"
// works on any name.
var nameEscapes = strings.NewReplacer("\\", "\\\\", "\n", "\\n", "\r", "\\r")
var nameUnescapes = strings.NewReplacer("\\\\", "\\", "\\n", "\n", "\\r", "\r")

// writeManifest lists every covered file as it is on disk, except run.json,
// whose final content the caller writes afterwards.
func (d *Dir) writeManifest(finalRun []byte) error {
	sums := map[string]string{runFile: digest(finalRun)}
	names, err := covered(d.root)
	for _, name := range names {
		if name == runFile {
			continue
		}
		sum, serr := fileDigest(d.root, name)
		if serr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, serr))
			continue
		}
		sums[name] = sum
	}
	if err != nil {
		// A manifest with gaps would vouch for a directory nobody could read.
		return fmt.Errorf("write %s: %w", manifestFile, err)
	}
	return d.write(manifestFile, FormatSums(sums))
}

// FormatSums writes hex SHA-256 sums by name as sha256sum does, sorted by name and
// with its escapes, so that "sha256sum -c" reads them whatever the names are.
func FormatSums(sums map[string]string) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		escaped := nameEscapes.Replace(name)
		if escaped != name {
			b.WriteByte('\\')
		}
		fmt.Fprintf(&b, "%s  %s\n", sums[name], escaped)
	}
	return b.Bytes()
}

// ParseSums reads what [FormatSums] wrote. Anything else is an error, a name that
// stands twice and a last line without its end, too: a manifest that was cut off
// vouches for nothing.
func ParseSums(data []byte) (map[string]string, error) {
	sums := map[string]string{}
	n := 0
	for raw := range bytes.Lines(data) {
		n++
		text, whole := strings.CutSuffix(string(raw), "\n")
		if !whole {
			return nil, fmt.Errorf("line %d is cut off", n)
		}
		text, escaped := strings.CutPrefix(text, "\\")
		sum, name, ok := strings.Cut(text, "  ")
		if bin, err := hex.DecodeString(sum); !ok || err != nil || len(bin) != sha256.Size || name == "" {
			return nil, fmt.Errorf("line %d is not a SHA-256 and a name", n)
		}
		if escaped {
			name = nameUnescapes.Replace(name)
		}
		if _, twice := sums[name]; twice {
			return nil, fmt.Errorf("line %d: %q stands twice", n, name)
		}
		sums[name] = sum
	}
	return sums, nil
}

func readManifest(root *os.Root) (map[string]string, error) {
	r := &reader{root: root}
	b, err := r.file(manifestFile, maxJSON)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, errors.New("empty")
	}
	return ParseSums(b)
}

// covered lists the files that belong into the manifest, slash-separated.
func covered(root *os.Root) (names []string, err error) {
	for _, name := range coveredFiles {
		if _, err := root.Lstat(name); err == nil {
			names = append(names, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, dir := range coveredDirs {
		err = fs.WalkDir(root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil && name == dir && errors.Is(err, fs.ErrNotExist):
				return fs.SkipDir
			case err != nil:
				return err
			case strings.HasPrefix(path.Base(name), "."):
				if e.IsDir() {
					return fs.SkipDir
				}
			case !e.IsDir():
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

func fileDigest(root *os.Root, name string) (string, error) {
	f, _, err := openRegular(root, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Verify compares every file of a closed run with the manifest: changed, missing
// and added files are Problems, as is a manifest that is missing or cut off.
// Notes, sign-off and decks may come and go. The error is for a directory that
// cannot be read at all.
func Verify(dir string) ([]Problem, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("verify run directory: %w", err)
	}
	defer root.Close()
	sums, err := readManifest(root)
	if err != nil {
		return []Problem{{Path: manifestFile, Msg: plain(err)}}, nil
	}
	names, err := covered(root)
	if err != nil {
		return nil, fmt.Errorf("verify run directory: %w", err)
	}
	var ps []Problem
	for _, name := range names {
		want, listed := sums[name]
		delete(sums, name)
		if !listed {
			ps = append(ps, Problem{Path: name, Msg: "not in " + manifestFile + ": added after the run closed"})
			continue
		}
		got, err := fileDigest(root, name)
		switch {
		case err != nil:
			ps = append(ps, Problem{Path: name, Msg: plain(err)})
		case got != want:
			ps = append(ps, Problem{Path: name, Msg: "changed after the run closed: SHA-256 is " + got + ", was " + want})
		}
	}
	for name := range sums {
		ps = append(ps, Problem{Path: name, Msg: "missing"})
	}
	slices.SortFunc(ps, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return ps, nil
}
