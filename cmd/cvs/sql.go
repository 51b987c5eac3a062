package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/warehouse"
)

type sqlOptions struct {
	store  storeOptions
	format string
	schema bool
	list   bool
	params []string
	limit  int
	offset int
	wait   time.Duration
}

func (o *sqlOptions) addFlags(f *pflag.FlagSet) {
	o.store.addFlags(f)
	f.StringVar(&o.format, "format", "table", "output `format`: table, csv, json, jsonl, markdown or parquet")
	f.BoolVar(&o.schema, "schema", false, "print every view, column and macro with its meaning instead, or those of one view")
	f.BoolVar(&o.list, "list", false, "list the saved queries instead")
	f.StringArrayVar(&o.params, "param", nil, "value of $name in the query, as `name=value`")
	f.IntVar(&o.limit, "limit", 0, "print at most `n` rows; 0 prints all")
	f.IntVar(&o.offset, "offset", 0, "leave out the first `n` rows")
	f.DurationVar(&o.wait, "wait", 30*time.Second, "how long to wait for a process that writes the warehouse")
}

func newSQL(e *env) *cobra.Command {
	var o sqlOptions
	cmd := &cobra.Command{
		Use:   "sql [flags] [QUERY | @NAME | --schema [VIEW]]",
		Short: "Ask the warehouse in SQL, read-only",
		Long: `Runs one query against the warehouse, read-only, with file, network and
extension access switched off. QUERY "-" reads the text from standard input, and
@NAME runs a saved query (--list shows them). Without a query on a terminal it
prompts, with history and completion. $name in a query is set by --param name=value;
a run of a saved query may be "latest" or the beginning of its id.
The views gates, tiers, cell_status, run_status, metrics, cells, runs, prev_run,
history, regressions and change_points hold every verdict; --schema explains them
column by column.
` + exitHelp,
		Example: `  cvs sql "SELECT cell_id, metric, state, margin_pct FROM gates WHERE state = 'fail'"
  cvs sql --schema prev_run
  cvs sql @failed_gates --param run=RUN --format markdown
  cvs sql "FROM history WHERE metric = \$m" --param m=output_throughput --limit 20 --offset 40
  cvs sql "FROM gates" --format parquet > gates.parquet`,
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
	if o.list {
		return listQueries(e)
	}
	prompt := strings.TrimSpace(query) == "" && !o.schema
	if prompt && !onTerminal(e) {
		return badInput("a query is missing; try: cvs sql \"SELECT * FROM run_status\", cvs sql --schema or cvs sql --list")
	}
	if o.limit < 0 || o.offset < 0 {
		return badInput("--limit and --offset want 0 or more")
	}
	write, ok := rowWriters[o.format]
	if !ok {
		return badInput("--format %s: want table, csv, json, jsonl, markdown or parquet", o.format)
	}
	db, err := openStore(ctx, o.store.path(e), warehouse.Options{ReadOnly: true, Wait: o.wait})
	if err != nil {
		return err
	}
	defer db.Close()
	ask := func(text string) error { return askSQL(ctx, e, o, db, text, write) }
	switch {
	case o.schema:
		return printSchema(ctx, e, db, strings.TrimSpace(query))
	case prompt:
		return sqlPrompt(ctx, e, db, ask)
	}
	return ask(query)
}

// explains finds questions that are answered with a plan, which has no pages.
var explains = regexp.MustCompile(`(?i)^\s*EXPLAIN\b`)

// printSchema explains all relations and macros, or the one of that name.
func printSchema(ctx context.Context, e *env, db *warehouse.DB, name string) error {
	text, err := db.SchemaText(ctx, name)
	if err != nil {
		return badStore(err)
	}
	if text == "" {
		columns, err := db.Schema(ctx)
		if err != nil {
			return badStore(err)
		}
		macros, err := db.Macros(ctx)
		if err != nil {
			return badStore(err)
		}
		var names []string
		for _, c := range columns {
			names = append(names, c.Relation)
		}
		for _, m := range macros {
			names = append(names, m.Name)
		}
		return badInput("no view, table or macro %s%s", name, thereAre("names", name, slices.Compact(names)))
	}
	_, err = io.WriteString(e.stdout, text)
	return err
}

var sqlParam = regexp.MustCompile(`\$([A-Za-z_]\w*)`)

// runParams are the parameters of saved queries that name a run. An unknown one
// must not look like a run of which there is nothing to tell.
var runParams = []string{"run", "before", "after"}

// askSQL runs one query, or the saved one that @name stands for.
func askSQL(ctx context.Context, e *env, o sqlOptions, db *warehouse.DB, text string, write func(io.Writer, *warehouse.Rows) error) error {
	name, saved := strings.CutPrefix(strings.TrimSpace(text), "@")
	if saved {
		q, err := savedQuery(name)
		if err != nil {
			return err
		}
		text = q.Text
	}
	given := map[string]string{}
	for _, p := range o.params {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return badInput("--param %s: want name=value", p)
		}
		given[name] = value
	}
	var params []any
	var missing []string
	used := map[string]bool{}
	for _, m := range sqlParam.FindAllStringSubmatch(text, -1) {
		name := m[1]
		value, ok := given[name]
		switch {
		case used[name]:
			continue
		case !ok && !saved && len(given) == 0: // a $ may stand in a text
			continue
		}
		used[name] = true
		if !ok {
			missing = append(missing, fmt.Sprintf("--param %s=…", name))
			continue
		}
		if saved && slices.Contains(runParams, name) {
			id, err := findRun(ctx, db, value)
			if err != nil {
				return fmt.Errorf("--param %s=%s: %w", name, value, err)
			}
			value = id
		}
		params = append(params, sql.Named(name, value))
	}
	if len(missing) > 0 {
		return badInput("the query wants %s", strings.Join(missing, " and "))
	}
	for name := range given {
		if !used[name] {
			return badInput("--param %s: the query has no $%s", name, name)
		}
	}
	if plan := explains.MatchString(text); !plan && (o.limit > 0 || o.offset > 0) {
		text = fmt.Sprintf("SELECT * FROM (%s\n) OFFSET %d", strings.TrimSuffix(strings.TrimSpace(text), ";"), o.offset)
		if o.limit > 0 {
			text += fmt.Sprintf(" LIMIT %d", o.limit)
		}
	}
	rows, err := db.Ask(ctx, text, params...)
	if err != nil && len(params) == 0 && strings.Contains(err.Error(), "incorrect argument count") { // the driver's words
		if m := sqlParam.FindStringSubmatch(text); m != nil {
			return badInput("the query wants --param %s=…", m[1])
		}
	}
	if err != nil {
		return badInput("%v", err)
	}
	defer rows.Close()
	if err := write(e.stdout, rows); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

func savedQuery(name string) (warehouse.SavedQuery, error) {
	var names []string
	for _, q := range warehouse.SavedQueries() {
		if q.Name == strings.TrimSpace(name) {
			return q, nil
		}
		names = append(names, q.Name)
	}
	return warehouse.SavedQuery{}, badInput("no saved query @%s%s (cvs sql --list explains them)", name, thereAre("queries", name, names))
}

func listQueries(e *env) error {
	tw := newTable()
	tw.AppendHeader(table.Row{"query", "answers"})
	for _, q := range warehouse.SavedQueries() {
		tw.AppendRow(table.Row{"@" + q.Name, q.Description})
	}
	_, err := fmt.Fprintln(e.stdout, tw.Render())
	return err
}

// writeMarkdown prints an answer as a Markdown table.
func writeMarkdown(w io.Writer, rows *warehouse.Rows) error {
	var head, rule []string
	for _, c := range rows.Columns {
		head, rule = append(head, mdText(c.Name)), append(rule, "---")
	}
	if _, err := fmt.Fprintf(w, "| %s |\n| %s |\n", strings.Join(head, " | "), strings.Join(rule, " | ")); err != nil {
		return err
	}
	for rows.Next() {
		values, err := rows.Plain()
		if err != nil {
			return err
		}
		var cells []string
		for _, v := range values {
			if v == nil {
				cells = append(cells, "")
				continue
			}
			cells = append(cells, mdText(cellText(v)))
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")); err != nil {
			return err
		}
	}
	return rows.Err()
}
