package ingest

import "cvs/collect/strictjson"

// atom reads ATOM's benchmark_serving. It is a fork of vLLM's old client and
// shares its keys; the measured `concurrency` beside `request_goodput:` (with
// the colon) is its own.
func atom() format {
	return format{
		name: ATOM,
		is: func(v *strictjson.Value) bool {
			return isServing(v) && hasAny(v, "request_goodput:", "best_of") && hasAny(v, "concurrency", "accept_length", "acceptance_rate")
		},
		read: readServing,
	}
}
