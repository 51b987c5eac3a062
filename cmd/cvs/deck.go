package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/render"
)

// deckName is the name users know for a run's deck.
const deckName = "atom_run_deck.html"

type deckOptions struct {
	in      inputOptions
	store   storeOptions
	results string
	out     string
	json    string
	slo     string
	reports reportOptions
}

func (o *deckOptions) addFlags(f *pflag.FlagSet) {
	o.in.addFlags(f)
	o.store.addFlags(f)
	f.StringVar(&o.results, "results", "", "make the deck of the results in `folder` against --config_file; nothing is stored")
	f.StringVarP(&o.out, "out", "o", deckName, "write the deck to `file`")
	o.reports.addFlags(f)
	sloFlag(f, &o.slo)
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
	if o.out == "" {
		return badInput("-o is empty; it names the file to write")
	}
	o.out = filepath.Clean(o.out)
	if o.json != "" {
		o.json = filepath.Clean(o.json)
	}
	level, err := optionalSLO(o.slo)
	if err != nil {
		return err
	}
	outputs := append([]output{{"-o", o.out, "<"}, {"--json", o.json, `"suite_id"`}}, o.reports.outputs()...)
	if err := refuseOutputs(outputs, e, o, args); err != nil {
		return err
	}
	db, j, err := judgedRun(ctx, e, o.in, o.store, o.results, args)
	if err != nil {
		return err
	}
	defer db.Close()
	source := comparedWith(e, db, o.out)
	source.level, source.judged = level, j
	if err := writeDeck(ctx, e, source, j.status.RunID, o.out, o.json); err != nil {
		return err
	}
	if err := o.reports.write(ctx, e, source, j.status.RunID); err != nil {
		return err
	}
	fmt.Fprintln(e.stdout, o.out)
	return j.verdictError()
}

// writeDeck renders one run into its files.
func writeDeck(ctx context.Context, e *env, db render.Source, runID, out, sidecar string) error {
	data, err := render.Query(ctx, db, runID)
	if err != nil {
		return badStore(fmt.Errorf("read the views for the deck: %w", err))
	}
	now, err := renderTime(e)
	if err != nil {
		return err
	}
	if err := review(ctx, e, db, data, now); err != nil {
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

// sameFile reports whether two names are one file, also one that does not exist.
func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	sa, errA := os.Stat(a)
	sb, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(sa, sb)
	}
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB
}

// An output is a file that a flag has written. mark is what an older one begins
// with or holds; "" where anything may be replaced that is no input.
type output struct{ flag, path, mark string }

// refuseOutputs refuses outputs that would replace an input or one another.
func refuseOutputs(outputs []output, e *env, o deckOptions, args []string) error {
	var errs []error
	for i, out := range outputs {
		if out.path == "" {
			continue
		}
		if other := slices.IndexFunc(outputs[:i], func(before output) bool { return before.path != "" && sameFile(before.path, out.path) }); other >= 0 {
			errs = append(errs, badInput("%s and %s name the same file %s", outputs[other].flag, out.flag, out.path))
			continue
		}
		errs = append(errs, refuseOverInput(out.path, out.mark, e, o, args))
	}
	return errors.Join(errs...)
}

// refuseOverInput keeps an output from replacing what it is made from, under
// whatever spelling: inputs that are known by name are named, and of all others
// only a file is replaced that looks like an older output, which begins with or
// holds mark.
func refuseOverInput(out, mark string, e *env, o deckOptions, args []string) error {
	st, err := os.Stat(out)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return badStore(err)
	case st.IsDir():
		return badStore(fmt.Errorf("%s is a folder; a file name is needed", out))
	case !st.Mode().IsRegular():
		return badInput("%s is no regular file; nothing was written", out)
	}
	inputs := nonEmpty(o.in.config, o.in.cluster, e.getenv("CVS_INFERENCE_PREV_REPORT_JSON"), e.getenv("CVS_ATOM_PARITY_REF_JSON"), o.store.path(e))
	if o.in.config != "" {
		if p, err := o.in.load(e); err == nil && p.Threshold.Path != "" {
			inputs = append(inputs, p.Threshold.Path)
		}
	}
	for _, dir := range nonEmpty(append([]string{o.results}, args...)...) {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			continue
		}
		for _, name := range []string{"run.json", "expected.json", "thresholds.json", "config.json", "cluster.json", "stages.jsonl", "MANIFEST.sha256"} {
			inputs = append(inputs, filepath.Join(dir, name))
		}
		for _, sub := range []string{"results", "accuracy", "cells", "inputs", "checks", "signoff"} {
			filepath.WalkDir(filepath.Join(dir, sub), func(path string, d os.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					inputs = append(inputs, path)
				}
				return nil
			})
		}
	}
	for _, in := range inputs {
		if other, err := os.Stat(in); err == nil && os.SameFile(st, other) {
			return badInput("the output %s is the input %s; nothing was written", out, in)
		}
	}
	if mark == "" {
		return nil
	}
	f, err := os.Open(out)
	if err != nil {
		return badStore(err)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return badStore(err)
	}
	head = bytes.TrimSpace(head)
	if len(head) > 0 && !(mark == "<" && bytes.HasPrefix(head, []byte(mark)) || mark != "<" && bytes.Contains(head, []byte(mark))) {
		return badInput("%s exists and is no older output of cvs; nothing was written", out)
	}
	return nil
}
