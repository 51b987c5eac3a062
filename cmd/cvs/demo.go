package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/lab"
)

type demoOptions struct {
	out     string
	strict  bool
	allPass bool
	quick   bool
	slack   time.Duration
	lab     labOptions
}

func (o *demoOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.out, "out", "cvs-demo", "`folder` for run directories, warehouse, decks and the published pages")
	f.BoolVar(&o.strict, "strict", false, "exit with the last run's verdict instead of 0")
	f.BoolVar(&o.allPass, "all-pass", false, "let no cell get slower on purpose")
	f.BoolVar(&o.quick, "quick", false, "only the last sweep, without a baseline and a run of vLLM-ATOM to compare with")
	f.DurationVar(&o.slack, "slack", lab.QuietMachine, "how late this machine may make a token on average; the bounds on latencies allow for it")
	f.Uint64Var(&o.lab.seed, "seed", 1, "seed of the simulated hardware's jitter")
	f.Float64Var(&o.lab.speed, "speed", 8, "how many times faster than the modelled hardware")
	o.lab.nodes = 1
	o.lab.startDelay = 500 * time.Millisecond // three servers are started
}

func newDemo(e *env) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Three whole sweeps on the built-in lab: run, load, judge, decks, published pages",
		Long: `Starts the lab (a simulated GPU node behind a real SSH server) and measures three
sweeps on it: a baseline, the larger cells again under vLLM-ATOM, and the
baseline's six cells once more on a node that got slower, so that one cell
misses its floor. Loads and judges them, writes their decks, publishes them with
an index page and stops everything it started. The gate table at the end is the
last sweep's. The exit status is 0 when the demo worked, whatever its verdict;
--strict returns the verdict's status.
` + exitHelp,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), e, o) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// A demoSweep is one of the demo's runs: what is measured on which node.
type demoSweep struct {
	title  string
	demo   lab.Demo
	faults lab.Faults
}

func (o demoOptions) sweeps() []demoSweep {
	candidate := demoSweep{"candidate: the same six cells on a node that got slower", lab.Demo{AllPass: o.allPass, Details: true, Slack: o.slack}, lab.DemoRegression}
	if o.allPass {
		candidate.title, candidate.faults = "candidate: the same six cells again", lab.Faults{}
	}
	if o.quick {
		return []demoSweep{candidate}
	}
	return []demoSweep{
		{"baseline: native ATOM", lab.Demo{AllPass: o.allPass, Details: true, Slack: o.slack}, lab.Faults{}},
		// AllPass, because what is judged is the candidate; this one is to compare with.
		{"framework parity: the larger cells under vLLM-ATOM", lab.Demo{Driver: "vllm_atom", MinConcurrency: 16, AllPass: true, Details: true, Slack: o.slack}, lab.Faults{}},
		candidate,
	}
}

func runDemo(ctx context.Context, e *env, o demoOptions) (err error) {
	if o.slack <= 0 {
		return badInput("--slack %s: want more than 0", o.slack)
	}
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
	// One port for all sweeps, so that nothing but the node differs between them.
	port, err := lab.FreePort(l.Address(0))
	if err != nil {
		return &statusError{4, err.Error()}
	}
	store := storeOptions{workspace: o.out, warehouse: filepath.Join(o.out, "cvs.duckdb")}
	var res *outcome
	for i, s := range o.sweeps() {
		if res != nil {
			res.db.Close()
			fmt.Fprintln(e.stderr)
		}
		s.demo.Port = port
		fmt.Fprintf(e.stderr, "sweep %d of %d, %s\n", i+1, len(o.sweeps()), s.title)
		if res, err = o.measure(ctx, e, l, store, s); res == nil {
			return err
		}
		if err != nil {
			break // the demo itself went wrong; what was measured is shown
		}
	}
	defer res.db.Close()
	err = errors.Join(err, stop())
	fmt.Fprintln(e.stdout)
	res.j.print(e.stdout)
	fmt.Fprintf(e.stdout, "\nSimulated: measured on the built-in lab, no statement about any hardware.\n")
	fmt.Fprintf(e.stdout, "run directory: %s\nwarehouse:     %s\ndeck:          %s\n", res.dir, store.warehouse, res.deck)
	if err != nil {
		return err
	}
	shelf := filepath.Join(o.out, "published")
	quiet := *e
	quiet.stdout = io.Discard // of the pages only the index is worth a line
	if err := runPublish(ctx, &quiet, publishOptions{store: store, to: shelf, all: true, wait: time.Minute, assets: assetsInPages}, nil); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "index page:    %s\n", filepath.Join(shelf, "index.html"))
	if o.strict {
		return res.j.verdictError()
	}
	return nil
}

// measure carries out one sweep as cvs run does.
func (o demoOptions) measure(ctx context.Context, e *env, l *lab.Lab, store storeOptions, s demoSweep) (*outcome, error) {
	if err := l.SetFaults(0, s.faults); err != nil {
		return nil, badStore(err)
	}
	config, err := l.DemoConfig(s.demo)
	if err != nil {
		return nil, badStore(err)
	}
	ro := runOptions{
		in:    inputOptions{config: config, cluster: l.ClusterFile()},
		store: store,
		ssh:   sshOptions{knownHosts: []string{l.KnownHosts()}},
	}
	ro.col.Repeat = 1
	p, err := ro.load(e)
	if err != nil {
		return nil, err
	}
	return sweep(ctx, e, ro, p)
}
