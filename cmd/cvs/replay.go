package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"cvs/collect/artifact"
	evidence "cvs/collect/bundle" // another thing here is called bundle
	"cvs/warehouse"
)

func newReplay(e *env) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "replay [flags] BUNDLE",
		Short: "Make the decks and the warehouse of a bundle anew, from its raw files",
		Long: `Unpacks BUNDLE, loads its raw files into a new warehouse, judges them with the
views of this version of cvs and writes a deck for every run. Nothing but this
program is needed. What the bundle recorded is not used: cvs verify compares.
` + exitHelp,
		Args: needAll("BUNDLE"),
		RunE: func(cmd *cobra.Command, args []string) error { return runReplay(cmd.Context(), e, out, args[0]) },
	}
	cmd.Flags().StringVarP(&out, "out", "o", "cvs-replay", "new or empty `folder` for decks and warehouse")
	return cmd
}

func runReplay(ctx context.Context, e *env, out, file string) error {
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return badInput("-o %s is not empty", out)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return badInput("-o: %v", err)
	}
	dir, info, done, err := openBundle(ctx, file)
	if err != nil {
		return err
	}
	defer done()
	list, err := unpacked(e, dir, info)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return badStore(err)
	}
	store := filepath.Join(out, "cvs.duckdb")
	if err := writeWarehouse(ctx, store, list); err != nil {
		return err
	}
	db, err := openStore(ctx, store, warehouse.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	used, err := baselinesIn(dir)
	if err != nil {
		return err
	}
	source := comparedWithin(db, used)
	made := *info
	made.ToolVersion = toolVersion() // of the program that makes this deck
	for _, r := range info.Runs {
		if r.Deck == "" {
			continue
		}
		deck, sidecar, err := renderRun(ctx, source, r.ID, &made)
		if err != nil {
			return err
		}
		folder := filepath.Join(out, artifact.SafeName(r.ID))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return badStore(err)
		}
		for name, data := range map[string][]byte{deckName: deck, "atom_run_deck.json": sidecar} {
			if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
				return badStore(err)
			}
		}
		fmt.Fprintln(e.stdout, filepath.Join(folder, deckName))
	}
	fmt.Fprintf(e.stdout, "%s: %d runs\n", store, len(info.Runs))
	if info.Redacted {
		fmt.Fprintln(e.stdout, "redacted: names, addresses and secrets are pseudonyms")
	}
	return nil
}

// openBundle unpacks a bundle into a folder of its own, which done removes; an
// unpacked one is copied there.
func openBundle(ctx context.Context, file string) (dir string, info *evidence.Info, done func(), err error) {
	st, err := os.Stat(file)
	if err != nil {
		return "", nil, nil, badInput("%v", err)
	}
	tmp, err := os.MkdirTemp("", "cvs-bundle-")
	if err != nil {
		return "", nil, nil, badStore(err)
	}
	remove := func() { os.RemoveAll(tmp) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if st.IsDir() {
		if err := os.CopyFS(tmp, os.DirFS(file)); err != nil {
			return "", nil, nil, badStore(fmt.Errorf("read bundle %s: %w", file, err))
		}
	} else if err := regular(file); err != nil {
		return "", nil, nil, badInput("%v", err)
	} else if err := evidence.Extract(ctx, file, tmp, evidence.DefaultLimits()); err != nil {
		if ctx.Err() != nil {
			return "", nil, nil, ctx.Err()
		}
		return "", nil, nil, badData("%s: %v", file, err)
	}
	if info, err = evidence.ReadInfo(tmp); err != nil {
		return "", nil, nil, badData("%s: %v", file, err)
	}
	return tmp, info, remove, nil
}

// unpacked lists the runs of an unpacked bundle as they were when it was packed.
func unpacked(e *env, dir string, info *evidence.Info) ([]packed, error) {
	if err := evidence.Restore(dir, info); err != nil {
		return nil, badData("%v", err)
	}
	cut := map[string]string{}
	for _, o := range info.Omitted {
		cut[o.Path] = o.SHA256
	}
	var out []packed
	for _, r := range info.Runs {
		if r.Dir == "" {
			continue
		}
		p, err := packRunDirStated(filepath.Join(dir, filepath.FromSlash(r.Dir)), statedOf(r.ID, cut))
		if err != nil {
			return nil, err
		}
		if p.id != r.ID {
			return nil, badData("%s: run.json names run %s, %s names %s", r.Dir, p.id, evidence.InfoFile, r.ID)
		}
		p.runs[0].Dir = r.Dir
		out = append(out, p)
	}
	entries, err := os.ReadDir(filepath.Join(dir, evidence.LooseDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, badStore(err)
	}
	for _, d := range entries {
		p, err := packLoose(e, filepath.Join(dir, evidence.LooseDir, d.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// shorten cuts a temporary folder off messages about what lay in it.
func shorten(msg, dir string) string {
	return strings.ReplaceAll(msg, dir+string(filepath.Separator), "")
}
