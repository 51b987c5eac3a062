package templates

import (
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// body is what these tests read of a config or of one of its profiles.
type body struct {
	Enforce       *bool           `json:"enforce_thresholds"`
	ThresholdJSON string          `json:"threshold_json"`
	Profiles      map[string]body `json:"profiles"`
	Params        *struct {
		TP string `json:"tensor_parallelism"`
		PP string `json:"pipeline_parallel_size"`
	} `json:"params"`
	Sweep *struct {
		Combos []struct{ Name, ISL, OSL string } `json:"sequence_combinations"`
		Runs   []struct {
			Combo       string
			Concurrency int
		} `json:"runs"`
	} `json:"sweep"`
	Sweeps   map[string]struct{} `json:"sweeps"`
	Runs     []string            `json:"runs"`
	Accuracy struct {
		Tasks []struct{ ID string }
	} `json:"accuracy"`
}

// cells are the threshold keys that a body needs, sorted.
func (b body) cells(t *testing.T) []string {
	t.Helper()
	if b.Sweep == nil {
		if len(b.Runs) > 0 {
			return slices.Sorted(slices.Values(b.Runs))
		}
		return slices.Sorted(maps.Keys(b.Sweeps))
	}
	var keys []string
	for _, r := range b.Sweep.Runs {
		for _, c := range b.Sweep.Combos {
			if c.Name == r.Combo {
				pp := b.Params.PP
				if pp == "" {
					pp = "1"
				}
				keys = append(keys, "ISL="+c.ISL+",OSL="+c.OSL+",TP="+b.Params.TP+",PP="+pp+",CONC="+strconv.Itoa(r.Concurrency))
			}
		}
	}
	return slices.Sorted(slices.Values(keys))
}

type spec struct {
	Kind  string
	Value float64
}

func configPaths(t *testing.T) []string {
	t.Helper()
	all, err := fs.Glob(Configs(), "config_file/inference/atom/*.json")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(p string) bool { return strings.HasSuffix(p, "threshold.json") })
}

func read(t *testing.T, p string, into any) {
	t.Helper()
	data, err := fs.ReadFile(Configs(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
}

// TestConfigsPage holds the inventory of the reference page.
func TestConfigsPage(t *testing.T) {
	t.Parallel()
	want := []string{
		"mi3xx_atom_deepseek-r1_fp8_distributed", "mi3xx_atom_deepseek-r1_fp8_single", "mi3xx_atom_qwen3.5-397b-a17b_fp8_single",
		"mi3xx_atom_sglang_deepseek-r1_fp8_distributed", "mi3xx_atom_sglang_deepseek-r1_fp8_single",
		"mi3xx_atom_vllm_deepseek-r1_fp8_single", "mi3xx_atom_vllm_gpt-oss-120b_mxfp4_single",
	}
	var got []string
	for _, p := range configPaths(t) {
		got = append(got, strings.TrimSuffix(path.Base(p), ".json"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("configs:\n got %q\nwant %q", got, want)
	}
	if _, err := fs.Stat(Configs(), "cluster_file/atom_cluster.json"); err != nil {
		t.Error(err)
	}
}

var cellKey = regexp.MustCompile(`^ISL=(\d+),OSL=(\d+),TP=(\d+),PP=(\d+),CONC=(\d+)$`)

// TestConfigsAndThresholds checks each pair: the threshold file covers exactly
// the cells of the config's profiles, per-GPU bounds follow from the total ones
// and the GPUs used, and whether thresholds are enforced is written out.
func TestConfigsAndThresholds(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range configPaths(t) {
		var c body
		read(t, p, &c)
		used[c.ThresholdJSON] = true
		var th map[string]json.RawMessage
		read(t, path.Join(path.Dir(p), c.ThresholdJSON), &th)
		bodies := c.Profiles
		if bodies == nil {
			bodies = map[string]body{"perf": c}
		}
		specs := map[string]map[string]json.RawMessage{"perf": th}
		if raw, ok := th["profiles"]; ok {
			clear(specs)
			if err := json.Unmarshal(raw, &specs); err != nil {
				t.Fatalf("%s: %v", c.ThresholdJSON, err)
			}
		}
		if a, b := slices.Sorted(maps.Keys(bodies)), slices.Sorted(maps.Keys(specs)); !slices.Equal(a, b) {
			t.Errorf("%s: profiles %q, thresholds for %q", p, a, b)
		}
		for name, b := range bodies {
			if b.Enforce == nil {
				t.Errorf("%s %s: enforce_thresholds is not written out", p, name)
			}
			checkCells(t, path.Base(p)+" "+name, b, specs[name])
		}
	}
	all, err := fs.Glob(Configs(), "config_file/inference/atom/*threshold.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !used[path.Base(p)] {
			t.Errorf("%s: no config names it", p)
		}
	}
}

func checkCells(t *testing.T, what string, b body, specs map[string]json.RawMessage) {
	t.Helper()
	var got []string
	for key, raw := range specs {
		m := cellKey.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		got = append(got, key)
		var cell map[string]spec
		if err := json.Unmarshal(raw, &cell); err != nil {
			t.Fatalf("%s %s: %v", what, key, err)
		}
		if n := len(cell); n != 25 && !(n == 26 && cell["scaling.efficiency_pct"].Kind != "") {
			t.Errorf("%s %s: %d metrics, want the 25 gated ones, and scaling at most", what, key, n)
		}
		tp, _ := strconv.Atoi(m[3])
		pp, _ := strconv.Atoi(m[4])
		if pp == 1 {
			continue // single-node bounds are as published
		}
		for total, each := range map[string]string{"total_token_throughput": "per_gpu_throughput", "output_throughput": "output_tput_per_gpu"} {
			if want := cell[total].Value / float64(tp*pp); cell[each].Value != want {
				t.Errorf("%s %s: %s is %v, want %s / %d = %v", what, key, each, cell[each].Value, total, tp*pp, want)
			}
		}
	}
	slices.Sort(got)
	if want := b.cells(t); !slices.Equal(got, want) {
		t.Errorf("%s: thresholds for\n%q\nwant\n%q", what, got, want)
	}
	var tasks map[string]json.RawMessage
	if raw := specs["accuracy"]; raw != nil {
		if err := json.Unmarshal(raw, &tasks); err != nil {
			t.Fatalf("%s accuracy: %v", what, err)
		}
	}
	for id := range tasks {
		if !slices.ContainsFunc(b.Accuracy.Tasks, func(x struct{ ID string }) bool { return x.ID == id }) {
			t.Errorf("%s: thresholds for the task %q, which does not run", what, id)
		}
	}
}

// TestConfigsMarkWhatToFill: each template says what a lab must replace.
func TestConfigsMarkWhatToFill(t *testing.T) {
	t.Parallel()
	for _, p := range configPaths(t) {
		data, err := fs.ReadFile(Configs(), p)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "<changeme-models-mount>:/models:ro") {
			t.Errorf("%s: the models mount is not marked", p)
		}
	}
}
