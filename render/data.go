package render

import (
	"context"
	"fmt"

	"cvs/warehouse"
)

// A Source answers the deck's questions. [*warehouse.DB] is one.
type Source interface {
	Run(ctx context.Context, runID string) (warehouse.RunRow, error)
	RunStatus(ctx context.Context, runID string) (warehouse.RunStatusRow, error)
	CellStatus(ctx context.Context, runID string) ([]warehouse.CellStatusRow, error)
	Tiers(ctx context.Context, runID string) ([]warehouse.TierRow, error)
	Gates(ctx context.Context, runID string) ([]warehouse.GateRow, error)
	CheckGates(ctx context.Context, runID string) ([]warehouse.CheckGateRow, error)
	Metrics(ctx context.Context, runID string) ([]warehouse.MetricRow, error)
	DataQuality(ctx context.Context, runID string) ([]warehouse.DataQualityRow, error)
	Accuracy(ctx context.Context, runID string) ([]warehouse.AccuracyRow, error)
	Artifacts(ctx context.Context, runID string) ([]warehouse.ArtifactRow, error)
	Stages(ctx context.Context, runID string) ([]warehouse.StageRow, error)
	Attempts(ctx context.Context, runID string) ([]warehouse.AttemptRow, error)
	Inputs(ctx context.Context, runID string) ([]warehouse.InputRow, error)
}

// The facts that a Source may know besides; what it cannot be asked is left out
// of the deck.
type (
	noter interface {
		// Notes are the reviewers' words about a run.
		Notes(ctx context.Context, runID string) (string, error)
	}
	digester interface {
		// ImageDigests is the image's digest on each host.
		ImageDigests(ctx context.Context, runID string) (map[string]string, error)
	}
)

// Data is everything a deck shows, as the views said it.
type Data struct {
	Run       warehouse.RunRow
	Status    warehouse.RunStatusRow
	Cells     []warehouse.CellStatusRow // in plan order
	Tiers     []warehouse.TierRow
	Gates     []warehouse.GateRow
	Checks    []warehouse.CheckGateRow // accuracy and other tasks
	Metrics   []warehouse.MetricRow
	Quality   []warehouse.DataQualityRow
	Accuracy  []warehouse.AccuracyRow
	Artifacts []warehouse.ArtifactRow
	Stages    []warehouse.StageRow
	Attempts  []warehouse.AttemptRow
	Inputs    []warehouse.InputRow
	Notes     string               // reviewers' words
	Digests   map[string]string    // host → image digest
	Prev      []ComparedRow        // against the previous run
	Golden    []ComparedRow        // against the pinned run
	Parity    []ComparedRow        // against another framework
	Trend     []warehouse.TrendRow // the past of meanMetrics
	Changed   []warehouse.ChangedRow
	Quantiles []warehouse.QuantileRow         // of the times of single requests
	Means     map[string]warehouse.MeanChange // of a comparison, by meanKey
	Scaling   []warehouse.ScalingRow

	Beside       Quality // what was asked beside speed
	AccuracyPrev []warehouse.AccuracyPrevRow
	Review       *Review // nil: nobody asked, see [Data.QueryReview]
	Logs         []LogTail
	// Problems are the questions that were not answered, by the id of the
	// section that shows the answer.
	Problems map[string]string
}

// Query asks src for everything about one run. Without the run, its verdict,
// its cells or their gates there is no deck and an error; any other question
// that fails leaves a visible note in its section.
func Query(ctx context.Context, src Source, runID string) (*Data, error) {
	d := &Data{Problems: map[string]string{}}
	var err error
	if d.Run, err = src.Run(ctx, runID); err != nil {
		return nil, fmt.Errorf("run %s: %w", runID, err)
	}
	if d.Status, err = src.RunStatus(ctx, runID); err != nil {
		return nil, fmt.Errorf("run %s: %w", runID, err)
	}
	must := func(_ string, err error) error { return err }
	may := func(section string, err error) error {
		if err != nil && ctx.Err() == nil {
			d.Problems[section] = err.Error()
			return nil
		}
		return err
	}
	for _, q := range []struct {
		section string
		on      func(section string, err error) error
		ask     func() error
	}{
		{"", must, into(ctx, runID, src.CellStatus, &d.Cells)},
		{"", must, into(ctx, runID, src.Gates, &d.Gates)},
		{"", must, into(ctx, runID, src.CheckGates, &d.Checks)},
		{"gates", may, into(ctx, runID, src.Tiers, &d.Tiers)},
		{"results", may, into(ctx, runID, src.Metrics, &d.Metrics)},
		{"quality", may, into(ctx, runID, src.DataQuality, &d.Quality)},
		{"accuracy", may, into(ctx, runID, src.Accuracy, &d.Accuracy)},
		{"artifacts", may, into(ctx, runID, src.Artifacts, &d.Artifacts)},
		{"lifecycle", may, into(ctx, runID, src.Stages, &d.Stages)},
		{"cells", may, into(ctx, runID, src.Attempts, &d.Attempts)},
		{"artifacts", may, into(ctx, runID, src.Inputs, &d.Inputs)},
	} {
		if err := q.on(q.section, q.ask()); err != nil {
			return nil, fmt.Errorf("run %s: %w", runID, err)
		}
	}
	if s, ok := src.(noter); ok {
		if d.Notes, err = s.Notes(ctx, runID); may("notes", err) != nil {
			return nil, fmt.Errorf("run %s: %w", runID, err)
		}
	}
	if s, ok := src.(digester); ok {
		if d.Digests, err = s.ImageDigests(ctx, runID); err != nil {
			return nil, fmt.Errorf("run %s: %w", runID, err)
		}
	}
	if err := d.queryMore(ctx, src, runID, may); err != nil {
		return nil, fmt.Errorf("run %s: %w", runID, err)
	}
	if err := d.queryQuality(ctx, src, runID, may); err != nil {
		return nil, fmt.Errorf("run %s: %w", runID, err)
	}
	return d, nil
}

// into is a question whose answer goes to dst.
func into[T any](ctx context.Context, runID string, ask func(context.Context, string) ([]T, error), dst *[]T) func() error {
	return func() error {
		rows, err := ask(ctx, runID)
		*dst = rows
		return err
	}
}
