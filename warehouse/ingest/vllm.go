package ingest

import (
	"strings"

	"cvs/collect/strictjson"
)

// vllm reads what `vllm bench serve` and its predecessor benchmark_serving.py
// wrote at any age, and the forks of it: InferenceX's client among them. Units
// are in the key names; a file with `median_ttft` (seconds, no unit) keeps that
// key under its own name, because no unit is ever guessed.
func vllm() format {
	return format{name: VLLM, is: isServing, read: readServing}
}

// isServing tells a serving benchmark by what all ages have: counts or rates of
// requests, and statistics of at least one latency family.
func isServing(v *strictjson.Value) bool {
	if !hasAny(v, "completed", "num_prompts", "request_throughput", "output_throughput", "duration") {
		return false
	}
	if !hasAny(v, "backend", "model_id", "endpoint_type", "tokenizer_id", "num_prompts", "output_throughput") {
		return false
	}
	for _, m := range v.Members {
		for _, family := range [...]string{"_ttft", "_tpot", "_itl", "_e2el", "_latency_ms"} {
			if strings.Contains(m.Name, family) {
				return true
			}
		}
	}
	return false
}

func readServing(b *builder, v *strictjson.Value) {
	b.name("")
	b.sample.Identity = Identity{
		Model: text(v.Get("model_id")), Backend: text(v.Get("backend")), GPU: text(v.Get("gpu_name")),
		Concurrency: firstInteger(v, "max_concurrency", "multi_turn_concurrency"),
		ISL:         integer(v.Get("random_input_len")), OSL: integer(v.Get("random_output_len")),
		TP: integer(v.Get("tensor_parallel_size")), NumPrompts: integer(v.Get("num_prompts")),
		Date: text(v.Get("date")), StartUnix: float(v.Get("benchmark_start_time_unix")),
	}
}
