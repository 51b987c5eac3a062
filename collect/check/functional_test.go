package check

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

var both = plan.Functional{APISmoke: true, HealthCheck: true}

func TestFunctionalPass(t *testing.T) {
	t.Parallel()
	r := Functional(t.Context(), (&fake{}).start(t), both)
	if !r.Pass || !*r.APISmoke || !*r.HealthCheck || r.Status != artifact.Done || len(r.Steps) != 7 {
		t.Fatalf("%+v", r)
	}
	for _, s := range r.Steps {
		if !s.Pass || s.Status != 200 || s.LatencyMS != 1000 || s.Body == "" || s.Failures == nil {
			t.Errorf("%+v", s)
		}
	}
	r = Functional(t.Context(), (&fake{}).start(t), plan.Functional{HealthCheck: true})
	if r.APISmoke != nil || !*r.HealthCheck || len(r.Steps) != 3 {
		t.Errorf("health only: %+v", r)
	}
	if r = Functional(t.Context(), (&fake{}).start(t), plan.Functional{}); r.Status != artifact.Skipped || r.Pass {
		t.Errorf("nothing asked for: %+v", r)
	}
}

func chatBody(model, message string) string {
	return `{"model":"` + model + `","choices":[{"message":` + message + `}]}`
}

func TestFunctionalWrong(t *testing.T) {
	t.Parallel()
	book := func(text string) func(bool, string) string {
		return func(chat bool, prompt string) string {
			if strings.Contains(prompt, "book") {
				return text
			}
			return "OK then"
		}
	}
	for _, tt := range []struct {
		name  string
		fake  *fake
		step  string   // the one that fails; "" none
		wants []string // parts of its failures, in order
	}{
		{"health down", &fake{status: map[string]int{healthPath: 503}}, "health", []string{"status 503"}},
		{"no models", &fake{raw: map[string]string{modelsPath: `{"data":[]}`}}, "model_endpoint", []string{"data is not a list"}},
		{"model without name", &fake{raw: map[string]string{modelsPath: `{"data":[{"id":" "}]}`}}, "model_endpoint", []string{"neither id nor model"}},
		{"model by its other name", &fake{raw: map[string]string{modelsPath: `{"data":[{"model":"m"}]}`}}, "", nil},
		{"models not an object", &fake{raw: map[string]string{modelsPath: `[1]`}}, "model_endpoint", []string{"JSON list, expected an object"}},
		{"models not JSON", &fake{raw: map[string]string{modelsPath: `<html>`}}, "model_endpoint", []string{"not JSON"}},
		{"empty body", &fake{raw: map[string]string{modelsPath: ``}}, "model_endpoint", []string{"not JSON"}},
		{"everything at once", &fake{raw: map[string]string{chatPath: `{"choices":["x"]}`}, status: map[string]int{chatPath: 500}}, "chat_completion_endpoint",
			[]string{"status 500", "model is missing", "choices[0] is a string"}},
		{"no choices", &fake{raw: map[string]string{completionPath: `{"model":"m","choices":[]}`}}, "completion_endpoint", []string{"choices is not a list"}},
		{"blank text", &fake{raw: map[string]string{completionPath: `{"model":"m","choices":[{"text":" \n"}]}`}}, "completion_endpoint", []string{"choices[0].text"}},
		{"no message", &fake{raw: map[string]string{chatPath: `{"model":"m","choices":[{"text":"x"}]}`}}, "chat_completion_endpoint", []string{"message is not an object"}},
		{"blank message", &fake{raw: map[string]string{chatPath: chatBody("m", `{"content":""}`)}}, "chat_completion_endpoint", []string{"neither content nor reasoning_content"}},
		{"fenced book", &fake{say: book("```json\n{\"title\":\"a\",\"author\":\"b\",\"year\":\"1\",\"genre\":\"c\"}\n```")}, "", nil},
		{"plain fence", &fake{say: book("```\n{\"title\":\"a\",\"author\":\"b\",\"year\":1,\"genre\":\"c\"}```")}, "", nil},
		{"book in prose", &fake{say: book(`Here {you} are: {"title":"a","author":"b","year":1.5,"genre":"c"} - enjoy {}`)}, "", nil},
		{"no book", &fake{say: book("I like books.")}, "structured_output_book", []string{"no JSON object"}},
		{"half a book", &fake{say: book(`{"title":"a","author":`)}, "structured_output_book", []string{"no JSON object"}},
		{"poor book", &fake{say: book(`{"title":" ","author":["b"],"genre":1}`)}, "structured_output_book",
			[]string{"title is blank", "author is a list", "no year", "genre is a number"}},
		{"no book from a thinker", &fake{model: "Qwen/Qwen3-8B", say: book("Hmm.")}, "", nil},
		{"poor book from a thinker", &fake{model: "Qwen/Qwen3-8B", say: book(`{"title":"a","author":"b","year":1}`)}, "structured_output_book", []string{"no genre"}},
		{"only thoughts of a thinker", &fake{model: "deepseek-ai/DeepSeek-R1-0528", thinks: true}, "", nil},
		{"only thoughts of another", &fake{thinks: true}, "structured_output_book", []string{"content is blank"}},
		{"vLLM's newer name", &fake{model: "QwQ", raw: map[string]string{chatPath: chatBody("QwQ", `{"content":null,"reasoning":"hm"}`)}}, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := Functional(t.Context(), tt.fake.start(t), both)
			if r.Pass != (tt.step == "") {
				t.Errorf("pass = %v: %+v", r.Pass, r.Steps)
			}
			i := slices.IndexFunc(r.Steps, func(s FunctionalStep) bool { return s.ID == tt.step })
			if tt.step == "" {
				return
			}
			if i < 0 || r.Steps[i].Pass || len(r.Steps[i].Failures) != len(tt.wants) {
				t.Fatalf("failures of %s: %+v", tt.step, r.Steps)
			}
			for j, want := range tt.wants {
				if !strings.Contains(r.Steps[i].Failures[j], want) {
					t.Errorf("failure %d = %q, want %q", j, r.Steps[i].Failures[j], want)
				}
			}
			if block := r.Steps[i].Block; block == HealthCheck && *r.HealthCheck || block == APISmoke && *r.APISmoke {
				t.Errorf("its block %s passed", block)
			}
		})
	}
}

func TestFunctionalRefused(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	s := Server{HTTP: srv.Client(), BaseURL: srv.URL, Model: "m"}
	srv.Close()
	r := Functional(t.Context(), s, both)
	if r.Pass || len(r.Steps) != 7 || r.Status != artifact.Done {
		t.Fatalf("%+v", r)
	}
	for _, st := range r.Steps {
		if st.Pass || st.Status != 0 || len(st.Failures) != 1 || !strings.Contains(st.Failures[0], "refused") {
			t.Errorf("%+v", st)
		}
	}
}

func TestFunctionalInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user said so"))
	r := Functional(ctx, (&fake{}).start(t), both)
	if r.Status != artifact.Interrupted || r.Pass || len(r.Steps) != 0 || r.Reason != "the user said so" {
		t.Errorf("%+v", r)
	}
}

func TestExcerptIsBounded(t *testing.T) {
	t.Parallel()
	r := Functional(t.Context(), (&fake{raw: map[string]string{modelsPath: strings.Repeat("\xff\u00e9", 5000)}}).start(t), both)
	if n := len(r.Steps[0].Body); n > maxExcerpt+3 || r.Steps[0].Pass {
		t.Errorf("%d bytes kept", n)
	}
}

func FuzzFindObject(f *testing.F) {
	for _, s := range []string{`{"a":1}`, "```json\n{}\n```", `{{{{`, `x {"a": {"b"`, "``````", `}{`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v := findObject(s); v != nil && !strings.Contains(s, "{") {
			t.Errorf("an object in %q", s)
		}
	})
}
