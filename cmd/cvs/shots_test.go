package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	// What a reader sees is what a browser draws.
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"cvs/collect/lab"
)

// TestShots writes pages of runs of many kinds, and what they look like, into
// the folder CVS_TEST_SHOTS for somebody to look at:
//
//	CVS_TEST_SHOTS=/tmp/shots go test ./cmd/cvs -run TestShots
//
// Every page is shot as a whole in light; the failed sweep, the release and the
// index page also in dark, 390
// pixels wide and on paper. That a page has no console message, no request and
// no unread chart is what render's browser tests are for; here a page only must
// not be empty or wider than the screen.
func TestShots(t *testing.T) {
	dir := os.Getenv("CVS_TEST_SHOTS")
	if dir == "" {
		t.Skip("CVS_TEST_SHOTS names no folder for screenshots")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("CVS_TEST_SHOTS is set, but no Chromium is installed")
	}
	dir, err = filepath.Abs(dir)
	check(t, err)
	check(t, os.MkdirAll(dir, 0o755))
	pages := shotPages(t, dir)

	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"), chromedp.Flag("proxy-server", "127.0.0.1:1"))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	for _, page := range pages {
		shootPage(ctx, t, page, filepath.Join(dir, page.name+".png"), 1400, "light")
		if !page.all {
			continue
		}
		shootPage(ctx, t, page, filepath.Join(dir, page.name+"-dark.png"), 1400, "dark")
		shootPage(ctx, t, page, filepath.Join(dir, page.name+"-390.png"), 390, "light")
		shootPage(ctx, t, page, filepath.Join(dir, page.name+".png"), 1400, "light") // as wide as a reader's who prints
		printPage(ctx, t, page, filepath.Join(dir, page.name+".pdf"))
	}
}

// A shotPage is a page to look at; all asks for more than light.
type shotPage struct {
	name, file string
	all        bool
}

// shotPages makes the pages below dir.
func shotPages(t *testing.T, dir string) []shotPage {
	var pages []shotPage
	add := func(name string, all bool) string {
		file := filepath.Join(dir, name+".html")
		check(t, os.RemoveAll(file))
		pages = append(pages, shotPage{name, file, all})
		return file
	}
	deck := func(name string, all bool, args ...string) {
		t.Helper()
		file := add(name, all)
		res := cvsCommand(t, nil, append([]string{"deck", "-o", file}, args...)...)
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("no deck of %s: exit %d\n%s", name, res.code, res.stderr)
		}
	}

	// The published history, from the repository's copy.
	for name, deckName := range map[string]string{"atom_ci_perf.csv": "history", "atom_ci_accuracy.csv": "history-accuracy"} {
		store := filepath.Join(t.TempDir(), "cvs.duckdb")
		if res := cvsCommand(t, nil, "load", "--warehouse", store, unzipped(t, name)); res.code != 0 {
			t.Fatalf("load %s: exit %d\n%s", name, res.code, res.stderr)
		}
		deck(deckName, false, "--warehouse", store, "latest")
		if deckName == "history" {
			shelf := filepath.Join(dir, "history-shelf")
			check(t, os.RemoveAll(shelf))
			newest := cvsCommand(t, nil, "sql", "--format", "csv", "--warehouse", store, "SELECT run_id FROM run QUALIFY row_number() OVER (PARTITION BY model, driver ORDER BY started_at DESC) <= 8 AND count(*) OVER (PARTITION BY model, driver) >= 8 ORDER BY started_at DESC LIMIT 24")
			if newest.code != 0 {
				t.Fatalf("sql: exit %d\n%s", newest.code, newest.stderr)
			}
			args := append([]string{"publish", "--warehouse", store, "--to", shelf, "--assets", "shared"}, strings.Fields(newest.stdout)[1:]...)
			if res := cvsCommand(t, nil, args...); res.code != 0 {
				t.Fatalf("publish: exit %d\n%s", res.code, res.stderr)
			}
			pages = append(pages, shotPage{"index", filepath.Join(shelf, "index.html"), true}, shotPage{"history-page", firstFile(t, filepath.Join(shelf, "history", "*.html")), false})
		}
	}

	// A sweep in which one client dies, and one whose server never starts.
	failed := newFaultCase(t, lab.Faults{Client: lab.ClientFails, ClientConcurrency: 16})
	failed.config["enforce_thresholds"] = true
	failed.run()
	deck("failed", true, failed.runDir())
	dead := newFaultCase(t, lab.Faults{ServerDiesAtStart: true})
	dead.run()
	deck("no-server", false, dead.runDir())

	// Everything that is asked beside speed, with a wrong answer.
	quality := newQualityCase(t, lab.Faults{Answers: lab.AnswersEmpty})
	quality.run()
	deck("checks", false, quality.runDir())

	// Two nodes, after one.
	two := newPipeline(t, "vllm_atom", 2)
	_, _, _ = two.run(1, 0, 0)
	_, _, work := two.run(2, 100, 20)
	deck("two-nodes", false, "--warehouse", filepath.Join(two.dir, "cvs.duckdb"), filepath.Base(work))

	// One real result, and bounds that are recorded only.
	for name, in := range map[string]string{"one-cell": filepath.Join("testdata", "real"), "record-only": caseDir(t, "c114-enforce-off-violations"), "missing-cells": caseDir(t, "c244-deck-counts-add-up")} {
		config := firstFile(t, filepath.Join(in, "*_single.json"))
		deck(name, false, "--config_file", config, "--cluster_file", filepath.Join(in, "cluster.json"), "--results", in)
	}

	// A release with a waived failure.
	d := newDesk(t)
	one := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	other := reviewRun{id: "r2", driver: "vllm_atom", enforce: true}.write(t, d.dir)
	for who, role := range map[string]string{"alice": "performance", "bob": "release manager"} {
		d.want(0, "entry", "signoff", one, other, "--decision", "approve", "--role", role, "--key", d.at(who), "--confirm", "deck read", "--waivers", d.at("waivers.json"),
			"--allowed-signers", d.at("allowed"), "--policy", d.at("policy.json"))
	}
	d.want(0, "READY", "release", "deck", "-o", add("release", true), one, other, "--allowed-signers", d.at("allowed"), "--policy", d.at("policy.json"))
	d.want(1, "FAIL", "deck", one, "-o", add("signed-off", false))
	return pages
}

// unzipped is the repository's copy of a published history as a file.
func unzipped(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "warehouse", "testdata", "history", name+".gz"))
	check(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	check(t, err)
	data, err := io.ReadAll(z)
	check(t, err)
	path := filepath.Join(t.TempDir(), name)
	check(t, os.WriteFile(path, data, 0o600))
	return path
}

func firstFile(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	check(t, err)
	if len(files) == 0 {
		t.Fatalf("no file %s", pattern)
	}
	return files[0]
}

// shootPage opens a page, brings every chart into view and shoots all of it.
func shootPage(ctx context.Context, t *testing.T, page shotPage, png string, width int64, scheme string) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
	address := (&url.URL{Scheme: "file", Path: page.file}).String()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 1000), chromedp.Navigate("about:blank"), chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
	wide, err := chromedp.Run(ctx, chromedp.Evaluate[int](`(async () => {
		for (const c of document.querySelectorAll(".chart")) {
			c.scrollIntoView({block: "center"});
			for (let i = 0; i < 100 && !c.querySelector("canvas"); i++) await new Promise(requestAnimationFrame);
		}
		window.scrollTo(0, 0);
		await new Promise(r => setTimeout(r, 100));
		const tables = document.querySelectorAll("table[data-tools]").length, tools = document.querySelectorAll(".tools").length;
		return tables === tools ? document.documentElement.scrollWidth : -1; // a script that stopped half-way
	})()`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if wide < 0 {
		t.Errorf("%s: the script did not get to every table", page.name)
	}
	if int64(wide) > width {
		t.Errorf("%s is %d wide on a screen of %d", page.name, wide, width)
	}
	res, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if len(res) < 10_000 {
		t.Errorf("%s has a screenshot of %d bytes: is the page empty?", page.name, len(res))
	}
	check(t, os.WriteFile(png, res, 0o644))
}

// printPage prints the page that is open.
func printPage(ctx context.Context, t *testing.T, page shotPage, file string) {
	t.Helper()
	yes := true
	res, err := chromedp.Call(ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{PreferCSSPageSize: &yes, PrintBackground: &yes})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(res.Data, []byte("%PDF-")) {
		t.Errorf("the print of %s is no PDF", page.name)
	}
	check(t, os.WriteFile(file, res.Data, 0o644))
}
