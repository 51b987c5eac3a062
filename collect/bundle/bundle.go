// Package bundle packs the evidence behind a decision into one zip file, and
// opens such files from strangers.
//
// A bundle holds the run directories as they are, what the views said about
// them, the decks, and a manifest of SHA-256. Equal input gives equal bytes:
// members are sorted and carry one fixed time. Whoever opens one trusts nothing
// in it: names, sizes, ratios and overlaps are checked before a byte is written.
//
// This package must not know what a number means, nor how a view or a deck is
// made; rows and pages come to it as bytes.
package bundle

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cvs/collect/artifact"
)

// The names in a bundle.
const (
	ManifestFile = "MANIFEST.sha256" // sha256sum -c works on it
	InfoFile     = "bundle.json"
	RunsDir      = "runs"      // run directories, by run id
	LooseDir     = "loose"     // result files without a run directory
	ViewsDir     = "views"     // rows of the views, JSON lines, by view and run id
	TablesDir    = "warehouse" // rows of the tables, JSON lines: the warehouse without its engine
	DecksDir     = "decks"     // pages made from the bundle alone, by run id
	LogsDir      = "logs"      // ends of logs that were too long
	BaselinesDir = "baselines"
)

// Format is the version of a bundle; a reader refuses any other by name.
const Format = "cvs-bundle@v1"

// Info is bundle.json.
type Info struct {
	Format      string    `json:"format"`
	ToolVersion string    `json:"tool_version"`
	Rendered    time.Time `json:"rendered"` // time printed on the decks, UTC
	Redacted    bool      `json:"redacted"`
	Runs        []Run     `json:"runs"`
	Views       []string  `json:"views"`
	Tables      []string  `json:"tables"`
	Omitted     []Omitted `json:"omitted"`           // what a reader might miss, and why
	Folders     []string  `json:"folders,omitempty"` // empty ones, which a zip of files would lose
	Notes       []string  `json:"notes,omitempty"`
}

// A Run is one run of a bundle.
type Run struct {
	ID   string `json:"run_id"`
	Dir  string `json:"dir,omitempty"`  // below the bundle; "" for loose files
	Deck string `json:"deck,omitempty"` // rendered from the bundle alone
	JSON string `json:"sidecar,omitempty"`
}

// An Omitted is a file that is not in the bundle as it is.
type Omitted struct {
	Path   string `json:"path"` // where it would stand
	SHA256 string `json:"sha256,omitempty"`
	Bytes  int64  `json:"bytes"`
	Why    string `json:"why"`
	Kept   string `json:"kept,omitempty"` // member that holds its last part
}

// A Source is one member to be.
type Source struct {
	Name string // slash-separated
	Open func() (io.ReadCloser, error)
}

// Bytes is a member with these bytes.
func Bytes(name string, data []byte) Source {
	return Source{name, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// File is a member with the bytes of a file.
func File(name, from string) Source {
	return Source{name, func() (io.ReadCloser, error) { return os.Open(from) }}
}

// DefaultTime is the time of members when nothing else is said: the earliest a
// zip can hold.
func DefaultTime() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }

// Write packs the sources in name order, the manifest last. Two sources of one
// name are an error.
func Write(w io.Writer, sources []Source, modified time.Time) error {
	if modified.Before(DefaultTime()) {
		modified = DefaultTime()
	}
	sources = slices.Clone(sources)
	slices.SortFunc(sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.DefaultCompression)
	})
	sums := map[string]string{}
	for _, s := range sources {
		if !fs.ValidPath(s.Name) || s.Name == ManifestFile {
			return fmt.Errorf("pack bundle: %q is no name for a member", s.Name)
		}
		if _, twice := sums[s.Name]; twice {
			return fmt.Errorf("pack bundle: %s stands twice", s.Name)
		}
		hash, err := pack(z, s, modified)
		if err != nil {
			return fmt.Errorf("pack bundle: %s: %w", s.Name, err)
		}
		sums[s.Name] = hash
	}
	if _, err := pack(z, Bytes(ManifestFile, artifact.FormatSums(sums)), modified); err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	return nil
}

func pack(z *zip.Writer, s Source, modified time.Time) (hash string, err error) {
	in, err := s.Open()
	if err != nil {
		return "", err
	}
	defer in.Close()
	h := &zip.FileHeader{Name: s.Name, Method: zip.Deflate, Modified: modified.UTC()}
	h.SetMode(0o644)
	out, err := z.CreateHeader(h)
	if err != nil {
		return "", err
	}
	d := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, d), in); err != nil {
		return "", err
	}
	return hex.EncodeToString(d.Sum(nil)), nil
}

// ReadInfo reads bundle.json of an extracted bundle.
func ReadInfo(dir string) (*Info, error) {
	data, err := os.ReadFile(filepath.Join(dir, InfoFile))
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	var info Info
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("read bundle: %s: %w", InfoFile, err)
	}
	if info.Format != Format {
		return nil, fmt.Errorf("read bundle: its format is %q, this version of cvs reads %q", info.Format, Format)
	}
	for _, r := range info.Runs { // they become paths
		for _, name := range []string{r.Dir, r.Deck, r.JSON} {
			if name != "" && !fs.ValidPath(name) {
				return nil, fmt.Errorf("read bundle: %s: %q is no name of a member", InfoFile, name)
			}
		}
	}
	for _, v := range slices.Concat(info.Views, info.Tables) {
		if v != artifact.SafeName(v) {
			return nil, fmt.Errorf("read bundle: %s: %q is no name of a view", InfoFile, v)
		}
	}
	return &info, nil
}

// IsBundleDir reports whether path is an extracted bundle.
func IsBundleDir(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, InfoFile))
	_, merr := os.Stat(filepath.Join(dir, ManifestFile))
	return err == nil && merr == nil
}

// Check compares every file of an extracted bundle with its manifest: changed,
// missing and added files are problems. The error is for what cannot be read.
func Check(dir string) ([]artifact.Problem, error) {
	data, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		return nil, fmt.Errorf("check bundle: %w", err)
	}
	sums, err := artifact.ParseSums(data)
	if err != nil {
		return []artifact.Problem{{Path: ManifestFile, Msg: err.Error()}}, nil
	}
	var ps []artifact.Problem
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("check bundle: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == ManifestFile {
			return err
		}
		want, listed := sums[name]
		delete(sums, name)
		switch {
		case !d.Type().IsRegular():
			ps = append(ps, artifact.Problem{Path: name, Msg: "not a regular file"})
		case !listed:
			ps = append(ps, artifact.Problem{Path: name, Msg: "not in " + ManifestFile})
		default:
			f, err := root.Open(name)
			if err != nil {
				return err
			}
			h := sha256.New()
			_, err = io.Copy(h, f)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			if got := hex.EncodeToString(h.Sum(nil)); got != want {
				ps = append(ps, artifact.Problem{Path: name, Msg: "changed: its SHA-256 is " + got + ", " + ManifestFile + " says " + want})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check bundle: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		ps = append(ps, artifact.Problem{Path: name, Msg: "missing"})
	}
	slices.SortFunc(ps, func(a, b artifact.Problem) int { return strings.Compare(a.Path, b.Path) })
	return ps, nil
}
