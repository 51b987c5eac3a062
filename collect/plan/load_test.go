package plan

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTwelve reads one file with twelve different mistakes from disk: twelve
// messages, each with its place and a remedy, in one go.
func TestTwelve(t *testing.T) {
	t.Parallel()
	dir := "testdata/twelve/"
	_, err := Load(Options{ConfigFile: dir + configName, ClusterFile: dir + clusterName, OSUser: "me"})
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	got := e.Error() + "\n"
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(dir+"messages.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(dir + "messages.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if len(e.Problems) != 12 {
		t.Errorf("%d messages, want 12", len(e.Problems))
	}
	for _, p := range e.Problems {
		if p.Warning || p.Line == 0 || p.Column == 0 || p.Path == "" {
			t.Errorf("no error with a place: %+v", p)
		}
	}
}

// A change is one edit of the base files.
type change [3]string

// twoNodes makes the base files a two-node run of vllm_atom.
func twoNodes() []change {
	return []change{
		{"config", `"driver": "atom"`, `"driver": "vllm_atom"`},
		{"config", `"pipeline_parallel_size": "1"`, `"pipeline_parallel_size": "2"`},
		{"config", `"nnodes": "1"`, `"nnodes": "2"`},
		{"config", `"atom_args": ["-tp", "8", "--kv_cache_dtype", "fp8"]`, `"serve_args": {"kv-cache-dtype": "fp8"}`},
		{"threshold", "PP=1,CONC", "PP=2,CONC"},
		{"threshold", `"value": 375}`, `"value": 187}`},
		{"threshold", `"value": 187.5}`, `"value": 93}`},
		{"cluster", `"192.0.2.11": {"bmc_ip": "NA", "vpc_ip": "192.0.2.11"}`, `"192.0.2.12": {"vpc_ip": "10.0.0.12"}, "192.0.2.11": {"vpc_ip": "10.0.0.11"}`},
	}
}

func loadChanged(t *testing.T, o Options, changes ...change) (*Plan, error) {
	t.Helper()
	m := base(t)
	for _, c := range changes {
		m.edit(t, c[0], c[1], c[2])
	}
	return load(m, o)
}

// TestGood changes the base files in ways that must load, and checks what
// becomes of it. warn is a part of the one warning that must be there, "" for
// no warning at all.
func TestGood(t *testing.T) {
	t.Parallel()
	params := func(s string) change { return change{"config", `"nnodes": "1"`, `"nnodes": "1", ` + s} }
	server := func(s string) change {
		return change{"config", `"env": {"ATOM_DISABLE_MMAP": "true"}`, s}
	}
	cases := []struct {
		name    string
		changes []change
		options func(*Options)
		warn    string
		check   func(*Plan) any
		want    any
	}{
		{name: "base", check: func(p *Plan) any { return p.Cells }, want: []Cell{{1, "w1_1k_1k-conc128", "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", "w1_1k_1k", 1024, 1024, 128}}},
		{name: "integers instead of texts", changes: []change{{"config", `"tensor_parallelism": "8"`, `"tensor_parallelism": 8`}, {"config", `"isl": "1024"`, `"isl": 1024`}, {"config", `"concurrency": 128`, `"concurrency": "128"`}},
			check: func(p *Plan) any { return p.Cells[0].Key }, want: "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128"},
		{name: "byte order mark and CRLF", changes: []change{{"config", "{\n", "\ufeff{\r\n"}, {"threshold", "{\n", "\ufeff{\r\n"}, {"cluster", "{\n", "\ufeff{\r\n"}}, check: func(p *Plan) any { return len(p.Cells) }, want: 1},
		{name: "comments at every level", changes: []change{{"config", `"port_no"`, `"_c": {"x": "<changeme>"}, "port_no"`}, {"config", `"name": "docker"`, `"_c": 1, "name": "docker"`}, {"config", `{"combo"`, `{"_c": "{nope}", "combo"`}, {"threshold", `"accuracy": {`, `"_c": {}, "accuracy": {"_c": 1,`}, {"threshold", `{"kind"`, `{"_c": 1, "kind"`}, {"cluster", `{"bmc_ip"`, `{"_c": 1, "bmc_ip"`}}, check: func(p *Plan) any { return len(p.Thresholds) }, want: 26},
		{name: "underscore is data in env", changes: []change{server(`"env": {"_X": "1"}`)}, check: func(p *Plan) any { return p.Server.Env }, want: []EnvVar{{"_X", "1"}}},
		{name: "schema_version left out", changes: []change{{"config", `"schema_version": 1,`, ``}}, check: func(p *Plan) any { return p.Profile }, want: "perf"},
		{name: "flag perf on a flat file", options: func(o *Options) { o.Profile = "perf" }, check: func(p *Plan) any { return p.Profile }, want: "perf"},
		{name: "environment on a flat file", options: func(o *Options) { o.EnvProfile = "mtp3" }, warn: "CVS_CONFIG_PROFILE", check: func(p *Plan) any { return p.Profile }, want: "perf"},
		{name: "profile replaces whole keys and inherits the rest", changes: []change{{"config", `"schema_version": 1`, `"profiles": {"perf": {}, "fast": {"functional": {"api_smoke": true}, "enforce_thresholds": false}}`}}, options: func(o *Options) { o.Profile, o.EnvProfile = " fast ", "perf" },
			check: func(p *Plan) any {
				return []any{p.Profile, p.Functional, p.Enforce, p.EnforceOrigin, p.Params.TP}
			}, want: []any{"fast", Functional{APISmoke: true}, false, "profile fast line 3", 8}},
		{name: "environment chooses before the default", changes: []change{{"config", `"schema_version": 1`, `"default_profile": "a", "profiles": {"a": {}, "b": {}}`}}, options: func(o *Options) { o.EnvProfile = "b" }, check: func(p *Plan) any { return p.Profile }, want: "b"},
		{name: "profile-local paths resolve", changes: []change{{"config", `"schema_version": 1`, `"profiles": {"perf": {"paths": {"shared_fs": "/p/{user-id}", "models_dir": "/m", "log_dir": "{shared_fs}/l", "hf_token_file": "{paths.log_dir}/tok"}}}`}},
			check: func(p *Plan) any { return p.Paths }, want: Paths{SharedFS: "/p/benchuser", ModelsDir: "/m", LogDir: "/p/benchuser/l", HFTokenFile: "/p/benchuser/l/tok"}},
		{name: "placeholders in other blocks", changes: []change{{"config", `/data/hf:/models:ro`, `{paths.log_dir}:/logs`}}, check: func(p *Plan) any { return p.Container.Runtime.Volumes[1] }, want: "/home/benchuser/LOGS:/logs"},
		{name: "braces that are no placeholders", changes: []change{{"config", `"--kv_cache_dtype", "fp8"`, `"--compilation-config", "{\"level\":3}", "--tag", "{run}"`}, server(`"env": {"CACHE": "${HOME}/cache", "FMT": "{0}-{1}"}`)},
			check: func(p *Plan) any {
				return append(slices.Clone(p.Server.ATOMArgs[2:]), p.Server.Env[0].Value, p.Server.Env[1].Value)
			},
			want: []string{"--compilation-config", `{"level":3}`, "--tag", "{run}", "${HOME}/cache", "{0}-{1}"}},
		{name: "user falls back to the launcher's", changes: []change{{"cluster", `"username": "benchuser"`, `"username": "{user-id}"`}}, warn: "does not name a user", check: func(p *Plan) any { return []string{p.Cluster.Username, p.Paths.LogDir, p.Cluster.PrivKeyFile} }, want: []string{"me", "/home/me/LOGS", "/home/me/.ssh/cluster_key"}},
		{name: "user null", changes: []change{{"cluster", `"username": "benchuser"`, `"username": null`}}, warn: "does not name a user", check: func(p *Plan) any { return p.Cluster.Username }, want: "me"},
		{name: "no cluster file", options: func(o *Options) { o.ClusterFile = "" }, warn: "no cluster file", check: func(p *Plan) any { return p.Paths.LogDir }, want: "/home/me/LOGS"},
		{name: "gpu_arch in the file wins", changes: []change{{"config", `"framework": "atom"`, `"gpu_arch": "mi300x"`}}, warn: "file name says mi325x", check: func(p *Plan) any { return p.GPUArch }, want: "mi300x"},
		{name: "threshold_json blank", changes: []change{{"config", `"mi325x_atom_demo_fp8_threshold.json"`, `"  "`}}, check: func(p *Plan) any { return p.Threshold.Path }, want: thresholdName},
		{name: "threshold_json null", changes: []change{{"config", `"mi325x_atom_demo_fp8_threshold.json"`, `null`}}, check: func(p *Plan) any { return p.Threshold.Path }, want: thresholdName},
		{name: "result_filename", changes: []change{params(`"result_filename": "my results.json"`)}, check: func(p *Plan) any { return p.Params.ResultStem }, want: "my results"},
		{name: "result_filename blank", changes: []change{params(`"result_filename": ""`)}, check: func(p *Plan) any { return p.Params.ResultStem }, want: "results"},
		{name: "bench_extra_args are split and nothing else", changes: []change{params(`"bench_extra_args": "--extra-body '{\"n\":8}' \"a b\" #x $HOME *"`)}, check: func(p *Plan) any { return p.Params.BenchExtraArgs }, want: []string{"--extra-body", `{"n":8}`, "a b", "#x", "$HOME", "*"}},
		{name: "model as a path with a blank", changes: []change{{"config", `example-org/Demo-70B-FP8`, `/models/Demo 70B`}}, check: func(p *Plan) any { return p.Model.ID }, want: "/models/Demo 70B"},
		{name: "managed variables are taken out", changes: []change{server(`"env": {"NCCL_SOCKET_IFNAME": "<changeme>", "LD_PRELOAD": "/x.so"}`)}, warn: "NCCL_SOCKET_IFNAME", check: func(p *Plan) any { return p.Server.Env }, want: []EnvVar{{"LD_PRELOAD", "/x.so"}}},
		{name: "memory knob", changes: []change{server(`"env": {"CVS_GPU_MEMORY_UTIL": "0.9"}`)}, check: func(p *Plan) any { return []any{p.Server.GPUMemoryUtil, len(p.Server.Env)} }, want: []any{"0.9", 0}},
		{name: "mxfp4 defaults", changes: []change{{"config", `"precision": "fp8"`, `"precision": "MXFP4"`}, server(`"env": {"ATOM_USE_TRITON_MOE": "True"}`)}, check: func(p *Plan) any { return p.Server.Env }, want: []EnvVar{{"ATOM_USE_TRITON_MOE", "1"}, {"ATOM_USE_TRITON_GEMM", "1"}}},
		{name: "mxfp4 keeps what is set", changes: []change{{"config", `"precision": "fp8"`, `"precision": "mxfp4"`}, server(`"env": {"ATOM_USE_TRITON_MOE": "0"}`)}, check: func(p *Plan) any { return p.Server.Env }, want: []EnvVar{{"ATOM_USE_TRITON_MOE", "0"}, {"ATOM_USE_TRITON_GEMM", "1"}}},
		{name: "mxfp4 on another GPU", changes: []change{{"config", `"precision": "fp8"`, `"precision": "mxfp4"`}, {"config", `"framework": "atom"`, `"gpu_arch": "mi355x"`}, server(`"env": {}`)}, warn: "file name says", check: func(p *Plan) any { return len(p.Server.Env) }, want: 0},
		{name: "data parallel size in the arguments", changes: []change{{"config", `"-tp", "8"`, `"-tp", "8", "-dp", "2"`}}, check: func(p *Plan) any { return []int{p.Params.DP, p.Params.GPUs()} }, want: []int{2, 16}},
		{name: "no tensor size in the arguments", changes: []change{{"config", `"-tp", "8", `, ``}}, warn: "has no -tp", check: func(p *Plan) any { return p.Params.DP }, want: 1},
		{name: "mtp implied by the arguments", changes: []change{{"config", `"-tp", "8"`, `"-tp", "8", "--method", "mtp"`}}, check: func(p *Plan) any { return p.MTP.Requested }, want: true},
		{name: "concurrency above the prompts", changes: []change{{"config", `"num_prompts": "1000"`, `"num_prompts": "100"`}}, warn: "cannot be reached", check: func(p *Plan) any { return p.Params.NumPrompts }, want: 100},
		{name: "cells longer than the model", changes: []change{{"config", `"max_model_length": "4096"`, `"max_model_length": 2000`}}, warn: "less than ISL + OSL", check: func(p *Plan) any { return len(p.Cells) }, want: 1},
		{name: "record only with gaps", changes: []change{{"config", `"enforce_thresholds": true`, `"enforce_thresholds": false`}, {"threshold", `    "p99_ttft_ms": {"kind": "max_ms", "value": 1000000},` + "\n", ""}}, warn: "p99_ttft_ms", check: func(p *Plan) any { return p.Coverage.MissingSpecs }, want: []string{"ISL=1024,OSL=1024,TP=8,PP=1,CONC=128: p99_ttft_ms"}},
		{name: "cells of other sweeps", changes: []change{{"threshold", `"accuracy": {`, `"ISL=1,OSL=1,TP=8,PP=1,CONC=1": {}, "accuracy": {`}}, warn: "not in this sweep", check: func(p *Plan) any { return p.Coverage.StaleCells }, want: []string{"ISL=1,OSL=1,TP=8,PP=1,CONC=1"}},
		{name: "old metric names", changes: []change{{"threshold", `"output_throughput"`, `"client.output_throughput"`}}, warn: "deprecated (1 here)", check: func(p *Plan) any { return p.Thresholds[1].Metric }, want: "output_throughput"},
		{name: "bounds as texts", changes: []change{{"threshold", `"value": 1500}`, `"value": "1500"}`}}, warn: "taken as numbers", check: func(p *Plan) any { return *p.Thresholds[1].Value }, want: 1500.0},
		{name: "other blocks of thresholds", changes: []change{{"threshold", `"accuracy": {`, `"mtp_quality": {}, "long_context_accuracy": {}, "accuracy": {`}}, check: func(p *Plan) any { return p.Coverage.UngatedTasks == nil }, want: true},
		{name: "task without gates", changes: []change{{"threshold", `{"gsm8k.exact_match__flexible-extract": {"kind": "min", "value": 0.9}}`, `{}`}}, check: func(p *Plan) any { return p.Coverage.UngatedTasks }, want: []string{"accuracy: gsm8k"}},
		{name: "a ratio to a metric that is not known", changes: []change{{"threshold", `"kind": "min_tok_s", "value": 1500`, `"kind": "min_ratio", "value": 0.4, "reference": "peak"`}}, warn: "not a metric", check: func(p *Plan) any { return p.Thresholds[1].Reference }, want: "peak"},
		{name: "thresholds with profiles and a flat config", changes: []change{{"threshold", "{\n  \"ISL", "{\"profiles\": {\"perf\": {\n  \"ISL"}, {"threshold", "\n  }\n}\n", "\n  }\n}}}\n"}}, check: func(p *Plan) any { return p.Thresholds[0].Pointer }, want: "/profiles/perf/ISL=1024,OSL=1024,TP=8,PP=1,CONC=128/total_token_throughput"},
		{name: "catalogue", changes: []change{{"config", `"sweep": {`, `"runs": [], "sweeps": {"ISL=1024,OSL=1024,TP=8,PP=1,CONC=128": {}}, "_sweep": {`}}, check: func(p *Plan) any { return p.Cells[0].ID }, want: "isl1024_osl1024-conc128"},
		{name: "two nodes, head by mgmt_ip", changes: twoNodes(), check: func(p *Plan) any { return p.Cluster.Nodes }, want: []Node{{"192.0.2.11", "10.0.0.11"}, {"192.0.2.12", "10.0.0.12"}}},
		{name: "master_addr is the head's inner address", changes: append(twoNodes(), change{"config", `"nnodes": "2"`, `"nnodes": "2", "master_addr": "10.0.0.11"`}), check: func(p *Plan) any { return p.Params.MasterAddr }, want: "10.0.0.11"},
		{name: "per-GPU bounds divided by TP", changes: append(twoNodes(), change{"threshold", `"value": 187}`, `"value": 375}`}), warn: "per-GPU bounds", check: func(p *Plan) any { return p.Params.GPUs() }, want: 16},
		{name: "scaling spec without baseline", changes: append(twoNodes(), change{"threshold", `    "success_rate"`, `    "scaling.efficiency_pct": {"kind": "min", "value": 50},` + "\n" + `    "success_rate"`}), warn: "can never be evaluated", check: func(p *Plan) any { return p.Params.ScalingBaseline == nil }, want: true},
		{name: "serve_args", changes: append(twoNodes(), change{"config", `{"kv-cache-dtype": "fp8"}`, `{"trust-remote-code": true, "enforce-eager": false, "block-size": 64, "lora": ["a", "b"], "_x": 1}`}), check: func(p *Plan) any { return p.Server.ServeArgs },
			want: []ServeArg{{Flag: "trust-remote-code"}, {Flag: "enforce-eager", Off: true}, {Flag: "block-size", Values: []string{"64"}}, {Flag: "lora", Values: []string{"a", "b"}}, {Flag: "_x", Values: []string{"1"}}}},
		{name: "container of the cluster file", changes: []change{{"cluster", `"env_vars": {}`, `"container": {"image": "other:1", "lifetime": "persistent", "image_tar": "/t.tar", "env": {"X": "1"}, "runtime": {"args": {"volumes": ["/a:/b"], "shm_size": "1G", "ipc": "private"}}}`}},
			check: func(p *Plan) any {
				c := p.Container
				return []any{c.Lifetime, c.Image, c.ImageTar, c.Env, len(c.Runtime.Volumes), c.Runtime.ShmSize, c.Runtime.IPC, c.Runtime.Privileged}
			}, want: []any{PerRun, "registry.example/atom:1.2.3", "/t.tar", []EnvVar{{"X", "1"}, {"ATOM_DISABLE_MMAP", "true"}}, 2, "128G", "private", true}},
		{name: "lifetime of the cluster file", changes: []change{{"config", `"lifetime": "per_run",`, ``}, {"cluster", `"env_vars": {}`, `"container": {"lifetime": "persistent"}`}}, check: func(p *Plan) any { return p.Container.Lifetime }, want: Persistent},
		{name: "foreign key of a cluster file", changes: []change{{"cluster", `"env_vars": {}`, `"site": {"rack": 4}`}}, warn: "it is ignored", check: func(p *Plan) any { return len(p.Cluster.Nodes) }, want: 1},
		{name: "host and port", changes: []change{{"cluster", `"192.0.2.11": {"bmc_ip"`, `"127.0.0.1:2201": {"bmc_ip"`}, {"cluster", `"mgmt_ip": "192.0.2.11"`, `"mgmt_ip": "127.0.0.1:2201"`}}, check: func(p *Plan) any { return p.Cluster.Nodes[0].Addr }, want: "127.0.0.1:2201"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options()
			if c.options != nil {
				c.options(&o)
			}
			p, err := loadChanged(t, o, c.changes...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.check(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			switch {
			case c.warn == "" && len(p.Warnings) > 0, c.warn != "" && len(p.Warnings) != 1:
				t.Errorf("warnings %v, want %q", p.Warnings, c.warn)
			case c.warn != "" && !strings.Contains(p.Warnings[0].String(), c.warn):
				t.Errorf("warning %v, want %q", p.Warnings[0], c.warn)
			}
		})
	}
}

// TestSecrets: nothing that is printed or stored carries a secret.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hf_abcdefghijklmnopqrstuvwxyz"
	p, err := loadChanged(t, options(),
		change{"config", `"ATOM_DISABLE_MMAP": "true"`, `"HF_TOKEN": "` + secret + `", "NOTE": "x ` + secret + `", "MY_API_KEY": "hunter2"`},
		change{"config", `"--kv_cache_dtype", "fp8"`, `"--api-key", "hunter2", "--hf-token=hunter2"`},
		change{"config", `"nnodes": "1"`, `"nnodes": "1", "bench_extra_args": "--api-key hunter2 --max-tokens 7"`},
		change{"cluster", `"env_vars": {}`, `"password": "hunter2"`})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal([]any{p.Origins, string(p.Resolved), p.Warnings})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{secret, "hunter2"} {
		if strings.Contains(string(shown), s) {
			t.Errorf("%q is shown in %s", s, shown)
		}
	}
	if !strings.Contains(string(p.Resolved), "--max-tokens 7") || !strings.Contains(string(p.Resolved), "/home/benchuser/.hf_token") {
		t.Error("more than secrets is hidden")
	}
	if p.Cluster.Password != "hunter2" || p.Server.ATOMArgs[3] != "hunter2" {
		t.Error("the plan itself lost a secret")
	}
}

// TestOrigins: where values come from, and the resolved config made of them.
func TestOrigins(t *testing.T) {
	t.Parallel()
	p, err := loadChanged(t, options(),
		change{"config", `"schema_version": 1`, `"profiles": {"perf": {"functional": {"api_smoke": true}}}`},
		change{"cluster", `"env_vars": {}`, `"container": {"runtime": {"args": {"ipc": "private"}}}`})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Origin{}
	for _, o := range p.Origins {
		got[o.Path] = o
	}
	for _, want := range []Origin{
		{"params.port_no", `"8000"`, "config line 36"},
		{"params.client_poll_count", `"50"`, "default"},
		{"functional.api_smoke", "true", "profile perf line 3"},
		{"functional.health_check", "false", "default"},
		{"container.runtime.args.ipc", `"private"`, "cluster line 6"},
		{"container.runtime.args.network", `"host"`, "config line 21"},
		{"gpu_arch", `"mi325x"`, "file name"},
		{"paths.log_dir", `"/home/benchuser/LOGS"`, "config line 10"},
		{"sweep.runs[0].concurrency", "128", "config line 51"},
	} {
		if got[want.Path] != want {
			t.Errorf("got %+v, want %+v", got[want.Path], want)
		}
	}
	var flat struct {
		Params struct {
			Port string `json:"port_no"`
		}
		Sweep struct{ Runs []struct{ Concurrency int } }
	}
	if err := json.Unmarshal(p.Resolved, &flat); err != nil || flat.Params.Port != "8000" || len(flat.Sweep.Runs) != 1 || flat.Sweep.Runs[0].Concurrency != 128 {
		t.Errorf("resolved %+v, %v:\n%s", flat, err, p.Resolved)
	}
}

func TestNotReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Load(Options{ConfigFile: filepath.Join(dir, "none.json"), ClusterFile: dir, OSUser: "me"})
	if err == nil || !strings.Contains(err.Error(), "none.json: the config file cannot be read: no such file") || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}

func TestCellKey(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "ISL=1024,OSL=2048,TP=8,CONC=32", "ISL=01,OSL=1,TP=8,PP=1,CONC=1", "ISL=1, OSL=1,TP=8,PP=1,CONC=1", "ISL=1,OSL=1,TP=8,PP=1,CONC=1\n", "ISL=1,OSL=1,TP=8,PP=1,NNODES=2,CONC=1", "ISL=0,OSL=1,TP=8,PP=1,CONC=1", "ISL=٣,OSL=1,TP=8,PP=1,CONC=1", "ISL=99999999999,OSL=1,TP=8,PP=1,CONC=1"} {
		if _, _, _, _, _, err := ParseCellKey(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	isl, osl, tp, pp, conc, err := ParseCellKey("ISL=1024,OSL=2048,TP=8,PP=2,CONC=32")
	if err != nil || CellKey(isl, osl, tp, pp, conc) != "ISL=1024,OSL=2048,TP=8,PP=2,CONC=32" {
		t.Errorf("got %d %d %d %d %d, %v", isl, osl, tp, pp, conc, err)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	valid := []string{"num_prompts", "nnodes", "port_no", "w1_1k_1k"}
	for name, want := range map[string]string{"num_promts": "num_prompts", "nnode": "nnodes", "PORT_NO": "port_no", "w1_1k_1K": "w1_1k_1k", "prot_no": "port_no", "xyz": "", "": ""} {
		if got := Nearest(name, valid); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
