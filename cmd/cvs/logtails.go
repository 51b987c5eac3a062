package main

import (
	"context"
	"errors"
	"io/fs"

	"cvs/collect/artifact"
	evidence "cvs/collect/bundle" // another thing here is called bundle
	"cvs/render"
	"cvs/warehouse"
)

// A deckSource answers a deck's questions: those about numbers from the
// warehouse, the one about logs from the run directory, where it is at hand.
type deckSource struct {
	*warehouse.Compared
	level []warehouse.Objective // of --slo
}

// LogTails is the end of the logs of the cells that have no usable result, or an
// attempt that did not end well. Secrets were taken out when the logs were kept;
// what has the shape of one is taken out once more.
func (s *deckSource) LogTails(ctx context.Context, runID string) ([]render.LogTail, error) {
	run, err := s.Run(ctx, runID)
	if err != nil || run.Dir == "" {
		return nil, err
	}
	cells, err := s.CellStatus(ctx, runID)
	if err != nil {
		return nil, err
	}
	attempts, err := s.Attempts(ctx, runID)
	if err != nil {
		return nil, err
	}
	want := map[string]bool{}
	for _, c := range cells {
		if c.State == warehouse.Error || c.State == warehouse.Invalid {
			want[c.CellKey] = true
		}
	}
	for _, a := range attempts {
		if a.Status == string(artifact.Failed) || a.ExitCode != nil && *a.ExitCode != 0 {
			want[a.CellKey] = true
		}
	}
	tails, err := artifact.LogTails(run.Dir, runID, want)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // measured elsewhere; the deck says where the logs are
	}
	if err != nil {
		return nil, badStore(err)
	}
	out := make([]render.LogTail, len(tails))
	for i, t := range tails {
		out[i] = render.LogTail{CellKey: t.CellKey, Name: t.Name, Text: evidence.WithoutSecrets(t.Text), Cut: t.Cut}
	}
	return out, nil
}
