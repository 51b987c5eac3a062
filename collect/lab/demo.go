package lab

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"cvs/collect/metric"

	"github.com/google/renameio/v2"
)

// DemoImage and DemoModel are what the demo's config names; every node has both.
// ShippedImage is the one that the shipped configs name; every node has it too.
const (
	DemoImage    = "cvs-lab/atom:sim"
	DemoModel    = "lab/sim-8b"
	ShippedImage = "rocm/atom-dev:latest"
)

//go:embed demo_config.json.tmpl
var demoTemplate string

// The demo's sweep: small lengths, so that it is over in seconds, and enough
// requests for a p99 that is more than the greatest of a handful.
const (
	demoTP      = 8
	demoPrompts = 80
	demoRatio   = 0.8
	demoStem    = "labsim_atom_sim-8b_fp8_single"
)

type demoCombo struct {
	Name     string
	ISL, OSL int
}

var (
	demoCombos        = []demoCombo{{"chat_256_64", 256, 64}, {"summary_1k_32", 1024, 32}}
	demoConcurrencies = []int{4, 16, 64}
)

// DemoConfig writes a native single-node config for driver atom and its
// threshold file into the lab's folder and returns the config's path. The sweep
// has six cells, two shapes at three concurrencies; every gated metric of every
// cell has a bound, calibrated on the engine model with headroom for a slow and
// busy machine. One cell has a throughput floor that cannot be met, unless
// allPass. port 0 takes a free port of the first node.
func (l *Lab) DemoConfig(port int, allPass bool) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("writing the demo's config: %w", err) }
	switch isolated, _ := l.Isolated(); {
	case port == 0 && isolated:
		port = 8000 // the node's own
	case port == 0:
		var err error
		if port, err = FreePort(l.nodes[0].info.IP); err != nil {
			return fail(err)
		}
	}
	dir := filepath.Join(l.dir, "demo")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	type run struct {
		Combo       string
		Concurrency int
	}
	values := struct {
		Threshold, Shared, Models, Model, Image string
		TP, Port, Prompts                       int
		Ratio                                   string
		Combos                                  []demoCombo
		Runs                                    []run
	}{demoStem + "_threshold.json", l.sharedDir(), l.modelsDir(), DemoModel, DemoImage, demoTP, port, demoPrompts, fmt.Sprint(demoRatio), demoCombos, nil}
	for _, c := range demoCombos {
		for _, n := range demoConcurrencies {
			values.Runs = append(values.Runs, run{c.Name, n})
		}
	}
	t, err := template.New("").Funcs(template.FuncMap{"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	}}).Parse(demoTemplate)
	if err != nil {
		return fail(err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, values); err != nil {
		return fail(err)
	}
	if err := writeJSON(filepath.Join(dir, values.Threshold), l.demoThresholds(allPass)); err != nil {
		return fail(err)
	}
	path := filepath.Join(dir, demoStem+".json")
	if err := renameio.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return fail(err)
	}
	return path, nil
}

// FreePort finds a port nobody listens on at that address. Somebody may take it
// before it is used.
func FreePort(ip string) (int, error) {
	n, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer n.Close()
	return n.Addr().(*net.TCPAddr).Port, nil
}

// A spec is one threshold as the threshold file holds it.
type spec struct {
	Kind  string  `json:"kind"`
	Value float64 `json:"value"`
}

func (l *Lab) demoThresholds(allPass bool) map[string]map[string]spec {
	out := map[string]map[string]spec{}
	info := nodeInfo{Seed: l.opts.Seed, Speed: l.opts.Speed}
	var failing string
	for _, combo := range demoCombos {
		for _, c := range demoConcurrencies {
			server := serverSpec{tp: demoTP, dp: 1, maxSeqs: 512, maxBatched: 16384, memory: 0.9}
			want := predict(server.scheduler(info), cellShape{combo.ISL, combo.OSL, c, demoPrompts, demoRatio}, demoTP, 0)
			cell := map[string]spec{}
			for _, name := range metric.Gated() {
				cell[name] = bound(name, want[name])
			}
			failing = fmt.Sprintf("ISL=%d,OSL=%d,TP=%d,PP=1,CONC=%d", combo.ISL, combo.OSL, demoTP, c)
			out[failing] = cell
		}
	}
	if !allPass { // the last cell, whose floor no machine reaches
		floor := out[failing]["output_throughput"]
		floor.Value *= 100
		out[failing]["output_throughput"] = floor
	}
	return out
}

// bound leaves headroom for what the model does not know: the machine. A busy
// two-core machine triples times and adds scheduling delays, most of all to the
// tails; a quarter of the throughput is what it still delivers.
func bound(name string, predicted float64) spec {
	switch name {
	case "success_rate":
		return spec{"min", 1}
	case "failed":
		return spec{"max", 0}
	}
	if d, ok := metric.Lookup(name); ok && d.Tier == metric.Throughput {
		return spec{"min_tok_s", round3(predicted / 4)}
	}
	slack := 50.0 // ms
	switch {
	case strings.HasPrefix(name, "p99"):
		slack = 300
	case strings.HasPrefix(name, "p9"):
		slack = 150
	}
	if strings.Contains(name, "tpot") || strings.Contains(name, "itl") {
		slack /= 3
	}
	return spec{"max_ms", round3(3*predicted + slack)}
}

// round3 keeps three significant digits, as a person would write a bound.
func round3(f float64) float64 {
	if f == 0 {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(f))))
	return math.Round(f*scale) / scale
}
