package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// A QuantResult is checks/quant.json (ACC-7): the answer to one prompt at
// temperature 0, and whether it is the reference's.
type QuantResult struct {
	Header
	Model         string `json:"model"`
	Prompt        string `json:"probe_prompt"`
	MaxTokens     int    `json:"max_tokens"`
	Text          string `json:"probe_text,omitempty"`   // trimmed; at most 4 KiB
	SHA256        string `json:"probe_sha256,omitempty"` // of the whole trimmed answer, hex
	Chars         int    `json:"probe_chars,omitempty"`  // of the whole trimmed answer
	ReferenceStem string `json:"reference_config_stem,omitempty"`
	// Reference is the stored result that was compared with; absent without one.
	Reference *QuantReference `json:"reference,omitempty"`
	// Match is 1 when both answers are the same and 0 when not; absent when nothing
	// was compared.
	Match *float64 `json:"probe_match,omitempty"`
}

// A QuantReference is an earlier checks/quant.json.
type QuantReference struct {
	Path    string `json:"path"`
	Model   string `json:"model,omitempty"`
	SHA256  string `json:"probe_sha256,omitempty"`
	Chars   int    `json:"probe_chars,omitempty"`
	Problem string `json:"problem,omitempty"` // why it was not compared
}

const quantTokens = 32

// Quant asks the probe and compares the answer with a stored one. RefPath names
// the reference in the result, ref is its content; an empty path is no reference.
// A request that fails or brings no text is a failed check. A reference that cannot
// be used leaves the check done, without Match and with the problem.
func Quant(ctx context.Context, s Server, q plan.QuantParity, refPath string, ref []byte) QuantResult {
	r := QuantResult{Header: s.begin(QuantCheck), Model: s.Model, Prompt: q.ProbePrompt, MaxTokens: quantTokens, ReferenceStem: q.ReferenceStem}
	text, sum, err := fingerprint(ctx, s, q.ProbePrompt, quantTokens)
	if err != nil {
		r.fail(err)
	} else {
		r.Text, r.SHA256, r.Chars = clip(text, maxExcerpt), sum, utf8.RuneCountInString(text)
	}
	if refPath != "" {
		r.compare(refPath, ref)
	}
	s.end(ctx, &r.Header)
	return r
}

func (r *QuantResult) compare(path string, data []byte) {
	r.Reference = &QuantReference{Path: path}
	ref, err := ReadQuant(data)
	switch {
	case err != nil:
		r.Reference.Problem = clip(err.Error(), 500)
	case ref.Prompt != r.Prompt || ref.MaxTokens != r.MaxTokens:
		r.Reference.Problem = fmt.Sprintf("the reference answered another question: %q, %d tokens", clip(ref.Prompt, 200), ref.MaxTokens)
	}
	r.Reference.Model, r.Reference.SHA256, r.Reference.Chars = ref.Model, ref.SHA256, ref.Chars
	if r.Reference.Problem != "" {
		r.note("not compared with %s: %s", path, r.Reference.Problem)
		return
	}
	if r.SHA256 == "" {
		return // the failure is already told
	}
	var match float64
	if r.SHA256 == ref.SHA256 {
		match = 1
	}
	r.Match = &match
}

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// MaxQuant is the largest file, in bytes, that can be a reference.
const MaxQuant = 1 << 20

// ReadQuant reads a stored checks/quant.json. The error says why it cannot be a
// reference.
func ReadQuant(data []byte) (QuantResult, error) {
	var r QuantResult
	if len(data) > MaxQuant {
		return r, errors.New("not a stored probe: the file is too large")
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("not a stored probe: %w", err)
	}
	switch {
	case r.Check != QuantCheck:
		return QuantResult{}, fmt.Errorf("not a stored probe: check is %q", clip(r.Check, 60))
	case r.Version > Version:
		return QuantResult{}, fmt.Errorf("a stored probe of the newer version %d", r.Version)
	case r.Status != artifact.Done:
		return QuantResult{}, errors.New("that probe failed: " + clip(r.Reason, 200))
	}
	if r.SHA256 = strings.ToLower(r.SHA256); !sha256Pattern.MatchString(r.SHA256) {
		return QuantResult{}, errors.New("that probe has no fingerprint")
	}
	return r, nil
}
