package warehouse

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cvs/collect/gpu"
	"cvs/collect/metric"
	"cvs/collect/strictjson"
)

// A Baseline is a set of results outside the warehouse to compare with: the
// sidecar of an older deck, of any age. What it leaves out of its identity is
// taken to agree.
type Baseline struct {
	Name      string // file it came from
	RunID     string
	Model     string
	Precision string
	GPU       string // as one word
	Driver    string
	Nodes, DP int // 0: not stated
	Simulated *bool
	At        *time.Time // UTC
	Values    []BaselineValue
	Accuracy  map[string]float64 // by metric name
}

// A BaselineValue is one metric of one cell; a Value that is nil was there but
// is no finite number.
type BaselineValue struct {
	CellKey, Host, Metric string
	Value                 *float64
}

// maxBaseline bounds a baseline file, in bytes.
const maxBaseline = 256 << 20

// ReadBaseline reads a baseline: schema 1 of the older suite (metrics named
// client.…), schema 2 of this one, and files without a schema that have the same
// cells. NaN is no number and no error. name is for messages.
func ReadBaseline(name string, data []byte) (*Baseline, error) {
	v, _, err := strictjson.Parse(data, strictjson.Options{NonFinite: true, KeepDuplicates: true, MaxBytes: maxBaseline})
	if err != nil {
		return nil, fmt.Errorf("baseline %s: %w", name, err)
	}
	if version := v.Get("schema_version"); version != nil && version.Text != "1" && version.Text != "2" {
		return nil, fmt.Errorf("baseline %s: schema_version: expected 1 or 2, found %s", name, cmp.Or(valid(version.Text), version.Kind.String()))
	}
	cells := v.Get("cells")
	if cells == nil || cells.Kind != strictjson.Array {
		return nil, fmt.Errorf("baseline %s: it has no list of cells", name)
	}
	// The older suite cuts its list to the first cells and keeps the whole aside.
	if all := v.Get("datasets").Get("sweep").Get("all_cells"); all != nil && all.Kind == strictjson.Array && len(all.Items) > len(cells.Items) {
		cells = all
	}
	first := func(paths ...string) string {
		for _, p := range paths {
			at := v
			for _, key := range strings.Split(p, ".") {
				at = at.Get(key)
			}
			if at != nil && at.Kind == strictjson.String && at.Text != "" {
				return valid(at.Text)
			}
		}
		return ""
	}
	b := &Baseline{
		Name: name, RunID: first("run.run_id", "run_id"), Model: first("identity.model_id", "model", "params.model"),
		Precision: first("identity.precision", "precision"), Driver: first("identity.driver", "driver", "params.driver", "panels.framework_parity.driver"),
		Nodes: countAt(v, "identity.nnodes", "nnodes", "params.nnodes"), DP: countAt(v, "identity.dp", "dp"),
		GPU: strings.ToLower(first("identity.gpu_arch", "gpu_arch")), Accuracy: map[string]float64{},
	}
	if seen := gpuWord(first("identity.gpu_name")); gpu.Name(seen) != "" {
		b.GPU = seen
	}
	if s := v.Get("run").Get("simulated"); s != nil && s.Kind == strictjson.Bool {
		b.Simulated = &s.Bool
	}
	for _, p := range []string{"run.started_at", "started_at", "generated_at"} {
		for _, layout := range []string{time.RFC3339, "2006-01-02 15:04 UTC"} { // the second is the older suite's
			if t, err := time.Parse(layout, first(p)); err == nil && b.At == nil {
				t = t.UTC()
				b.At = &t
			}
		}
	}
	if err := b.readCells(v, cells); err != nil {
		return nil, fmt.Errorf("baseline %s: %w", name, err)
	}
	if len(b.Values) == 0 {
		return nil, fmt.Errorf("baseline %s: no cell of it has a key and a value", name)
	}
	if acc := v.Get("accuracy"); acc != nil && acc.Kind == strictjson.Object {
		for _, m := range acc.Members {
			if f := finiteOf(m.Value); f != nil {
				b.Accuracy[valid(m.Name)] = *f
			}
		}
	}
	return b, nil
}

// readCells reads the cells. The older suite lets the last of two results of one
// cell and host win; which of them was meant nobody can say, so that is refused.
func (b *Baseline) readCells(v, cells *strictjson.Value) error {
	type place struct{ cell, host, metric string }
	seen := make(map[place]*float64)
	defs := metric.Table()
	known := make(map[string]bool, len(defs))
	for _, d := range defs {
		known[d.Name] = true
	}
	for i, c := range cells.Items {
		key := baselineKey(v, c)
		actuals := c.Get("actuals")
		if key == "" || actuals == nil || actuals.Kind != strictjson.Object {
			continue
		}
		// identities that only the cells state
		if m := oldKey.FindStringSubmatch(textOf(c.Get("cell_id"))); m != nil && b.Nodes == 0 {
			b.Nodes, _ = strconv.Atoi(strings.TrimPrefix(m[2], ",NNODES=")) // 0 if the key says nothing
		}
		if m := textOf(c.Get("model")); b.Model == "" && m != "" {
			b.Model = m
		}
		if g := textOf(c.Get("gpu")); b.GPU == "" && g != "" {
			b.GPU = strings.ToLower(g)
		}
		if m := textOf(c.Get("model")); m != "" && m != b.Model {
			return fmt.Errorf("cells[%d]: model: %q contradicts %q: a baseline is of one model", i, m, b.Model)
		}
		if g := gpu.Name(textOf(c.Get("gpu"))); g != "" && gpu.Name(b.GPU) != "" && g != gpu.Name(b.GPU) {
			return fmt.Errorf("cells[%d]: gpu: %q contradicts %q: a baseline is of one GPU", i, g, b.GPU)
		}
		for _, m := range actuals.Members {
			one := BaselineValue{CellKey: key, Host: textOf(c.Get("host")), Metric: strings.TrimPrefix(m.Name, "client."), Value: finiteOf(m.Value)}
			if !known[one.Metric] {
				continue
			}
			at := place{one.CellKey, one.Host, one.Metric}
			if before, again := seen[at]; !again {
				seen[at] = one.Value
				b.Values = append(b.Values, one)
			} else if (before == nil) != (one.Value == nil) || before != nil && *before != *one.Value {
				return fmt.Errorf("cells[%d]: %s of %s is there before with another value: which of the two is meant?", i, one.Metric, strings.TrimSpace(key+" "+one.Host))
			}
		}
	}
	return nil
}

var oldKey = regexp.MustCompile(`^ISL=\d+,OSL=\d+,TP=\d+(,PP=\d+)?(,NNODES=\d+)?,CONC=\d+$`)

// baselineKey is the cell key in today's spelling: older files left PP out on one
// node and added NNODES on several.
func baselineKey(v, c *strictjson.Value) string {
	id := textOf(c.Get("cell_id"))
	if m := oldKey.FindStringSubmatch(id); m != nil {
		id = strings.Replace(id, m[2], "", 1)
		if m[1] == "" {
			id = strings.Replace(id, ",CONC=", ",PP=1,CONC=", 1)
		}
		return id
	}
	isl, osl, conc := finiteOf(c.Get("isl")), finiteOf(c.Get("osl")), finiteOf(c.Get("concurrency"))
	if isl == nil || osl == nil || conc == nil {
		return valid(id)
	}
	tp := countAt(v, "identity.tp", "tp", "params.tensor_parallelism")
	if tp == 0 {
		return valid(id)
	}
	return fmt.Sprintf("ISL=%d,OSL=%d,TP=%d,PP=%d,CONC=%d", int(*isl), int(*osl), tp, max(1, countAt(v, "identity.pp", "pp", "params.pipeline_parallel_size")), int(*conc))
}

// countAt is the first count among members of v, 0 if there is none.
func countAt(v *strictjson.Value, paths ...string) int {
	for _, p := range paths {
		at := v
		for _, key := range strings.Split(p, ".") {
			at = at.Get(key)
		}
		if f := finiteOf(at); f != nil && *f > 0 && *f < 1e6 {
			return int(*f)
		}
	}
	return 0
}

func textOf(v *strictjson.Value) string {
	if v == nil || v.Kind != strictjson.String {
		return ""
	}
	return valid(v.Text)
}

// finiteOf reads a number, also one written as text; nil for anything else.
func finiteOf(v *strictjson.Value) *float64 {
	if v == nil || v.Kind != strictjson.Number && (v.Kind != strictjson.String || !strictjson.IsNumber(v.Text)) {
		return nil
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

// orNull is NULL for what is not known.
func orNull(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// sql is the baseline as the macros of sql/views read it.
func (b *Baseline) sql() (string, error) {
	type value struct {
		C string   `json:"c"`
		H string   `json:"h"`
		M string   `json:"m"`
		V *float64 `json:"v"`
	}
	doc := struct {
		Name      string  `json:"name"`
		RunID     string  `json:"run_id"`
		Model     string  `json:"model"`
		Precision string  `json:"precision"`
		GPU       string  `json:"gpu"`
		Driver    string  `json:"driver"`
		Nodes     *int    `json:"nodes"`
		DP        *int    `json:"dp"`
		Simulated *bool   `json:"simulated"`
		At        *string `json:"at"`
		Values    []value `json:"values"`

		Accuracy map[string]float64 `json:"accuracy"`
	}{Name: b.Name, RunID: b.RunID, Model: b.Model, Precision: b.Precision, GPU: b.GPU, Driver: b.Driver, Nodes: orNull(b.Nodes), DP: orNull(b.DP), Simulated: b.Simulated, Accuracy: b.Accuracy}
	if b.At != nil {
		at := b.At.UTC().Format("2006-01-02 15:04:05.999999")
		doc.At = &at
	}
	for _, v := range b.Values {
		doc.Values = append(doc.Values, value{v.CellKey, v.Host, v.Metric, v.Value})
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return "", fmt.Errorf("baseline %s: %w", b.Name, err)
	}
	return string(text), nil
}

// A Compared is a warehouse whose comparisons use baselines from outside it
// where there are any. It answers every other question as the DB does.
type Compared struct {
	*DB
	Prev, Parity       *Baseline // nil: the runs of the warehouse
	PrevErr, ParityErr error     // a baseline that was named but cannot be used
}

// PrevRun compares with Prev, or with the runs of the warehouse. A baseline that
// was named but cannot be used is an error and never replaced by another.
func (c *Compared) PrevRun(ctx context.Context, runID string) ([]PrevRunRow, error) {
	if c.PrevErr != nil {
		return nil, c.PrevErr
	}
	if c.Prev == nil {
		return c.DB.PrevRun(ctx, runID)
	}
	base, err := c.Prev.sql()
	if err != nil {
		return nil, err
	}
	return readRunLate(ctx, c.DB, runID, "prev_run_against", "SELECT "+prevRunColumns+" FROM prev_run_against(?, ?)"+prevRunOrder, prevRunDest, runID, base)
}

// FrameworkParity compares with Parity, or with the runs of the warehouse.
func (c *Compared) FrameworkParity(ctx context.Context, runID string) ([]ParityRow, error) {
	if c.ParityErr != nil {
		return nil, c.ParityErr
	}
	if c.Parity == nil {
		return c.DB.FrameworkParity(ctx, runID)
	}
	base, err := c.Parity.sql()
	if err != nil {
		return nil, err
	}
	return readRunLate(ctx, c.DB, runID, "framework_parity_against", "SELECT "+parityColumns+" FROM framework_parity_against(?, ?)"+parityOrder, parityDest, runID, base)
}

// AccuracyPrevRun compares with Prev, or with the runs of the warehouse. A
// sidecar holds no standard errors, so a drop is judged by 0.01 alone.
func (c *Compared) AccuracyPrevRun(ctx context.Context, runID string) ([]AccuracyPrevRow, error) {
	if c.PrevErr != nil {
		return nil, c.PrevErr
	}
	if c.Prev == nil {
		return c.DB.AccuracyPrevRun(ctx, runID)
	}
	base, err := c.Prev.sql()
	if err != nil {
		return nil, err
	}
	return readRunLate(ctx, c.DB, runID, "accuracy_prev_run_against", "SELECT "+accuracyPrevColumns+" FROM accuracy_prev_run_against(?, ?)"+accuracyPrevOrder,
		accuracyPrevDest, runID, base)
}

// Against compares a run with one other run of the warehouse that the user chose,
// whatever came between them. Runs of different identity are refused with the
// reason.
func (w *DB) Against(ctx context.Context, runID string) (*Baseline, error) {
	id, err := only(readLate(ctx, w, "run identity", `
		SELECT coalesce(model, ''), coalesce(precision, ''), coalesce(gpu, ''), coalesce(driver, ''),
			coalesce(nullif(nnodes, 0), 1), coalesce(nullif(dp, 0), 1), simulated, started_at FROM run_identity WHERE run_id = ?`,
		func(b *Baseline) []any {
			b.Simulated = new(bool)
			return []any{&b.Model, &b.Precision, &b.GPU, &b.Driver, &b.Nodes, &b.DP, b.Simulated, &b.At}
		}, runID))
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", runID, err)
	}
	id.Name, id.RunID = runID, runID
	id.Values, err = readLate(ctx, w, "values", "SELECT cell_key, host, metric, value FROM measurement WHERE run_id = ? ORDER BY ALL",
		func(v *BaselineValue) []any { return []any{&v.CellKey, &v.Host, &v.Metric, &v.Value} }, runID)
	if err != nil {
		return nil, err
	}
	acc, err := w.Accuracy(ctx, runID)
	if err != nil {
		return nil, err
	}
	id.Accuracy = map[string]float64{}
	for _, a := range acc {
		if a.Value != nil {
			id.Accuracy[a.TaskID+"."+a.Metric] = *a.Value
		}
	}
	return &id, nil
}
