package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"cvs/warehouse"
)

// sections print rows as one table for each heading, in the order they come.
type sections struct {
	out     io.Writer
	columns table.Row
	head    string
	table   table.Writer // nil: none is open
}

// row adds a row under a heading of one or more lines; columns are those of the
// section, where they are not always the same.
func (s *sections) row(head string, cells table.Row) {
	if s.table == nil || head != s.head {
		s.end()
		s.head = head
		fmt.Fprintln(s.out, head)
		s.table = newTable()
		s.table.AppendHeader(s.columns)
	}
	s.table.AppendRow(cells)
}

// end prints the last table.
func (s *sections) end() {
	if s.table != nil {
		fmt.Fprintln(s.out, s.table.Render()+"\n")
		s.table = nil
	}
}

// tableOrJSON refuses any other --format.
func tableOrJSON(format string) error {
	if format != "table" && format != "json" {
		return badInput("--format %s: want table or json", format)
	}
	return nil
}

// readStore opens the warehouse for reading and waits politely for a writer.
func readStore(ctx context.Context, e *env, store storeOptions) (*warehouse.DB, error) {
	return openStore(ctx, store.path(e), warehouse.Options{ReadOnly: true, Wait: defaultWait})
}
