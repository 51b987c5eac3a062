package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/strictjson"
)

var (
	// token matches a placeholder; nothing with a blank, a | or a quote is one.
	token = regexp.MustCompile(`\{([A-Za-z0-9_.-]+)\}`)
	// braces matches what was perhaps meant to be one.
	braces = regexp.MustCompile(`\{[^{}]*\}`)
)

// settled reports whether a text is final: no marker that a person was to
// replace and no placeholder that nothing resolved. In free text braces are data.
func (dc *decoder) settled(c node, s string, free bool) bool {
	ok := true
	if i := strings.Index(strings.ToLower(s), "<changeme"); i >= 0 {
		mark := s[i:]
		if j := strings.IndexByte(mark, '>'); j >= 0 {
			mark = mark[:j+1]
		}
		dc.errorf(c, "", "%s is still to be filled in", quote(mark))
		ok = false
	}
	if !strings.Contains(s, "{") {
		return ok
	}
	for _, m := range token.FindAllStringSubmatch(s, -1) {
		switch {
		case m[1] == "head-node-ip" || m[1] == "worker-node-ip":
			dc.errorf(c, "replace it by hand with the address of the node", "%s is not resolved by anything", m[0])
			ok = false
		case !free:
			hint := "known are {" + strings.Join(dc.tokens, "}, {") + "}"
			if n := Nearest(m[1], dc.tokens); n != "" {
				hint = "did you mean {" + n + "}?"
			} else if slices.Contains(dc.tokens, "paths."+m[1]) {
				hint = "outside of paths it is written {paths." + m[1] + "}"
			} else if n := Nearest("paths."+m[1], dc.tokens); n != "" {
				hint = "did you mean {" + n + "}?"
			}
			dc.errorf(c, hint, "unresolved placeholder %s", m[0])
			ok = false
		case Nearest(m[1], dc.tokens) != "" || strings.HasPrefix(m[1], "paths."):
			dc.warnf(c, "known are {"+strings.Join(dc.tokens, "}, {")+"}", "%s is no known placeholder and is passed on as it stands", m[0])
		}
	}
	if free {
		return ok
	}
	for _, m := range braces.FindAllString(token.ReplaceAllString(s, ""), -1) { // no name, or one with blanks
		hint := "known are {" + strings.Join(dc.tokens, "}, {") + "}"
		if n := Nearest(strings.TrimSpace(m[1:len(m)-1]), dc.tokens); n != "" {
			hint = "did you mean {" + n + "}?"
		}
		dc.errorf(c, hint, "unresolved placeholder %s", printable(m))
		ok = false
	}
	return ok
}

// env decodes an object of environment variables in the order written. Loose
// values (numbers, booleans; null for none) are what serving files may hold.
func (dc *decoder) env(c node, loose bool) (vars []EnvVar, ok bool) {
	if c.v.Kind != strictjson.Object {
		dc.errorf(c, "", "expected an object of texts, found %s", describe(c.v, false))
		return nil, false
	}
	ok = true
	r := pattern("an environment variable name (letters, digits, _; not starting with a digit)", `[A-Za-z_][A-Za-z0-9_]*`)
	for _, m := range c.v.Members {
		e := c.child(m.Name, m.Value)
		dc.set[e.canon] = e
		if !r.ok(m.Name) {
			dc.bad[c.canon] = true
			dc.probs.add(c.doc, m.Offset, e.path, "expected "+r.want+", found "+quote(m.Name), "", false)
			ok = false
			continue
		}
		text := m.Value.Text
		switch {
		case m.Value.Kind == strictjson.String:
		case loose && m.Value.Kind == strictjson.Null:
			continue
		case loose && m.Value.Kind == strictjson.Number:
		case loose && m.Value.Kind == strictjson.Bool:
			text = strconv.FormatBool(m.Value.Bool)
		default:
			dc.errorf(e, "put it in quotes", "expected a text, found %s", describe(m.Value, secretName(m.Name)))
			dc.bad[c.canon] = true
			ok = false
			continue
		}
		if managedVariable(m.Name) && !strings.HasPrefix(c.canon, "container.env") {
			vars = append(vars, EnvVar{m.Name, text}) // taken out again by the network rule, whatever it holds
			continue
		}
		if !dc.settled(e, text, true) {
			dc.bad[c.canon] = true
			ok = false
			continue
		}
		vars = append(vars, EnvVar{m.Name, text})
	}
	return vars, ok
}

// managedVariable reports whether topology discovery sets a variable.
func managedVariable(name string) bool {
	switch name {
	case "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_IB_HCA":
		return true
	}
	return false
}

// setVar sets a variable, in its old place if it has one.
func setVar(vars []EnvVar, name, value string) []EnvVar {
	if i := slices.IndexFunc(vars, func(v EnvVar) bool { return v.Name == name }); i >= 0 {
		vars[i].Value = value
		return vars
	}
	return append(vars, EnvVar{name, value})
}

func getVar(vars []EnvVar, name string) (string, bool) {
	for _, v := range vars {
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// facts are the resolved values and where they came from.
type facts struct {
	list  []Origin
	index map[string]int
}

func (fs *facts) add(c node, secret bool) {
	from := c.origin
	if from != "default" {
		line, _ := c.doc.pos(c.v.Offset)
		from = fmt.Sprintf("%s line %d", c.origin, line)
	}
	fs.put(c.canon, redacted(c.v, lastStep(c.canon), secret), from)
}

func (fs *facts) put(path, value, from string) {
	o := Origin{Path: path, Value: value, From: from}
	if fs.index == nil {
		fs.index = map[string]int{}
	}
	if i, ok := fs.index[path]; ok {
		fs.list[i] = o
		return
	}
	fs.index[path] = len(fs.list)
	fs.list = append(fs.list, o)
}

// drop forgets what stands at or below a path.
func (fs *facts) drop(path string) {
	fs.list = slices.DeleteFunc(fs.list, func(o Origin) bool {
		return o.Path == path || strings.HasPrefix(o.Path, path+".") || strings.HasPrefix(o.Path, path+"[")
	})
	fs.index = make(map[string]int, len(fs.list))
	for i, o := range fs.list {
		fs.index[o.Path] = i
	}
}

func lastStep(path string) string { return path[strings.LastIndexAny(path, ".[")+1:] }

var (
	secretWord  = regexp.MustCompile(`(?i)passw|secret|credential|api[_-]?key|access[_-]?key|private[_-]?key|(?:^|[^a-z])token(?:$|[^a-z])|[a-z]Token$`)
	secretPath  = regexp.MustCompile(`(?i)[_-](?:file|path|dir)$`)
	secretValue = regexp.MustCompile(`\b(?:hf|sk|ghp|gho|glpat)[_-][A-Za-z0-9_-]{16,}`)
	secretArg   = regexp.MustCompile(`(?i)(--?[a-z0-9_-]*(?:passw|secret|token|api[_-]?key)[a-z0-9_-]*[= ]+)("[^"]*"|'[^']*'|\S+)`)
)

const hidden = "<redacted>"

// secretName reports whether the value under a name must not be shown. The path
// of a file that holds a secret is no secret.
func secretName(name string) bool {
	return secretWord.MatchString(name) && !secretPath.MatchString(name)
}

// redactText hides what looks like a secret inside a text.
func redactText(s string) string {
	s = secretValue.ReplaceAllString(s, hidden)
	if strings.Contains(s, "-") {
		s = secretArg.ReplaceAllStringFunc(s, func(m string) string {
			g := secretArg.FindStringSubmatch(m)
			if flag := strings.TrimRight(g[1], "= "); !secretName(strings.TrimLeft(flag, "-")) {
				return m
			}
			return g[1] + hidden
		})
	}
	return s
}

// redacted writes a value as compact JSON without its secrets.
func redacted(v *strictjson.Value, name string, secret bool) string {
	return string(appendJSON(nil, v, name, secret, true))
}

// compact writes a value as compact JSON, as it is.
func compact(v *strictjson.Value) string { return string(appendJSON(nil, v, "", false, false)) }

func appendJSON(b []byte, v *strictjson.Value, name string, secret, redact bool) []byte {
	if redact && (secret || secretName(name)) && (v.Kind == strictjson.Number || v.Kind == strictjson.String && v.Text != "") {
		return appendText(b, hidden)
	}
	switch v.Kind {
	case strictjson.Null:
		return append(b, "null"...)
	case strictjson.Bool:
		return strconv.AppendBool(b, v.Bool)
	case strictjson.Number:
		return append(b, v.Text...)
	case strictjson.String:
		if redact {
			return appendText(b, redactText(v.Text))
		}
		return appendText(b, v.Text)
	case strictjson.Array:
		b = append(b, '[')
		for i, e := range v.Items {
			if i > 0 {
				b = append(b, ',')
			}
			after := "" // a list of arguments: the one after --api-key is its value
			if i > 0 && v.Items[i-1].Kind == strictjson.String && strings.HasPrefix(v.Items[i-1].Text, "-") {
				after = strings.TrimLeft(v.Items[i-1].Text, "-")
			}
			b = appendJSON(b, e, after, secret, redact)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i, m := range v.Members {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, m.Name)
		b = append(b, ':')
		b = appendJSON(b, m.Value, m.Name, secret, redact)
	}
	return append(b, '}')
}

// withoutComments is v without the keys that start with _, at any depth.
func withoutComments(v *strictjson.Value) *strictjson.Value {
	c := *v
	c.Members, c.Items = nil, nil
	for _, m := range v.Members {
		if !comment(m.Name) {
			c.Members = append(c.Members, strictjson.Member{Name: m.Name, Offset: m.Offset, Value: withoutComments(m.Value)})
		}
	}
	for _, e := range v.Items {
		c.Items = append(c.Items, withoutComments(e))
	}
	return &c
}

func appendText(b []byte, s string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // a string always encodes
		return strconv.AppendQuote(b, s)
	}
	return append(b, bytes.TrimRight(buf.Bytes(), "\n")...)
}

// pathStep splits a resolved path: name, [3] or ["odd name"].
var pathStep = regexp.MustCompile(`\.?([A-Za-z0-9_-]+)|\[([0-9]+)\]|\[("(?:[^"\\]|\\.)*")\]`)

// origins returns the facts in path order.
func (fs *facts) origins() []Origin {
	type keyed struct {
		steps [][]string
		o     Origin
	}
	all := make([]keyed, len(fs.list))
	for i, o := range fs.list {
		all[i] = keyed{pathStep.FindAllStringSubmatch(o.Path, -1), o}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		return slices.CompareFunc(a.steps, b.steps, func(x, y []string) int {
			i, errX := strconv.Atoi(x[2])
			j, errY := strconv.Atoi(y[2])
			if errX == nil && errY == nil {
				return cmp.Compare(i, j)
			}
			return cmp.Compare(x[0], y[0])
		})
	})
	out := make([]Origin, len(all))
	for i, k := range all {
		out[i] = k.o
	}
	return out
}

// tree is a JSON value under construction; text is set for leaves.
type tree struct {
	text  string
	list  bool
	names []string
	below map[string]*tree
}

func (t *tree) at(name string) *tree {
	if t.below == nil {
		t.below = map[string]*tree{}
	}
	if t.below[name] == nil {
		t.below[name] = &tree{}
		t.names = append(t.names, name)
	}
	return t.below[name]
}

func (t *tree) append(b []byte) []byte {
	if t.below == nil {
		return append(b, cmp.Or(t.text, "{}")...)
	}
	open, end := byte('{'), byte('}')
	if t.list {
		open, end = '[', ']'
	}
	b = append(b, open)
	for i, n := range t.names {
		if i > 0 {
			b = append(b, ',')
		}
		if !t.list {
			b = append(appendText(b, n), ':')
		}
		b = t.below[n].append(b)
	}
	return append(b, end)
}

// resolved is the facts as one JSON document.
func resolved(origins []Origin) []byte {
	var root tree
	for _, o := range origins {
		t := &root
		for _, m := range pathStep.FindAllStringSubmatch(o.Path, -1) {
			name := m[1]
			if m[2] != "" {
				name, t.list = m[2], true
			} else if m[3] != "" {
				if s, err := strconv.Unquote(m[3]); err == nil {
					name = s
				}
			}
			t = t.at(name)
		}
		t.text = o.Value
	}
	var out bytes.Buffer
	if err := json.Indent(&out, root.append(nil), "", "  "); err != nil {
		return root.append(nil)
	}
	out.WriteByte('\n')
	return out.Bytes()
}
