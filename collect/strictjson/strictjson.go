// Package strictjson decodes JSON the way a sign-off tool must: nothing is
// guessed, nothing is dropped, and every value knows where it stood.
//
// The standard decoder takes the last of two equal keys, folds case, ignores
// what follows the value and cannot say on which line a value was. All four
// would let a wrong threshold through unseen. This one keeps members in file
// order with their positions, reports equal keys, replaces what is not Unicode
// and says so, and bounds depth and size. Result files are written by Python,
// so its NaN and Infinity literals can be allowed; everywhere else they are
// malformed.
//
// It is a leaf: it knows JSON and nothing of what the documents mean. It is our
// own code because no library served keeps positions, reports equal keys with
// both values and reads Python's literals; encoding/json and go-json-experiment
// refuse the last.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// A Kind is the type of a JSON value.
type Kind uint8

// The kinds of JSON values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "boolean", "number", "string", "list", "object"}

// String names the kind as messages do.
func (k Kind) String() string { return kindNames[k] }

// A Value is one decoded value. Only the fields of its kind are set.
type Value struct {
	Kind    Kind
	Bool    bool
	Text    string // String: the text; Number: the literal as written, also NaN, Infinity, -Infinity
	Items   []*Value
	Members []Member // in file order; with Options.KeepDuplicates equal names may occur
	Offset  int      // of the value's first byte in the document
	End     int      // offset just after the value
}

// A Member is one name and value of an object.
type Member struct {
	Name   string
	Offset int // of the name's opening quote
	Value  *Value
}

// Get returns the value of the last member of that exact name, or nil.
func (v *Value) Get(name string) *Value {
	if v == nil || v.Kind != Object {
		return nil
	}
	for i := len(v.Members) - 1; i >= 0; i-- {
		if v.Members[i].Name == name {
			return v.Members[i].Value
		}
	}
	return nil
}

// Float returns the value of a number. Literals beyond the range of a double
// give an error; NaN and the infinities, where they were allowed, do not.
func (v *Value) Float() (float64, error) {
	if v == nil || v.Kind != Number {
		return 0, errors.New("not a number")
	}
	switch v.Text {
	case "NaN":
		return math.NaN(), nil
	case "Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is out of the range of a double", clip(v.Text))
	}
	return f, nil
}

// IsNumber reports whether s follows JSON's number grammar exactly.
func IsNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false // most texts, without making an error of it
	}
	p := parser{data: []byte(s)}
	return p.number() == nil && p.i == len(s)
}

// A Pos is a place in a document, counted from 1; columns count bytes.
type Pos struct{ Line, Column int }

// String prints line:column.
func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// PosAt converts a byte offset of data to a line and column.
func PosAt(data []byte, offset int) Pos {
	if offset > len(data) {
		offset = len(data)
	}
	head := data[:offset]
	return Pos{Line: bytes.Count(head, []byte{'\n'}) + 1, Column: offset - bytes.LastIndexByte(head, '\n')}
}

// A SyntaxError says what is wrong with the text itself.
type SyntaxError struct {
	Offset int
	Pos    Pos
	Msg    string
}

// Error prints position and message.
func (e *SyntaxError) Error() string { return e.Pos.String() + ": " + e.Msg }

// A Finding is something a reader should know although the text could be read:
// an equal key, or text that was not Unicode.
type Finding struct {
	Offset  int
	Pos     Pos
	Pointer string // RFC 6901 pointer of the object or value concerned
	Msg     string
	// Duplicate is the name of a key that occurred twice, else "".
	Duplicate string
	// SameValue reports that the equal keys carried equal values.
	SameValue bool
}

// Options say what a document may contain. The zero value is the strictest.
type Options struct {
	// NonFinite accepts the literals NaN, Infinity and -Infinity.
	NonFinite bool
	// KeepDuplicates turns an equal key into a Finding; otherwise it is an error.
	KeepDuplicates bool
	// MaxDepth bounds nesting; 0 means 200.
	MaxDepth int
	// MaxBytes bounds the document; 0 means 1 GiB.
	MaxBytes int
	// SkipLists checks lists but keeps none of their items: such a value has
	// only its kind and its place. Result files hold lists of millions of
	// times, which would cost many times their text if kept as values.
	SkipLists bool
	// Shared makes texts of values parts of the document instead of copies: it
	// must not be changed as long as one of them is used, and stays in memory.
	Shared bool
	// Space holds the values of the document, if it is not nil.
	Space *Space
}

// maxFindings bounds what one document can report; a file full of odd text is
// not worth more.
const maxFindings = 100

// DefaultMaxDepth is the nesting accepted when Options.MaxDepth is 0.
const DefaultMaxDepth = 200

// Parse decodes one document. A UTF-8 byte order mark is skipped; UTF-16 and
// UTF-32 are refused by name. The error is a *SyntaxError.
func Parse(data []byte, o Options) (*Value, []Finding, error) {
	if o.MaxDepth == 0 {
		o.MaxDepth = DefaultMaxDepth
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	p := parser{data: data, o: o, slab: o.Space.room()}
	defer p.leave()
	if len(data) > o.MaxBytes {
		return nil, nil, p.fail(0, fmt.Sprintf("the file has %d bytes, at most %d are read", len(data), o.MaxBytes))
	}
	if enc := wideEncoding(data); enc != "" {
		return nil, nil, p.fail(0, "the file is encoded as "+enc+"; expected UTF-8")
	}
	p.i = len(bom(data))
	p.space()
	if p.i == len(data) {
		return nil, nil, p.fail(p.i, "the file is empty; expected a JSON value")
	}
	v, err := p.value(0)
	if err != nil {
		return nil, nil, err
	}
	p.space()
	if p.i < len(data) {
		return nil, nil, p.fail(p.i, "unexpected text after the JSON value: "+clip(string(p.rest())))
	}
	return v, p.findings, nil
}

// ParseAt decodes the one value that starts at or, after white space, behind
// offset, and returns the offset just after it: the step of a reader of files
// that hold several values. Positions count from the start of data. Size and
// encoding are not checked again; call [Parse] first.
func ParseAt(data []byte, offset int, o Options) (v *Value, findings []Finding, end int, err error) {
	if o.MaxDepth == 0 {
		o.MaxDepth = DefaultMaxDepth
	}
	p := parser{data: data, o: o, i: offset, slab: o.Space.room()}
	defer p.leave()
	if offset == 0 {
		p.i = len(bom(data))
	}
	p.space()
	if p.i >= len(data) {
		return nil, nil, p.i, p.fail(p.i, "the file ends where a value is expected")
	}
	if v, err = p.value(0); err != nil {
		return nil, nil, p.i, err
	}
	return v, p.findings, p.i, nil
}

func bom(data []byte) []byte {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return data[:3]
	}
	return nil
}

func wideEncoding(d []byte) string {
	switch {
	case bytes.HasPrefix(d, []byte{0, 0, 0xfe, 0xff}), bytes.HasPrefix(d, []byte{0xff, 0xfe, 0, 0}):
		return "UTF-32"
	case bytes.HasPrefix(d, []byte{0xff, 0xfe}):
		return "UTF-16 (little-endian)"
	case bytes.HasPrefix(d, []byte{0xfe, 0xff}):
		return "UTF-16 (big-endian)"
	case len(d) >= 2 && d[0] == 0 && d[1] != 0:
		return "UTF-16 (big-endian, no byte order mark)"
	case len(d) >= 2 && d[0] != 0 && d[1] == 0:
		return "UTF-16 (little-endian, no byte order mark)"
	}
	return ""
}

type parser struct {
	data     []byte
	i        int
	o        Options
	findings []Finding
	path     []step
	skipping int     // lists whose items are not kept, open at this point
	text     string  // of data, if it is short: texts of values are parts of it
	slab     []Value // room for the next values
	made     int     // values so far
	scratch  Value   // stands for what is inside them and not looked at
}

// A step leads from a value into it: by name or, to an item of a list, by index,
// which becomes text only where a finding needs it.
type step struct {
	name  string
	index int
	item  bool
}

// maxShared is the longest document whose values share one copy of its text, in
// bytes; a value of a longer one must not keep it all in memory.
const maxShared = 64 << 10

// cut is the text from one offset to another.
func (p *parser) cut(from, to int) string {
	if p.o.Shared {
		return unsafe.String(unsafe.SliceData(p.data[from:to]), to-from)
	}
	if len(p.data) > maxShared {
		return string(p.data[from:to])
	}
	if p.text == "" {
		p.text = string(p.data)
	}
	return p.text[from:to]
}

// fresh is a new value; they are made in blocks, because there are many.
func (p *parser) fresh() *Value {
	if len(p.slab) == 0 {
		n := 16
		if p.slab == nil {
			n = p.likely()
		}
		p.slab = make([]Value, n)
	}
	v := &p.slab[0]
	p.slab = p.slab[1:]
	p.made++
	if p.o.Space != nil {
		*v = Value{}
	}
	return v
}

// likely is how many members a result file of this size has: a name and a number
// take some thirty bytes, and what is much longer has long lists.
func (p *parser) likely() int { return min(max(len(p.data)/30, 4), 96) }

func (p *parser) find(f Finding) {
	f.Pos, f.Pointer = PosAt(p.data, f.Offset), pointer(p.path)
	p.findings = append(p.findings, f)
}

// full reports that no further finding is kept; finding a place costs a pass
// over the text before it, so it is asked first.
func (p *parser) full() bool { return len(p.findings) >= maxFindings }

func (p *parser) fail(off int, msg string) error {
	return &SyntaxError{Offset: off, Pos: PosAt(p.data, off), Msg: msg}
}

func (p *parser) rest() []byte { return p.data[p.i:min(len(p.data), p.i+40)] }

func (p *parser) space() {
	for p.i < len(p.data) {
		switch p.data[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (*Value, error) {
	if p.i >= len(p.data) {
		return nil, p.fail(p.i, "the file ends where a value is expected")
	}
	start := p.i
	if p.skipping > 0 {
		switch c := p.data[p.i]; {
		case c >= '0' && c <= '9':
			return &p.scratch, p.number()
		case c == '[' && depth < p.o.MaxDepth:
			return &p.scratch, p.array(&p.scratch, depth)
		case c == '"' && p.plain():
			return &p.scratch, nil
		}
	}
	v := p.fresh()
	v.Offset = start
	switch c := p.data[p.i]; {
	case c == '{':
		if depth >= p.o.MaxDepth {
			return nil, p.fail(start, fmt.Sprintf("nested deeper than %d levels", p.o.MaxDepth))
		}
		v.Kind = Object
		if err := p.object(v, depth); err != nil {
			return nil, err
		}
	case c == '[':
		if depth >= p.o.MaxDepth {
			return nil, p.fail(start, fmt.Sprintf("nested deeper than %d levels", p.o.MaxDepth))
		}
		v.Kind = Array
		if err := p.array(v, depth); err != nil {
			return nil, err
		}
	case c == '"':
		s, err := p.str()
		if err != nil {
			return nil, err
		}
		v.Kind, v.Text = String, s
	case c == '-' || c >= '0' && c <= '9':
		if p.o.NonFinite && p.word("-Infinity") {
			v.Kind, v.Text = Number, "-Infinity"
			break
		}
		if err := p.number(); err != nil {
			return nil, err
		}
		v.Kind, v.Text = Number, p.cut(start, p.i)
	case p.word("true"):
		v.Kind, v.Bool = Bool, true
	case p.word("false"):
		v.Kind = Bool
	case p.word("null"):
		v.Kind = Null
	case p.o.NonFinite && p.word("NaN"):
		v.Kind, v.Text = Number, "NaN"
	case p.o.NonFinite && p.word("Infinity"):
		v.Kind, v.Text = Number, "Infinity"
	default:
		return nil, p.unexpected()
	}
	v.End = p.i
	return v, nil
}

func (p *parser) unexpected() error {
	r := string(p.rest())
	switch {
	case strings.HasPrefix(r, "NaN") || strings.HasPrefix(r, "Infinity"):
		return p.fail(p.i, "a non-finite number is not allowed here")
	case r[0] == '\'':
		return p.fail(p.i, "strings are written in double quotes")
	case strings.HasPrefix(r, "//") || strings.HasPrefix(r, "/*") || r[0] == '#':
		return p.fail(p.i, "comments are not JSON; a key that starts with _ is ignored and can hold one")
	case r[0] == '}' || r[0] == ']':
		return p.fail(p.i, "a value is missing before "+r[:1]+" (is there a comma too many?)")
	}
	return p.fail(p.i, "expected a JSON value, found "+clip(r))
}

// word consumes w if it stands here as a whole word.
func (p *parser) word(w string) bool {
	end := p.i + len(w)
	if end > len(p.data) || string(p.data[p.i:end]) != w {
		return false
	}
	if end < len(p.data) {
		if c := p.data[end]; c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return false
		}
	}
	p.i = end
	return true
}

func (p *parser) number() error {
	start := p.i
	digits := func() bool {
		at := p.i
		for p.i < len(p.data) && p.data[p.i] >= '0' && p.data[p.i] <= '9' {
			p.i++
		}
		return p.i > at
	}
	if p.i < len(p.data) && p.data[p.i] == '-' {
		p.i++
	}
	if p.i < len(p.data) && p.data[p.i] == '0' {
		p.i++
	} else if !digits() {
		return p.fail(start, "malformed number")
	}
	if p.i < len(p.data) && p.data[p.i] == '.' {
		p.i++
		if !digits() {
			return p.fail(start, "malformed number: digits are missing after the point")
		}
	}
	if p.i < len(p.data) && (p.data[p.i] == 'e' || p.data[p.i] == 'E') {
		p.i++
		if p.i < len(p.data) && (p.data[p.i] == '+' || p.data[p.i] == '-') {
			p.i++
		}
		if !digits() {
			return p.fail(start, "malformed number: digits are missing in the exponent")
		}
	}
	if p.i < len(p.data) {
		if c := p.data[p.i]; c >= '0' && c <= '9' || c == '.' || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return p.fail(start, "malformed number "+clip(string(p.data[start:min(len(p.data), p.i+8)])))
		}
	}
	return nil
}

func (p *parser) object(v *Value, depth int) error {
	open := p.i
	p.i++
	p.space()
	if p.i < len(p.data) && p.data[p.i] == '}' {
		p.i++
		return nil
	}
	var seen map[string]int // only for wide objects; small ones are searched
	for {
		p.space()
		if p.i >= len(p.data) {
			return p.fail(p.i, fmt.Sprintf("the file ends inside the object opened at %s", PosAt(p.data, open)))
		}
		if p.data[p.i] != '"' {
			if p.data[p.i] == '}' {
				return p.fail(p.i, "a comma too many before }")
			}
			return p.fail(p.i, "expected a key in double quotes, found "+clip(string(p.rest())))
		}
		at := p.i
		name, err := p.str()
		if err != nil {
			return err
		}
		p.space()
		if p.i >= len(p.data) || p.data[p.i] != ':' {
			if p.i >= len(p.data) {
				return p.fail(p.i, fmt.Sprintf("the file ends after the key %q", name))
			}
			return p.fail(p.i, fmt.Sprintf("expected : after the key %q, found %s", name, clip(string(p.rest()))))
		}
		p.i++
		p.space()
		p.path = append(p.path, step{name: name})
		val, err := p.value(depth + 1)
		p.path = p.path[:len(p.path)-1]
		if err != nil {
			return err
		}
		prev := -1
		if seen == nil && len(v.Members) >= 16 {
			seen = p.names(depth)
			for i, m := range v.Members {
				seen[m.Name] = i
			}
		}
		if seen != nil {
			if i, ok := seen[name]; ok {
				prev = i
			}
			seen[name] = len(v.Members)
		} else {
			for i := range v.Members {
				if v.Members[i].Name == name {
					prev = i
				}
			}
		}
		if prev >= 0 && !(p.o.KeepDuplicates && p.full()) {
			msg := fmt.Sprintf("the key %q occurs twice in one object (first at %s)", name, PosAt(p.data, v.Members[prev].Offset))
			if !p.o.KeepDuplicates {
				return p.fail(at, msg)
			}
			p.find(Finding{Offset: at, Msg: msg, Duplicate: name,
				SameValue: p.skipping == 0 && Equal(v.Members[prev].Value, val)})
		}
		if v.Members == nil {
			v.Members = p.members(depth)
		}
		v.Members = append(v.Members, Member{Name: name, Offset: at, Value: val})
		p.space()
		if p.i >= len(p.data) {
			return p.fail(p.i, fmt.Sprintf("the file ends inside the object opened at %s", PosAt(p.data, open)))
		}
		switch p.data[p.i] {
		case ',':
			p.i++
		case '}':
			p.i++
			if s := p.o.Space; s != nil && depth == 0 && cap(v.Members) > cap(s.members) && cap(v.Members) <= 2*maxKept {
				s.members = v.Members
			}
			return nil
		default:
			return p.fail(p.i, "expected , or } after a value, found "+clip(string(p.rest())))
		}
	}
}

func (p *parser) array(v *Value, depth int) error {
	open := p.i
	p.i++
	p.space()
	if p.i < len(p.data) && p.data[p.i] == ']' {
		p.i++
		return nil
	}
	if !p.o.SkipLists {
		return p.items(v, open, depth)
	}
	p.skipping++
	err := p.items(v, open, depth)
	p.skipping--
	return err
}

// items reads those of the list v, which was opened at an offset.
func (p *parser) items(v *Value, open, depth int) error {
	for n := 0; ; n++ {
		p.space()
		if p.o.SkipLists {
			n += p.numbers() // most of what is skipped, and nothing to find in it
			p.space()
		}
		if p.o.SkipLists && p.i < len(p.data) && p.data[p.i] >= '0' && p.data[p.i] <= '9' {
			if err := p.number(); err != nil {
				return err
			}
		} else {
			p.path = append(p.path, step{index: n, item: true})
			item, err := p.value(depth + 1)
			p.path = p.path[:len(p.path)-1]
			if err != nil {
				return err
			}
			if !p.o.SkipLists {
				v.Items = append(v.Items, item)
			}
		}
		p.space()
		if p.i >= len(p.data) {
			return p.fail(p.i, fmt.Sprintf("the file ends inside the list opened at %s", PosAt(p.data, open)))
		}
		switch p.data[p.i] {
		case ',':
			p.i++
		case ']':
			p.i++
			return nil
		default:
			return p.fail(p.i, "expected , or ] after a value, found "+clip(string(p.rest())))
		}
	}
}

func (p *parser) str() (string, error) {
	start := p.i
	p.i++
	simple := p.i
	for p.i < len(p.data) { // the common case has no escape and is ASCII
		c := p.data[p.i]
		if c == '"' {
			s := p.cut(simple, p.i)
			p.i++
			return s, nil
		}
		if c == '\\' || c < 0x20 || c >= utf8.RuneSelf {
			break
		}
		p.i++
	}
	b := append([]byte(nil), p.data[simple:p.i]...)
	replaced := ""
	for {
		if p.i >= len(p.data) {
			return "", p.fail(start, "the file ends inside a string")
		}
		switch c := p.data[p.i]; {
		case c == '"':
			p.i++
			if replaced != "" && !p.full() {
				p.find(Finding{Offset: start,
					Msg: "the text holds " + replaced + ", replaced by U+FFFD"})
			}
			return string(b), nil
		case c < 0x20:
			return "", p.fail(p.i, fmt.Sprintf("a control character (0x%02x) stands unescaped in a string", c))
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			switch {
			case r == 0:
				replaced, r = "a NUL", utf8.RuneError
			case r < 0:
				replaced, r = "a lone surrogate", utf8.RuneError
			}
			b = utf8.AppendRune(b, r)
		case c < utf8.RuneSelf:
			b = append(b, c)
			p.i++
		default:
			r, n := utf8.DecodeRune(p.data[p.i:])
			if r == utf8.RuneError && n <= 1 {
				replaced = "bytes that are not UTF-8"
				n = 1
			}
			b = utf8.AppendRune(b, r)
			p.i += n
		}
	}
}

// escape reads one escape sequence; a lone surrogate gives -1.
func (p *parser) escape() (rune, error) {
	at := p.i
	if p.i+1 >= len(p.data) {
		return 0, p.fail(at, "the file ends inside a string")
	}
	c := p.data[p.i+1]
	p.i += 2
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		hi, ok := p.hex4(p.i)
		if !ok {
			return 0, p.fail(at, `\u needs four hexadecimal digits`)
		}
		p.i += 4
		if !utf16.IsSurrogate(hi) {
			return hi, nil
		}
		if p.i+6 <= len(p.data) && p.data[p.i] == '\\' && p.data[p.i+1] == 'u' {
			if lo, ok := p.hex4(p.i + 2); ok {
				if r := utf16.DecodeRune(hi, lo); r != utf8.RuneError {
					p.i += 6
					return r, nil
				}
			}
		}
		return -1, nil
	}
	if c <= ' ' || c >= 0x7f { // not to be printed
		return 0, p.fail(at, fmt.Sprintf(`unknown escape: \ before the byte 0x%02x in a string`, c))
	}
	return 0, p.fail(at, fmt.Sprintf(`unknown escape \%c in a string`, c))
}

func (p *parser) hex4(at int) (rune, bool) {
	if at+4 > len(p.data) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.data[at:at+4]), 16, 32)
	return rune(n), err == nil
}

func pointer(path []step) string {
	var b strings.Builder
	for _, s := range path {
		b.WriteByte('/')
		if s.item {
			b.WriteString(strconv.Itoa(s.index))
		} else {
			b.WriteString(EscapePointer(s.name))
		}
	}
	return b.String()
}

// EscapePointer escapes one reference token of an RFC 6901 JSON pointer.
func EscapePointer(token string) string {
	if !strings.ContainsAny(token, "~/") { // almost all; a Replacer costs more than the rest of a decoder
		return token
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

// Equal reports whether two values are the same JSON: objects irrespective of
// order, numbers by their literal.
func Equal(a, b *Value) bool {
	if a.Kind != b.Kind || a.Bool != b.Bool || a.Text != b.Text || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Items {
		if !Equal(a.Items[i], b.Items[i]) {
			return false
		}
	}
	for i := range a.Members {
		other := b.Get(a.Members[i].Name)
		if other == nil || !Equal(a.Members[i].Value, other) {
			return false
		}
	}
	return true
}

// clip shortens text for a message and shows what is not printable.
func clip(s string) string {
	if i := strings.IndexByte(s, '\n'); i > 0 {
		s = s[:i]
	}
	if len(s) > 32 {
		s = s[:32] + "…"
	}
	return strconv.Quote(s)
}
