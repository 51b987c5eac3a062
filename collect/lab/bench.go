package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// GPUName is what the lab's results give as gpu_name, so that nobody takes them
// for a measurement of hardware.
const GPUName = "lab-sim"

// A bench is one call of a benchmark client.
type bench struct {
	args       *arguments
	model      string
	tokenizer  string
	backend    string
	baseURL    string
	input      int
	output     int
	prompts    int
	warmups    int
	max        int // --max-concurrency, 0 if not given
	families   []string
	pcts       []float64
	goodput    map[string]float64 // ms by family, nil without --goodput
	rate       float64
	burstiness float64
	load       workload
	fault      ClientFault
	endsServer bool // has the server die at its end
	rng        *rand.Rand
}

// A summary is what a client makes of its measurements.
type summary struct {
	started     time.Time
	duration    float64 // s
	completed   int
	totalInput  int
	totalOutput int
	good        int
	outputLens  []int
	times       map[string][]float64 // s by family
	all         []measurement
}

func summarise(b *bench, all []measurement, started time.Time, d time.Duration) *summary {
	s := &summary{started: started, duration: d.Seconds(), times: map[string][]float64{}, all: all}
	for i, m := range all {
		if !m.ok {
			s.outputLens = append(s.outputLens, 0)
			continue
		}
		s.outputLens = append(s.outputLens, m.tokens)
		s.totalInput += b.load.requests[i].input
		s.totalOutput += m.tokens
		s.completed++
		tpot := 0.0
		if m.tokens > 1 {
			tpot = (m.latency - m.ttft) / float64(m.tokens-1)
			s.times["tpot"] = append(s.times["tpot"], tpot)
		}
		s.times["ttft"] = append(s.times["ttft"], m.ttft)
		s.times["itl"] = append(s.times["itl"], m.itl...)
		s.times["e2el"] = append(s.times["e2el"], m.latency)
		good := true
		for family, got := range map[string]float64{"ttft": m.ttft, "tpot": tpot, "e2el": m.latency} {
			if slo, ok := b.goodput[family]; ok && got*1000 > slo {
				good = false
			}
		}
		if good {
			s.good++
		}
	}
	return s
}

// family is one block of latency statistics.
type family struct{ key, label, header string }

var families = []family{
	{"ttft", "TTFT", "Time to First Token"}, {"tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
	{"itl", "ITL", "Inter-token Latency"}, {"e2el", "E2EL", "End-to-end Latency"},
}

// percentiles parses "95,99,99.9".
func percentiles(list string) ([]float64, error) {
	var out []float64
	for _, p := range strings.Split(list, ",") {
		f, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil {
			return nil, fmt.Errorf("ValueError: could not convert string to float: %s", pyRepr(p))
		}
		if !(f >= 0 && f <= 100) {
			return nil, errors.New("ValueError: Percentiles must be in the range [0, 100]")
		}
		out = append(out, f)
	}
	return out, nil
}

// word is the percentile in a key: no ".0", other fractions as they are.
func word(p float64) string {
	if p == math.Trunc(p) {
		return strconv.Itoa(int(p))
	}
	return pythonFloat(p)
}

// latencies are the statistics of the chosen families, in milliseconds. With
// print they are also written to the console, as the clients do.
func (b *bench) latencies(s *summary, print io.Writer) object {
	var out object
	for _, f := range families {
		chosen := false
		for _, c := range b.families {
			chosen = chosen || c == f.key
		}
		if !chosen {
			continue
		}
		fmt.Fprintln(print, centre(f.header, "-"))
		v := newSample(s.times[f.key])
		put := func(stat, label string, x float64) {
			out = append(out, member{stat + "_" + f.key + "_ms", x * 1000})
			if label != "" {
				row(print, label+" "+f.label+" (ms):", x*1000)
			}
		}
		put("mean", "Mean", v.mean())
		put("median", "Median", v.percentile(50))
		put("std", "", v.std())
		for _, p := range b.pcts {
			put("p"+word(p), "P"+word(p), v.percentile(p))
		}
	}
	fmt.Fprintln(print, strings.Repeat("=", 50))
	return out
}

func centre(s, fill string) string {
	left := max(0, 50-len(s)) / 2
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, max(0, 50-len(s)-left))
}

func row(w io.Writer, label string, v any) {
	switch v := v.(type) {
	case float64:
		fmt.Fprintf(w, "%-40s %-10.2f\n", label, v)
	default:
		fmt.Fprintf(w, "%-40s %-10v\n", label, v)
	}
}

// traceback prints an error as an uncaught Python exception.
func (s *shim) traceback(err error) int {
	s.errorf("Traceback (most recent call last):\n  File \"<lab>\", line 1, in <module>\n%v", err)
	return 1
}

// warm sends the first prompt n times, not measured; failures are not noticed,
// as in the real client.
func (b *bench) warm(ctx context.Context, client *http.Client, n int) {
	w := b.load
	w.rate = math.Inf(1)
	w.requests = make([]request, n)
	for i := range w.requests {
		w.requests[i] = b.load.requests[0]
	}
	w.run(ctx, client, b.rng)
}

// lengths draws as ATOM and SGLang do: from the ratio's share to the whole.
func (b *bench) lengths(n int, ratio float64) func(*rand.Rand) int {
	return between(int(float64(n)*ratio), n)
}

func newRNG(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 0x6c6162)) }

// speculation asks the server for its MTP statistics; nil without them.
func speculation(ctx context.Context, client *http.Client, base string) (length, rate any) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/debug/mtp_stats", nil)
	if err != nil {
		return nil, nil
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil
	}
	defer resp.Body.Close()
	var v struct {
		Enabled bool    `json:"enabled"`
		Rate    float64 `json:"acceptance_rate"`
		Length  float64 `json:"average_tokens_per_forward"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&v) != nil || !v.Enabled {
		return nil, nil
	}
	return v.Length, v.Rate
}

// writeResult puts the artefact straight into its final place, as Python's
// json.dump does: a reader may meet half of it.
func writeResult(path string, v object, fault ClientFault, appendLine bool) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if appendLine {
		mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if err != nil {
		return fmt.Errorf("FileNotFoundError: [Errno 2] No such file or directory: %s", pyRepr(path))
	}
	defer f.Close()
	var out io.Writer = f
	switch fault {
	case ClientHalf:
		out = &halfWriter{f: f}
	case ClientDiskFull:
		out = &fullWriter{f: f, left: 512}
	}
	w := bufio.NewWriterSize(out, 8192)
	if err := writePython(w, v); err != nil {
		return err
	}
	if appendLine {
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// A halfWriter loses the second half of every write.
type halfWriter struct{ f *os.File }

func (h *halfWriter) Write(b []byte) (int, error) {
	if _, err := h.f.Write(b[:len(b)/2]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// A fullWriter is a file on a disk that has room for a few more bytes.
type fullWriter struct {
	f    *os.File
	left int
}

func (w *fullWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	w.left -= n
	if _, err := w.f.Write(b[:n]); err != nil {
		return 0, err
	}
	if n < len(b) {
		return n, fmt.Errorf("OSError: [Errno %d] No space left on device", int(syscall.ENOSPC))
	}
	return n, nil
}

func resultPath(dir, name string) string {
	if dir != "" {
		return filepath.Join(dir, name)
	}
	return name
}

// hang waits until the process is killed.
func hang() {
	for {
		time.Sleep(time.Hour) // not select{}: with no other goroutine that would be a deadlock error
	}
}
