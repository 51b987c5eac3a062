package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	// A lock that is let go by the system when its holder dies.
	"github.com/gofrs/flock"
	// Replaces files atomically: temporary name, fsync, rename.
	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/render"
	"cvs/warehouse"
)

const (
	entryName   = "entry.json"
	publishLock = ".cvs-publish.lock"
	// maxEntry bounds what is read of another publisher's entry.
	maxEntry = 16 << 20
)

type publishOptions struct {
	store    storeOptions
	to       string
	all      bool
	keep     int
	snapshot bool
	assets   string
	wait     time.Duration
}

func (o *publishOptions) addFlags(f *pflag.FlagSet) {
	o.store.addFlags(f)
	f.StringVar(&o.to, "to", "", "publish into `folder`, usually on a shared drive")
	f.BoolVar(&o.all, "all", false, "publish every run of the warehouse")
	f.IntVar(&o.keep, "keep", 0, "keep only the newest `n` published runs of each configuration (0: all)")
	f.BoolVar(&o.snapshot, "snapshot", false, "also copy the warehouse into the folder")
	f.StringVar(&o.assets, "assets", assetsInPages, "`how` pages have style, script and chart library: self-contained, or shared files under assets/")
	f.DurationVar(&o.wait, "wait", time.Minute, "how long to wait for another publisher")
}

func newPublish(e *env) *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:   "publish RUN... | latest | --all --to DIR",
		Short: "Put runs' decks and an index page on a shared drive",
		Long: `Writes the deck and the sidecar of each run into DIR/runs/<run>, and renews
DIR/index.html and one history page per configuration. Every file is replaced
as a whole, so that readers never see half a page, and several publishers take
turns. Runs that others published into DIR stay. --keep removes older published
runs of each configuration from DIR, never from the warehouse.

With --assets shared the pages take style, script and chart library from
DIR/assets, where each is one file named by its hash: a deck is three quarters
of a megabyte smaller, and cannot be sent on by itself. Decks of both kinds can
stand side by side; a file that no page needs any more is removed.
` + exitHelp,
		RunE: func(cmd *cobra.Command, args []string) error { return runPublish(cmd.Context(), e, o, args) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func runPublish(ctx context.Context, e *env, o publishOptions, args []string) error {
	switch {
	case o.to == "":
		return badInput("--to is required: the folder to publish into")
	case o.all == (len(args) > 0):
		return badInput("name the runs to publish, or give --all")
	case o.keep < 0:
		return badInput("--keep %d: want 0 or more", o.keep)
	}
	shared, err := o.shared()
	if err != nil {
		return err
	}
	now, err := renderTime(e)
	if err != nil {
		return err
	}
	db, err := readStore(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer db.Close()
	var ids []string
	if o.all {
		if ids, err = db.RunIDs(ctx, 0); err != nil {
			return badStore(err)
		}
		if len(ids) == 0 {
			return badData("the warehouse holds no run; load one with: cvs load cvs_runs/")
		}
	}
	for _, want := range args {
		id, err := findRun(ctx, db, want)
		if err != nil {
			return err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	s := shelf{e: e, dir: o.to, opts: render.Options{Now: now, ToolVersion: toolVersion(), Shared: shared}}
	unlock, err := s.lock(ctx, o.wait)
	if err != nil {
		return err
	}
	defer unlock()
	if s.assets, err = s.putAssets(); err != nil {
		return err
	}
	for _, id := range ids {
		path, err := s.put(ctx, db, id)
		if err != nil {
			return err
		}
		fmt.Fprintln(e.stdout, path)
	}
	if o.snapshot {
		if err := s.copyFile(o.store.path(e), filepath.Join(s.dir, "warehouse", filepath.Base(o.store.path(e)))); err != nil {
			return badStore(fmt.Errorf("copy the warehouse: %w", err))
		}
	}
	removed, err := s.renew(o.keep)
	if err != nil {
		return err
	}
	for _, r := range removed {
		fmt.Fprintf(e.stdout, "removed %s\n", visible(r))
	}
	fmt.Fprintf(e.stdout, "index: %s\n", filepath.Join(s.dir, "index.html"))
	return nil
}

type unpublishOptions struct {
	to   string
	wait time.Duration
}

func newUnpublish(e *env) *cobra.Command {
	var o unpublishOptions
	cmd := &cobra.Command{
		Use:   "unpublish RUN... --to DIR",
		Short: "Take published runs off a shared drive",
		Long: `Removes the pages of each run from DIR and renews the index. The warehouse and
the run directories are not touched.
` + exitHelp,
		Args: needArgs("the runs to remove"),
		RunE: func(cmd *cobra.Command, args []string) error { return runUnpublish(cmd.Context(), e, o, args) },
	}
	cmd.Flags().StringVar(&o.to, "to", "", "the `folder` they were published into")
	cmd.Flags().DurationVar(&o.wait, "wait", time.Minute, "how long to wait for another publisher")
	return cmd
}

func runUnpublish(ctx context.Context, e *env, o unpublishOptions, args []string) error {
	if o.to == "" {
		return badInput("--to is required: the folder they were published into")
	}
	if _, err := os.Stat(o.to); err != nil {
		return badInput("%v", err)
	}
	now, err := renderTime(e)
	if err != nil {
		return err
	}
	s := shelf{e: e, dir: o.to, opts: render.Options{Now: now, ToolVersion: toolVersion()}}
	unlock, err := s.lock(ctx, o.wait)
	if err != nil {
		return err
	}
	defer unlock()
	entries, _, err := s.entries()
	if err != nil {
		return err
	}
	var folders []string
	for _, id := range args {
		i := slices.IndexFunc(entries, func(x render.Entry) bool { return x.RunID == id })
		if i < 0 {
			return badInput("run %q is not published in %s; nothing was removed", id, o.to)
		}
		folders = append(folders, entries[i].Folder)
	}
	// The pages around the decks stay of the kind that they are.
	index, err := readPage(filepath.Join(s.dir, "index.html"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return badStore(err)
	}
	s.opts.Shared = len(render.AssetsIn(index)) > 0
	if s.assets, err = s.putAssets(); err != nil {
		return err
	}
	if err := s.remove(entries, folders); err != nil {
		return err
	}
	for _, f := range folders {
		fmt.Fprintf(e.stdout, "removed %s\n", f)
	}
	return nil
}

// A shelf is a folder with published runs.
type shelf struct {
	e    *env
	dir  string
	opts render.Options
	// assets are the names of the files that its pages share.
	assets []string
}

// lock makes publishers take turns.
func (s shelf) lock(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(s.dir, "runs"), 0o755); err != nil {
		return nil, badStore(err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l := flock.New(filepath.Join(s.dir, publishLock))
	ok, err := l.TryLockContext(ctx, 100*time.Millisecond)
	if err != nil || !ok {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("another publisher holds %s for more than %s", l.Path(), wait)
		}
		return nil, badStore(fmt.Errorf("lock the published folder: %w", err))
	}
	return func() { l.Unlock() }, nil // the system lets go of it at the latest with the process
}

// put writes one run's pages, its entry last: what an index can list is whole.
func (s shelf) put(ctx context.Context, db *warehouse.DB, runID string) (string, error) {
	data, err := render.Query(ctx, &deckSource{Compared: &warehouse.Compared{DB: db}}, runID)
	if err != nil {
		return "", badStore(fmt.Errorf("read the views for the deck: %w", err))
	}
	if err := review(ctx, s.e, db, data, s.opts.Now); err != nil {
		return "", err
	}
	entry := render.EntryOf(data, s.opts)
	entry.Assets = s.assets
	dir := filepath.Join(s.dir, "runs", entry.Folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", badStore(err)
	}
	if err := render.WriteFile(filepath.Join(dir, render.DeckName), render.Build(data, s.opts)); err != nil {
		return "", badStore(err)
	}
	if err := render.WriteJSONFile(filepath.Join(dir, render.SidecarName), data, s.opts); err != nil {
		return "", badStore(err)
	}
	b, err := json.MarshalIndent(entry, "", " ")
	if err != nil {
		return "", fmt.Errorf("write the entry of run %s: %w", runID, err)
	}
	if err := s.replace(filepath.Join(dir, entryName), func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err }); err != nil {
		return "", err
	}
	return filepath.Join(dir, render.DeckName), nil
}

// entries reads what is published; what cannot be read is told in words.
func (s shelf) entries() (entries []render.Entry, problems []string, err error) {
	dirs, err := os.ReadDir(filepath.Join(s.dir, "runs"))
	if err != nil {
		return nil, nil, badStore(err)
	}
	for _, d := range dirs {
		// Others may put what they like into a shared folder; a name that is not
		// one of ours is no run and never becomes a link.
		if !d.IsDir() || render.FolderName(d.Name()) != d.Name() {
			continue
		}
		x, err := readEntry(filepath.Join(s.dir, "runs", d.Name(), entryName))
		if errors.Is(err, fs.ErrNotExist) {
			continue // being written, or left by a publisher that died: not published
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("runs/%s is not listed: %v", d.Name(), err))
			continue
		}
		x.Folder = d.Name()
		entries = append(entries, x)
	}
	return entries, problems, nil
}

func readEntry(path string) (render.Entry, error) {
	var x render.Entry
	f, err := os.Open(path)
	if err != nil {
		return x, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEntry+1))
	if err != nil {
		return x, err
	}
	if len(b) > maxEntry {
		return x, fmt.Errorf("%s is larger than %d bytes", entryName, maxEntry)
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return x, fmt.Errorf("%s: %w", entryName, err)
	}
	if x.Version != 1 {
		return x, fmt.Errorf("%s has version %d; this program knows 1", entryName, x.Version)
	}
	return x, nil
}

// renew rewrites the pages around the decks, and with keep > 0 first takes away
// all but the newest runs of each configuration. It returns the runs it removed.
func (s shelf) renew(keep int) ([]string, error) {
	entries, problems, err := s.entries()
	if err != nil {
		return nil, err
	}
	var folders, removed []string
	if keep > 0 {
		for _, group := range render.ByConfiguration(entries) {
			for _, x := range group[min(keep, len(group)):] {
				folders, removed = append(folders, x.Folder), append(removed, x.RunID)
			}
		}
	}
	if len(folders) > 0 {
		return removed, s.remove(entries, folders)
	}
	if err := s.pages(entries, problems); err != nil {
		return nil, err
	}
	return nil, s.collect(entries)
}

// remove takes runs off the shelf: out of the index first, so that no page
// leads to what is gone.
func (s shelf) remove(entries []render.Entry, folders []string) error {
	left := slices.DeleteFunc(slices.Clone(entries), func(x render.Entry) bool { return slices.Contains(folders, x.Folder) })
	_, problems, err := s.entries()
	if err != nil {
		return err
	}
	if err := s.pages(left, problems); err != nil {
		return err
	}
	for _, f := range folders {
		dir := filepath.Join(s.dir, "runs", f)
		// Without its entry a folder is not published, however far removing comes.
		if err := os.Remove(filepath.Join(dir, entryName)); err != nil {
			return badStore(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return badStore(err)
		}
	}
	return s.collect(left)
}

// pages writes the histories and then the index that leads to them, and removes
// histories of configurations that are gone.
func (s shelf) pages(entries []render.Entry, problems []string) error {
	dir := filepath.Join(s.dir, "history")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badStore(err)
	}
	live := map[string]bool{}
	for _, group := range render.ByConfiguration(entries) {
		name := group[0].HistoryName()
		live[name] = true
		if err := s.replace(filepath.Join(dir, name), func(w io.Writer) error { return render.WriteHistory(w, group, s.opts) }); err != nil {
			return err
		}
	}
	if err := s.replace(filepath.Join(s.dir, "index.html"), func(w io.Writer) error { return render.WriteIndex(w, entries, problems, s.opts) }); err != nil {
		return err
	}
	old, err := os.ReadDir(dir)
	if err != nil {
		return badStore(err)
	}
	for _, f := range old {
		if filepath.Ext(f.Name()) == ".html" && !live[f.Name()] {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return badStore(err)
			}
		}
	}
	return nil
}

// replace writes a file as a whole or not at all.
func (s shelf) replace(path string, write func(io.Writer) error) error {
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return badStore(fmt.Errorf("write %s: %w", path, err))
	}
	defer f.Cleanup() // nothing to tell: the rename itself is reported
	if err := write(f); err != nil {
		return badStore(fmt.Errorf("write %s: %w", path, err))
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return badStore(fmt.Errorf("write %s: %w", path, err))
	}
	return nil
}

// copyFile copies a warehouse that is open for reading, which keeps writers
// away from it.
func (s shelf) copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	return s.replace(to, func(w io.Writer) error { _, err := io.Copy(w, src); return err })
}
