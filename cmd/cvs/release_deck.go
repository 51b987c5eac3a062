package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"cvs/render"
)

func newReleaseDeck(e *env) *cobra.Command {
	var o releaseOptions
	var out string
	cmd := &cobra.Command{
		Use:   "deck [flags] --policy FILE RUN… -o FILE",
		Short: "Write the deck of a release: matrix, verdict and reasons on one page",
		Long: `Writes one self-contained HTML file that holds what cvs release check says, one
line a run, what stands against each of them, their waivers, decisions, tiers that
cannot fail and the age of their thresholds, with links to the runs' own decks.

The exit status is that of cvs release check.
`,
		Args: needArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error { return runReleaseDeck(cmd.Context(), e, o, out, args) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&out, "out", "o", "release_deck.html", "write the deck to `file`")
	return cmd
}

func runReleaseDeck(ctx context.Context, e *env, o releaseOptions, out string, args []string) error {
	if out == "" {
		return badInput("-o is empty; it names the file to write")
	}
	out = filepath.Clean(out)
	for _, in := range nonEmpty(o.policy, o.allowed, o.waivers) {
		if sameFile(in, out) {
			return badInput("the output %s is the input %s; nothing was written", out, in)
		}
	}
	if err := refuseOverInput(out, "<", e, deckOptions{}, args); err != nil {
		return err
	}
	now, err := renderTime(e)
	if err != nil {
		return err
	}
	c, err := checkRelease(ctx, e, o, args)
	if err != nil {
		return err
	}
	page := render.Release{Title: c.whole.Name, Policy: filepath.Base(o.policy), Verdict: c.whole.Verdict}
	for _, n := range c.needs {
		page.Needs = append(page.Needs, render.ReleaseNeed{Name: n.Name, Wants: n.Wants, RunID: n.RunID, Verdict: n.Verdict, Reasons: n.Reasons()})
	}
	for _, r := range c.runs {
		page.Runs = append(page.Runs, render.ReleaseRun{
			Row: r.row, Review: r.review, Blocks: r.blocks, Deck: deckLink(out, r.dir), Asked: !slices.Contains(c.unused, r.row.RunID),
		})
	}
	err = render.WriteTo(out, func(w io.Writer) error {
		return render.WriteRelease(w, page, render.Options{Now: now, ToolVersion: toolVersion()})
	})
	if err != nil {
		return badStore(fmt.Errorf("write release deck %s: %w", out, err))
	}
	fmt.Fprintf(e.stdout, "%s: %s\n", out, c.whole.Verdict)
	return c.err()
}

// deckLink leads from a page to a run's own deck, relative to it, so that both
// can be moved together; "" where there is no deck.
func deckLink(page, runDir string) string {
	deck := filepath.Join(runDir, deckName)
	if _, err := os.Stat(deck); err != nil {
		return ""
	}
	from, err := filepath.Abs(filepath.Dir(page))
	to, terr := filepath.Abs(deck)
	if err != nil || terr != nil {
		return ""
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return ""
	}
	// the dot keeps a folder's name from being read as a scheme
	return "./" + (&url.URL{Path: filepath.ToSlash(rel)}).EscapedPath()
}
