package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	// Replaces files atomically: temporary name, fsync, rename.
	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	evidence "cvs/collect/bundle" // another thing here is called bundle
)

type bundleOptions struct {
	workspace string
	out       string
	maxLog    int64
	redact    bool
	redactKey string
	baselines []string
	engine    bool
}

func (o *bundleOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.workspace, "workspace", "", "`folder` whose cvs_runs holds the runs (default: CVS_WORKSPACE, else the working directory)")
	f.StringVarP(&o.out, "out", "o", "release.cvsz", "write the bundle to `file`")
	f.Int64Var(&o.maxLog, "max-log", 4<<20, "keep at most this many `bytes` of a log, its end; what is cut is listed")
	f.BoolVar(&o.redact, "redact", false, "replace tokens, key paths, user names, hosts and addresses by stable pseudonyms; sign-offs are left out")
	f.StringVar(&o.redactKey, "redact-key", "", "`file` with a secret of the lab, so that pseudonyms are the same in every bundle")
	f.StringArrayVar(&o.baselines, "baseline", nil, "also pack this baseline `file` (may be given several times)")
	f.BoolVar(&o.engine, "with-duckdb", false, "also pack the warehouse as a DuckDB file; two such bundles then differ in bytes")
}

func newBundle(e *env) *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use:   "bundle [flags] RUN…",
		Short: "Pack runs with everything behind their verdict into one file",
		Long: `Packs each RUN (a run directory, a run id of the workspace, "latest", or loose
result files and folders of them) into one zip: raw artefacts, resolved configs,
thresholds and inputs, logs, sign-offs, the rows of every table and view, the
decks, and a manifest of SHA-256. Equal input gives equal bytes.

  cvs verify release.cvsz      check every hash, view and deck again
  cvs replay release.cvsz      make the decks and the warehouse anew
` + exitHelp,
		Args: needArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error { return runBundle(cmd.Context(), e, o, args) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func runBundle(ctx context.Context, e *env, o bundleOptions, args []string) error {
	if o.maxLog < 0 {
		return badInput("--max-log: want 0 or more bytes")
	}
	list, err := packs(e, o, args)
	if err != nil {
		return err
	}
	for _, p := range list {
		if inside(p.dir, o.out) {
			return badInput("-o %s lies inside the run directory %s", o.out, p.dir)
		}
	}
	// The same runs are the same bytes, in whatever order they were named.
	slices.SortStableFunc(list, func(a, b packed) int { return strings.Compare(a.id, b.id) })
	info := evidence.Info{Format: evidence.Format, ToolVersion: toolVersion(), Redacted: o.redact}
	var sources []evidence.Source
	var names *evidence.Redactor // nil: nothing is redacted
	if o.redact {
		tmp, err := os.MkdirTemp("", "cvs-redact-")
		if err != nil {
			return badStore(err)
		}
		defer os.RemoveAll(tmp)
		if list, names, err = redactRuns(e, o, list, tmp, &info); err != nil {
			return err
		}
	}
	for i, p := range list {
		if p.dir == "" {
			for _, f := range p.loose {
				sources = append(sources, evidence.File(f.name, f.path))
			}
			continue
		}
		pk, err := evidence.RunSources(p.dir, p.id, o.maxLog)
		if err != nil {
			return badStore(err)
		}
		sources = append(sources, pk.Sources...)
		info.Omitted, info.Folders = append(info.Omitted, pk.Omitted...), append(info.Folders, pk.Folders...)
		list[i].runs[0].Dir = path.Join(evidence.RunsDir, p.id)
	}
	used, err := o.baselinesGiven(e, names)
	if err != nil {
		return err
	}
	for _, b := range used {
		sources = append(sources, evidence.Bytes(path.Join(evidence.BaselinesDir, b.name), b.data))
	}
	if info.Rendered, err = bundleTime(e, list); err != nil {
		return err
	}
	c, err := compute(ctx, list, used, &info, o.engine)
	if err != nil {
		return err
	}
	sources = append(sources, c...)
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	sources = append(sources, evidence.Bytes(evidence.InfoFile, append(text, '\n')))
	if err := writeBundle(o.out, sources, info.Rendered); err != nil {
		return badStore(err)
	}
	fmt.Fprintf(e.stdout, "%s: %d runs, %d files\n", o.out, len(info.Runs), len(sources)+1)
	for _, om := range info.Omitted {
		fmt.Fprintf(e.stdout, "left out: %s: %s\n", visible(om.Path), om.Why)
	}
	for _, n := range info.Notes {
		fmt.Fprintf(e.stdout, "note: %s\n", visible(n))
	}
	return nil
}

// inside reports whether file lies in dir; "" holds nothing.
func inside(dir, file string) bool {
	if dir == "" {
		return false
	}
	a, err := filepath.Abs(dir)
	b, berr := filepath.Abs(file)
	if err != nil || berr != nil {
		return false
	}
	rel, err := filepath.Rel(a, b)
	return err == nil && filepath.IsLocal(rel)
}

func writeBundle(out string, sources []evidence.Source, modified time.Time) error {
	f, err := renameio.NewPendingFile(out, renameio.WithPermissions(0o644), renameio.WithTempDir(filepath.Dir(out)))
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	defer f.Cleanup() // nothing left to remove once renamed
	if err := evidence.Write(f, sources, modified); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// bundleTime is SOURCE_DATE_EPOCH, else when the last run ended or the last
// decision was taken: never the clock, so that packing twice gives equal bytes.
func bundleTime(e *env, list []packed) (time.Time, error) {
	if e.getenv("SOURCE_DATE_EPOCH") != "" {
		return renderTime(e)
	}
	var last time.Time
	for _, p := range list {
		for _, r := range p.runs {
			times := []*time.Time{r.Meta.StartedAt, r.Meta.EndedAt}
			if r.Decisions != nil {
				for _, d := range r.Decisions.Entries {
					times = append(times, &d.SignedAt)
				}
			}
			for _, t := range times {
				if t != nil && t.After(last) {
					last = *t
				}
			}
		}
	}
	if last.Before(evidence.DefaultTime()) {
		last = evidence.DefaultTime()
	}
	return last.UTC().Truncate(time.Second), nil
}

// redactRuns replaces every pack by a redacted copy below tmp. The redactor has
// learnt the names in them.
func redactRuns(e *env, o bundleOptions, list []packed, tmp string, info *evidence.Info) ([]packed, *evidence.Redactor, error) {
	var key []byte
	if o.redactKey != "" {
		data, err := readInput(o.redactKey, maxInputFile)
		if err != nil {
			return nil, nil, badInput("--redact-key: %v", err)
		}
		if key = bytes.TrimSpace(data); len(key) < 16 {
			return nil, nil, badInput("--redact-key %s: want at least 16 bytes", o.redactKey)
		}
	}
	r := evidence.NewRedactor(key)
	var out []packed
	for i, p := range list {
		dir := filepath.Join(tmp, fmt.Sprint(i), p.id)
		if p.dir != "" {
			left, err := r.RunDir(p.dir, dir, p.id)
			if err != nil {
				return nil, nil, badStore(err)
			}
			info.Omitted = append(info.Omitted, left...)
			q, err := packRunDir(dir)
			if err != nil {
				return nil, nil, err
			}
			out = append(out, q)
			continue
		}
		for _, f := range p.loose {
			data, err := readInput(f.path, maxResultFile)
			if err != nil {
				return nil, nil, badStore(err)
			}
			to := filepath.Join(tmp, fmt.Sprint(i), filepath.FromSlash(strings.TrimPrefix(f.name, evidence.LooseDir+"/")))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return nil, nil, badStore(err)
			}
			if err := os.WriteFile(to, r.JSON(data), 0o644); err != nil {
				return nil, nil, badStore(err)
			}
		}
		q, err := packLoose(e, filepath.Join(tmp, fmt.Sprint(i), p.id))
		if err != nil {
			return nil, nil, err
		}
		out = append(out, q)
	}
	info.Notes = append(info.Notes, "redacted: hashes of raw files are those of the redacted copies, and sign-offs are left out")
	return out, r, nil
}
