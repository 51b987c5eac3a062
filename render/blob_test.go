package render

import (
	"bytes"
	"compress/gzip"
	"encoding/ascii85"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"cvs/warehouse"
)

// unpacked is the page's data as a reader without our script would get it.
func unpacked(t *testing.T, page string) map[string]any {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	walk(root, func(n *html.Node) {
		if n.Type == html.ElementNode && attr(n, "id") == "deck-data" {
			data = []byte(n.FirstChild.Data)
		}
	})
	var packed string
	if json.Unmarshal(data, &packed) == nil {
		for i := range unsafe85 {
			packed = strings.ReplaceAll(packed, instead85[i:i+1], unsafe85[i:i+1])
		}
		z, err := gzip.NewReader(ascii85.NewDecoder(strings.NewReader(packed)))
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("the page's data is no strict JSON: %v", err)
	}
	return out
}

// A large deck drops nothing: every metric, gate and command of every cell is
// in the page's data with all its digits.
func TestLargeDeckIsComplete(t *testing.T) {
	t.Parallel()
	d := sized(200)
	d.Metrics[5].Value, d.Metrics[5].Text = nil, "NaN"
	d.Metrics = append(d.Metrics, warehouse.MetricRow{CellKey: d.Cells[7].CellKey, Host: "node-01", Metric: `odd</script>`, Value: ptr(1e-9)})
	d.Gates[40].Got, d.Gates[40].GotText, d.Gates[40].State, d.Gates[40].Reason = nil, "NaN", warehouse.Invalid, "not a number"
	_, source := parse(t, Build(d, testOptions))
	got := unpacked(t, source)
	names := got["names"].([]any)
	index := map[string]int{}
	for i, n := range names {
		index[n.(string)] = i
	}
	cells := map[string][]any{}
	for _, c := range got["cells"].([]any) {
		cells[c.([]any)[0].(string)] = c.([]any)
	}
	if len(cells) != 200 {
		t.Fatalf("%d cells, want 200", len(cells))
	}
	for _, m := range d.Metrics {
		host := cells[m.CellKey][2].([]any)[0].([]any)
		v := host[1].([]any)[index[m.Metric]]
		if m.Value == nil {
			if odd := host[2].(map[string]any)[strconv.Itoa(index[m.Metric])]; v != nil || odd == nil || odd.([]any)[0] != m.Text {
				t.Errorf("%s of %s is %v (%v), want the text %q", m.Metric, m.CellKey, v, odd, m.Text)
			}
			continue
		}
		if v != *m.Value {
			t.Errorf("%s of %s is %v, want %v", m.Metric, m.CellKey, v, *m.Value)
		}
	}
	specs := got["specs"].([]any)
	at := map[string]int{}
	for _, g := range d.Gates {
		block := cells[g.CellKey][3].([]any)[0].([]any)
		i := at[g.CellKey]
		at[g.CellKey]++
		spec := specs[int(block[1].([]any)[i].(float64))].([]any)
		if names[int(spec[0].(float64))] != g.Metric || spec[1] != g.Kind {
			t.Fatalf("gate %d of %s is on %v, want %s", i, g.CellKey, spec, g.Metric)
		}
		if w := block[2].([]any)[i]; w != *g.Wanted {
			t.Errorf("gate on %s of %s wants %v, not %v", g.Metric, g.CellKey, w, *g.Wanted)
		}
		if s := block[3].([]any)[i]; s != string(g.State) {
			t.Errorf("gate on %s of %s is %v, not %s", g.Metric, g.CellKey, s, g.State)
		}
		line := 0.0
		for _, step := range block[6].([]any)[:i+1] {
			line += step.(float64)
		}
		if int(line) != g.Line {
			t.Errorf("gate on %s of %s stands in line %v, not %d", g.Metric, g.CellKey, line, g.Line)
		}
	}
	for _, a := range d.Attempts {
		row := cells[a.CellKey][4].([]any)[0].([]any)
		if row[7] != command(a.ClientArgv) || got["servers"].([]any)[int(row[4].(float64))] != command(a.ServerArgv) {
			t.Errorf("the commands of %s are %v", a.CellKey, row)
		}
	}
}

// Without script a large deck still holds what matters: each failed gate in
// full, for the other cells the tightest, and a place that links to a cell lead
// to.
func TestLargeDeckWithoutScript(t *testing.T) {
	t.Parallel()
	d := sized(200)
	root, _ := parse(t, Build(d, testOptions))
	failed, margins := 0, 0
	ids, hrefs := map[string]bool{}, map[string]bool{}
	walk(root, func(n *html.Node) {
		ids[attr(n, "id")] = true
		if href := attr(n, "href"); href != "" {
			hrefs[strings.TrimPrefix(href, "#")] = true
		}
		if n.Type != html.ElementNode {
			return
		}
		switch attr(n, "id") {
		case "cells":
			walk(n, func(n *html.Node) {
				if n.Data == "tr" && attr(n, "class") == "fail" {
					failed++
				}
			})
		case "gate-matrix":
			walk(n, func(n *html.Node) {
				if n.Data == "td" && n.FirstChild != nil && strings.HasSuffix(n.FirstChild.Data, "% P99 TTFT") {
					margins++
				}
			})
		}
	})
	for href := range hrefs {
		if !ids[href] {
			t.Errorf("a link leads to #%s, which is nowhere", href)
		}
	}
	wantFailed := 0
	for _, g := range d.Gates {
		if bad(g.State) {
			wantFailed++
		}
	}
	if failed != wantFailed || margins != 200 {
		t.Errorf("%d failed gates and %d margins, want %d and 200", failed, margins, wantFailed)
	}
}

// Text in the page's data cannot end its element, and numbers JSON does not
// have become null.
func TestBlobText(t *testing.T) {
	t.Parallel()
	for _, s := range append(hostileTexts, "plain", "") {
		d := &blob{}
		d.text(s)
		var back string
		if err := json.Unmarshal(d.b, &back); err != nil || back != text(s) {
			t.Errorf("%q reads back as %q (%v)", s, back, err)
		}
		if bytes.ContainsAny(d.b, "<>&") || bytes.Contains(d.b, []byte("\u2028")) {
			t.Errorf("%q is written as %s", s, d.b)
		}
	}
	for _, v := range []float64{0, math.Copysign(0, -1), 1e-9, 1.5e300, 123456789.123456789, 0.1, -2.5e-7, 1 << 60} {
		d := &blob{}
		d.number(&v)
		var back float64
		if err := json.Unmarshal(d.b, &back); err != nil || back != v {
			t.Errorf("%v reads back as %v (%v)", v, back, err)
		}
	}
	d := &blob{}
	d.number(ptr(math.Inf(1)))
	if string(d.b) != "null" {
		t.Errorf("infinity is %s", d.b)
	}
}
