package signoff

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"

	"cvs/collect/artifact"
)

// What a decision is bound to. The run directory's manifest covers the same
// files; a test holds the two lists together.
const (
	thresholdsFile = "thresholds.json"
	thresholdInput = "inputs/thresholds-"
	deckFile       = "atom_run_deck.html"
)

func rawFiles() []string {
	return []string{"run.json", "config.json", "cluster.json", "expected.json", "stages.jsonl"}
}

func rawDirs() []string { return []string{"inputs", "cells", "accuracy", "checks"} }

// Bounds on evidence that is read whole, in bytes.
const maxEvidence = 64 << 20

// A Listing is file → SHA-256 in hex; names are slash-separated and relative to
// the run directory.
type Listing map[string]string

// Bytes is the listing in the format of sha256sum, in name order.
func (l Listing) Bytes() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%s  %s\n", l[name], strconv.Quote(name)[1:len(strconv.Quote(name))-1])
	}
	return b.Bytes()
}

// Sum is the SHA-256 of Bytes in hex; "" for no files.
func (l Listing) Sum() string {
	if len(l) == 0 {
		return ""
	}
	return sum(l.Bytes())
}

func parseListing(data []byte) (Listing, error) {
	l := Listing{}
	for raw := range bytes.Lines(data) {
		hash, name, ok := strings.Cut(strings.TrimSuffix(string(raw), "\n"), "  ")
		if !ok {
			return nil, errors.New("not a listing of SHA-256 and names")
		}
		name, err := strconv.Unquote(`"` + name + `"`)
		if err != nil {
			return nil, errors.New("not a listing of SHA-256 and names")
		}
		l[name] = hash
	}
	return l, nil
}

// diff says what changed from l to now, one sentence a file.
func (l Listing) diff(now Listing) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		switch got, ok := now[name]; {
		case !ok:
			out = append(out, name+" is missing")
		case got != l[name]:
			out = append(out, fmt.Sprintf("%s changed: its SHA-256 is %s, signed was %s", name, got, l[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, ok := l[name]; !ok {
			out = append(out, name+" was added")
		}
	}
	return out
}

// A State is what a run directory holds at a moment, as far as a decision is
// bound to it.
type State struct {
	Raw        Listing
	Thresholds Listing
	Specs      []byte // thresholds.json
	Waivers    []byte // waivers in force; nil for none
	Deck       string // SHA-256 of the deck; "" for none
	Policy     []byte // policy the decision was made under; nil for none
}

// Survey hashes a run directory. Waivers are those in signoff/waivers.json.
// Stated are hashes to take for files that are not there whole, such as the cut
// logs of a bundle; it may be nil.
func Survey(dir string, stated Listing) (*State, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("hash run directory: %w", err)
	}
	defer root.Close()
	s := &State{Raw: Listing{}, Thresholds: Listing{}}
	names, err := evidenceNames(root)
	if err != nil {
		return nil, fmt.Errorf("hash run directory: %w", err)
	}
	for _, name := range names {
		hash, ok := stated[name]
		if !ok {
			if hash, err = hashFile(root, name); err != nil {
				return nil, fmt.Errorf("hash run directory: %s: %w", name, err)
			}
		}
		if name == thresholdsFile || strings.HasPrefix(name, thresholdInput) {
			s.Thresholds[name] = hash
		} else {
			s.Raw[name] = hash
		}
	}
	if len(s.Raw) == 0 {
		return nil, fmt.Errorf("hash run directory: %s holds no run", dir)
	}
	for _, f := range []struct {
		name string
		dst  *[]byte
	}{{thresholdsFile, &s.Specs}, {Folder + "/" + waiversFile, &s.Waivers}} {
		data, err := readFile(dir, filepath.FromSlash(f.name), maxEvidence)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("hash run directory: %w", err)
		}
		if err == nil {
			*f.dst = data
		}
	}
	if s.Deck, err = hashFile(root, deckFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("hash run directory: %s: %w", deckFile, err)
	}
	return s, nil
}

// evidenceNames lists the files that make the evidence, in name order.
func evidenceNames(root *os.Root) ([]string, error) {
	var names []string
	for _, name := range append(rawFiles(), thresholdsFile) {
		if _, err := root.Lstat(name); err == nil {
			names = append(names, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, dir := range rawDirs() {
		err := fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && name == dir && errors.Is(err, fs.ErrNotExist):
				return fs.SkipDir
			case err != nil:
				return err
			case strings.HasPrefix(path.Base(name), "."): // leftovers of a crash, not evidence
				if d.IsDir() {
					return fs.SkipDir
				}
			case !d.IsDir():
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

func hashFile(root *os.Root, name string) (string, error) {
	fi, err := root.Stat(name)
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Evidence is the state as an entry names it.
func (s *State) Evidence() Evidence {
	return Evidence{
		Raw: s.Raw.Sum(), RawFiles: len(s.Raw), Thresholds: s.Thresholds.Sum(),
		Waivers: sumOf(s.Waivers), Deck: s.Deck, Policy: sumOf(s.Policy),
	}
}

func sumOf(data []byte) string {
	if data == nil {
		return ""
	}
	return sum(data)
}

// keep writes what the hashes stand for below folder, named by hash.
func (s *State) keep(folder string) error {
	for _, f := range []struct {
		kind string
		hash string
		data []byte
	}{
		{"raw", s.Raw.Sum(), s.Raw.Bytes()}, {"thresholds", s.Thresholds.Sum(), s.Thresholds.Bytes()},
		{"specs", s.Thresholds.Sum(), s.Specs}, {"waivers", sumOf(s.Waivers), s.Waivers}, {"policy", sumOf(s.Policy), s.Policy},
	} {
		if f.hash == "" || f.data == nil {
			continue
		}
		name := filepath.Join(folder, evidenceDir, f.kind+"-"+f.hash)
		if err := renameio.WriteFile(name, f.data, 0o644, renameio.WithTempDir(filepath.Dir(name))); err != nil {
			return err
		}
	}
	return nil
}

// kept reads what a hash stands for; nil if it is gone or no longer has it.
func kept(dir, kind, hash string) []byte {
	if _, err := hex.DecodeString(hash); err != nil || hash == "" { // it comes from a file and becomes a name
		return nil
	}
	data, err := readFile(dir, filepath.Join(Folder, evidenceDir, kind+"-"+hash), maxEvidence)
	if err != nil {
		return nil
	}
	if kind != "specs" && sum(data) != hash {
		return nil
	}
	return data
}

// KeepWaivers puts data in force as the waivers of the run in dir.
func KeepWaivers(dir string, data []byte) error {
	folder := filepath.Join(dir, Folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("keep waivers: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(folder, waiversFile), data, 0o644, renameio.WithTempDir(folder)); err != nil {
		return fmt.Errorf("keep waivers: %w", err)
	}
	return nil
}

// stale says, one sentence each, what is no longer as the entry was signed for.
func stale(dir string, e Entry, now *State) []string {
	var out []string
	ev := now.Evidence()
	if ev.Raw != e.Evidence.Raw {
		out = append(out, listingChange(dir, "raw", "raw data", e.Evidence.Raw, now.Raw)...)
	}
	if ev.Thresholds != e.Evidence.Thresholds {
		out = append(out, listingChange(dir, "thresholds", "thresholds", e.Evidence.Thresholds, now.Thresholds)...)
		out = append(out, specChanges(kept(dir, "specs", e.Evidence.Thresholds), now.Specs)...)
	}
	if ev.Waivers != e.Evidence.Waivers {
		out = append(out, waiverChanges(kept(dir, "waivers", e.Evidence.Waivers), now.Waivers)...)
	}
	return out
}

func listingChange(dir, kind, what, signed string, now Listing) []string {
	old := kept(dir, kind, signed)
	listing, err := parseListing(old)
	if old == nil || err != nil {
		return []string{fmt.Sprintf("%s changed: their hash is %s, signed was %s (the signed list of files is gone, so the files cannot be named)", what, short(now.Sum()), short(signed))}
	}
	var out []string
	for _, d := range listing.diff(now) {
		out = append(out, what+": "+d)
	}
	return out
}

// specChanges names the specs that differ; nothing if either is not readable.
func specChanges(was, now []byte) []string {
	var a, b artifact.Thresholds
	if json.Unmarshal(was, &a) != nil || json.Unmarshal(now, &b) != nil {
		return nil
	}
	index := func(t artifact.Thresholds) map[string]string {
		m := map[string]string{}
		for _, s := range t.Specs {
			m[strings.TrimSpace(s.Scope+" "+s.Target+" "+s.Metric)] = specText(s)
		}
		return m
	}
	old, cur := index(a), index(b)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(old)) {
		switch got, ok := cur[key]; {
		case !ok:
			out = append(out, fmt.Sprintf("threshold removed: %s %s", key, old[key]))
		case got != old[key]:
			out = append(out, fmt.Sprintf("threshold changed: %s is %s, signed was %s", key, got, old[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cur)) {
		if _, ok := old[key]; !ok {
			out = append(out, fmt.Sprintf("threshold added: %s %s", key, cur[key]))
		}
	}
	return out
}

func specText(s artifact.Threshold) string {
	text := s.Kind
	if s.Value != nil {
		text += " " + strconv.FormatFloat(*s.Value, 'g', -1, 64)
	}
	if s.TolerancePct != nil {
		text += " ± " + strconv.FormatFloat(*s.TolerancePct, 'g', -1, 64) + " %"
	}
	if s.Reference != "" {
		text += " of " + s.Reference
	}
	return text
}

func waiverChanges(was, now []byte) []string {
	switch {
	case now == nil:
		return []string{"waivers: " + Folder + "/" + waiversFile + " is gone"}
	case was == nil:
		return []string{"waivers: " + Folder + "/" + waiversFile + " was added or replaced; what was signed is not kept"}
	}
	a, aerr := ParseWaivers(waiversFile, was)
	b, berr := ParseWaivers(waiversFile, now)
	if aerr != nil || berr != nil {
		return []string{fmt.Sprintf("waivers: %s changed: its SHA-256 is %s, signed was %s", waiversFile, short(sum(now)), short(sum(was)))}
	}
	old, cur := map[string]string{}, map[string]string{}
	for _, w := range a.List {
		old[w.ID] = w.text()
	}
	for _, w := range b.List {
		cur[w.ID] = w.text()
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(old)) {
		switch got, ok := cur[id]; {
		case !ok:
			out = append(out, fmt.Sprintf("waiver %s was removed", id))
		case got != old[id]:
			out = append(out, fmt.Sprintf("waiver %s changed: it is %s; signed was %s", id, got, old[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(cur)) {
		if _, ok := old[id]; !ok {
			out = append(out, fmt.Sprintf("waiver %s was added", id))
		}
	}
	if len(out) == 0 {
		out = append(out, "waivers: only the form of the file changed; its SHA-256 is "+short(sum(now))+", signed was "+short(sum(was)))
	}
	return out
}
