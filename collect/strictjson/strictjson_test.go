package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseErrors(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, in string
		o        Options
		want     string
	}{
		{name: "empty", in: "", want: "1:1: the file is empty"},
		{name: "blank", in: " \n ", want: "2:2: the file is empty"},
		{name: "comment", in: "{\n  // x\n}", want: "2:3: expected a key in double quotes"},
		{name: "comment as value", in: `{"a": # x`, want: "1:7: comments are not JSON"},
		{name: "trailing comma in an object", in: `{"a":1,}`, want: "1:8: a comma too many before }"},
		{name: "trailing comma in a list", in: `[1,]`, want: "1:4: a value is missing before ]"},
		{name: "text after", in: `{} log`, want: "1:4: unexpected text after the JSON value"},
		{name: "two values", in: `{}{}`, want: "1:3: unexpected text"},
		{name: "single quotes", in: `{'a':1}`, want: "1:2: expected a key in double quotes"},
		{name: "single quoted value", in: `['a']`, want: "1:2: strings are written in double quotes"},
		{name: "NaN", in: `[NaN]`, want: "1:2: a non-finite number is not allowed"},
		{name: "other spelling of NaN", in: `[nan]`, o: Options{NonFinite: true}, want: "1:2: expected a JSON value"},
		{name: "NaN as part of a word", in: `[NaNs]`, o: Options{NonFinite: true}, want: "1:2: "},
		{name: "+1", in: `[+1]`, want: "1:2: "},
		{name: "leading zero", in: `[01]`, want: "1:2: malformed number"},
		{name: "point", in: `[1.]`, want: "1:2: malformed number: digits are missing after the point"},
		{name: "exponent", in: `[1e]`, want: "1:2: malformed number: digits are missing in the exponent"},
		{name: "minus", in: `[-]`, want: "1:2: malformed number"},
		{name: "true with a tail", in: `[trues]`, want: "1:2: "},
		{name: "cut in a string", in: `{"a": "x`, want: "1:7: the file ends inside a string"},
		{name: "cut in a key", in: `{"a`, want: "1:2: the file ends inside a string"},
		{name: "cut after a key", in: `{"a"`, want: `1:5: the file ends after the key "a"`},
		{name: "cut after a colon", in: `{"a":`, want: "1:6: the file ends where a value is expected"},
		{name: "cut in an object", in: "{\n\"a\":1", want: "2:6: the file ends inside the object opened at 1:1"},
		{name: "cut in a list", in: `[1`, want: "1:3: the file ends inside the list opened at 1:1"},
		{name: "no colon", in: `{"a" 1}`, want: `1:6: expected : after the key "a"`},
		{name: "no comma", in: `{"a":1 "b":2}`, want: "1:8: expected , or }"},
		{name: "escape", in: `["\x"]`, want: `1:3: unknown escape \x`},
		{name: "escape of a control character", in: "[\"\\\x10\"]", want: "1:3: unknown escape: \\ before the byte 0x10"},
		{name: "short \\u", in: `["\u12"]`, want: `1:3: \u needs four`},
		{name: "sign in \\u", in: `["\u+123"]`, want: `1:3: \u needs four`},
		{name: "control character", in: "[\"a\nb\"]", want: "1:4: a control character (0x0a)"},
		{name: "duplicate", in: "{\"a\":1,\n\"a\":1}", want: `2:1: the key "a" occurs twice in one object (first at 1:2)`},
		{name: "UTF-16 LE with mark", in: "\xff\xfe{\x00", want: "UTF-16 (little-endian)"},
		{name: "UTF-16 BE", in: "\x00{\x00}", want: "UTF-16 (big-endian"},
		{name: "UTF-32", in: "\xff\xfe\x00\x00", want: "UTF-32"},
		{name: "depth", in: strings.Repeat("[", 1e6), want: "nested deeper than 200 levels"},
		{name: "own depth", in: `{"a":[1]}`, o: Options{MaxDepth: 1}, want: "1:6: nested deeper than 1 levels"},
		{name: "size", in: `[1,2]`, o: Options{MaxBytes: 3}, want: "the file has 5 bytes, at most 3 are read"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Parse([]byte(c.in), c.o)
			var se *SyntaxError
			if !errors.As(err, &se) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if got := PosAt([]byte(c.in), se.Offset); got != se.Pos {
				t.Errorf("offset %d is %v, the error says %v", se.Offset, got, se.Pos)
			}
		})
	}
}

func TestParseValues(t *testing.T) {
	t.Parallel()
	in := "\xef\xbb\xbf{\r\n \"a\": [1, -0.5e+3, true, null, \"\\u00e9\\ud83d\\ude42\\n/\"],\r\n \"A\": NaN, \"i\": -Infinity, \"j\": Infinity}\n"
	v, findings, err := Parse([]byte(in), Options{NonFinite: true})
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	a := v.Get("a")
	if a == nil || a.Kind != Array || len(a.Items) != 5 || a.Items[1].Text != "-0.5e+3" || !a.Items[2].Bool || a.Items[3].Kind != Null || a.Items[4].Text != "é🙂\n/" {
		t.Errorf("a is %+v", a)
	}
	if f, err := v.Get("A").Float(); err != nil || !math.IsNaN(f) {
		t.Error(f, err)
	}
	if f, err := v.Get("i").Float(); err != nil || !math.IsInf(f, -1) {
		t.Error(f, err)
	}
	if f, err := a.Items[1].Float(); err != nil || f != -500 {
		t.Error(f, err)
	}
	if v.Get("b") != nil || a.Get("a") != nil || (*Value)(nil).Get("a") != nil {
		t.Error("a member that is not there")
	}
	if got := PosAt([]byte(in), v.Members[1].Offset); got != (Pos{3, 2}) {
		t.Errorf("A stands at %v", got)
	}
	if s := in[a.Offset:a.End]; s[0] != '[' || s[len(s)-1] != ']' {
		t.Errorf("a spans %q", s)
	}
}

func TestFloatRange(t *testing.T) {
	t.Parallel()
	for in, ok := range map[string]bool{"1e400": false, "1e308": true, "1e-400": true, `"1"`: false} {
		v, _, err := Parse([]byte(in), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Float(); (err == nil) != ok {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	wide := `{"x/y": {`
	for _, k := range strings.Fields("a b c d e f g h i j k l m n o p q r s t") {
		wide += `"` + k + `": 1, `
	}
	wide += `"c": 1, "d": 2}, "s": "a\u0000b", "t": "\ud800", "u": "` + "\xff" + `"}`
	v, findings, err := Parse([]byte(wide), Options{KeepDuplicates: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		pointer, dup, msg string
		same              bool
	}{
		{"/x~1y", "c", "occurs twice", true},
		{"/x~1y", "d", "occurs twice", false},
		{"/s", "", "a NUL", false},
		{"/t", "", "a lone surrogate", false},
		{"/u", "", "not UTF-8", false},
	}
	if len(findings) != len(want) {
		t.Fatalf("%d findings: %+v", len(findings), findings)
	}
	for i, w := range want {
		f := findings[i]
		if f.Pointer != w.pointer || f.Duplicate != w.dup || f.SameValue != w.same || !strings.Contains(f.Msg, w.msg) || f.Pos != PosAt([]byte(wide), f.Offset) {
			t.Errorf("finding %d: got %+v, want %+v", i, f, w)
		}
	}
	if v.Get("x/y").Get("d").Text != "2" || v.Get("s").Text != "a\ufffdb" || v.Get("u").Text != "\ufffd" {
		t.Error("values are not what was kept")
	}
}

func TestParseAt(t *testing.T) {
	t.Parallel()
	data := []byte("\xef\xbb\xbf {\"a\":1}\n[2] x")
	v, _, end, err := ParseAt(data, 0, Options{})
	if err != nil || v.Kind != Object || end != 11 {
		t.Fatal(v, end, err)
	}
	v, _, end, err = ParseAt(data, end, Options{})
	if err != nil || v.Kind != Array || string(data[end:]) != " x" {
		t.Fatal(v, end, err)
	}
	if _, _, _, err = ParseAt(data, end, Options{}); err == nil || !strings.HasPrefix(err.Error(), "2:5: ") {
		t.Error(err)
	}
	if _, _, _, err = ParseAt(data, len(data), Options{}); err == nil {
		t.Error("a value behind the end")
	}
}

func TestSkipLists(t *testing.T) {
	t.Parallel()
	v, _, err := Parse([]byte(`{"a": [1, [2, {"x": [3]}], "y"], "b": 4}`), Options{SkipLists: true})
	if err != nil || v.Get("a").Kind != Array || len(v.Get("a").Items) != 0 || v.Get("b").Text != "4" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, _, err := Parse([]byte(`{"a": [1, [2, nope]]}`), Options{SkipLists: true}); err == nil {
		t.Error("what is not kept is not checked")
	}
}

// TestSkippedNumbers has every way to write a list read by those who keep it and
// by those who do not.
func TestSkippedNumbers(t *testing.T) {
	t.Parallel()
	for _, list := range []string{
		"[]", "[ ]", "[0]", "[0,1]", "[0, 1.5, 22]", "[1 , 2]", "[1,  2]", "[1,\n2]", "[12345678, 123456789, 1234567812345678]",
		"[0.12345678901234567, 1.5]", "[1.5e3, 2]", "[-1, 2, -3.5, 4]", "[[1, 2], [3.25, 4], 5]", "[1, \"x\", 2]", "[1, {\"a\": [1, 2]}, 3]",
		"[1,]", "[1, ]", "[,1]", "[01, 2]", "[1., 2]", "[1.x, 2]", "[1, 2", "[1,", "[1", "[1.", "[1 2]", "[1;2]", "[1_0, 2]", "[12345678a, 1]",
		"[1, 2}", "[00]", "[0.0, 0]", "[1,2]]", "[1,/2]", "[1:2]", "[12345:78, 1]", "[1234567/, 1]",
	} {
		_, _, want := Parse([]byte(list), Options{})
		if _, _, err := Parse([]byte(list), Options{SkipLists: true}); fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("%s: %v when skipped, %v when kept", list, err, want)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[true,null]}`, `{"b":[true,null],"a":1}`, true},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`{"a":1}`, `{"b":1}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`"1"`, `1`, false},
	} {
		a, _, errA := Parse([]byte(c.a), Options{})
		b, _, errB := Parse([]byte(c.b), Options{})
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if Equal(a, b) != c.want || Equal(b, a) != c.want {
			t.Errorf("Equal(%s, %s) is not %v", c.a, c.b, c.want)
		}
	}
}

func TestIsNumber(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"0": true, "-0.0": true, "2.048E+3": true, "": false, "1,5": false, " 1": false, "1 ": false, "+1": false, ".5": false, "0x10": false, "NaN": false, "1_000": false, "٣": false} {
		if IsNumber(s) != want {
			t.Errorf("IsNumber(%q) is not %v", s, want)
		}
	}
}

func TestEscapePointer(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a": "a", "a/b": "a~1b", "~": "~0", "~1": "~01"} {
		if got := EscapePointer(in); got != want {
			t.Errorf("EscapePointer(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzParse compares with the standard decoder: what is accepted strictly must
// be JSON there too, and what is JSON there may be refused only for a reason
// that is ours (equal keys, depth).
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,true,null,"x\u00e9\ud83d\ude42"],"a":1}`, "\xef\xbb\xbf{}", `[NaN,-Infinity]`, `{"a":{"a":{"a":[[[]]]}}}`, `"\ud800"`, "[\"\xff\"]", `{"k":01}`, `  `, `{"a":1,}`, "\xff\xfe{\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, findings, err := Parse(data, Options{})
		if err == nil {
			check(t, data, v)
			if !json.Valid(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) {
				t.Errorf("accepted %q, which is no JSON", data)
			}
		} else {
			var se *SyntaxError
			if !errors.As(err, &se) || se.Offset < 0 || se.Offset > len(data) || se.Pos != PosAt(data, se.Offset) {
				t.Errorf("error without a place: %v", err)
			}
			if json.Valid(data) && !strings.Contains(err.Error(), "occurs twice") && !strings.Contains(err.Error(), "nested deeper") {
				t.Errorf("refused %q: %v", data, err)
			}
		}
		for _, g := range findings {
			if g.Pos != PosAt(data, g.Offset) {
				t.Errorf("finding %+v", g)
			}
		}
		space := new(Space)
		if _, _, err := Parse([]byte(`{"other": [1, 2.5, "x"], "a": {"b": null}}`), Options{Space: space}); err != nil {
			t.Fatal(err)
		}
		again, _, serr := Parse(data, Options{Space: space})
		if fmt.Sprint(serr) != fmt.Sprint(err) || err == nil && !reflect.DeepEqual(again, v) {
			t.Errorf("in a used space %q is %+v (%v), want %+v (%v)", data, again, serr, v, err)
		}
		_, _, kept := Parse(data, Options{KeepDuplicates: true, NonFinite: true})
		loose, _, err := Parse(data, Options{KeepDuplicates: true, NonFinite: true, SkipLists: true})
		if fmt.Sprint(err) != fmt.Sprint(kept) {
			t.Errorf("with lists kept %v, skipped %v", kept, err)
		}
		if err == nil {
			check(t, data, loose)
		} else if v != nil {
			t.Errorf("refused with fewer rules: %v", err)
		}
	})
}

// check looks at what every value promises: its place and Unicode text.
func check(t *testing.T, data []byte, v *Value) {
	if v.Offset < 0 || v.End <= v.Offset || v.End > len(data) || !utf8.ValidString(v.Text) {
		t.Fatalf("value %+v", v)
	}
	for _, e := range v.Items {
		check(t, data, e)
	}
	for _, m := range v.Members {
		if data[m.Offset] != '"' || !utf8.ValidString(m.Name) {
			t.Fatalf("member %+v", m)
		}
		check(t, data, m.Value)
	}
}
