package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"cvs/warehouse"
)

func newBaseline(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "Pin runs that later runs are compared with, and list the pins",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBaselinePin(e), newBaselineList(e))
	return cmd
}

func newBaselinePin(e *env) *cobra.Command {
	var store storeOptions
	var name, note string
	cmd := &cobra.Command{
		Use:   "pin [flags] RUN",
		Short: "Make a run the golden baseline of its configuration",
		Long: `Pins RUN: view golden and cvs compare show every later run of equal identity
against it. Of several pins the newest counts. A pin is kept as a file in pins/
beside the run directory, or in <workspace>/cvs_runs/pins for a run without one,
from where cvs load brings it back into a warehouse that is built again.
` + exitHelp,
		Example: `  cvs baseline pin latest --name v1.0 --note "approved"
  cvs baseline list`,
		Args: needAll("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPin(cmd.Context(), e, store, args[0], name, note)
		},
	}
	store.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&name, "name", "golden", "`name` of the pin")
	cmd.Flags().StringVar(&note, "note", "", "why it was pinned")
	return cmd
}

func runPin(ctx context.Context, e *env, store storeOptions, want, name, note string) error {
	if strings.TrimSpace(name) == "" {
		return badInput("--name is empty")
	}
	db, err := openStore(ctx, store.path(e), warehouse.Options{Wait: defaultWait})
	if err != nil {
		return err
	}
	defer db.Close()
	id, err := findRun(ctx, db, want)
	if err != nil {
		return err
	}
	run, err := db.Run(ctx, id)
	if err != nil {
		return badStore(err)
	}
	// the warehouse keeps microseconds, and the file must say the same
	row := warehouse.BaselineRow{Name: name, RunID: id, PinnedBy: e.osUser(), Note: note, PinnedAt: e.now().UTC().Truncate(time.Microsecond)}
	folders := nonEmpty(pinsBeside(run.Dir, id), workspacePins(e, store))
	path, err := keepPin(folders, row)
	if err != nil {
		return badStore(fmt.Errorf("keep the pin: %w", err))
	}
	if err := db.Pin(ctx, row); err != nil {
		return badStore(errors.Join(err, os.Remove(path)))
	}
	fmt.Fprintf(e.stdout, "pinned %s as %s: %s\n", visible(id), visible(name), visible(path))
	return nil
}

func newBaselineList(e *env) *cobra.Command {
	var store storeOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the pinned runs",
		Args:  exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			db, err := readStore(ctx, e, store)
			if err != nil {
				return err
			}
			defer db.Close()
			rows, err := db.Baselines(ctx)
			if err != nil {
				return badStore(err)
			}
			tw := newTable()
			tw.AppendHeader(table.Row{"name", "run", "pinned", "by", "note", "for"})
			for _, r := range rows {
				tw.AppendRow(table.Row{visible(r.Name), visible(r.RunID), r.PinnedAt.UTC().Format(time.RFC3339), visible(r.PinnedBy), visible(r.Note), visible(r.Identity)})
			}
			fmt.Fprintf(e.stdout, "%s\n(%s)\n", tw.Render(), count(len(rows), "pin"))
			return nil
		},
	}
	store.addFlags(cmd.Flags())
	return cmd
}
