package main

import (
	"os/exec"
	"slices"
	"sort"
	"strings"
	"testing"
)

// mayImport is the architecture: each package and what it may use of ours. An
// edge that is not here, or a package that is not here, fails the test.
var mayImport = map[string][]string{
	"collect/metric":     {},
	"collect/strictjson": {},
	"collect/gpu":        {},
	"collect/artifact":   {"collect/metric", "collect/strictjson"},
	"collect/remote":     {},
	"templates":          {},
	"collect/plan":       {"collect/artifact", "collect/gpu", "collect/metric", "collect/strictjson", "templates"},
	"collect/driver":     {"collect/plan"},
	"collect/container":  {"collect/plan", "collect/remote"},
	"collect/fabric":     {"collect/plan", "collect/remote"},
	"collect/check":      {"collect/artifact", "collect/plan", "collect/remote", "collect/strictjson"},
	"collect/signoff":    {"collect/artifact", "collect/strictjson"},
	"collect/bundle":     {"collect/artifact", "collect/strictjson"},
	"collect": {"collect/artifact", "collect/check", "collect/container", "collect/driver", "collect/fabric", "collect/gpu", "collect/plan",
		"collect/remote", "collect/strictjson"},
	"collect/lab":      {"collect/artifact", "collect/metric", "collect/strictjson"},
	"warehouse/ingest": {"collect/artifact", "collect/metric", "collect/strictjson"},
	"warehouse/shift":  {}, // statistics on series of numbers
	"warehouse":        {"collect/artifact", "collect/gpu", "collect/metric", "collect/strictjson", "templates", "warehouse/ingest", "warehouse/shift"},
	"render":           {"collect/metric", "templates", "warehouse"},
	"cmd/cvs":          nil, // wires everything
}

func TestImportMap(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "cvs/...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		pkg := strings.TrimPrefix(f[0], "cvs/")
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("package %s is not in the import map", pkg)
			continue
		}
		for _, imp := range f[1:] {
			ours, ok := strings.CutPrefix(imp, "cvs/")
			if pkg != "cmd/cvs" && imp == "github.com/duckdb/duckdb-go/v2" && pkg != "warehouse" {
				t.Errorf("%s imports DuckDB; only warehouse may", pkg)
			}
			if ok && allowed != nil && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s, which the map does not allow", pkg, ours)
			}
			if ok && allowed == nil && pkg != "cmd/cvs" {
				t.Errorf("%s has no list", pkg)
			}
		}
	}
	var labUsers []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if slices.Contains(f[1:], "cvs/collect/lab") {
			labUsers = append(labUsers, f[0])
		}
	}
	sort.Strings(labUsers)
	if !slices.Equal(labUsers, []string{"cvs/cmd/cvs"}) {
		t.Errorf("collect/lab is imported by %v; only cmd/cvs may", labUsers)
	}
}
