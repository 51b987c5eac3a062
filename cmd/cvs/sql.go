package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/warehouse"
)

type sqlOptions struct {
	store  storeOptions
	format string
	schema bool
	wait   time.Duration
}

func (o *sqlOptions) addFlags(f *pflag.FlagSet) {
	o.store.addFlags(f)
	f.StringVar(&o.format, "format", "table", "output `format`: table, csv, json or jsonl")
	f.BoolVar(&o.schema, "schema", false, "print every view and column with its meaning instead")
	f.DurationVar(&o.wait, "wait", 30*time.Second, "how long to wait for a process that writes the warehouse")
}

func newSQL(e *env) *cobra.Command {
	var o sqlOptions
	cmd := &cobra.Command{
		Use:   "sql [flags] QUERY",
		Short: "Ask the warehouse in SQL, read-only",
		Long: `Runs one query against the warehouse, read-only, with file, network and
extension access switched off. QUERY "-" reads the text from standard input.
The views gates, tiers, cell_status, run_status, metrics, cells, runs hold every
verdict; --schema explains them column by column.
` + exitHelp,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runSQL(cmd.Context(), e, o, args) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func runSQL(ctx context.Context, e *env, o sqlOptions, args []string) error {
	query := strings.Join(args, "")
	if query == "-" {
		b, err := io.ReadAll(io.LimitReader(e.stdin, 1<<20))
		if err != nil {
			return badStore(err)
		}
		query = string(b)
	}
	if !o.schema && strings.TrimSpace(query) == "" {
		return badInput("a query is missing; try: cvs sql \"SELECT * FROM run_status\", or cvs sql --schema")
	}
	write, ok := rowWriters[o.format]
	if !ok {
		return badInput("--format %s: want table, csv, json or jsonl", o.format)
	}
	db, err := openStore(ctx, o.store.path(e), warehouse.Options{ReadOnly: true, Wait: o.wait})
	if err != nil {
		return err
	}
	defer db.Close()
	if o.schema {
		text, err := db.SchemaText(ctx)
		if err != nil {
			return badStore(err)
		}
		_, err = io.WriteString(e.stdout, text)
		return err
	}
	rows, err := db.Ask(ctx, query)
	if err != nil {
		return badInput("%v", err)
	}
	defer rows.Close()
	if err := write(e.stdout, rows); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}
