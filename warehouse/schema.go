package warehouse

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// A SchemaColumn is one documented column.
type SchemaColumn struct {
	Relation, RelationComment string
	IsView                    bool
	Name, Type, Comment       string
}

// Schema lists views with their columns and comments, then tables.
func (w *DB) Schema(ctx context.Context) ([]SchemaColumn, error) {
	if err := errors.Join(w.late(ctx), w.putComments(ctx)); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	rows, err := query(ctx, w.db, `
		SELECT c.table_name, coalesce(v.comment, t.comment, ''), v.view_name IS NOT NULL, c.column_name, c.data_type, coalesce(c.comment, '')
		FROM duckdb_columns() c
		LEFT JOIN duckdb_views() v ON v.view_name = c.table_name AND v.database_name = c.database_name AND NOT v.internal
		LEFT JOIN duckdb_tables() t ON t.table_name = c.table_name AND t.database_name = c.database_name AND NOT t.internal
		WHERE NOT c.internal AND c.database_name = current_database() AND c.table_name <> 'warehouse_info'
		ORDER BY v.view_name IS NULL, c.table_name, c.column_index`,
		func(c *SchemaColumn) []any {
			return []any{&c.Relation, &c.RelationComment, &c.IsView, &c.Name, &c.Type, &c.Comment}
		})
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return rows, nil
}

// A SchemaMacro is one documented macro: SELECT name(…) for a value, FROM name(…)
// for a table.
type SchemaMacro struct {
	Name, Comment string
	Params        []string
	IsTable       bool
	Columns       []Column // of a table
}

// Signature is the macro as it is called.
func (m SchemaMacro) Signature() string { return m.Name + "(" + strings.Join(m.Params, ", ") + ")" }

// sample is a value of a parameter's type, which the comment states. Columns may
// get their type from it.
func (m SchemaMacro) sample(param string) string {
	is := func(kind string) bool { return strings.Contains(m.Comment, param+": "+kind) }
	switch {
	case is("JSON"):
		return "'{}'" // its shape is looked at before anything is computed
	case is("DATE"):
		return "NULL::DATE"
	case is("TIMESTAMP"):
		return "NULL::TIMESTAMP"
	case is("list"):
		return "NULL::VARCHAR[]"
	case is("number"):
		return "NULL::DOUBLE"
	}
	return "NULL::VARCHAR"
}

// Macros lists the macros, those that give a table first.
func (w *DB) Macros(ctx context.Context) ([]SchemaMacro, error) {
	if err := errors.Join(w.late(ctx), w.putComments(ctx)); err != nil {
		return nil, fmt.Errorf("macros: %w", err)
	}
	macros, err := query(ctx, w.db, `
		SELECT function_name, coalesce(comment, ''), function_type = 'table_macro', array_to_string(parameters, ',')
		FROM duckdb_functions() WHERE NOT internal AND function_type IN ('macro', 'table_macro') AND database_name = current_database()
		ORDER BY function_type DESC, function_name`,
		func(m *SchemaMacro) []any {
			m.Params = make([]string, 1)
			return []any{&m.Name, &m.Comment, &m.IsTable, &m.Params[0]}
		})
	if err != nil {
		return nil, fmt.Errorf("macros: %w", err)
	}
	for i := range macros {
		m := &macros[i]
		m.Params = strings.Split(m.Params[0], ",")
		if !m.IsTable {
			continue
		}
		args := make([]string, len(m.Params))
		for k, p := range m.Params {
			args[k] = m.sample(p)
		}
		m.Columns, err = query(ctx, w.db, fmt.Sprintf(`SELECT column_name, column_type FROM (DESCRIBE FROM "%s"(%s))`, m.Name, strings.Join(args, ", ")),
			func(c *Column) []any { return []any{&c.Name, &c.Type} })
		if err != nil {
			return nil, fmt.Errorf("macro %s: %w", m.Name, err)
		}
	}
	return macros, nil
}

// SchemaText is the documented schema as plain text: views, tables, macros; of one
// of them if name is not empty, and empty if there is none of that name.
func (w *DB) SchemaText(ctx context.Context, name string) (string, error) {
	columns, err := w.Schema(ctx)
	if err != nil {
		return "", err
	}
	macros, err := w.Macros(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	head := func(what, name, comment string) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s", what, name)
		if comment != "" {
			fmt.Fprintf(&b, ": %s", comment)
		}
		b.WriteByte('\n')
	}
	column := func(name, kind, comment string) {
		line := fmt.Sprintf("  %-26s %-10s %s", name, kind, comment)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	last := ""
	for _, c := range columns {
		if name != "" && !strings.EqualFold(name, c.Relation) {
			continue
		}
		if c.Relation != last {
			last = c.Relation
			what := "table"
			if c.IsView {
				what = "view"
			}
			head(what, c.Relation, c.RelationComment)
		}
		column(c.Name, c.Type, c.Comment)
	}
	for _, m := range macros {
		if name != "" && !strings.EqualFold(name, m.Name) {
			continue
		}
		what := "macro"
		if m.IsTable {
			what = "table macro"
		}
		head(what, m.Signature(), m.Comment)
		for _, c := range m.Columns {
			column(c.Name, c.Type, "")
		}
	}
	return b.String(), nil
}
