package ingest

import (
	"strings"

	"cvs/collect/strictjson"
)

// inferenceX reads the aggregates that InferenceX makes of its runs, of any age,
// and the rows of its API. Its latencies are seconds without a unit in the key;
// the format says so, which is the only reason to convert them.
func inferenceX() format {
	return format{name: InferenceX, is: isInferenceX, read: readInferenceX}
}

func isInferenceX(v *strictjson.Value) bool {
	if hasAny(v, "infmax_model_prefix") && hasAny(v, "hw") {
		return true
	}
	m := v.Get("metrics")
	return m != nil && m.Kind == strictjson.Object && hasAny(m, "tput_per_gpu", "output_tput_per_gpu", "median_ttft") && hasAny(v, "hardware", "hw") && hasAny(v, "run_url", "date", "framework")
}

// inSeconds are statistics in seconds and the metric each means in milliseconds.
func inSeconds() map[string]string {
	out := make(map[string]string)
	for _, s := range []string{"mean", "median", "p90", "p95", "p99"} {
		for key, family := range map[string]string{"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2el", "ttlt": "e2el"} {
			out[s+"_"+key] = s + "_" + family + "_ms"
		}
	}
	return out
}

func readInferenceX(b *builder, v *strictjson.Value) {
	parent, at := "", v
	if m := v.Get("metrics"); m != nil && m.Kind == strictjson.Object {
		parent, at = "/metrics", m
		b.members(m, "/metrics")
	}
	b.scale(parent, inSeconds(), 1000)
	b.scale(parent, map[string]string{
		"tput_per_gpu": "per_gpu_throughput", "output_tput_per_gpu": "output_tput_per_gpu",
		"num_requests_successful": "completed",
	}, 1)
	// of several nodes or roles the GPUs are not TP: what the file says of one GPU
	// would be contradicted by what is derived from a total
	whole := !isTrue(v.Get("is_multinode")) && !isTrue(v.Get("disagg"))
	if whole {
		b.scale(parent, map[string]string{"output_tput_tps": "output_throughput", "total_tput_tps": "total_token_throughput"}, 1)
	}
	if v.Get("request_accounting") == nil { // else the total counts warm-up too
		b.scale(parent, map[string]string{"num_requests_total": "num_prompts"}, 1)
	}
	if o := v.Get("benchmark_outcome"); o != nil && o.Kind == strictjson.Object {
		b.members(o, "/benchmark_outcome")
		b.scale("/benchmark_outcome", map[string]string{"requested": "num_prompts", "completed": "completed", "failed": "failed"}, 1)
	}
	// since July 2026 throughput and latencies of agentic runs are nested
	if t := v.Get("request_metrics").Get("throughput"); t != nil && t.Kind == strictjson.Object {
		b.nestedThroughput(t, "/request_metrics/throughput", whole)
	}
	if l := v.Get("request_metrics").Get("latency"); l != nil && l.Kind == strictjson.Object {
		for _, family := range l.Members {
			if family.Value.Kind != strictjson.Object {
				continue
			}
			p := "/request_metrics/latency/" + strictjson.EscapePointer(clean(family.Name))
			b.members(family.Value, p)
			names := make(map[string]string)
			for key, stat := range map[string]string{"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"} {
				if m, ok := inSeconds()[stat+"_"+family.Name]; ok {
					names[key] = m
				}
			}
			b.scale(p, names, 1000)
		}
	}
	first := func(keys ...string) *strictjson.Value {
		for _, k := range keys {
			if x := v.Get(k); x != nil && x.Kind != strictjson.Null {
				return x
			}
			if x := at.Get(k); x != nil && x.Kind != strictjson.Null {
				return x
			}
		}
		return nil
	}
	b.sample.Identity = Identity{
		Model: text(first("model")), Driver: strings.ToLower(text(first("framework"))), Precision: text(first("precision")), Image: text(first("image")),
		GPU:         strings.TrimPrefix(text(first("hw", "hardware")), "cluster:"),
		Concurrency: integer(first("conc", "users", "concurrency")), ISL: integer(first("isl")), OSL: integer(first("osl")), TP: integer(first("tp", "decode_tp")),
		Date: text(first("date")),
	}
	if m := runInURL.FindStringSubmatch(text(first("run_url"))); m != nil {
		b.sample.Identity.CIRun = m[1]
	}
}

func (b *builder) nestedThroughput(t *strictjson.Value, at string, whole bool) {
	b.members(t, at)
	b.scale(at, map[string]string{"duration_seconds": "duration"}, 1)
	for _, part := range t.Members {
		if part.Value.Kind != strictjson.Object {
			continue
		}
		p := at + "/" + strictjson.EscapePointer(clean(part.Name))
		b.members(part.Value, p)
		switch name := map[string]string{"output": "output_throughput", "total": "total_token_throughput"}[part.Name]; {
		case part.Name == "per_gpu":
			b.scale(p, map[string]string{"total_tput_tps": "per_gpu_throughput", "output_tput_tps": "output_tput_per_gpu"}, 1)
		case name != "" && whole:
			b.scale(p, map[string]string{"tokens_per_second": name}, 1)
		}
	}
}

// isTrue reads a boolean, which some ages write as text.
func isTrue(v *strictjson.Value) bool {
	return v != nil && (v.Kind == strictjson.Bool && v.Bool || v.Kind == strictjson.String && strings.EqualFold(v.Text, "true"))
}

// slo reads the goodput probes of InferenceX: as vLLM's client, but in seconds.
// good_completed, which no client writes, tells them apart.
func slo() format {
	return format{
		name: SLO,
		is: func(v *strictjson.Value) bool {
			return has(v, "good_completed", "num_prompts") && hasAny(v, "median_ttft", "median_tpot", "median_e2el")
		},
		read: func(b *builder, v *strictjson.Value) {
			readServing(b, v)
			b.scale("", inSeconds(), 1000)
		},
	}
}

// latency reads `vllm bench latency`: the time of whole batches, in seconds. The
// configuration stands in the file name only.
func latency() format {
	return format{
		name: Latency,
		is:   func(v *strictjson.Value) bool { return has(v, "avg_latency", "percentiles") },
		read: func(b *builder, v *strictjson.Value) {
			b.scale("", map[string]string{"avg_latency": "mean_e2el_ms"}, 1000)
			if p := v.Get("percentiles"); p.Kind == strictjson.Object {
				b.members(p, "/percentiles")
				b.scale("/percentiles", map[string]string{"50": "median_e2el_ms", "90": "p90_e2el_ms", "95": "p95_e2el_ms", "99": "p99_e2el_ms"}, 1000)
			}
		},
	}
}

// aiperf reads the exports of AIPerf: an object of statistics for each metric,
// with its unit. What it calls inter-token latency is the mean over a request
// (time per output token), and inter-chunk latency the gaps.
func aiperf() format {
	return format{
		name: AIPerf,
		is: func(v *strictjson.Value) bool {
			return hasAny(v, "aiperf_version") && hasAny(v, "time_to_first_token", "request_latency", "request_throughput")
		},
		read: readAIPerf,
	}
}

func readAIPerf(b *builder, v *strictjson.Value) {
	stats := map[string]string{"avg": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
	for _, m := range v.Members {
		if m.Value.Kind != strictjson.Object || m.Value.Get("unit") == nil {
			continue
		}
		p := "/" + strictjson.EscapePointer(clean(m.Name))
		b.members(m.Value, p)
		unit := text(m.Value.Get("unit"))
		if family := map[string]string{"time_to_first_token": "ttft", "inter_token_latency": "tpot", "inter_chunk_latency": "itl", "request_latency": "e2el"}[m.Name]; family != "" {
			factor := map[string]float64{"ms": 1, "sec": 1000, "s": 1000, "us": 0.001, "ns": 1e-6}[unit]
			names := make(map[string]string)
			for key, s := range stats {
				if known(s + "_" + family + "_ms") {
					names[key] = s + "_" + family + "_ms"
				}
			}
			if factor > 0 {
				b.scale(p, names, factor)
			}
		}
		if name := map[string]string{
			"output_token_throughput": "output_throughput", "total_token_throughput": "total_token_throughput", "request_throughput": "request_throughput",
			"request_count": "completed", "error_request_count": "failed", "benchmark_duration": "duration", "total_isl": "total_input_tokens", "total_osl": "total_output_tokens",
			"goodput": "goodput",
		}[m.Name]; name != "" {
			b.scale(p, map[string]string{"avg": name}, 1)
		}
	}
	c := v.Get("input_config")
	if c == nil {
		c = &strictjson.Value{}
	}
	b.sample.Identity = Identity{Concurrency: integer(c.Get("loadgen").Get("concurrency")), Date: text(v.Get("start_time"))}
	if t := float(v.Get("min_request_timestamp").Get("avg")); t != nil {
		s := *t / 1e9
		b.sample.Identity.StartUnix = &s
	}
	if names := c.Get("endpoint").Get("model_names"); names != nil && names.End-names.Offset <= MaxRaw {
		if list, _, err := strictjson.Parse(b.data[names.Offset:names.End], strictjson.Options{MaxDepth: 3}); err == nil && len(list.Items) == 1 {
			b.sample.Identity.Model = text(list.Items[0])
		}
	}
}
