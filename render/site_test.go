package render

import (
	"bytes"
	"encoding/xml"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"cvs/warehouse"
)

// published is n runs of two configurations, one every other day.
func published(n int) []Entry {
	var out []Entry
	for i := range n {
		d := fixture()
		start := time.Date(2026, 9, 1+2*i, 6, 0, 0, 0, time.UTC)
		d.Run.StartedAt, d.Run.RunID = &start, start.Format("20060102T150405Z")
		if i%2 == 1 {
			d.Run.Driver = "vllm_atom"
		}
		out = append(out, EntryOf(d, testOptions))
	}
	return out
}

// The pages around the decks hold nothing that their templates did not write,
// whatever the entries say, and ask for nothing.
func TestSiteHostile(t *testing.T) {
	t.Parallel()
	for shift := range hostileTexts {
		entries := published(4)
		i := shift
		for k := range entries {
			poison(reflect.ValueOf(&entries[k]).Elem(), func() string {
				i++
				return hostileTexts[i%len(hostileTexts)]
			})
			entries[k].Folder = FolderName(entries[k].RunID)
		}
		for name, write := range map[string]func(io.Writer) error{
			"index":   func(w io.Writer) error { return WriteIndex(w, entries, hostileTexts, testOptions) },
			"history": func(w io.Writer) error { return WriteHistory(w, entries[:1], testOptions) },
			"summary": func(w io.Writer) error {
				d := fixture()
				poison(reflect.ValueOf(d).Elem(), func() string { i++; return hostileTexts[i%len(hostileTexts)] })
				return WriteSummary(w, d, testOptions, "javascript:alert(1)")
			},
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			root, err := html.Parse(&b)
			if err != nil {
				t.Fatal(err)
			}
			walk(root, func(n *html.Node) {
				if n.Type != html.ElementNode {
					return
				}
				if _, ok := written[n.Data]; !ok {
					t.Errorf("%s: element <%s> is not of the templates", name, n.Data)
				}
				for _, a := range n.Attr {
					if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" {
						t.Errorf("%s: attribute %s of <%s>", name, a.Key, n.Data)
					}
					if a.Key == "href" && n.DataAtom == atom.A && strings.Contains(strings.ToLower(a.Val), "javascript:") {
						t.Errorf("%s: link to %q", name, a.Val)
					}
				}
			})
		}
	}
}

func TestFolderName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []string{"20260924T180211Z-4f9c2a", "loose-0123456789ab", "../../etc", "a/b", "a\\b", "", ".hidden", "..", "CON ", "a b", "ä", strings.Repeat("x", 300), "x\x00y"} {
		got := FolderName(id)
		if got == "" || got[0] == '.' || strings.ContainsAny(got, "/\\ \x00") || len(got) > 120 || FolderName(got) != got {
			t.Errorf("%q is stored in %q", id, got)
		}
		if other, dup := seen[got]; dup {
			t.Errorf("%q and %q are both stored in %q", id, other, got)
		}
		seen[got] = id
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	groups := ByConfiguration(published(6))
	if len(groups) != 2 || len(groups[0]) != 3 || !groups[0][0].Started.After(*groups[0][1].Started) {
		t.Fatalf("%d groups", len(groups))
	}
	if groups[0][0].HistoryName() == groups[1][0].HistoryName() {
		t.Error("two configurations share a history")
	}
	real, simulated := groups[0][0], groups[0][0]
	real.Simulated = !real.Simulated
	if real.Configuration() == simulated.Configuration() {
		t.Error("simulated and real runs share a configuration")
	}
}

func TestSpark(t *testing.T) {
	t.Parallel()
	s := spark([]*float64{ptr(50.0), nil, ptr(100.0), ptr(0.0)})
	if s.Line != "M3.0 12.0M65.7 2.0L97.0 22.0" || s.Label != "3 values of 4 runs, newest 0 tok/s" {
		t.Errorf("%+v", s)
	}
	if spark([]*float64{nil}) != nil || spark(nil) != nil {
		t.Error("nothing is drawn as something")
	}
}

// Every gate is one test, nothing that was not judged is green, and an
// incomplete run has an error.
func TestJUnit(t *testing.T) {
	t.Parallel()
	d := fixture()
	d.Cells[0].Reason = "\x00\x1b[31m ]]> <&"
	var b bytes.Buffer
	if err := WriteJUnit(&b, d, testOptions); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, g := range d.Gates {
		switch g.State {
		case warehouse.Fail, warehouse.Invalid:
			want["failures"]++
		case warehouse.Pass:
		default:
			want["skipped"]++
		}
	}
	// The verdict fails, the missing cell is an error, the task is skipped.
	if got.Failures != want["failures"]+1 || got.Errors != 1 || got.Skipped != want["skipped"]+1 || got.Tests != len(d.Gates)+3 {
		t.Errorf("%d tests, %d failures, %d errors, %d skipped", got.Tests, got.Failures, got.Errors, got.Skipped)
	}
	d.Status = warehouse.RunStatusRow{Verdict: warehouse.Pass, Incomplete: true}
	if c := newBuilder(d).junitVerdict(); c.Error == nil {
		t.Error("an incomplete run is green")
	}
	d.Status = warehouse.RunStatusRow{Verdict: warehouse.Record}
	if c := newBuilder(d).junitVerdict(); c.Skipped == nil {
		t.Error("a record-only run is green")
	}
}

// What comes from outside stays words in Markdown.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a|b":                 "a\\|b",
		"<img src=x>":         "&lt;img src=x&gt;",
		"[x](http://e.com)":   "\\[x\\]\\(http://e.com\\)",
		"@team #12":           "&#64;team &#35;12",
		"line\nbreak\u202e":   `line\\nbreak\\u202e`,
		"`code` *b* _i_ \\ ~": "\\`code\\` \\*b\\* \\_i\\_ \\\\ \\~",
	} {
		if got := markdown(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	d := fixture()
	d.Run.Model = "a|b\n## head"
	var b bytes.Buffer
	if err := WriteMarkdown(&b, d, testOptions, ""); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); !strings.HasPrefix(s, "## FAIL, INCOMPLETE, SIMULATED: ") || strings.Count(s, "\n## ") != 0 || !strings.Contains(s, "| Throughput | fail |") {
		t.Errorf("the summary is\n%s", s)
	}
}
