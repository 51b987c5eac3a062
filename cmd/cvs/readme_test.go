package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cvs/warehouse"
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

// TestReadmeFaults holds the README's table of faults to the tests: each line
// names one that exists, each of them is named once, and the exit status is the
// one that it asserts.
func TestReadmeFaults(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("faults*_test.go")
	check(t, err)
	code := map[string]string{}
	for _, f := range files {
		parts := strings.Split(readFile(t, f), "\nfunc TestFault")
		for _, p := range parts[1:] {
			name, body, _ := strings.Cut(p, "(")
			body, _, _ = strings.Cut(body, "\n}\n")
			code["TestFault"+name] = body
		}
	}
	row := regexp.MustCompile("(?m)^\\|.*\\| ([0-9]+)(?:, at once)? \\|[^|]*\\| `(Test[A-Za-z]+)` \\|$")
	for _, m := range row.FindAllStringSubmatch(readFile(t, filepath.Join("..", "..", "README.md")), -1) {
		exit, name := m[1], m[2]
		body, ok := code[name]
		if !ok {
			t.Errorf("README: %s is no test of the fault matrix, or is named twice", name)
			continue
		}
		delete(code, name)
		asserts := regexp.MustCompile(`\.(?:fault|expect)\(` + exit + `,|code != ` + exit + ` `)
		if !asserts.MatchString(body) && !(exit == "0" && strings.Contains(body, ".resumes(")) {
			t.Errorf("README: %s does not assert exit status %s", name, exit)
		}
	}
	for name := range code {
		t.Errorf("README: %s is not in the table of faults", name)
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

// TestReadmeMistakes holds the README's example of bad input to what the program
// prints for that file.
func TestReadmeMistakes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "collect", "plan", "testdata", "twelve")
	config := filepath.Join(dir, "mi325x_atom_demo_fp8_single.json")
	res := cvsCommand(t, nil, "config", "check", "--config_file", config, "--cluster_file", filepath.Join(dir, "cluster.json"))
	if res.code != 2 {
		t.Fatalf("exit %d, want 2\n%s", res.code, res.stderr)
	}
	readme := readFile(t, filepath.Join("..", "..", "README.md"))
	printed := res.stdout + res.stderr
	n := 0
	for line := range strings.Lines(readFile(t, filepath.Join(dir, "messages.golden"))) {
		_, msg, _ := strings.Cut(strings.TrimSpace(line), ".json:")
		if !strings.Contains(readme, "config.json:"+msg+"\n") {
			t.Errorf("not in the README: %s", msg)
		}
		if !strings.Contains(printed, msg) {
			t.Errorf("not printed: %s", msg)
		}
		n++
	}
	if n != 12 {
		t.Errorf("%d messages, want 12", n)
	}
}

// TestDocumentedSQL asks every question that the README and the help of the
// commands show: a column that is not there would be the reader's first try.
func TestDocumentedSQL(t *testing.T) {
	t.Parallel()
	db, err := warehouse.Open(t.Context(), "", warehouse.Options{})
	check(t, err)
	defer db.Close()
	e := &env{getenv: func(string) string { return "" }}
	text := readFile(t, filepath.Join("..", "..", "README.md"))
	for _, c := range newRoot(e).Commands() {
		text += c.Long + "\n" + c.Example + "\n"
	}
	said := regexp.MustCompile("cvs sql \"([^\"@-][^\"]*)\"|`(SELECT [^`]*)`").FindAllStringSubmatch(text, -1)
	for _, m := range said {
		question := strings.ReplaceAll(m[1]+m[2], `\$`, "$")
		var args []any
		for _, p := range sqlParam.FindAllStringSubmatch(question, -1) {
			args = append(args, sql.Named(p[1], "x"))
		}
		rows, err := db.Ask(t.Context(), question, args...)
		if err != nil {
			t.Errorf("%s: %v", question, err)
			continue
		}
		rows.Close()
	}
	if len(said) < 4 {
		t.Errorf("only %d questions found", len(said))
	}
}
