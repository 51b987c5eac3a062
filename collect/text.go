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
