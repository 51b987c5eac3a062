package render

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	// A validator that is not ours.
	"github.com/santhosh-tekuri/jsonschema/v6"

	"cvs/warehouse"
)

func sidecarSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "templates", "schema", "sidecar.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sidecar.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sidecar.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sidecarOf(t *testing.T, d *Data) (any, []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteJSON(&b, d, testOptions); err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatalf("no strict JSON: %v", err)
	}
	return v, b.Bytes()
}

// Every sidecar fits the published schema: an ordinary one, an empty one, one
// with comparisons, and one of hostile text and odd numbers.
func TestSidecarSchema(t *testing.T) {
	t.Parallel()
	schema := sidecarSchema(t)
	compared := fixture()
	compared.Prev = []ComparedRow{{CellKey: compared.Cells[0].CellKey, Metric: "output_throughput", Value: ptr(1.0), Other: ptr(math.NaN()), State: "not_comparable", Reason: "n/a"}}
	refused := fixture()
	refused.Problems = map[string]string{"previous": "not compared: stat nope.json: no such file", "parity": "no list of cells"}
	refused.Prev, refused.Parity = nil, nil
	if _, text := sidecarOf(t, refused); !bytes.Contains(text, []byte("nope.json")) || !bytes.Contains(text, []byte("no list of cells")) {
		t.Error("a baseline that could not be used is not named")
	}
	odd := fixture()
	for i := range odd.Metrics {
		odd.Metrics[i].Value = ptr([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0}[i%4])
	}
	odd.Run.Model = hostileTexts[0]
	for name, d := range map[string]*Data{"fixture": fixture(), "empty": {Status: warehouse.RunStatusRow{Verdict: warehouse.Record}}, "compared": compared, "refused": refused, "odd": odd, "large": sized(200)} {
		v, _ := sidecarOf(t, d)
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The schema is not one that takes everything.
	v, _ := sidecarOf(t, fixture())
	for _, spoil := range []func(m map[string]any){
		func(m map[string]any) { m["schema_version"] = json.Number("3") },
		func(m map[string]any) { delete(m, "cells") },
		func(m map[string]any) { m["cells"].([]any)[0].(map[string]any)["status"] = "green" },
	} {
		c := deepCopy(t, v)
		spoil(c)
		if schema.Validate(c) == nil {
			t.Error("the schema accepts a spoilt sidecar")
		}
	}
}

func deepCopy(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	c, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return c.(map[string]any)
}

// Every key that the program writes is described, so that the schema cannot
// fall behind.
func TestSidecarSchemaIsComplete(t *testing.T) {
	t.Parallel()
	var doc struct {
		Properties map[string]any `json:"properties"`
	}
	b, err := os.ReadFile(filepath.Join("..", "templates", "schema", "sidecar.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[sidecar]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, ok := doc.Properties[name]; !ok {
			t.Errorf("the schema does not describe %s", name)
		}
	}
}

// What the older suite's viewer and loaders read is there in their types.
func TestSidecarForOldTools(t *testing.T) {
	t.Parallel()
	_, b := sidecarOf(t, fixture())
	var old struct {
		Cells []struct {
			CellID  string              `json:"cell_id"`
			Host    string              `json:"host"`
			ISL     string              `json:"isl"`
			Actuals map[string]*float64 `json:"actuals"`
		} `json:"cells"`
		Series map[string][]struct {
			ISL    string
			Points [][2]float64
		} `json:"chart_series"`
		Sweeps []struct {
			ISL  string   `json:"isl"`
			Peak *float64 `json:"max_output_throughput"`
			Conc *int     `json:"conc_at_max_tput"`
		} `json:"sweep_summaries"`
	}
	if err := json.Unmarshal(b, &old); err != nil {
		t.Fatal(err)
	}
	if len(old.Cells) != 7 || old.Cells[0].ISL != "1024" || old.Cells[0].Host != "node-01" || old.Cells[0].Actuals["client.output_throughput"] == nil {
		t.Errorf("cells: %d, first %+v", len(old.Cells), old.Cells[0])
	}
	var conc []float64
	for _, p := range old.Series["output_throughput"][0].Points {
		conc = append(conc, p[0])
	}
	if diff := cmp.Diff([]float64{16, 32, 128}, conc); diff != "" {
		t.Errorf("points of the first shape: %s", diff)
	}
	if s := old.Sweeps[0]; s.Peak == nil || *s.Conc != 128 {
		t.Errorf("sweep: %+v", s)
	}
}
