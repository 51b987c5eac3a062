package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/remote"
)

// A GPUSample is one line of checks/gpu/<cell>.jsonl: all GPUs of one host at one
// moment. Problem says why a sample has no readings.
type GPUSample struct {
	Host    string    `json:"host"`
	Time    time.Time `json:"time"` // the host's clock, UTC
	GPUs    []Reading `json:"gpus,omitempty"`
	Problem string    `json:"problem,omitempty"`
}

// A GPUSummary is the summary beside it, checks/gpu/<cell>.json (INF-7). Without
// any reading Status is failed and Reason says why: absent telemetry is a result.
type GPUSummary struct {
	Header
	Cell     string     `json:"cell"`
	Hosts    []string   `json:"hosts"`
	Samples  int        `json:"samples"`           // with readings
	Problems int        `json:"problems"`          // samples without
	Problem  string     `json:"problem,omitempty"` // the first of them
	Seconds  float64    `json:"seconds"`           // first to last sample with readings
	From     *time.Time `json:"from,omitempty"`    // of the first sample with readings, the host's clock, UTC
	To       *time.Time `json:"to,omitempty"`      // of the last
	Total    GPUStats   `json:"total"`             // over all GPUs of all hosts
	GPUs     []GPUStats `json:"gpus"`              // per host and GPU
}

// GPUStats sums up the readings of one GPU, or of all. Nil could not be had.
type GPUStats struct {
	Host       string   `json:"host,omitempty"`         // "" in the total
	GPU        *int     `json:"gpu,omitempty"`          // absent in the total
	PeakVRAMMB *float64 `json:"peak_vram_mb,omitempty"` // total: the peak of the sum over a host's GPUs, added over hosts
	MeanGFXPct *float64 `json:"mean_gfx_pct,omitempty"` // mean over samples; total: mean over GPUs of that
	MeanUMCPct *float64 `json:"mean_umc_pct,omitempty"` // likewise
	MeanPowerW *float64 `json:"mean_power_w,omitempty"` // total: sum over GPUs
	PeakPowerW *float64 `json:"peak_power_w,omitempty"` // total: sum over GPUs of their peaks
	PeakTempC  *float64 `json:"peak_hotspot_c,omitempty"`
	MeanGFXMHz *float64 `json:"mean_gfx_mhz,omitempty"` // compute clock; total: mean over GPUs
	// EnergyJ is what was used between first and last sample; total: the sum, only
	// if every GPU has one. EnergyFrom says how: counter, or power (integrated).
	EnergyJ    *float64 `json:"energy_j,omitempty"`
	EnergyFrom string   `json:"energy_from,omitempty"`
	// ThrottledPct is the share of samples with a violated limit, percent; total: of
	// the GPU with the largest share. Limits names them.
	ThrottledPct *float64 `json:"throttled_pct,omitempty"`
	Limits       []string `json:"limits,omitempty"`
	// Accumulated is what the throttle counters grew by, by limit.
	Accumulated map[string]float64 `json:"throttle_accumulated,omitempty"`
}

// The separators of the sampler's output.
const (
	sampleMark = "#cvs-sample "
	absentMark = "#cvs-absent "
)

// SamplerArgs samples the GPUs of the host it runs on until it is stopped: on each
// turn a line with time, exit status and length, then what amd-smi printed, without
// the spaces that JSON does not need. Interval is the pause between two samples.
// Where there is no amd-smi it says so and ends with status 69.
func SamplerArgs(interval time.Duration) []string {
	const script = `PATH=$PATH:/opt/rocm/bin
command -v amd-smi >/dev/null || { echo '` + absentMark + `amd-smi: not found in '"$PATH"; exit 69; }
while :; do
t=$(date +%s.%N); o=$(` + smiCommand + ` 2>&1); rc=$?
[ "$rc" -ne 0 ] || o=$(printf %s "$o" | tr -s ' ' | tr -d '\n')
printf '` + sampleMark + `%s %s\n%s\n' "$t" "$rc" "$o"
sleep "$1"; done`
	return []string{"sh", "-c", script, "sh", strconv.FormatFloat(max(interval.Seconds(), 0.1), 'f', -1, 64)}
}

// smiCommand is the command of spec 02 §19.
const smiCommand = `amd-smi metric --json`

// DefaultInterval is the pause between two samples: short enough for peaks of a
// load of seconds.
const DefaultInterval = 2 * time.Second

// A Sampler samples one host while something else runs there.
type Sampler struct {
	Host     string
	Runner   Runner
	JobDir   string        // folder on the host for the job, absolute; of this sampler only
	Lease    time.Duration // of the job: without a launcher nobody wants the samples
	Interval time.Duration // 0 is DefaultInterval
}

// Job is the job that Start starts.
func (s Sampler) Job() remote.Job {
	interval := s.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	return remote.Job{Dir: s.JobDir, Args: SamplerArgs(interval), Lease: s.Lease}
}

// A Sampling is a sampler that runs. Stop must be called.
type Sampling struct {
	s      Sampler
	cancel context.CancelFunc // ends the renewals
	done   chan struct{}      // closed when they ended
}

// Start begins sampling and renews the job's lease until Stop. A host without
// amd-smi is no error here; Stop tells.
func (s Sampler) Start(ctx context.Context) (*Sampling, error) {
	if _, err := s.Job().Start(ctx, s.Runner); err != nil {
		return nil, fmt.Errorf("GPU sampler: %w", err)
	}
	// The renewals outlive ctx, as the job does: Stop ends both.
	rctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g := &Sampling{s, cancel, make(chan struct{})}
	go func() {
		defer close(g.done)
		if s.Lease <= 0 {
			return
		}
		tick := time.NewTicker(max(s.Lease/3, 100*time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-rctx.Done():
				return
			case <-tick.C:
				// One that fails is made up by the next; in the end the samples are missing.
				_ = s.Job().Renew(rctx, s.Runner)
			}
		}
	}()
	return g, nil
}

// maxSamplerLog bounds what is fetched: a day of eight GPUs at the default
// interval.
const maxSamplerLog = 256 << 20

// Stop ends sampling, fetches what was sampled and removes the job's folder.
func (g *Sampling) Stop(ctx context.Context) ([]GPUSample, error) {
	g.cancel()
	<-g.done
	s, job := g.s, g.s.Job()
	kerr := job.Kill(ctx, s.Runner, 5*time.Second)
	out, err := mustRun(ctx, s.Runner, "GPU samples", remote.Command{Args: remote.FetchArgs(job.LogFile()), Timeout: 5 * time.Minute, MaxOutput: maxSamplerLog, Name: "GPU samples"})
	if err == nil && kerr == nil {
		err = job.Clean(ctx, s.Runner)
	}
	if len(out) == 0 {
		return nil, errors.Join(kerr, err)
	}
	return ParseSamples(s.Host, out), errors.Join(kerr, err)
}

// ParseSamples reads the sampler's output. What cannot be read is a sample with a
// problem; the last one, which may have been cut off when sampling was stopped, is
// left out if it is not whole.
func ParseSamples(host string, out []byte) []GPUSample {
	var samples []GPUSample
	if reason, ok := bytes.CutPrefix(bytes.TrimSpace(out), []byte(absentMark)); ok {
		return []GPUSample{{Host: host, Problem: clip(string(reason), 500)}}
	}
	// A shell that is stopped in its pause says so behind the last, whole sample.
	if kept, ok := bytes.CutSuffix(bytes.TrimRight(out, "\n"), []byte("\nTerminated")); ok {
		out = append(bytes.Clone(kept), '\n')
	}
	parts := bytes.Split(append([]byte("\n"), out...), []byte("\n"+sampleMark))
	if lost := bytes.TrimSpace(parts[0]); len(lost) > 0 {
		samples = append(samples, GPUSample{Host: host, Problem: "not a sample: " + clip(string(lost), 300)})
	}
	for i, part := range parts[1:] {
		head, body, whole := bytes.Cut(part, []byte("\n"))
		last := i == len(parts)-2
		words := strings.Fields(string(head))
		if len(words) != 2 {
			if !last {
				samples = append(samples, GPUSample{Host: host, Problem: "not a sample: " + clip(string(head), 300)})
			}
			continue
		}
		s := GPUSample{Host: host}
		t, err := parseStamp(words[0])
		if err == nil {
			s.Time = seconds(t).UTC()
		}
		switch {
		case err != nil:
			s.Problem = err.Error()
		case words[1] != "0":
			s.Problem = fmt.Sprintf("amd-smi ended with exit status %s: %s", clip(words[1], 10), lastLine(string(body)))
		default:
			if s.GPUs, err = Readings(body); err != nil {
				s.Problem = clip(err.Error(), 500)
			} else if !slices.ContainsFunc(s.GPUs, func(r Reading) bool { return !r.empty() }) {
				s.GPUs, s.Problem = nil, "amd-smi reports N/A for everything"
			}
		}
		if last && (!whole || s.Problem != "" && !bytes.HasSuffix(part, []byte("\n"))) {
			continue
		}
		samples = append(samples, s)
	}
	return samples
}

// JSONL is samples as they are kept, one line each.
func JSONL(samples []GPUSample) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, s := range samples {
		if err := enc.Encode(s); err != nil {
			return nil, fmt.Errorf("GPU samples: %w", err)
		}
	}
	return b.Bytes(), nil
}

// SnapshotArgs reads the GPUs once.
func SnapshotArgs() []string {
	return []string{"sh", "-c", `PATH=$PATH:/opt/rocm/bin; exec ` + smiCommand}
}

// Snapshot reads the GPUs once, for the memory that loading a model takes.
func Snapshot(ctx context.Context, r Runner, host string) ([]Reading, error) {
	out, err := mustRun(ctx, r, "amd-smi", remote.Command{Args: SnapshotArgs(), Timeout: time.Minute, Name: "amd-smi"})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	return Readings(out)
}

// UsedVRAM sums the used memory in MB; nil when no GPU reports it.
func UsedVRAM(readings []Reading) *float64 {
	return sum(readings, func(r Reading) *float64 { return r.UsedVRAMMB })
}

func sum[T any](items []T, value func(T) *float64) *float64 {
	var total *float64
	for _, it := range items {
		if v := value(it); v != nil {
			if total == nil {
				total = new(float64)
			}
			*total += *v
		}
	}
	return total
}

// Summarise sums up the samples of one cell, of one host or several. Err is what
// went wrong in getting them, if anything.
func Summarise(cell string, samples []GPUSample, err error, now time.Time) GPUSummary {
	r := GPUSummary{Header: Header{Check: GPUCheck, Version: Version, Status: artifact.Done, StartedAt: now.UTC(), EndedAt: now.UTC()},
		Cell: cell, Hosts: []string{}, GPUs: []GPUStats{}}
	byHost := map[string][]GPUSample{}
	for _, s := range samples {
		if !slices.Contains(r.Hosts, s.Host) {
			r.Hosts = append(r.Hosts, s.Host)
		}
		if s.Problem != "" {
			r.Problems++
			if r.Problem == "" {
				r.Problem = s.Host + ": " + s.Problem
			}
			continue
		}
		r.Samples++
		byHost[s.Host] = append(byHost[s.Host], s)
	}
	if err != nil {
		r.note("%v", err)
	}
	if r.Samples == 0 {
		reason := r.Problem
		if reason == "" {
			reason = "no sample was taken"
		}
		r.fail(errors.Join(errors.New("no GPU telemetry: "+reason), err))
		return r
	}
	if r.Problems > 0 {
		r.note("%d of %d samples could not be read, the first: %s", r.Problems, r.Problems+r.Samples, r.Problem)
	}
	var peaks []*float64
	for _, host := range r.Hosts {
		list := byHost[host]
		if len(list) == 0 {
			r.note("%s: no sample could be read", host)
			continue
		}
		r.Seconds = max(r.Seconds, list[len(list)-1].Time.Sub(list[0].Time).Seconds())
		if first := list[0].Time; r.From == nil || first.Before(*r.From) {
			r.From = &first
		}
		if last := list[len(list)-1].Time; r.To == nil || last.After(*r.To) {
			r.To = &last
		}
		var peak *float64
		for _, s := range list {
			peak = larger(peak, UsedVRAM(s.GPUs))
		}
		peaks = append(peaks, peak)
		r.GPUs = append(r.GPUs, perGPU(host, list, &r.Header)...)
	}
	r.Total = total(r.GPUs)
	r.Total.PeakVRAMMB = sum(peaks, func(p *float64) *float64 { return p })
	return r
}
