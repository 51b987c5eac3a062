package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/strictjson"
	"cvs/templates"
)

type configCopyOptions struct {
	output     string
	all, force bool
	set, unset []string
}

func (o *configCopyOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "`folder`, or a file name that ends in .json")
	f.BoolVar(&o.all, "all", false, "copy every bundled file")
	f.BoolVar(&o.force, "force", false, "replace files that exist")
	f.StringArrayVar(&o.set, "set", nil, "`FIELD=VALUE` to fill in, repeatable; FIELD is dotted, or a placeholder such as '<changeme-models-mount>'")
	f.StringArrayVar(&o.unset, "unset", nil, "dotted `FIELD` to leave out, repeatable")
}

func newConfigCopy(e *env) *cobra.Command {
	var o configCopyOptions
	cmd := &cobra.Command{
		Use:   "copy [flags] PATH…",
		Short: "Copy bundled files, each config with its threshold file, and fill in fields",
		Long: `Copy bundled files. A config brings the threshold file it names; when several
meet in one folder, each pair gets a folder of its own, named after the config.

A field of --set keeps its kind: what is text stays text. In a file with
profiles, a field that lies in the profiles is set in each of them; name
profiles.<name>.… for one. Keys that hold dots may stand in double quotes.`,
		Example: `  cvs config copy mi3xx_atom_deepseek-r1_fp8_single --output sweep \
      --set '<changeme-models-mount>=/data/models' --set container.image=rocm/atom-dev:v2
  cvs config copy cluster_file/atom_cluster.json --output cluster.json \
      --set '{head-node-ip}=10.0.0.1' --unset 'node_dict.{worker-node-ip}'
  cvs config copy --all --output input`,
		ValidArgsFunction: completeStems,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConfigCopy(cmd.Context(), e, o, args)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// runConfigCopy decides everything before it writes anything.
func runConfigCopy(_ context.Context, e *env, o configCopyOptions, paths []string) error {
	switch {
	case o.all && len(paths) > 0:
		return badInput("--all copies everything; name no file with it")
	case !o.all && len(paths) == 0:
		return badInput("name a bundled file, or --all; 'cvs config list' shows them")
	case o.output == "":
		return badInput("--output is required")
	}
	edits, err := parseEdits(o.set, o.unset)
	if err != nil {
		return err
	}
	all, err := bundled(templates.Configs())
	if err != nil {
		return err
	}
	pairs, err := all.pairs(paths)
	if err != nil {
		return err
	}
	if err := pairs.edit(edits, e); err != nil {
		return err
	}
	files, err := pairs.place(o)
	if err != nil {
		return err
	}
	written, err := writeAll(files, o.force)
	if err != nil {
		return err
	}
	for _, f := range files {
		verb := "wrote"
		if !slices.Contains(written, f.path) {
			verb = "kept " // the same bytes were there
		}
		fmt.Fprintf(e.stdout, "%s %s\n", verb, f.path)
		for _, field := range toFill(f.data) {
			fmt.Fprintf(e.stdout, "      to fill: %s\n", field)
		}
		if f.note != "" {
			fmt.Fprintf(e.stdout, "      note: %s\n", f.note)
		}
	}
	return nil
}

// A pair is a file to copy and, for a config, its threshold file.
type pair struct {
	template
	thresholdName string // "" when the file names none
	thresholdData []byte
}

type pairs []pair

// pairs selects what the paths name; no path means everything. A threshold file
// comes with its config and is a pair of its own only when it is named itself.
func (b bundle) pairs(paths []string) (pairs, error) {
	var out pairs
	add := func(t template) error {
		if slices.ContainsFunc(out, func(p pair) bool { return p.full() == t.full() }) {
			return nil
		}
		p := pair{template: t}
		v, _, err := strictjson.Parse(t.data, strictjson.Options{})
		if err != nil {
			return fmt.Errorf("bundled %s: %w", t.full(), err)
		}
		if name := v.Get("threshold_json"); name != nil {
			i := slices.IndexFunc(b, func(o template) bool {
				return o.root == t.root && o.rel == path.Join(path.Dir(t.rel), name.Text)
			})
			if i < 0 {
				return fmt.Errorf("bundled %s names %q, which is not bundled", t.full(), name.Text)
			}
			p.thresholdName, p.thresholdData = name.Text, b[i].data
		}
		out = append(out, p)
		return nil
	}
	if len(paths) == 0 {
		paths = []string{""}
	}
	for _, arg := range paths {
		found, err := b.below(arg)
		if err != nil {
			return nil, err
		}
		if base := strings.TrimSuffix(path.Base(cleanTemplatePath(arg)), ".json"); len(found) > 1 && found[0].stem() == base {
			return nil, badInput("%q may be any of %s; name the folder too", arg, strings.Join(found.fulls(), ", "))
		}
		for _, t := range found {
			if t.threshold() && len(found) > 1 {
				continue
			}
			if err := add(t); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (b bundle) fulls() []string {
	var out []string
	for _, t := range b {
		out = append(out, t.full())
	}
	return out
}

// edit applies each edit to every file that has the field. A field that no
// file has is added only where a single file was asked for: with several it is
// not clear to which it belongs.
func (ps pairs) edit(edits []edit, e *env) error {
	for _, ed := range edits {
		hits := 0
		var missing error
		for i := range ps {
			p := &ps[i]
			out, added, err := ed.apply(p.data, len(ps) == 1)
			var none *noFieldError
			switch {
			case errors.As(err, &none):
				missing = fmt.Errorf("%s: %w", p.full(), err)
				continue
			case err != nil:
				return badInput("--set %s: %s: %v", ed.text, p.full(), err)
			case added:
				fmt.Fprintf(e.stderr, "note: %s had no %s; it was added\n", path.Base(p.rel), strings.Join(ed.path, "."))
			}
			p.data = out
			hits++
		}
		if hits == 0 && missing != nil {
			flag := "--set"
			if ed.unset {
				flag = "--unset"
			}
			if len(ps) > 1 {
				missing = fmt.Errorf("none of the %d files has this field (%w)", len(ps), missing)
			}
			return badInput("%s %s: %v", flag, ed.text, missing)
		}
	}
	return nil
}

// A placed file is one to write.
type placed struct {
	path string
	data []byte
	note string
}

// archName is what gpu_arch is inferred from.
var archName = regexp.MustCompile(`^[a-z0-9]+_atom_`)

// place gives every file its path.
func (ps pairs) place(o configCopyOptions) ([]placed, error) {
	single := len(ps) == 1 && !o.all
	asFile := strings.HasSuffix(o.output, ".json")
	if st, err := os.Stat(o.output); err == nil && st.IsDir() {
		asFile = false
	} else if err == nil && !asFile {
		return nil, badInput("--output %s is a file; name a folder, or a file that ends in .json", o.output)
	}
	if asFile && !single {
		return nil, badInput("--output %s is one file, and %d are to be copied; name a folder", o.output, len(ps))
	}
	var out []placed
	for _, p := range ps {
		dir := o.output
		if o.all {
			dir = filepath.Join(dir, p.root, filepath.FromSlash(path.Dir(p.rel)))
		}
		name := path.Base(p.rel)
		if asFile {
			dir, name = filepath.Split(o.output)
		}
		threshold, err := p.threshold()
		if err != nil {
			return nil, err
		}
		if threshold != "" && !asFile {
			crowded, err := holdsOtherThresholds(dir, threshold)
			if err != nil {
				return nil, err
			}
			if !single || crowded {
				dir = filepath.Join(dir, p.stem())
			}
		}
		f := placed{path: filepath.Join(dir, name), data: p.data}
		if p.root == "config_file" && !p.template.threshold() && !archName.MatchString(name) && !hasField(p.data, "gpu_arch") {
			f.note = "gpu_arch cannot be read off this file name; add --set gpu_arch=mi3xx, or name it {gpu}_atom_….json"
		}
		out = append(out, f)
		if threshold != "" {
			out = append(out, placed{path: filepath.Join(dir, threshold), data: p.thresholdData})
		}
	}
	return out, nil
}

// threshold is the name of the threshold file as the edited config has it.
func (p pair) threshold() (string, error) {
	if p.thresholdName == "" {
		return "", nil
	}
	v, _, err := strictjson.Parse(p.data, strictjson.Options{})
	if err != nil {
		return "", err
	}
	name := v.Get("threshold_json")
	if name == nil || name.Kind != strictjson.String || name.Text == "" {
		return p.thresholdName, nil
	}
	if name.Text != filepath.Base(name.Text) || name.Text == ".." || name.Text == "." {
		return "", badInput("threshold_json %q: a threshold file lies beside its config; give a plain file name", name.Text)
	}
	return name.Text, nil
}

func hasField(doc []byte, name string) bool {
	v, _, err := strictjson.Parse(doc, strictjson.Options{})
	return err == nil && v.Get(name) != nil
}

// holdsOtherThresholds reports whether a folder has a threshold file of another
// name: a second one beside it would be ambiguous to the older suite.
func holdsOtherThresholds(dir, name string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, badStore(fmt.Errorf("look into the output folder: %w", err))
	}
	return slices.ContainsFunc(entries, func(d fs.DirEntry) bool {
		return strings.HasSuffix(d.Name(), "threshold.json") && d.Name() != name
	}), nil
}

// writeAll writes all files or none: existing ones are found first, each file
// is staged beside its place, and only then are they renamed. It returns the
// paths that changed.
func writeAll(files []placed, force bool) (written []string, err error) {
	var todo []placed
	var clash []string
	fresh := map[string]bool{} // did not exist before
	for _, f := range files {
		old, err := os.ReadFile(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fresh[f.path] = true
		case err != nil:
			return nil, badStore(err)
		case bytes.Equal(old, f.data):
			continue
		case !force:
			clash = append(clash, f.path)
			continue
		}
		todo = append(todo, f)
	}
	if len(clash) > 0 {
		return nil, badInput("these files exist and differ; nothing was written (--force replaces them):\n  %s", strings.Join(clash, "\n  "))
	}
	var staged []*renameio.PendingFile
	defer func() {
		for _, s := range staged {
			_ = s.Cleanup() // nothing to do after a successful rename
		}
		if err != nil {
			for _, p := range written {
				if fresh[p] {
					_ = os.Remove(p)
				}
			}
			written = nil
		}
	}()
	for _, f := range todo {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return nil, badStore(err)
		}
		s, err := renameio.NewPendingFile(f.path, renameio.WithPermissions(0o644))
		if err != nil {
			return nil, badStore(err)
		}
		staged = append(staged, s)
		if _, err := s.Write(f.data); err != nil {
			return nil, badStore(fmt.Errorf("write %s: %w", f.path, err))
		}
	}
	for i, s := range staged {
		if err := s.CloseAtomicallyReplace(); err != nil {
			return written, badStore(err)
		}
		written = append(written, todo[i].path)
	}
	return written, nil
}
