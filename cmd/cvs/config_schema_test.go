package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	// The schema is only worth something if an implementation that is not ours
	// agrees with it.
	"github.com/santhosh-tekuri/jsonschema/v6"

	"cvs/templates"
)

// published is where editors find the schemas in the repository.
func published(kind string) string {
	return filepath.Join("..", "..", "templates", "schema", kind+".schema.json")
}

func schemaText(t *testing.T, kind string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := runConfigSchema(t.Context(), &env{stdout: &out}, kind); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSchemaPublished: the files of the repository are what the loader's table
// gives today.
func TestSchemaPublished(t *testing.T) {
	t.Parallel()
	for _, kind := range schemaKinds {
		got := schemaText(t, kind)
		if os.Getenv("UPDATE") != "" {
			if err := os.MkdirAll(filepath.Dir(published(kind)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(published(kind), got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(published(kind))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s (-want +got; UPDATE=1 refreshes):\n%s", published(kind), d)
		}
	}
}

func compileSchema(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText(t, kind)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///"+kind, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///" + kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaAcceptsTemplates: every shipped file is valid, and a misspelt field
// in it is not.
func TestSchemaAcceptsTemplates(t *testing.T) {
	t.Parallel()
	schemas := map[string]*jsonschema.Schema{}
	for _, kind := range schemaKinds {
		schemas[kind] = compileSchema(t, kind)
	}
	all, err := bundled(templates.Configs())
	if err != nil {
		t.Fatal(err)
	}
	for _, tpl := range all {
		kind := "config"
		switch {
		case tpl.root == "cluster_file":
			kind = "cluster"
		case tpl.threshold():
			kind = "threshold"
		}
		validate := func(data []byte) error {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			return schemas[kind].Validate(doc)
		}
		if err := validate(tpl.data); err != nil {
			t.Errorf("%s: %v", tpl.full(), err)
		}
		bad := map[string]string{"config": `"model"`, "threshold": `"kind"`, "cluster": `"node_dict"`}[kind]
		wrong := strings.Replace(string(tpl.data), bad, bad[:len(bad)-1]+`x"`, 1)
		if wrong == string(tpl.data) {
			t.Fatalf("%s has no %s", tpl.full(), bad)
		}
		if validate([]byte(wrong)) == nil {
			t.Errorf("%s: with %s misspelt it is still valid", tpl.full(), bad)
		}
	}
}

// TestTemplatesAreRead keeps the list above from being empty by mistake.
func TestTemplatesAreRead(t *testing.T) {
	t.Parallel()
	all, err := bundled(templates.Configs())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = fs.WalkDir(templates.Configs(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil || n == 0 || len(all) != n {
		t.Errorf("bundled lists %d of %d files (%v)", len(all), n, err)
	}
}
