package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/lab"
)

type labOptions struct {
	dir   string
	seed  uint64
	speed float64
	nodes int
}

func (o *labOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.dir, "dir", "", "`folder` for the lab's files (default: a temporary one, removed at the end)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the simulated hardware's jitter")
	f.Float64Var(&o.speed, "speed", 4, "how many times faster than the modelled hardware")
	f.IntVar(&o.nodes, "nodes", 1, "number of simulated nodes")
}

func newLab(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "A simulated GPU node behind a real SSH server, for trying out and training",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var o labOptions
	up := &cobra.Command{
		Use:   "up",
		Short: "Start the lab and keep it running until interrupted",
		Long: `Starts simulated GPU nodes on loopback, writes a cluster file, a key, known_hosts
and a sample config, and prints the line to type in another terminal. What the
lab produces is marked simulated and never compared with real runs.
` + exitHelp,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runLabUp(cmd.Context(), e, o) },
	}
	o.addFlags(up.Flags())
	cmd.AddCommand(up)
	return cmd
}

func runLabUp(ctx context.Context, e *env, o labOptions) (err error) {
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "cvs-lab-"); err != nil {
			return badStore(err)
		}
		defer os.RemoveAll(dir)
	}
	l, err := startLab(ctx, dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLab(l)) }()
	config, err := l.DemoConfig(0, false)
	if err != nil {
		return badStore(err)
	}
	fmt.Fprintf(e.stdout, "The lab is up (%d simulated node(s)). In another terminal:\n\n  cvs run atom --cluster_file %s --config_file %s --known-hosts %s\n\nCtrl-C stops it.\n",
		o.nodes, l.ClusterFile(), config, l.KnownHosts())
	<-ctx.Done()
	fmt.Fprintln(e.stderr, "stopping the lab")
	return nil
}

func startLab(ctx context.Context, dir string, o labOptions) (*lab.Lab, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, badStore(err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, badStore(err)
	}
	l, err := lab.Start(context.WithoutCancel(ctx), lab.Options{Dir: abs, Executable: exe, Seed: o.seed, Speed: o.speed, Nodes: o.nodes})
	if err != nil {
		return nil, &statusError{4, "start the lab: " + err.Error()}
	}
	return l, nil
}

func closeLab(l *lab.Lab) error {
	if err := l.Close(); err != nil {
		return &statusError{4, "stop the lab: " + err.Error()}
	}
	return nil
}
