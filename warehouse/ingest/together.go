package ingest

import (
	"cvs/collect/metric"
	"cvs/collect/strictjson"
)

// together reads baselines whose numbers stand in a metrics object beside the
// configuration (hw, isl, osl, tp, conc); two of the names are its own.
func together() format {
	return format{
		name: Together,
		is: func(v *strictjson.Value) bool {
			m := v.Get("metrics")
			return m != nil && m.Kind == strictjson.Object && has(v, "isl", "osl", "conc") && hasAny(m, "output_token_throughput", "total_token_throughput")
		},
		read: func(b *builder, v *strictjson.Value) {
			b.members(v.Get("metrics"), "/metrics")
			defs := metric.Table()
			for i := range defs {
				switch defs[i].Name {
				case "output_throughput":
					defs[i].Keys = append(defs[i].Keys, "output_token_throughput")
				case "completed":
					defs[i].Keys = append(defs[i].Keys, "successful_requests")
				}
			}
			b.name("/metrics", defs...)
			b.sample.Identity = Identity{
				Model: text(v.Get("model")), Backend: text(v.Get("framework")), GPU: text(v.Get("hw")),
				Concurrency: integer(v.Get("conc")), ISL: integer(v.Get("isl")), OSL: integer(v.Get("osl")), TP: integer(v.Get("tp")),
				Date: text(v.Get("ts")),
			}
		},
	}
}
