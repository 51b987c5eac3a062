package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A workload is what a benchmark client sends.
type workload struct {
	url, model  string
	chat        bool
	ignoreEOS   bool
	concurrency int     // 0 is unbounded
	rate        float64 // requests per second, +Inf for all at once
	burstiness  float64
	requests    []request
	lag         time.Duration // before each look at an answer
}

// A request is one prompt with its lengths in tokens.
type request struct {
	prompt        string
	input, output int
}

// A measurement is what the client saw of one request.
type measurement struct {
	ok      bool
	errText string
	start   time.Time
	ttft    float64   // s, request sent to first frame with choices
	itl     []float64 // s, between frames with choices
	latency float64   // s, to the last frame with choices
	tokens  int       // from the server's usage frame
	text    string
}

// randomRequests makes prompts of words, whose lengths are drawn by length.
func randomRequests(rng *rand.Rand, n, prefix int, input, output func(*rand.Rand) int) []request {
	out := make([]request, n)
	var b strings.Builder
	word := func() { b.WriteString(vocabulary[rng.IntN(len(vocabulary))]); b.WriteByte(' ') }
	for range prefix {
		word()
	}
	shared := b.String()
	for i := range out {
		out[i].input, out[i].output = input(rng), output(rng)
	}
	for i := range out {
		b.Reset()
		b.WriteString(shared)
		for range out[i].input {
			word()
		}
		out[i].prompt = strings.TrimSpace(b.String())
		out[i].input += prefix
	}
	return out
}

// between draws whole numbers of a closed interval.
func between(lo, hi int) func(*rand.Rand) int {
	lo = max(1, lo)
	hi = max(lo, hi)
	return func(r *rand.Rand) int { return lo + r.IntN(hi-lo+1) }
}

// newHTTPClient opens one connection per request under way and keeps it.
func newHTTPClient(concurrency int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: max(1, concurrency), DisableCompression: true, Proxy: nil}}
}

// run sends all requests and returns what was seen, in the order of the
// requests, and how long it took.
func (w *workload) run(ctx context.Context, client *http.Client, rng *rand.Rand) ([]measurement, time.Time, time.Duration) {
	out := make([]measurement, len(w.requests))
	limit := w.concurrency
	if limit <= 0 {
		limit = len(w.requests)
	}
	slots := make(chan struct{}, max(1, limit))
	start := time.Now()
	due := start
	var wg sync.WaitGroup
	for i := range w.requests {
		if i > 0 && !math.IsInf(w.rate, 1) {
			due = due.Add(time.Duration(interval(rng, w.rate, w.burstiness) * float64(time.Second)))
			if !sleep(ctx, time.Until(due)) {
				break
			}
		}
		// With all requests due at once only as many goroutines exist as may
		// run; with a rate the queue in front of the limit has to exist.
		if math.IsInf(w.rate, 1) {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				out[i] = w.send(ctx, client, w.requests[i])
			})
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i] = w.send(ctx, client, w.requests[i])
		})
	}
	wg.Wait()
	return out, start, time.Since(start)
}

// interval draws from a gamma distribution with shape burstiness and mean
// 1/rate; burstiness 1 is a Poisson process.
func interval(rng *rand.Rand, rate, burstiness float64) float64 {
	if burstiness == 1 {
		return rng.ExpFloat64() / rate
	}
	return gamma(rng, burstiness) / (rate * burstiness)
}

// gamma draws from the gamma distribution of that shape and scale 1, by
// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(rng, shape+1) * math.Pow(rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(rng.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// benchBody is the request body of the clients, field for field.
type benchBody struct {
	Model         string        `json:"model"`
	Prompt        string        `json:"prompt,omitempty"`
	Messages      []benchPrompt `json:"messages,omitempty"`
	Temperature   float64       `json:"temperature"`
	BestOf        int           `json:"best_of"`
	MaxTokens     int           `json:"max_tokens"`
	Logprobs      *int          `json:"logprobs"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	IgnoreEOS bool `json:"ignore_eos"`
}

type benchPrompt struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (w *workload) send(ctx context.Context, client *http.Client, r request) (m measurement) {
	body := benchBody{Model: w.model, Prompt: r.prompt, BestOf: 1, MaxTokens: r.output, Stream: true, IgnoreEOS: w.ignoreEOS}
	if w.chat {
		body.Prompt, body.Messages = "", []benchPrompt{{"user", r.prompt}}
	}
	body.StreamOptions.IncludeUsage = true
	data, err := json.Marshal(body)
	if err != nil {
		m.errText = err.Error()
		return m
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(data))
	if err != nil {
		m.errText = err.Error()
		return m
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer None")
	m.start = time.Now()
	resp, err := client.Do(req)
	if err != nil {
		m.errText = "Traceback (most recent call last):\naiohttp.client_exceptions.ClientConnectorError: " + err.Error()
		return m
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		m.errText = http.StatusText(resp.StatusCode)
		return m
	}
	var in io.Reader = resp.Body
	if w.lag > 0 {
		in = lateReader{ctx, in, w.lag}
	}
	if err := m.read(in); err != nil {
		m.errText = "Traceback (most recent call last):\naiohttp.client_exceptions.ClientPayloadError: " + err.Error()
	}
	return m
}

// A frame is the part of a server-sent event that the client looks at.
type frame struct {
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

// read takes the stream's times the way the real clients do: every frame with
// choices counts, the empty one with the finish reason too.
func (m *measurement) read(body io.Reader) error {
	in := bufio.NewReaderSize(body, 32<<10) // the longest frame: all tokens of a client that lags
	var text strings.Builder
	last, seen := m.start, false
	tokens := -1
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(bytes.TrimSpace(line)) == 0 {
			break
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading the stream: %w", err)
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok || bytes.Equal(data, []byte("[DONE]")) {
			continue
		}
		var f frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("decoding a frame: %w", err)
		}
		if len(f.Choices) > 0 {
			now := time.Now()
			if !seen {
				seen = true
				m.ttft = now.Sub(m.start).Seconds()
			} else {
				m.itl = append(m.itl, now.Sub(last).Seconds())
			}
			last = now
			text.WriteString(f.Choices[0].Text)
			text.WriteString(f.Choices[0].Delta.Content)
		}
		if f.Usage != nil {
			tokens = f.Usage.Completion
		}
	}
	m.text = text.String()
	m.latency = last.Sub(m.start).Seconds()
	if !seen {
		m.errText = "Never received a valid chunk to calculate TTFT.This response will be marked as failed!"
		return nil
	}
	if m.tokens = tokens; tokens < 0 {
		m.tokens = countTokens(m.text)
	}
	m.ok = true
	return nil
}
