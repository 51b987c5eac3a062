package render

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// publishedShared is a folder with one deck, its history and the index, all with
// shared assets.
func publishedShared(t *testing.T) string {
	t.Helper()
	dir, opts := t.TempDir(), testOptions
	opts.Shared = true
	assets, err := SharedAssets()
	if err != nil {
		t.Fatal(err)
	}
	d := fixture()
	entry := EntryOf(d, opts)
	write := func(name string, data []byte) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range assets {
		write(AssetFolder+"/"+a.Name, a.Data)
	}
	var deck, history, index bytes.Buffer
	for _, err := range []error{Write(&deck, Build(d, opts)), WriteHistory(&history, []Entry{entry}, opts), WriteIndex(&index, []Entry{entry}, nil, opts)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write("runs/"+entry.Folder+"/"+DeckName, deck.Bytes())
	write("history/"+entry.HistoryName(), history.Bytes())
	write("index.html", index.Bytes())
	// A script that stands in the markup must not run, wherever it comes from.
	write("runs/bad/evil.js", []byte(`document.title = "PWN"`))
	write("runs/bad/"+DeckName, bytes.Replace(deck.Bytes(), []byte("</main>"), []byte(`</main><script src="evil.js"></script><script>document.title = "PWN"</script>`), 1))
	return dir
}

// Pages with shared assets work from a drive and from a server, ask for nothing
// but their own assets, and run no other script.
func TestSharedInBrowser(t *testing.T) {
	dir := publishedShared(t)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	for name, base := range map[string]string{"file": (&url.URL{Scheme: "file", Path: dir}).String(), "http": server.URL} {
		t.Run(name, func(t *testing.T) {
			ctx := browser(t, chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
			seen := watch(ctx, t)
			testShared(ctx, t, base)
			messages, requests := seen()
			if len(messages) > 0 {
				t.Errorf("console: %q", messages)
			}
			for _, r := range requests {
				path, ours := strings.CutPrefix(r, base+"/")
				asset, isAsset := strings.CutPrefix(path, AssetFolder+"/")
				if !ours || isAsset && !IsAsset(asset) || !isAsset && !strings.HasSuffix(path, ".html") && path != "favicon.ico" && path != "" {
					t.Errorf("the page asked for %s", r)
				}
			}
			if err := chromedp.Do(ctx, chromedp.Navigate(base+"/runs/bad/"+DeckName)); err != nil {
				t.Fatal(err)
			}
			eval[bool](ctx, t, booted)
			if got := eval[string](ctx, t, `document.title`); got == "PWN" {
				t.Error("a script that stands in the markup ran")
			}
		})
	}
}

// booted waits for the script that the page loads.
const booted = `(async () => { for (let i = 0; i < 300 && !window.cvsDeck; i++) await new Promise(r => setTimeout(r, 10)); return !!window.cvsDeck })()`

func testShared(ctx context.Context, t *testing.T, base string) {
	entry := EntryOf(fixture(), testOptions)
	for _, page := range []string{"index.html", "history/" + entry.HistoryName(), "runs/" + entry.Folder + "/" + DeckName} {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(1400, 1350), chromedp.Navigate(base+"/"+page)); err != nil {
			t.Fatal(err)
		}
		if !eval[bool](ctx, t, booted) {
			t.Fatalf("%s: the script was not loaded", page)
		}
		if got := eval[string](ctx, t, `getComputedStyle(document.querySelector(".lost")).display`); got != "none" {
			t.Errorf("%s: the style sheet does not apply", page)
		}
		if eval[int](ctx, t, `document.querySelectorAll(".tools").length`) == 0 {
			t.Errorf("%s: no table has tools", page)
		}
	}
	eval[bool](ctx, t, `(async () => {
		for (const c of document.querySelectorAll(".chart")) {
			c.scrollIntoView({block: "center"});
			for (let i = 0; i < 200 && !c.querySelector("canvas"); i++) await new Promise(r => setTimeout(r, 10));
		}
		await new Promise(requestAnimationFrame);
		return true;
	})()`)
	pixels := eval[[]int](ctx, t, inked)
	if len(pixels) != 14 {
		t.Errorf("%d charts, want 14", len(pixels))
	}
	for i, n := range pixels {
		if n < 2000 {
			t.Errorf("chart %d has %d drawn pixels: it is empty", i, n)
		}
	}
}
