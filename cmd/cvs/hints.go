package main

import (
	"context"
	"fmt"
	"strings"

	"cvs/warehouse"
)

// texts are the first column of an answer, for a hint in a message: what cannot
// be read is no hint.
func texts(ctx context.Context, db *warehouse.DB, question string, args ...any) []string {
	rows, err := db.Ask(ctx, question, args...)
	if err != nil {
		return nil
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil
		}
		if s, ok := values[0].(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// thereAre says which names could have been meant: the nearest, else the first
// few of all.
func thereAre(what, name string, names []string) string {
	const few = 5
	if near := didYouMean(name, names); near != "" {
		return near
	}
	switch n := len(names); {
	case n == 0:
		return "; there are no " + what
	case n > few:
		return fmt.Sprintf("; %s there are: %s … and %d more", what, strings.Join(names[:few], ", "), n-few)
	}
	return fmt.Sprintf("; %s there are: %s", what, strings.Join(names, ", "))
}
