package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cvs/collect/signoff"
)

type releaseOptions struct {
	workspace, policy, allowed, waivers, format string
}

func newRelease(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Hold several runs against the policy of a release",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReleaseCheck(e))
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
	f.StringVar(&o.workspace, "workspace", "", "`folder` whose cvs_runs holds the runs")
	f.StringVar(&o.policy, "policy", "", "policy `file` with a release section")
	f.StringVar(&o.allowed, "allowed-signers", "", "`file` that says whose keys may sign, see ssh-keygen(1)")
	f.StringVar(&o.waivers, "waivers", "", "waiver `file` (default: the copy kept with each run)")
	f.StringVar(&o.format, "format", "text", "output `format`: text, json or markdown")
	return cmd
}

func runReleaseCheck(ctx context.Context, e *env, o releaseOptions, args []string) error {
	if o.format != "text" && o.format != "json" && o.format != "markdown" {
		return badInput("--format %s: want text, json or markdown", o.format)
	}
	if o.policy == "" {
		return badInput("--policy is required")
	}
	policy, _, err := readPolicy(o.policy)
	if err != nil {
		return err
	}
	if len(policy.Release.Require) == 0 {
		return badInput("%s has no release section with requirements", o.policy)
	}
	allowed, err := readSigners(o.allowed)
	if err != nil {
		return err
	}
	if policy.Release.NeedSignoff && allowed == nil {
		return badInput("the policy wants sign-offs, so --allowed-signers is required: without it nobody is known")
	}
	waivers, _, err := readWaivers(o.waivers)
	if err != nil {
		return err
	}
	dirs, err := runDirs(e, o.workspace, args)
	if err != nil {
		return err
	}
	var runs []signoff.Candidate
	for _, dir := range dirs {
		c, judged, err := candidate(ctx, dir, signoff.Against{Policy: policy, Allowed: allowed, Waivers: waivers}, e.now())
		if err != nil {
			return err
		}
		judged.db.Close()
		runs = append(runs, *c)
	}
	v := policy.Check(runs, e.now().UTC())
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
