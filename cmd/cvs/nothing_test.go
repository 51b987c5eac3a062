package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingCompleted: a sweep in which no request completed is not green, also
// where thresholds are only recorded.
func TestNothingCompleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check(t, os.CopyFS(dir, os.DirFS(filepath.Join(casesDir(), "c142-all-requests-failed"))))
	config := filepath.Join(dir, "mi325x_atom_demo-70b_fp8_single.json")
	text := readFile(t, config)
	if !strings.Contains(text, `"enforce_thresholds": true`) {
		t.Fatal("the case does not enforce its thresholds")
	}
	check(t, os.WriteFile(config, []byte(strings.Replace(text, `"enforce_thresholds": true`, `"enforce_thresholds": false`, 1)), 0o600))
	res := cvsCommand(t, nil, "evaluate", "--cluster_file", filepath.Join(dir, "cluster.json"), "--config_file", config, "--results", dir)
	if res.code != 1 || !strings.Contains(res.stdout, "no request completed") {
		t.Errorf("exit %d, want 1\n%s%s", res.code, res.stdout, res.stderr)
	}
}
