package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/artifact"
	"cvs/render"
	"cvs/warehouse"
)

// deckName is the name users know for a run's deck.
const deckName = "atom_run_deck.html"

type deckOptions struct {
	in      inputOptions
	store   storeOptions
	results string
	out     string
	json    string
}

func (o *deckOptions) addFlags(f *pflag.FlagSet) {
	o.in.addFlags(f)
	o.store.addFlags(f)
	f.StringVar(&o.results, "results", "", "make the deck of the results in `folder` against --config_file; nothing is stored")
	f.StringVarP(&o.out, "out", "o", deckName, "write the deck to `file`")
	f.StringVar(&o.json, "json", "", "also write the machine-readable sidecar to `file`")
}

func newDeck(e *env) *cobra.Command {
	var o deckOptions
	cmd := &cobra.Command{
		Use:   "deck [flags] [RUN|latest]",
		Short: "Write a run's deck: one self-contained HTML file",
		Long: `Writes the deck of RUN (a run id of the warehouse, "latest", or a run
directory), or of a folder of results with its config. The file needs no
network and no other file. An existing deck is replaced only by a whole new one.
The exit status is the run's verdict.
` + exitHelp,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := emptyProfile(cmd, o.in); err != nil {
				return err
			}
			return runDeck(cmd.Context(), e, o, args)
		},
	}
	o.addFlags(cmd.Flags())
	completeInputs(cmd)
	return cmd
}

func runDeck(ctx context.Context, e *env, o deckOptions, args []string) error {
	for _, out := range nonEmpty(o.out, o.json) {
		if err := refuseOverInput(out, e, o, args); err != nil {
			return err
		}
	}
	db, j, err := judgedRun(ctx, e, o.in, o.store, o.results, args)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := writeDeck(ctx, e, db, j.status.RunID, o.out, o.json); err != nil {
		return err
	}
	fmt.Fprintln(e.stdout, o.out)
	return j.verdictError()
}

// writeDeck renders one run into its files.
func writeDeck(ctx context.Context, e *env, db *warehouse.DB, runID, out, sidecar string) error {
	data, err := render.Query(ctx, db, runID)
	if err != nil {
		return badStore(fmt.Errorf("read the views for the deck: %w", err))
	}
	now, err := renderTime(e)
	if err != nil {
		return err
	}
	opts := render.Options{Now: now, ToolVersion: toolVersion()}
	deck := render.Build(data, opts)
	if out != "" {
		if err := render.WriteFile(out, deck); err != nil {
			return badStore(fmt.Errorf("write deck %s: %w", out, err))
		}
	}
	if sidecar != "" {
		if err := render.WriteJSONFile(sidecar, data, opts); err != nil {
			return badStore(fmt.Errorf("write sidecar %s: %w", sidecar, err))
		}
	}
	return nil
}

// renderTime is the clock, or SOURCE_DATE_EPOCH for equal bytes from equal input.
func renderTime(e *env) (time.Time, error) {
	s := e.getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return e.now().UTC(), nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, badInput("SOURCE_DATE_EPOCH: want seconds since 1970, found %q", s)
	}
	return time.Unix(n, 0).UTC(), nil
}

// refuseOverInput keeps a deck from replacing what it is made from, also under
// another spelling or through a link.
func refuseOverInput(out string, e *env, o deckOptions, args []string) error {
	inputs := nonEmpty(o.in.config, o.in.cluster, e.getenv("CVS_INFERENCE_PREV_REPORT_JSON"), e.getenv("CVS_ATOM_PARITY_REF_JSON"))
	if o.results == "" && o.in.config == "" {
		inputs = append(inputs, o.store.path(e))
	}
	if o.in.config != "" {
		if p, err := o.in.load(e); err == nil && p.Threshold.Path != "" {
			inputs = append(inputs, p.Threshold.Path)
		}
	}
	st, err := os.Stat(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return badStore(err)
	}
	if st.IsDir() {
		return badStore(fmt.Errorf("%s is a folder; -o wants a file name", out))
	}
	for _, in := range inputs {
		if other, err := os.Stat(in); err == nil && os.SameFile(st, other) {
			return badInput("the output %s is the input %s; nothing was written", out, in)
		}
	}
	dirs := nonEmpty(o.results)
	if len(args) == 1 && artifact.IsRunDir(args[0]) {
		dirs = append(dirs, args[0])
	}
	for _, dir := range dirs {
		root, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		for _, sub := range []string{"results", "accuracy", "cells", "inputs", "checks"} {
			err := filepath.WalkDir(filepath.Join(root, sub), func(path string, d os.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return nil
				}
				if other, err := os.Stat(path); err == nil && os.SameFile(st, other) {
					return badInput("the output %s is the artefact %s; nothing was written", out, path)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
