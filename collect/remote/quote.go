package remote

import (
	"strings"

	// shellescape: the quoting rules of POSIX shells, widely used and small.
	"al.essio.dev/pkg/shellescape"
)

// Quote joins args to one line that a POSIX shell splits into exactly these
// words again, whatever bytes they hold. Only NUL cannot be carried; it is left
// in for the caller to refuse.
func Quote(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		q := shellescape.Quote(a)
		// What is plain as an argument may not be plain as a command: A=b would
		// be an assignment, "if" a keyword, "%1" a job, "=ls" a path in zsh.
		if q == a && (i == 0 && (strings.ContainsAny(a, "=%") || reserved[a]) || strings.HasPrefix(a, "=")) {
			q = "'" + a + "'"
		}
		b.WriteString(q)
	}
	return b.String()
}

// reserved are the words that mean something else at the start of a command.
var reserved = map[string]bool{
	"case": true, "coproc": true, "do": true, "done": true, "elif": true, "else": true,
	"esac": true, "fi": true, "for": true, "function": true, "if": true, "in": true,
	"select": true, "then": true, "time": true, "until": true, "while": true,
}
