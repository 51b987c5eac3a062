package main

import (
	"fmt"
	"slices"
	"testing"

	"cvs/warehouse"
)

func TestShiftsTogether(t *testing.T) {
	t.Parallel()
	at := func(series string, worse bool, run string, cells ...string) (rows []warehouse.ChangePointRow) {
		for _, c := range cells {
			rows = append(rows, warehouse.ChangePointRow{SeriesID: series, Worse: worse, FirstRun: run, CellKey: c, Metric: "output_throughput"})
		}
		return rows
	}
	for _, tt := range []struct {
		name string
		rows []warehouse.ChangePointRow
		want []string // series, side, run and cells of each event
	}{
		{"one run", at("s", true, "r7", "a", "b"), []string{"s true r7 ab"}},
		{"another run between", slices.Concat(at("s", true, "r7", "a"), at("s", true, "r8", "c"), at("s", true, "r7", "b")), []string{"s true r7 ab", "s true r8 c"}},
		{"the other way", slices.Concat(at("s", true, "r7", "a", "b"), at("s", false, "r7", "c")), []string{"s true r7 ab", "s false r7 c"}},
		{"another series", slices.Concat(at("s", true, "r7", "a", "b"), at("q", true, "r7", "c")), []string{"s true r7 ab", "q true r7 c"}},
		{"nothing", nil, nil},
	} {
		var got []string
		for _, g := range together(tt.rows) {
			cells := ""
			for _, r := range g {
				cells += r.CellKey
			}
			got = append(got, fmt.Sprintf("%s %v %s %s", g[0].SeriesID, g[0].Worse, g[0].FirstRun, cells))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
