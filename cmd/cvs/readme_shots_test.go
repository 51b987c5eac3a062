package main

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	// What a reader sees is what a browser draws.
	"github.com/chromedp/chromedp"
)

// TestReadmeShots runs the demo and makes the README's pictures of it anew:
//
//	CVS_README_SHOTS=1 go test ./cmd/cvs -run TestReadmeShots
//
// Windows and colours are fixed, the numbers are those of that run.
func TestReadmeShots(t *testing.T) {
	if os.Getenv("CVS_README_SHOTS") != "1" {
		t.Skip("CVS_README_SHOTS=1 makes the README's pictures anew")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("CVS_README_SHOTS is set, but no Chromium is installed")
	}
	dir := t.TempDir()
	cvs := func(most int, args ...string) {
		t.Helper()
		var out bytes.Buffer
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: func(string) string { return "" }, now: time.Now, osUser: func() string { return "reviewer" }}
		if code := run(t.Context(), e, args); code > most {
			t.Fatalf("cvs %v: exit %d\n%s", args, code, &out)
		}
	}
	cvs(0, "demo", "--out", dir)
	runs, err := filepath.Glob(filepath.Join(dir, "cvs_runs", "*", "atom_run_deck.html"))
	check(t, err)
	if len(runs) != 3 {
		t.Fatalf("the demo left %d decks, want 3", len(runs))
	}
	slices.Sort(runs) // by start
	id := func(deck string) string { return filepath.Base(filepath.Dir(deck)) }
	both := filepath.Join(dir, "compare.html")
	cvs(1, "compare", id(runs[2]), id(runs[0]), "--warehouse", filepath.Join(dir, "cvs.duckdb"), "--html", both)

	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"), chromedp.Flag("proxy-server", "127.0.0.1:1"))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	for _, p := range []struct {
		name, file string
		height     int64
	}{{"deck-demo", runs[2], 1250}, {"index-demo", filepath.Join(dir, "published", "index.html"), 640}, {"compare-demo", both, 1250}} {
		small := palette(t, window(ctx, t, p.file, 1240, p.height))
		if len(small) > 150_000 {
			t.Errorf("%s is %d bytes", p.name, len(small))
		}
		check(t, os.WriteFile(filepath.Join("..", "..", "render", "testdata", p.name+".png"), small, 0o644))
	}
}

// window is what a window of that size shows of a page.
func window(ctx context.Context, t *testing.T, file string, width, height int64) []byte {
	t.Helper()
	address := (&url.URL{Scheme: "file", Path: file}).String()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate("about:blank"), chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`new Promise(r => setTimeout(() => r(true), 500))`, chromedp.EvalAwaitPromise)); err != nil {
		t.Fatal(err)
	}
	data, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	check(t, err)
	return data
}

// palette keeps the 256 most frequent colours of a picture: a third of the size,
// and a page of text looks the same.
func palette(t *testing.T, data []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	check(t, err)
	b := img.Bounds()
	count := map[color.RGBA]int{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
		}
	}
	var all []color.RGBA
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(x, y color.RGBA) int {
		if d := count[y] - count[x]; d != 0 {
			return d
		}
		return (int(x.R)<<16 | int(x.G)<<8 | int(x.B)) - (int(y.R)<<16 | int(y.G)<<8 | int(y.B))
	})
	var few color.Palette
	for _, c := range all[:min(256, len(all))] {
		few = append(few, c)
	}
	index := map[color.RGBA]uint8{}
	for _, c := range all {
		index[c] = uint8(few.Index(c))
	}
	out := image.NewPaletted(b, few)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out.SetColorIndex(x, y, index[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)])
		}
	}
	var small bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestCompression}
	check(t, enc.Encode(&small, out))
	return small.Bytes()
}
