package remote

import (
	"os/exec"
	"strings"
	"testing"
)

// words lets a shell split a line and returns what a program gets.
func words(t *testing.T, shell, line string) []string {
	t.Helper()
	out, err := exec.Command(shell, "-c", `exec printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", shell, err)
	}
	all := strings.Split(string(out), "\x00")
	return all[:len(all)-1]
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a b", "it's", "$HOME", "`id`", "\n", `\`, "-n", "~", "!x", "*", "{a,b}", "A=b", "#c", "é\xff", "\r\n", "%1", "=ls", "if", `"`, "''", "a'b'c", "$(touch x)", ";|&<>()"} {
		f.Add(s, "x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsRune(a+b, 0) {
			t.Skip("exec cannot carry NUL")
		}
		args := []string{a, b, a + b}
		for _, shell := range []string{"sh", "bash"} {
			got := words(t, shell, Quote(args))
			if strings.Join(got, "\x00") != strings.Join(args, "\x00") || len(got) != 3 {
				t.Errorf("%s saw %q, want %q", shell, got, args)
			}
		}
		// Twice quoted, as through docker exec and bash -c, is twice split.
		inner := words(t, "sh", Quote([]string{Quote(args)}))
		if len(inner) != 1 || inner[0] != Quote(args) {
			t.Errorf("nested: %q", inner)
		}
	})
}

func TestQuoteFirstWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"true": "true", "A=b": "'A=b'", "if": "'if'", "%1": "'%1'", "=ls": "'=ls'", "/bin/ls": "/bin/ls"} {
		if got := Quote([]string{in}); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := Quote([]string{"env", "A=b", "if", "x y"}); got != "env A=b if 'x y'" {
		t.Errorf("got %q", got)
	}
}
