package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cvs/warehouse"
)

// maxBaselineFile bounds what is read of a baseline, in bytes.
const maxBaselineFile = 256 << 20

// comparedWith lays the baselines that the environment names, or that lie beside
// the output file as <stem>_prev.json, over a warehouse (decision 34). One that
// is named but cannot be used is said on stderr and in the answers; it never
// changes the exit status.
func comparedWith(e *env, db *warehouse.DB, out string) *deckSource {
	c := &deckSource{Compared: &warehouse.Compared{DB: db}}
	if path := strings.TrimSpace(e.getenv("CVS_INFERENCE_PREV_REPORT_JSON")); path != "" {
		c.Prev, c.PrevErr = baselineFile(e, "CVS_INFERENCE_PREV_REPORT_JSON", path)
	} else if out != "" {
		sibling := strings.TrimSuffix(out, filepath.Ext(out)) + "_prev.json"
		if _, err := os.Stat(sibling); err == nil {
			c.Prev, c.PrevErr = baselineFile(e, "the file beside the output", sibling)
		}
	}
	if path := strings.TrimSpace(e.getenv("CVS_ATOM_PARITY_REF_JSON")); path != "" {
		c.Parity, c.ParityErr = baselineFile(e, "CVS_ATOM_PARITY_REF_JSON", path)
	}
	return c
}

func baselineFile(e *env, origin, path string) (*warehouse.Baseline, error) {
	b, err := readBaseline(path)
	if err != nil {
		err = fmt.Errorf("%s: not compared: %w", origin, err)
		fmt.Fprintln(e.stderr, visible("cvs: "+err.Error()))
	}
	return b, err
}

func readBaseline(path string) (*warehouse.Baseline, error) {
	data, err := readInput(path, maxBaselineFile)
	if err != nil {
		return nil, err
	}
	return warehouse.ReadBaseline(path, data)
}

// baselineOf reads the other side of a comparison: a run of the warehouse, a run
// directory, or a baseline file.
func baselineOf(ctx context.Context, e *env, store storeOptions, db *warehouse.DB, want string) (*warehouse.Baseline, error) {
	if st, err := os.Stat(want); err == nil && !st.IsDir() && strings.HasSuffix(want, ".json") {
		b, err := readBaseline(want)
		if err != nil {
			return nil, badData("%v", err)
		}
		return b, nil
	}
	if st, err := os.Stat(want); err == nil && st.IsDir() {
		runs, err := runsAt(e, want)
		if err != nil {
			return nil, err
		}
		if len(runs) != 1 || runs[0].err != nil {
			return nil, badInput("%s: want one run directory", want)
		}
		other, err := warehouse.Open(ctx, "", warehouse.Options{})
		if err != nil {
			return nil, badStore(err)
		}
		defer other.Close()
		if _, err := other.Load(ctx, runs[0].run); err != nil {
			return nil, err
		}
		return other.Against(ctx, runs[0].run.Meta.RunID)
	}
	id, err := findRun(ctx, db, want)
	var status *statusError
	if errors.As(err, &status) && status.code != 5 {
		// the run may be of a directory while the other is in the warehouse
		shared, openErr := readStore(ctx, e, store)
		if openErr != nil {
			return nil, err
		}
		defer shared.Close()
		db = shared
		id, err = findRun(ctx, db, want)
	}
	if err != nil {
		return nil, err
	}
	b, err := db.Against(ctx, id)
	if err != nil {
		return nil, badStore(err)
	}
	return b, nil
}
