package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/render"
)

// reportOptions are the pages for machines and jobs that can be written beside
// a deck; several commands share them.
type reportOptions struct {
	markdown, junit, summary string
	deckLink                 string
}

func (o *reportOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.markdown, "markdown", "", "also write the first screen as Markdown to `file` (- for standard output)")
	f.StringVar(&o.junit, "junit", "", "also write every gate as JUnit XML to `file`")
	f.StringVar(&o.summary, "summary-html", "", "also write the first screen as a page without script to `file`")
	f.StringVar(&o.deckLink, "deck-link", "", "`address` of the deck that Markdown and summary lead to")
}

func (o *reportOptions) any() bool { return o.markdown != "" || o.junit != "" || o.summary != "" }

// outputs are the files that were asked for.
func (o *reportOptions) outputs() []output {
	markdown := o.markdown
	if markdown == "-" {
		markdown = ""
	}
	return []output{{"--markdown", markdown, ""}, {"--junit", o.junit, "<"}, {"--summary-html", o.summary, "<"}}
}

// write writes the pages that were asked for, and the Markdown also where
// GitHub shows a job's summary.
func (o *reportOptions) write(ctx context.Context, e *env, db render.Source, runID string) error {
	step := e.getenv("GITHUB_STEP_SUMMARY")
	if !o.any() && step == "" {
		return nil
	}
	data, err := render.Query(ctx, db, runID)
	if err != nil {
		return badStore(fmt.Errorf("read the views for the summary: %w", err))
	}
	now, err := renderTime(e)
	if err != nil {
		return err
	}
	opts := render.Options{Now: now, ToolVersion: toolVersion()}
	markdown := func(w io.Writer) error { return render.WriteMarkdown(w, data, opts, o.deckLink) }
	var errs []error
	file := func(path string, write func(io.Writer) error) {
		if path == "" {
			return
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = render.WriteTo(path, write)
		}
		if err != nil {
			errs = append(errs, badStore(err))
		}
	}
	if o.markdown == "-" {
		if err := markdown(e.stdout); err != nil {
			errs = append(errs, badStore(err))
		}
	} else {
		file(o.markdown, markdown)
	}
	file(o.junit, func(w io.Writer) error { return render.WriteJUnit(w, data, opts) })
	file(o.summary, func(w io.Writer) error { return render.WriteSummary(w, data, opts, o.deckLink) })
	if step != "" {
		// Other steps of the job write there too.
		errs = append(errs, appendTo(step, markdown))
	}
	return errors.Join(errs...)
}

func appendTo(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return badStore(err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return badStore(fmt.Errorf("write %s: %w", path, err))
	}
	return nil
}

type summaryOptions struct {
	in      inputOptions
	store   storeOptions
	reports reportOptions
	results string
}

func newSummary(e *env) *cobra.Command {
	var o summaryOptions
	cmd := &cobra.Command{
		Use:   "summary [flags] [RUN|latest]",
		Short: "A run's verdict as Markdown, JUnit XML or one page for CI",
		Long: `Prints the first screen of RUN's deck as Markdown, or writes it where --markdown,
--junit and --summary-html say. With GITHUB_STEP_SUMMARY set the Markdown is also
appended there. The exit status is the run's verdict.
` + exitHelp,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := emptyProfile(cmd, o.in); err != nil {
				return err
			}
			return runSummary(cmd.Context(), e, o, args)
		},
	}
	o.in.addFlags(cmd.Flags())
	o.store.addFlags(cmd.Flags())
	o.reports.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.results, "results", "", "sum up the results in `folder` against --config_file; nothing is stored")
	return cmd
}

func runSummary(ctx context.Context, e *env, o summaryOptions, args []string) error {
	if err := refuseOutputs(o.reports.outputs(), e, deckOptions{in: o.in, store: o.store, results: o.results}, args); err != nil {
		return err
	}
	db, j, err := judgedRun(ctx, e, o.in, o.store, o.results, args)
	if err != nil {
		return err
	}
	defer db.Close()
	if !o.reports.any() {
		o.reports.markdown = "-"
	}
	if err := o.reports.write(ctx, e, db, j.status.RunID); err != nil {
		return err
	}
	return j.verdictError()
}
