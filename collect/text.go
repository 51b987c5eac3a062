package collect

import (
	"strings"
	"unicode/utf8"
)

// tailText is the end of what a program printed, for a message.
func tailText(b []byte, limit int) string {
	s := strings.TrimSpace(string(b))
	if len(s) > limit {
		s = "…" + s[len(s)-limit:]
	}
	s = strings.ToValidUTF8(s, "�")
	if s == "" {
		return "no output"
	}
	return s
}

// ends is the first and the last line of a message that carries a log.
func ends(msg string) string {
	lines := strings.Split(strings.TrimSpace(msg), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	return lines[0] + " " + strings.TrimSpace(lines[len(lines)-1])
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

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
