package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if s.spec.framework == "atom" {
			reply(w, http.StatusOK, map[string]string{"status": "ok"})
		}
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		type row struct {
			ID      string `json:"id"`
			Object  string `json:"object"`
			Created int64  `json:"created"`
			OwnedBy string `json:"owned_by"`
		}
		reply(w, http.StatusOK, struct {
			Object string `json:"object"`
			Data   []row  `json:"data"`
		}{"list", []row{{s.spec.served, "model", s.created, s.spec.framework}}})
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, true) })
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("POST "+endPath, func(w http.ResponseWriter, r *http.Request) {
		f := s.faults()
		if !s.dying.Load() && !(f.ServerDiesBetween && s.mayDie(f)) {
			http.NotFound(w, r)
			return
		}
		s.dying.Store(true)
		s.die(errEngineDied)
		<-r.Context().Done() // no answer: the connection goes with the server
	})
	switch s.spec.framework {
	case "atom":
		mux.HandleFunc("GET /debug/mtp_stats", s.mtpStats)
		mux.HandleFunc("GET /server_info", func(w http.ResponseWriter, r *http.Request) {
			reply(w, http.StatusOK, struct {
				Model  string `json:"model_id"`
				Served string `json:"served_model_name"`
				TP     int    `json:"tp_size"`
				DP     int    `json:"dp_size"`
			}{s.spec.model, s.spec.served, s.spec.tp, max(1, s.spec.dp)})
		})
	case "sglang":
		mux.HandleFunc("GET /get_server_info", func(w http.ResponseWriter, r *http.Request) {
			type state struct {
				AvgSpecAcceptLength *float64 `json:"avg_spec_accept_length,omitempty"`
			}
			reply(w, http.StatusOK, struct {
				ModelPath string  `json:"model_path"`
				TP        int     `json:"tp_size"`
				Version   string  `json:"version"`
				States    []state `json:"internal_states"`
			}{s.spec.model, s.spec.tp, labVersion, []state{{}}})
		})
		mux.HandleFunc("POST /flush_cache", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Cache flushed.\n") })
	}
	return mux
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, detail any) {
	reply(w, status, struct {
		Detail any `json:"detail"`
	}{detail})
}

// A generateRequest holds the fields the server honours; all others are ignored.
type generateRequest struct {
	Model     *string         `json:"model"`
	Prompt    json.RawMessage `json:"prompt"`
	Messages  []chatMessage   `json:"messages"`
	MaxTokens *int            `json:"max_tokens"`
	MaxNew    *int            `json:"max_completion_tokens"`
	IgnoreEOS bool            `json:"ignore_eos"`
	// Temperature is 1 without one, as in the real servers.
	Temperature *float64 `json:"temperature"`
	Seed        *int64   `json:"seed"`
	Echo        bool     `json:"echo"`
	Logprobs    *int     `json:"logprobs"`
	Stream      bool     `json:"stream"`
	Format      struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

const (
	defaultMaxTokens = 8192
	chatTemplate     = 5 // tokens a chat template adds
	maxBody          = 64 << 20
)

// parse validates a request. status is 0 when it is fine.
func (s *server) parse(r *http.Request, chat bool) (req generateRequest, prompt string, status int, detail any) {
	type problem struct {
		Type string   `json:"type"`
		Loc  []string `json:"loc"`
		Msg  string   `json:"msg"`
	}
	malformed := func(kind, msg string, loc ...string) (generateRequest, string, int, any) {
		return req, "", http.StatusUnprocessableEntity, []problem{{kind, append([]string{"body"}, loc...), msg}}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return malformed("json_invalid", "JSON decode error")
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return malformed("json_invalid", "JSON decode error")
	}
	if req.Model != nil && strings.TrimRight(*req.Model, "/") != strings.TrimRight(s.spec.served, "/") {
		return req, "", http.StatusBadRequest, fmt.Sprintf("Requested model '%s' does not match server model '%s'", *req.Model, s.spec.served)
	}
	if chat {
		if len(req.Messages) == 0 {
			return malformed("missing", "Field required", "messages")
		}
		var b strings.Builder
		for _, m := range req.Messages {
			b.WriteString(m.text())
			b.WriteByte('\n')
		}
		prompt = b.String()
	} else if req.Prompt == nil {
		return malformed("missing", "Field required", "prompt")
	} else if err := json.Unmarshal(req.Prompt, &prompt); err != nil {
		return malformed("string_type", "Input should be a valid string", "prompt")
	}
	return req, prompt, 0, nil
}

func (m chatMessage) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// asked is the number of tokens requested; without one the default, as far as
// the context has room.
func (req generateRequest) asked(room int) int {
	switch {
	case req.MaxNew != nil:
		return *req.MaxNew
	case req.MaxTokens != nil:
		return *req.MaxTokens
	}
	return min(defaultMaxTokens, room)
}

func (s *server) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	arrived := time.Now()
	req, prompt, status, detail := s.parse(r, chat)
	if status != 0 {
		refuse(w, status, detail)
		return
	}
	faults := s.faults()
	q := question{prompt: prompt, chat: chat, json: chat && req.Format.Type == "json_object", variant: s.variant(req, faults)}
	if !req.IgnoreEOS { // a benchmark measures, whatever is said
		q.fault = faults.Answers
	}
	text := newGenerated(q)
	prompted := countTokens(prompt)
	if chat {
		prompted += chatTemplate
	}
	asked := req.asked(s.spec.maxModelLen - prompted)
	if asked < 1 {
		refuse(w, http.StatusBadRequest, "max_tokens must be at least 1")
		return
	}
	if prompted+asked > s.spec.maxModelLen {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("This model's maximum context length is %d tokens, but %d were requested (%d in the prompt, %d for the completion)",
			s.spec.maxModelLen, prompted+asked, prompted, asked))
		return
	}
	limit, word := asked, "max_tokens"
	if end := text.naturalLength(); !req.IgnoreEOS && end < limit {
		limit, word = end, "eos"
	}
	seq := s.engine.submit(prompted, limit)
	defer seq.cancelled.Store(true)
	a := &answer{id: "cmpl-" + randomID()[:32], chat: chat, model: s.spec.served, created: arrived.Unix(), text: text, prompted: prompted, limit: limit, word: word, arrived: arrived}
	if s.spec.framework != "atom" && !chat && req.Echo && req.Logprobs != nil {
		a.echo = prompt
	}
	var err error
	if req.Stream {
		err = a.stream(r.Context(), w, seq)
	} else {
		err = a.whole(r.Context(), w, seq)
	}
	if err == nil {
		n := s.served.Add(1)
		f := s.faults()
		s.onFault(f)
		if f.ServerDiesAfter > 0 && n >= int64(f.ServerDiesAfter) && s.mayDie(f) {
			s.die(errEngineDied)
		}
	}
}

// variant is what answers vary by: nothing at temperature 0, else the seed of
// the request, or the count of requests.
func (s *server) variant(req generateRequest, f Faults) uint64 {
	switch {
	case f.Answers == AnswersDrift:
	case req.Temperature != nil && *req.Temperature <= 0:
		return 0
	case req.Seed != nil:
		return uint64(*req.Seed) + 1
	}
	return s.drifts.Add(1)
}

// An answer is one reply under way.
type answer struct {
	id, model, word string
	chat            bool
	echo            string // prompt to be scored, vLLM and SGLang only
	created         int64
	text            generated
	prompted, limit int
	arrived         time.Time
}

func (a *answer) whole(ctx context.Context, w http.ResponseWriter, q *sequence) error {
	var first, last time.Time
	for done := false; !done; {
		var err error
		if _, done, err = q.stream.next(ctx); err != nil {
			return err
		}
		last = time.Now()
		if first.IsZero() {
			first = last
		}
	}
	var b strings.Builder
	for i := range a.limit {
		b.WriteString(a.text.token(i))
	}
	type usage struct {
		Prompt     int     `json:"prompt_tokens"`
		Completion int     `json:"completion_tokens"`
		Total      int     `json:"total_tokens"`
		TTFT       float64 `json:"ttft_s"`
		TPOT       float64 `json:"tpot_s"`
		Latency    float64 `json:"latency_s"`
	}
	u := usage{a.prompted, a.limit, a.prompted + a.limit, first.Sub(a.arrived).Seconds(), 0, last.Sub(a.arrived).Seconds()}
	if a.limit > 1 {
		u.TPOT = last.Sub(first).Seconds() / float64(a.limit-1)
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type choice struct {
		Index   int      `json:"index"`
		Text    *string  `json:"text,omitempty"`
		Message *message `json:"message,omitempty"`
		Reason  string   `json:"finish_reason"`
		Scores  *scores  `json:"logprobs,omitempty"`
	}
	c, object, text := choice{Reason: a.word}, "text_completion", b.String()
	if a.chat {
		text = strings.TrimSpace(text)
		object, c.Message, c.Reason = "chat.completion", &message{"assistant", text}, "stop"
		if a.word == "max_tokens" {
			c.Reason = "length"
		}
	} else {
		if a.echo != "" {
			text = a.echo + text
			c.Scores = score(text)
		}
		c.Text = &text
	}
	reply(w, http.StatusOK, struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
		Usage   usage    `json:"usage"`
		KV      any      `json:"kv_transfer_params"`
	}{a.chatID(), object, a.created, a.model, []choice{c}, u, nil})
	return nil
}

func (a *answer) chatID() string {
	if a.chat {
		return "chat" + a.id
	}
	return a.id
}

// stream sends one frame per wake-up, with all tokens that have come since, and
// closes with the finish frame, the usage frame and the end mark in one write,
// as ATOM does.
func (a *answer) stream(ctx context.Context, w http.ResponseWriter, q *sequence) error {
	flush := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	object, before, after := "text_completion", `"text": `, `, "finish_reason": `
	if a.chat {
		object, before, after = "chat.completion.chunk", `"delta": {"content": `, `}, "finish_reason": `
	}
	model, err := json.Marshal(a.model)
	if err != nil {
		return err
	}
	head := fmt.Sprintf(`data: {"id": %q, "object": %q, "created": %d, "model": %s, "choices": `, a.chatID(), object, a.created, model)
	frame := func(b []byte, text []byte, reason string) []byte {
		b = append(b, head...)
		b = append(b, `[{"index": 0, `...)
		b = append(b, before...)
		b = append(b, text...)
		b = append(b, after...)
		b = append(b, reason...)
		return append(b, ", \"logprobs\": null}]}\n\n"...)
	}
	var buf, text []byte
	if a.chat {
		buf = append(buf, head...)
		buf = append(buf, "[{\"index\": 0, \"delta\": {\"role\": \"assistant\", \"content\": \"\"}, \"finish_reason\": null}]}\n\n"...)
	}
	sent := 0
	for done := false; !done; {
		var n int
		if n, done, err = q.stream.next(ctx); err != nil {
			return err
		}
		text = append(text[:0], '"')
		for range n {
			text = appendJSONText(text, a.text.token(sent))
			sent++
		}
		text = append(text, '"')
		reason := "null"
		if done && !a.chat {
			reason = `"` + a.word + `"`
		}
		buf = frame(buf, text, reason)
		if done {
			final := `"stop"`
			if a.chat && a.word == "max_tokens" {
				final = `"length"`
			}
			buf = frame(buf, []byte(`""`), final)
			buf = append(buf, head...)
			buf = fmt.Appendf(buf, "[], \"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, \"total_tokens\": %d}}\n\ndata: [DONE]\n\n", a.prompted, sent, a.prompted+sent)
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		if err := flush.Flush(); err != nil {
			return err
		}
		buf = buf[:0]
	}
	return nil
}
