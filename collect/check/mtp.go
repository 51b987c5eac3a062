package check

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"cvs/collect/plan"
	"cvs/collect/strictjson"
)

// An MTPResult is checks/mtp.json (ACC-4/5/13). Metrics has the names that the
// threshold key mtp_quality uses; a metric that could not be had is not in it, and
// Missing says why.
type MTPResult struct {
	Header
	Model   string             `json:"model"`
	Metrics map[string]float64 `json:"metrics"`
	Missing map[string]string  `json:"missing,omitempty"` // metric → why it is not there

	// Source says where the acceptance comes from: artefact or mtp_stats.
	Source         string       `json:"source,omitempty"`
	TemplatePrompt string       `json:"chat_template_prompt"`
	TemplateText   string       `json:"chat_template_text,omitempty"`   // the answer, trimmed; at most 4 KiB
	TemplateSHA256 string       `json:"chat_template_sha256,omitempty"` // of the whole trimmed answer
	ExpectedSHA256 string       `json:"chat_template_expected_sha256,omitempty"`
	Completions    []Completion `json:"completions"` // real answers, looked at for repeats
}

// The metrics of an MTPResult.
const (
	MTPAcceptanceRate   = "mtp.acceptance_rate"           // accepted / drafted tokens, 0..1
	MTPAcceptLength     = "mtp.accept_length"             // tokens a forward pass, 1 or more
	MTPDegenerateRatio  = "mtp.empty_or_repeat_ratio"     // degenerate / all completions, 0..1
	ChatTemplateOK      = "accuracy.chat_template_ok"     // 1: the fingerprint is the expected one, 0: it is not
	chatTemplateMissing = "accuracy.chat_template_sha256" // a text; only in Missing
)

// A Completion is one real answer and what is wrong with it.
type Completion struct {
	Prompt     string `json:"prompt"`
	Text       string `json:"text"` // at most 4 KiB
	Chars      int    `json:"chars"`
	Degenerate string `json:"degenerate,omitempty"` // why: empty, short, or the repeated text
	Error      string `json:"error,omitempty"`      // no answer: not counted as a completion
}

// Acceptance is what a benchmark's result says about drafts. Nil is not known.
type Acceptance struct {
	Rate   *float64 // accepted / drafted, 0..1
	Length *float64 // tokens a forward pass
}

// ReadAcceptance takes the acceptance from a client's result: ATOM's
// acceptance_rate (a fraction) and accept_length, SGLang's accept_length, vLLM's
// spec_decode_acceptance_rate (percent) and spec_decode_acceptance_length. Of
// several lines the last counts.
func ReadAcceptance(data []byte) (Acceptance, error) {
	var a Acceptance
	o := strictjson.Options{NonFinite: true, KeepDuplicates: true, SkipLists: true}
	var last *strictjson.Value
	for at := 0; len(bytes.TrimSpace(data[at:])) > 0; {
		v, _, end, err := strictjson.ParseAt(data, at, o)
		if err != nil {
			return a, fmt.Errorf("reading the acceptance: %w", err)
		}
		last, at = v, end
	}
	number := func(name string, scale float64) *float64 {
		f, err := last.Get(name).Float()
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
		f *= scale
		return &f
	}
	if a.Rate = number("acceptance_rate", 1); a.Rate == nil {
		a.Rate = number("spec_decode_acceptance_rate", 0.01)
	}
	if a.Length = number("accept_length", 1); a.Length == nil {
		a.Length = number("spec_decode_acceptance_length", 1)
	}
	return a, nil
}

// probePrompts ask for plain prose: lists, tables and code repeat by nature.
var probePrompts = []string{
	"Describe in two sentences how rain forms.",
	"Write two sentences about a walk through an old town.",
	"Explain in two sentences why the sky is blue.",
	"Tell in two sentences what a librarian does.",
	"Describe in two sentences how bread is baked.",
	"Write two sentences about the first snow of a winter.",
	"Explain in two sentences how a bicycle stays upright.",
	"Tell in two sentences what makes a good map.",
}

const (
	probeTimeout   = 120 * time.Second
	probeTokens    = 128
	templateTokens = 64
)

// MTP measures draft quality: acceptance from the artefact's numbers or else the
// server's own counters, the share of degenerate answers among real ones, and the
// fingerprint of the chat template at temperature 0.
func MTP(ctx context.Context, s Server, q plan.MTPQuality, known Acceptance) MTPResult {
	r := MTPResult{Header: s.begin(MTPCheck), Model: s.Model, Metrics: map[string]float64{}, Missing: map[string]string{},
		TemplatePrompt: q.Prompt, ExpectedSHA256: strings.ToLower(q.ExpectedSHA256), Completions: []Completion{}}
	r.acceptance(ctx, s, known)
	r.degenerate(ctx, s)
	r.template(ctx, s, q.Prompt)
	if len(r.Metrics) == 0 && r.TemplateSHA256 == "" {
		r.fail(errors.New("nothing could be measured: " + r.Missing[MTPDegenerateRatio]))
	}
	s.end(ctx, &r.Header)
	return r
}

func (r *MTPResult) acceptance(ctx context.Context, s Server, a Acceptance) {
	if a.Rate != nil || a.Length != nil {
		r.Source = "artefact"
	} else {
		var err error
		if a, err = mtpStats(ctx, s); err != nil {
			r.Missing[MTPAcceptanceRate], r.Missing[MTPAcceptLength] = clip(err.Error(), 500), clip(err.Error(), 500)
			return
		}
		r.Source = "mtp_stats"
	}
	put := func(name string, v *float64, low, high float64) {
		switch {
		case v == nil:
			r.Missing[name] = "not reported"
		case !(*v >= low && *v <= high): // NaN too
			r.Missing[name] = fmt.Sprintf("%v is out of range: expected %v to %v", *v, low, high)
		default:
			r.Metrics[name] = *v
		}
	}
	put(MTPAcceptanceRate, a.Rate, 0, 1)
	put(MTPAcceptLength, a.Length, 0, 1000)
}

// mtpStats reads ATOM's counters, cumulative since the server's start.
func mtpStats(ctx context.Context, s Server) (Acceptance, error) {
	rep := s.do(ctx, mtpStatsPath, nil, 30*time.Second)
	if err := rep.problem(); err != nil {
		return Acceptance{}, fmt.Errorf("GET %s: %w", mtpStatsPath, err)
	}
	v, _, err := strictjson.Parse(rep.Body, strictjson.Options{NonFinite: true, KeepDuplicates: true})
	if err != nil {
		return Acceptance{}, fmt.Errorf("GET %s: %w", mtpStatsPath, err)
	}
	if on := v.Get("enabled"); on != nil && on.Kind == strictjson.Bool && !on.Bool {
		return Acceptance{}, fmt.Errorf("GET %s: speculative decoding is off", mtpStatsPath)
	}
	var a Acceptance
	if total, err := v.Get("total_draft_tokens").Float(); err == nil && total == 0 {
		return a, fmt.Errorf("GET %s: no token was drafted yet", mtpStatsPath)
	}
	if f, err := v.Get("acceptance_rate").Float(); err == nil {
		a.Rate = &f
	}
	if f, err := v.Get("average_tokens_per_forward").Float(); err == nil {
		a.Length = &f
	}
	return a, nil
}

func (r *MTPResult) degenerate(ctx context.Context, s Server) {
	bad, n := 0, 0
	for _, prompt := range probePrompts {
		c := Completion{Prompt: prompt}
		a, _, err := s.ask(ctx, chatPath, s.user(prompt, probeTokens), probeTimeout)
		if err != nil {
			c.Error = clip(err.Error(), 500)
		} else {
			text, _ := a.text()
			n++
			c.Text, c.Chars, c.Degenerate = clip(text, maxExcerpt), utf8.RuneCountInString(text), Degenerate(text)
			if c.Degenerate != "" {
				bad++
			}
		}
		r.Completions = append(r.Completions, c)
		if ctx.Err() != nil {
			break
		}
	}
	if n == 0 {
		r.Missing[MTPDegenerateRatio] = "no request was answered: " + r.Completions[0].Error
		return
	}
	if n < len(r.Completions) {
		r.note("%d of %d completions were not answered and are not counted", len(r.Completions)-n, len(r.Completions))
	}
	r.Metrics[MTPDegenerateRatio] = float64(bad) / float64(n)
}

func (r *MTPResult) template(ctx context.Context, s Server, prompt string) {
	text, sum, err := fingerprint(ctx, s, prompt, templateTokens)
	if err != nil {
		r.Missing[chatTemplateMissing] = clip(err.Error(), 500)
		if r.ExpectedSHA256 != "" {
			r.Missing[ChatTemplateOK] = r.Missing[chatTemplateMissing]
		}
		return
	}
	r.TemplateText, r.TemplateSHA256 = clip(text, maxExcerpt), sum
	if r.ExpectedSHA256 != "" {
		r.Metrics[ChatTemplateOK] = 0
		if sum == r.ExpectedSHA256 {
			r.Metrics[ChatTemplateOK] = 1
		}
	}
}

// fingerprint asks at temperature 0 and hashes the trimmed answer. A failed
// request and an empty answer are errors: the hash of nothing means nothing.
func fingerprint(ctx context.Context, s Server, prompt string, maxTokens int) (text, sum string, err error) {
	a, _, err := s.ask(ctx, chatPath, s.user(prompt, maxTokens), probeTimeout)
	if err != nil {
		return "", "", err
	}
	text, _ = a.text()
	if text = strings.TrimSpace(text); text == "" {
		return "", "", fmt.Errorf("POST %s: the answer is empty", chatPath)
	}
	h := sha256.Sum256([]byte(text))
	return text, hex.EncodeToString(h[:]), nil
}

// The limits of spec 02 §16: a text is degenerate if it is shorter than minChars
// or holds a piece of 1 to maxPeriod characters at least minRepeats times in a row.
const (
	minChars   = 8
	maxPeriod  = 32
	minRepeats = 5
)

// Degenerate says why a text is none that a working model writes: empty, short, or
// the piece it repeats. "" is a healthy text. Go's regular expressions have no back
// references, so every period is scanned.
func Degenerate(text string) string {
	runes := []rune(strings.TrimSpace(text))
	switch {
	case len(runes) == 0:
		return "empty"
	case len(runes) < minChars:
		return fmt.Sprintf("only %d characters", len(runes))
	}
	for period := 1; period <= maxPeriod; period++ {
		run := 0 // characters equal to the one a period before
		for i := period; i < len(runes); i++ {
			if runes[i] != runes[i-period] {
				run = 0
				continue
			}
			if run++; run == period*(minRepeats-1) {
				return fmt.Sprintf("%q %d times in a row", string(runes[i-period+1:i+1]), minRepeats)
			}
		}
	}
	return ""
}
