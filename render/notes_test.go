package render

import (
	"strings"
	"testing"
)

// Notes are Markdown whose HTML, images and links are words.
func TestNotes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"**done** after `rocm-smi`":                  "<p><strong>done</strong> after <code>rocm-smi</code></p>",
		"# Head":                                     "<h4>Head</h4>",
		"| a | b |\n|:--|--:|\n| 1 | 2 |":            `<td align="right">2</td>`,
		"<img src=x onerror=alert(1)>":               "<p>&lt;img src=x onerror=alert(1)&gt;</p>",
		"a <b onclick=x>bold</b>":                    "<p>a &lt;b onclick=x&gt;bold&lt;/b&gt;</p>",
		"<script>\nalert(1)\n</script>":              "&lt;script&gt;\nalert(1)\n&lt;/script&gt;",
		"![logo](https://example.com/l.png)":         "<p>logo (https://example.com/l.png)</p>",
		"[run](javascript:alert(1))":                 "<p>run (javascript:alert(1))</p>",
		"<https://example.com/?a=1&b=2>":             "<p>https://example.com/?a=1&amp;b=2</p>",
		"a\u202eb":                                   `a\u202eb`,
		"~~not~~":                                    "<del>not</del>",
		"<div style=\"position:fixed\">x</div>\n\ny": "&lt;div style=&#34;position:fixed&#34;&gt;x&lt;/div&gt;",
	} {
		got, err := notesHTML(in)
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%q becomes %q (%v), want %q in it", in, got, err, want)
		}
	}
	long, err := notesHTML(strings.Repeat("word ", 20_000))
	if err != nil || len(long) > maxNotes+200 || !strings.Contains(string(long), "longer than 64 KiB") {
		t.Errorf("long notes become %d bytes (%v)", len(long), err)
	}
}

// Nothing that Markdown can say adds an element beyond words.
func FuzzNotes(f *testing.F) {
	for _, s := range hostileTexts {
		f.Add(s)
	}
	f.Add("- [x](<y>)\n- ![a][b]\n\n[b]: //evil.example/x.png \"t\"\n\n`<b>`\n\n    code\n\n> q\n\n1) x\n***\n| a |\n|-|\n| <i> |")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := notesHTML(s)
		if err != nil {
			t.Fatal(err)
		}
		low := strings.ToLower(string(got))
		for _, tag := range []string{"<a ", "<a>", "<img", "<script", "<svg", "<style", "<div", "<b ", "<i>", "<iframe", "<input", " href=", " src=", " style="} {
			if i := strings.Index(low, tag); i >= 0 && strings.Count(low[:i], "<") != strings.Count(low[:i], ">") {
				t.Errorf("%q gives an attribute: %s", s, got)
			} else if i >= 0 && tag[0] == '<' {
				t.Errorf("%q gives %s: %s", s, tag, got)
			}
		}
	})
}
