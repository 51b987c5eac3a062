package plan

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cvs/collect/strictjson"
)

// shipped are the files of the reference page with the profiles of each.
func shipped(t testing.TB) map[string][]string {
	t.Helper()
	configs, err := filepath.Glob("testdata/shipped/mi3xx_*.json")
	if err != nil || len(configs) != 7 {
		t.Fatalf("%d shipped configs, %v", len(configs), err)
	}
	all := map[string][]string{}
	for _, c := range configs {
		b, err := os.ReadFile(c)
		if err != nil {
			t.Fatal(err)
		}
		v, _, err := strictjson.Parse(b, strictjson.Options{})
		if err != nil {
			t.Fatal(err)
		}
		all[c] = []string{""}
		if p := v.Get("profiles"); p != nil {
			all[c] = nil
			for _, m := range p.Members {
				all[c] = append(all[c], m.Name)
			}
		}
	}
	return all
}

// filled puts a shipped config with its threshold file and the cluster file in
// a directory of its own, with the fields filled that a user must fill.
func filled(t testing.TB, config string, enforce bool) (memory, Options) {
	t.Helper()
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte("<changeme-models-mount>"), []byte("/data/hf"))
	b = bytes.ReplaceAll(b, []byte(`"image": "<changeme>"`), []byte(`"image": "rocm/atom-dev:latest"`))
	b = bytes.ReplaceAll(b, []byte("{head-node-ip}"), []byte("192.0.2.11"))
	if enforce {
		b = bytes.ReplaceAll(b, []byte(`"enforce_thresholds": false`), []byte(`"enforce_thresholds": true`))
	}
	cluster, err := os.ReadFile("testdata/shipped/atom_cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	cluster = bytes.ReplaceAll(cluster, []byte("{head-node-ip}"), []byte("192.0.2.11"))
	cluster = bytes.ReplaceAll(cluster, []byte("{worker-node-ip}"), []byte("192.0.2.12"))
	if !strings.Contains(config, "distributed") {
		cluster = regexp.MustCompile(`,\s*"192\.0\.2\.12": \{[^}]*\}`).ReplaceAll(cluster, nil)
	}
	name := regexp.MustCompile(`"threshold_json": "([^"]+)"`).FindSubmatch(b)
	if name == nil {
		t.Fatalf("%s names no threshold file", config)
	}
	threshold, err := os.ReadFile(filepath.Join("testdata/shipped", string(name[1])))
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Base(config)
	return memory{base: b, string(name[1]): threshold, clusterName: cluster},
		Options{ConfigFile: base, ClusterFile: clusterName, OSUser: "alice"}
}

// TestShipped loads every config of the reference page, for every profile, as
// shipped and with thresholds enforced, and checks the facts of the inventory.
func TestShipped(t *testing.T) {
	t.Parallel()
	type facts struct {
		driver            Driver
		cells, tasks, max int
		tp, pp, nodes, dp int
		reuse             bool
		poll              int
		schema            string
	}
	want := map[string]facts{
		"mi3xx_atom_deepseek-r1_fp8_single/perf":         {DriverATOM, 3, 9, 4096, 8, 1, 1, 1, true, 80, "native"},
		"mi3xx_atom_deepseek-r1_fp8_single/mtp3":         {DriverATOM, 3, 2, 4096, 8, 1, 1, 1, false, 80, "native"},
		"mi3xx_atom_deepseek-r1_fp8_distributed/":        {DriverVLLMATOM, 16, 3, 8192, 8, 2, 2, 1, true, 150, "native"},
		"mi3xx_atom_qwen3.5-397b-a17b_fp8_single/":       {DriverATOM, 3, 1, 12288, 8, 1, 1, 1, true, 80, "native"},
		"mi3xx_atom_vllm_deepseek-r1_fp8_single/":        {DriverVLLMATOM, 3, 9, 8192, 8, 1, 1, 1, true, 80, "serving"},
		"mi3xx_atom_vllm_gpt-oss-120b_mxfp4_single/":     {DriverVLLMATOM, 3, 2, 12288, 4, 1, 1, 1, true, 80, "serving"},
		"mi3xx_atom_sglang_deepseek-r1_fp8_single/":      {DriverSGLang, 3, 9, 4096, 8, 1, 1, 1, true, 80, "serving"},
		"mi3xx_atom_sglang_deepseek-r1_fp8_distributed/": {DriverSGLang, 16, 3, 4096, 8, 2, 2, 1, true, 80, "serving"},
	}
	seen := 0
	for config, profiles := range shipped(t) {
		for _, profile := range profiles {
			for _, enforce := range []bool{false, true} {
				m, o := filled(t, config, enforce)
				o.Profile = profile
				p, err := load(m, o)
				stem := strings.TrimSuffix(filepath.Base(config), ".json")
				if err != nil {
					t.Errorf("%s %s enforce=%v:\n%v", stem, profile, enforce, err)
					continue
				}
				seen++
				got := facts{p.Params.Driver, len(p.Cells), len(p.Accuracy), p.Params.MaxModelLength, p.Params.TP, p.Params.PP, p.Params.NNodes, p.Params.DP, p.Params.ReuseServer, p.Params.ClientPollCount, p.Schema}
				if got != want[stem+"/"+profile] {
					t.Errorf("%s/%s: got %+v, want %+v", stem, profile, got, want[stem+"/"+profile])
				}
				if p.Enforce != enforce || p.GPUArch != "mi3xx" || p.Cluster.Username != "alice" || p.Paths.LogDir != "/home/alice/LOGS" {
					t.Errorf("%s: enforce %v, arch %s, user %s, log_dir %s", stem, p.Enforce, p.GPUArch, p.Cluster.Username, p.Paths.LogDir)
				}
				if len(p.Coverage.CellsWithoutSpecs)+len(p.Coverage.MissingSpecs) > 0 {
					t.Errorf("%s: coverage %+v", stem, p.Coverage)
				}
				if len(p.Thresholds) < 25*len(p.Cells) {
					t.Errorf("%s: %d thresholds for %d cells", stem, len(p.Thresholds), len(p.Cells))
				}
			}
		}
	}
	if seen != 16 {
		t.Errorf("%d loads, want 16", seen)
	}
}

// TestShippedUnfilled names every field that a user must fill.
func TestShippedUnfilled(t *testing.T) {
	t.Parallel()
	m, o := filled(t, "testdata/shipped/mi3xx_atom_sglang_deepseek-r1_fp8_distributed.json", false)
	for _, f := range []string{"mi3xx_atom_sglang_deepseek-r1_fp8_distributed.json", "atom_cluster.json"} {
		b, err := os.ReadFile("testdata/shipped/" + f)
		if err != nil {
			t.Fatal(err)
		}
		if f == "atom_cluster.json" {
			f = clusterName
		}
		m[f] = b
	}
	_, err := load(m, o)
	if err == nil {
		t.Fatal("an unfilled template loads")
	}
	for _, path := range []string{"container.image: ", "volumes[1]: ", "head_node_dict.mgmt_ip: ", `node_dict["{head-node-ip}"]: `, `node_dict["{worker-node-ip}"]: `} {
		if !strings.Contains(err.Error(), path) {
			t.Errorf("nothing about %q in:\n%v", path, err)
		}
	}
	for _, p := range err.(*Error).Problems {
		if !p.Warning && (strings.Contains(p.Path, "NCCL_IB_HCA") || strings.Contains(p.Path, "benchmark_serv_node") || p.Path == "hca_id_prefix") {
			t.Errorf("a field that is not used is an error: %v", p)
		}
	}
}

// TestServingEnvironment merges container.runtime.args.env into the server's
// and takes the network variables out.
func TestServingEnvironment(t *testing.T) {
	t.Parallel()
	m, o := filled(t, "testdata/shipped/mi3xx_atom_sglang_deepseek-r1_fp8_distributed.json", false)
	p, err := load(m, o)
	if err != nil {
		t.Fatal(err)
	}
	want := []EnvVar{{"NCCL_IB_GID_INDEX", "3"}, {"NCCL_DEBUG", "ERROR"}, {"SGLANG_USE_AITER", "1"}}
	if !slices.Equal(p.Server.Env, want) || !slices.Equal(p.Container.Env, want) || len(p.Container.Runtime.Env) != 0 {
		t.Errorf("server %v, container %v, runtime %v", p.Server.Env, p.Container.Env, p.Container.Runtime.Env)
	}
	if p.Params.MasterPort != 29501 || p.Params.MasterAddr != "" || p.Params.ScalingBaseline != nil {
		t.Errorf("master %q:%d, baseline %v", p.Params.MasterAddr, p.Params.MasterPort, p.Params.ScalingBaseline)
	}
	var idle []string
	for _, w := range p.Warnings {
		if strings.Contains(w.Msg, "has no effect") {
			idle = append(idle, w.Path)
		}
	}
	for _, want := range []string{"hca_id_prefix", "server_params.log_level", "server_params.server_node_list", "server_params.benchmark_serv_node", "benchmark_params.model_num_params"} {
		if !slices.Contains(idle, want) {
			t.Errorf("no warning that %s has no effect: %v", want, idle)
		}
	}
}

func BenchmarkLoadLargestShipped(b *testing.B) {
	m, o := filled(b, "testdata/shipped/mi3xx_atom_deepseek-r1_fp8_distributed.json", true)
	for b.Loop() {
		if _, err := load(m, o); err != nil {
			b.Fatal(err)
		}
	}
}
