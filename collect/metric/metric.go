// Package metric holds the one table of what a sweep measures: names, units,
// direction, tier, whether a threshold is required, and where the value comes
// from. Every other part of cvs (thresholds, warehouse, deck, console) reads it
// and repeats none of it.
//
// It is a leaf and knows nothing of files, runs or verdicts.
package metric

// A Direction says which way is better.
type Direction int8

// The directions.
const (
	Neutral Direction = 0
	Higher  Direction = 1
	Lower   Direction = -1
)

// String is the word stored in the warehouse.
func (d Direction) String() string {
	switch d {
	case Higher:
		return "higher"
	case Lower:
		return "lower"
	}
	return "neutral"
}

// A Tier groups gates (decision 1). Record holds what has no spec of its own.
type Tier string

// The tiers, in the order they are shown.
const (
	Throughput Tier = "throughput"
	TTFT       Tier = "ttft"
	TPOT       Tier = "tpot"
	ITL        Tier = "itl"
	E2EL       Tier = "e2el"
	Health     Tier = "health"
	Scaling    Tier = "scaling"
	Other      Tier = "other"
	Record     Tier = "record"
)

// Tiers lists every tier in display order.
func Tiers() []Tier {
	return []Tier{Throughput, TTFT, TPOT, ITL, E2EL, Health, Scaling, Other, Record}
}

// A Def is one row of the table.
type Def struct {
	Name      string    // bare name, as thresholds use it
	Label     string    // for people
	Unit      string    // "tok/s", "ms", "req/s", "s", "%", "" for counts and fractions
	Direction Direction // which way is better
	Tier      Tier
	Gated     bool     // a spec is required in every cell when thresholds are enforced (25 metrics)
	Keys      []string // keys of the raw artefact that mean this metric, best first; empty: derived only
	Derived   string   // formula in terms of other metrics, "" if copied
	Digits    int      // decimals shown to people
}

// ScalingEfficiency is the metric of the scaling tier.
const ScalingEfficiency = "scaling.efficiency_pct"

// Headline is the metric that stands for a cell where there is room for one.
const Headline = "output_throughput"

// Table returns the vocabulary in display order: the 38 client metrics, then
// the derived families. The slice is a fresh copy.
func Table() []Def {
	t := []Def{
		{Name: "max_concurrency", Label: "Max concurrency", Tier: Record, Keys: []string{"max_concurrency"}},
		{Name: "max_concurrent_requests", Label: "Peak concurrent requests", Tier: Record, Keys: []string{"max_concurrent_requests"}},
		{Name: "num_prompts", Label: "Prompts", Tier: Record, Keys: []string{"num_prompts"}},
		{Name: "completed", Label: "Completed", Direction: Higher, Tier: Record, Keys: []string{"completed"}},
		{Name: "failed", Label: "Failed", Direction: Lower, Tier: Health, Gated: true, Keys: []string{"failed"}, Derived: "num_prompts - completed, where the client does not report it"},
		{Name: "success_rate", Label: "Success rate", Direction: Higher, Tier: Health, Gated: true, Derived: "completed / (completed + failed)", Digits: 4},
		{Name: "duration", Label: "Duration", Unit: "s", Direction: Lower, Tier: Record, Keys: []string{"duration"}, Digits: 1},
		{Name: "request_throughput", Label: "Requests/s", Unit: "req/s", Direction: Higher, Tier: Record, Keys: []string{"request_throughput"}, Digits: 2},
		{Name: "goodput", Label: "Goodput", Unit: "req/s", Direction: Higher, Tier: Record, Keys: []string{"request_goodput", "request_goodput:"}, Digits: 2},
		{Name: "output_throughput", Label: "Output throughput", Unit: "tok/s", Direction: Higher, Tier: Throughput, Gated: true, Keys: []string{"output_throughput"}, Digits: 1},
		{Name: "total_token_throughput", Label: "Total throughput", Unit: "tok/s", Direction: Higher, Tier: Throughput, Gated: true, Keys: []string{"total_token_throughput", "total_throughput"}, Digits: 1},
		{Name: "per_gpu_throughput", Label: "Total throughput per GPU", Unit: "tok/s", Direction: Higher, Tier: Throughput, Gated: true, Derived: "total_token_throughput / (TP * PP * DP)", Digits: 1},
		{Name: "output_tput_per_gpu", Label: "Output throughput per GPU", Unit: "tok/s", Direction: Higher, Tier: Throughput, Gated: true, Derived: "output_throughput / (TP * PP * DP)", Digits: 1},
		{Name: "decode_throughput_p50", Label: "Decode throughput (median)", Unit: "tok/s", Direction: Higher, Tier: Record, Derived: "1000 / median_tpot_ms", Digits: 1},
		{Name: "max_output_tokens_per_s", Label: "Peak output throughput", Unit: "tok/s", Direction: Higher, Tier: Record, Keys: []string{"max_output_tokens_per_s"}, Digits: 1},
		{Name: "total_input_tokens", Label: "Input tokens", Tier: Record, Keys: []string{"total_input_tokens"}},
		{Name: "total_output_tokens", Label: "Output tokens", Tier: Record, Keys: []string{"total_output_tokens"}},
	}
	latency := func(family string, tier Tier, label string, stats []string, keys ...string) {
		for _, s := range stats {
			d := Def{Name: s + "_" + family + "_ms", Label: statLabel[s] + " " + label, Unit: "ms", Direction: Lower, Tier: tier, Gated: true, Digits: 2}
			for _, k := range append([]string{family}, keys...) {
				d.Keys = append(d.Keys, s+"_"+k+"_ms")
			}
			t = append(t, d)
		}
	}
	five := []string{"mean", "median", "p90", "p95", "p99"}
	latency("ttft", TTFT, "TTFT", five)
	t = append(t, Def{Name: "normalized_ttft_ms_per_tok", Label: "Mean TTFT per input token", Unit: "ms/tok", Direction: Lower, Tier: Record, Derived: "mean_ttft_ms / ISL", Digits: 4})
	latency("tpot", TPOT, "TPOT", five)
	latency("itl", ITL, "ITL", []string{"mean", "median", "p95", "p99"})
	t = append(t, Def{Name: "decode_latency_ratio", Label: "ITL tail ratio", Direction: Lower, Tier: Record, Derived: "p99_itl_ms / p50_itl_ms (median_itl_ms where p50 is absent)", Digits: 2})
	latency("e2el", E2EL, "E2EL", five, "e2e_latency", "latency")
	t = append(t,
		Def{Name: ScalingEfficiency, Label: "Scaling efficiency", Unit: "%", Direction: Higher, Tier: Scaling, Derived: "100 * output_throughput / (baseline * nnodes)", Digits: 1},
		Def{Name: "mtp.acceptance_rate", Label: "MTP acceptance rate", Direction: Higher, Tier: Record, Keys: []string{"acceptance_rate"}, Digits: 4},
		Def{Name: "mtp.accept_length", Label: "MTP accept length", Unit: "tok/fwd", Direction: Higher, Tier: Record, Keys: []string{"accept_length"}, Digits: 3},
		Def{Name: "mean_concurrency", Label: "Mean requests in flight", Tier: Record, Keys: []string{"concurrency"}, Digits: 1},
		Def{Name: "per_gpu_throughput_per_tp", Label: "Total throughput per TP rank", Unit: "tok/s", Direction: Higher, Tier: Record, Derived: "total_token_throughput / TP (what the older suite called per GPU)", Digits: 1},
	)
	t = append(t, telemetry()...)
	return t
}

// telemetry are the metrics of GPUs that were sampled while the cell ran; power
// and energy are sums over every GPU of the hosts, idle ones included. Their
// values come from the poll (spec 03 §3.4), never from the client's result, and
// without a sample there are none.
func telemetry() []Def {
	return []Def{
		{Name: "gpu.peak_gpu_memory_mb", Label: "Peak GPU memory", Unit: "MB", Direction: Lower, Tier: Record, Derived: "max over samples of the used VRAM of all GPUs"},
		{Name: "gpu.gpu_compute_util_pct", Label: "GPU compute activity", Unit: "%", Tier: Record, Derived: "mean of gfx_activity", Digits: 1},
		{Name: "gpu.gpu_bandwidth_util_pct", Label: "GPU memory activity", Unit: "%", Tier: Record, Derived: "mean of umc_activity", Digits: 1},
		{Name: "gpu.mean_power_w", Label: "GPU power (mean)", Unit: "W", Direction: Lower, Tier: Record, Derived: "sum over GPUs of the mean socket power"},
		{Name: "gpu.peak_power_w", Label: "GPU power (peak)", Unit: "W", Direction: Lower, Tier: Record, Derived: "sum over GPUs of the peak socket power"},
		{Name: "gpu.energy_j", Label: "GPU energy", Unit: "J", Direction: Lower, Tier: Record, Derived: "growth of the energy counters, else power integrated over time"},
		{Name: "gpu.peak_hotspot_c", Label: "Hottest GPU", Unit: "°C", Direction: Lower, Tier: Record, Derived: "max of the hotspot temperature"},
		{Name: "gpu.mean_gfx_mhz", Label: "GPU clock (mean)", Unit: "MHz", Direction: Higher, Tier: Record, Derived: "mean of the compute clock"},
		{Name: "gpu.throttled_pct", Label: "Time throttled", Unit: "%", Direction: Lower, Tier: Record, Derived: "share of samples with a violated limit, of the worst GPU", Digits: 1},
		{Name: "gpu.model_load_s", Label: "Model load", Unit: "s", Direction: Lower, Tier: Record, Derived: "launch of the server to ready, of the cell it was started for", Digits: 1},
		{Name: "gpu.model_load_memory_mb", Label: "Model load memory", Unit: "MB", Tier: Record, Derived: "used VRAM when ready - before the launch"},
		{Name: TokensPerJoule, Label: "Output tokens per joule", Unit: "tok/J", Direction: Higher, Tier: Record, Derived: "output_throughput / gpu.mean_power_w", Digits: 3},
		{Name: TokensPerGPUHour, Label: "Output tokens per GPU-hour", Unit: "tok/h", Direction: Higher, Tier: Record, Derived: "3600 * output_throughput / (TP * PP * DP), where power was sampled"},
	}
}

// The metrics of what a token costs.
const (
	TokensPerJoule   = "energy.output_tokens_per_joule"
	TokensPerGPUHour = "energy.output_tokens_per_gpu_hour"
)

var statLabel = map[string]string{"mean": "Mean", "median": "Median", "p90": "P90", "p95": "P95", "p99": "P99"}

// Gated lists the names a threshold file must cover in every gated cell.
func Gated() []string {
	var names []string
	for _, d := range Table() {
		if d.Gated {
			names = append(names, d.Name)
		}
	}
	return names
}

// Lookup returns the row of that name.
func Lookup(name string) (Def, bool) {
	for _, d := range Table() {
		if d.Name == name {
			return d, true
		}
	}
	return Def{}, false
}
