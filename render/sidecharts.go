package render

import (
	"cmp"
	"slices"
	"strconv"

	"cvs/collect/metric"
)

// The keys of the sidecar that the older suite's interactive viewer reads. They
// repeat what cells say, so that old tools open new files.

type sideSeries struct {
	ISL    string      `json:"isl"`
	OSL    string      `json:"osl"`
	Label  string      `json:"label"`
	Points [][2]number `json:"points"` // concurrency, value
}

type sideChart struct {
	Suffix string `json:"suffix"`
	Title  string `json:"title"`
	Unit   string `json:"unit"`
	Metric string `json:"metric"`
	Invert bool   `json:"invert"` // lower is better
}

type sideSweep struct {
	ISL       string  `json:"isl"`
	OSL       string  `json:"osl"`
	Peak      *number `json:"max_output_throughput"`
	Conc      *int    `json:"conc_at_max_tput"`
	TTFT      *number `json:"ttft_at_max_tput"`
	Saturated bool    `json:"saturated"`
	Cells     int     `json:"cell_count"`
}

// sideViewer is the viewer's own configuration.
type sideViewer struct {
	GroupBy       []string              `json:"group_by"`
	GroupLabels   map[string]string     `json:"group_labels"`
	Filters       []sideField           `json:"filters"`
	Concurrency   string                `json:"concurrency_field"`
	Metrics       map[string]sideMetric `json:"metrics"`
	HeatMetrics   []string              `json:"heatmap_metrics"`
	MarginMetrics []string              `json:"margin_metrics"`
	HeatDefault   string                `json:"default_heatmap_metric"`
	MarginDefault string                `json:"default_margin_metric"`
	Columns       []sideColumn          `json:"table_columns"`
	HeatRows      []string              `json:"heatmap_row_fields"`
	Hint          string                `json:"comparison_hint"`
	Interactivity sideInteractive       `json:"interactivity"`
}

type sideField struct {
	Field string `json:"field"`
	Label string `json:"label"`
}

type sideMetric struct {
	Label  string `json:"label"`
	Unit   string `json:"unit"`
	Higher *bool  `json:"higher_better"` // null: neither
}

type sideColumn struct {
	Field    string `json:"field,omitempty"`
	Metric   string `json:"metric,omitempty"`
	Computed string `json:"computed,omitempty"`
	Label    string `json:"label"`
}

type sideInteractive struct {
	Enabled bool   `json:"enabled"`
	TPOT    string `json:"tpot_metric"`
	Output  string `json:"output_throughput_metric"`
	Total   string `json:"total_throughput_metric"`
	Title   string `json:"title"`
	Hint    string `json:"hint"`
}

var sideChartMetrics = []string{"output_throughput", "total_token_throughput", "mean_ttft_ms", "mean_tpot_ms", "p99_ttft_ms", "p99_tpot_ms", "p99_itl_ms", metric.ScalingEfficiency}

// sideCharts fills the keys of the viewer.
func (b *builder) sideCharts(s *sidecar) {
	s.ChartSeries, s.ChartConfig, s.SweepSummaries = map[string][]sideSeries{}, []sideChart{}, []sideSweep{}
	for _, name := range sideChartMetrics {
		def, _ := lookup(name)
		s.ChartConfig = append(s.ChartConfig, sideChart{Suffix: name, Title: def.Label, Unit: def.Unit, Metric: clientName(name), Invert: def.Direction == metric.Lower})
		series := []sideSeries{}
		for _, g := range b.shapes() {
			x := sideSeries{ISL: strconv.Itoa(g.isl), OSL: strconv.Itoa(g.osl), Label: g.title}
			for _, c := range g.cells {
				// The same rule as the charts': what does not stand for a measurement
				// is no point.
				if p, _ := chartPoint(c, name); p.value != nil {
					x.Points = append(x.Points, [2]number{number(c.Concurrency), number(*p.value)})
				}
			}
			slices.SortStableFunc(x.Points, func(p, q [2]number) int { return cmp.Compare(p[0], q[0]) })
			if x.Points != nil {
				series = append(series, x)
			}
		}
		s.ChartSeries[name] = series
	}
	for _, g := range b.shapes() {
		s.SweepSummaries = append(s.SweepSummaries, sweepOf(g))
	}
	yes, no := true, false
	s.Viewer = sideViewer{
		GroupBy: []string{"isl", "osl"}, GroupLabels: map[string]string{"isl": "ISL", "osl": "OSL"},
		Filters:     []sideField{{"isl", "ISL"}, {"osl", "OSL"}, {"policy", "Policy"}, {"host", "Host"}},
		Concurrency: "concurrency", Metrics: map[string]sideMetric{}, HeatRows: []string{"isl", "osl", "policy"},
		HeatDefault: clientName(metric.Headline), MarginDefault: clientName(metric.Headline),
		MarginMetrics: []string{clientName(metric.Headline), "client.mean_ttft_ms", "client.mean_tpot_ms"},
		Columns:       []sideColumn{{Field: "policy", Label: "Policy"}, {Field: "isl", Label: "ISL"}, {Field: "osl", Label: "OSL"}, {Field: "concurrency", Label: "Conc"}, {Field: "host", Label: "Host"}},
		Hint:          "Compared cells share ISL and OSL.",
		Interactivity: sideInteractive{Enabled: true, TPOT: "client.mean_tpot_ms", Output: "client.output_throughput", Total: "client.total_token_throughput",
			Title: "Interactivity", Hint: "1000 / mean TPOT against throughput per GPU"},
	}
	for _, name := range sideChartMetrics {
		def, _ := lookup(name)
		m := sideMetric{Label: def.Label, Unit: def.Unit}
		switch def.Direction {
		case metric.Higher:
			m.Higher = &yes
		case metric.Lower:
			m.Higher = &no
		}
		s.Viewer.Metrics[clientName(name)] = m
		s.Viewer.HeatMetrics = append(s.Viewer.HeatMetrics, clientName(name))
		s.Viewer.Columns = append(s.Viewer.Columns, sideColumn{Metric: clientName(name), Label: def.Label})
	}
	s.Viewer.Columns = append(s.Viewer.Columns, sideColumn{Computed: "status", Label: "Status"})
}

// sweepOf is the best cell of a shape; saturated by the older suite's rule: the
// highest concurrency is the peak and no more than 1 % above the one before it.
func sweepOf(g *group) sideSweep {
	s := sideSweep{ISL: strconv.Itoa(g.isl), OSL: strconv.Itoa(g.osl), Cells: len(g.cells)}
	curve := g.curve()
	if len(curve) == 0 {
		return s
	}
	best, last := peakOf(curve), curve[len(curve)-1]
	s.Peak, s.Conc, s.TTFT = num(best.metric(metric.Headline).Value), &best.Concurrency, num(best.metric("mean_ttft_ms").Value)
	s.Saturated = len(curve) > 1 && best == last && output(last) <= 1.01*output(curve[len(curve)-2])
	return s
}

// sideHighlight is a cell's metric with its gate, as version 1 had it.
type sideHighlight struct {
	Label  string    `json:"label"`
	Metric string    `json:"metric"`
	Actual *number   `json:"actual"`
	Unit   string    `json:"unit"`
	Spec   *sideSpec `json:"spec"`
	Status string    `json:"status"`
	Bar    *number   `json:"bar_pct"` // of the gate that is reached, at most 100
	Margin *string   `json:"margin"`
}

type sideSpec struct {
	Kind  string  `json:"kind"`
	Value *number `json:"value"`
}

var highlightMetrics = []string{"output_throughput", "mean_ttft_ms", "mean_tpot_ms", "p99_ttft_ms", "p95_tpot_ms", metric.ScalingEfficiency}

func highlights(c *cell) []sideHighlight {
	out := []sideHighlight{}
	for _, name := range highlightMetrics {
		m := c.metric(name)
		h := sideHighlight{Label: labelOf(name), Metric: clientName(name), Actual: num(m.Value), Unit: unitOf(name), Status: "record"}
		if g := c.gate(name); g != nil {
			h.Status = string(g.State)
			h.Spec = &sideSpec{Kind: g.Kind, Value: num(g.Wanted)}
			if g.MarginPct != nil && finite(*g.MarginPct) {
				bar := number(min(100+*g.MarginPct, 100))
				words := percent(*g.MarginPct)
				h.Bar, h.Margin = &bar, &words
			}
		}
		out = append(out, h)
	}
	return out
}
