// Package check answers the questions a sign-off asks beside speed: does the
// server speak its API, is it accurate, does it find a needle, do its drafts
// help, did quantisation change it, did the kernel complain, what did the GPUs
// do meanwhile.
//
// Requests go to a server through whatever [http.Client] the caller has, a tunnel
// for example; commands go through a [Runner], and every command is also there as
// an argument list, so that a dry run can show it. Each check returns one result
// struct that marshals to JSON: the evidence, which the caller keeps byte for
// byte. A check that could not be carried out says so in its [Header] and is never
// mistaken for one that passed.
//
// This package records facts, and whether the assertions of a functional check
// held. It must not know thresholds, a run directory, a database or how a container
// is entered; it reads no environment variable.
package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"cvs/collect/artifact"
	"cvs/collect/remote"
)

// Version is the version of the result files that this package writes.
const Version = 1

// The values of [Header.Check], by which a reader recognises a result file.
const (
	FunctionalCheck  = "functional"
	AccuracyCheck    = "accuracy"
	LongContextCheck = "long_context_accuracy"
	MTPCheck         = "mtp_quality"
	QuantCheck       = "quant_parity"
	DmesgCheck       = "dmesg"
	GPUCheck         = "gpu"
)

// A Header opens every result file.
type Header struct {
	Check   string `json:"check"`
	Version int    `json:"version"`
	// Status is done when the check was carried out, whatever it found; failed
	// when it could not be; skipped or interrupted otherwise.
	Status    artifact.Status `json:"status"`
	Reason    string          `json:"reason,omitempty"` // of any other status than done
	StartedAt time.Time       `json:"started_at"`       // UTC, clock of the launcher
	EndedAt   time.Time       `json:"ended_at"`         // UTC
	// ConfigDigest identifies what the check asked and of which server, so that a
	// resumed run can tell whether the answer still stands; "" if nobody said.
	ConfigDigest string `json:"config_digest,omitempty"`
	// Notes are facts a reader should know: what was missing, cut or estimated.
	Notes []string `json:"notes,omitempty"`
}

// Note adds a fact to a result.
func (h *Header) Note(format string, args ...any) { h.note(format, args...) }

func (h *Header) note(format string, args ...any) {
	h.Notes = append(h.Notes, clip(fmt.Sprintf(format, args...), 500))
}

func (h *Header) fail(err error) {
	h.Status, h.Reason = artifact.Failed, clip(err.Error(), 2000)
}

func (h *Header) skip(format string, args ...any) {
	h.Status, h.Reason = artifact.Skipped, fmt.Sprintf(format, args...)
}

// A Runner runs one command on a host; [remote.Host] is one. Its error means that
// the command's own status was not learned.
type Runner interface {
	Run(ctx context.Context, c remote.Command) (remote.Result, error)
}

// A Server is where requests go.
type Server struct {
	HTTP    *http.Client     // reaches BaseURL
	BaseURL string           // scheme, host and port
	Model   string           // the served model's name
	Now     func() time.Time // nil is time.Now
}

func (s Server) now() time.Time { return clock(s.Now) }

func clock(now func() time.Time) time.Time {
	if now == nil {
		now = time.Now
	}
	return now().UTC()
}

func (s Server) begin(check string) Header {
	return Header{Check: check, Version: Version, Status: artifact.Done, StartedAt: s.now()}
}

// end closes a result; an interrupted one is not a failed one.
func (s Server) end(ctx context.Context, h *Header) {
	h.EndedAt = s.now()
	if ctx.Err() != nil && h.Status != artifact.Skipped {
		h.Status, h.Reason = artifact.Interrupted, context.Cause(ctx).Error()
	}
}

// maxReply bounds what is read of a reply: the longest answers asked for have a
// few thousand tokens.
const maxReply = 4 << 20

// A reply is what a request brought. Status is 0 when there was no HTTP reply; Err
// then says why.
type reply struct {
	Status  int
	Body    []byte
	Latency time.Duration
	Err     error
}

// do sends one request. Body nil is a GET. What comes back is never an error of
// do: a check wants to record it.
func (s Server) do(ctx context.Context, path string, body any, limit time.Duration) reply {
	began := s.now()
	r := s.roundTrip(ctx, path, body, limit)
	r.Latency = s.now().Sub(began)
	return r
}

func (s Server) roundTrip(ctx context.Context, path string, body any, limit time.Duration) reply {
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return reply{Err: err}
		}
		method = http.MethodPost
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.BaseURL, "/")+path, bytes.NewReader(text))
	if err != nil {
		return reply{Err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return reply{Err: err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	r := reply{Status: resp.StatusCode, Body: data}
	switch {
	case err != nil:
		r.Err = fmt.Errorf("reading the reply: %w", err)
	case len(data) > maxReply:
		r.Body, r.Err = data[:maxReply], fmt.Errorf("the reply is longer than %d bytes", maxReply)
	}
	return r
}

// problem says why a reply cannot be used, nil if it can: no reply, or a status
// other than 200.
func (r reply) problem() error {
	switch {
	case r.Status == 0:
		return r.Err
	case r.Status != http.StatusOK:
		return fmt.Errorf("status %d, expected 200: %s", r.Status, clip(strings.TrimSpace(string(r.Body)), 300))
	}
	return r.Err
}

// A chatRequest is a non-streaming request to /v1/chat/completions.
type chatRequest struct {
	Model       string          `json:"model"`
	Messages    []chatMessage   `json:"messages"`
	MaxTokens   int             `json:"max_tokens"`
	Temperature float64         `json:"temperature"`
	Format      *responseFormat `json:"response_format,omitempty"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type responseFormat struct {
	Type string `json:"type"`
}

// A completionRequest is a non-streaming request to /v1/completions.
type completionRequest struct {
	Model       string  `json:"model"`
	Prompt      string  `json:"prompt"`
	MaxTokens   int     `json:"max_tokens"`
	Temperature float64 `json:"temperature"`
}

// The endpoints that every framework serves.
const (
	healthPath     = "/health"
	modelsPath     = "/v1/models"
	completionPath = "/v1/completions"
	chatPath       = "/v1/chat/completions"
	mtpStatsPath   = "/debug/mtp_stats" // ATOM only
)

func (s Server) user(prompt string, maxTokens int) chatRequest {
	return chatRequest{Model: s.Model, Messages: []chatMessage{{"user", prompt}}, MaxTokens: maxTokens}
}

// An answer is the part of a chat or completion reply that checks look at.
type answer struct {
	Model   string `json:"model"`
	Choices []struct {
		Text    string `json:"text"`
		Finish  string `json:"finish_reason"`
		Message struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string `json:"reasoning"` // the name in newer vLLM
		} `json:"message"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
}

// text is the answer's text, and whether it is reasoning because there is no
// content.
func (a answer) text() (text string, reasoning bool) {
	c := a.Choices[0]
	if strings.TrimSpace(c.Message.Content) != "" {
		return c.Message.Content, false
	}
	for _, t := range []string{c.Message.ReasoningContent, c.Message.Reasoning} {
		if strings.TrimSpace(t) != "" {
			return t, true
		}
	}
	return c.Text, false
}

// ask sends a request and decodes its answer, which has at least one choice. The
// error says what was wrong with the reply, HTTP errors included.
func (s Server) ask(ctx context.Context, path string, body any, limit time.Duration) (answer, reply, error) {
	r := s.do(ctx, path, body, limit)
	var a answer
	if err := r.problem(); err != nil {
		return a, r, fmt.Errorf("POST %s: %w", path, err)
	}
	if err := json.Unmarshal(r.Body, &a); err != nil {
		return a, r, fmt.Errorf("POST %s: the reply is not what was expected: %w", path, err)
	}
	if len(a.Choices) == 0 {
		return a, r, fmt.Errorf("POST %s: the reply has no choices: %s", path, clip(string(r.Body), 300))
	}
	return a, r, nil
}

// clip replaces what is not UTF-8 and shortens text to at most n bytes, at a
// character, and a mark.
func clip(s string, n int) string {
	cut := len(s) > n
	s = strings.ToValidUTF8(s[:min(len(s), n)], "\uFFFD")
	if len(s) > n { // replacing made it longer
		cut = true
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	if cut {
		s += "…"
	}
	return s
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
