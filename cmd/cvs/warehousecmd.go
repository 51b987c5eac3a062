package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"cvs/warehouse"
)

func newWarehouse(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "warehouse",
		Short: "Publish the warehouse: a read-only snapshot, or Parquet",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWarehouseSnapshot(e), newWarehouseExport(e))
	return cmd
}

func newWarehouseSnapshot(e *env) *cobra.Command {
	var store storeOptions
	var to string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "snapshot --to DIR",
		Short: "Copy the warehouse where others can read it without locking anybody",
		Long: `Writes DIR/cvs-<hash>.duckdb and points DIR/latest.duckdb at it in one step.
Readers open it read-only, with cvs (--warehouse DIR/latest.duckdb) or with any
DuckDB client of the same version (duckdb -readonly). A reader that has an older
snapshot open keeps it.
` + exitHelp,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return badInput("--to is required: the folder to publish in")
			}
			return runSnapshot(cmd.Context(), e, store.path(e), to, wait)
		},
	}
	store.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&to, "to", "", "`folder` to publish in")
	cmd.Flags().DurationVar(&wait, "wait", defaultWait, "how long to wait for another process that holds the warehouse")
	return cmd
}

func runSnapshot(ctx context.Context, e *env, path, to string, wait time.Duration) error {
	if _, err := os.Stat(path); err != nil {
		return badStore(err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return badStore(err)
	}
	name, err := warehouse.Snapshot(ctx, path, to, wait)
	var locked *warehouse.LockedError
	if errors.As(err, &locked) || errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return badStore(err)
	}
	fmt.Fprintln(e.stdout, filepath.Join(to, name))
	return nil
}

func newWarehouseExport(e *env) *cobra.Command {
	var store storeOptions
	var dir string
	cmd := &cobra.Command{
		Use:   "export --parquet DIR",
		Short: "Write every table as Hive-partitioned Parquet, with the view definitions",
		Long: `Writes DIR/<table>/suite=<suite>/month=<YYYY-MM>/part-0.parquet for everything
that belongs to a run, <table>/part-0.parquet for the rest, for Spark, Trino,
ClickHouse or DuckDB. DIR/views.sql makes all tables, views and macros over them in
any DuckDB 1.5: cd DIR && duckdb -init views.sql. Files of an older export that have
no rows any more are removed.
` + exitHelp,
		Example: `  cvs warehouse export --parquet DIR && (cd DIR && duckdb -init views.sql)`,
		Args:    exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return badInput("--parquet is required: the folder to write to")
			}
			ctx := cmd.Context()
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return badStore(err)
			}
			db, err := readStore(ctx, e, store)
			if err != nil {
				return err
			}
			defer db.Close()
			n, err := db.ExportParquet(ctx, dir)
			if err != nil {
				return badStore(err)
			}
			fmt.Fprintf(e.stdout, "%d files in %s\n", n, dir)
			return nil
		},
	}
	store.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&dir, "parquet", "", "`folder` to write to")
	return cmd
}
