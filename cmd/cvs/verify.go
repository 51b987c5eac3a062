package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cvs/collect/artifact"
	evidence "cvs/collect/bundle" // another thing here is called bundle
	"cvs/collect/signoff"
)

// maxDiffs bounds the differences of one view that are spelt out.
const maxDiffs = 5

func newVerify(e *env) *cobra.Command {
	var allowed string
	cmd := &cobra.Command{
		Use:   "verify [flags] BUNDLE|DIR",
		Short: "Check a bundle or a run directory: hashes, views, decks, sign-offs",
		Long: `Checks everything that can be checked without a machine of the lab:

  hashes     every file against the manifest
  views      every view and table, computed anew from the raw files, against the
             rows that were recorded (bundles)
  decks      rendered anew, byte for byte
  sign-offs  the chain, each signature, and what each was given for

What differs is listed and the exit status is 3. A run directory records no rows;
its deck and sidecar stand for them.
` + exitHelp,
		Args: needAll("BUNDLE or DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return runVerify(cmd.Context(), e, allowed, args[0]) },
	}
	cmd.Flags().StringVar(&allowed, "allowed-signers", "", "`file` that says whose keys may sign, see ssh-keygen(1); without it signatures are checked, but nobody is known")
	return cmd
}

// A findings list is what verify found; nothing decides but its length.
type findings struct {
	w     io.Writer
	wrong int
}

func (f *findings) ok(what, format string, args ...any) {
	fmt.Fprintf(f.w, "ok      %-9s %s\n", what, visible(fmt.Sprintf(format, args...)))
}

func (f *findings) note(what, format string, args ...any) {
	fmt.Fprintf(f.w, "note    %-9s %s\n", what, visible(fmt.Sprintf(format, args...)))
}

func (f *findings) bad(what, format string, args ...any) {
	f.wrong++
	fmt.Fprintf(f.w, "DIFFERS %-9s %s\n", what, visible(fmt.Sprintf(format, args...)))
}

func (f *findings) err(of string) error {
	if f.wrong == 0 {
		return nil
	}
	return badData("%s: %d finding(s); what was recorded no longer holds", of, f.wrong)
}

func runVerify(ctx context.Context, e *env, allowedFile, arg string) error {
	allowed, err := readSigners(allowedFile)
	if err != nil {
		return err
	}
	f := &findings{w: e.stdout}
	if artifact.IsRunDir(arg) {
		if err := verifyRunDir(ctx, e, f, arg, allowed); err != nil {
			return err
		}
		return f.err(arg)
	}
	if st, err := os.Stat(arg); err == nil && st.IsDir() && !evidence.IsBundleDir(arg) {
		return badInput("%s is neither a bundle nor a run directory", arg)
	}
	dir, info, done, err := openBundle(ctx, arg)
	if err != nil {
		return err
	}
	defer done()
	if err := verifyBundle(ctx, e, f, dir, info, allowed); err != nil {
		return err
	}
	return f.err(arg)
}

func verifyBundle(ctx context.Context, e *env, f *findings, dir string, info *evidence.Info, allowed *signoff.Signers) error {
	problems, err := evidence.Check(dir)
	if err != nil {
		return badData("%v", err)
	}
	for _, p := range problems {
		f.bad("hashes", "%s: %s", p.Path, p.Msg)
	}
	if len(problems) == 0 {
		f.ok("hashes", "every file is as %s says", evidence.ManifestFile)
	}
	cut := map[string]string{} // path → stated hash of what is not there whole
	for _, o := range info.Omitted {
		cut[o.Path] = o.SHA256
		f.note("left out", "%s: %s", o.Path, o.Why)
	}
	for _, r := range info.Runs {
		if r.Dir != "" {
			if err := verifyManifest(f, filepath.Join(dir, filepath.FromSlash(r.Dir)), r.Dir, cut); err != nil {
				return err
			}
		}
	}
	list, err := unpacked(e, dir, info)
	if err != nil {
		f.bad("runs", "%s", shorten(err.Error(), dir))
		return nil
	}
	again := *info
	again.Notes = nil
	used, err := baselinesIn(dir)
	if err != nil {
		return err
	}
	made, err := compute(ctx, list, used, &again, false)
	if err != nil {
		f.bad("views", "cannot be computed again: %s", shorten(err.Error(), dir))
		return nil
	}
	if v := toolVersion(); v != info.ToolVersion {
		f.note("version", "made by cvs %s, checked by cvs %s: views and decks may have changed between them", info.ToolVersion, v)
	}
	if err := compareMade(f, dir, info, &again, made); err != nil {
		return err
	}
	return verifySignoffs(ctx, e, f, dir, info, list, cut, allowed)
}

// compareMade compares what was computed again with what the bundle recorded.
func compareMade(f *findings, dir string, info, again *evidence.Info, made []evidence.Source) error {
	now := map[string][]byte{}
	for _, s := range made {
		r, err := s.Open()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		now[s.Name] = data
	}
	for _, rel := range []struct {
		what, dir string
		was, is   []string
	}{{"views", evidence.ViewsDir, info.Views, again.Views}, {"tables", evidence.TablesDir, info.Tables, again.Tables}} {
		same := 0
		for _, name := range verdictsFirst(rel.was) {
			if !slices.Contains(rel.is, name) {
				f.bad(rel.what, "%s: this version of cvs has none of that name", name)
				continue
			}
			file := path.Join(rel.dir, name+".jsonl")
			was, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
			if err != nil {
				f.bad(rel.what, "%s: no recorded rows", name)
				continue
			}
			diffs, n := evidence.DiffRows(name, was, now[file], maxDiffs)
			for _, d := range diffs {
				f.bad(rel.what, "%s", d)
			}
			if n > len(diffs) {
				f.bad(rel.what, "%s: and %d more", name, n-len(diffs))
			}
			if n == 0 {
				same++
			}
		}
		for _, name := range rel.is {
			if !slices.Contains(rel.was, name) {
				f.note(rel.what, "%s is new in this version of cvs; nothing was recorded", name)
			}
		}
		if same == len(rel.was) {
			f.ok(rel.what, "all %d computed again from the raw files: every row as recorded", same)
		}
	}
	same, decks := 0, 0
	for _, r := range info.Runs {
		for _, name := range nonEmpty(r.Deck, r.JSON) {
			decks++
			was, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
			if err != nil {
				f.bad("decks", "%s is missing", name)
				continue
			}
			if diff := firstDifference(was, now[name]); diff != "" {
				f.bad("decks", "%s: %s", name, diff)
				continue
			}
			same++
		}
	}
	if same == decks {
		f.ok("decks", "all %d files rendered again: byte for byte", same)
	}
	return nil
}

// verdictsFirst puts the views that people look at first before the others.
func verdictsFirst(names []string) []string {
	var first, rest []string
	for _, n := range names {
		if slices.Contains([]string{"run_status", "cell_status", "tiers", "gates", "check_gates", "data_quality"}, n) {
			first = append(first, n)
		} else {
			rest = append(rest, n)
		}
	}
	return append(first, rest...)
}

// firstDifference says where two pages part; "" if they do not.
func firstDifference(was, now []byte) string {
	if string(was) == string(now) {
		return ""
	}
	n := 0
	for n < len(was) && n < len(now) && was[n] == now[n] {
		n++
	}
	line := strings.Count(string(was[:n]), "\n") + 1
	piece := func(b []byte) string {
		return strings.ToValidUTF8(string(b[max(0, n-20):min(len(b), n+60)]), "")
	}
	return fmt.Sprintf("differs from byte %d, line %d: recorded %q, rendered again %q", n, line, piece(was), piece(now))
}

// verifyManifest checks the run directory's own manifest. What the bundle left
// out is not there to be checked.
func verifyManifest(f *findings, dir, name string, cut map[string]string) error {
	problems, err := artifact.Verify(dir)
	if err != nil {
		return badData("%v", err)
	}
	n := 0
	for _, p := range problems {
		if _, left := cut[path.Join(name, p.Path)]; left && p.Msg == "missing" {
			continue
		}
		n++
		f.bad("run", "%s: %s", path.Join(name, p.Path), p.Msg)
	}
	if n == 0 {
		f.ok("run", "%s: every file is as its own manifest says", name)
	}
	return nil
}

func verifySignoffs(ctx context.Context, e *env, f *findings, dir string, info *evidence.Info, list []packed, cut map[string]string, allowed *signoff.Signers) error {
	for _, p := range list {
		if p.dir == "" {
			continue
		}
		stated := statedOf(p.id, cut)
		if info.Redacted {
			f.note("sign-off", "%s: left out of a redacted bundle", p.id)
			continue
		}
		if err := verifySignoff(ctx, e, f, p.dir, stated, allowed); err != nil {
			return err
		}
	}
	return nil
}

// statedOf are the hashes of those files of a run that are not there whole.
func statedOf(id string, cut map[string]string) signoff.Listing {
	stated := signoff.Listing{}
	prefix := path.Join(evidence.RunsDir, id) + "/"
	for name, sha := range cut {
		if rest, ok := strings.CutPrefix(name, prefix); ok && sha != "" {
			stated[rest] = sha
		}
	}
	return stated
}
