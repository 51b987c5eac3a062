package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cvs/collect/plan"
	"cvs/collect/strictjson"
)

// An edit is one --set or --unset: of a field, or of a placeholder wherever it
// stands.
type edit struct {
	text  string   // as typed, for messages
	path  []string // segments of a field; nil for a placeholder
	token string   // <…> or {…}, with its brackets
	value string
	unset bool
}

// parseEdits reads the values of --set and --unset.
func parseEdits(sets, unsets []string) ([]edit, error) {
	var out []edit
	for _, s := range slices.Concat(sets, unsets) {
		if !utf8.ValidString(s) {
			return nil, badInput("%q is not UTF-8", s)
		}
	}
	for _, s := range sets {
		ed := edit{text: s}
		rest := ""
		if len(s) > 0 && (s[0] == '<' || s[0] == '{') {
			end := strings.IndexByte(s, map[byte]byte{'<': '>', '{': '}'}[s[0]])
			if end < 0 {
				return nil, badInput("--set %s: the placeholder is not closed", s)
			}
			ed.token, rest = s[:end+1], s[end+1:]
		} else {
			var err error
			if ed.path, rest, err = splitPath(s); err != nil {
				return nil, badInput("--set %s: %v", s, err)
			}
		}
		v, ok := strings.CutPrefix(rest, "=")
		if !ok {
			return nil, badInput("--set %s: want FIELD=VALUE, for example container.image=rocm/atom-dev:latest", s)
		}
		ed.value = v
		out = append(out, ed)
	}
	for _, s := range unsets {
		p, rest, err := splitPath(s)
		if err == nil && rest != "" {
			err = fmt.Errorf("a field is named without a value")
		}
		if err != nil {
			return nil, badInput("--unset %s: %v", s, err)
		}
		out = append(out, edit{text: s, path: p, unset: true})
	}
	return out, nil
}

// splitPath cuts a dotted field into segments and returns what follows it. A
// segment in double quotes may hold anything; [3] is the segment 3.
func splitPath(s string) (segs []string, rest string, err error) {
	i := 0
	for i < len(s) && s[i] != '=' {
		switch s[i] {
		case '.':
			i++
		case '"':
			end := strings.IndexByte(s[i+1:], '"')
			if end < 0 {
				return nil, "", fmt.Errorf("a quote is not closed")
			}
			segs = append(segs, s[i+1:i+1+end])
			i += end + 2
		case '[':
			end := strings.IndexByte(s[i:], ']')
			if end < 0 {
				return nil, "", fmt.Errorf("[ is not closed")
			}
			segs = append(segs, s[i+1:i+end])
			i += end + 1
		default:
			end := strings.IndexAny(s[i:], `.=["`)
			if end < 0 {
				end = len(s) - i
			}
			segs = append(segs, s[i:i+end])
			i += end
		}
	}
	if len(segs) == 0 || slices.Contains(segs, "") {
		return nil, "", fmt.Errorf("the field is not named")
	}
	return segs, s[i:], nil
}

// A noFieldError says that a file has no such field; with several files another
// one may have it.
type noFieldError struct{ msg string }

func (e *noFieldError) Error() string { return e.msg }

// apply carries out an edit and changes no byte around it. A field that is
// absent from the top level and lies in profiles is edited in every profile
// that has its block. added names a field that did not exist before.
func (ed edit) apply(doc []byte, mayAdd bool) (out []byte, added bool, err error) {
	root, _, err := strictjson.Parse(doc, strictjson.Options{})
	if err != nil {
		return nil, false, err
	}
	if ed.token != "" {
		out = replaceToken(doc, root, ed.token, ed.value)
		if bytes.Equal(out, doc) {
			return nil, false, &noFieldError{fmt.Sprintf("the placeholder %s does not occur", ed.token)}
		}
		return out, false, stillJSON(out)
	}
	bases := []*strictjson.Value{root}
	if profiles := root.Get("profiles"); profiles != nil && root.Get(ed.path[0]) == nil {
		var having []*strictjson.Value
		for _, m := range profiles.Members {
			if m.Value.Get(ed.path[0]) != nil {
				having = append(having, m.Value)
			}
		}
		if len(having) > 0 {
			bases = having
		}
	}
	type splice struct {
		from, to int
		text     string
	}
	var splices []splice
	for _, base := range bases {
		at, err := locate(base, ed.path)
		if err != nil {
			return nil, false, err
		}
		switch {
		case ed.unset && at.value == nil:
			return nil, false, &noFieldError{fmt.Sprintf("no field %s", strings.Join(ed.path, "."))}
		case ed.unset:
			from, to, text := at.removal()
			splices = append(splices, splice{from, to, text})
		case at.value != nil:
			text, err := encodeLike(at.value.Kind, ed.value)
			if err != nil {
				return nil, false, fmt.Errorf("%s %w", strings.Join(ed.path, "."), err)
			}
			splices = append(splices, splice{at.value.Offset, at.value.End, text})
		case !mayAdd:
			return nil, false, at.missing()
		default:
			added = true
			pos, text := at.insertion(doc, ed.value)
			splices = append(splices, splice{pos, pos, text})
		}
	}
	slices.SortFunc(splices, func(a, b splice) int { return b.from - a.from })
	out = slices.Clone(doc)
	for _, s := range splices {
		out = slices.Replace(out, s.from, s.to, []byte(s.text)...)
	}
	return out, added, stillJSON(out)
}

// stillJSON refuses an edit that made two keys equal, for example by giving two
// nodes one address.
func stillJSON(doc []byte) error {
	if _, _, err := strictjson.Parse(doc, strictjson.Options{}); err != nil {
		return fmt.Errorf("the edited file would be refused: %w", err)
	}
	return nil
}

// A place is where a field stands, or would stand, in its parent.
type place struct {
	parent *strictjson.Value
	index  int // in the parent's members or items
	name   string
	value  *strictjson.Value // nil: absent
}

// locate follows a path. A key may itself hold dots (an address), so the
// longest run of segments that is a key is taken.
func locate(v *strictjson.Value, path []string) (place, error) {
	var done []string
	for {
		if v.Kind == strictjson.Array {
			i, err := strconv.Atoi(path[0])
			if err != nil || i < 0 || i >= len(v.Items) {
				return place{}, &noFieldError{fmt.Sprintf("%s is a list of %d; %q is no index of it", strings.Join(done, "."), len(v.Items), path[0])}
			}
			if len(path) == 1 {
				return place{v, i, path[0], v.Items[i]}, nil
			}
			v, done, path = v.Items[i], append(done, path[0]), path[1:]
			continue
		}
		if v.Kind != strictjson.Object {
			return place{}, &noFieldError{fmt.Sprintf("%s holds a %s and has no fields", strings.Join(done, "."), v.Kind)}
		}
		n, at := 0, -1
		for k := len(path); k > 0 && at < 0; k-- {
			name := strings.Join(path[:k], ".")
			at = slices.IndexFunc(v.Members, func(m strictjson.Member) bool { return m.Name == name })
			n = k
		}
		switch {
		case at < 0 && len(path) == 1:
			return place{v, len(v.Members), path[0], nil}, nil
		case at < 0:
			return place{}, (&place{parent: v, name: path[0]}).missing()
		case n == len(path):
			return place{v, at, v.Members[at].Name, v.Members[at].Value}, nil
		}
		v, done, path = v.Members[at].Value, append(done, path[:n]...), path[n:]
	}
}

// missing names the fields that exist instead.
func (p *place) missing() error {
	var names []string
	for _, m := range p.parent.Members {
		if !strings.HasPrefix(m.Name, "_") {
			names = append(names, m.Name)
		}
	}
	msg := fmt.Sprintf("no field %q", p.name)
	if n := plan.Nearest(p.name, names); n != "" {
		msg += fmt.Sprintf("; did you mean %q?", n)
	} else if len(names) > 0 {
		msg += "; there are " + strings.Join(names, ", ")
	}
	return &noFieldError{msg}
}

// removal cuts the field and one comma.
func (p place) removal() (from, to int, text string) {
	type span struct{ from, to int }
	var all []span
	for _, m := range p.parent.Members {
		all = append(all, span{m.Offset, m.Value.End})
	}
	for _, it := range p.parent.Items {
		all = append(all, span{it.Offset, it.End})
	}
	switch {
	case len(all) == 1 && p.parent.Kind == strictjson.Object:
		return p.parent.Offset, p.parent.End, "{}"
	case len(all) == 1:
		return p.parent.Offset, p.parent.End, "[]"
	case p.index == len(all)-1:
		return all[p.index-1].to, all[p.index].to, ""
	}
	return all[p.index].from, all[p.index+1].from, ""
}

// insertion adds a member after the last one, indented like it.
func (p place) insertion(doc []byte, value string) (pos int, text string) {
	if v, _, err := strictjson.Parse([]byte(value), strictjson.Options{}); err != nil || value[v.Offset:v.End] != strings.TrimSpace(value) {
		value = quoteJSON(value)
	}
	text = quoteJSON(p.name) + ": " + value
	if len(p.parent.Members) == 0 {
		return p.parent.Offset + 1, text
	}
	last := p.parent.Members[len(p.parent.Members)-1]
	lead := doc[bytes.LastIndexByte(doc[:last.Offset], '\n')+1 : last.Offset]
	if len(bytes.TrimSpace(lead)) == 0 {
		return last.Value.End, ",\n" + string(lead) + text
	}
	return last.Value.End, ", " + text
}

// encodeLike writes value as the kind of JSON that stood there before, since
// params hold numbers as text and switches as booleans.
func encodeLike(kind strictjson.Kind, value string) (string, error) {
	if kind == strictjson.String {
		return quoteJSON(value), nil
	}
	v, _, err := strictjson.Parse([]byte(value), strictjson.Options{})
	if kind == strictjson.Null && err != nil {
		return quoteJSON(value), nil
	}
	if err != nil || kind != strictjson.Null && v.Kind != kind {
		return "", fmt.Errorf("holds a %s; %q is none", kind, value)
	}
	return value[v.Offset:v.End], nil
}

// quoteJSON encodes s without escaping <, > and &, which people read and edit.
func quoteJSON(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// replaceToken puts value where token stands in keys and texts, comments
// excepted.
func replaceToken(doc []byte, root *strictjson.Value, token, value string) []byte {
	var out []byte
	done := 0
	// text stands between its quotes from offset on; end is just after it.
	put := func(offset, end int, text string) {
		if strings.Contains(text, token) {
			out = append(append(out, doc[done:offset]...), quoteJSON(strings.ReplaceAll(text, token, value))...)
			done = end
		}
	}
	var walk func(v *strictjson.Value)
	walk = func(v *strictjson.Value) {
		if v.Kind == strictjson.String {
			put(v.Offset, v.End, v.Text)
		}
		for _, it := range v.Items {
			walk(it)
		}
		for _, m := range v.Members {
			if strings.HasPrefix(m.Name, "_") {
				continue
			}
			put(m.Offset, m.Offset+len(jsonStringAt(doc, m.Offset)), m.Name)
			walk(m.Value)
		}
	}
	walk(root)
	return append(out, doc[done:]...)
}

// jsonStringAt returns the string literal that starts at offset of a document
// known to be well formed.
func jsonStringAt(doc []byte, offset int) []byte {
	for i := offset + 1; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			return doc[offset : i+1]
		}
	}
	return doc[offset:]
}

// toFill lists the fields of a document that still hold a placeholder to be
// replaced by hand, comments excepted, in file order.
func toFill(doc []byte) []string {
	root, _, err := strictjson.Parse(doc, strictjson.Options{})
	if err != nil {
		return nil
	}
	var out []string
	open := func(s string) bool {
		return strings.Contains(s, "<changeme") || strings.Contains(s, "-node-ip}")
	}
	var walk func(path string, v *strictjson.Value)
	walk = func(path string, v *strictjson.Value) {
		if v.Kind == strictjson.String && open(v.Text) {
			out = append(out, path+" ("+v.Text+")")
		}
		for i, it := range v.Items {
			walk(fmt.Sprintf("%s[%d]", path, i), it)
		}
		for _, m := range v.Members {
			if strings.HasPrefix(m.Name, "_") {
				continue
			}
			sub := strings.TrimPrefix(path+"."+m.Name, ".")
			if open(m.Name) {
				out = append(out, sub+" (the key)")
			}
			walk(sub, m.Value)
		}
	}
	walk("", root)
	return out
}
