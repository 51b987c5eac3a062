package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cvs/collect/metric"
	"cvs/collect/strictjson"
)

func readThresholds(t *testing.T, config string) map[string]map[string]spec {
	t.Helper()
	data, err := os.ReadFile(strings.TrimSuffix(config, ".json") + "_threshold.json")
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]map[string]spec
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// actual is the value of a gated metric, as the decisions define it.
func actual(t *testing.T, v *strictjson.Value, name string) float64 {
	t.Helper()
	switch name {
	case "failed":
		return number(t, v, "num_prompts") - number(t, v, "completed")
	case "success_rate":
		return number(t, v, "completed") / number(t, v, "num_prompts")
	case "per_gpu_throughput":
		return number(t, v, "total_token_throughput") / demoTP
	case "output_tput_per_gpu":
		return number(t, v, "output_throughput") / demoTP
	}
	return number(t, v, name)
}

// TestDemoRegression foretells the demo: the fault makes one cell slow and no
// other, by enough to miss a floor that a healthy node holds.
func TestDemoRegression(t *testing.T) {
	t.Parallel()
	l := &Lab{opts: Options{Seed: 1, Speed: 1}}
	for i, combo := range demoCombos {
		for j, c := range demoConcurrencies {
			healthy, slow := l.predictDemo(combo, c, Faults{})["output_throughput"], l.predictDemo(combo, c, DemoRegression)["output_throughput"]
			ratio := slow / healthy
			if last := i == len(demoCombos)-1 && j == len(demoConcurrencies)-1; last && !(ratio < 0.65) || !last && ratio != 1 {
				t.Errorf("%s at %d: %.2f of a healthy node's throughput", combo.Name, c, ratio)
			}
		}
	}
}

// TestDemoSweep carries the demo's sweep out by hand: all bounds hold but the
// one that is meant to fail.
func TestDemoSweep(t *testing.T) { // not parallel: it measures
	l := startLab(t, Options{Faults: DemoRegression})
	path, err := l.DemoConfig(Demo{Slack: BusyMachine})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := strictjson.Parse(data, strictjson.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	params := config.Get("params")
	var port, prompts int
	if _, err := fmt.Sscan(params.Get("port_no").Text+" "+params.Get("num_prompts").Text, &port, &prompts); err != nil {
		t.Fatal(err)
	}
	specs := readThresholds(t, path)
	c := dial(t, l, 0)
	dir := filepath.Join(l.NodeDir(0), "tmp")
	for _, volume := range config.Get("container").Get("runtime").Get("args").Get("volumes").Items {
		mustRun(t, c, "test -d "+strings.Split(volume.Text, ":")[1]) // the same path on both sides
	}
	mustRun(t, c, "cd "+config.Get("paths").Get("models_dir").Text+"/models--lab--sim-8b/snapshots/* && test -s config.json && test -s model-00002-of-00002.safetensors")
	startServer(t, l, c, port, fmt.Sprintf(strings.Replace(serve, "org/m", DemoModel, 1), port))
	combos := map[string][2]int{}
	for _, s := range config.Get("sweep").Get("sequence_combinations").Items {
		var lengths [2]int
		if _, err := fmt.Sscan(s.Get("isl").Text+" "+s.Get("osl").Text, &lengths[0], &lengths[1]); err != nil {
			t.Fatal(err)
		}
		combos[s.Get("name").Text] = lengths
	}
	began, cells := time.Now(), 0
	var failures []string
	for _, r := range config.Get("sweep").Get("runs").Items {
		cells++
		shape, n := combos[r.Get("combo").Text], int(must(r.Get("concurrency").Float()))
		command := fmt.Sprintf(strings.Replace(drive, "org/m", DemoModel, 1), port, shape[0], shape[1], n, prompts, 2*n, dir, n)
		start := time.Now()
		mustRun(t, c, command)
		v, _ := parseResult(t, fmt.Sprintf("%s/c%d.json", dir, n))
		key := fmt.Sprintf("ISL=%d,OSL=%d,TP=8,PP=1,CONC=%d", shape[0], shape[1], n)
		if len(specs[key]) != len(metric.Gated()) {
			t.Fatalf("%s has %d specs", key, len(specs[key]))
		}
		closest, tightest := 0.0, ""
		for _, name := range metric.Gated() {
			s, got := specs[key][name], actual(t, v, name)
			use := got / s.Value
			ok := got <= s.Value
			if strings.HasPrefix(s.Kind, "min") {
				ok, use = got >= s.Value, s.Value/got
			}
			if !ok {
				failures = append(failures, fmt.Sprintf("%s %s = %g, bound %g", key, name, got, s.Value))
			} else if s.Kind != "max" && s.Kind != "min" && use > closest {
				closest, tightest = use, fmt.Sprintf("%s %g of %g", name, got, s.Value)
			}
		}
		t.Logf("%s: %.1fs; %.0f tok/s, TTFT %.1f ms; tightest %s", key, time.Since(start).Seconds(), actual(t, v, "output_throughput"), actual(t, v, "median_ttft_ms"), tightest)
	}
	t.Logf("sweep: %.1f s", time.Since(began).Seconds())
	if cells != 6 || len(failures) != 1 || !strings.Contains(failures[0], "ISL=1024,OSL=32,TP=8,PP=1,CONC=64 output_throughput") {
		t.Errorf("%d cells, failures:\n%s", cells, strings.Join(failures, "\n"))
	}
	// With AllPass the high floor is gone and nothing else differs.
	if path, err = l.DemoConfig(Demo{Port: port, AllPass: true, Slack: BusyMachine}); err != nil {
		t.Fatal(err)
	}
	differ := 0
	for cell, row := range readThresholds(t, path) {
		for name, s := range row {
			if s != specs[cell][name] {
				differ++
			}
		}
	}
	if differ != 1 {
		t.Errorf("%d specs differ between the demo's two threshold files", differ)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
