package warehouse

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Column is one column of an answer.
type Column struct {
	Name string
	Type string // as DuckDB names it
}

// Rows is the answer to [DB.Ask]: rows are read as they are wanted. It must be
// closed.
type Rows struct {
	Columns []Column
	rows    *sql.Rows
	conn    *sql.Conn
}

// Next goes to the next row; false at the end or after an error.
func (r *Rows) Next() bool { return r.rows.Next() }

// Values returns the row as the driver decodes it: nil, bool, integers,
// float64, string, time.Time, and lists and structs of these.
func (r *Rows) Values() ([]any, error) {
	values := make([]any, len(r.Columns))
	dest := make([]any, len(values))
	for i := range values {
		dest[i] = &values[i]
	}
	if err := r.rows.Scan(dest...); err != nil {
		return nil, err
	}
	return values, nil
}

// Err is the error that ended Next early.
func (r *Rows) Err() error { return r.rows.Err() }

// Close ends the question.
func (r *Rows) Close() error {
	err := r.rows.Close()
	_, rerr := r.conn.ExecContext(context.Background(), "ROLLBACK")
	return errors.Join(err, rerr, r.conn.Close())
}

// An AskError reports SQL that is not allowed or not understood.
type AskError struct{ Msg string }

// Error is DuckDB's message or ours.
func (e *AskError) Error() string { return e.Msg }

// Ask runs one reading statement of somebody's own, with args for its question
// marks. Files, the network, extensions and settings are out of its reach, and
// it cannot write: the statement must be one SELECT (or DESCRIBE, SHOW,
// SUMMARIZE, EXPLAIN), and runs in a read-only transaction that is rolled back.
func (w *DB) Ask(ctx context.Context, text string, args ...any) (*Rows, error) {
	if err := errors.Join(w.late(ctx), w.Measure(ctx)); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	rows, err := ask(ctx, conn, text, args)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return rows, nil
}

func ask(ctx context.Context, conn *sql.Conn, text string, args []any) (*Rows, error) {
	if err := readsOnly(ctx, conn, text); err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN TRANSACTION READ ONLY"); err != nil {
		return nil, err
	}
	rows, err := conn.QueryContext(ctx, text, args...)
	if err == nil {
		var types []*sql.ColumnType
		if types, err = rows.ColumnTypes(); err == nil {
			r := &Rows{rows: rows, conn: conn}
			for _, t := range types {
				r.Columns = append(r.Columns, Column{Name: t.Name(), Type: t.DatabaseTypeName()})
			}
			return r, nil
		}
		rows.Close()
	}
	_, rerr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return nil, errors.Join(&AskError{err.Error()}, rerr)
}

var explained = regexp.MustCompile(`(?i)^\s*EXPLAIN\s+(ANALYZE\s+)?`)

// readsOnly lets DuckDB's own parser decide what the text is: the driver would
// run all statements but the last before it could be asked.
func readsOnly(ctx context.Context, conn *sql.Conn, text string) error {
	does := explained.ReplaceAllString(text, "") // it does what it explains, or nothing
	var parsed string
	if err := conn.QueryRowContext(ctx, "SELECT json_serialize_sql(?::VARCHAR)::VARCHAR", does).Scan(&parsed); err != nil {
		return &AskError{err.Error()}
	}
	var answer struct {
		Error      bool              `json:"error"`
		Kind       string            `json:"error_type"`
		Message    string            `json:"error_message"`
		Position   string            `json:"position"` // code points before it, in digits
		Statements []json.RawMessage `json:"statements"`
	}
	if err := json.Unmarshal([]byte(parsed), &answer); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	switch {
	case answer.Error && strings.Contains(answer.Message, "Only SELECT"):
		return &AskError{"only a SELECT can be asked: the warehouse is read here, never changed"}
	case answer.Error:
		at, err := strconv.Atoi(answer.Position)
		if err != nil { // what has no place in the text
			return &AskError{answer.Message}
		}
		return &AskError{answer.Message + "\n\n" + pointAt(text, at+utf8.RuneCountInString(text[:len(text)-len(does)]))}
	case len(answer.Statements) != 1:
		return &AskError{fmt.Sprintf("one statement at a time, please; this is %d", len(answer.Statements))}
	}
	return nil
}

// pointAt shows the line of text that holds the code point at, and where in it,
// as DuckDB does when it knows the tables.
func pointAt(text string, at int) string {
	all := []rune(text)
	at = min(max(at, 0), len(all))
	begin, end := at, at
	for begin > 0 && all[begin-1] != '\n' {
		begin--
	}
	for end < len(all) && all[end] != '\n' {
		end++
	}
	const most = 60 // shown before the place, and after it
	label := fmt.Sprintf("LINE %d: ", strings.Count(string(all[:begin]), "\n")+1)
	before, after := all[max(begin, at-most):at], all[at:min(end, at+most)]
	pad := strings.Map(func(r rune) rune { // a tab stays one, so that the mark is below its place
		if r == '\t' {
			return r
		}
		return ' '
	}, label+string(before))
	return label + string(before) + string(after) + "\n" + pad + "^"
}
