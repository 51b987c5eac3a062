package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type demoOptions struct {
	out     string
	strict  bool
	allPass bool
	lab     labOptions
}

func (o *demoOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.out, "out", "cvs-demo", "`folder` for run directory, warehouse and deck")
	f.BoolVar(&o.strict, "strict", false, "exit with the verdict's status instead of 0")
	f.BoolVar(&o.allPass, "all-pass", false, "let no cell fail on purpose")
	f.Uint64Var(&o.lab.seed, "seed", 1, "seed of the simulated hardware's jitter")
	f.Float64Var(&o.lab.speed, "speed", 4, "how many times faster than the modelled hardware")
	o.lab.nodes = 1
}

func newDemo(e *env) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "A whole sweep on the built-in lab: run, load, judge, deck",
		Long: `Starts the lab (a simulated GPU node behind a real SSH server), runs a sweep of
six cells on it, loads the results, judges them, writes the deck and stops
everything it started. One cell fails on purpose. The exit status is 0 when the
demo worked, whatever its verdict; --strict returns the verdict's status.
` + exitHelp,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), e, o) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func runDemo(ctx context.Context, e *env, o demoOptions) (err error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return badStore(err)
	}
	tmp, err := os.MkdirTemp("", "cvs-demo-lab-")
	if err != nil {
		return badStore(err)
	}
	defer os.RemoveAll(tmp)
	l, err := startLab(ctx, tmp, o.lab)
	if err != nil {
		return err
	}
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		return closeLab(l)
	}
	defer func() { err = errors.Join(err, stop()) }()
	config, err := l.DemoConfig(0, o.allPass)
	if err != nil {
		return badStore(err)
	}
	ro := runOptions{
		in:    inputOptions{config: config, cluster: l.ClusterFile()},
		store: storeOptions{workspace: o.out, warehouse: filepath.Join(o.out, "cvs.duckdb")},
		ssh:   sshOptions{knownHosts: []string{l.KnownHosts()}},
	}
	ro.col.Repeat = 1
	p, err := ro.load(e)
	if err != nil {
		return err
	}
	res, runErr := sweep(ctx, e, ro, p)
	stopErr := stop()
	if res == nil {
		return errors.Join(runErr, stopErr)
	}
	defer res.db.Close()
	fmt.Fprintln(e.stdout)
	res.j.print(e.stdout)
	fmt.Fprintf(e.stdout, "\nSimulated: measured on the built-in lab, no statement about any hardware.\n")
	fmt.Fprintf(e.stdout, "run directory: %s\nwarehouse:     %s\ndeck:          %s\n", res.dir, ro.store.warehouse, res.deck)
	if runErr != nil || stopErr != nil {
		return errors.Join(runErr, stopErr) // the demo itself went wrong
	}
	if o.strict {
		return res.j.verdictError()
	}
	return nil
}
