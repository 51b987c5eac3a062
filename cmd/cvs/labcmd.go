package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/lab"
)

type labOptions struct {
	dir   string
	seed  uint64
	speed float64
	nodes int
	// startDelay is from a server's start to its open port; 0 is the lab's own.
	startDelay time.Duration
	// isolate is how nodes are kept apart from the machine. The demo leaves it
	// off: its own config needs nothing of the machine.
	isolate lab.Isolation
	// faults are what goes wrong on every node, as typed.
	faults []string
}

func (o *labOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.dir, "dir", "", "`folder` for the lab's files (default: a temporary one, removed at the end)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the simulated hardware's jitter")
	f.Float64Var(&o.speed, "speed", 20, "how many times faster than the modelled hardware")
	f.IntVar(&o.nodes, "nodes", 1, "number of simulated nodes")
	f.DurationVar(&o.startDelay, "start-delay", 0, "how long a simulated server takes to start (default 1.5s)")
	f.StringVar((*string)(&o.isolate), "isolate", string(lab.IsolateAuto), "namespaces of its own for each node: auto, on or off")
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
and a sample config, and prints the lines to type in another terminal. What the
lab produces is marked simulated and never compared with real runs.

Where the machine allows it, each node gets namespaces of its own (user,
processes, mounts, network), so that shipped configs run on it as on a real
node: /models, /home/lab and port 8000 are the node's. Without them only the
sample config runs, because the nodes share this machine's files and ports.

--fault makes something go wrong, for example server_dies_after=40,
client=half_artefact with client_concurrency=16, start_delay_s=60 or
refuse_forward. The faults stand in node0/faults.json of the lab's folder and
may be changed there while it runs.
` + exitHelp,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runLabUp(cmd.Context(), e, o) },
	}
	o.addFlags(up.Flags())
	up.Flags().StringArrayVar(&o.faults, "fault", nil, "what goes wrong on every node, `name[=value]`; may be given several times (names: "+strings.Join(lab.FaultNames(), ", ")+")")
	cmd.AddCommand(up)
	return cmd
}

func runLabUp(ctx context.Context, e *env, o labOptions) (err error) {
	if _, err := lab.ParseFaults(o.faults); err != nil {
		return badInput("--fault: %v", err)
	}
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
	config, err := l.DemoConfig(lab.Demo{})
	if err != nil {
		return badStore(err)
	}
	printLab(e.stdout, l, config, filepath.Join(dir, "shipped"))
	<-ctx.Done()
	fmt.Fprintln(e.stderr, "stopping the lab")
	return nil
}

// The shipped configs that need the most of a node: fixed port, /models, a home
// and GPU devices; the second one spans two nodes.
const (
	singleStem = "mi3xx_atom_deepseek-r1_fp8_single"
	doubleStem = "mi3xx_atom_deepseek-r1_fp8_distributed"
)

// printLab says what is up and what to type.
func printLab(w io.Writer, l *lab.Lab, demo, shipped string) {
	line := func(args ...string) {
		fmt.Fprintf(w, "  %s\n", shellescape.QuoteCommand(append([]string{"cvs"}, args...)))
	}
	run := func(cluster, config string, more ...string) {
		line(append([]string{"run", "atom", "--cluster_file", cluster, "--config_file", config, "--known-hosts", l.KnownHosts()}, more...)...)
	}
	fill := func(stem string, more ...string) string {
		line(append([]string{"config", "copy", stem, "--output", filepath.Join(shipped, stem), "--set", "container.image=" + lab.ShippedImage,
			"--set", "<changeme-models-mount>=" + l.ModelsDir(), "--set", "paths.hf_token_file=" + l.TokenFile()}, more...)...)
		return filepath.Join(shipped, stem, stem+".json")
	}
	fmt.Fprintf(w, "The lab is up (%d simulated node(s)). In another terminal:\n\n", l.Nodes())
	run(l.HeadClusterFile(), demo)
	if isolated, why := l.Isolated(); !isolated {
		fmt.Fprintf(w, "\nThe nodes share this machine (%s): shipped configs do not run,\nbecause they would need its /models, /home/%s and port 8000.\n", why, lab.User)
	} else {
		fmt.Fprintf(w, "\nEach node has namespaces of its own, so shipped configs run, too:\n\n")
		config := fill(singleStem)
		run(l.HeadClusterFile(), config, "--config_profile", "perf")
		run(l.HeadClusterFile(), config, "--config_profile", "mtp3")
		if l.Nodes() == 2 {
			fmt.Fprintln(w)
			run(l.ClusterFile(), fill(doubleStem, "--set", "params.master_addr="+l.Address(0)))
		}
	}
	fmt.Fprintln(w, "\nCtrl-C stops it.")
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
	faults, err := lab.ParseFaults(o.faults)
	if err != nil {
		return nil, badInput("--fault: %v", err)
	}
	l, err := lab.Start(context.WithoutCancel(ctx), lab.Options{Faults: faults, Dir: abs, Executable: exe, Seed: o.seed, Speed: o.speed, Nodes: o.nodes, Isolate: o.isolate, StartDelay: o.startDelay})
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
