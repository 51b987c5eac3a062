package ingest

import (
	"strings"

	"cvs/collect/strictjson"
)

// sglang reads sglang.bench_serving --output-file: one object a line, appended
// run after run. It says nothing of failures, and of the model only in
// server_info, where the server had one.
func sglang() format {
	return format{name: SGLang, is: isSGLang, read: readSGLang, lines: true}
}

func isSGLang(v *strictjson.Value) bool {
	if !has(v, "backend") || !hasAny(v, "completed", "duration") {
		return false
	}
	if hasAny(v, "total_output_tokens_retokenized", "sharegpt_output_len", "server_info") {
		return true
	}
	for _, m := range v.Members {
		if strings.HasSuffix(m.Name, "_e2e_latency_ms") {
			return true
		}
	}
	return false
}

func readSGLang(b *builder, v *strictjson.Value) {
	b.name("")
	info := v.Get("server_info")
	model := text(info.Get("model_path"))
	if model == "" {
		model = b.internalModel(info.Get("internal_states"))
	}
	b.sample.Identity = Identity{
		Model: model, Backend: text(v.Get("backend")),
		Concurrency: integer(v.Get("max_concurrency")),
		ISL:         integer(v.Get("random_input_len")), OSL: integer(v.Get("random_output_len")),
		TP: integer(info.Get("tp_size")),
	}
}

// internalModel finds the model of a disaggregated server, which stands in the
// first of its internal states.
func (b *builder) internalModel(states *strictjson.Value) string {
	if states == nil || states.Kind != strictjson.Array || states.End-states.Offset > MaxRaw {
		return ""
	}
	list, _, err := strictjson.Parse(b.data[states.Offset:states.End], strictjson.Options{NonFinite: true, KeepDuplicates: true, MaxDepth: maxDepth})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	return text(list.Items[0].Get("model_path"))
}
