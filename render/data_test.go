package render

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cvs/warehouse"
)

// fake answers from a Data; fail names the question that goes wrong.
type fake struct {
	d    *Data
	fail string
}

var errGone = errors.New("the view is gone")

func answer[T any](f fake, question string, v T) (T, error) {
	if f.fail == question {
		var none T
		return none, errGone
	}
	return v, nil
}

func (f fake) Run(context.Context, string) (warehouse.RunRow, error) {
	return answer(f, "run", f.d.Run)
}
func (f fake) RunStatus(context.Context, string) (warehouse.RunStatusRow, error) {
	return answer(f, "status", f.d.Status)
}
func (f fake) CellStatus(context.Context, string) ([]warehouse.CellStatusRow, error) {
	return answer(f, "cell_status", f.d.Cells)
}
func (f fake) Tiers(context.Context, string) ([]warehouse.TierRow, error) {
	return answer(f, "tiers", f.d.Tiers)
}
func (f fake) Gates(context.Context, string) ([]warehouse.GateRow, error) {
	return answer(f, "gates", f.d.Gates)
}
func (f fake) CheckGates(context.Context, string) ([]warehouse.CheckGateRow, error) {
	return answer(f, "checks", f.d.Checks)
}
func (f fake) Metrics(context.Context, string) ([]warehouse.MetricRow, error) {
	return answer(f, "metrics", f.d.Metrics)
}
func (f fake) DataQuality(context.Context, string) ([]warehouse.DataQualityRow, error) {
	return answer(f, "quality", f.d.Quality)
}
func (f fake) Accuracy(context.Context, string) ([]warehouse.AccuracyRow, error) {
	return answer(f, "accuracy", f.d.Accuracy)
}
func (f fake) Artifacts(context.Context, string) ([]warehouse.ArtifactRow, error) {
	return answer(f, "artifacts", f.d.Artifacts)
}
func (f fake) Stages(context.Context, string) ([]warehouse.StageRow, error) {
	return answer(f, "stages", f.d.Stages)
}
func (f fake) Attempts(context.Context, string) ([]warehouse.AttemptRow, error) {
	return answer(f, "attempts", f.d.Attempts)
}
func (f fake) Inputs(context.Context, string) ([]warehouse.InputRow, error) {
	return answer(f, "inputs", f.d.Inputs)
}
func (f fake) Notes(context.Context, string) (string, error) {
	return answer(f, "notes", "from the file")
}
func (f fake) ImageDigests(context.Context, string) (map[string]string, error) {
	return answer(f, "digests", f.d.Digests)
}

// The real warehouse is a Source.
var _ Source = (*warehouse.DB)(nil)

// Without a verdict there is no deck; without a panel there is one that says so.
func TestQuery(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ fail, section string }{
		{"", ""}, {"run", "-"}, {"status", "-"}, {"cell_status", "-"}, {"gates", "-"}, {"checks", "-"}, {"digests", "-"},
		{"tiers", "gates"}, {"metrics", "results"}, {"quality", "quality"}, {"accuracy", "accuracy"}, {"artifacts", "artifacts"},
		{"inputs", "artifacts"}, {"stages", "lifecycle"}, {"attempts", "cells"}, {"notes", "notes"},
	} {
		d, err := Query(t.Context(), fake{fixture(), tc.fail}, "r1")
		if tc.section == "-" {
			if !errors.Is(err, errGone) || !strings.Contains(err.Error(), "r1") {
				t.Errorf("%s: error %v", tc.fail, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.fail, err)
			continue
		}
		shown := ""
		for _, s := range Build(d, testOptions).Sections {
			if s.Problem != "" {
				shown += s.ID
			}
		}
		if shown != tc.section {
			t.Errorf("without %s the sections %q show a problem, want %q", tc.fail, shown, tc.section)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Query(ctx, fake{fixture(), "quality"}, "r1"); err == nil {
		t.Error("a cancelled query makes a deck")
	}
}
