package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"cvs/collect/artifact"
	evidence "cvs/collect/bundle" // another thing here is called bundle
	"cvs/warehouse"
)

// A packedBaseline is a baseline file of a bundle. Its name says what the decks
// were compared with it for: <n>-prev-…, <n>-parity-…, or <n>-given-… for one
// that only goes along.
type packedBaseline struct {
	name string
	data []byte
}

// baselinesGiven are the baselines that are named, by flag or, as the decks take
// them, by environment; redacted with the names of the runs if there are any to
// be hidden.
func (o *bundleOptions) baselinesGiven(e *env, names *evidence.Redactor) ([]packedBaseline, error) {
	var out []packedBaseline
	add := func(role, file string) error {
		if file == "" {
			return nil
		}
		data, err := readInput(file, maxResultFile)
		if err != nil {
			return badInput("baseline: %v", err)
		}
		if names != nil {
			data = names.JSON(data)
		}
		out = append(out, packedBaseline{fmt.Sprintf("%d-%s-%s", len(out)+1, role, artifact.SafeName(filepath.Base(file))), data})
		return nil
	}
	for _, file := range o.baselines {
		if err := add("given", file); err != nil {
			return nil, err
		}
	}
	err := errors.Join(add("prev", strings.TrimSpace(e.getenv("CVS_INFERENCE_PREV_REPORT_JSON"))), add("parity", strings.TrimSpace(e.getenv("CVS_ATOM_PARITY_REF_JSON"))))
	return out, err
}

// baselinesIn reads those of an unpacked bundle.
func baselinesIn(dir string) ([]packedBaseline, error) {
	entries, err := os.ReadDir(filepath.Join(dir, evidence.BaselinesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, badStore(err)
	}
	var out []packedBaseline
	for _, d := range entries {
		data, err := os.ReadFile(filepath.Join(dir, evidence.BaselinesDir, d.Name()))
		if err != nil {
			return nil, badStore(err)
		}
		out = append(out, packedBaseline{d.Name(), data})
	}
	return out, nil
}

// comparedWithin is the warehouse of a bundle with its baselines. One that cannot
// be used is an error of its panel, as in any deck.
func comparedWithin(db *warehouse.DB, list []packedBaseline) *warehouse.Compared {
	c := &warehouse.Compared{DB: db}
	for _, b := range list {
		_, rest, _ := strings.Cut(b.name, "-")
		role, _, _ := strings.Cut(rest, "-")
		name := path.Join(evidence.BaselinesDir, b.name)
		switch role {
		case "prev":
			c.Prev, c.PrevErr = warehouse.ReadBaseline(name, b.data)
		case "parity":
			c.Parity, c.ParityErr = warehouse.ReadBaseline(name, b.data)
		}
	}
	return c
}
