package signoff

import (
	"strings"
	"testing"
)

const goodWaivers = `{
  "format": "cvs-waivers@v1",
  "_comment": "reviewed on Monday",
  "waivers": [
    {"id": "W1", "cell": "*conc64", "metric": "output_throughput", "reason": "driver bug", "owner": "alice", "issue": "https://example.com/1",
     "expires": "2026-09-30", "condition": {"worst_margin_pct": -10, "driver": "atom"}},
    {"id": "W2", "task": "gsm8k*", "metric": "exact_match", "reason": "noise", "owner": "bob", "issue": "https://example.com/2", "expires": "2026-09-30"}
  ]
}`

func TestParseWaivers(t *testing.T) {
	t.Parallel()
	w, err := ParseWaivers("w.json", []byte(goodWaivers))
	if err != nil {
		t.Fatal(err)
	}
	if len(w.List) != 2 || w.List[0].LastDay() != "2026-09-30" || w.List[0].Line != 5 || *w.List[0].When.WorstMarginPct != -10 {
		t.Errorf("got %+v", w.List)
	}
}

// TestWaiverProblems wants every mistake of a file at once, each with its line.
func TestWaiverProblems(t *testing.T) {
	t.Parallel()
	const bad = `{
  "format": "cvs-waivers@v2",
  "waivers": [
    {"id": "W1", "cell": "a", "task": "b", "metric": "m", "reason": "r", "owner": "o", "issue": "JIRA-1", "expires": "31.12.2026"},
    {"id": "W1", "cell": "*", "metric": "*", "reason": "", "owner": "o", "issue": "https://e.com", "expires": "2026-01-01",
     "condition": {"worst_margin_pct": 5, "colour": "red"}},
    {"id": "W3", "cell": "a", "metric": 7, "reason": "r", "owner": "o", "issue": "https://e.com", "expires": "2026-01-01", "expires": "2027-01-01"}
  ],
  "extra": 1
}`
	_, err := ParseWaivers("w.json", []byte(bad))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		`w.json:2:13: /format: this version of cvs reads "cvs-waivers@v1"`, "w.json:4:5: /waivers/0: want either cell or task",
		`w.json:4:97: /waivers/0/issue: want a link, found "JIRA-1"`, `/waivers/0/expires: want a day as YYYY-MM-DD, found "31.12.2026"`,
		`w.json:5:12: /waivers/1/id: "W1" stands twice`, "/waivers/1: waives everything", "/waivers/1/reason: is empty",
		"/waivers/1/condition/worst_margin_pct: a failure's margin is negative", "/waivers/1/condition/colour: unknown key",
		"/waivers/2/metric: want a text, found a number", "occurs twice", "w.json:9:3: /extra: unknown key",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q:\n%v", want, err)
		}
	}
	for _, broken := range []string{"", "[]", "{", `"x"`, "\xff\xfe{\x00", `{"format":"cvs-waivers@v1"}`, `{"format":"cvs-waivers@v1","waivers":{}}`, `{"format":"cvs-waivers@v1","waivers":[1]}`} {
		if _, err := ParseWaivers("w.json", []byte(broken)); err == nil {
			t.Errorf("%q is accepted", broken)
		}
	}
}

const goodPolicy = `{"format": "cvs-policy@v1", "title": "1.0",
 "signoff": {"approvals": 2, "roles": ["performance"], "checklist": ["deck read"], "not_launcher": true, "calibrated": ["throughput"]},
 "release": {"max_age_days": 7, "need_signoff": true, "require": [
   {"name": "atom", "model": "deepseek*", "driver": "atom", "gpu_arch": "mi325x"},
   {"name": "vllm", "driver": "vllm_atom", "max_age_days": 30}]}}`

func TestPolicyProblems(t *testing.T) {
	t.Parallel()
	if _, err := ParsePolicy("p.json", []byte(goodPolicy)); err != nil {
		t.Fatal(err)
	}
	_, err := ParsePolicy("p.json", []byte(`{"format": "cvs-policy@v1",
 "signoff": {"approvals": 0, "roles": ["a", "a", ""], "calibrated": ["speed"], "four_eyes": true},
 "release": {"need_signoff": "yes", "require": [{"name": "x"}, {"name": "x", "nnodes": 1.5, "driver": "atom"}]}}`))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"/signoff/approvals: want a whole number of at least 1", `/signoff/roles/1: "a" stands twice`, "/signoff/roles/2: want a text that is not empty",
		`no tier is called "speed"`, "/signoff/four_eyes: unknown key", "/release/need_signoff: want true or false",
		"/release/require/0: any run would do", `/release/require/1/name: "x" stands twice`, "/release/require/1/nnodes: want a whole number",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q:\n%v", want, err)
		}
	}
	if _, err := ParsePolicy("p.json", []byte(`{"format": "cvs-policy@v1", "release": {"require": []}}`)); err == nil {
		t.Error("a release that needs nothing is accepted")
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"a*c", "abbbc", true}, {"a*c", "abbb", false}, {"*b*", "abc", true}, {"a?c", "abc", true},
		{"a?c", "ac", false}, {"[a]", "a", false}, {"*a*a*a*b", strings.Repeat("a", 200), false}, {"ISL=1024,*,CONC=64", "ISL=1024,OSL=32,TP=8,PP=1,CONC=64", true},
	} {
		if got := Glob(tc.pattern, tc.text); got != tc.want {
			t.Errorf("Glob(%q, %q) = %v", tc.pattern, tc.text, got)
		}
	}
}

func FuzzParseWaivers(f *testing.F) {
	f.Add([]byte(goodWaivers))
	f.Add([]byte(`{"format":"cvs-waivers@v1","waivers":[{"condition":[]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := ParseWaivers("f", data)
		if err == nil {
			for _, one := range w.List {
				if one.ID == "" || one.Expires.IsZero() || (one.Cell == "") == (one.Task == "") {
					t.Errorf("accepted %+v", one)
				}
			}
		}
	})
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"entry":{"format":"cvs-signoff@v1"},"signature":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := parseLine(data); err == nil {
			t.Errorf("a line without our signature is accepted: %q", data)
		}
	})
}
