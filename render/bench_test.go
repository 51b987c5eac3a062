package render

import (
	"fmt"
	"io"
	"testing"

	"cvs/warehouse"
)

// BenchmarkDeck builds and prints decks of several sizes; bytes/deck is beyond
// the chart library.
func BenchmarkDeck(b *testing.B) {
	for _, n := range []int{14, 256, 1000} {
		d := &Data{Run: fixture().Run, Status: warehouse.RunStatusRow{Verdict: warehouse.Pass}}
		for i := range n {
			k := fmt.Sprintf("ISL=%d,OSL=1024,TP=8,PP=1,CONC=%d", 1024+i/8, 1<<(i%8))
			d.Cells = append(d.Cells, warehouse.CellStatusRow{CellKey: k, CellID: fmt.Sprintf("w%d-conc%d", i/8, 1<<(i%8)), Combo: fmt.Sprintf("w%d", i/8),
				ISL: 1024 + i/8, OSL: 1024, Concurrency: 1 << (i % 8), Planned: true, State: warehouse.Pass})
			if i == 0 {
				addCell(d, k, 1024, 16)
			}
		}
		gates, metrics, tiers := d.Gates, d.Metrics, d.Tiers
		for _, c := range d.Cells[1:] {
			for _, g := range gates {
				g.CellKey = c.CellKey
				d.Gates = append(d.Gates, g)
			}
			for _, m := range metrics {
				m.CellKey = c.CellKey
				d.Metrics = append(d.Metrics, m)
			}
			for _, t := range tiers {
				t.CellKey = c.CellKey
				d.Tiers = append(d.Tiers, t)
			}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var size counter
			for b.Loop() {
				size = 0
				if err := Write(io.MultiWriter(&size), Build(d, testOptions)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size)-715_020, "bytes/deck")
		})
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
