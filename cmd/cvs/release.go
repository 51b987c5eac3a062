package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

The exit status is 0 when READY, 3 when a required run is missing, else 1.
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
	v := c.verdict
	switch o.format {
	case "json":
		err = printJSON(e, v)
	case "markdown":
		printReleaseMarkdown(e, v)
	default:
		printRelease(e, v)
	}
	return errors.Join(err, releaseError(v))
}

// A checkedRelease is a verdict and the runs it was made of.
type checkedRelease struct {
	policy  *signoff.Policy
	verdict signoff.Verdict
	runs    []offeredRun
}

type offeredRun struct {
	dir    string
	row    warehouse.ReleaseRunRow
	review *render.Review
	blocks []warehouse.BlockRow
}

// checkRelease holds the runs against the policy, as the views judge them today.
func checkRelease(ctx context.Context, e *env, o releaseOptions, args []string) (*checkedRelease, error) {
	if o.policy == "" {
		return nil, badInput("--policy is required")
	}
	policy, _, err := readPolicy(o.policy)
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
	out := &checkedRelease{policy: policy}
	var runs []signoff.Candidate
	at := e.now()
	for _, dir := range dirs {
		c, judged, err := candidate(ctx, dir, signoff.Against{Policy: policy, Allowed: allowed, Waivers: waivers}, at)
		if err != nil {
			return nil, err
		}
		run, err := offered(ctx, judged.db, dir, c.Facts.RunID, at)
		judged.db.Close()
		if err != nil {
			return nil, badStore(err)
		}
		runs, out.runs = append(runs, *c), append(out.runs, *run)
	}
	out.verdict = policy.Check(runs, at.UTC())
	return out, nil
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

func candidate(ctx context.Context, dir string, a signoff.Against, at time.Time) (*signoff.Candidate, *judgedCase, error) {
	r, err := readRunAgainst(dir, a)
	if err != nil {
		return nil, nil, badData("%v", err)
	}
	c, err := caseOf(ctx, r, at)
	if err != nil {
		return nil, nil, err
	}
	return &signoff.Candidate{Case: c.Case, State: c.state.State, Reasons: c.state.Reasons()}, c, nil
}

func releaseError(v signoff.Verdict) error {
	if v.Verdict == signoff.ReleaseReady {
		return nil
	}
	var errs []error
	for _, n := range v.Needs {
		code := 1
		if n.RunID == "" {
			code = 3
		}
		if n.Verdict != signoff.ReleaseReady {
			errs = append(errs, &statusError{code, visible(fmt.Sprintf("release %s: %s", v.Verdict, n.Name))})
		}
	}
	return errors.Join(errs...)
}

func printRelease(e *env, v signoff.Verdict) {
	if v.Title != "" {
		fmt.Fprintln(e.stdout, visible(v.Title))
	}
	for _, n := range v.Needs {
		run := n.RunID
		if run == "" {
			run = "no run"
		}
		fmt.Fprintf(e.stdout, "%-11s %s: %s, %d of %d gates calibrated, %d waived", n.Verdict, visible(n.Name), visible(run), n.Gates-n.Vacuous, n.Gates, n.Waived)
		if n.Signoff != "" {
			fmt.Fprintf(e.stdout, ", sign-off: %s", n.Signoff)
		}
		fmt.Fprintln(e.stdout)
		for _, why := range n.Reasons {
			fmt.Fprintf(e.stdout, "              %s\n", visible(why))
		}
	}
	for _, id := range v.Unused {
		fmt.Fprintf(e.stdout, "not asked for: %s\n", visible(id))
	}
	fmt.Fprintf(e.stdout, "release: %s\n", v.Verdict)
}

func printReleaseMarkdown(e *env, v signoff.Verdict) {
	cell := func(s string) string {
		return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "`", "'").Replace(visible(s))
	}
	fmt.Fprintf(e.stdout, "## Release %s: **%s**\n\n| requirement | verdict | run | calibrated gates | waived | sign-off | reasons |\n|---|---|---|---|---|---|---|\n", cell(v.Title), v.Verdict)
	for _, n := range v.Needs {
		fmt.Fprintf(e.stdout, "| %s | %s | %s | %d of %d | %d | %s | %s |\n", cell(n.Name), n.Verdict, cell(n.RunID), n.Gates-n.Vacuous, n.Gates, n.Waived, cell(n.Signoff), cell(strings.Join(n.Reasons, "; ")))
	}
}
