package warehouse

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"
)

// Plain returns the row for people and for JSON: nil, bool, integers, float64,
// json.Number (DECIMAL), string, time.Time (with a time of day and a date), and
// []any and map[string]any of these. Dates, times of day and intervals are text as
// DuckDB prints them; within lists and structs so are other times, and numbers
// that are not finite are nil.
func (r *Rows) Plain() ([]any, error) {
	values, err := r.Values()
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		switch x := v.(type) {
		case float64:
		case time.Time:
			switch r.Columns[i].Type {
			case "DATE":
				values[i] = x.UTC().Format(time.DateOnly)
			case "TIME":
				values[i] = x.UTC().Format("15:04:05.999999")
			}
		case []byte:
			if id := (duckdb.UUID{}); r.Columns[i].Type == "UUID" && len(x) == len(id) {
				copy(id[:], x)
				values[i] = id.String()
			}
		default:
			values[i] = plain(v)
		}
	}
	return values, nil
}

func plain(v any) any {
	switch x := v.(type) {
	case float32:
		return plain(float64(x))
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case duckdb.Decimal:
		return json.Number(x.String())
	case duckdb.UUID:
		return x.String()
	case duckdb.Bit:
		return x.String()
	case duckdb.Interval:
		return intervalText(x)
	case duckdb.Union:
		return plain(x.Value)
	case duckdb.OrderedMap:
		m := make(map[string]any, x.Len())
		for i, k := range x.Keys() {
			m[fmt.Sprint(plain(k))] = plain(x.Values()[i])
		}
		return m
	case map[string]any:
		m := make(map[string]any, len(x))
		for k, e := range x {
			m[k] = plain(e)
		}
		return m
	case []any:
		list := make([]any, len(x))
		for i, e := range x {
			list[i] = plain(e)
		}
		return list
	}
	return v
}

// intervalText is an interval as DuckDB prints it: 1 year 2 months 3 days
// 04:05:06.789.
func intervalText(x duckdb.Interval) string {
	var parts []string
	part := func(n int32, unit string) {
		switch {
		case n == 1 || n == -1:
			parts = append(parts, fmt.Sprintf("%d %s", n, unit))
		case n != 0:
			parts = append(parts, fmt.Sprintf("%d %ss", n, unit))
		}
	}
	part(x.Months/12, "year")
	part(x.Months%12, "month")
	part(x.Days, "day")
	if x.Micros != 0 || len(parts) == 0 {
		sign, us := "", x.Micros
		if us < 0 {
			sign, us = "-", -us
		}
		clock := fmt.Sprintf("%s%02d:%02d:%02d", sign, us/3_600_000_000, us/60_000_000%60, us/1_000_000%60)
		if us %= 1_000_000; us != 0 {
			clock += strings.TrimRight(fmt.Sprintf(".%06d", us), "0")
		}
		parts = append(parts, clock)
	}
	return strings.Join(parts, " ")
}
