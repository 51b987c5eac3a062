package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReadme parses every "cvs …" line of the README's code blocks against the
// real command tree, so that documentation cannot drift from the program.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(&env{getenv: func(string) string { return "" }, now: time.Now, osUser: osUser})
	inCode, n := false, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inCode = !inCode
			continue
		}
		if !inCode {
			continue
		}
		line, _, _ = strings.Cut(line, "  #")
		f := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(line, "$ "), "\\"))
		if len(f) < 2 || f[0] != "cvs" {
			continue
		}
		n++
		cmd, rest, err := root.Find(f[1:])
		if err != nil || cmd == root {
			t.Errorf("README: %q: %v", line, err)
			continue
		}
		cmd.InitDefaultHelpFlag()
		if err := cmd.ParseFlags(quoted(rest)); err != nil {
			t.Errorf("README: %q: %v", line, err)
		}
	}
	if n < 10 {
		t.Errorf("only %d command lines found in the README", n)
	}
}

// quoted joins words that stand in double quotes, as a shell would.
func quoted(words []string) []string {
	var out []string
	open := false
	for _, w := range words {
		if open {
			out[len(out)-1] += " " + w
		} else {
			out = append(out, w)
		}
		if strings.Count(w, `"`)%2 == 1 {
			open = !open
		}
	}
	return out
}
