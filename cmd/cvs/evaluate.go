package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

type evaluateOptions struct {
	in      inputOptions
	store   storeOptions
	results string
	format  string
	slo     string
	// thresholds is another threshold file to judge the same run by.
	thresholds string
}

func (o *evaluateOptions) addFlags(f *pflag.FlagSet) {
	o.in.addFlags(f)
	o.store.addFlags(f)
	f.StringVar(&o.results, "results", "", "judge the results in `folder` (results/, accuracy/) against --config_file; nothing is stored")
	f.StringVar(&o.thresholds, "thresholds", "", "judge the run directory RUN also by this threshold `file` and report what differs; nothing is stored")
	f.StringVar(&o.format, "format", "text", "output `format`: text or json")
	sloFlag(f, &o.slo)
}

func newEvaluate(e *env) *cobra.Command {
	var o evaluateOptions
	cmd := &cobra.Command{
		Use:   "evaluate [flags] [RUN]",
		Short: "Judge a run, or a folder of results, with the same views; offline",
		Long: `Prints the gate table of RUN (a run id of the warehouse, "latest", or a run
directory), or of a folder of results against a config and its thresholds:

  cvs evaluate --config_file F --cluster_file C --results DIR
` + exitHelp,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := emptyProfile(cmd, o.in); err != nil {
				return err
			}
			return runEvaluate(cmd.Context(), e, o, args)
		},
	}
	o.addFlags(cmd.Flags())
	completeInputs(cmd)
	return cmd
}

func runEvaluate(ctx context.Context, e *env, o evaluateOptions, args []string) error {
	if o.format != "text" && o.format != "json" {
		return badInput("--format %s: want text or json", o.format)
	}
	level, err := optionalSLO(o.slo)
	if err != nil {
		return err
	}
	if o.thresholds != "" {
		return runOtherThresholds(ctx, e, o, args)
	}
	db, j, err := judgedRun(ctx, e, o.in, o.store, o.results, args)
	if err != nil {
		return err
	}
	defer db.Close()
	var slo *sloReport
	if level != nil {
		if slo, err = sloOf(ctx, db, j.status.RunID, level); err != nil {
			return err
		}
	}
	if j.waivers, err = db.GateWaivers(ctx, j.status.RunID, e.now()); err != nil {
		return badStore(err)
	}
	run, err := db.Run(ctx, j.status.RunID)
	if err != nil {
		return badStore(err)
	}
	if run.Warnings != "" {
		if err := json.Unmarshal([]byte(run.Warnings), &j.plan); err != nil {
			return badStore(fmt.Errorf("read the warnings of run %s: %w", j.status.RunID, err))
		}
	}
	if o.format == "json" {
		out := j.report()
		out.SLO = slo
		if err := printJSON(e, out); err != nil {
			return err
		}
		return j.verdictError()
	}
	j.print(e.stdout)
	if slo != nil {
		slo.print(e.stdout)
	}
	return j.verdictError()
}

// runOtherThresholds reports what another threshold file would change. It is a
// report: the exit status says only whether it could be made.
func runOtherThresholds(ctx context.Context, e *env, o evaluateOptions, args []string) error {
	if len(args) != 1 || !artifact.IsRunDir(args[0]) {
		return badInput("--thresholds needs a run directory to judge again")
	}
	report, err := compareThresholds(ctx, e, args[0], o.thresholds)
	if err != nil {
		return err
	}
	if o.format == "json" {
		return printJSON(e, report)
	}
	report.print(e.stdout)
	return nil
}

// judgedRun finds the run that a command line means (a config with a folder of
// results, a run directory, or a run of the warehouse) and judges it.
func judgedRun(ctx context.Context, e *env, in inputOptions, store storeOptions, results string, args []string) (*warehouse.DB, *judgement, error) {
	switch {
	case results != "" || in.config != "":
		if len(args) > 0 {
			return nil, nil, badInput("give either a RUN or --config_file with --results, not both")
		}
		if results == "" {
			return nil, nil, badInput("--results is required with --config_file")
		}
		p, err := in.load(e)
		if err != nil {
			return nil, nil, err
		}
		r, err := runFromResults(p, results)
		if err != nil {
			return nil, nil, err
		}
		return judgeInMemory(ctx, r)
	case len(args) == 1 && artifact.IsRunDir(args[0]):
		r, err := readRun(args[0])
		if err != nil {
			return nil, nil, badData("%v", err)
		}
		return judgeInMemory(ctx, r)
	}
	id := "latest"
	if len(args) == 1 {
		id = args[0]
	}
	db, err := openStore(ctx, store.path(e), warehouse.Options{ReadOnly: true, Wait: defaultWait, OneRun: true})
	if err != nil {
		return nil, nil, err
	}
	runID, err := findRun(ctx, db, id)
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	j, err := judge(ctx, db, runID)
	if err != nil {
		db.Close()
		return nil, nil, badStore(err)
	}
	return db, j, nil
}
