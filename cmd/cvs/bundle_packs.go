package main

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cvs/collect/artifact"
	evidence "cvs/collect/bundle" // another thing here is called bundle
	"cvs/collect/plan"
	"cvs/collect/signoff"
)

// A packed is one thing that a bundle is made of.
type packed struct {
	id    string
	dir   string          // run directory on disk; "" for loose results
	runs  []*artifact.Run // loose ones; one for a run directory
	loose []looseFile     // files behind loose runs
}

type looseFile struct{ name, path string }

// runDirs resolves RUN arguments that must be run directories.
func runDirs(e *env, workspaceFlag string, args []string) ([]string, error) {
	var dirs []string
	for _, arg := range args {
		dir, err := runDirOf(e, workspaceFlag, arg)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// runDirOf finds the run directory that an argument means: a path, a run id of
// the workspace, a prefix that only one has, or "latest".
func runDirOf(e *env, workspaceFlag, arg string) (string, error) {
	if artifact.IsRunDir(arg) {
		return filepath.Clean(arg), nil
	}
	root := filepath.Join(workspace(e, workspaceFlag), "cvs_runs")
	all, err := artifact.FindRuns(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", badStore(err)
	}
	if len(all) == 0 {
		return "", badInput("%s is no run directory, and %s holds none", arg, root)
	}
	if arg == "latest" {
		return all[len(all)-1], nil // ids sort by time
	}
	var ids, hits []string
	for _, dir := range all {
		id := filepath.Base(dir)
		if id == arg {
			return dir, nil
		}
		if strings.HasPrefix(id, arg) {
			hits = append(hits, dir)
		}
		ids = append(ids, id)
	}
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		return "", badInput("no run %q in %s; the nearest is %s", arg, root, plan.Nearest(arg, ids))
	}
	return "", badInput("run %q is ambiguous: %d runs start with it", arg, len(hits))
}

// packs resolves the arguments of bundle.
func packs(e *env, o bundleOptions, args []string) ([]packed, error) {
	var out []packed
	seen := map[string]string{}
	add := func(p packed) error {
		if other, twice := seen[p.id]; twice && other != p.dir {
			return badInput("two runs have the id %s", p.id)
		} else if twice {
			return nil
		}
		seen[p.id] = p.dir
		out = append(out, p)
		return nil
	}
	for _, arg := range args {
		if _, err := os.Stat(arg); err == nil && !artifact.IsRunDir(arg) {
			dirs, err := artifact.FindRuns(arg)
			if err != nil {
				dirs = nil // a file
			}
			for _, dir := range dirs {
				p, err := packRunDir(dir)
				if err != nil {
					return nil, err
				}
				if err := add(p); err != nil {
					return nil, err
				}
			}
			if len(dirs) > 0 {
				continue
			}
			p, err := packLoose(e, arg)
			if err != nil {
				return nil, err
			}
			if err := add(p); err != nil {
				return nil, err
			}
			continue
		}
		dir, err := runDirOf(e, o.workspace, arg)
		if err != nil {
			return nil, err
		}
		p, err := packRunDir(dir)
		if err != nil {
			return nil, err
		}
		if err := add(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func packRunDir(dir string) (packed, error) { return packRunDirStated(dir, nil) }

// packRunDirStated takes the hashes that are stated of files that are not there
// whole.
func packRunDirStated(dir string, stated signoff.Listing) (packed, error) {
	r, err := readRunAgainst(dir, signoff.Against{Stated: stated})
	if err != nil {
		return packed{}, badData("%v", err)
	}
	if r.Meta.RunID == "" || r.Meta.RunID != artifact.SafeName(r.Meta.RunID) {
		return packed{}, badData("%s: run.json has no usable run id", dir)
	}
	return packed{id: r.Meta.RunID, dir: dir, runs: []*artifact.Run{r}}, nil
}

// packLoose takes a result file, or a folder of them. Every file of the folder
// goes along; a bundle is opened by the same loader.
func packLoose(e *env, arg string) (packed, error) {
	p := packed{id: artifact.SafeName(filepath.Base(filepath.Clean(arg)))}
	st, err := os.Stat(arg)
	if err != nil {
		return p, badStore(err)
	}
	if !st.IsDir() {
		if err := regular(arg); err != nil {
			return p, badInput("%v", err)
		}
		p.loose = append(p.loose, looseFile{path.Join(evidence.LooseDir, p.id), arg})
	} else {
		err := filepath.WalkDir(arg, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
				return err
			}
			rel, err := filepath.Rel(arg, file)
			if err != nil {
				return err
			}
			p.loose = append(p.loose, looseFile{path.Join(evidence.LooseDir, p.id, filepath.ToSlash(rel)), file})
			return nil
		})
		if err != nil {
			return p, badStore(err)
		}
	}
	found, err := runsAt(e, arg)
	if err != nil {
		return p, err
	}
	if p.runs, err = usableRuns(found, arg, path.Join(evidence.LooseDir, p.id)); err != nil {
		return p, err
	}
	if len(p.runs) == 0 {
		return p, badData("%s: no result in it is one that cvs reads", arg)
	}
	return p, nil
}

// usableRuns keeps what could be read and says where it stands in the bundle
// instead of where it stood on this machine.
func usableRuns(found []loadedRun, from, name string) ([]*artifact.Run, error) {
	var out []*artifact.Run
	for _, f := range found {
		var skipped *skippedError
		switch {
		case errors.As(f.err, &skipped):
			continue
		case f.err != nil:
			return nil, f.err
		}
		relocate(f.run, from, name)
		out = append(out, f.run)
	}
	return out, nil
}

// relocate replaces the place a run was read from by its place in the bundle: a
// view's rows must not depend on the machine.
func relocate(r *artifact.Run, from, name string) {
	swap := func(s string) string {
		if s == from {
			return name
		}
		if rest, ok := strings.CutPrefix(s, strings.TrimSuffix(from, "/")+"/"); ok {
			return path.Join(name, rest)
		}
		return s
	}
	r.Dir = swap(r.Dir)
	for _, list := range [][]artifact.Result{r.Results, r.Superseded, r.Accuracy, r.Checks} {
		for i := range list {
			list[i].Path = swap(list[i].Path)
		}
	}
	for i := range r.Problems {
		r.Problems[i].Path = swap(r.Problems[i].Path)
	}
	for i := range r.Meta.Inputs {
		r.Meta.Inputs[i].Path = swap(r.Meta.Inputs[i].Path)
	}
}
