package warehouse

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	bignum "math/big" // HUGEINT, which sums of integers are, and DECIMAL
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	// Parquet in Go, because SQL has no access to files here.
	"github.com/parquet-go/parquet-go"
)

// WriteParquet writes the answer to a question as one Parquet file, with the
// columns in their order.
func WriteParquet(out io.Writer, r *Rows) error {
	p, err := newParquet(out, r.rows)
	if err != nil {
		return err
	}
	for r.Next() {
		if err := p.row(r.rows.Scan); err != nil {
			return err
		}
	}
	return errors.Join(r.Err(), p.close())
}

// A parquetWriter writes rows of an SQL answer; every column is optional.
type parquetWriter struct {
	w       *parquet.GenericWriter[any]
	columns []parquetColumn
	rows    []parquet.Row // not written yet
}

// A parquetColumn is a column of scalars or of lists of them.
type parquetColumn struct {
	kind string // DuckDB's type, of the items of a list
	list bool
}

// parquetBatch is how many rows are written at a time.
const parquetBatch = 256

// A record is a group whose fields keep their order, where parquet.Group sorts
// them by name.
type record struct {
	parquet.Group
	fields []parquet.Field
}

// Fields are in the order of the answer.
func (r *record) Fields() []parquet.Field { return r.fields }

func newParquet(out io.Writer, rows *sql.Rows) (*parquetWriter, error) {
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	r := &record{Group: parquet.Group{}}
	p := &parquetWriter{}
	var names []string
	for i, t := range types {
		name, kind := t.Name(), t.DatabaseTypeName()
		for r.Group[name] != nil { // two columns of one name in somebody's own question
			name += "_" + fmt.Sprint(i+1)
		}
		c := parquetColumn{kind: kind}
		if item, ok := strings.CutSuffix(kind, "[]"); ok && !strings.ContainsAny(item, "[(") {
			c = parquetColumn{item, true}
		}
		p.columns, names = append(p.columns, c), append(names, name)
		r.Group[name] = c.node()
	}
	sorted := map[string]parquet.Field{}
	for _, f := range r.Group.Fields() {
		sorted[f.Name()] = f
	}
	for _, n := range names {
		r.fields = append(r.fields, sorted[n])
	}
	p.w = parquet.NewGenericWriter[any](out, parquet.NewSchema("cvs", r), parquet.Compression(&parquet.Zstd))
	return p, nil
}

func (c parquetColumn) node() parquet.Node {
	n := parquet.Optional(scalarNode(c.kind))
	if c.list {
		n = parquet.Optional(parquet.List(n))
	}
	return n
}

func scalarNode(kind string) parquet.Node {
	switch kind {
	case "BOOLEAN":
		return parquet.Leaf(parquet.BooleanType)
	case "TINYINT":
		return parquet.Int(8)
	case "SMALLINT":
		return parquet.Int(16)
	case "INTEGER":
		return parquet.Int(32)
	case "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER":
		return parquet.Int(64)
	case "FLOAT", "DOUBLE":
		return parquet.Leaf(parquet.DoubleType)
	case "DATE":
		return parquet.Date()
	case "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS":
		// not an instant: a reader that took it for one would shift it into its zone
		return parquet.TimestampAdjusted(parquet.Microsecond, false)
	case "TIMESTAMPTZ":
		return parquet.Timestamp(parquet.Microsecond)
	case "BLOB":
		return parquet.Leaf(parquet.ByteArrayType)
	}
	if width, scale, ok := decimal(kind); ok {
		return parquet.Decimal(scale, width, parquet.FixedLenByteArrayType(decimalBytes))
	}
	return parquet.String() // anything else as text
}

// decimalBytes hold 38 digits and a sign.
const decimalBytes = 16

// decimal is the width and scale of a DECIMAL, and of a HUGEINT.
func decimal(kind string) (width, scale int, ok bool) {
	if kind == "HUGEINT" {
		return 38, 0, true
	}
	n, err := fmt.Sscanf(kind, "DECIMAL(%d,%d)", &width, &scale)
	return width, scale, err == nil && n == 2
}

func (p *parquetWriter) row(scan func(...any) error) error {
	values := make([]any, len(p.columns))
	dest := make([]any, len(values))
	for i := range values {
		dest[i] = &values[i]
	}
	if err := scan(dest...); err != nil {
		return err
	}
	row := make(parquet.Row, 0, len(values))
	for i, v := range values {
		var err error
		if row, err = p.columns[i].add(row, i, v); err != nil {
			return err
		}
	}
	if p.rows = append(p.rows, row); len(p.rows) < parquetBatch {
		return nil
	}
	return p.flush()
}

// add appends a value with its levels: for a list how much of list, item and
// value is there, and which item begins the list.
func (c parquetColumn) add(row parquet.Row, at int, v any) (parquet.Row, error) {
	null := parquet.NullValue()
	if v == nil {
		return append(row, null.Level(0, 0, at)), nil
	}
	if !c.list {
		x, err := scalar(c.kind, v)
		return append(row, x.Level(0, 1, at)), err
	}
	items, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("a list of %s comes as %T", c.kind, v)
	}
	if len(items) == 0 {
		return append(row, null.Level(0, 1, at)), nil
	}
	for k, item := range items {
		begins := min(k, 1)
		if item == nil {
			row = append(row, null.Level(begins, 2, at))
			continue
		}
		x, err := scalar(c.kind, item)
		if err != nil {
			return nil, err
		}
		row = append(row, x.Level(begins, 3, at))
	}
	return row, nil
}

// scalar is a value as scalarNode of its kind has it.
func scalar(kind string, v any) (parquet.Value, error) {
	switch x := v.(type) {
	case bool:
		return parquet.BooleanValue(x), nil
	case int8:
		return parquet.Int32Value(int32(x)), nil
	case int16:
		return parquet.Int32Value(int32(x)), nil
	case int32:
		return parquet.Int32Value(x), nil
	case int64:
		return parquet.Int64Value(x), nil
	case uint8:
		return parquet.Int64Value(int64(x)), nil
	case uint16:
		return parquet.Int64Value(int64(x)), nil
	case uint32:
		return parquet.Int64Value(int64(x)), nil
	case float32:
		return parquet.DoubleValue(float64(x)), nil
	case float64:
		return parquet.DoubleValue(x), nil
	case time.Time:
		switch {
		case kind == "DATE":
			return parquet.Int32Value(int32(x.Unix() / (24 * 60 * 60))), nil
		case strings.HasPrefix(kind, "TIMESTAMP"):
			return parquet.Int64Value(x.UnixMicro()), nil
		}
		return parquet.ByteArrayValue([]byte(x.Format(time.RFC3339Nano))), nil
	case string:
		return parquet.ByteArrayValue([]byte(x)), nil
	case []byte:
		return parquet.ByteArrayValue(x), nil
	case *bignum.Int:
		if kind == "HUGEINT" {
			return decimalValue(x)
		}
	case duckdb.Decimal:
		return decimalValue(x.Value)
	case fmt.Stringer:
		return parquet.ByteArrayValue([]byte(x.String())), nil
	}
	if text, err := json.Marshal(v); err == nil { // lists of lists, structs
		return parquet.ByteArrayValue(text), nil
	}
	return parquet.ByteArrayValue(fmt.Append(nil, v)), nil
}

// decimalValue is the two's complement, the highest byte first.
func decimalValue(x *bignum.Int) (parquet.Value, error) {
	if limit := new(bignum.Int).Exp(bignum.NewInt(10), bignum.NewInt(38), nil); x.CmpAbs(limit) >= 0 {
		return parquet.Value{}, fmt.Errorf("%s has more than 38 digits, the most Parquet has: cast it to DOUBLE or VARCHAR", x)
	}
	if x.Sign() < 0 {
		x = new(bignum.Int).Add(x, new(bignum.Int).Lsh(bignum.NewInt(1), 8*decimalBytes))
	}
	return parquet.FixedLenByteArrayValue(x.FillBytes(make([]byte, decimalBytes))), nil
}

func (p *parquetWriter) flush() error {
	_, err := p.w.WriteRows(p.rows)
	p.rows = p.rows[:0]
	return err
}

func (p *parquetWriter) close() error {
	return errors.Join(p.flush(), p.w.Close())
}
