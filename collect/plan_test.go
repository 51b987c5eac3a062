package collect

import (
	"path/filepath"
	"testing"

	"cvs/collect/plan"
)

// testPlan is a small plan for driver atom, as the loader leaves it.
func testPlan(t *testing.T) *plan.Plan {
	t.Helper()
	return &plan.Plan{
		Suite: "atom", Profile: "perf", Resolved: []byte(`{"framework": "atom"}`),
		Paths: plan.Paths{LogDir: "/logs"},
		Model: plan.Model{ID: "example-org/Demo-70B-FP8", Precision: "fp8"},
		Container: plan.Container{Lifetime: plan.PerRun, Name: "atom_demo", Image: "registry.example/atom:1.2.3",
			Runtime: plan.RuntimeArgs{Privileged: true, ShmSize: "128G", Volumes: []string{"/data/hf models:/models:ro"}}},
		Server: plan.Server{ATOMArgs: []string{"-tp", "8"}},
		Params: plan.Params{
			Driver: plan.DriverATOM, Backend: "vllm", BaseURL: "http://0.0.0.0", DatasetName: "random", TokenizerMode: "auto",
			Port: 8000, MasterPort: 29501, Burstiness: "1.0", RequestRate: "inf", RandomRangeRatio: "0",
			TP: 8, PP: 1, DP: 1, NNodes: 1, PercentileMetrics: "ttft,tpot,itl,e2el", MetricPercentiles: "90,95,99",
			NumPrompts: 1000, MaxModelLength: 4096, ReuseServer: true, ResultStem: "results",
			ClientPollCount: 50, ClientPollWait: 60, ClientInitialWait: 120,
			ServerPrecheckWait: 30, ServerWarmupWait: 330, ServerPollCount: 60, ServerPollWait: 60,
		},
		Cells: []plan.Cell{
			{Ordinal: 1, ID: "w1-conc64", Key: "ISL=1024,OSL=1024,TP=8,PP=1,CONC=64", Combo: "w1", ISL: 1024, OSL: 1024, Concurrency: 64},
			{Ordinal: 2, ID: "w1-conc128", Key: "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128", Combo: "w1", ISL: 1024, OSL: 1024, Concurrency: 128},
		},
		Cluster: plan.Cluster{Username: "benchuser", Nodes: []plan.Node{{Addr: "192.0.2.11"}}},
	}
}

// testdata is a path below testdata, absolute because tests change nothing but
// run programs elsewhere.
func testdata(t *testing.T, elem ...string) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join(append([]string{"testdata"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
