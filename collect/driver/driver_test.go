package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cvs/collect/plan"
)

// base is a plan as the loader leaves it: defaults filled in.
func base(d plan.Driver, nodes int) *plan.Plan {
	p := &plan.Plan{
		Paths: plan.Paths{ModelsDir: "/models", LogDir: "/logs"},
		Model: plan.Model{ID: "example-org/Demo-70B-FP8", Precision: "fp8"},
		Server: plan.Server{
			Env: []plan.EnvVar{
				{Name: "ATOM_DISABLE_MMAP", Value: "true"},
				{Name: "NCCL_SOCKET_IFNAME", Value: "never0"},
				{Name: "HF_HUB_CACHE", Value: "/elsewhere"},
			},
			ATOMArgs: []string{"-tp", "8", "--kv_cache_dtype", "fp8", "--nnodes", "2", "--node-rank=1",
				"--master-addr", "192.0.2.9", "--distributed-executor-backend", "mp"},
			SGLangArgs: []string{"--context-length", "8192", "two words"},
			ServeArgs: []plan.ServeArg{
				{Flag: "block-size", Values: []string{"32"}},
				{Flag: "no-enable-prefix-caching", Off: true},
				{Flag: "trust-remote-code"},
				{Flag: "middleware", Values: []string{"a", "b c"}},
			},
			GPUMemoryUtil: "0.9",
		},
		Params: plan.Params{
			Driver: d, Backend: "vllm", BaseURL: "http://0.0.0.0", DatasetName: "random", TokenizerMode: "auto",
			Port: 8000, MasterPort: 29501, Burstiness: "1.0", RequestRate: "inf", RandomRangeRatio: "0.8",
			TP: 8, PP: 1, DP: 1, NNodes: nodes, PercentileMetrics: "ttft,tpot,itl,e2el", MetricPercentiles: "90,95,99",
			NumPrompts: 1000, MaxModelLength: 8192, ResultStem: "results",
			BenchExtraArgs: []string{"--use-chat-template"},
		},
		Cells: []plan.Cell{{Ordinal: 1, ID: "w1-conc128", Combo: "w1", ISL: 1024, OSL: 512, Concurrency: 128}},
	}
	if nodes > 1 && d != plan.DriverATOM {
		p.Params.PP = 2
	}
	return p
}

// TestCommands is the contract of every driver on one and two nodes: every
// token and every variable of every rank and of the client.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		for _, nodes := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s_%d", name, nodes), func(t *testing.T) {
				t.Parallel()
				d, err := For(plan.Driver(name))
				if err != nil {
					t.Fatal(err)
				}
				p := base(d.Name(), nodes)
				var b strings.Builder
				for i := range nodes {
					r := Rank{Index: i}
					if nodes > 1 {
						r.MasterAddr, r.Netdev, r.HCAs = "192.0.2.11", "ens1f0", []string{"mlx5_0", "mlx5_2"}
					}
					s, err := d.Server(p, r)
					if err != nil {
						t.Fatal(err)
					}
					show(&b, fmt.Sprintf("server rank %d", i), s)
				}
				show(&b, "client", d.Client(p, p.Cells[0], Dir(p, "run-1", 0, p.Cells[0], 1)))
				fmt.Fprintf(&b, "artefact %s (%s)\nlog %s\n", d.Artefact(p), d.Format(), d.ServerLog())
				for _, n := range d.Notes(p) {
					fmt.Fprintf(&b, "note %s\n", n)
				}
				golden(t, fmt.Sprintf("%s_%d.txt", name, nodes), b.String())
			})
		}
	}
}

func show(b *strings.Builder, title string, p Process) {
	fmt.Fprintf(b, "%s\n", title)
	for _, e := range p.Env {
		fmt.Fprintf(b, "  env %s=%q\n", e.Name, e.Value)
	}
	for _, e := range p.PrependPath {
		fmt.Fprintf(b, "  prepend %s=%q\n", e.Name, e.Value)
	}
	for _, a := range p.Args {
		fmt.Fprintf(b, "  arg %q\n", a)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got, UPDATE=1 refreshes):\n%s", file, diff)
	}
}

func TestATOMArgs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		nodes      int
		args, want []string // want: the tokens after --server-port 8000
	}{
		{"length appended", 1, []string{"-tp", "8"}, []string{"-tp", "8", "--max-model-len", "8192"}},
		{"length given", 1, []string{"--max-model-len", "512"}, []string{"--max-model-len", "512"}},
		{"length given with =", 1, []string{"--max_model_len=512"}, []string{"--max_model_len=512"}},
		{"short spelling", 1, []string{"-m", "512"}, []string{"-m", "512"}},
		{"a value is no flag", 1, []string{"--tag", "max-model-len"}, []string{"--tag", "max-model-len", "--max-model-len", "8192"}},
		{"vllm flags go with their values", 1,
			[]string{"--nnodes", "2", "-tp", "8", "--pipeline_parallel_size=2", "--master-port", "1"},
			[]string{"-tp", "8", "--max-model-len", "8192"}},
		{"stripped flag at the end", 1, []string{"-tp", "8", "--node-rank"}, []string{"-tp", "8", "--max-model-len", "8192"}},
		{"own -dp stays", 2, []string{"-dp", "4"}, []string{"-dp", "4", "--max-model-len", "8192"}},
		{"own long -dp stays", 2, []string{"--data-parallel-size=4"}, []string{"--data-parallel-size=4", "--max-model-len", "8192"}},
		{"-dp added over nodes", 2, nil, []string{"--max-model-len", "8192", "-dp", "2"}},
		{"tokens are not touched", 1, []string{"$(x)", "", "a\nb", "--compilation-config", `{"level":3}`},
			[]string{"$(x)", "", "a\nb", "--compilation-config", `{"level":3}`, "--max-model-len", "8192"}},
	}
	for _, tt := range tests {
		p := base(plan.DriverATOM, tt.nodes)
		p.Server.ATOMArgs = tt.args
		got, err := atom{}.Server(p, Rank{MasterAddr: "192.0.2.11"})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if i := slices.Index(got.Args, "8000"); !slices.Equal(got.Args[i+1:], tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got.Args[i+1:], tt.want)
		}
		dp := slices.ContainsFunc(got.Env, func(e plan.EnvVar) bool { return strings.HasPrefix(e.Name, "ATOM_DP_") })
		if want := slices.Contains(got.Args, "-dp") && tt.args == nil; dp != want {
			t.Errorf("%s: ATOM_DP_* set: %v, want %v", tt.name, dp, want)
		}
	}
	p := base(plan.DriverATOM, 2)
	p.Params.TP = 16
	if _, err := (atom{}).Server(p, Rank{}); err == nil {
		t.Error("tp 16 over two nodes: no error")
	}
}

func TestServeArgs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		s    plan.Server
		want string
	}{
		{"defaults", plan.Server{}, "--block-size 64 --no-enable-prefix-caching"},
		{"underscores override", plan.Server{ServeArgs: []plan.ServeArg{{Flag: "block_size", Values: []string{"16"}}}},
			"--block_size 16 --no-enable-prefix-caching"},
		{"memory from the environment", plan.Server{GPUMemoryUtil: "0.8"},
			"--block-size 64 --no-enable-prefix-caching --gpu-memory-utilization 0.8"},
		{"own memory wins", plan.Server{GPUMemoryUtil: "0.8", ServeArgs: []plan.ServeArg{{Flag: "gpu-memory-utilization", Values: []string{"0.7"}}}},
			"--block-size 64 --no-enable-prefix-caching --gpu-memory-utilization 0.7"},
	}
	for _, tt := range tests {
		if got := strings.Join(serveArgs(tt.s), " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestVLLMTqdmOnce(t *testing.T) {
	t.Parallel()
	p := base(plan.DriverVLLM, 1)
	p.Params.BenchExtraArgs = []string{"--disable_tqdm"}
	n := 0
	for _, a := range (vllm{}).Client(p, p.Cells[0], "/d").Args {
		if spelling(a) == "--disable-tqdm" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("--disable-tqdm %d times, want once", n)
	}
}

func TestSessionKey(t *testing.T) {
	t.Parallel()
	key := func(image string, f func(*plan.Plan)) string {
		p := base(plan.DriverATOM, 1)
		f(p)
		s, err := atom{}.Server(p, Rank{})
		if err != nil {
			t.Fatal(err)
		}
		k, err := SessionKey(image, s)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := key("img:1", func(*plan.Plan) {})
	if got := key("img:1", func(p *plan.Plan) { p.Params.NumPrompts = 7 }); got != same {
		t.Error("the client's settings change the server's key")
	}
	for name, other := range map[string]string{
		"image":  key("img:2", func(*plan.Plan) {}),
		"args":   key("img:1", func(p *plan.Plan) { p.Server.ATOMArgs = []string{"-tp", "4"} }),
		"length": key("img:1", func(p *plan.Plan) { p.Params.MaxModelLength = 1 }),
		"env":    key("img:1", func(p *plan.Plan) { p.Server.Env = nil }),
	} {
		if other == same {
			t.Errorf("another %s gives the same key", name)
		}
	}
}

func TestMatchLengths(t *testing.T) {
	t.Parallel()
	tests := []struct {
		driver  plan.Driver
		ratio   string
		matched bool
		args    string // lengths and ratio given to the client
		in, out Span
	}{
		{plan.DriverATOM, "0.8", false, "1024 512 0.8", Span{819, 1024}, Span{409, 512}},
		{plan.DriverATOM, "0.8", true, "1024 512 0.8", Span{819, 1024}, Span{409, 512}},
		{plan.DriverSGLang, "0.8", true, "1024 512 0.8", Span{819, 1024}, Span{409, 512}},
		{plan.DriverVLLM, "0.8", false, "1024 512 0.8", Span{204, 1844}, Span{102, 922}},
		{plan.DriverVLLM, "0.8", true, "922 461 0.1111", Span{819, 1025}, Span{409, 513}},
		{plan.DriverVLLMATOM, "0.8", true, "922 461 0.1111", Span{819, 1025}, Span{409, 513}},
		{plan.DriverVLLMATOM, "1", true, "1024 512 0", Span{1024, 1024}, Span{512, 512}},
		{plan.DriverVLLMATOM, "0", true, "512 256 0.9999", Span{0, 1024}, Span{0, 512}},
	}
	for _, tt := range tests {
		d, err := For(tt.driver)
		if err != nil {
			t.Fatal(err)
		}
		p := base(tt.driver, 1)
		p.Params.RandomRangeRatio, p.Params.MatchLengths = tt.ratio, tt.matched
		argv := d.Client(p, p.Cells[0], "/d").Args
		var got []string
		for _, f := range []string{"--random-input-len", "--random-output-len", "--random-range-ratio"} {
			v, _ := flagValue(argv, f)
			got = append(got, v)
		}
		in, out := d.Lengths(p, p.Cells[0])
		if strings.Join(got, " ") != tt.args || in != tt.in || out != tt.out {
			t.Errorf("%s %s %v: %q %v %v", tt.driver, tt.ratio, tt.matched, got, in, out)
		}
	}
}

func TestServedModel(t *testing.T) {
	t.Parallel()
	p := base(plan.DriverATOM, 1)
	if got := ServedModel(p, []string{"--served-model-name", "short"}); got != "short" {
		t.Errorf("got %q", got)
	}
	if got := ServedModel(p, []string{"-tp", "8"}); got != p.Model.ID {
		t.Errorf("got %q", got)
	}
}

func TestUnknownDriver(t *testing.T) {
	t.Parallel()
	if _, err := For("tgi"); err == nil || !strings.Contains(err.Error(), "atom, sglang, vllm, vllm_atom") {
		t.Errorf("got %v", err)
	}
}
