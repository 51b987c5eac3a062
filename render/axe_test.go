package render

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// testAxe runs the rules of axe-core over the open page, in light and dark with
// everything unfolded: no violation, also none that it calls minor.
func testAxe(ctx context.Context, t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "axe", "axe.min.js.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	axe, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	// Through the debugger, which the page's policy does not bind.
	eval[bool](ctx, t, string(axe)+"; typeof window.axe === 'object'")
	// What dark changes is colours alone.
	for scheme, only := range map[string]string{"light": "", "dark": `, runOnly: ["color-contrast"]`} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		if n := eval[int](ctx, t, `(document.querySelectorAll("details").forEach(d => { d.open = true }), axe.run(document, {resultTypes: ["violations"]`+only+`}).then(r => { window.found = r; return r.passes.length }))`); n < 1 || scheme == "light" && n < 20 {
			t.Errorf("%s: only %d rules of axe-core applied", scheme, n)
		}
		for _, v := range eval[[]string](ctx, t, `found.violations.flatMap(v => v.nodes.slice(0, 4).map(n => v.id + " (" + v.impact + "): " + v.help + ": " + n.html.slice(0, 160) + " " + (n.any[0] ? n.any[0].message : "")))`) {
			t.Errorf("%s: %s", scheme, v)
		}
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}); err != nil {
		t.Fatal(err)
	}
}
