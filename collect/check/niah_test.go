package check

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

var cell = plan.LongContextCell{ID: "niah_1k", ISL: 1000, OSL: 32, NumPrompts: 8, Seed: 42}

func TestNIAH(t *testing.T) {
	t.Parallel()
	f := &fake{template: 7}
	r := NIAH(t.Context(), f.start(t), cell, NIAHOptions{MaxModelLength: 1039})
	if r.Status != artifact.Done || r.Correct != 8 || r.Total != 8 || *r.PassRate != 1 || *r.CIHigh != 1 || r.Errors != 0 || len(r.Notes) != 0 {
		t.Fatalf("%+v", r)
	}
	if c := r.Calibration; !c.Exact || c.PromptTokens != 1000 || c.TemplateTokens != 7 || c.TokensPerWord != 1 || c.Requests > 14 {
		t.Errorf("%+v", c)
	}
	seen := map[string]bool{}
	for i, s := range r.Results {
		if s.Sample != i || !s.Passed || s.From != "content" || s.PromptTokens != 1007 || !strings.HasPrefix(s.Expected, "NEEDLE-") || len(s.Expected) != 15 {
			t.Errorf("%+v", s)
		}
		seen[s.Expected] = true
	}
	if len(seen) != 8 {
		t.Errorf("the needles repeat: %v", seen)
	}
	if again := needles(42, 8); !slices.Equal(again, []string{r.Results[0].Expected, r.Results[1].Expected, again[2], again[3], again[4], again[5], again[6], again[7]}) || slices.Equal(again, needles(43, 8)) {
		t.Error("the needles do not follow the seed")
	}
}

func TestNIAHCalibration(t *testing.T) {
	t.Parallel()
	words := func(text string) int { return len(strings.Fields(text)) }
	foos := func(text string) int { return strings.Count(text, fillerWord) }
	for _, tt := range []struct {
		name   string
		isl    int
		tokens func(string) int
		want   int // tokens of the prompts
	}{
		{"words", 5000, words, 5000},
		{"characters", 20000, func(s string) int { return len(s) }, 19999},
		{"needles of different cost", 3000, func(s string) int { return words(s) + strings.Count(s, "A") + strings.Count(s, "7") }, 3000},
		{"two a word", 2000, func(s string) int { return words(s) + foos(s) }, -1},
		{"bends after the short prompts", 30000, func(s string) int { return words(s) + foos(s)/3*max(0, min(1, foos(s)-5000)) }, -1},
		{"a merge of eight words", 6000, func(s string) int { return words(s) - foos(s) + (foos(s)+7)/8 }, -1},
		{"short", 40, words, 40},
		{"shortest", 20, words, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{tokens: tt.tokens}
			c := cell
			c.ISL = tt.isl
			r := NIAH(t.Context(), f.start(t), c, NIAHOptions{})
			if r.Status != artifact.Done || r.Correct != r.Total {
				t.Fatalf("%+v", r)
			}
			for _, s := range r.Results {
				if s.PromptTokens > tt.isl+1 || s.PromptTokens < tt.isl-8 || r.Calibration.Exact && tt.want == tt.isl && s.PromptTokens != tt.isl {
					t.Errorf("%d tokens for ISL %d: %+v", s.PromptTokens, tt.isl, r.Calibration)
				}
			}
			if got := r.Calibration.PromptTokens; tt.want >= 0 && got != tt.want {
				t.Errorf("%d tokens, want %d", got, tt.want)
			}
			if r.Calibration.Exact != (r.Calibration.PromptTokens == tt.isl) || !r.Calibration.Exact && len(r.Notes) == 0 {
				t.Errorf("%+v %v", r.Calibration, r.Notes)
			}
			if n := r.Calibration.Requests; n > maxFullCounts+12 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestNIAHWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		fake    *fake
		cell    func(*plan.LongContextCell)
		o       NIAHOptions
		status  artifact.Status
		reason  string
		correct int
		errors  int
	}{
		{name: "wrong needle", fake: &fake{say: func(bool, string) string { return "It is NEEDLE-00000000." }}, status: artifact.Done},
		{name: "empty answer", fake: &fake{say: func(bool, string) string { return "" }}, status: artifact.Done},
		{name: "found in thoughts", fake: &fake{thinks: true}, status: artifact.Done, correct: 8},
		{name: "chat refused", fake: &fake{status: map[string]int{chatPath: http.StatusBadRequest}}, status: artifact.Failed, reason: "status 400"},
		{name: "no count", fake: &fake{tokens: func(string) int { return 0 }}, status: artifact.Failed, reason: "no usage.prompt_tokens"},
		{name: "count that stands still", fake: &fake{tokens: func(string) int { return 20 }}, status: artifact.Failed, reason: "no tokens for more filler"},
		{name: "too short", fake: &fake{}, cell: func(c *plan.LongContextCell) { c.ISL = 5 }, status: artifact.Failed, reason: "ISL 5 is too short"},
		{name: "too long", fake: &fake{}, o: NIAHOptions{MaxModelLength: 1031}, status: artifact.Skipped, reason: "ISL 1000 + OSL 32 is more than the server's 1031 tokens"},
		{name: "too long with template", fake: &fake{template: 9}, o: NIAHOptions{MaxModelLength: 1040}, status: artifact.Skipped, reason: "+ 9 of the chat template"},
		{name: "no prompts", fake: &fake{}, cell: func(c *plan.LongContextCell) { c.NumPrompts = 0 }, status: artifact.Done},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := cell
			if tt.cell != nil {
				tt.cell(&c)
			}
			r := NIAH(t.Context(), tt.fake.start(t), c, tt.o)
			if r.Status != tt.status || !strings.Contains(r.Reason, tt.reason) || r.Correct != tt.correct || r.Errors != tt.errors {
				t.Errorf("%+v", r)
			}
			if (r.PassRate == nil) != (tt.status != artifact.Done || c.NumPrompts == 0) {
				t.Errorf("pass rate %v", r.PassRate)
			}
		})
	}
}

// A request that fails after the calibration is a wrong answer, and told apart.
func TestNIAHRequestErrors(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.say = func(chat bool, prompt string) string { return sensible(chat, prompt) }
	s := f.start(t)
	s.HTTP = &http.Client{Transport: breaking{s.HTTP.Transport}}
	r := NIAH(t.Context(), s, cell, NIAHOptions{})
	if r.Errors != 8 || r.Correct != 0 || *r.PassRate != 0 || *r.CILow != 0 || !strings.HasPrefix(r.Results[0].Actual, "ERROR: ") {
		t.Errorf("%+v", r)
	}
}

// breaking fails the chats that are no counts: those with another length.
type breaking struct{ http.RoundTripper }

func (b breaking) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == chatPath && req.ContentLength > 1000 {
		return nil, http.ErrHandlerTimeout
	}
	return b.RoundTripper.RoundTrip(req)
}

func TestNIAHConcurrency(t *testing.T) {
	t.Parallel()
	f := &fake{gate: make(chan struct{}), arrived: make(chan struct{}, cell.NumPrompts)}
	s := f.start(t)
	go func() {
		for range 4 {
			<-f.arrived
		}
		close(f.gate)
	}()
	r := NIAH(t.Context(), s, cell, NIAHOptions{Concurrency: 4})
	if r.Correct != 8 || f.most != 4 || r.Concurrency != 4 {
		t.Errorf("%d in flight: %+v", f.most, r)
	}
}

func TestNIAHInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{gate: make(chan struct{}), arrived: make(chan struct{}, cell.NumPrompts)}
	s := f.start(t)
	go func() {
		<-f.arrived
		cancel()
		close(f.gate)
	}()
	if r := NIAH(ctx, s, cell, NIAHOptions{}); r.Status != artifact.Interrupted || r.PassRate != nil {
		t.Errorf("%+v", r)
	}
}

func TestNeedleDepth(t *testing.T) {
	t.Parallel()
	for depth, before := range map[float64]int{0: 0, 0.5: 50, 1: 100} {
		c := &calibrator{depth: depth}
		head, tail, ok := strings.Cut(c.text("NEEDLE-X", 100), needleBefore+"NEEDLE-X"+needleAfter)
		if !ok || strings.Count(head, "foo") != before || strings.Count(tail, "foo") != 100-before || !strings.HasSuffix(tail, question) {
			t.Errorf("depth %v: %q", depth, head)
		}
	}
}

func TestFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"NEEDLE-AB12CD34": true, "it is\nneedle - ab12 cd34!": true, "NEEDLE-AB12CD3": false, "": false,
	} {
		if found("NEEDLE-AB12CD34", text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestWilson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		k, n      int
		low, high float64
	}{
		{0, 0, 0, 1}, {0, 8, 0, 0.32441}, {8, 8, 0.67559, 1}, {4, 8, 0.21521, 0.78479}, {81, 263, 0.25527, 0.36619}, // the last: Newcombe 1998
	} {
		low, high := Wilson(tt.k, tt.n)
		if math.Abs(low-tt.low) > 6e-5 || math.Abs(high-tt.high) > 6e-5 {
			t.Errorf("Wilson(%d, %d) = %.5f, %.5f", tt.k, tt.n, low, high)
		}
	}
}
