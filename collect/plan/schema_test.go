package plan

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	// An independent validator: the schema is only worth something if other
	// programs read it as it is meant.
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"
)

func compile(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	b, err := Schema(kind)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(kind+".json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(kind + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestSchemaAccepts: whatever loads is valid.
func TestSchemaAccepts(t *testing.T) {
	t.Parallel()
	schemas := map[string]*jsonschema.Schema{}
	for _, k := range []string{"config", "threshold", "cluster"} {
		schemas[k] = compile(t, k)
	}
	files, err := filepath.Glob("testdata/shipped/*.json")
	if err != nil || len(files) < 15 {
		t.Fatal(files, err)
	}
	files = append(files, "testdata/base/config.json", "testdata/base/threshold.json", "testdata/base/cluster.json")
	for _, f := range files {
		kind := "config"
		if strings.HasSuffix(f, "threshold.json") {
			kind = "threshold"
		} else if strings.HasSuffix(f, "cluster.json") {
			kind = "cluster"
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, schemas[kind], b); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestSchemaRefuses: the mistakes of one field that the loader refuses, the
// schema refuses as well.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	schemas := map[string]*jsonschema.Schema{}
	for _, k := range []string{"config", "threshold", "cluster"} {
		schemas[k] = compile(t, k)
	}
	for _, name := range []string{"unknown_key", "unknown_key_top", "key_case", "schema_version_3", "framework_other", "enforce_as_text", "missing_params", "missing_driver",
		"null_value", "env_name", "env_number", "integer_leading_zero", "integer_float", "integer_words", "port_range", "reuse_word", "sweep_zero", "catalogue_key",
		"driver_unknown", "atom_args_text", "runtime_arg_unknown", "runtime_enroot", "task_seed", "threshold_kind", "threshold_value_missing", "threshold_field_case",
		"threshold_within", "threshold_min_ratio", "threshold_bare_number", "threshold_cell_null", "threshold_key_without_pp", "threshold_key_typo",
		"cluster_no_nodes", "container_launch"} {
		a, err := txtar.ParseFile("testdata/bad/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		m := base(t)
		i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "edit" })
		applyEdits(t, m, a.Files[i].Data)
		var refused error
		for kind, s := range schemas {
			if err := validate(t, s, m[names[kind]]); err != nil {
				refused = err
			}
		}
		if refused == nil && name != "integer_float" { // 8.0 is an integer to JSON Schema
			t.Errorf("%s is valid", name)
		}
	}
}

// TestSchemaDocuments: every field has a description, every default is valid.
func TestSchemaDocuments(t *testing.T) {
	t.Parallel()
	if _, err := Schema("deck"); err == nil {
		t.Error("a schema for an unknown kind")
	}
	for _, kind := range []string{"config", "threshold", "cluster"} {
		b, err := Schema(kind)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := Schema(kind)
		if !bytes.Equal(b, again) {
			t.Errorf("%s: two calls differ", kind)
		}
		var s struct {
			Properties map[string]struct{ Description string }
		}
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		for name, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("%s: %s has no description", kind, name)
			}
		}
	}
}
