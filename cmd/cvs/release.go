package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/artifact"
	"cvs/collect/signoff"
	"cvs/render"
	"cvs/warehouse"
)

type releaseOptions struct {
	workspace, policy, allowed, waivers, format string
}

func (o *releaseOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.workspace, "workspace", "", "`folder` whose cvs_runs holds the runs")
	f.StringVar(&o.policy, "policy", "", "policy `file` with a release section")
	f.StringVar(&o.allowed, "allowed-signers", "", "`file` that says whose keys may sign, see ssh-keygen(1)")
	f.StringVar(&o.waivers, "waivers", "", "waiver `file` (default: the copy kept with each run)")
}

func newRelease(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Hold several runs against the policy of a release",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReleaseCheck(e), newReleaseDeck(e))
	return cmd
}

func newReleaseCheck(e *env) *cobra.Command {
	var o releaseOptions
	cmd := &cobra.Command{
		Use:   "check [flags] --policy FILE RUN…",
		Short: "May this release ship? Verdict and reasons, one line a requirement",
		Long: `Takes for each requirement of the policy the newest RUN that fits it, and says
READY, CONDITIONAL or BLOCKED with every reason: no such run, too old, a failure
that is not waived, a missing result, a tier whose gates cannot fail, a missing or
stale sign-off. Missing evidence blocks.

The exit status is 0 when READY, 3 when a required run is missing, else 1. All of
it is what release_check(policy, runs, moment) answers to cvs sql.
`,
		Args: needArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error { return runReleaseCheck(cmd.Context(), e, o, args) },
	}
	f := cmd.Flags()
	o.addFlags(f)
	f.StringVar(&o.format, "format", "text", "output `format`: text, json or markdown")
	return cmd
}

func runReleaseCheck(ctx context.Context, e *env, o releaseOptions, args []string) error {
	if o.format != "text" && o.format != "json" && o.format != "markdown" {
		return badInput("--format %s: want text, json or markdown", o.format)
	}
	c, err := checkRelease(ctx, e, o, args)
	if err != nil {
		return err
	}
	switch o.format {
	case "json":
		err = printJSON(e, c.said())
	case "markdown":
		printReleaseMarkdown(e, c)
	default:
		printRelease(e, c)
	}
	return errors.Join(err, c.err())
}

// A checkedRelease is what release_check says of the runs that were offered.
type checkedRelease struct {
	whole  warehouse.ReleaseCheckRow
	needs  []warehouse.ReleaseCheckRow
	unused []string
	runs   []offeredRun
}

type offeredRun struct {
	dir    string
	row    warehouse.ReleaseRunRow
	review *render.Review
	blocks []warehouse.BlockRow
}

// checkRelease loads the runs into a warehouse of their own and asks it for the
// verdict of today. Nothing here decides.
func checkRelease(ctx context.Context, e *env, o releaseOptions, args []string) (*checkedRelease, error) {
	if o.policy == "" {
		return nil, badInput("--policy is required")
	}
	policy, text, err := readPolicy(o.policy)
	if err != nil {
		return nil, err
	}
	if len(policy.Release.Require) == 0 {
		return nil, badInput("%s has no release section with requirements", o.policy)
	}
	allowed, err := readSigners(o.allowed)
	if err != nil {
		return nil, err
	}
	if policy.Release.NeedSignoff && allowed == nil {
		return nil, badInput("the policy wants sign-offs, so --allowed-signers is required: without it nobody is known")
	}
	waivers, _, err := readWaivers(o.waivers)
	if err != nil {
		return nil, err
	}
	dirs, err := runDirs(e, o.workspace, args)
	if err != nil {
		return nil, err
	}
	runs, err := offeredRuns(dirs, signoff.Against{Policy: policy, Allowed: allowed, Waivers: waivers})
	if err != nil {
		return nil, err
	}
	db, err := warehouse.Open(ctx, "", warehouse.Options{})
	if err != nil {
		return nil, badStore(err)
	}
	defer db.Close()
	if _, err := db.Load(ctx, runs...); err != nil {
		return nil, err
	}
	at := e.now()
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.Meta.RunID
	}
	rows, err := db.ReleaseCheck(ctx, string(text), ids, at)
	if err != nil {
		return nil, badStore(err)
	}
	out := &checkedRelease{}
	for _, r := range rows {
		switch r.Scope {
		case "release":
			out.whole = r
		case "requirement":
			out.needs = append(out.needs, r)
		case "unused":
			out.unused = append(out.unused, r.RunID)
		}
	}
	for i, id := range ids {
		run, err := offered(ctx, db, dirs[i], id, at)
		if err != nil {
			return nil, badStore(err)
		}
		out.runs = append(out.runs, *run)
	}
	return out, nil
}

// offeredRuns reads the run directories; of one run there can be only one.
func offeredRuns(dirs []string, a signoff.Against) ([]*artifact.Run, error) {
	var runs []*artifact.Run
	from := map[string]string{}
	for _, dir := range dirs {
		r, err := readRunAgainst(dir, a)
		if err != nil {
			return nil, badData("%v", err)
		}
		if other, ok := from[r.Meta.RunID]; ok {
			return nil, badInput("run %s is offered twice: %s and %s", visible(r.Meta.RunID), other, dir)
		}
		from[r.Meta.RunID] = dir
		runs = append(runs, r)
	}
	return runs, nil
}

func offered(ctx context.Context, db *warehouse.DB, dir, id string, at time.Time) (*offeredRun, error) {
	r := &offeredRun{dir: dir}
	var err error
	if r.row, err = db.ReleaseRun(ctx, id); err != nil {
		return nil, err
	}
	if r.blocks, err = db.SignoffBlocks(ctx, id, at); err != nil {
		return nil, err
	}
	r.review, err = render.ReviewOf(ctx, db, id, at)
	return r, err
}

// err is the exit status the view decided, one message a requirement that is not
// ready.
func (c *checkedRelease) err() error {
	var errs []error
	for _, n := range c.needs {
		if n.ExitCode != 0 {
			errs = append(errs, &statusError{n.ExitCode, visible(fmt.Sprintf("release %s: %s", c.whole.Verdict, n.Name))})
		}
	}
	return errors.Join(errs...)
}

// A releaseVerdict is what --format json prints.
type releaseVerdict struct {
	Title   string        `json:"title,omitempty"`
	Verdict string        `json:"verdict"` // READY, CONDITIONAL, BLOCKED
	Needs   []releaseNeed `json:"needs"`
	Unused  []string      `json:"unused,omitempty"` // runs no requirement asked for
}

// A releaseNeed is one requirement and the run that is taken for it.
type releaseNeed struct {
	Name    string   `json:"name"`
	RunID   string   `json:"run_id,omitempty"` // "" when none fits
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons,omitempty"`
	Signoff string   `json:"signoff,omitempty"`
	Gates   int      `json:"gates"` // that passed or failed
	Vacuous int      `json:"vacuous"`
	Waived  int      `json:"waived"`
}

func (c *checkedRelease) said() releaseVerdict {
	v := releaseVerdict{Title: c.whole.Name, Verdict: c.whole.Verdict, Needs: []releaseNeed{}, Unused: c.unused}
	for _, n := range c.needs {
		v.Needs = append(v.Needs, releaseNeed{
			Name: n.Name, RunID: n.RunID, Verdict: n.Verdict, Reasons: n.Reasons(), Signoff: n.Signoff, Gates: n.Gates, Vacuous: n.Gates - n.Calibrated, Waived: n.Waived,
		})
	}
	return v
}

func printRelease(e *env, c *checkedRelease) {
	if c.whole.Name != "" {
		fmt.Fprintln(e.stdout, visible(c.whole.Name))
	}
	for _, n := range c.needs {
		run := n.RunID
		if run == "" {
			run = "no run"
		}
		fmt.Fprintf(e.stdout, "%-11s %s: %s, %d of %d gates calibrated, %d waived", n.Verdict, visible(n.Name), visible(run), n.Calibrated, n.Gates, n.Waived)
		if n.Signoff != "" {
			fmt.Fprintf(e.stdout, ", sign-off: %s", n.Signoff)
		}
		fmt.Fprintln(e.stdout)
		for _, why := range n.Reasons() {
			fmt.Fprintf(e.stdout, "              %s\n", visible(why))
		}
	}
	for _, id := range c.unused {
		fmt.Fprintf(e.stdout, "not asked for: %s\n", visible(id))
	}
	fmt.Fprintf(e.stdout, "release: %s\n", c.whole.Verdict)
}

func printReleaseMarkdown(e *env, c *checkedRelease) {
	cell := func(s string) string {
		return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "`", "'").Replace(visible(s))
	}
	fmt.Fprintf(e.stdout, "## Release %s: **%s**\n\n| requirement | verdict | run | calibrated gates | waived | sign-off | reasons |\n|---|---|---|---|---|---|---|\n", cell(c.whole.Name), c.whole.Verdict)
	for _, n := range c.needs {
		fmt.Fprintf(e.stdout, "| %s | %s | %s | %d of %d | %d | %s | %s |\n", cell(n.Name), n.Verdict, cell(n.RunID), n.Calibrated, n.Gates, n.Waived, cell(n.Signoff), cell(strings.Join(n.Reasons(), "; ")))
	}
}
