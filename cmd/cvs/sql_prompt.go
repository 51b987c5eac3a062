package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/chzyer/readline" // line editing, history and completion
	"golang.org/x/term"

	"cvs/warehouse"
)

// promptWords are what the prompt completes: views, tables, columns, macros and
// saved queries.
func promptWords(ctx context.Context, db *warehouse.DB) ([]readline.PrefixCompleterInterface, error) {
	columns, err := db.Schema(ctx)
	if err != nil {
		return nil, badStore(err)
	}
	seen := map[string]bool{}
	var words []readline.PrefixCompleterInterface
	add := func(w string) {
		if !seen[w] {
			seen[w] = true
			words = append(words, readline.PcItem(w))
		}
	}
	for _, c := range columns {
		add(c.Relation)
		add(c.Name)
	}
	macros, err := db.Macros(ctx)
	if err != nil {
		return nil, badStore(err)
	}
	for _, m := range macros {
		add(m.Name + "(")
	}
	for _, q := range warehouse.SavedQueries() {
		add("@" + q.Name)
	}
	return words, nil
}

// sqlPrompt asks for queries on a terminal until end of file.
func sqlPrompt(ctx context.Context, e *env, db *warehouse.DB, ask func(text string) error) error {
	words, err := promptWords(ctx, db)
	if err != nil {
		return err
	}
	cfg := &readline.Config{Prompt: "cvs> ", AutoComplete: lastWord{readline.NewPrefixCompleter(words...)}}
	if home := e.getenv("HOME"); home != "" {
		cfg.HistoryFile = filepath.Join(home, ".cvs_sql_history")
	}
	rl, err := readline.NewEx(cfg)
	if err != nil {
		return badStore(err)
	}
	defer rl.Close()
	fmt.Fprintln(e.stdout, "SQL ends with a semicolon; @name runs a saved query; .schema lists the views, .schema NAME explains one; .queries lists the saved ones; control-D leaves.")
	var text strings.Builder
	for {
		line, err := rl.Readline()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			text.Reset()
			rl.SetPrompt("cvs> ")
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return badStore(err)
		case text.Len() == 0 && slices.Contains([]string{".quit", ".exit", "quit", "exit", `\q`}, strings.TrimSpace(line)):
			return nil
		case text.Len() == 0 && strings.TrimSpace(line) == ".queries":
			if err := listQueries(e); err != nil {
				return err
			}
			continue
		case strings.HasPrefix(strings.TrimSpace(line), ".schema"):
			if err := printSchema(ctx, e, db, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), ".schema"))); err != nil {
				fmt.Fprintln(e.stderr, visible(message(err)))
			}
			continue
		}
		text.WriteString(line + "\n")
		whole := strings.TrimSpace(text.String())
		if whole == "" {
			text.Reset()
			continue
		}
		if !strings.HasSuffix(whole, ";") && !strings.HasPrefix(whole, "@") {
			rl.SetPrompt("  -> ")
			continue
		}
		text.Reset()
		rl.SetPrompt("cvs> ")
		if err := ask(strings.TrimSuffix(whole, ";")); err != nil {
			fmt.Fprintln(e.stderr, visible(message(err)))
		}
	}
}

// lastWord completes the word at the cursor wherever it stands in the line.
type lastWord struct{ words readline.AutoCompleter }

var wordEnd = regexp.MustCompile(`[@\w.]*$`)

// Do is readline's completion: what may follow, and how much of it is typed.
func (l lastWord) Do(line []rune, pos int) ([][]rune, int) {
	word := []rune(wordEnd.FindString(string(line[:pos])))
	return l.words.Do(word, len(word))
}

// onTerminal says whether a person sits in front of both ends.
func onTerminal(e *env) bool {
	in, ok := e.stdin.(*os.File)
	out, ok2 := e.stdout.(*os.File)
	return ok && ok2 && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}
