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
	level  []warehouse.Objective // of --slo
	judged *judgement            // of this warehouse, or nil; its answers are not asked for twice
}

// answer is what was asked already about a run, or what ask says.
func answer[T any](ctx context.Context, s *deckSource, runID string, had func(*judgement) T, ask func(context.Context, string) (T, error)) (T, error) {
	if s.judged != nil && s.judged.status.RunID == runID {
		return had(s.judged), nil
	}
	return ask(ctx, runID)
}

// RunStatus is the judgement's, where there is one; so are the next five.
func (s *deckSource) RunStatus(ctx context.Context, runID string) (warehouse.RunStatusRow, error) {
	return answer(ctx, s, runID, func(j *judgement) warehouse.RunStatusRow { return j.status }, s.Compared.RunStatus)
}

// CellStatus answers as the warehouse does.
func (s *deckSource) CellStatus(ctx context.Context, runID string) ([]warehouse.CellStatusRow, error) {
	return answer(ctx, s, runID, func(j *judgement) []warehouse.CellStatusRow { return j.cells }, s.Compared.CellStatus)
}

// Tiers answers as the warehouse does.
func (s *deckSource) Tiers(ctx context.Context, runID string) ([]warehouse.TierRow, error) {
	return answer(ctx, s, runID, func(j *judgement) []warehouse.TierRow { return j.tiers }, s.Compared.Tiers)
}

// Gates answers as the warehouse does.
func (s *deckSource) Gates(ctx context.Context, runID string) ([]warehouse.GateRow, error) {
	return answer(ctx, s, runID, func(j *judgement) []warehouse.GateRow { return j.gates }, s.Compared.Gates)
}

// CheckGates answers as the warehouse does.
func (s *deckSource) CheckGates(ctx context.Context, runID string) ([]warehouse.CheckGateRow, error) {
	return answer(ctx, s, runID, func(j *judgement) []warehouse.CheckGateRow { return j.checks }, s.Compared.CheckGates)
}

// DataQuality answers as the warehouse does.
func (s *deckSource) DataQuality(ctx context.Context, runID string) ([]warehouse.DataQualityRow, error) {
	return answer(ctx, s, runID, func(j *judgement) []warehouse.DataQualityRow { return j.quality }, s.Compared.DataQuality)
}

// LogTails is the end of the logs of the cells that have no usable result, or an
// attempt that did not end well. Secrets were taken out when the logs were kept;
// what has the shape of one is taken out once more.
func (s *deckSource) LogTails(ctx context.Context, runID string) ([]render.LogTail, error) {
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
	if len(want) == 0 {
		return nil, nil
	}
	run, err := s.Run(ctx, runID)
	if err != nil || run.Dir == "" {
		return nil, err
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
