package main

import (
	"errors"
	"strings"
	"testing"

	"cvs/collect/strictjson"
)

// set applies one --set or, with an empty value side, one --unset.
func setOne(t *testing.T, doc, set, unset string, mayAdd bool) (string, error) {
	t.Helper()
	var sets, unsets []string
	if set != "" {
		sets = []string{set}
	}
	if unset != "" {
		unsets = []string{unset}
	}
	edits, err := parseEdits(sets, unsets)
	if err != nil {
		return "", err
	}
	out, _, err := edits[0].apply([]byte(doc), mayAdd)
	return string(out), err
}

func TestEdit(t *testing.T) {
	t.Parallel()
	const profiles = `{"profiles": {"a": {"params": {"n": "1"}}, "b": {"params": {"n": "1"}}, "c": {}}}`
	for _, tc := range []struct{ name, doc, set, unset, want string }{
		{"text stays text", `{"params": {"n": "1000"}}`, "params.n=200", "", `{"params": {"n": "200"}}`},
		{"number stays number", `{"n": 1}`, "n=2.5e3", "", `{"n": 2.5e3}`},
		{"switch", `{"on": false}`, "on=true", "", `{"on": true}`},
		{"null takes JSON", `{"n": null}`, "n=3", "", `{"n": 3}`},
		{"null takes text", `{"n": null}`, "n=10.0.0.1", "", `{"n": "10.0.0.1"}`},
		{"list index", `{"v": ["a", "b"]}`, "v[1]=c:/d", "", `{"v": ["a", "c:/d"]}`},
		{"list index, dotted", `{"v": ["a", "b"]}`, "v.0=c", "", `{"v": ["c", "b"]}`},
		{"whole list", `{"v": ["a", "b"], "w": 1}`, `v=["x"]`, "", `{"v": ["x"], "w": 1}`},
		{"key with dots", `{"d": {"10.0.0.1": {"ip": "x"}}}`, "d.10.0.0.1.ip=y", "", `{"d": {"10.0.0.1": {"ip": "y"}}}`},
		{"quoted key", `{"s": {"ISL=1,OSL=2": {"k": 1}}}`, `s."ISL=1,OSL=2".k=2`, "", `{"s": {"ISL=1,OSL=2": {"k": 2}}}`},
		{"value with =", `{"e": "x"}`, "e=a=b", "", `{"e": "a=b"}`},
		{"not escaped for HTML", `{"e": "x"}`, "e=<a&b>", "", `{"e": "<a&b>"}`},
		{"escaped as JSON", `{"e": "x"}`, `e="a\`, "", `{"e": "\"a\\"}`},
		{"every profile", profiles, "params.n=2", "", `{"profiles": {"a": {"params": {"n": "2"}}, "b": {"params": {"n": "2"}}, "c": {}}}`},
		{"one profile", profiles, "profiles.b.params.n=2", "", `{"profiles": {"a": {"params": {"n": "1"}}, "b": {"params": {"n": "2"}}, "c": {}}}`},
		{"placeholder in keys and texts", `{"_c": "<x>", "<x>": ["a:<x>", {"k": "<xy>"}], "m": "<x><x>"}`, "<x>=1", "", `{"_c": "<x>", "1": ["a:1", {"k": "<xy>"}], "m": "11"}`},
		{"braces", `{"{ip}": "{ip}:1"}`, "{ip}=h", "", `{"h": "h:1"}`},
		{"placeholder beside an escape", `{"a\"<x>": "\u003cx>"}`, "<x>=1", "", `{"a\"1": "1"}`},
		{"added on a line of its own", "{\n  \"p\": {\n    \"a\": 1\n  }\n}", "p.b=x", "", "{\n  \"p\": {\n    \"a\": 1,\n    \"b\": \"x\"\n  }\n}"},
		{"added on the same line", `{"p": {"a": 1}}`, "p.b=7", "", `{"p": {"a": 1, "b": 7}}`},
		{"added to nothing", `{"p": {}}`, "p.b=true", "", `{"p": {"b": true}}`},
		{"added quoted text", `{"p": {}}`, `p.b="7"`, "", `{"p": {"b": "7"}}`},
		{"removed first", "{\n  \"a\": 1,\n  \"b\": 2\n}", "", "a", "{\n  \"b\": 2\n}"},
		{"removed last", "{\n  \"a\": 1,\n  \"b\": 2\n}", "", "b", "{\n  \"a\": 1\n}"},
		{"removed only", `{"p": {"a": 1}}`, "", "p.a", `{"p": {}}`},
		{"removed item", `["a", "b", "c"]`, "", "[1]", `["a", "c"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := setOne(t, tc.doc, tc.set, tc.unset, true)
			if err != nil || got != tc.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

func TestEditRefuses(t *testing.T) {
	t.Parallel()
	const doc = `{"container": {"image": "x", "on": true, "n": 1, "v": ["a"]}, "framework": "atom"}`
	for _, tc := range []struct{ set, unset, want string }{
		{"contaner.image=y", "", `did you mean "container"?`},
		{"zzz.image=y", "", "there are container, framework"},
		{"framework.x=y", "", "framework holds a string and has no fields"},
		{"container.v[3]=y", "", `container.v is a list of 1; "3" is no index of it`},
		{"container.v[-1]=y", "", "no index"},
		{"container.on=maybe", "", `container.on holds a boolean; "maybe" is none`},
		{"container.n=1 2", "", "holds a number"},
		{"container.v=x", "", "holds a list"},
		{"<gone>=y", "", "the placeholder <gone> does not occur"},
		{"<open=y", "", "not closed"},
		{`a."b=y`, "", "a quote is not closed"},
		{"a[1=y", "", "[ is not closed"},
		{"container.image", "", "want FIELD=VALUE"},
		{"=y", "", "the field is not named"},
		{"", "container.gone", "no field container.gone"},
		{"", "container.image=x", "named without a value"},
	} {
		_, err := setOne(t, doc, tc.set, tc.unset, true)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s%s: %v, want %q", tc.set, tc.unset, err, tc.want)
		}
	}
	var none *noFieldError
	if _, err := setOne(t, doc, "container.new=1", "", false); !errors.As(err, &none) {
		t.Errorf("a field that is absent was added to one of several files: %v", err)
	}
	if out, err := setOne(t, `{"{a}": 1, "{b}": 2, "x": 3}`, "{a}=x", "", true); err == nil {
		t.Errorf("two keys were made equal: %s", out)
	}
}

// FuzzEdit: whatever is asked for, the result is JSON or nothing.
func FuzzEdit(f *testing.F) {
	for _, s := range []string{"a.b=1", `a."b"=x`, "<x>=y", "{x}=", "v[0]=null", "v[0]", "a..b=1", "[]=1", "\xff=\xff"} {
		f.Add(`{"a": {"b": "1", "<x>": "{x}"}, "v": [1, {"c": []}], "profiles": {"p": {"q": {}}}}`, s)
	}
	f.Fuzz(func(t *testing.T, doc, s string) {
		for _, unset := range []bool{false, true} {
			sets, unsets := []string{s}, []string(nil)
			if unset {
				sets, unsets = unsets, sets
			}
			edits, err := parseEdits(sets, unsets)
			if err != nil {
				continue
			}
			out, _, err := edits[0].apply([]byte(doc), true)
			if err != nil {
				continue
			}
			if _, _, err := strictjson.Parse(out, strictjson.Options{}); err != nil {
				t.Errorf("%q on %q gave %q: %v", s, doc, out, err)
			}
		}
	})
}
