package plan

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"cvs/collect/strictjson"
)

// An Error is everything that is wrong with the input files.
type Error struct {
	// Problems are the errors and warnings of all files: config, threshold and
	// cluster file in this order, each from top to bottom.
	Problems []Problem
}

// Error prints one problem a line: file:line:col: path: message (hint).
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// String prints the problem on one line; no control character is in it.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Msg)
	if p.Hint != "" {
		fmt.Fprintf(&b, " (%s)", p.Hint)
	}
	return b.String()
}

// A document is one input file with what is needed to point into it.
type document struct {
	Source
	kind  string // config, threshold, cluster
	base  string // base name, for messages
	root  *strictjson.Value
	lines []int // offset of the first byte of each line
}

func newDocument(kind, path string, data []byte) *document {
	d := &document{kind: kind, base: printable(filepath.Base(path)), lines: []int{0}}
	d.Path, d.Bytes = path, data
	for i, c := range data {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	return d
}

// pos is strictjson.PosAt with a line table: a threshold file is asked for
// thousands of positions.
func (d *document) pos(offset int) (line, column int) {
	i := sort.SearchInts(d.lines, offset+1) - 1
	return i + 1, offset - d.lines[i] + 1
}

// problems collects what is wrong with all files of one load.
type problems struct {
	list []Problem
	rank map[string]int // order of the files' base names
}

func (ps *problems) add(d *document, offset int, path, msg, hint string, warning bool) {
	// Names from the files stand in messages unquoted where a list of them would
	// be hard to read; here is the one place that keeps them from the terminal.
	p := Problem{File: d.base, Path: shown(path), Msg: shown(msg), Hint: shown(hint), Warning: warning}
	if offset >= 0 {
		p.Line, p.Column = d.pos(offset)
	}
	ps.list = append(ps.list, p)
}

func (ps *problems) failed() bool {
	return slices.ContainsFunc(ps.list, func(p Problem) bool { return !p.Warning })
}

// sorted returns the problems in file and line order, each once.
func (ps *problems) sorted() []Problem {
	slices.SortStableFunc(ps.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(ps.rank[a.File], ps.rank[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(ps.list)
}

func (ps *problems) warnings() []Problem {
	var w []Problem
	for _, p := range ps.sorted() {
		if p.Warning {
			w = append(w, p)
		}
	}
	return w
}

// plainStep reports whether a path shows an object key without quotes; a cell
// key is one of them because it is read so often.
func plainStep(key string) bool {
	cell := strings.HasPrefix(key, "ISL=")
	for _, c := range []byte(key) {
		switch {
		case c >= 'a' && c <= 'z' && !cell, c >= 'A' && c <= 'Z', c >= '0' && c <= '9', (c == '_' || c == '-') && !cell, (c == '=' || c == ',') && cell:
		default:
			return false
		}
	}
	return key != ""
}

// join appends an object key to a JSON path.
func join(path, key string) string {
	switch {
	case !plainStep(key):
		return fmt.Sprintf("%s[%s]", path, quote(key))
	case path == "":
		return key
	}
	return path + "." + key
}

// quote shows text from a file so that blanks, control and look-alike
// characters are visible, and cuts what is too long for a message.
func quote(s string) string {
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "…"
		return fmt.Sprintf("%+q", s[:len(s)-len("…")]) + "…"
	}
	return fmt.Sprintf("%+q", s)
}

// printable is quote for names that are almost always harmless.
func printable(s string) string {
	if q := fmt.Sprintf("%q", s); q != `"`+s+`"` {
		return q
	}
	return s
}

// shown escapes what cannot be printed, character by character, and leaves the
// rest, quotes included, as it stands.
func shown(s string) string {
	plain := true
	for _, r := range s {
		plain = plain && r != utf8.RuneError && unicode.IsPrint(r)
	}
	if plain {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// describe says what was found. A value under a secret's name is not shown.
func describe(v *strictjson.Value, secret bool) string {
	switch v.Kind {
	case strictjson.Null:
		return "null"
	case strictjson.Bool:
		return fmt.Sprint(v.Bool)
	case strictjson.Number:
		if secret {
			return "a number"
		}
		return "the number " + clip(v.Text)
	case strictjson.String:
		if secret {
			return "a text"
		}
		return quote(v.Text)
	case strictjson.Array:
		return "a list"
	}
	return "an object"
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// Nearest returns the valid name that is closest to name, or "" if none is
// close enough to be what was meant: at most a third of its letters differ.
func Nearest(name string, valid []string) string {
	best, bestDist := "", len(name)/3+1
	if len(name) > 200 {
		return ""
	}
	for _, v := range valid {
		if strings.EqualFold(v, name) {
			return v
		}
		if d := distance(name, v, bestDist); d <= bestDist && (best == "" || d < bestDist) {
			best, bestDist = v, d
		}
	}
	return best
}

// distance is the Levenshtein distance with neighbouring letters swapped
// counted as one; it may return any larger number once limit is exceeded.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}

// didYouMean is the hint for a name that is not known.
func didYouMean(name string, valid []string) string {
	if n := Nearest(name, valid); n != "" {
		return "did you mean " + quote(n) + "?"
	}
	return ""
}
