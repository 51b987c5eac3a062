package check

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fake is a server that can be told to be wrong. Its tokenizer counts words.
type fake struct {
	model          string
	status         map[string]int                        // by path; 200 unless stated
	raw            map[string]string                     // by path: the body instead of an answer
	say            func(chat bool, prompt string) string // the answer's text
	thinks         bool                                  // the text goes to reasoning_content
	tokens         func(text string) int                 // nil: one a word
	template       int                                   // tokens the chat template adds
	stats          string                                // body of /debug/mtp_stats, "" is 404
	mu             sync.Mutex
	inFlight, most int
	gate           chan struct{} // when set, chats of more than one token say so in arrived and wait here
	arrived        chan struct{}
}

func (f *fake) start(t *testing.T) Server {
	t.Helper()
	if f.model == "" {
		f.model = "some-org/some-model"
	}
	if f.say == nil {
		f.say = sensible
	}
	if f.tokens == nil {
		f.tokens = func(text string) int { return len(strings.Fields(text)) }
	}
	srv := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(srv.Close)
	return Server{HTTP: srv.Client(), BaseURL: srv.URL, Model: f.model, Now: ticking()}
}

// ticking is a clock that goes on a second at each look.
func ticking() func() time.Time {
	var mu sync.Mutex
	t := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		t = t.Add(time.Second)
		return t
	}
}

// sensible is what a good model says.
func sensible(chat bool, prompt string) string {
	switch {
	case strings.Contains(prompt, "book"):
		return `{"title": "Emma", "author": "Jane Austen", "year": 1815, "genre": "novel"}`
	case strings.Contains(prompt, needleBefore):
		_, rest, _ := strings.Cut(prompt, needleBefore)
		needle, _, _ := strings.Cut(rest, needleAfter)
		return "It is " + strings.ToLower(needle[:8]) + " " + needle[8:] + "."
	}
	return " Paris, a city on the Seine, is the one that was asked for."
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	if code := f.status[r.URL.Path]; code != 0 {
		w.WriteHeader(code)
	}
	if body, ok := f.raw[r.URL.Path]; ok {
		fmt.Fprint(w, body)
		return
	}
	switch r.URL.Path {
	case healthPath:
		fmt.Fprint(w, `{"status":"ok"}`)
	case modelsPath:
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"}]}`, f.model)
	case mtpStatsPath:
		if f.stats == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, f.stats)
	case completionPath, chatPath:
		f.generate(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (f *fake) generate(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model, Prompt string
		Messages      []chatMessage
		MaxTokens     int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	chat := r.URL.Path == chatPath
	prompt, count := req.Prompt, f.tokens(req.Prompt)
	for _, m := range req.Messages {
		prompt += m.Content
	}
	if chat {
		count = f.tokens(prompt) + f.template
	}
	f.mu.Lock()
	if chat && req.MaxTokens > 1 {
		f.inFlight++
		f.most = max(f.most, f.inFlight)
	}
	f.mu.Unlock()
	if chat && req.MaxTokens > 1 {
		if f.gate != nil {
			f.arrived <- struct{}{}
			<-f.gate
		}
		f.mu.Lock()
		f.inFlight--
		f.mu.Unlock()
	}
	text, err := json.Marshal(f.say(chat, prompt))
	if err != nil {
		panic(err)
	}
	choice := fmt.Sprintf(`"text":%s`, text)
	if chat {
		choice = fmt.Sprintf(`"message":{"role":"assistant","content":%s}`, text)
		if f.thinks {
			choice = fmt.Sprintf(`"message":{"role":"assistant","content":null,"reasoning_content":%s}`, text)
		}
	}
	fmt.Fprintf(w, `{"model":%q,"choices":[{"index":0,%s,"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":3}}`, f.model, choice, count)
}
