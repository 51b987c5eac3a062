package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"cvs/collect/strictjson"
	"cvs/warehouse"
)

// rowWriters print the answer to a query, by --format.
var rowWriters = map[string]func(io.Writer, *warehouse.Rows) error{
	"table": writeTable, "csv": writeCSV, "json": writeRowsJSON, "jsonl": writeRowsJSONL,
	"markdown": writeMarkdown, "parquet": warehouse.WriteParquet,
}

func writeTable(w io.Writer, rows *warehouse.Rows) error {
	if len(rows.Columns) == 2 && rows.Columns[0].Name == "explain_key" {
		return writePlan(w, rows)
	}
	tw := newTable()
	head := table.Row{}
	for _, c := range rows.Columns {
		head = append(head, visible(c.Name))
	}
	tw.AppendHeader(head)
	n := 0
	for rows.Next() {
		values, err := rows.Plain()
		if err != nil {
			return err
		}
		row := table.Row{}
		for _, v := range values {
			row = append(row, visible(cellText(v)))
		}
		tw.AppendRow(row)
		n++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n(%s)\n", tw.Render(), count(n, "row"))
	return err
}

// writePlan prints the answer to EXPLAIN, which is a drawing of many lines.
func writePlan(w io.Writer, rows *warehouse.Rows) error {
	for rows.Next() {
		values, err := rows.Plain()
		if err != nil {
			return err
		}
		for line := range strings.Lines(cellText(values[1])) {
			if _, err := fmt.Fprintln(w, visible(strings.TrimRight(line, "\n"))); err != nil {
				return err
			}
		}
	}
	return rows.Err()
}

func writeCSV(w io.Writer, rows *warehouse.Rows) error {
	cw := csv.NewWriter(w)
	var head []string
	for _, c := range rows.Columns {
		head = append(head, c.Name)
	}
	if err := cw.Write(head); err != nil {
		return err
	}
	for rows.Next() {
		values, err := rows.Plain()
		if err != nil {
			return err
		}
		var rec []string
		for _, v := range values {
			s := ""
			if v != nil {
				s = cellText(v)
			}
			if _, isText := v.(string); isText {
				s = inertFormula(s)
			}
			rec = append(rec, s)
		}
		if err := cw.Write(rec); err != nil {
			return err
		}
	}
	cw.Flush()
	if err := rows.Err(); err != nil {
		return err
	}
	return cw.Error()
}

// inertFormula keeps a spreadsheet from running text as a formula (OWASP's
// advice on CSV injection); a number stays one, also where it is kept as text.
func inertFormula(s string) string {
	if s != "" && !strictjson.IsNumber(s) && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

func writeRowsJSON(w io.Writer, rows *warehouse.Rows) error {
	sep := "[\n"
	for rows.Next() {
		b, err := jsonRow(rows)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s  %s", sep, b); err != nil {
			return err
		}
		sep = ",\n"
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if sep == "[\n" {
		_, err := io.WriteString(w, "[]\n")
		return err
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

func writeRowsJSONL(w io.Writer, rows *warehouse.Rows) error {
	for rows.Next() {
		b, err := jsonRow(rows)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", b); err != nil {
			return err
		}
	}
	return rows.Err()
}

// jsonRow keeps the order of the columns, which a map would not.
func jsonRow(rows *warehouse.Rows) ([]byte, error) {
	values, err := rows.Plain()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		k, err := json.Marshal(rows.Columns[i].Name)
		if err != nil {
			return nil, err
		}
		b.Write(k)
		b.WriteString(": ")
		switch x := v.(type) {
		case float64:
			if math.IsNaN(x) || math.IsInf(x, 0) {
				v = nil // strict JSON has no such number; csv and table show it
			}
		case time.Time:
			v = cellText(x)
		case []byte:
			v = string(x)
		}
		val, err := json.Marshal(v)
		if err != nil {
			val, err = json.Marshal(fmt.Sprint(v))
			if err != nil {
				return nil, err
			}
		}
		b.Write(val)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// cellText prints one value; NULL is empty in csv and NULL in a table.
func cellText(v any) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case []byte:
		return string(x)
	case []any, map[string]any:
		if b, err := json.Marshal(x); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v)
}
