package render

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cvs/warehouse"
)

// sized is a run of n cells of eight concurrencies, each with what a real run
// leaves: numbers with all their digits, gates, an artefact, an attempt and a
// stage. Every 97th cell fails a gate.
func sized(n int) *Data {
	random := rand.New(rand.NewPCG(1, 2))
	base := &Data{}
	addCell(base, "k", 1024, 16)
	start := time.Date(2026, 9, 24, 18, 2, 11, 0, time.UTC)
	d := &Data{Run: fixture().Run, Status: warehouse.RunStatusRow{Verdict: warehouse.Fail, ReasonText: "some cells fail"}}
	for i := range n {
		isl, conc := 1024+i/8, 1<<(i%8)
		k := fmt.Sprintf("ISL=%d,OSL=1024,TP=8,PP=1,CONC=%d", isl, conc)
		id := fmt.Sprintf("w%d-conc%d", i/8, conc)
		c := warehouse.CellStatusRow{Ordinal: i + 1, CellKey: k, CellID: id, Combo: fmt.Sprintf("w%d", i/8),
			ISL: isl, OSL: 1024, Concurrency: conc, Planned: true, State: warehouse.Pass, Pass: len(base.Gates), WorstMarginPct: ptr(3 * random.Float64()), WorstMetric: "p99_ttft_ms"}
		failing := -1
		if i%97 == 0 {
			c.State, c.Reason, failing = warehouse.Fail, "throughput: 1 of 4 specs fail", 3
			c.Pass, c.Fail = c.Pass-1, 1
		}
		d.Cells = append(d.Cells, c)
		value := map[string]*float64{}
		for _, m := range base.Metrics {
			m.CellKey, m.Host = k, "node-01"
			if m.Value != nil {
				v := *m.Value
				if v != float64(int(v)) {
					v *= 0.5 + random.Float64()
				}
				m.Value = &v
				value[m.Metric] = &v
			}
			d.Metrics = append(d.Metrics, m)
		}
		for j, g := range base.Gates {
			g.CellKey, g.CellID, g.Host, g.Line = k, id, "node-01", 30*i+j
			g.Got, g.GotText = value[g.Metric], ""
			if g.MarginPct != nil {
				g.MarginPct = ptr(20 * random.Float64())
			}
			if g.Wanted != nil && *g.Wanted > 2 {
				g.Wanted = ptr(float64(int(*g.Wanted * (0.5 + random.Float64()))))
			}
			if j == failing {
				g.State, g.Reason, g.MarginPct = warehouse.Fail, g.Metric+" is below its gate", ptr(-3.25)
			}
			d.Gates = append(d.Gates, g)
		}
		for _, t := range base.Tiers {
			t.CellKey = k
			d.Tiers = append(d.Tiers, t)
		}
		sum := make([]byte, 32)
		for j := range sum {
			sum[j] = byte(random.Uint32())
		}
		d.Artifacts = append(d.Artifacts, warehouse.ArtifactRow{CellKey: k, Path: fmt.Sprintf("cells/%04d-%s/1/results.json", i+1, id), Role: "cell", Format: "atom_benchmark_serving",
			SHA256: fmt.Sprintf("%x", sum), Bytes: 1800 + int64(random.IntN(200))})
		d.Attempts = append(d.Attempts, warehouse.AttemptRow{CellKey: k, Repeat: 1, Host: "node-01", Status: "done", ExitCode: ptr(0), ServerSession: 1, Warm: i > 0,
			ServerArgv: `["python3","-m","atom.entrypoints.openai_server","--model","/models/deepseek-ai/DeepSeek-R1","-tp","8"]`,
			ClientArgv: fmt.Sprintf(`["python3","-m","atom.benchmarks.benchmark_serving","--model","/models/deepseek-ai/DeepSeek-R1","--random-input-len","%d","--random-output-len","1024","--max-concurrency","%d","--num-prompts","%d","--save-result"]`, isl, conc, 10*conc)})
		from, to := start.Add(time.Duration(i)*7*time.Second), start.Add(time.Duration(i)*7*time.Second+time.Duration(random.IntN(7000))*time.Millisecond)
		d.Stages = append(d.Stages, warehouse.StageRow{Seq: i + 1, Stage: "cell", Host: "node-01", CellID: id, StartedAt: &from, EndedAt: &to, Status: "done"})
	}
	return d
}

// BenchmarkCalibration is a fixed piece of work, to tell how fast the machine is
// at the moment the other figures are taken.
func BenchmarkCalibration(b *testing.B) {
	s := strings.Repeat("ISL=1024,OSL=1024,TP=8,PP=1,CONC=64 ", 4096)
	for b.Loop() {
		if strings.Count(s, "CONC") != 4096 || len(strings.Fields(s)) != 4096 {
			b.Fatal("miscounted")
		}
	}
}

// BenchmarkDeck builds and prints decks of several sizes; bytes/deck is beyond
// the chart library.
func BenchmarkDeck(b *testing.B) {
	for _, n := range []int{14, 256, 1000, 5000} {
		d := sized(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var size counter
			b.ReportAllocs()
			for b.Loop() {
				size = 0
				if err := Write(io.MultiWriter(&size), Build(d, testOptions)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size)-715_020, "bytes/deck")
		})
	}
}

// A deck of a thousand cells is small enough to be sent and opened, and drops
// nothing.
func TestSize(t *testing.T) {
	t.Parallel()
	var size counter
	path := filepath.Join(t.TempDir(), "deck.html")
	deck := Build(sized(1000), testOptions)
	if err := WriteFile(path, deck); err != nil {
		t.Fatal(err)
	}
	if err := Write(&size, deck); err != nil {
		t.Fatal(err)
	}
	if beyond := int64(size) - 715_020; beyond > 1_500_000 {
		t.Errorf("a deck of 1,000 cells is %d bytes beyond the chart library, more than 1,500,000", beyond)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
