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
	"time"

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
	// demoRatio is ATOM's lower end of lengths, and demoSpread vLLM's way to say
	// nearly the same: the mean lengths differ by 2.6 %, and more than 5 % would
	// not be compared.
	demoRatio  = 0.95
	demoSpread = 0.05
	demoStem   = "labsim_%s_sim-8b_fp8_single"
)

type demoCombo struct {
	Name     string
	ISL, OSL int
}

var (
	demoCombos        = []demoCombo{{"chat_256_64", 256, 64}, {"summary_1k_32", 1024, 32}}
	demoConcurrencies = []int{4, 16, 64}
)

// DemoRegression makes one cell of the demo slow, the last one, because only its
// requests fill so much of the cache.
var DemoRegression = Faults{SlowTokens: 30000, Slowdown: 2}

// A Demo says which config DemoConfig writes.
type Demo struct {
	// Port the server listens on; 0 takes a free one of the first node.
	Port int
	// Driver is atom or vllm_atom; empty is atom.
	Driver string
	// MinConcurrency leaves out the cells below it, which take longest.
	MinConcurrency int
	// AllPass leaves the floor of the last cell as low as all others, so that not
	// even DemoRegression misses it.
	AllPass bool
	// Details has the clients keep every request's times.
	Details bool
	// Slack is how late the machine may make a token on average, beside what the
	// engine model says; the bounds on latencies allow for it. 0 is QuietMachine.
	Slack time.Duration
}

// How late a machine may make a token on average: one that has little else to do,
// and one whose processors are shared with anything, so that no bound on a latency
// depends on what else runs. Such bounds say nothing about the machine; what the
// model says is still three times away from them.
const (
	QuietMachine = 50 * time.Millisecond
	BusyMachine  = 2 * time.Second
)

// DemoConfig writes a native single-node config and its threshold file into the
// lab's folder and returns the config's path. The sweep has two shapes at three
// concurrencies; every gated metric of every cell has a bound, calibrated on the
// engine model with headroom for a slow and busy machine. Only the last cell's
// throughput floor is close to what a healthy node delivers, unless AllPass.
func (l *Lab) DemoConfig(d Demo) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("writing the demo's config: %w", err) }
	switch isolated, _ := l.Isolated(); {
	case d.Port == 0 && isolated:
		d.Port = 8000 // the node's own
	case d.Port == 0:
		var err error
		if d.Port, err = FreePort(l.nodes[0].info.IP); err != nil {
			return fail(err)
		}
	}
	if d.Driver == "" {
		d.Driver = "atom"
	}
	if d.Slack == 0 {
		d.Slack = QuietMachine
	}
	dir := filepath.Join(l.dir, "demo", d.Driver) // one threshold file beside a config
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	type run struct {
		Combo       string
		Concurrency int
	}
	stem := fmt.Sprintf(demoStem, d.Driver)
	values := struct {
		Threshold, Shared, Models, Model, Image, Driver string
		TP, Port, Prompts                               int
		Ratio                                           string
		Combos                                          []demoCombo
		Runs                                            []run
		Details                                         bool
	}{stem + "_threshold.json", l.sharedDir(), l.modelsDir(), DemoModel, DemoImage, d.Driver, demoTP, d.Port, demoPrompts, fmt.Sprint(demoRatio), demoCombos, nil, d.Details}
	if d.Driver != "atom" {
		values.Ratio = fmt.Sprint(demoSpread)
	}
	for _, c := range demoCombos {
		for _, n := range demoConcurrencies {
			if n >= d.MinConcurrency {
				values.Runs = append(values.Runs, run{c.Name, n})
			}
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
	if err := writeJSON(filepath.Join(dir, values.Threshold), l.demoThresholds(d)); err != nil {
		return fail(err)
	}
	path := filepath.Join(dir, stem+".json")
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

func (l *Lab) demoThresholds(d Demo) map[string]map[string]spec {
	out := map[string]map[string]spec{}
	var last string
	var floor float64
	for _, combo := range demoCombos {
		for _, c := range demoConcurrencies {
			if c < d.MinConcurrency {
				continue
			}
			want := l.predictDemo(combo, c, Faults{})
			cell := map[string]spec{}
			for _, name := range metric.Gated() {
				cell[name] = bound(name, want[name], d.Slack)
			}
			last, floor = fmt.Sprintf("ISL=%d,OSL=%d,TP=%d,PP=1,CONC=%d", combo.ISL, combo.OSL, demoTP, c), want["output_throughput"]
			out[last] = cell
		}
	}
	if !d.AllPass {
		out[last]["output_throughput"] = spec{"min_tok_s", round3(floor * 0.7)}
	}
	return out
}

// predictDemo says what a cell of the demo would measure on a machine that costs
// no time itself.
func (l *Lab) predictDemo(combo demoCombo, concurrency int, f Faults) map[string]float64 {
	server := serverSpec{tp: demoTP, dp: 1, maxSeqs: 512, maxBatched: 16384, memory: 0.9}
	s := server.scheduler(nodeInfo{Seed: l.opts.Seed, Speed: l.opts.Speed})
	s.slowTokens, s.slowdown = f.SlowTokens, f.Slowdown
	return predict(s, cellShape{combo.ISL, combo.OSL, concurrency, demoPrompts, demoRatio}, demoTP, 0)
}

// bound leaves headroom for what the model does not know: the machine. A busy
// two-core machine triples times and adds scheduling delays, most of all to the
// tails; a quarter of the throughput is what it still delivers.
func bound(name string, predicted float64, late time.Duration) spec {
	switch name {
	case "success_rate":
		return spec{"min", 1}
	case "failed":
		return spec{"max", 0}
	}
	if d, ok := metric.Lookup(name); ok && d.Tier == metric.Throughput {
		return spec{"min_tok_s", round3(predicted / 4)}
	}
	slack := late.Seconds() * 1000 // ms
	switch {
	case strings.HasPrefix(name, "p99"):
		slack *= 6
	case strings.HasPrefix(name, "p9"):
		slack *= 3
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
