package plan

import (
	"fmt"
	"slices"
	"strings"

	"cvs/collect/strictjson"
)

// A kind is what a field of the table accepts.
type kind uint8

const (
	kText    kind = iota // string
	kInt                 // JSON integer, or a string that is one in canonical form
	kDecimal             // JSON number or text; kept as written, checked by a rule
	kFloat               // JSON number
	kBool                // true or false
	kSwitch              // true or false, also as the words the older suite took
	kTexts               // list of strings
	kEnv                 // object of strings: environment variables, nothing is a comment
	kAny                 // any JSON, kept as compact text
	kObject              // object with the fields of sub
	kList                // list of objects with the fields of elem
	kCustom              // decoded by custom
)

// A field is one row of the table that drives decoding, the search for unknown
// keys, defaults, origins and the published JSON Schema.
type field struct {
	name string
	kind kind
	to   any // pointer that takes the value; nil if only checked
	doc  string

	need     bool     // must be there
	null     bool     // null means not there
	blank    bool     // a blank text means not there
	def      string   // JSON of the default, "" if there is none
	enum     []string // permitted texts
	min, max int      // bounds of kInt; max 0 means maxCount
	rule     *rule    // further check of a text or of each text of a list
	free     bool     // {braces} in the text are data, not placeholders
	secret   bool     // never shown
	idle     string   // known, but nothing uses it: why
	as       string   // path in the resolved config, where it differs from the path in the file

	sub    []field                  // kObject
	open   bool                     // kObject: unknown keys are a warning
	elem   func() ([]field, func()) // kList: fields of one more element, and what keeps it
	custom func(*decoder, node)     // kCustom
	schema string                   // kCustom: its JSON Schema
}

// A node is a value with the place where it stands.
type node struct {
	v      *strictjson.Value
	doc    *document
	path   string // in the file
	canon  string // in the resolved config
	origin string // config, profile perf, cluster, …
}

// A decoder runs the table over values. It may be run over several documents,
// one after the other: what a later one sets wins.
type decoder struct {
	probs *problems
	set   map[string]node // what was written, by path in the resolved config
	bad   map[string]bool // what was written but could not be used
	facts facts
	// tokens are the placeholders that exist, for hints.
	tokens []string
	// absent is true while defaults are set below an object that is not there.
	absent      bool
	profile     string
	fromProfile map[string]bool // top-level keys that stand in the profile
	// partial is true for a document whose missing keys may stand elsewhere.
	partial bool
	// lastObject is the resolved path of the list element just decoded.
	lastObject string
}

func newDecoder(ps *problems) *decoder {
	return &decoder{probs: ps, set: map[string]node{}, bad: map[string]bool{}}
}

func (dc *decoder) errorf(n node, hint, format string, args ...any) {
	dc.bad[n.canon] = true
	dc.probs.add(n.doc, n.v.Offset, n.path, fmt.Sprintf(format, args...), hint, false)
}

func (dc *decoder) warnf(n node, hint, format string, args ...any) {
	dc.probs.add(n.doc, n.v.Offset, n.path, fmt.Sprintf(format, args...), hint, true)
}

// good reports whether every named value is usable, so that a rule about them
// adds nothing to a problem that was already reported.
func (dc *decoder) good(canon ...string) bool {
	return !slices.ContainsFunc(canon, func(c string) bool { return dc.bad[c] })
}

// at returns where a value was written, or the place of the nearest object
// around it, with the path that names the value either way.
func (dc *decoder) at(canon string, root node) node {
	if n, ok := dc.set[canon]; ok {
		return n
	}
	for up := canon; ; {
		i := strings.LastIndexByte(up, '.')
		if i < 0 {
			root.path, root.canon = canon, canon
			return root
		}
		up = up[:i]
		if n, ok := dc.set[up]; ok {
			n.path, n.canon = n.path+canon[len(up):], canon
			return n
		}
	}
}

func (n node) child(name string, v *strictjson.Value) node {
	return node{v: v, doc: n.doc, path: join(n.path, name), canon: join(n.canon, name), origin: n.origin}
}

func (n node) item(i int, v *strictjson.Value) node {
	step := fmt.Sprintf("[%d]", i)
	return node{v: v, doc: n.doc, path: n.path + step, canon: n.canon + step, origin: n.origin}
}

// comment reports whether a key is one that every block ignores.
func comment(name string) bool { return strings.HasPrefix(name, "_") }

// object decodes the members of n by the table.
func (dc *decoder) object(n node, fields []field, open bool) {
	if n.v.Kind != strictjson.Object {
		dc.errorf(n, "", "expected an object, found %s", describe(n.v, false))
		return
	}
	dc.set[n.canon] = n
	for _, m := range n.v.Members {
		if comment(m.Name) {
			continue
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.Name })
		if i < 0 {
			dc.unknown(n, m, fieldNames(fields), open)
			continue
		}
		c := dc.child(n, m)
		if fields[i].as != "" {
			c.canon = fields[i].as
		}
		dc.field(c, &fields[i])
	}
	for i := range fields {
		f := &fields[i]
		if n.v.Get(f.name) == nil {
			dc.missing(n, f)
		}
	}
}

// child is the node of a member; at the top of a config the key may stand in a
// profile instead of the top of the file.
func (dc *decoder) child(n node, m strictjson.Member) node {
	c := n.child(m.Name, m.Value)
	if dc.profile != "" && n.canon == "" && dc.fromProfile[m.Name] {
		c.path = join("profiles", dc.profile) + "." + c.path
		c.origin = "profile " + dc.profile
	}
	return c
}

// unknown reports a key that the table does not have. An open object belongs to
// more tools than this one: there only what looks like a typing error is an error.
func (dc *decoder) unknown(n node, m strictjson.Member, known []string, open bool) {
	near := Nearest(m.Name, known)
	hint := didYouMean(m.Name, known)
	if hint == "" {
		hint = "known are " + strings.Join(known, ", ")
	}
	c := dc.child(n, m)
	if open && near == "" {
		dc.probs.add(n.doc, m.Offset, c.path, "not a key this suite knows; it is ignored", "", true)
		return
	}
	if near != "" {
		dc.bad[join(n.canon, near)] = true // it is missing because it is misspelt
	}
	dc.probs.add(n.doc, m.Offset, c.path, "unknown key", hint, false)
}

func fieldNames(fields []field) []string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// missing sets the default of a field that n does not have.
func (dc *decoder) missing(n node, f *field) {
	canon := join(n.canon, f.name)
	if f.as != "" {
		canon = f.as
	}
	if dc.partial {
		return
	}
	if _, ok := dc.set[canon]; ok { // an earlier document has it
		return
	}
	if f.need {
		if !dc.absent {
			dc.bad[canon] = true
			dc.probs.add(n.doc, n.v.Offset, join(n.path, f.name), "is required but missing", f.doc, false)
		}
		if f.kind != kObject {
			return
		}
	}
	c := node{v: &strictjson.Value{Kind: strictjson.Object}, doc: n.doc, path: join(n.path, f.name), canon: canon, origin: "default"}
	if f.kind == kObject {
		was := dc.absent
		dc.absent = true
		for i := range f.sub {
			dc.missing(c, &f.sub[i])
		}
		dc.absent = was
		return
	}
	dc.setDefault(c, f)
}

func (dc *decoder) setDefault(c node, f *field) {
	if f.def == "" {
		return
	}
	v, _, err := strictjson.Parse([]byte(f.def), strictjson.Options{})
	if err != nil {
		panic(fmt.Sprintf("plan: default of %s: %v", c.canon, err)) // the table is wrong, every test fails
	}
	c.v, c.origin = v, "default"
	dc.value(c, f)
}

// field decodes one member that is there.
func (dc *decoder) field(c node, f *field) {
	if f.idle != "" {
		dc.warnf(c, "", "has no effect here: %s", f.idle)
		return
	}
	if c.v.Kind == strictjson.Null && f.null || f.blank && c.v.Kind == strictjson.String && strings.TrimSpace(c.v.Text) == "" {
		dc.setDefault(c, f)
		return
	}
	if f.kind != kObject && f.kind != kList {
		if o, ok := dc.set[c.canon]; ok && o.doc == c.doc && o.path != c.path && f.as != "" && !strictjson.Equal(o.v, c.v) && o.v.Text != c.v.Text {
			dc.errorf(c, "keep one of the two", "is %s, but %s is %s", describe(c.v, f.secret), o.path, describe(o.v, f.secret))
			return
		}
		dc.set[c.canon] = c
	}
	dc.value(c, f)
}

func (dc *decoder) value(c node, f *field) {
	switch f.kind {
	case kObject:
		dc.object(c, f.sub, f.open)
		return
	case kList:
		dc.list(c, f)
		return
	case kCustom:
		f.custom(dc, c)
		return
	}
	dc.facts.add(c, f.secret)
	switch f.kind {
	case kText, kDecimal:
		dc.textValue(c, f)
	case kInt:
		if n, ok := dc.integer(c, f.min, f.max); ok {
			put(f.to, n)
		}
	case kFloat:
		if x, err := c.v.Float(); err == nil {
			put(f.to, x)
		} else {
			dc.errorf(c, "", "expected a number, found %s", describe(c.v, false))
		}
	case kBool, kSwitch:
		if b, ok := dc.boolean(c, f.kind == kSwitch); ok {
			put(f.to, b)
		}
	case kTexts:
		if l, ok := dc.texts(c, f.rule, f.free); ok {
			put(f.to, l)
		}
	case kEnv:
		if vars, ok := dc.env(c, false); ok {
			put(f.to, vars)
		}
	case kAny:
		put(f.to, compact(c.v))
	}
}

// maxElements bounds lists of objects and the number of nodes and cells.
const maxElements = 10000

func (dc *decoder) list(c node, f *field) {
	if c.v.Kind != strictjson.Array {
		dc.errorf(c, "", "expected a list of objects, found %s", describe(c.v, false))
		return
	}
	dc.set[c.canon] = c
	if len(c.v.Items) > maxElements {
		dc.errorf(c, "", "has %d entries, at most %d are read", len(c.v.Items), maxElements)
		return
	}
	if len(c.v.Items) == 0 {
		dc.facts.add(c, false)
	}
	for i, v := range c.v.Items {
		fields, keep := f.elem()
		before := len(dc.probs.list)
		dc.object(c.item(i, v), fields, false)
		if slices.ContainsFunc(dc.probs.list[before:], func(p Problem) bool { return !p.Warning }) {
			dc.bad[c.canon] = true
			continue
		}
		dc.lastObject = c.item(i, v).canon
		keep()
		if !dc.good(dc.lastObject) {
			dc.bad[c.canon] = true
		}
	}
}
