package warehouse

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var releaseDay = time.Date(2026, 9, 20, 0, 0, 0, 0, time.UTC)

// releaseRuns is a warehouse with the runs of testdata/release, and the policy.
func releaseRuns(t *testing.T) (*DB, string) {
	t.Helper()
	w := memory(t)
	conn, err := w.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, name := range []string{"testdata/views/prelude.sql", "testdata/release/runs.sql"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ExecContext(t.Context(), string(text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := w.late(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := measureAll(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	policy, err := os.ReadFile("testdata/release/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	return w, string(policy)
}

// A need is one requirement of a policy, a run of testdata/release named by its
// model, and what is said of it.
type need struct{ run, verdict, want string }

// TestReleaseCheck asks for every run by itself, under a strict policy and one
// that lets pass what a policy can let pass.
func TestReleaseCheck(t *testing.T) {
	t.Parallel()
	w, _ := releaseRuns(t)
	for name, tc := range map[string]struct {
		policy string // %s stands for the requirements
		exit   int
		needs  []need
	}{
		"strict": {`{"signoff": {"approvals": 2, "roles": ["performance"], "checklist": ["deck read"], "not_launcher": true, "calibrated": ["throughput"]},
 "release": {"max_age_days": 7, "need_signoff": true, "require": [%s]}}`, 3, []need{
			{"good", "READY", ""},
			{"edge", "READY", ""},
			{"old", "BLOCKED", "the run is 8.0 days old, at most 7 are accepted"},
			{"no start", "BLOCKED", "the run states no start, so its age is unknown; at most 7 days are accepted"},
			{"future", "BLOCKED", "the run starts in the future: 2026-09-22T00:00:00Z"},
			{"simulated", "BLOCKED", "the run is simulated"},
			{"failed", "BLOCKED", "w1-conc128 output_throughput fails and is not waived: 2000 tok/s < 2500 tok/s"},
			{"expired", "BLOCKED", "waiver W expired on 2026-09-19: w1-conc128 output_throughput fails without it"},
			{"waived", "BLOCKED", "1 failed gate(s) are waived; the policy accepts none"},
			{"incomplete", "BLOCKED", "cell w1-conc128 has no result"},
			{"record", "BLOCKED", "the run gates nothing (record): there is nothing to approve"},
			{"vacuous", "BLOCKED", "tier throughput of w1-conc128 is wholly vacuous"},
			{"unsigned", "BLOCKED", "sign-off: none recorded"},
			{"stale", "BLOCKED", "sign-off: stale: entry 2 (bob): results.json changed"},
			{"rejected", "BLOCKED", "sign-off: rejected: bob (performance) rejects"},
			{"conditional", "CONDITIONAL", "condition of bob: rerun after the fix"},
			{"nobody known", "BLOCKED", "sign-off: the signers were not checked, so nobody is known"},
			{"other rules", "BLOCKED", "sign-off: the decisions were held against rules other than this policy's"},
			{"news", "BLOCKED", "fails and is not waived"}, // the newest counts, although an older one is good
			{"mend", "READY", ""},
			{"nobody", "BLOCKED", "no run with model r1-nobody"},
		}},
		"lax": {`{"signoff": {"allow_record": true, "allow_incomplete": true, "calibrated": ["itl"]},
 "release": {"allow_waived": true, "allow_simulated": true, "require": [%s]}}`, 1, []need{
			{"old", "READY", ""},
			{"no start", "READY", ""},
			{"simulated", "READY", ""},
			{"waived", "READY", "1 failed gate(s) are waived; they remain failures"},
			{"expired", "BLOCKED", "waiver W expired on 2026-09-19"},
			{"failed", "BLOCKED", "fails and is not waived"},
			{"incomplete", "READY", ""},
			{"record", "READY", ""},
			{"vacuous", "READY", ""},
			{"unsigned", "READY", ""},
			{"rejected", "READY", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var require []string
			for _, n := range tc.needs {
				require = append(require, fmt.Sprintf(`{"name": %q, "model": "r1-%s"}`, n.run, n.run))
			}
			rows, err := w.ReleaseCheck(t.Context(), fmt.Sprintf(tc.policy, strings.Join(require, ",")), nil, releaseDay)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != len(tc.needs)+1 {
				t.Fatalf("got %+v", rows)
			}
			for i, n := range tc.needs {
				if said := rows[i].reasons; rows[i].Verdict != n.verdict || !strings.Contains(said, n.want) || n.want == "" && said != "" {
					t.Errorf("%s: %s with %q, want %s with %q", n.run, rows[i].Verdict, said, n.verdict, n.want)
				}
			}
			if whole := rows[len(tc.needs)]; whole.Verdict != "BLOCKED" || whole.ExitCode != tc.exit {
				t.Errorf("the whole is %s, exit %d; want BLOCKED, exit %d", whole.Verdict, whole.ExitCode, tc.exit)
			}
		})
	}
}

// TestReleaseRows looks at whole rows: which run is taken, what nobody asked for.
func TestReleaseRows(t *testing.T) {
	t.Parallel()
	w, policy := releaseRuns(t)
	rows, err := w.ReleaseCheck(t.Context(), policy, []string{"simulated", "fp8", "v", "conditional", "good"}, releaseDay)
	if err != nil {
		t.Fatal(err)
	}
	want := []ReleaseCheckRow{
		{Scope: "requirement", Name: "native", Wants: "model r1-*, driver atom, gpu_arch mi325x", RunID: "simulated", Verdict: "BLOCKED", Signoff: "approved", Gates: 1, Calibrated: 1, ExitCode: 1, reasons: "the run is simulated"},
		{Scope: "requirement", Name: "plugin", Wants: "driver vllm_atom", RunID: "v", Verdict: "READY", Signoff: "approved", Gates: 1, Calibrated: 1},
		{Scope: "release", Name: "1.0", Wants: "2 requirement(s)", Verdict: "BLOCKED", Gates: 2, Calibrated: 2, ExitCode: 1, reasons: "native: BLOCKED"},
	}
	if !slices.Equal(rows, want) {
		t.Errorf("got\n%+v\nwant\n%+v", rows, want)
	}
	got := table(t, w, `SELECT scope, run_id, verdict, exit_code AS exit FROM release_check('{"release": {"require": [
		{"name": "a", "precision": "fp8"}, {"name": "b", "model": "deep\\seek[?]", "tp": 8}, {"name": "c", "model": "deep\\seek[12]"}]}}', ['good', 'fp8', 'v', 'model[1]'], TIMESTAMP '2026-09-20') ORDER BY scope, ordinal`)
	if want := `scope        run_id    verdict  exit
release                BLOCKED  3
requirement  fp8       READY    0
requirement  model[1]  READY    0
requirement            BLOCKED  3
unused       good      -        0
unused       v         -        0
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestReleasePolicyErrors: a rule that is not understood would be one rule less.
func TestReleasePolicyErrors(t *testing.T) {
	t.Parallel()
	w := memory(t)
	for policy, want := range map[string]string{
		`{}`:                           "a release that needs nothing is not checked",
		`{"release": {"require": []}}`: "a release that needs nothing is not checked",
		`{"release": {"max_age_day": 7, "require": [{"name": "n", "tp": 8}]}}`:                 "release.max_age_day is not known",
		`{"release": {"max_age_days": "7", "require": [{"name": "n", "tp": 8}]}}`:              "release.max_age_days is not UBIGINT",
		`{"release": {"need_signoff": null, "require": [{"name": "n", "tp": 8}]}}`:             "release.need_signoff is not BOOLEAN",
		`{"release": {"require": [{"name": "n", "tp": 8, "calibrated": [1], "modell": "x"}]}}`: "require.modell is not known, texts.calibrated is not VARCHAR",
		`{"release": {"require": [{"name": "n", "tp": 8}`:                                      "Malformed JSON",
	} {
		rows, err := w.Ask(t.Context(), "FROM release_policy(?)", policy)
		if err == nil {
			rows.Next()
			err = errors.Join(rows.Err(), rows.Close())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", policy, err, want)
		}
	}
}
