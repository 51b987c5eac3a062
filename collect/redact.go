package collect

import (
	"encoding/json"
	"strings"

	"cvs/collect/container"
	"cvs/collect/strictjson"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// A redactor takes known secrets out of text. Short values are left: they would
// match everywhere and protect nothing.
type redactor []string

const minSecret = 6

func newRedactor(values ...string) redactor {
	var r redactor
	for _, v := range values {
		if v = strings.TrimSpace(v); len(v) >= minSecret && strings.Trim(v, "0123456789.") != "" {
			r = append(r, v)
		}
	}
	return r
}

func (r redactor) text(s string) string {
	for _, v := range r {
		s = strings.ReplaceAll(s, v, redacted)
	}
	return s
}

func (r redactor) list(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = r.text(s)
	}
	return out
}

func (r redactor) has(b []byte) bool {
	for _, v := range r {
		if strings.Contains(string(b), v) {
			return true
		}
	}
	return false
}

// json takes secrets out of JSON text, in whichever way they are escaped there.
func (r redactor) json(s string) string {
	for _, v := range r {
		if b, err := json.Marshal(v); err == nil {
			s = strings.ReplaceAll(s, string(b[1:len(b)-1]), redacted)
		}
		s = strings.ReplaceAll(s, v, redacted)
	}
	return s
}

// fileText takes the secrets out of an input file for the copy that is kept,
// and leaves every other byte as it is: values of password, and of environment
// variables whose names say that they are secret, wherever the file has them.
func (r redactor) fileText(data []byte) []byte {
	v, _, err := strictjson.Parse(data, strictjson.Options{NonFinite: true, KeepDuplicates: true, MaxDepth: 1000})
	if err != nil { // the loader read it, so this cannot be; keep nothing that is not understood
		return []byte(`"` + redacted + `"` + "\n")
	}
	var out []byte
	at := 0
	cut := func(v *strictjson.Value) {
		out = append(append(out, data[at:v.Offset]...), `"`+redacted+`"`...)
		at = v.End
	}
	var walk func(v *strictjson.Value, env bool)
	walk = func(v *strictjson.Value, env bool) {
		for _, item := range v.Items {
			walk(item, false)
		}
		for _, m := range v.Members {
			scalar := m.Value.Kind == strictjson.String || m.Value.Kind == strictjson.Number
			switch {
			case scalar && strings.EqualFold(m.Name, "password"),
				scalar && env && container.Secret(m.Name) && strings.Trim(m.Value.Text, "0123456789.") != "":
				cut(m.Value)
			default:
				walk(m.Value, m.Name == "env" || m.Name == "env_vars")
			}
		}
	}
	walk(v, false)
	return []byte(r.json(string(append(out, data[at:]...))))
}
