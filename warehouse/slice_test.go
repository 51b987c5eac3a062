package warehouse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// TestSlice: what is kept of one run says what the views say of it among all
// others, for every view and macro with rows of runs and on every kind of run.
func TestSlice(t *testing.T) {
	t.Parallel()
	base := 2000.0
	mixed := everything(t)
	load(t, mixed,
		at("two nodes", 30, 1800, func(r *artifact.Run) { r.Meta.Identity.NNodes, r.Meta.Identity.ScalingBaseline = 2, &base }),
		at("two nodes again", 40, 1700, func(r *artifact.Run) { r.Meta.Identity.NNodes = 2 }),
		at("vllm", 50, 1900, driver("vllm_atom")),
		at("of one day", 50, 1900, func(r *artifact.Run) { r.Meta.Identity.ImageDigests = map[string]string{"h": "sha256:1"} }),
		at("decided", 60, 1400, decidedAgainst))
	ids := runIDs(t, mixed)
	several := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return strings.HasPrefix(id, "loose-") && slices.Index(ids, id)%4 != 0 // they are many and alike
	})
	t.Run("mixed", func(t *testing.T) {
		t.Parallel()
		sameOfOneRun(t, mixed, several, everyQuestion(t, mixed), "measurement", "threshold", "gates", "run_status", "cell_run", "noise", "prev_run", "vacuous")
	})
	t.Run("history", func(t *testing.T) {
		t.Parallel()
		w := loadHistory(t, "atom_ci_perf.csv", "atom_ci_accuracy.csv")
		var some []string
		for i, id := range runIDs(t, w) {
			if i%400 == 0 {
				some = append(some, id)
			}
		}
		sameOfOneRun(t, w, some, everyQuestion(t, w), "cell_run", "noise", "prev_run")
	})
	t.Run("shuffled", func(t *testing.T) {
		t.Parallel()
		w := shuffledHistory(t, 120)
		questions := everyQuestion(t, w)
		for text := range questions {
			if !warehouse.Comparing(text) {
				delete(questions, text)
			}
		}
		if len(questions) < 9 {
			t.Fatalf("%d questions compare runs", len(questions))
		}
		var some []string
		for i, id := range runIDs(t, w) {
			if i%4 == 0 {
				some = append(some, id)
			}
		}
		rows := sameOfOneRun(t, w, some, questions, "cell_run", "noise", "prev_run")
		for _, view := range []string{"prev_run", "framework_parity", "scaling", "golden", "regressions", "accuracy_prev_run", "threshold_age", "history", "noise", "trend"} {
			if rows["SELECT * FROM "+view] < 5 {
				t.Errorf("view %s: %d rows were compared", view, rows["SELECT * FROM "+view])
			}
		}
		// what is rare has to be among them
		for what, text := range map[string]string{
			"published twice": "cell_run WHERE repeated", "failing": "cell_run WHERE NOT healthy", "passed over": "prev_run WHERE reason LIKE '%passed over%'",
			"gone": "prev_run WHERE state = 'gone'", "against one node": "scaling WHERE single_run IS NOT NULL", "several hosts": "cell_run WHERE slot <> ''",
			"long ago": "prev_run WHERE date_diff('day', previous_at, (SELECT r.started_at FROM run r WHERE r.run_id = prev_run.run_id)) > 45",
			"refused":  "framework_parity WHERE state <> 'compared'", "without a start": "run WHERE started_at IS NULL",
		} {
			if n := values(t, w, "SELECT count(*) FROM "+text); n[0] == "0" {
				t.Errorf("%s: the history has none", what)
			}
		}
	})
}

func runIDs(t *testing.T, w *warehouse.DB) []string {
	t.Helper()
	ids, err := w.RunIDs(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// everyQuestion is every view with rows of runs, and the macros of sign-off; the
// value is where run_id stands.
func everyQuestion(t *testing.T, w *warehouse.DB) map[string]int {
	t.Helper()
	columns, err := w.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	questions := map[string]int{}
	first, at := "", 0
	for _, c := range columns {
		if c.Relation != first {
			first, at = c.Relation, 0
		}
		if c.IsView && c.Name == "run_id" {
			questions["SELECT * FROM "+c.Relation] = at
		}
		at++
	}
	for _, macro := range []string{"gate_waivers", "waiver_use", "waived_counts", "signoff_block", "signoff_standing", "signoff_state"} {
		questions["SELECT * FROM "+macro+"('2026-09-03')"] = 0
	}
	return questions
}

// sameOfOneRun asks each question about all runs together and about each run by
// itself. It returns how many rows each question had; tables that were to be kept
// and were not are reported.
func sameOfOneRun(t *testing.T, w *warehouse.DB, ids []string, questions map[string]int, keeps ...string) map[string]int {
	t.Helper()
	where, args := warehouse.Among(ids)
	want := map[string]map[string][]string{} // by question and run
	for text, at := range questions {
		want[text] = byRun(t, w, text+" WHERE "+where, at, args)
	}
	rows, all, kept := map[string]int{}, 0, map[string]bool{}
	for _, id := range ids {
		for text := range questions {
			var got []string
			have, err := w.AskRun(t.Context(), id, text+" WHERE run_id = '"+strings.ReplaceAll(id, "'", "''")+"'", func(values []any) { got = append(got, rowText(values)) })
			if err != nil {
				t.Fatalf("%s of run %s: %v", text, id, err)
			}
			for _, name := range have {
				kept[name] = true
			}
			slices.Sort(got)
			if d := cmp.Diff(want[text][id], got); d != "" {
				t.Errorf("%s of run %s (-all +kept):\n%.2000s", text, id, d)
			}
			rows[text] += len(got)
			all += len(got)
		}
	}
	for _, name := range keeps {
		if !kept[name] {
			t.Errorf("%s was not kept: nothing was compared", name)
		}
	}
	t.Logf("%d runs, %d questions, %d rows", len(ids), len(questions), all)
	if all < 1000 {
		t.Errorf("%d rows: nothing was compared", all)
	}
	return rows
}

// byRun asks a question about several runs and sorts the rows of each.
func byRun(t *testing.T, w *warehouse.DB, text string, runID int, args []any) map[string][]string {
	t.Helper()
	all, err := w.Ask(t.Context(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	rows := map[string][]string{}
	for all.Next() {
		values, err := all.Values()
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint(values[runID])
		rows[id] = append(rows[id], rowText(values))
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		slices.Sort(r)
	}
	return rows
}
