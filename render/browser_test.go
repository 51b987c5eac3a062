package render

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	// The deck's promises are about what a browser does: no request, no policy
	// violation, charts that are really drawn.
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	// What is on a sheet of paper can only be read from the print.
	"github.com/ledongthuc/pdf"
)

// browser opens a headless Chromium that cannot reach any network. Without one
// the test skips, unless CVS_TEST_REAL says that it must be there.
func browser(t testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
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
	opts = append(opts, more...)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
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

func eval[T any](ctx context.Context, t testing.TB, js string) T {
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
	// Six against concurrency and one against interactivity, of two shapes.
	if len(pixels) != 14 {
		t.Errorf("%d charts, want 14", len(pixels))
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
		// Paper, panel, text and the charts' own text, as lightness.
		light := func() []float64 {
			return eval[[]float64](ctx, t, `(async () => { await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
				const k = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
				const l = c => { k.fillStyle = c; k.fillRect(0, 0, 1, 1); const p = k.getImageData(0, 0, 1, 1).data; return (0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2]) / 255; };
				const s = n => getComputedStyle(n); return [l(s(document.body).backgroundColor), l(s(document.querySelector(".panel")).backgroundColor), l(s(document.body).color), l(cvsDeck.charts[0].chart.getOption().textStyle.color)]; })()`)
		}
		if l := light(); l[0] > 0.1 || l[1] > 0.15 || l[2] < 0.7 || l[3] < 0.6 {
			t.Errorf("in the dark, paper, panel, text and a chart's text are %.2f light", l)
		}
		defer func() {
			if l := light(); l[0] < 0.9 || l[1] < 0.9 || l[2] > 0.2 || l[3] > 0.4 {
				t.Errorf("in the light again, paper, panel, text and a chart's text are %.2f light", l)
			}
		}()
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("tools", func(t *testing.T) { testTools(ctx, t) })
	t.Run("address", func(t *testing.T) { testAddress(ctx, t, page) })
	t.Run("scale", func(t *testing.T) { testScale(ctx, t, page) })
	t.Run("reachable", func(t *testing.T) { testReachable(ctx, t) })
	t.Run("axe", func(t *testing.T) { testAxe(ctx, t) })
	t.Run("paper", func(t *testing.T) { testPaper(ctx, t, page) })
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
		d := full()
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
	t.Run("large", func(t *testing.T) { testLarge(ctx, t, path, page) })
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

// ready opens a page and says after how many milliseconds it takes input: two
// frames after the load event it has been drawn.
func ready(ctx context.Context, t testing.TB, url string) float64 {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	return eval[float64](ctx, t, `new Promise(r => { const go = () => requestAnimationFrame(() => requestAnimationFrame(() => r(performance.now()))); document.readyState === "complete" ? go() : addEventListener("load", go) })`)
}

// BenchmarkInBrowser opens a blank page and decks of several sizes in turn. It
// says, as the least of several rounds, how long a deck takes beyond the blank
// page until it takes input, until all of its data and rows are there, and how
// fast this machine is at a fixed piece of work in between.
//
//	go test -run '^$' -bench InBrowser -benchtime 7x ./render
func BenchmarkInBrowser(b *testing.B) {
	ctx := browser(b)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1400, 900)); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{14, 256, 1000, 5000} {
		path := filepath.Join(b.TempDir(), fmt.Sprintf("deck-%d.html", n))
		if err := WriteFile(path, Build(sized(n), testOptions)); err != nil {
			b.Fatal(err)
		}
		page := (&url.URL{Scheme: "file", Path: path}).String()
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			least := map[string]float64{}
			keep := func(name string, v float64) {
				if old, ok := least[name]; !ok || v < old {
					least[name] = v
				}
			}
			for b.Loop() {
				keep("blank-ms", ready(ctx, b, "data:text/html,<title>blank</title>"))
				keep("ready-ms", ready(ctx, b, page))
				keep("whole-ms", eval[float64](ctx, b, `cvsDeck.whole.then(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(performance.now())))))`))
				keep("calibration-ms", eval[float64](ctx, b, `(() => { const t = performance.now(); let x = 0; for (let i = 0; i < 2e7; i++) x = (x * 31 + i) | 0; return performance.now() - t + (x & 0) })()`))
			}
			for name, v := range least {
				b.ReportMetric(v, name)
			}
			b.ReportMetric(least["ready-ms"]-least["blank-ms"], "beyond-blank-ms")
			b.ReportMetric(least["ready-ms"]/least["blank-ms"], "times-blank")
		})
	}
}

// testAddress shares a view of a table by its address, and leads to a cell.
func testAddress(ctx context.Context, t *testing.T, page string) {
	const state = `(() => { const b = document.querySelector("#results .tools"); return [b.querySelector("input[type=search]").value, b.querySelector("select").value,
		document.querySelectorAll("#results-table tbody tr:not([hidden])").length, document.querySelector("#results-table [aria-sort]")?.getAttribute("aria-sort") || "",
		document.querySelectorAll("#results-table thead th[hidden]").length].join("|") })()`
	open := func(hash string) {
		if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(page+hash)); err != nil {
			t.Fatal(err)
		}
	}
	open("")
	eval[bool](ctx, t, `(() => { const b = document.querySelector("#results .tools"), i = b.querySelector("input[type=search]");
		i.value = "w1"; i.dispatchEvent(new Event("input"));
		b.querySelector("select").value = "pass"; b.querySelector("select").dispatchEvent(new Event("change"));
		document.querySelector("#results-table thead th:nth-child(6) button").click();
		b.querySelector(".columns").open = true; b.querySelector(".columns input").click(); return true })()`)
	want, hash := eval[string](ctx, t, state), eval[string](ctx, t, `location.hash`)
	if want != "w1|pass|2|ascending|1" {
		t.Errorf("the table's state is %s", want)
	}
	open(hash)
	if got := eval[string](ctx, t, state); got != want {
		t.Errorf("the address %s restores %s, want %s", hash, got, want)
	}
	open("#cell-w1-1k-1k-conc16?results-table.q=<img>%00&results-table.o=999&results-table.h=0.99&nothing.q=x")
	if !eval[bool](ctx, t, `document.getElementById("cell-w1-1k-1k-conc16").open`) {
		t.Error("a link to a cell with a table's state leaves the cell closed")
	}
	open("")
}

// testScale draws the whiskers of repeats, and all shapes on one scale when asked.
func testScale(ctx context.Context, t *testing.T, page string) {
	const ends = `cvsDeck.charts.filter(c => c.data.label === "Output throughput").map(c => c.chart.getModel().getComponent("yAxis").axis.scale.getExtent()[1]).join(" ")`
	ask := func() []string {
		eval[bool](ctx, t, scrollThrough)
		return strings.Fields(eval[string](ctx, t, ends))
	}
	if own := ask(); len(own) != 2 || own[0] == own[1] {
		t.Errorf("the two shapes' axes end at %v: each should have its own", own)
	}
	eval[bool](ctx, t, `document.querySelector("#charts .scale").click(), true`)
	if one := ask(); len(one) != 2 || one[0] != one[1] {
		t.Errorf("on one scale the axes end at %v", one)
	}
	if got := eval[string](ctx, t, `[...document.querySelectorAll(".scale")].map(b => b.getAttribute("aria-pressed")).join() + location.hash`); got != "true,true#?charts.y=1" {
		t.Errorf("the buttons and the address say %s", got)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(page+"#?charts.y=1")); err != nil {
		t.Fatal(err)
	}
	if one := ask(); len(one) != 2 || one[0] != one[1] {
		t.Errorf("opened by its address the axes end at %v", one)
	}
	shoot(ctx, t, "one-scale")
	want := eval[string](ctx, t, `document.querySelector("#charts figure table tbody tr:nth-child(2) td:nth-child(4)").title`)
	if got := eval[string](ctx, t, `cvsDeck.charts.find(c => c.data.label === "Output throughput").chart.getOption().series.find(s => s.name === "range").data.map(d => d.join(":")).join(" ")`); got != "32:"+strings.Replace(want, " – ", " 32:", 1)+" 32:" {
		t.Errorf("whiskers at %s, the table says %s", got, want)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(page)); err != nil {
		t.Fatal(err)
	}
}

// testReachable checks what a reader without a mouse or without eyes needs. It
// is a list of our own and no replacement for a full audit: one heading of the
// first level and none skipped, landmarks, a name for every control, heads and a
// caption for every table, a language and a title, no id twice, no positive
// tabindex, and a visible ring on whatever the Tab key reaches.
func testReachable(ctx context.Context, t *testing.T) {
	for _, f := range eval[[]string](ctx, t, `(() => {
		const bad = [], name = n => (n.getAttribute("aria-label") || n.textContent || n.labels?.[0]?.textContent || n.title || "").trim();
		if (!document.documentElement.lang || !document.title) bad.push("no language or title");
		if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
		for (const l of ["header", "nav", "main", "footer"]) if (document.querySelectorAll("body > " + l).length !== 1) bad.push("not one " + l);
		let level = 1;
		for (const h of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) { const n = +h.tagName[1]; if (n > level + 1) bad.push("heading skips to " + h.outerHTML); level = n; }
		for (const n of document.querySelectorAll("a[href],button,input,select,summary,[role=region],[role=img]")) if (!name(n)) bad.push("no name: " + n.outerHTML.slice(0, 120));
		for (const d of document.querySelectorAll("details")) if (d.firstElementChild.tagName !== "SUMMARY") bad.push("details without summary");
		for (const n of document.querySelectorAll("table")) {
			if (!n.caption || !n.tHead) bad.push("table without caption or head: " + n.id);
			for (const th of n.tHead.rows[0].cells) if (th.scope !== "col" || (!th.textContent.trim() && !th.classList.contains("barcell"))) bad.push("head without scope or text in " + n.caption.textContent);
		}
		for (const n of document.querySelectorAll("[tabindex]")) if (n.tabIndex > 0) bad.push("tabindex " + n.tabIndex);
		for (const n of document.querySelectorAll("td .s, summary .s, .verdict .s")) if (!n.textContent.trim()) bad.push("status without a word");
		return bad;
	})()`) {
		t.Error(f)
	}
	// The Tab key walks in the order of the page and never gets stuck.
	eval[bool](ctx, t, `(document.activeElement.blur(), window.scrollTo(0, 0), true)`)
	var last int
	seen := map[string]bool{}
	for i := range 40 {
		if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Tab)); err != nil {
			t.Fatal(err)
		}
		at := eval[[]any](ctx, t, `(() => { const a = document.activeElement, all = [...document.querySelectorAll("*")], s = getComputedStyle(a); return [all.indexOf(a), s.outlineStyle + " " + s.outlineWidth, a.tagName] })()`)
		if n := int(at[0].(float64)); n <= last {
			t.Errorf("Tab %d goes back to %v", i, at)
		} else {
			last = n
		}
		if s := at[1].(string); strings.HasPrefix(s, "none") || strings.HasSuffix(s, " 0px") {
			t.Errorf("Tab %d reaches %v without a visible ring", i, at)
		}
		seen[at[2].(string)] = true
	}
	for _, tag := range []string{"A", "INPUT", "SELECT", "BUTTON"} {
		if !seen[tag] {
			t.Errorf("forty times Tab reaches no %s", tag)
		}
	}
}

// testPaper prints the page: the first sheet alone says what may ship and why
// not, every sheet says whose it is and which of how many, and a table that goes
// on to another sheet has its head there too.
func testPaper(ctx context.Context, t *testing.T, page string) {
	// As it was opened: cells are closed, and no chart below the first screen drawn.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(page)); err != nil {
		t.Fatal(err)
	}
	res, err := chromedp.Call(ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{PreferCSSPageSize: ptr(true), PrintBackground: ptr(true)})
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("CVS_TEST_SHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "print.pdf"), res.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sheets := sheetsOf(t, res.Data)
	if len(sheets) < 3 {
		t.Fatalf("%d sheets", len(sheets))
	}
	for _, want := range []string{"FAIL", "INCOMPLETE", "SIMULATED", "deepseek-ai/DeepSeek-R1", "20260924T180211Z-4f9c2a", "rocm/atom:rocm7.0_2026-09-18",
		"w1_1k_1k-conc64: no result (client exited with status 1)", "8 planned · 7 measured · 1 missing", "Previous run", "Golden run", "Sign-off", "Gates by family", "Worst gates", "Throughput"} {
		if !strings.Contains(sheets[0], want) {
			t.Errorf("the first sheet does not say %q", want)
		}
	}
	// The parser loses what is drawn around a picture, so not every sheet can be
	// asked; the last ones hold tables alone.
	told, gates := 0, 0
	for i, s := range sheets {
		if strings.Contains(s, fmt.Sprintf("FAIL · deepseek-ai/DeepSeek-R1 · 20260924T180211Z-4f9c2a %d / %d", i+1, len(sheets))) || strings.Contains(s, fmt.Sprintf("%d / %d FAIL · deepseek-ai/DeepSeek-R1", i+1, len(sheets))) {
			told++
		}
		// Cells are on paper with all their gates, thirty and more rows each.
		if strings.Contains(s, "Mean E2EL") && strings.Contains(s, "≤") && strings.Contains(s, "pass") {
			gates++
			if !strings.Contains(s, "Measured") {
				t.Errorf("sheet %d has gates without the head of their table", i+1)
			}
		}
	}
	if !strings.Contains(strings.Join(sheets, " "), "Concurrency (log₂)") {
		t.Error("no chart is drawn on paper")
	}
	if told < len(sheets)/2 {
		t.Errorf("%d of %d sheets say whose they are and which of how many", told, len(sheets))
	}
	if n := strings.Count(strings.Join(sheets, " "), "Gates, set in"); gates < 3 || n != 7 {
		t.Errorf("gates of %d cells are on %d sheets, want all 7 that were measured", n, gates)
	}
}

// sheetsOf is the text of each page of a PDF, in the order it is drawn.
func sheetsOf(t *testing.T, file []byte) []string {
	t.Helper()
	doc, err := pdf.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range doc.NumPage() {
		text, err := doc.Page(i + 1).GetPlainText(nil)
		if err != nil {
			t.Fatal(err)
		}
		// Pieces of one line stand on lines of their own, and letters are joined.
		text = strings.Join(strings.Fields(text), " ")
		out = append(out, strings.NewReplacer("\ufb00", "ff", "\ufb01", "fi", "\ufb02", "fl", "\ufb03", "ffi").Replace(text))
	}
	return out
}

// testLarge opens a deck of a thousand cells: it is ready soon, its cells and
// shapes are filled when they are opened, and numbers are worded as elsewhere.
func testLarge(ctx context.Context, t *testing.T, path, page string) {
	d := sized(1000)
	if err := WriteFile(path, Build(d, testOptions)); err != nil {
		t.Fatal(err)
	}
	ready(ctx, t, page)
	eval[bool](ctx, t, `cvsDeck.ready.then(() => true)`)
	const id = "cell-w3-conc16"
	rows := eval[int](ctx, t, `(async () => {
		location.hash = "`+id+`";
		const d = () => document.querySelector("details#`+id+`[open]");
		for (let i = 0; i < 300 && !(d() && d().querySelector("table")); i++) await new Promise(requestAnimationFrame);
		return d() ? d().querySelectorAll("tbody tr").length : 0;
	})()`)
	shown := map[string]bool{}
	for _, m := range d.Metrics {
		shown[m.Metric] = shown[m.Metric] || m.CellKey == d.Cells[28].CellKey
	}
	for _, g := range d.Gates {
		shown[g.Metric] = shown[g.Metric] || g.CellKey == d.Cells[28].CellKey
	}
	want := len(shown)
	if rows != want {
		t.Errorf("the opened cell shows %d rows, want %d", rows, want)
	}
	if got := eval[string](ctx, t, `[document.querySelectorAll(".cells.lazy > details[id]").length, document.querySelectorAll("#results-table td:first-child a").length,
		[...document.querySelectorAll("[id]")].length - new Set([...document.querySelectorAll("[id]")].map(n => n.id)).size].join()`); got != "1000,1000,0" {
		t.Errorf("cards, links from the results and repeated ids: %s", got)
	}
	if got := eval[string](ctx, t, `(() => { const r = [...document.querySelectorAll("#results-table tbody tr")].find(r => r.cells[0].textContent === "w3 · conc 16");
		return cvsDeck.csv(r.closest("table")).split("\r\n").find(l => l.startsWith('"`+d.Cells[28].CellKey+`"')) || "" })()`); !strings.Contains(got, exact(*metricOf(d, d.Cells[28].CellKey, "output_throughput"))) {
		t.Errorf("the CSV has %q, not the exact output throughput", got)
	}
	eval[bool](ctx, t, `(async () => { const s = document.querySelectorAll("details.shape")[3]; s.open = true; await new Promise(r => setTimeout(r, 50)); return true })()`)
	eval[bool](ctx, t, scrollThrough)
	for i, n := range eval[[]int](ctx, t, inked) {
		if n < 2000 {
			t.Errorf("chart %d of the large deck has %d drawn pixels", i, n)
		}
	}
	shoot(ctx, t, "large")
	// The two implementations word numbers alike.
	for _, name := range []string{"output_throughput", "success_rate", "failed", "decode_latency_ratio", "mtp.accept_length", "unknown"} {
		known := "null"
		if def, ok := lookup(name); ok {
			known = strconv.Itoa(def.Digits)
		}
		for _, v := range []float64{0, 1, 0.5, 2.5, 1739.25, 0.99996, 1e-5, 12345.678, 123456789, 3e15, -4.25, 0.000123456, 99.995} {
			if got, want := eval[string](ctx, t, fmt.Sprintf("cvsDeck.rounded(%s, %v)", known, v)), rounded(name, v); got != want {
				t.Errorf("%s %v: the script says %q, the program %q", name, v, got, want)
			}
			if got, want := eval[string](ctx, t, fmt.Sprintf("cvsDeck.besides(%s, %v, 1739.3)", known, v)), besides(name, v, 1739.3); got != want {
				t.Errorf("%s %v beside 1739.3: the script says %q, the program %q", name, v, got, want)
			}
			if got, want := eval[string](ctx, t, fmt.Sprintf("cvsDeck.percent(%v) + cvsDeck.bound(%v)", v, v)), percent(v)+bound(v); got != want {
				t.Errorf("%v per cent and as a bound: the script says %q, the program %q", v, got, want)
			}
		}
	}
}

func metricOf(d *Data, key, name string) *float64 {
	for _, m := range d.Metrics {
		if m.CellKey == key && m.Metric == name {
			return m.Value
		}
	}
	return nil
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
