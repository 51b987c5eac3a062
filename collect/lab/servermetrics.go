package lab

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// metrics prints the engine's state in Prometheus text, with the names of the
// framework for what the model has and nothing for what it has not.
func (s *server) metrics(w http.ResponseWriter, r *http.Request) {
	g := s.engine.snapshot()
	var b strings.Builder
	put := func(kind, name string, v any) {
		fmt.Fprintf(&b, "# TYPE %s %s\n%s %v\n", name, kind, name, v)
	}
	usage := float64(g.blocksUsed) / float64(max(1, g.blocksTotal))
	switch s.spec.framework {
	case "atom":
		put("gauge", "atom:metrics_snapshot_available", 1)
		put("gauge", "atom:metrics_last_refresh_timestamp_seconds", fmt.Sprintf("%.3f", float64(time.Now().UnixMilli())/1000))
		put("gauge", "atom:requests_running", g.running)
		put("gauge", "atom:requests_waiting", g.waiting)
		put("gauge", "atom:requests_parked_kv_load", 0)
		put("gauge", "atom:requests_partial_prefill", g.partial)
		put("gauge", "atom:kv_cache_blocks_used", g.blocksUsed)
		put("gauge", "atom:kv_cache_blocks_free", g.blocksTotal-g.blocksUsed)
		put("gauge", "atom:kv_cache_blocks_total", g.blocksTotal)
		put("gauge", "atom:kv_cache_usage_ratio", usage)
		put("counter", "atom:metrics_refresh_errors_total", 0)
		put("counter", "atom:requests_finished_total", g.finished)
		put("counter", "atom:prompt_tokens_total", g.promptTokens)
		put("counter", "atom:generation_tokens_total", g.generated)
		put("counter", "atom:preemptions_total", 0)
		if s.spec.drafts > 0 {
			rate, length := g.speculation()
			put("gauge", "atom:mtp_acceptance_rate", rate)
			put("gauge", "atom:mtp_average_tokens_per_forward", length)
			put("counter", "atom:mtp_draft_tokens_total", g.draftTokens)
			put("counter", "atom:mtp_accepted_tokens_total", g.acceptedTokens)
			b.WriteString("# TYPE atom:mtp_decode_steps_total counter\n")
			for k, n := range g.decodeSteps {
				fmt.Fprintf(&b, "atom:mtp_decode_steps_total{accepted_tokens=\"%d\"} %d\n", k, n)
			}
		}
	default:
		p := s.spec.framework + ":"
		put("gauge", p+"num_requests_running", g.running)
		put("gauge", p+"num_requests_waiting", g.waiting)
		put("gauge", p+"kv_cache_usage_perc", usage)
		put("counter", p+"prompt_tokens_total", g.promptTokens)
		put("counter", p+"generation_tokens_total", g.generated)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write([]byte(b.String()))
}

// speculation is the acceptance rate (a fraction) and the mean number of tokens
// of a forward pass, both since the start of the server.
func (g engineStats) speculation() (rate, length float64) {
	if g.draftTokens == 0 {
		return 0, 1
	}
	steps := 0
	for _, n := range g.decodeSteps {
		steps += n
	}
	return float64(g.acceptedTokens) / float64(g.draftTokens), 1 + float64(g.acceptedTokens)/float64(steps)
}

func (s *server) mtpStats(w http.ResponseWriter, r *http.Request) {
	type stats struct {
		Enabled  bool               `json:"enabled"`
		Drafts   int                `json:"total_draft_tokens"`
		Accepted int                `json:"total_accepted_tokens"`
		Rate     float64            `json:"acceptance_rate"`
		Length   float64            `json:"average_tokens_per_forward"`
		Counts   map[string]int     `json:"distribution"`
		Percent  map[string]float64 `json:"distribution_percent"`
	}
	g := s.engine.snapshot()
	out := stats{Enabled: s.spec.drafts > 0, Drafts: g.draftTokens, Accepted: g.acceptedTokens, Counts: map[string]int{}, Percent: map[string]float64{}}
	if out.Enabled {
		out.Rate, out.Length = g.speculation()
	}
	total := 0
	for _, n := range g.decodeSteps {
		total += n
	}
	for k, n := range g.decodeSteps {
		key := fmt.Sprint(k)
		out.Counts[key] = n
		out.Percent[key] = 100 * float64(n) / float64(max(1, total))
	}
	reply(w, http.StatusOK, out)
}
