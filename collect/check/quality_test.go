package check

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/collect/plan"

	"github.com/google/go-cmp/cmp"
)

func hexSum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func TestMTP(t *testing.T) {
	t.Parallel()
	const stats = `{"enabled":true,"total_draft_tokens":3000,"total_accepted_tokens":1411,"acceptance_rate":0.4703,"average_tokens_per_forward":2.41}`
	good := strings.TrimSpace(sensible(true, ""))
	chat := func(text string) func(bool, string) string { return func(bool, string) string { return text } }
	for _, tt := range []struct {
		name    string
		fake    *fake
		known   Acceptance
		expect  string
		metrics map[string]float64
		missing map[string]string // parts
		source  string
		status  artifact.Status
	}{
		{name: "from the artefact", fake: &fake{stats: stats}, known: Acceptance{Rate: ptr(0.9), Length: ptr(3.5)}, source: "artefact",
			metrics: map[string]float64{MTPAcceptanceRate: 0.9, MTPAcceptLength: 3.5, MTPDegenerateRatio: 0}},
		{name: "from the server", fake: &fake{stats: stats}, source: "mtp_stats",
			metrics: map[string]float64{MTPAcceptanceRate: 0.4703, MTPAcceptLength: 2.41, MTPDegenerateRatio: 0}},
		{name: "fingerprint right", fake: &fake{stats: stats}, expect: strings.ToUpper(hexSum(good)), source: "mtp_stats",
			metrics: map[string]float64{MTPAcceptanceRate: 0.4703, MTPAcceptLength: 2.41, MTPDegenerateRatio: 0, ChatTemplateOK: 1}},
		{name: "fingerprint wrong", fake: &fake{stats: stats}, expect: hexSum("x"), source: "mtp_stats",
			metrics: map[string]float64{MTPAcceptanceRate: 0.4703, MTPAcceptLength: 2.41, MTPDegenerateRatio: 0, ChatTemplateOK: 0}},
		{name: "a percentage is no fraction", fake: &fake{}, known: Acceptance{Rate: ptr(47.03)}, source: "artefact",
			metrics: map[string]float64{MTPDegenerateRatio: 0}, missing: map[string]string{MTPAcceptanceRate: "out of range", MTPAcceptLength: "not reported"}},
		{name: "no counters", fake: &fake{}, metrics: map[string]float64{MTPDegenerateRatio: 0},
			missing: map[string]string{MTPAcceptanceRate: "status 404", MTPAcceptLength: "status 404"}},
		{name: "decoding off", fake: &fake{stats: `{"enabled":false}`}, metrics: map[string]float64{MTPDegenerateRatio: 0},
			missing: map[string]string{MTPAcceptanceRate: "is off", MTPAcceptLength: "is off"}},
		{name: "nothing drafted", fake: &fake{stats: `{"enabled":true,"total_draft_tokens":0,"acceptance_rate":0}`}, metrics: map[string]float64{MTPDegenerateRatio: 0},
			missing: map[string]string{MTPAcceptanceRate: "no token was drafted", MTPAcceptLength: "no token"}},
		{name: "counters not JSON", fake: &fake{stats: `<`}, metrics: map[string]float64{MTPDegenerateRatio: 0},
			missing: map[string]string{MTPAcceptanceRate: "mtp_stats", MTPAcceptLength: "mtp_stats"}},
		{name: "repeats", fake: &fake{stats: stats, say: chat("and on and on and on and on and on and on")}, source: "mtp_stats",
			metrics: map[string]float64{MTPAcceptanceRate: 0.4703, MTPAcceptLength: 2.41, MTPDegenerateRatio: 1}},
		{name: "empty", fake: &fake{stats: stats, say: chat(" ")}, expect: hexSum(""), source: "mtp_stats",
			metrics: map[string]float64{MTPAcceptanceRate: 0.4703, MTPAcceptLength: 2.41, MTPDegenerateRatio: 1},
			missing: map[string]string{ChatTemplateOK: "answer is empty", chatTemplateMissing: "answer is empty"}},
		{name: "half of them short", fake: &fake{stats: stats, say: func(_ bool, p string) string {
			if strings.Contains(p, "Write") || strings.Contains(p, "Tell") {
				return "Yes."
			}
			return good
		}}, source: "mtp_stats", metrics: map[string]float64{MTPAcceptanceRate: 0.4703, MTPAcceptLength: 2.41, MTPDegenerateRatio: 0.5}},
		{name: "chat refused", fake: &fake{status: map[string]int{chatPath: 400}}, known: Acceptance{Rate: ptr(0.5)}, source: "artefact",
			metrics: map[string]float64{MTPAcceptanceRate: 0.5},
			missing: map[string]string{MTPAcceptLength: "not reported", MTPDegenerateRatio: "status 400", chatTemplateMissing: "status 400"}},
		{name: "nothing at all", fake: &fake{status: map[string]int{chatPath: 500}}, status: artifact.Failed, metrics: map[string]float64{},
			missing: map[string]string{MTPAcceptanceRate: "404", MTPAcceptLength: "404", MTPDegenerateRatio: "500", chatTemplateMissing: "500"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.status == "" {
				tt.status = artifact.Done
			}
			r := MTP(t.Context(), tt.fake.start(t), plan.MTPQuality{Prompt: "Say hello.", ExpectedSHA256: tt.expect}, tt.known)
			if r.Status != tt.status || r.Source != tt.source || len(r.Completions) != len(probePrompts) {
				t.Errorf("%+v", r)
			}
			if diff := cmp.Diff(tt.metrics, r.Metrics); diff != "" {
				t.Error(diff)
			}
			if len(r.Missing) != len(tt.missing) {
				t.Errorf("missing %q", r.Missing)
			}
			for name, part := range tt.missing {
				if !strings.Contains(r.Missing[name], part) {
					t.Errorf("missing %s: %q", name, r.Missing[name])
				}
			}
			if _, none := r.Missing[chatTemplateMissing]; none != (r.TemplateSHA256 == "") {
				t.Errorf("fingerprint %q", r.TemplateSHA256)
			}
		})
	}
}

func TestDegenerate(t *testing.T) {
	t.Parallel()
	unit := "abcdefghijklmnopqrstuvwxyz012345" // 32 different characters
	for _, tt := range []struct {
		text string
		want string // part; "" healthy
	}{
		{"", "empty"}, {" \n\t ", "empty"}, {"1234567", "only 7"}, {"12345678", ""}, {"äöüäöüß", "only 7"},
		{"xx aaaa xx", ""}, {"xx aaaaa xx", `"a" 5 times`},
		{strings.Repeat(unit, 4) + unit[:31], ""}, {strings.Repeat(unit, 5), "5 times"},
		{"z" + strings.Repeat(unit+"6", 6), ""}, // a period of 33 is no repeat
		{"one two one two one two one two done", ""}, {"one two one two one two one two one two done", "5 times"},
		{"line\nline\nline\nline\nline\nx", "5 times"},
		{"Eine ganz gewöhnliche Antwort, ohne jede Wiederholung.", ""},
	} {
		if got := Degenerate(tt.text); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("Degenerate(%q) = %q", tt.text, got)
		}
	}
}

func FuzzDegenerate(f *testing.F) {
	f.Add("ab", 5)
	f.Add("\xff", 40)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 50 || len(s) > 1000 {
			return
		}
		text := strings.Repeat(s, n)
		got := Degenerate(text)
		if r := []rune(strings.TrimSpace(text)); n >= minRepeats+1 && len(r) >= minChars && len([]rune(s)) <= maxPeriod && len(r) == n*len([]rune(s)) && got == "" {
			t.Errorf("%q %d times is healthy", s, n)
		}
	})
}

func TestReadAcceptance(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Acceptance{
		`{"acceptance_rate":0.47,"accept_length":2.4,"itls":[[0.1]]}`:                  {ptr(0.47), ptr(2.4)},
		`{"acceptance_rate":null,"accept_length":null}`:                                {},
		`{"spec_decode_acceptance_rate":50,"spec_decode_acceptance_length":3}`:         {ptr(0.5), ptr(3.0)},
		"{\"accept_length\":1.5,\"request_rate\":Infinity}\n{\"accept_length\":2.5}\n": {nil, ptr(2.5)},
		`{"acceptance_rate":NaN,"accept_length":"2"}`:                                  {},
		``: {},
	} {
		got, err := ReadAcceptance([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	if _, err := ReadAcceptance([]byte(`{"a":`)); err == nil {
		t.Error("half a file was taken")
	}
}

func FuzzReadAcceptance(f *testing.F) {
	f.Add([]byte(`{"acceptance_rate":0.47}` + "\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := ReadAcceptance(b); err != nil && (a.Rate != nil || a.Length != nil) {
			t.Error("values beside an error")
		}
	})
}

func TestQuant(t *testing.T) {
	t.Parallel()
	q := plan.QuantParity{Enabled: true, ProbePrompt: "The capital of France is", ReferenceStem: "bf16"}
	first := Quant(t.Context(), (&fake{}).start(t), q, "", nil)
	text := strings.TrimSpace(sensible(true, ""))
	if first.Status != artifact.Done || first.SHA256 != hexSum(text) || first.Chars != len(text) || first.Match != nil || first.Reference != nil || first.ReferenceStem != "bf16" {
		t.Fatalf("%+v", first)
	}
	stored, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*QuantResult)) []byte {
		c := first
		change(&c)
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	other := func(bool, string) string { return "Lyon, they say." }
	for _, tt := range []struct {
		name    string
		fake    *fake
		ref     []byte
		match   *float64
		problem string
		status  artifact.Status
		reason  string
	}{
		{name: "same", fake: &fake{}, ref: stored, match: ptr(1.0), status: artifact.Done},
		{name: "different", fake: &fake{say: other}, ref: stored, match: ptr(0.0), status: artifact.Done},
		{name: "refused", fake: &fake{status: map[string]int{chatPath: http.StatusBadRequest}}, ref: stored, status: artifact.Failed, reason: "status 400"},
		{name: "empty", fake: &fake{say: func(bool, string) string { return "\n" }}, ref: stored, status: artifact.Failed, reason: "the answer is empty"},
		{name: "no reply", fake: &fake{raw: map[string]string{chatPath: "Paris"}}, ref: stored, status: artifact.Failed, reason: "not what was expected"},
		{name: "no choices", fake: &fake{raw: map[string]string{chatPath: "{}"}}, ref: stored, status: artifact.Failed, reason: "no choices"},
		{name: "reference missing", fake: &fake{}, problem: "not a stored probe", status: artifact.Done},
		{name: "reference of another kind", fake: &fake{}, ref: []byte(`{"check":"dmesg"}`), problem: `check is "dmesg"`, status: artifact.Done},
		{name: "reference newer", fake: &fake{}, ref: changed(func(r *QuantResult) { r.Version = 99 }), problem: "newer version 99", status: artifact.Done},
		{name: "reference failed", fake: &fake{}, ref: changed(func(r *QuantResult) { r.Status, r.Reason = artifact.Failed, "boom" }), problem: "failed: boom", status: artifact.Done},
		{name: "reference without hash", fake: &fake{}, ref: changed(func(r *QuantResult) { r.SHA256 = "" }), problem: "no fingerprint", status: artifact.Done},
		{name: "reference to another question", fake: &fake{}, ref: changed(func(r *QuantResult) { r.Prompt = "2+2?" }), problem: "another question", status: artifact.Done},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := Quant(t.Context(), tt.fake.start(t), q, "old/quant.json", tt.ref)
			if diff := cmp.Diff(tt.match, r.Match); diff != "" || r.Status != tt.status || !strings.Contains(r.Reason, tt.reason) {
				t.Errorf("%s%+v", diff, r)
			}
			if r.Reference == nil || (r.Reference.Problem == "") != (tt.problem == "") || !strings.Contains(r.Reference.Problem, tt.problem) {
				t.Errorf("%+v", r.Reference)
			}
			if (r.SHA256 == "") != (tt.status == artifact.Failed) {
				t.Errorf("hash %q", r.SHA256)
			}
		})
	}
}

func FuzzReadQuant(f *testing.F) {
	f.Add([]byte(`{"check":"quant_parity","version":1,"status":"done","probe_sha256":"00"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ReadQuant(b); err == nil && len(r.SHA256) != 64 {
			t.Errorf("%+v", r)
		}
	})
}
