package render

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	// The deck's promises are about what a browser does: no request, no policy
	// violation, charts that are really drawn.
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// browser opens a headless Chromium that cannot reach any network. Without one
// the test skips, unless CVS_TEST_REAL says that it must be there.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("CVS_TEST_REAL=1, but no Chromium is installed")
		}
		t.Skip("no Chromium is installed")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true),
		// Every name and address but the file itself leads nowhere.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"),
		chromedp.Flag("proxy-server", "127.0.0.1:1"),
	)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// watch collects what the page says on its console and what it asks for.
func watch(ctx context.Context, t *testing.T) func() (messages, requests []string) {
	t.Helper()
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var messages, requests []string
	console := chromedp.Console(ctx)
	sent := chromedp.Events(ctx, network.RequestWillBeSent)
	go func() {
		for m, err := range console {
			if err != nil {
				return
			}
			mu.Lock()
			messages = append(messages, fmt.Sprint(m))
			mu.Unlock()
		}
	}()
	go func() {
		for r, err := range sent {
			if err != nil {
				return
			}
			mu.Lock()
			requests = append(requests, r.Request.URL)
			mu.Unlock()
		}
	}()
	return func() ([]string, []string) {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), messages...), append([]string(nil), requests...)
	}
}

func eval[T any](ctx context.Context, t *testing.T, js string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", js, err)
	}
	return v
}

// shoot writes a screenshot below the folder CVS_TEST_SHOTS, or a temporary one.
func shoot(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("CVS_TEST_SHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if len(png) < 10_000 {
		t.Errorf("screenshot %s has %d bytes: is the page empty?", name, len(png))
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// scrollThrough brings every chart into view once and waits until it is drawn.
const scrollThrough = `(async () => {
	for (const c of document.querySelectorAll(".chart")) {
		c.scrollIntoView({block: "center"});
		for (let i = 0; i < 200 && !c.querySelector("canvas"); i++) await new Promise(requestAnimationFrame);
	}
	await new Promise(requestAnimationFrame);
	return true;
})()`

// inked counts, per chart, the pixels that are not transparent.
const inked = `[...document.querySelectorAll(".chart")].map(c => {
	const k = c.querySelector("canvas");
	if (!k) return 0;
	const d = k.getContext("2d").getImageData(0, 0, k.width, k.height).data;
	let n = 0;
	for (let i = 3; i < d.length; i += 4) if (d[i]) n++;
	return n;
})`

func TestInBrowser(t *testing.T) {
	ctx := browser(t)
	path := filepath.Join(t.TempDir(), "deck.html")
	if err := WriteFile(path, Build(fixture(), testOptions)); err != nil {
		t.Fatal(err)
	}
	seen := watch(ctx, t)
	page := (&url.URL{Scheme: "file", Path: path}).String()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1400, 1350), chromedp.Navigate(page)); err != nil {
		t.Fatal(err)
	}
	if n := eval[int](ctx, t, `cvsDeck.charts.length`); n == 4 {
		t.Error("all charts were drawn before they came into view")
	}
	shoot(ctx, t, "light")
	eval[bool](ctx, t, scrollThrough)
	pixels := eval[[]int](ctx, t, inked)
	if len(pixels) != 4 {
		t.Errorf("%d charts, want 4", len(pixels))
	}
	for i, n := range pixels {
		if n < 2000 {
			t.Errorf("chart %d has %d drawn pixels: it is empty", i, n)
		}
	}
	// The gaps of the fixture: no result at 64 on one shape, NaN at 32 and no
	// completed request at 128 on the other.
	for i, want := range []string{"16,32,128", "16,64"} {
		js := fmt.Sprintf(`cvsDeck.charts.filter(c => c.data.label === "Output throughput")[%d].chart.getOption().series[0].data.map(d => d.value || d).filter(d => typeof d[1] === "number").map(d => d[0]).join()`, i)
		if got := eval[string](ctx, t, js); got != want {
			t.Errorf("shape %d has values at %s, want %s", i, got, want)
		}
	}
	for _, id := range []string{"gates", "charts", "results", "cells", "tasks", "lifecycle", "artifacts"} {
		eval[bool](ctx, t, `(document.getElementById("`+id+`").scrollIntoView(), true)`)
		shoot(ctx, t, "light-"+id)
	}

	t.Run("dark", func(t *testing.T) {
		dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, dark); err != nil {
			t.Fatal(err)
		}
		eval[bool](ctx, t, `(window.scrollTo(0, 0), new Promise(r => requestAnimationFrame(() => r(true))))`)
		shoot(ctx, t, "dark")
		eval[bool](ctx, t, `(document.getElementById("charts").scrollIntoView(), true)`)
		shoot(ctx, t, "dark-charts")
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("tools", func(t *testing.T) { testTools(ctx, t) })
	t.Run("narrow", func(t *testing.T) {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 1400)); err != nil {
			t.Fatal(err)
		}
		eval[bool](ctx, t, `(window.scrollTo(0, 0), true)`)
		if w := eval[int](ctx, t, `document.documentElement.scrollWidth`); w > 390 {
			t.Errorf("the page is %d wide on a screen of 390", w)
		}
		shoot(ctx, t, "narrow")
		eval[bool](ctx, t, `(document.getElementById("charts").scrollIntoView(), true)`)
		shoot(ctx, t, "narrow-charts")
	})
	t.Run("hostile", func(t *testing.T) {
		d := fixture()
		for i := range d.Cells {
			d.Cells[i].Combo = hostileTexts[i%len(hostileTexts)]
			d.Cells[i].Reason = hostileTexts[(i+3)%len(hostileTexts)]
		}
		d.Run.Model, d.Run.Precision, d.Run.Labels = hostileTexts[0], hostileTexts[6], jsonOf(t, map[string]string{"notes": hostileTexts[1]})
		if err := WriteFile(path, Build(d, testOptions)); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(1400, 1350), chromedp.Navigate(page)); err != nil {
			t.Fatal(err)
		}
		eval[bool](ctx, t, scrollThrough)
		eval[bool](ctx, t, `(document.querySelectorAll("thead button, .tools button").forEach(b => b.click()), true)`)
		if got := eval[string](ctx, t, `document.title`); got == "PWN" {
			t.Error("a text of the input ran as a script")
		}
		shoot(ctx, t, "hostile")
	})
	messages, requests := seen()
	if len(messages) > 0 {
		t.Errorf("console: %q", messages)
	}
	for _, r := range requests {
		if r != page && !strings.HasPrefix(r, "data:") && !strings.HasPrefix(r, "blob:") {
			t.Errorf("the page asked for %s", r)
		}
	}
}

// testTools sorts, filters and exports.
func testTools(ctx context.Context, t *testing.T) {
	const column = `[...document.querySelectorAll("#results-table tbody tr:not([hidden])")].map(r => r.cells[4].textContent)`
	eval[bool](ctx, t, `document.querySelector("#results-table thead th:nth-child(5) button").click(), true`)
	if got := strings.Join(eval[[]string](ctx, t, column), " "); got != "16 16 32 32 64 64 128 128" {
		t.Errorf("sorted by concurrency: %s", got)
	}
	eval[bool](ctx, t, `(() => { const s = document.querySelector("#results .tools select"); s.value = "no result"; s.dispatchEvent(new Event("change")); return true })()`)
	if got := strings.Join(eval[[]string](ctx, t, column), " "); got != "64" {
		t.Errorf("filtered by no result: %s", got)
	}
	text := eval[string](ctx, t, `cvsDeck.csv(document.getElementById("results-table"))`)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("the CSV is none: %v", err)
	}
	if len(rows) != 2 || rows[1][1] != "no result" {
		t.Errorf("the CSV of the filtered table is %q", rows)
	}
	for in, want := range map[string]string{
		`=SUM(A1:A9),"x"`: `"'=SUM(A1:A9),""x"""`,
		`@SUM(1)`:         `'@SUM(1)`,
		`+1+1`:            `'+1+1`,
		"-3.5":            "-3.5",
		"-1e-05":          "-1e-05",
		"-x":              "'-x",
		"a\nb":            "\"a\nb\"",
		"plain":           "plain",
	} {
		if got := eval[string](ctx, t, fmt.Sprintf("cvsDeck.field(%q)", in)); got != want {
			t.Errorf("field(%q) = %q, want %q", in, got, want)
		}
	}
	// A link into a closed cell opens it.
	eval[bool](ctx, t, `(location.hash = "#cell-w1-1k-1k-conc16") && new Promise(r => setTimeout(() => r(true), 50))`)
	if !eval[bool](ctx, t, `document.getElementById("cell-w1-1k-1k-conc16").open`) {
		t.Error("a link to a cell leaves it closed")
	}
}
