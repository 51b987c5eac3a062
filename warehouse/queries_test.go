package warehouse_test

import (
	"database/sql"
	"regexp"
	"testing"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// TestSavedQueries asks every saved question; each must be described and run.
func TestSavedQueries(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	load(t, w, sampleRun("r1", resultJSON(2048)), at("r2", 1, 1000, func(r *artifact.Run) {
		r.Results[0].Data = append([]byte(`{"new_key": 3, `), r.Results[0].Data[1:]...)
	}))
	param := regexp.MustCompile(`\$(\w+)`)
	for _, q := range warehouse.SavedQueries() {
		if q.Description == "" || q.Text == "" {
			t.Errorf("%s is not described", q.Name)
		}
		seen := map[string]bool{}
		var args []any
		for _, m := range param.FindAllStringSubmatch(q.Text, -1) {
			if !seen[m[1]] {
				seen[m[1]] = true
				value := "r2"
				switch m[1] {
				case "before":
					value = "r1"
				case "policy":
					value = `{"release": {"require": [{"name": "any", "tp": 8}]}}`
				}
				args = append(args, sql.Named(m[1], value))
			}
		}
		rows, err := w.Ask(t.Context(), q.Text, args...)
		if err != nil {
			t.Errorf("%s: %v", q.Name, err)
			continue
		}
		n := 0
		for rows.Next() {
			n++
		}
		if err := rows.Err(); err != nil {
			t.Errorf("%s: %v", q.Name, err)
		}
		rows.Close()
		if n == 0 && q.Name != "changes" {
			t.Errorf("%s has no row", q.Name)
		}
	}
}
