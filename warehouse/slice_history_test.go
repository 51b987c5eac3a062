package warehouse_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// decidedAgainst gives a run a waiver, a sign-off and a finding.
func decidedAgainst(r *artifact.Run) {
	day := time.Date(2026, 9, 2, 0, 0, 0, 0, time.UTC)
	sum := strings.Repeat("ab", 32)
	r.Decisions = &artifact.Decisions{
		Waivers: []artifact.Waiver{
			{ID: "W-1", Cell: "*", Metric: "output_*", Reason: "known", Owner: "o", Issue: "https://example.org/1", LastDay: day.AddDate(0, 1, 0), Line: 3},
			{ID: "W-2", Cell: "*", Metric: "mean_ttft_ms", Reason: "over", Owner: "o", Issue: "https://example.org/2", LastDay: day.AddDate(0, -1, 0), Line: 9},
		},
		Entries: []artifact.Decision{{Seq: 1, LineSHA256: sum, Decision: "conditional", Role: "release", Identity: "a@example.org", Key: "SHA256:k", SignedAt: day,
			Tool: "cvs", Raw: sum, Thresholds: sum, Waivers: sum, Headline: "FAIL", Failed: 1, Waived: 1, Used: []artifact.UsedWaiver{{ID: "W-1", LastDay: day.AddDate(0, 1, 0), Gates: 1}},
			Conditions: []string{"look again"}}},
	}
}

// shuffledHistory is a history in which runs differ in everything that decides
// whether and with what they are compared, in no order.
func shuffledHistory(t *testing.T, n int) *warehouse.DB {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 11))
	one := func(of int) bool { return r.IntN(of) == 0 }
	var runs []*artifact.Run
	for i := range n {
		if i > 0 && one(8) { // published again
			again := *runs[r.IntN(len(runs))]
			again.Meta.RunID = fmt.Sprintf("h%03d", i)
			if again.Meta.StartedAt != nil {
				later := again.Meta.StartedAt.Add(time.Duration(r.IntN(200)) * time.Hour)
				again.Meta.StartedAt = &later
			}
			runs = append(runs, &again)
			continue
		}
		runs = append(runs, at(fmt.Sprintf("h%03d", i), r.IntN(4000), 0, func(run *artifact.Run) {
			id := &run.Meta.Identity
			id.Driver = []string{"atom", "atom", "atom", "vllm_atom", "sglang"}[r.IntN(5)]
			if one(4) {
				id.NNodes = 2
			}
			if one(6) {
				base := 900.0
				id.ScalingBaseline = &base
			}
			if one(8) {
				id.TP = 4
			}
			if one(12) {
				id.GPUArch = "mi355x"
			}
			run.Meta.Simulated = one(15)
			if one(3) {
				run.Meta.Labels = map[string]string{warehouse.LabelCIRun: fmt.Sprint(i / 2)}
			}
			specs := run.Thresholds.Specs
			if one(3) {
				run.Thresholds.Specs = specs[:1]
			}
			run.Expected.Cells, run.Results = nil, nil
			for c := range 4 {
				if one(3) || c == 3 && !one(6) { // the last one is rare
					continue
				}
				key := fmt.Sprintf("ISL=1024,OSL=1024,TP=%d,PP=%d,CONC=%d", id.TP, id.NNodes, 32<<c)
				run.Expected.Cells = append(run.Expected.Cells, artifact.ExpectedCell{Key: key, ID: fmt.Sprintf("w1-conc%d", 32<<c), Combo: "w1", ISL: 1024, OSL: 1024, Concurrency: 32 << c, NumPrompts: 1000})
				hosts := []string{"n1"}
				if one(5) {
					hosts = append(hosts, "n2")
				}
				for _, host := range hosts {
					data := string(resultJSON(1000 + float64(r.IntN(90))))
					data = strings.Replace(data, `"date": "20260901-100500", `, "", 1) // the runs are spread over months
					data = strings.Replace(data, `"max_concurrency": 128`, fmt.Sprintf(`"max_concurrency": %d`, 32<<c), 1)
					if one(5) {
						data = strings.Replace(data, `"completed": 1000`, `"completed": 900, "failed": 100`, 1)
					}
					if one(2) {
						data = strings.Replace(data, `"total_output`, fmt.Sprintf(`"total_input_tokens": %d, "total_output`, 1_000_000+r.IntN(80_000)), 1)
					}
					run.Results = append(run.Results, artifact.Result{Path: fmt.Sprintf("results/%s-%d.json", host, c), CellKey: key, Repeat: 1, Host: host, Data: []byte(data)})
				}
			}
			if one(2) {
				run.Expected.Tasks = append(run.Expected.Tasks, artifact.ExpectedTask{Kind: "accuracy", ID: "gsm8k"})
				run.Accuracy = append(run.Accuracy, artifact.Result{Path: "accuracy/gsm8k/results.json", CellKey: "gsm8k",
					Data: fmt.Appendf(nil, `{"results": {"gsm8k": {"alias": "gsm8k", "exact_match,strict-match": %v, "exact_match_stderr,strict-match": 0.006}}, "configs": {"gsm8k": {"task": "gsm8k"}},
 "n-shot": {"gsm8k": 3}, "versions": {"gsm8k": 3}, "config": {"model": "local-completions"}}`, 0.9+0.0001*float64(r.IntN(900)))})
			}
			if one(20) {
				run.Meta.StartedAt = nil
			}
		}))
	}
	r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	w := open(t, "")
	load(t, w, runs...)
	for i := range 3 { // some are of one identity
		if err := w.Pin(t.Context(), warehouse.BaselineRow{Name: fmt.Sprint("golden ", i), RunID: fmt.Sprintf("h%03d", 2*i), PinnedAt: time.Date(2026, 9, 9+i, 0, 0, 0, 0, time.UTC)}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestSliceIsDropped: what was kept of a run is not believed after a load, a pin
// or a question about another run.
func TestSliceIsDropped(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	previous := func(id string) float64 {
		rows, err := w.PrevRun(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Metric == "output_throughput" && r.Previous != nil {
				return *r.Previous
			}
		}
		return 0
	}
	load(t, w, at("a", -2, 2000, nil), at("c", 0, 2010, nil))
	if got := previous("c"); got != 2000 {
		t.Errorf("c is compared with %v", got)
	}
	load(t, w, at("b", -1, 2005, nil))
	if got := previous("c"); got != 2005 {
		t.Errorf("c is compared with %v after b was loaded", got)
	}
	if got := previous("b"); got != 2000 {
		t.Errorf("b is compared with %v", got)
	}
	before, err := w.RunStatus(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	more := 3000.0
	load(t, w, at("c", 0, 2010, func(r *artifact.Run) { r.Thresholds.Specs[0].Value = &more }))
	after, err := w.RunStatus(t.Context(), "c")
	if err != nil || before.Fail != 0 || after.Fail != 1 {
		t.Errorf("%d failing gates, then %d: %v", before.Fail, after.Fail, err)
	}
	pinned := func() int {
		rows, err := w.Golden(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	if pinned() != 0 {
		t.Error("compared with a pin that is not there")
	}
	if err := w.Pin(t.Context(), warehouse.BaselineRow{Name: "golden", RunID: "a", PinnedAt: time.Date(2026, 9, 9, 0, 0, 0, 0, time.UTC)}); err != nil {
		t.Fatal(err)
	}
	if pinned() == 0 {
		t.Error("the pin is not seen")
	}
}

// TestSliceTogether: many ask at once, about several runs, and are answered as one
// after the other; a question that was given up spoils nothing.
func TestSliceTogether(t *testing.T) {
	t.Parallel()
	w := shuffledHistory(t, 8)
	ids := runIDs(t, w)[:5]
	ask := func(ctx context.Context, id string) (any, error) {
		gates, err := w.Gates(ctx, id)
		if err != nil {
			return nil, err
		}
		status, err := w.RunStatus(ctx, id)
		if err != nil {
			return nil, err
		}
		prev, err := w.PrevRun(ctx, id)
		return []any{gates, status, prev}, err
	}
	want := map[string]any{}
	for _, id := range ids {
		var err error
		if want[id], err = ask(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for k := range 3 {
		all.Go(func() {
			for i := range ids {
				id := ids[(i*(2*k+1)+k)%len(ids)]
				if i%3 == k {
					short, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
					ask(short, id) // may fail: nobody waits for it
					cancel()
				}
				got, err := ask(t.Context(), id)
				if err != nil {
					t.Errorf("run %s: %v", id, err)
				} else if d := cmp.Diff(want[id], got); d != "" {
					t.Errorf("run %s (-alone +together):\n%.1000s", id, d)
				}
			}
		})
	}
	all.Wait()
}
