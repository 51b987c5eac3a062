package render

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"cvs/warehouse"
)

// A comparison deck, and a run deck with other runs' lines and distributions, in
// a browser: every chart drawn with all of its lines, nothing asked for.
func TestComparisonInBrowser(t *testing.T) {
	ctx := browser(t)
	_, comparison := compared(t)
	run := fixture()
	for _, c := range run.Cells {
		for i, name := range append([]string{frontMetric}, chartMetrics...) {
			run.Prev = append(run.Prev, ComparedRow{CellKey: c.CellKey, Metric: name, State: "compared", Other: ptr(float64(100 * (i + c.Concurrency))), BetterPct: ptr(-1.0)})
		}
		for _, p := range []float64{0, 0.5, 0.9, 0.99, 1} {
			run.Quantiles = append(run.Quantiles, warehouse.QuantileRow{CellKey: c.CellKey, Measure: "ttft", Requests: 80, Probability: p, MS: float64(c.Concurrency) * (1 + p)})
		}
	}
	seen := watch(ctx, t)
	pages := map[string]bool{}
	for name, d := range map[string]*Deck{"comparison": comparison, "lines": Build(run, testOptions)} {
		path := filepath.Join(t.TempDir(), name+".html")
		if err := WriteFile(path, d); err != nil {
			t.Fatal(err)
		}
		page := (&url.URL{Scheme: "file", Path: path}).String()
		pages[page] = true
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(1400, 1350), chromedp.Navigate(page)); err != nil {
			t.Fatal(err)
		}
		eval[bool](ctx, t, scrollThrough)
		pixels := eval[[]int](ctx, t, inked)
		if len(pixels) < 3 {
			t.Errorf("%s has %d charts", name, len(pixels))
		}
		for i, n := range pixels {
			if n < 2000 {
				t.Errorf("%s: chart %d has %d drawn pixels: it is empty", name, i, n)
			}
		}
		// The lines of other runs are there, with as many points as they have.
		if bad := eval[string](ctx, t, `cvsDeck.charts.map(c => (c.data.also || []).map(a => { const s = c.chart.getOption().series.find(s => s.name === a.label); return s && s.data.length === a.points.length ? "" : c.data.id + " lacks " + a.label; })).flat().filter(Boolean).join()`); bad != "" {
			t.Errorf("%s: %s", name, bad)
		}
		if n := eval[int](ctx, t, `cvsDeck.charts.filter(c => (c.data.also || []).length).length`); n < 3 {
			t.Errorf("%s: %d charts have lines of other runs", name, n)
		}
		eval[bool](ctx, t, `(window.scrollTo(0, 0), true)`)
		shoot(ctx, t, name)
		dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, dark); err != nil {
			t.Fatal(err)
		}
		eval[bool](ctx, t, `new Promise(r => requestAnimationFrame(() => r(true)))`)
		shoot(ctx, t, name+"-dark")
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}); err != nil {
			t.Fatal(err)
		}
		testReachable(ctx, t)
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 1400)); err != nil {
			t.Fatal(err)
		}
		if w := eval[int](ctx, t, `document.documentElement.scrollWidth`); w > 390 {
			t.Errorf("%s is %d wide on a screen of 390", name, w)
		}
		shoot(ctx, t, name+"-narrow")
	}
	messages, requests := seen()
	if len(messages) > 0 {
		t.Errorf("console: %q", messages)
	}
	for _, r := range requests {
		if !pages[r] && !strings.HasPrefix(r, "data:") && !strings.HasPrefix(r, "blob:") {
			t.Errorf("the page asked for %s", r)
		}
	}
}
