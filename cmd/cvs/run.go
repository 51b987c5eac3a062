package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect"
	"cvs/collect/artifact"
	"cvs/collect/plan"
	"cvs/render"
	"cvs/warehouse"
)

type runOptions struct {
	in      inputOptions
	store   storeOptions
	ssh     sshOptions
	reports reportOptions
	col     collect.Options

	resume   string
	quant    string
	previous *artifact.Run // what --resume goes on with
	k        string
	dryRun   bool
	format   string
	html     string
	noHTML   bool
	logFile  string
	logLevel string
	old      oldFlags
}

// oldFlags belong to the older suite's test runner. They are accepted so that
// known command lines work; a notice says what became of those without effect.
type oldFlags struct {
	verbose       int
	capture       string
	noCapture     bool
	selfContained bool
	noLogFile     bool
	exitFirst     bool
}

func (o *runOptions) addFlags(f *pflag.FlagSet) {
	o.in.addFlags(f)
	o.store.addFlags(f)
	o.ssh.addFlags(f)
	o.reports.addFlags(f)
	f.StringVarP(&o.k, "k", "k", "", "run only cells whose id matches `expression` (words, and, or, not)")
	f.StringVar(&o.k, "only", "", "the same as -k")
	f.StringVar(&o.resume, "resume", "", "go on with `run` (a run directory or its id): cells whose configuration is the same and whose result is whole are kept")
	f.StringVar(&o.quant, "quant-reference", "", "compare the answer of quant_parity with that of `run` (a run directory or its id, or its checks/quant.json)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print every remote command in order, without any connection")
	f.StringVar(&o.format, "format", "text", "output `format` of --dry-run: text or json")
	f.StringVar(&o.html, "html", "", "also write the deck to `file`")
	f.BoolVar(&o.noHTML, "no-html", false, "write no deck")
	f.IntVar(&o.col.Repeat, "repeat", 1, "measure each cell `n` times; gates use the median")
	f.BoolVar(&o.col.FailFast, "fail-fast", false, "end the sweep at the first cell that fails to run")
	f.IntVar(&o.col.MaxFailures, "max-consecutive-failures", 0, "end the sweep after `n` cells in a row failed to run (0: never)")
	f.DurationVar(&o.col.Reconnect, "reconnect", 0, "how long a connection that broke is tried to be made anew (default 20s, which remote processes outlive)")
	f.DurationVar(&o.col.TeardownTimeout, "teardown-timeout", 0, "bound for cleaning up, reconnecting to lost nodes included (default 2m)")
	f.BoolVar(&o.col.Force, "force", false, "take over a container of the same name that is not ours")
	f.BoolVar(&o.col.NoHFToken, "no-hf-token", false, "run without a Hugging Face token although the config names a file")
	f.BoolVar(&o.in.matchLengths, "match-lengths", false, "have every client draw lengths from [random_range_ratio·L, L], so that frameworks can be compared: vLLM's gets L·(1+r)/2 and (1-r)/(1+r)")
	f.StringVar(&o.logFile, "log-file", "", "also write progress to `file`")
	f.StringVar(&o.logLevel, "log-level", "INFO", "least level of progress that is shown: DEBUG, INFO, WARNING, ERROR")
	f.CountVarP(&o.old.verbose, "verbose", "v", "show more progress")
	f.StringVar(&o.old.capture, "capture", "", "accepted for compatibility; without effect")
	f.BoolVarP(&o.old.noCapture, "no-capture", "s", false, "accepted for compatibility; without effect")
	f.BoolVar(&o.old.selfContained, "self-contained-html", false, "accepted for compatibility; decks always are")
	f.BoolVar(&o.old.noLogFile, "no-log-file", false, "accepted for compatibility; without effect")
	f.BoolVarP(&o.old.exitFirst, "exitfirst", "x", false, "the same as --fail-fast")
}

func newRun(e *env) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run atom --cluster_file C --config_file F [flags]",
		Short: "Run a sweep on the cluster, keep its results, judge them, write the deck",
		Long: `Runs every cell of the config on the nodes of the cluster file, over SSH and in
Docker. Results are kept in <workspace>/cvs_runs/<run id>, loaded into the
warehouse and judged; the deck is written beside them. Ctrl-C tears everything
down and keeps what was measured; a second one ends at once and says what is left.
` + exitHelp,
		Args: needArgs("the suite (atom)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := emptyProfile(cmd, o.in); err != nil {
				return err
			}
			if err := o.resumed(e); err != nil {
				return err
			}
			if err := o.check(cmd, args); err != nil {
				return err
			}
			if err := o.reference(e); err != nil {
				return err
			}
			if o.dryRun {
				return runDryRun(cmd.Context(), e, o)
			}
			return runRun(cmd.Context(), e, o)
		},
	}
	o.addFlags(cmd.Flags())
	completeInputs(cmd)
	completeSelection(e, cmd, "k", "only")
	cmd.ValidArgs = []string{"atom"}
	return cmd
}

func (o *runOptions) check(cmd *cobra.Command, args []string) error {
	if err := knownSuite(args[0]); err != nil {
		return err
	}
	if len(args) > 1 {
		return badInput("%s: single test functions cannot be chosen; use -k with a cell id", strings.Join(args[1:], " "))
	}
	var errs []error
	if o.in.config == "" {
		errs = append(errs, badInput("--config_file is required"))
	}
	if o.in.cluster == "" {
		errs = append(errs, badInput("--cluster_file is required"))
	}
	if o.format != "text" && o.format != "json" {
		errs = append(errs, badInput("--format %s: want text or json", o.format))
	}
	if o.html != "" && o.noHTML {
		errs = append(errs, badInput("--html and --no-html contradict each other"))
	}
	if o.old.noLogFile && o.logFile != "" {
		errs = append(errs, badInput("--log-file and --no-log-file contradict each other"))
	}
	if _, ok := levels[strings.ToUpper(o.logLevel)]; !ok {
		errs = append(errs, badInput("--log-level %s: want DEBUG, INFO, WARNING, ERROR or CRITICAL", o.logLevel))
	}
	errs = append(errs, o.ssh.check())
	if o.col.Reconnect < 0 || o.col.TeardownTimeout < 0 {
		errs = append(errs, badInput("--reconnect and --teardown-timeout: want more than 0"))
	}
	if o.col.Repeat < 1 {
		errs = append(errs, badInput("--repeat %d: want at least 1", o.col.Repeat))
	}
	o.col.FailFast = o.col.FailFast || o.old.exitFirst
	return errors.Join(errs...)
}

// resumed finds the run to go on with, and takes the input files from it where
// the command line names none.
func (o *runOptions) resumed(e *env) error {
	if o.resume == "" {
		return nil
	}
	if !artifact.IsRunDir(o.resume) {
		o.resume = filepath.Join(workspace(e, o.store.workspace), "cvs_runs", o.resume)
	}
	if !artifact.IsRunDir(o.resume) {
		return badInput("--resume: %s is no run directory", o.resume)
	}
	r, err := artifact.Read(o.resume)
	if err != nil {
		return badData("%v", err)
	}
	o.previous = r
	for _, in := range r.Meta.Inputs {
		switch {
		case in.Kind == "config" && o.in.config == "":
			o.in.config = in.Path
		case in.Kind == "cluster" && o.in.cluster == "":
			o.in.cluster = in.Path
		}
	}
	o.in.matchLengths = o.in.matchLengths || r.Meta.MatchLengths
	if o.in.profile == "" && r.Meta.Profile != "perf" {
		o.in.profile = r.Meta.Profile
	}
	return nil
}

// reference reads the stored answer that quant_parity is compared with. What
// cannot be compared is found before a node is touched.
func (o *runOptions) reference(e *env) error {
	if o.quant == "" {
		return nil
	}
	file := o.quant
	if !artifact.IsRunDir(file) {
		if dir := filepath.Join(workspace(e, o.store.workspace), "cvs_runs", file); artifact.IsRunDir(dir) {
			file = dir
		}
	}
	if artifact.IsRunDir(file) {
		file = filepath.Join(file, "checks", "quant.json")
	}
	ref, err := collect.ReadReference(file)
	if err != nil {
		return badInput("--quant-reference: %v (want a run whose quant_parity was carried out)", err)
	}
	o.col.QuantReference = ref
	return nil
}

// load reads the plan and narrows it to the selection.
func (o *runOptions) load(e *env) (*plan.Plan, error) {
	sel, err := parseSelection(o.k)
	if err != nil {
		return nil, err
	}
	o.in.sshConfig = o.ssh.config != ""
	p, err := o.in.load(e)
	if err != nil {
		return nil, err
	}
	return sel.selectCells(p)
}

func runDryRun(_ context.Context, e *env, o runOptions) error {
	p, err := o.load(e)
	if err != nil {
		return err
	}
	steps, err := collect.Commands(p, artifact.NewRunID(e.now(), rand.Reader))
	if err != nil {
		return err
	}
	if o.format == "json" {
		return printJSON(e, struct {
			Steps []collect.Step `json:"steps"`
		}{steps})
	}
	for i, s := range steps {
		where := s.Host
		if s.Container != "" {
			where += " (container " + s.Container + ")"
		}
		fmt.Fprintf(e.stdout, "# %d %s on %s", i+1, s.Stage, visible(where))
		if s.When != "" {
			fmt.Fprintf(e.stdout, ", %s", s.When)
		}
		fmt.Fprintf(e.stdout, "\n%s\n", s.Command)
		if s.Stdin != "" {
			fmt.Fprintf(e.stdout, "# standard input:\n%s\n", indent(s.Stdin))
		}
	}
	fmt.Fprintf(e.stdout, "# %d commands; nothing was sent\n", len(steps))
	return nil
}

func indent(s string) string {
	return "#   " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n#   ")
}

func runRun(ctx context.Context, e *env, o runOptions) error {
	p, err := o.load(e)
	if err != nil {
		return err
	}
	if err := refuseOutputs(o.outputs(), e, deckOptions{in: o.in, store: o.store}, nil); err != nil {
		return err
	}
	outcome, err := sweep(ctx, e, o, p)
	if outcome == nil {
		return err
	}
	defer outcome.db.Close()
	outcome.j.print(e.stdout)
	fmt.Fprintf(e.stdout, "run:  %s\n", outcome.dir)
	if outcome.deck != "" {
		fmt.Fprintf(e.stdout, "deck: %s\n", outcome.deck)
	}
	return errors.Join(err, outcome.j.verdictError())
}

// outputs are the files that the command line names; a log may also go to a pipe
// or a device.
func (o *runOptions) outputs() []output {
	all := append([]output{{"--html", o.html, "<"}}, o.reports.outputs()...)
	if st, err := os.Stat(o.logFile); err == nil && st.Mode().IsRegular() {
		all = append(all, output{"--log-file", o.logFile, ""})
	}
	return all
}

// An outcome is a finished sweep: kept, judged, and where it lies.
type outcome struct {
	db    *warehouse.DB
	j     *judgement
	dir   string
	deck  string
	split collect.Split
}

// sweep carries out a plan, stores and judges what came of it. A nil outcome
// means that nothing was started or nothing could be kept; otherwise the error
// says what went wrong beside the verdict.
func sweep(ctx context.Context, e *env, o runOptions, p *plan.Plan) (*outcome, error) {
	root := filepath.Join(workspace(e, o.store.workspace), "cvs_runs")
	prog, err := newProgress(e, o)
	if err != nil {
		return nil, err
	}
	defer prog.close()
	for _, w := range p.Warnings {
		prog.warn(w.String())
	}
	fmt.Fprintf(prog.out, "thresholds: %s (%s)\n", enforceWord(p.Enforce), p.EnforceOrigin)

	meta := collect.NewMeta(p)
	meta.RunID = artifact.NewRunID(e.now(), rand.Reader)
	meta.ToolVersion = toolVersion()
	meta.CommandLine = o.commandLine()
	host, _ := os.Hostname()
	meta.Launcher = artifact.Launcher{Host: host, User: e.osUser(), OS: runtime.GOOS}
	if o.k != "" {
		meta.Warnings = append(meta.Warnings, fmt.Sprintf("only cells matching %q were selected", o.k))
	}
	runner := &collect.Runner{
		Plan: p, Now: e.now, Sleep: sleep, Progress: prog.event, Options: o.col,
		Dial: o.ssh.dialer(e, p),
	}
	runner.Options.Owner = e.osUser() + "@" + host
	runner.Previous = o.previous
	// before the directory is made or opened
	if err := errors.Join(runError(runner.Check()), o.ssh.checkLogin(ctx, e, p)); err != nil {
		return nil, err
	}
	dir, err := o.runDir(root, meta)
	if err != nil {
		return nil, badStore(err)
	}
	runner.Store = dir
	e.rest.busy(fmt.Sprintf("what was measured is kept in %s; go on with: cvs run atom --resume %s", dir.Path(), dir.Meta().RunID))
	defer e.rest.busy("")
	runner.Left = e.rest.leave
	fmt.Fprintf(prog.out, "run directory: %s\n", dir.Path())

	_, runErr := runner.Run(ctx)
	runErr = runError(runErr)

	// What follows must also happen after Ctrl-C: the verdict on what was
	// measured is part of keeping it.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	r, err := readRun(dir.Path())
	if err != nil {
		return nil, errors.Join(runErr, badStore(err))
	}
	db, j, err := judgeInMemory(after, r)
	if err != nil {
		return nil, errors.Join(runErr, err)
	}
	out := &outcome{db: db, j: j, dir: dir.Path(), split: runner.Split}
	prog.split(runner.Split)
	var source render.Source = comparedWith(e, db, "")
	shared, err := storeRun(after, e, o.store.path(e), r)
	if err != nil {
		prog.warn(fmt.Sprintf("the run is kept but not in the warehouse (%v); load it with: cvs load %s", err, dir.Path()))
	} else {
		defer shared.Close()
		source = comparedWith(e, shared, o.html) // it knows the earlier runs
	}
	if !o.noHTML {
		out.deck = filepath.Join(dir.Path(), deckName)
		for _, path := range nonEmpty(out.deck, o.html) {
			sidecar := strings.TrimSuffix(path, filepath.Ext(path)) + ".json"
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				runErr = errors.Join(runErr, badStore(err))
				continue
			}
			if err := writeDeck(after, e, source, j.status.RunID, path, sidecar); err != nil {
				runErr = errors.Join(runErr, err)
				out.deck = ""
			}
		}
	}
	if err := o.reports.write(after, e, source, j.status.RunID); err != nil {
		runErr = errors.Join(runErr, err)
	}
	return out, runErr
}

// runDir makes the run directory, or opens the one to go on with.
func (o *runOptions) runDir(root string, meta artifact.Meta) (*artifact.Dir, error) {
	if o.resume != "" {
		return artifact.Open(o.resume)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	return artifact.Create(root, meta)
}

// runError maps what a runner reports to the exit table.
func runError(err error) error {
	if err != nil && errors.Is(err, collect.ErrInput) {
		return &statusError{2, err.Error()}
	}
	return err
}

func enforceWord(on bool) string {
	if on {
		return "enforced"
	}
	return "record-only"
}

// storeRun loads a run into the shared warehouse and returns that; a locked one
// is not waited for long, since the run directory can be loaded at any time.
func storeRun(ctx context.Context, e *env, path string, r *artifact.Run) (*warehouse.DB, error) {
	db, err := openStore(ctx, path, warehouse.Options{Wait: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	if _, err := db.Load(ctx, r); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if dir := pinsBeside(r.Dir, r.Meta.RunID); dir != "" {
		if err := restorePins(ctx, db, nil, dir); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// commandLine is what run.json says about how it was started. It is put
// together from the options, so that nothing secret can be in it.
func (o *runOptions) commandLine() []string {
	line := []string{"cvs", "run", "atom", "--cluster_file", o.in.cluster, "--config_file", o.in.config}
	add := func(flag, v string) {
		if v != "" {
			line = append(line, flag, v)
		}
	}
	add("--config_profile", o.in.profile)
	add("-k", o.k)
	line = append(line, o.ssh.args()...)
	if o.col.Repeat > 1 {
		line = append(line, "--repeat", fmt.Sprint(o.col.Repeat))
	}
	for _, b := range []struct {
		on   bool
		flag string
	}{{o.in.matchLengths, "--match-lengths"}, {o.col.FailFast, "--fail-fast"}, {o.col.Force, "--force"}, {o.col.NoHFToken, "--no-hf-token"}} {
		if b.on {
			line = append(line, b.flag)
		}
	}
	return line
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
