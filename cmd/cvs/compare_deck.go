package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cvs/collect/artifact"
	"cvs/render"
	"cvs/warehouse"
)

// maxSides is how many runs a comparison deck shows: their lines in a chart must
// be told apart.
const maxSides = 3

// compareDeck writes the page of a run beside one or two others.
func compareDeck(ctx context.Context, e *env, o compareOptions, db *warehouse.DB, j *judgement, args []string, level []warehouse.Objective) (*render.Comparison, error) {
	if err := refuseComparisonOver(o.html, e, o, args); err != nil {
		return nil, err
	}
	now, err := sideOf(ctx, db, j.status.RunID)
	if err != nil {
		return nil, err
	}
	c := &render.Comparison{Now: now, Want: level}
	if level != nil {
		c.Level = levelWords(level)
		if c.Now.SLO, err = db.SLO(ctx, now.Run.RunID, level); err != nil {
			return nil, badStore(err)
		}
	}
	for _, want := range args[1:] {
		other, err := otherSide(ctx, e, o, db, args[0], want)
		if err != nil {
			return nil, err
		}
		if other.Baseline.RunID != "" && other.Baseline.RunID == now.Baseline.RunID {
			return nil, badInput("%s is the run to be compared itself", want)
		}
		if level != nil && other.Run != nil {
			if other.SLO, err = db.SLO(ctx, other.Run.RunID, level); err != nil {
				return nil, badStore(err)
			}
		}
		if err := c.Add(ctx, &warehouse.Compared{DB: db, Prev: other.Baseline, Parity: other.Baseline}, other); err != nil {
			return nil, badStore(fmt.Errorf("compare with %s: %w", want, err))
		}
	}
	at, err := renderTime(e)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(o.html), 0o755); err != nil {
		return nil, badStore(err)
	}
	if err := render.WriteFile(o.html, render.BuildComparison(c, render.Options{Now: at, ToolVersion: toolVersion()})); err != nil {
		return nil, badStore(fmt.Errorf("write the comparison %s: %w", o.html, err))
	}
	return c, nil
}

// sideOf is a run of the warehouse as one side of a comparison.
func sideOf(ctx context.Context, db *warehouse.DB, runID string) (render.Side, error) {
	base, err := db.Against(ctx, runID)
	if err != nil {
		return render.Side{}, badStore(err)
	}
	run, err := db.Run(ctx, runID)
	if err != nil {
		return render.Side{}, badStore(err)
	}
	status, err := db.RunStatus(ctx, runID)
	if err != nil {
		return render.Side{}, badStore(err)
	}
	return render.Side{Baseline: base, Run: &run, Verdict: verdictWords(status)}, nil
}

// otherSide is what the user wants to compare with. A run directory joins the
// first run's warehouse where that is one in memory, so that what else changed
// can be asked; a run of another warehouse or a file brings its values only.
func otherSide(ctx context.Context, e *env, o compareOptions, db *warehouse.DB, first, want string) (render.Side, error) {
	if artifact.IsRunDir(first) && artifact.IsRunDir(want) {
		r, err := artifact.Read(want)
		if err != nil {
			return render.Side{}, badData("%v", err)
		}
		if _, err := db.Load(ctx, r); err != nil {
			return render.Side{}, err
		}
		return sideOf(ctx, db, r.Meta.RunID)
	}
	base, err := baselineOf(ctx, e, o.store, db, want)
	if err != nil {
		return render.Side{}, err
	}
	if _, statErr := os.Stat(want); errors.Is(statErr, os.ErrNotExist) {
		if id, err := findRun(ctx, db, want); err == nil {
			return sideOf(ctx, db, id)
		}
	}
	return render.Side{Baseline: base}, nil
}

// verdictWords is a verdict for people: it is never "pass" where something is
// missing.
func verdictWords(s warehouse.RunStatusRow) string {
	words := []string{string(s.Verdict)}
	if s.Incomplete {
		words = append(words, "incomplete")
	}
	return strings.Join(words, ", ")
}

// refuseComparisonOver keeps the page from replacing what it is made from, and
// anything that is no older page.
func refuseComparisonOver(out string, e *env, o compareOptions, args []string) error {
	return refuseOverInput(out, "<", e, deckOptions{in: o.in, store: o.store, results: o.results}, args)
}
