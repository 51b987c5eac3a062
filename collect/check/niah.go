package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode"

	"cvs/collect/plan"
)

// NIAHOptions are what a plan's long-context cells leave open.
type NIAHOptions struct {
	MaxModelLength int     // tokens the server takes in all; 0: not known
	Depth          float64 // of the needle, 0 (start, the default) to 1 (end)
	Concurrency    int     // requests in flight; 0 is 1
}

// A NIAHResult is checks/niah/<id>.json: one needle-in-a-haystack cell (ACC-12).
// PassRate is correct/total over every prompt, a failed request counting as a
// wrong answer; it is absent when nothing was asked.
type NIAHResult struct {
	Header
	Task        string       `json:"task"`       // long_ctx_niah
	MetricKey   string       `json:"metric_key"` // pass_rate
	ID          string       `json:"id"`
	Model       string       `json:"model"`
	ISL         int          `json:"isl"` // tokens of the prompt's text, chat template not counted
	OSL         int          `json:"osl"`
	Seed        int          `json:"seed"`
	Depth       float64      `json:"depth"`
	Concurrency int          `json:"concurrency"`
	MaxLength   int          `json:"max_model_length,omitempty"`
	Calibration *Calibration `json:"calibration,omitempty"`
	Correct     int          `json:"correct"`
	Errors      int          `json:"errors"` // requests without an answer, part of the wrong ones
	Total       int          `json:"total"`
	PassRate    *float64     `json:"pass_rate,omitempty"` // 0..1
	CILow       *float64     `json:"ci_low,omitempty"`    // Wilson score interval, 95 %
	CIHigh      *float64     `json:"ci_high,omitempty"`
	Results     []NIAHSample `json:"results"`
}

// A Calibration is how the prompt's length was found on the server's own count.
type Calibration struct {
	Requests       int     `json:"requests"`        // with max_tokens 1, all of them
	FillerWords    int     `json:"filler_words"`    // of the first prompt
	TokensPerWord  float64 `json:"tokens_per_word"` // of the filler
	PromptTokens   int     `json:"prompt_tokens"`   // that the server counted for the first prompt
	TemplateTokens int     `json:"template_tokens"` // that its chat template adds
	Exact          bool    `json:"exact"`           // PromptTokens is ISL
}

// A NIAHSample is one prompt and its answer.
type NIAHSample struct {
	Sample   int    `json:"sample"` // from 0
	Expected string `json:"expected"`
	Actual   string `json:"actual"` // at most 2 KiB; "ERROR: …" without an answer
	Passed   bool   `json:"passed"`
	// From says where the answer stood: content, or reasoning when there is no content.
	From             string  `json:"from,omitempty"`
	PromptTokens     int     `json:"prompt_tokens,omitempty"` // with the chat template
	CompletionTokens int     `json:"completion_tokens,omitempty"`
	LatencyMS        float64 `json:"latency_ms"`
}

// Limits of spec 02 §15.
const (
	niahRequest = 7200 * time.Second
	niahTotal   = 21600 * time.Second
)

// NIAH measures one cell. A cell that cannot fit into the model's context is
// skipped with the reason; a server that cannot be calibrated on is a failed check.
func NIAH(ctx context.Context, s Server, c plan.LongContextCell, o NIAHOptions) NIAHResult {
	o.Concurrency = max(o.Concurrency, 1)
	o.Depth = min(max(o.Depth, 0), 1)
	r := NIAHResult{Header: s.begin(LongContextCheck), Task: "long_ctx_niah", MetricKey: "pass_rate", ID: c.ID, Model: s.Model,
		ISL: c.ISL, OSL: c.OSL, Seed: c.Seed, Depth: o.Depth, Concurrency: o.Concurrency, MaxLength: o.MaxModelLength, Results: []NIAHSample{}}
	tctx, cancel := context.WithTimeout(ctx, niahTotal)
	defer cancel()
	r.run(tctx, s, c, o)
	s.end(ctx, &r.Header)
	return r
}

func (r *NIAHResult) run(ctx context.Context, s Server, c plan.LongContextCell, o NIAHOptions) {
	if !r.fits(0) {
		return
	}
	cal := &calibrator{s: s, needles: needles(c.Seed, c.NumPrompts), depth: o.Depth, isl: c.ISL}
	prompts, err := cal.prompts(ctx, r.fits)
	r.Calibration = &cal.Calibration
	if err != nil {
		if !errors.Is(err, errTooLong) {
			r.fail(fmt.Errorf("calibrating the prompt's length: %w", err))
		}
		return
	}
	if !cal.Exact {
		r.note("no amount of filler makes exactly %d tokens: the prompts have %d", c.ISL, cal.PromptTokens)
	}
	r.Results = make([]NIAHSample, len(prompts))
	var wg sync.WaitGroup
	slots := make(chan struct{}, o.Concurrency)
	for i, p := range prompts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r.Results[i] = askNeedle(ctx, s, i, cal.needles[i], p, c.OSL)
		})
	}
	wg.Wait()
	reasoning := 0
	for _, x := range r.Results {
		if x.Passed {
			r.Correct++
		}
		if x.From == "" {
			r.Errors++
		}
		if x.From == "reasoning" {
			reasoning++
		}
	}
	if reasoning > 0 {
		r.note("%d of %d answers had no content and were judged by their reasoning", reasoning, len(r.Results))
	}
	r.Total = len(r.Results)
	if ctx.Err() != nil { // the requests that were cut off say nothing about the model
		r.fail(fmt.Errorf("the cell did not end within %v", niahTotal))
		return
	}
	if r.Total > 0 {
		rate := float64(r.Correct) / float64(r.Total)
		low, high := Wilson(r.Correct, r.Total)
		r.PassRate, r.CILow, r.CIHigh = &rate, &low, &high
	}
}

// fits reports whether the cell fits into the context, and skips it if not.
func (r *NIAHResult) fits(template int) bool {
	if r.MaxLength == 0 || r.ISL+r.OSL+template <= r.MaxLength {
		return true
	}
	what := ""
	if template > 0 {
		what = fmt.Sprintf(" + %d of the chat template", template)
	}
	r.skip("ISL %d + OSL %d%s is more than the server's %d tokens", r.ISL, r.OSL, what, r.MaxLength)
	return false
}

func askNeedle(ctx context.Context, s Server, i int, needle, prompt string, osl int) NIAHSample {
	out := NIAHSample{Sample: i, Expected: needle}
	a, rep, err := s.ask(ctx, chatPath, s.user(prompt, osl), niahRequest)
	out.LatencyMS = millis(rep.Latency)
	if err != nil {
		out.Actual = clip("ERROR: "+err.Error(), 2<<10)
		return out
	}
	text, reasoning := a.text()
	out.From = "content"
	if reasoning {
		out.From = "reasoning"
	}
	out.Actual, out.Passed = clip(text, 2<<10), found(needle, text)
	out.PromptTokens, out.CompletionTokens = a.Usage.PromptTokens, a.Usage.CompletionTokens
	return out
}

// found compares as spec 02 §15: lower case, all white space removed.
func found(needle, text string) bool { return strings.Contains(squeeze(text), squeeze(needle)) }

func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// needles draws the pass keys of a cell from its seed: the same seed, the same
// keys, on every machine.
func needles(seed, n int) []string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	out := make([]string, n)
	for i := range out {
		b := []byte("NEEDLE-")
		for range 8 {
			b = append(b, letters[rng.IntN(len(letters))])
		}
		out[i] = string(b)
	}
	return out
}

// Wilson is the Wilson score interval of k successes in n trials at 95 %
// (Wilson 1927). It is [0, 1] for n = 0.
func Wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	p, m := float64(k)/float64(n), float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	low, high = mid-half, mid+half
	if k == 0 { // exactly, not up to rounding
		low = 0
	}
	if k == n {
		high = 1
	}
	return low, high
}
