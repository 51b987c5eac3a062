package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cvs/warehouse"
)

// TestSQLTypes: every type of the SQL engine comes out as people and JSON write it.
func TestSQLTypes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w.duckdb")
	db, err := warehouse.Open(t.Context(), file, warehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	types := []struct{ expr, json, text string }{
		{"1.50", `1.5`, "1.5"},
		{"0.00", `0`, "0"},
		{"-12345678901234567890.123::DECIMAL(38,3)", `-12345678901234567890.123`, "-12345678901234567890.123"},
		{"sum(9223372036854775807::BIGINT) * 2", `18446744073709551614`, "18446744073709551614"},
		{"[1, 2]", `[1,2]`, "[1,2]"},
		{"[]::INTEGER[]", `[]`, "[]"},
		{"['a', NULL]", `["a",null]`, `["a",null]`},
		{"['nan'::DOUBLE, 1.5::DOUBLE]", `[null,1.5]`, "[null,1.5]"},
		{"{'a': 1, 'b': [DATE '2026-01-02']}", `{"a":1,"b":["2026-01-02T00:00:00Z"]}`, `{"a":1,"b":["2026-01-02T00:00:00Z"]}`},
		{"MAP {'k': 1.25}", `{"k":1.25}`, `{"k":1.25}`},
		{"DATE '2026-01-02'", `"2026-01-02"`, "2026-01-02"},
		{"TIME '03:04:05.25'", `"03:04:05.25"`, "03:04:05.25"},
		{"TIMESTAMP '2026-01-02 03:04:05.25'", `"2026-01-02T03:04:05.25Z"`, "2026-01-02T03:04:05.25Z"},
		{"TIMESTAMP '2026-03-02 04:00:00' - TIMESTAMP '2026-03-01 03:00:00'", `"1 day 01:00:00"`, "1 day 01:00:00"},
		{"INTERVAL '14 months -1 second'", `"1 year 2 months -00:00:01"`, "1 year 2 months -00:00:01"},
		{"INTERVAL '0 days'", `"00:00:00"`, "00:00:00"},
		{"'12345678-1234-1234-1234-123456789abc'::UUID", `"12345678-1234-1234-1234-123456789abc"`, "12345678-1234-1234-1234-123456789abc"},
		{"'nan'::DOUBLE", `null`, "NaN"},
		{"1.5::FLOAT", `1.5`, "1.5"},
		{"NULL", `null`, ""},
		{"true", `true`, "true"},
		{"'-3.2'", `"-3.2"`, "-3.2"},
		{"'-3.2+x'", `"-3.2+x"`, "'-3.2+x"},
		{"'=1'", `"=1"`, "'=1"},
	}
	var columns []string
	for i, tt := range types {
		columns = append(columns, fmt.Sprintf("%s AS c%d", tt.expr, i))
	}
	query := "SELECT " + strings.Join(columns, ", ")
	res := cvsCommand(t, nil, "sql", "--warehouse", file, "--format", "jsonl", query)
	var row map[string]json.RawMessage
	if err := json.Unmarshal([]byte(res.stdout), &row); err != nil || res.code != 0 {
		t.Fatalf("jsonl: exit %d, %v: %s", res.code, err, res.stderr)
	}
	res = cvsCommand(t, nil, "sql", "--warehouse", file, "--format", "csv", query)
	lines, err := csv.NewReader(strings.NewReader(res.stdout)).ReadAll()
	if err != nil || res.code != 0 || len(lines) != 2 {
		t.Fatalf("csv: exit %d, %v: %s\n%s", res.code, err, res.stderr, res.stdout)
	}
	for i, tt := range types {
		if got := string(row[fmt.Sprint("c", i)]); got != tt.json {
			t.Errorf("%s: json %s, want %s", tt.expr, got, tt.json)
		}
		if got := lines[1][i]; got != tt.text {
			t.Errorf("%s: csv %q, want %q", tt.expr, got, tt.text)
		}
	}
}

// TestVisible: nothing of a name moves the cursor, turns the direction of what
// follows or has no width.
func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ключ 😀\ttab": "plain ключ 😀\ttab", "\x1b[2J": `\x1b[2J`, "a\u202eb": `a\u202eb`, "z\u200bz": `z\u200bz`,
		"\ufeffx": `\ufeffx`, "\u009b1m": `\u009b1m`, "soft\u00adhyphen": `soft\u00adhyphen`, "l\u2028p": `l\u2028p`, "\x7f": `\x7f`,
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}
