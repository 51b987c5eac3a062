package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"cvs/templates"
)

// AssetFolder is where the pages of a published folder find the files that they
// share, beside runs and history.
const AssetFolder = "assets"

// An Asset is a file that published pages share. Its name is the SHA-256 of its
// bytes, so that pages of several versions of this program live side by side and
// a file never changes under a page.
type Asset struct {
	Name string // 64 hexadecimal digits and .js or .css
	Data []byte
}

var assetName = regexp.MustCompile(`^[0-9a-f]{64}\.(js|css)$`)

// IsAsset says whether a file's name is one that [SharedAssets] gives.
func IsAsset(name string) bool { return assetName.MatchString(name) }

var assetRef = regexp.MustCompile(AssetFolder + `/([0-9a-f]{64}\.(?:js|css))`)

// AssetsIn lists the assets that a page refers to.
func AssetsIn(page []byte) []string {
	var out []string
	for _, m := range assetRef.FindAllSubmatch(page, -1) {
		if name := string(m[1]); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// SharedAssets are the files that pages made with [Options.Shared] need: style
// sheet, script and chart library.
func SharedAssets() ([]Asset, error) {
	a, err := assetsOf(templates.Deck())
	if err != nil {
		return nil, err
	}
	return []Asset{named(a.style, ".css"), named(a.boot, ".js"), named(a.charts, ".js")}, nil
}

func named(data []byte, ext string) Asset {
	sum := sha256.Sum256(data)
	return Asset{Name: hex.EncodeToString(sum[:]) + ext, Data: data}
}

// assets are the bytes that ship with the program and run or style a page.
type assets struct{ style, boot, charts []byte }

// head is how a page has its style and scripts: in itself, or as files beside it.
type head struct {
	Policy   string
	Style    template.CSS
	StyleRef string       // address of the style sheet; "" for a style in the page
	Paper    template.CSS // what stands at the foot of every printed page
	Boot     template.JS
	// The chart library: its text, or its address and hash.
	Charts               template.HTML
	ChartsRef, ChartsSum string
}

// inPage puts the assets into the page.
func (a *assets) inPage(charts bool, foot string) head {
	h := head{Style: template.CSS(a.style), Paper: paper(foot), Boot: template.JS(a.boot)}
	styles := sourceHash(a.style) + " " + sourceHash([]byte(h.Paper))
	h.Policy = policy(styles, a.boot)
	if charts {
		h.Charts, h.Policy = template.HTML(a.charts), policy(styles, a.charts, a.boot)
	}
	return h
}

// paper is the style that puts a text beside the page number of every printed
// page. Whatever is not a letter or a digit is escaped: the text comes from
// outside and ends neither the string nor the element.
func paper(foot string) template.CSS {
	const most = 110 // what fits on one line
	var b strings.Builder
	for i, r := range []rune(text(foot)) {
		switch {
		case i == most:
			return template.CSS(paperStart + b.String() + `\2026 ` + paperEnd)
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\%x `, r)
		}
	}
	return template.CSS(paperStart + b.String() + paperEnd)
}

const (
	paperStart = `@page { @bottom-left { content: "`
	paperEnd   = `"; font: 9px system-ui, sans-serif; } }`
)

// beside refers to the assets in the folder that the relative address up leads
// to; up ends with a slash or is empty.
//
// A policy can name a file by its hash only where the browser may read it to
// compare, which Chromium refuses for file: addresses: there every file has an
// origin of its own. So the policy names the hash of one small script in the
// page and lets that script, and nothing that stands in the markup, load more
// ('strict-dynamic'); it loads the asset, and the asset the chart library, both
// with an integrity hash where the page came over HTTP. Opened from a drive, what
// runs is thus whatever stands under the asset's name: whoever may write there
// may also write the page. Style sheets know no such delegation; 'self' is the
// page's own site, and for a file: address any file of the drive. A style can
// load nothing here, as the policy allows no image or font from elsewhere.
func (a *assets) beside(up string, charts bool, foot string) head {
	at := func(x Asset) string { return up + AssetFolder + "/" + x.Name }
	boot, lib := named(a.boot, ".js"), named(a.charts, ".js")
	loader := fmt.Sprintf(`(function () { var s = document.createElement("script"); s.src = %q; if (location.protocol !== "file:") s.integrity = %q; document.body.append(s); })();`, at(boot), integrity(boot.Data))
	h := head{StyleRef: at(named(a.style, ".css")), Paper: paper(foot), Boot: template.JS(loader)}
	h.Policy = "default-src 'none'; style-src 'self' " + sourceHash([]byte(h.Paper)) + "; script-src " + sourceHash([]byte(loader)) + " 'strict-dynamic'" + policyEnd
	if charts {
		h.ChartsRef, h.ChartsSum = at(lib), integrity(lib.Data)
	}
	return h
}

func assetsOf(files fs.FS) (*assets, error) {
	var a assets
	for _, f := range []struct {
		name string
		dst  *[]byte
	}{{"deck.css", &a.style}, {"boot.js", &a.boot}, {"vendor/echarts/echarts.common.min.js", &a.charts}} {
		var err error
		if *f.dst, err = fs.ReadFile(files, f.name); err != nil {
			return nil, fmt.Errorf("reading the pages' assets: %w", err)
		}
	}
	return &a, nil
}
