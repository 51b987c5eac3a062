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
		at("of one day", 50, 1900, func(r *artifact.Run) { r.Meta.Identity.ImageDigests = map[string]string{"h": "sha256:1"} }))
	for _, f := range []struct {
		name string
		w    *warehouse.DB
		step int // every so many runs
	}{
		{"mixed", mixed, 4},
		{"history", loadHistory(t, "atom_ci_perf.csv", "atom_ci_accuracy.csv"), 400},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			ids, err := f.w.RunIDs(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			var some []string
			for i, id := range ids { // loose results are many and alike
				if i%f.step == 0 || f.w == mixed && !strings.HasPrefix(id, "loose-") {
					some = append(some, id)
				}
			}
			where, args := warehouse.Among(some)
			questions := map[string]int{} // where run_id stands
			columns, err := f.w.Schema(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			first := ""
			at := 0
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
			want := map[string]map[string][]string{} // by question and run
			for text, at := range questions {
				want[text] = byRun(t, f.w, text+" WHERE "+where, at, args)
			}
			rows, kept := 0, map[string]bool{}
			for _, id := range some {
				for text := range questions {
					var got []string
					have, err := f.w.AskRun(t.Context(), id, text+" WHERE run_id = '"+strings.ReplaceAll(id, "'", "''")+"'", func(values []any) { got = append(got, rowText(values)) })
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
					rows += len(got)
				}
			}
			for _, name := range []string{"measurement", "threshold", "gates", "run_status", "cell_run", "noise", "prev_run", "vacuous"} {
				if !kept[name] {
					t.Errorf("%s was not kept: nothing was compared", name)
				}
			}
			t.Logf("%d of %d runs, %d rows", len(some), len(ids), rows)
			if rows < 1000 {
				t.Errorf("%d rows: nothing was compared", rows)
			}
		})
	}
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
