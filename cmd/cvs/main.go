// Command cvs qualifies AMD Instinct clusters for LLM serving: it runs
// benchmark sweeps over SSH, keeps every raw result, judges them with SQL views
// in DuckDB and writes an HTML run deck.
//
// This package wires the rooms together. It alone reads arguments, environment,
// clock and working directory, and it alone maps errors to exit codes; it
// computes no number and no verdict.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cvs/collect/lab"
)

func main() { os.Exit(realMain()) }

// realMain is main with its exit status; test scripts run it as a program.
func realMain() int {
	if handled, code := lab.Main(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr); handled {
		return code
	}
	e := &env{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, now: time.Now, osUser: osUser, rest: &leftovers{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go interrupts(signals, e, cancel, os.Exit)
	return run(ctx, e, os.Args[1:])
}

// env is what a command may touch of the process.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	now            func() time.Time
	osUser         func() string // launcher's user name, by uid

	rest *leftovers // what a second interrupt tells; may be nil
}

// osUser names the user by uid: USER and LOGNAME can say anything.
func osUser() string {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return ""
	}
	return u.Username
}

// run carries out one command line and returns the exit status.
func run(ctx context.Context, e *env, args []string) int {
	root := newRoot(e)
	root.SetArgs(args)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if msg := message(err); msg != "" {
		fmt.Fprintln(e.stderr, "cvs: "+msg)
	}
	return exitCode(err)
}

// newRoot is the whole command tree.
func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "cvs",
		Short: "Qualify AMD Instinct clusters for LLM serving",
		Long: `cvs runs LLM-serving benchmark sweeps on GPU nodes over SSH, keeps every raw
result, loads them into DuckDB, judges them with SQL views and writes an HTML
run deck.

Start here:
  cvs demo                                   a whole sweep on the built-in lab
  cvs config list                            bundled configs and thresholds
  cvs run atom --cluster_file C --config_file F
  cvs sql "SELECT * FROM run_status"
` + exitHelp,
		Version:       toolVersion(),
		SilenceErrors: true, // printed once, in run
		SilenceUsage:  true, // a failed gate is not a usage mistake
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return badInput("unknown command %q%s; see 'cvs --help'", args[0], didYouMean(args[0], names))
	}
	root.SetVersionTemplate("cvs {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput("%v; see '%s --help'", err, cmd.CommandPath())
	})
	root.SetGlobalNormalizationFunc(snakeOrKebab)
	root.AddCommand(
		newRun(e), newList(e), newConfig(e), newDoctor(e),
		newLoad(e), newEvaluate(e), newInspect(e), newRuns(e), newSQL(e),
		newCompare(e), newSLO(e), newHistory(e), newRegressions(e), newExplain(e), newBaseline(e), newThresholds(e), newWarehouse(e),
		newDeck(e), newSummary(e), newPublish(e), newUnpublish(e),
		newBundle(e), newVerify(e), newReplay(e), newSignoff(e), newWaivers(e), newRelease(e),
		newDemo(e), newLab(e),
	)
	return root
}

// errDone stands for "stop here, everything was printed already".
var errDone = errors.New("done")
