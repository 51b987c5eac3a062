package ingest

import (
	"cvs/collect/strictjson"
)

// wrapped reads serving results that a submission tool put its own facts
// around: the client's arguments stand in benchmark_args.
func wrapped() format {
	return format{
		name: Wrapped,
		is: func(v *strictjson.Value) bool {
			args := v.Get("benchmark_args")
			return args != nil && args.Kind == strictjson.Object && hasAny(v, "output_throughput", "total_token_throughput")
		},
		read: func(b *builder, v *strictjson.Value) {
			b.name("")
			args := v.Get("benchmark_args")
			b.sample.Identity = Identity{
				Model: text(args.Get("model")), Backend: text(args.Get("backend")),
				Concurrency: integer(args.Get("max_concurrency")),
				ISL:         integer(args.Get("random_input_len")), OSL: integer(args.Get("random_output_len")),
				NumPrompts: integer(args.Get("num_prompts")),
			}
		},
	}
}
