package render

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/warehouse"
)

// decided is a Reviewed source of one approved run with two waivers.
type decided struct {
	state warehouse.SignoffStateRow
	use   []warehouse.WaiverUseRow
	gates []warehouse.GateWaiverRow
}

func (s decided) SignoffState(context.Context, string, time.Time) (warehouse.SignoffStateRow, error) {
	return s.state, nil
}

func (decided) SignoffStandings(context.Context, string, time.Time) ([]warehouse.StandingRow, error) {
	return []warehouse.StandingRow{{Seq: 1, Decision: "approve", Role: "performance", Identity: "<b>alice</b>", Counts: true}}, nil
}

func (s decided) GateWaivers(context.Context, string, time.Time) ([]warehouse.GateWaiverRow, error) {
	return s.gates, nil
}

func (s decided) WaiverUse(context.Context, string, time.Time) ([]warehouse.WaiverUseRow, error) {
	return s.use, nil
}

func (decided) Calibration(context.Context, string) ([]warehouse.CalibrationRow, error) {
	return []warehouse.CalibrationRow{{CellID: "w1_1k_1k-conc16", Tier: "itl", Judged: 4, WhollyVacuous: true}}, nil
}

func (decided) ThresholdOrigins(context.Context, string) ([]warehouse.ThresholdOriginRow, error) {
	return []warehouse.ThresholdOriginRow{{File: "t.json", SHA256: strings.Repeat("ab", 32), FirstLine: 4, LastLine: 90, Specs: 25, FirstRun: "r0", FileFirstRun: "r1", AgeDays: ptr(12.5), Vacuous: 4}}, nil
}

// A waived failure is a failure of its own kind: never among those that pass, and
// the sums still hold.
func TestWaivedIsApart(t *testing.T) {
	t.Parallel()
	d := fixture()
	at := slices.IndexFunc(d.Gates, func(g warehouse.GateRow) bool { return g.State == warehouse.Fail })
	g := d.Gates[at]
	src := decided{
		state: warehouse.SignoffStateRow{State: "stale", Entries: 1, Failed: 3, Waived: 1},
		use:   []warehouse.WaiverUseRow{{WaiverID: "W-1", Remark: "in use", Waived: 1}, {WaiverID: "W-2", Target: "cell x, metric y", Remark: "unmatched"}},
		gates: []warehouse.GateWaiverRow{{CellKey: g.CellKey, CellID: g.CellID, Host: g.Host, Metric: g.Metric, Gate: g.CellID + " " + g.Metric, State: g.State, WaiverID: "W-1", Standing: "waived"}},
	}
	plain := Build(fixture(), testOptions)
	if err := d.QueryReview(t.Context(), src, testOptions.Now); err != nil {
		t.Fatal(err)
	}
	deck := Build(d, testOptions)
	if deck.Verdict.State != plain.Verdict.State || deck.Verdict.Lead != plain.Verdict.Lead {
		t.Errorf("a waiver changed the verdict: %+v", deck.Verdict)
	}
	count := func(deck *Deck, word string) int {
		for _, p := range deck.Tallies[1].Parts {
			if p.Mark.Word == word {
				return p.N
			}
		}
		return 0
	}
	if w := count(deck, "fail (waived)"); w != 1 || count(deck, "fail") != count(plain, "fail")-1 || count(deck, "pass") != count(plain, "pass") {
		t.Errorf("gates are counted as %+v, before as %+v", deck.Tallies[1].Parts, plain.Tallies[1].Parts)
	}
	facts := map[string]string{}
	for _, f := range deck.Facts {
		facts[f.Label] = f.Value
	}
	for label, want := range map[string]string{"Sign-off": "STALE", "Waived": "1 of 3 failed gates", "Cannot fail": "1 tier of cells wholly vacuous"} {
		if facts[label] != want {
			t.Errorf("%s: %q, want %q", label, facts[label], want)
		}
	}
	var page strings.Builder
	if err := Write(&page, deck); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fail (waived)", "unmatched", "&lt;b&gt;alice", "abababababab", "waived by W-1 until"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var before strings.Builder
	if err := Write(&before, plain); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(before.String(), `id="signoff"`) {
		t.Error("a deck without decisions has a section for them")
	}
}
