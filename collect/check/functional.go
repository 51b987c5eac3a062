package check

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cvs/collect/plan"
	"cvs/collect/strictjson"
)

// The blocks of a functional check.
const (
	APISmoke    = "api_smoke"    // FUNC-1
	HealthCheck = "health_check" // FUNC-2
)

// A FunctionalResult is checks/functional.json: FUNC-1 and FUNC-2. Pass is the
// conjunction of the steps; a check that was not asked for has none.
type FunctionalResult struct {
	Header
	Model       string           `json:"model"`
	APISmoke    *bool            `json:"api_smoke,omitempty"`    // all its steps passed; absent when not asked for
	HealthCheck *bool            `json:"health_check,omitempty"` // likewise
	Pass        bool             `json:"pass"`
	Steps       []FunctionalStep `json:"steps"`
}

// A FunctionalStep is one request and what was wrong with its reply.
type FunctionalStep struct {
	Block     string   `json:"block"` // api_smoke or health_check
	ID        string   `json:"id"`
	Request   string   `json:"request"`    // method and path
	Status    int      `json:"status"`     // HTTP; 0: no reply
	LatencyMS float64  `json:"latency_ms"` // request sent to reply read
	Pass      bool     `json:"pass"`
	Failures  []string `json:"failures"` // every assertion that did not hold, in the order of the specification
	// Body is the start of the reply as text, at most 4 KiB; "" without one.
	Body string `json:"body,omitempty"`
}

const (
	stepTimeout = 120 * time.Second
	maxExcerpt  = 4 << 10
)

// Functional asks the server what FUNC-1 and FUNC-2 ask, one request after the
// other, and collects every assertion that does not hold. A step that cannot be
// answered does not stop the others.
func Functional(ctx context.Context, s Server, f plan.Functional) FunctionalResult {
	r := FunctionalResult{Header: s.begin(FunctionalCheck), Model: s.Model, Pass: true, Steps: []FunctionalStep{}}
	var steps []step
	if f.APISmoke {
		steps = append(steps, smokeSteps(s)...)
	}
	if f.HealthCheck {
		steps = append(steps, healthSteps(s)...)
	}
	if len(steps) == 0 {
		r.Pass = false
		r.skip("neither api_smoke nor health_check is requested")
	}
	for _, st := range steps {
		if ctx.Err() != nil {
			r.Pass = false
			break
		}
		got := s.do(ctx, st.path, st.body, stepTimeout)
		done := st.judge(got)
		r.Steps = append(r.Steps, done)
		r.Pass = r.Pass && done.Pass
		block := &r.APISmoke
		if st.block == HealthCheck {
			block = &r.HealthCheck
		}
		pass := done.Pass && (*block == nil || **block)
		*block = &pass
	}
	s.end(ctx, &r.Header)
	return r
}

// A step is one request and the assertions on its reply.
type step struct {
	block, id, path string
	body            any
	check           func(*strictjson.Value) []string // nil: only the status counts
}

func smokeSteps(s Server) []step {
	chat := s.user("Reply with the single word OK.", 8)
	book := chatRequest{Model: s.Model, MaxTokens: 256, Format: &responseFormat{"json_object"}, Messages: []chatMessage{
		{"system", "You answer with one JSON object and nothing else."},
		{"user", "Describe one well-known book as a JSON object with the keys title, author, year and genre."},
	}}
	prompt := completionRequest{Model: s.Model, Prompt: "The capital of France is", MaxTokens: 50}
	return []step{
		{APISmoke, "model_endpoint", modelsPath, nil, checkModels},
		{APISmoke, "chat_completion_endpoint", chatPath, chat, checkChat},
		{APISmoke, "completion_endpoint", completionPath, prompt, checkCompletion},
		{APISmoke, "structured_output_book", chatPath, book, checkBook},
	}
}

func healthSteps(s Server) []step {
	return []step{
		{block: HealthCheck, id: "health", path: healthPath},
		{block: HealthCheck, id: "models", path: modelsPath},
		{block: HealthCheck, id: "completion", path: completionPath, body: completionRequest{Model: s.Model, Prompt: "hi", MaxTokens: 1}},
	}
}

func (st step) judge(r reply) FunctionalStep {
	out := FunctionalStep{Block: st.block, ID: st.id, Request: "GET " + st.path, Status: r.Status,
		LatencyMS: millis(r.Latency), Body: clip(string(r.Body), maxExcerpt), Failures: []string{}}
	if st.body != nil {
		out.Request = "POST " + st.path
	}
	switch {
	case r.Status == 0:
		out.Failures = append(out.Failures, "no reply: "+clip(r.Err.Error(), 500))
	default:
		if r.Status != http.StatusOK {
			out.Failures = append(out.Failures, fmt.Sprintf("status %d, expected 200", r.Status))
		}
		if r.Err != nil {
			out.Failures = append(out.Failures, r.Err.Error())
		}
		if st.check != nil {
			out.Failures = append(out.Failures, checkBody(r.Body, st.check)...)
		}
	}
	out.Pass = len(out.Failures) == 0
	return out
}

// checkBody parses a reply as leniently as its writers need and hands it on when
// it is an object.
func checkBody(body []byte, check func(*strictjson.Value) []string) []string {
	v, _, err := strictjson.Parse(body, strictjson.Options{NonFinite: true, KeepDuplicates: true})
	if err != nil {
		return []string{"the body is not JSON: " + clip(err.Error(), 300)}
	}
	if v.Kind != strictjson.Object {
		return []string{"the body is a JSON " + v.Kind.String() + ", expected an object"}
	}
	return check(v)
}

func checkModels(v *strictjson.Value) []string {
	data := v.Get("data")
	if data == nil || data.Kind != strictjson.Array || len(data.Items) == 0 {
		return []string{"data is not a list with at least one model"}
	}
	if first := data.Items[0]; !filled(first.Get("id")) && !filled(first.Get("model")) {
		return []string{"the first model in data has neither id nor model"}
	}
	return nil
}

// choice asserts what every generation has in common and returns the first
// choice, nil if there is none.
func choice(v *strictjson.Value) (first *strictjson.Value, failures []string) {
	if !filled(v.Get("model")) {
		failures = append(failures, "model is missing or blank")
	}
	list := v.Get("choices")
	if list == nil || list.Kind != strictjson.Array || len(list.Items) == 0 {
		return nil, append(failures, "choices is not a list with at least one entry")
	}
	for i, c := range list.Items {
		if c.Kind != strictjson.Object {
			failures = append(failures, fmt.Sprintf("choices[%d] is a %s, expected an object", i, c.Kind))
		}
	}
	if first = list.Items[0]; first.Kind != strictjson.Object {
		first = nil
	}
	return first, failures
}

func checkCompletion(v *strictjson.Value) []string {
	c, failures := choice(v)
	if c != nil && !filled(c.Get("text")) {
		failures = append(failures, "choices[0].text is missing or blank")
	}
	return failures
}

func checkChat(v *strictjson.Value) []string {
	_, failures := chatContent(v)
	return failures
}

// chatContent asserts what both chat steps share and returns the content, ""
// when it is blank.
func chatContent(v *strictjson.Value) (content string, failures []string) {
	c, failures := choice(v)
	if c == nil {
		return "", failures
	}
	m := c.Get("message")
	if m == nil || m.Kind != strictjson.Object {
		return "", append(failures, "choices[0].message is not an object")
	}
	if filled(m.Get("content")) {
		return m.Get("content").Text, failures
	}
	if !filled(m.Get("reasoning_content")) && !filled(m.Get("reasoning")) {
		failures = append(failures, "choices[0].message has neither content nor reasoning_content")
	}
	return "", failures
}

func checkBook(v *strictjson.Value) []string {
	content, failures := chatContent(v)
	reasoning := v.Get("model") != nil && isReasoning(v.Get("model").Text)
	if content == "" {
		// Such a model may spend all its tokens on reasoning; any other has to answer.
		if !reasoning {
			failures = append(failures, "content is blank, and the model is not known as a reasoning model")
		}
		return failures
	}
	book := findObject(content)
	if book == nil {
		if !reasoning {
			failures = append(failures, "content holds no JSON object")
		}
		return failures
	}
	for _, key := range []string{"title", "author", "year", "genre"} {
		got := book.Get(key)
		switch {
		case got == nil:
			failures = append(failures, "the book has no "+key)
		case key == "year" && got.Kind == strictjson.Number:
		case got.Kind != strictjson.String:
			failures = append(failures, fmt.Sprintf("the book's %s is a %s", key, got.Kind))
		case strings.TrimSpace(got.Text) == "":
			failures = append(failures, "the book's "+key+" is blank")
		}
	}
	return failures
}

// reasoningModels are parts of the names of models that think before they answer.
var reasoningModels = []string{"deepseek-r1", "deepseek_r1", "qwq", "qwen3.5", "qwen3", "glm-5", "o1-", "o3-", "reasoning"}

func isReasoning(model string) bool {
	model = strings.ToLower(model)
	return slices.ContainsFunc(reasoningModels, func(part string) bool { return strings.Contains(model, part) })
}

// maxCandidates bounds the places where an object is looked for in an answer, and
// maxContent the text that is looked at.
const (
	maxCandidates = 64
	maxContent    = 64 << 10
)

// findObject extracts a JSON object from an answer: the whole text, the inside of
// one fence around it, or the first balanced object in it. It returns nil if there
// is none.
func findObject(text string) *strictjson.Value {
	if len(text) > maxContent {
		text = text[:maxContent]
	}
	text = strings.TrimSpace(text)
	for _, t := range []string{text, unfence(text)} {
		if v, _, err := strictjson.Parse([]byte(t), strictjson.Options{KeepDuplicates: true}); err == nil && v.Kind == strictjson.Object {
			return v
		}
	}
	data := []byte(text)
	at := 0
	for range maxCandidates {
		i := bytes.IndexByte(data[at:], '{')
		if i < 0 {
			return nil
		}
		at += i
		if v, _, _, err := strictjson.ParseAt(data, at, strictjson.Options{KeepDuplicates: true}); err == nil {
			return v
		}
		at++
	}
	return nil
}

// unfence returns the inside of a text that is one ``` block as a whole, "" else.
func unfence(text string) string {
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return ""
	}
	if inner, ok = strings.CutSuffix(inner, "```"); !ok {
		return ""
	}
	if rest, ok := strings.CutPrefix(inner, "json"); ok {
		inner = rest
	}
	return strings.TrimSpace(inner)
}

// filled reports that v is a text with something in it.
func filled(v *strictjson.Value) bool {
	return v != nil && v.Kind == strictjson.String && strings.TrimSpace(v.Text) != ""
}
