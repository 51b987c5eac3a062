package signoff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/strictjson"
)

// A Problem is one mistake in a waiver or policy file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Pointer string `json:"pointer"` // RFC 6901
	Msg     string `json:"msg"`
}

// String is file:line:column: pointer: message.
func (p Problem) String() string {
	if p.Pointer == "" {
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Pointer, p.Msg)
}

// An InputError holds all problems of one file.
type InputError struct{ Problems []Problem }

// Error lists them, one a line.
func (e *InputError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxInput bounds waiver and policy files, in bytes.
const maxInput = 8 << 20

// A doc is a file being read strictly: what is not known is a problem, and all
// problems are reported together.
type doc struct {
	name     string
	data     []byte
	problems []Problem
}

// open parses the document and checks its format.
func open(name string, data []byte, format string) (*doc, obj) {
	d := &doc{name: name, data: data}
	v, findings, err := strictjson.Parse(data, strictjson.Options{MaxBytes: maxInput, MaxDepth: 16, KeepDuplicates: true})
	if err != nil {
		p := Problem{File: name, Line: 1, Column: 1, Msg: err.Error()}
		if s, ok := err.(*strictjson.SyntaxError); ok {
			p.Line, p.Column, p.Msg = s.Pos.Line, s.Pos.Column, s.Msg
		}
		d.problems = append(d.problems, p)
		return d, obj{}
	}
	for _, f := range findings {
		d.problems = append(d.problems, Problem{name, f.Pos.Line, f.Pos.Column, f.Pointer, f.Msg})
	}
	o := d.object(v, "")
	if got := o.text("format", true); got != "" && got != format {
		d.bad(o.v.Get("format"), "/format", "this version of cvs reads %q, found %q", format, got)
	}
	return d, o
}

func (d *doc) bad(v *strictjson.Value, pointer, format string, args ...any) {
	at := 0
	if v != nil {
		at = v.Offset
	}
	pos := strictjson.PosAt(d.data, at)
	d.problems = append(d.problems, Problem{d.name, pos.Line, pos.Column, pointer, fmt.Sprintf(format, args...)})
}

func (d *doc) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int { return (a.Line-b.Line)*100000 + a.Column - b.Column })
	return &InputError{d.problems}
}

// An obj is one object; what was not asked for by the end is unknown.
type obj struct {
	d       *doc
	v       *strictjson.Value
	pointer string
	asked   map[string]bool
}

func (d *doc) object(v *strictjson.Value, pointer string) obj {
	o := obj{d, v, pointer, map[string]bool{}}
	if v.Kind != strictjson.Object {
		d.bad(v, pointer, "want an object, found a %s", v.Kind)
	}
	return o
}

func (o obj) get(key string, required bool) *strictjson.Value {
	if o.d == nil {
		return nil
	}
	o.asked[key] = true
	v := o.v.Get(key)
	if v == nil && required && o.v.Kind == strictjson.Object {
		o.d.bad(o.v, o.pointer, "%s is missing", key)
	}
	return v
}

func (o obj) at(key string) string { return o.pointer + "/" + strictjson.EscapePointer(key) }

func (o obj) text(key string, required bool) string {
	v := o.get(key, required)
	switch {
	case v == nil:
		return ""
	case v.Kind != strictjson.String:
		o.d.bad(v, o.at(key), "want a text, found a %s", v.Kind)
		return ""
	case strings.TrimSpace(v.Text) == "" && required:
		o.d.bad(v, o.at(key), "is empty")
	}
	return strings.TrimSpace(v.Text)
}

func (o obj) whole(key string, least int) int {
	v := o.get(key, false)
	if v == nil {
		return 0
	}
	n, err := strconv.Atoi(v.Text)
	if v.Kind != strictjson.Number || err != nil || n < least {
		o.d.bad(v, o.at(key), "want a whole number of at least %d", least)
		return 0
	}
	return n
}

func (o obj) number(key string) *float64 {
	v := o.get(key, false)
	if v == nil {
		return nil
	}
	f, err := v.Float()
	if err != nil {
		o.d.bad(v, o.at(key), "want a number, found a %s", v.Kind)
		return nil
	}
	return &f
}

func (o obj) flag(key string) bool {
	v := o.get(key, false)
	if v == nil {
		return false
	}
	if v.Kind != strictjson.Bool {
		o.d.bad(v, o.at(key), "want true or false, found a %s", v.Kind)
	}
	return v.Bool
}

func (o obj) texts(key string) []string {
	v := o.get(key, false)
	if v == nil {
		return nil
	}
	if v.Kind != strictjson.Array {
		o.d.bad(v, o.at(key), "want a list of texts, found a %s", v.Kind)
		return nil
	}
	var out []string
	for i, item := range v.Items {
		at := fmt.Sprintf("%s/%d", o.at(key), i)
		switch text := strings.TrimSpace(item.Text); {
		case item.Kind != strictjson.String || text == "":
			o.d.bad(item, at, "want a text that is not empty")
		case slices.Contains(out, text):
			o.d.bad(item, at, "%q stands twice", text)
		default:
			out = append(out, text)
		}
	}
	return out
}

func (o obj) objects(key string, required bool) []obj {
	v := o.get(key, required)
	if v == nil {
		return nil
	}
	if v.Kind != strictjson.Array {
		o.d.bad(v, o.at(key), "want a list of objects, found a %s", v.Kind)
		return nil
	}
	var out []obj
	for i, item := range v.Items {
		out = append(out, o.d.object(item, fmt.Sprintf("%s/%d", o.at(key), i)))
	}
	return out
}

func (o obj) child(key string) (obj, bool) {
	v := o.get(key, false)
	if v == nil {
		return obj{}, false
	}
	return o.d.object(v, o.at(key)), true
}

// day reads YYYY-MM-DD as the end of that day, UTC: a waiver holds through it.
func (o obj) day(key string) time.Time {
	text := o.text(key, true)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		o.d.bad(o.v.Get(key), o.at(key), "want a day as YYYY-MM-DD, found %q", text)
		return time.Time{}
	}
	return t.AddDate(0, 0, 1)
}

// done reports the keys that nothing asked for. One that starts with _ is a
// comment, as in config files.
func (o obj) done() {
	if o.d == nil || o.v.Kind != strictjson.Object {
		return
	}
	var known []string
	for k := range o.asked {
		known = append(known, k)
	}
	slices.Sort(known)
	for _, m := range o.v.Members {
		if !o.asked[m.Name] && !strings.HasPrefix(m.Name, "_") {
			pos := strictjson.PosAt(o.d.data, m.Offset)
			o.d.problems = append(o.d.problems, Problem{o.d.name, pos.Line, pos.Column, o.at(m.Name), "unknown key; known are " + strings.Join(known, ", ")})
		}
	}
}
