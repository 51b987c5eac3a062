package main

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/plan"
	"cvs/collect/strictjson"
	"cvs/templates"
)

// newConfig is the family of commands about input files.
func newConfig(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "List, copy, fill, check and show config, threshold and cluster files",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigList(e), newConfigListDirs(e), newConfigCopy(e), newConfigCheck(e), newConfigShow(e), newConfigSchema(e))
	return cmd
}

type configListOptions struct{ long bool }

func (o *configListOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVarP(&o.long, "long", "l", false, "show profiles, threshold file and what each file is for")
}

func newConfigList(e *env) *cobra.Command {
	var o configListOptions
	cmd := &cobra.Command{
		Use:   "list [flags] [PATH]",
		Short: "List the bundled files, all or those below PATH",
		Example: `  cvs config list
  cvs config list inference/atom
  cvs config list -l cluster_file`,
		Args:              atMost(1),
		ValidArgsFunction: completeStems,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConfigList(cmd.Context(), e, o, strings.Join(args, ""))
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// runConfigList prints files grouped by folder. Below a path without its root's
// name, where one root matches, the root's heading is left out: that is how
// users of the older suite know it.
func runConfigList(_ context.Context, e *env, o configListOptions, below string) error {
	all, err := bundled(templates.Configs())
	if err != nil {
		return err
	}
	found, err := all.below(below)
	if err != nil {
		return err
	}
	roots := found.roots()
	headed := len(roots) > 1 || below == "" || slices.Contains(templates.Roots(), firstSegment(below))
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	indent := ""
	for _, root := range roots {
		if headed {
			fmt.Fprintf(w, "%s:\n", root)
			indent = "  "
		}
		dir := ""
		for _, t := range found {
			if t.root != root {
				continue
			}
			d := path.Dir(t.rel)
			if d != dir && d != "." {
				fmt.Fprintf(w, "%s%s/\n", indent, d)
			}
			dir = d
			fileIndent := indent
			if d != "." {
				fileIndent += "  "
			}
			fmt.Fprintf(w, "%s%s", fileIndent, path.Base(t.rel))
			if o.long {
				fmt.Fprintf(w, "\t%s", t.about())
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}

func newConfigListDirs(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "list-dirs [PATH]",
		Short: "List the folders of the bundled files",
		Args:  atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConfigListDirs(cmd.Context(), e, strings.Join(args, ""))
		},
	}
}

func runConfigListDirs(_ context.Context, e *env, below string) error {
	all, err := bundled(templates.Configs())
	if err != nil {
		return err
	}
	found, err := all.below(below)
	if err != nil {
		return err
	}
	for _, root := range found.roots() {
		fmt.Fprintf(e.stdout, "%s_dirs:\n", root)
		last := ""
		for _, t := range found {
			if d := path.Dir(t.rel); t.root == root && d != last {
				last = d
				fmt.Fprintf(e.stdout, "  %s\n", d)
			}
		}
	}
	return nil
}

// A bundle is a list of shipped files, by root and then by path.
type bundle []template

// A template is one shipped file.
type template struct {
	root string // config_file or cluster_file
	rel  string // below the root, slashes
	data []byte
}

// bundled lists the files of fsys in the order they are shown.
func bundled(fsys fs.FS) (bundle, error) {
	var b bundle
	for _, root := range templates.Roots() {
		err := fs.WalkDir(fsys, root, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(fsys, p)
			b = append(b, template{root, strings.TrimPrefix(p, root+"/"), data})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read bundled files: %w", err)
		}
	}
	sort.SliceStable(b, func(i, j int) bool {
		if b[i].root != b[j].root {
			return false // roots stay in their order
		}
		di, dj := path.Dir(b[i].rel), path.Dir(b[j].rel)
		return di < dj || di == dj && b[i].rel < b[j].rel
	})
	return b, nil
}

func (t template) full() string { return t.root + "/" + t.rel }
func (t template) stem() string { return strings.TrimSuffix(path.Base(t.rel), ".json") }

// threshold reports a threshold file, by the ending that also finds it beside a
// config.
func (t template) threshold() bool { return strings.HasSuffix(t.rel, "threshold.json") }

// about is one line for people: profiles, and what the file is for.
func (t template) about() string {
	v, _, err := strictjson.Parse(t.data, strictjson.Options{})
	if err != nil {
		return err.Error()
	}
	var parts []string
	if p := v.Get("profiles"); p != nil {
		var names []string
		for _, m := range p.Members {
			names = append(names, m.Name)
		}
		parts = append(parts, "profiles "+strings.Join(names, ", "))
	}
	if t.threshold() {
		return strings.Join(append(parts, "thresholds of "+count(cellsOf(v), "cell")), "; ")
	}
	if c := v.Get("_comment"); c != nil && c.Kind == strictjson.String {
		text := c.Text
		if i := strings.Index(text, ". "); i > 0 {
			text = text[:i+1]
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// cellsOf counts the cells of a threshold file, over all its profiles.
func cellsOf(v *strictjson.Value) int {
	n := 0
	for _, m := range v.Members {
		if strings.HasPrefix(m.Name, "ISL=") {
			n++
		}
	}
	if p := v.Get("profiles"); p != nil {
		for _, m := range p.Members {
			n += cellsOf(m.Value)
		}
	}
	return n
}

func (b bundle) roots() []string {
	var out []string
	for _, t := range b {
		if !slices.Contains(out, t.root) {
			out = append(out, t.root)
		}
	}
	return out
}

// below keeps the files at or under p, which may start with a root's name, be a
// folder, a file or a bare stem.
func (b bundle) below(p string) (bundle, error) {
	p = cleanTemplatePath(p)
	if p == "" {
		return b, nil
	}
	var out bundle
	for _, t := range b {
		switch {
		case t.full() == p, t.rel == p, strings.HasPrefix(t.full(), p+"/"), strings.HasPrefix(t.rel, p+"/"),
			t.full() == p+".json", t.rel == p+".json":
			out = append(out, t)
		}
	}
	if len(out) == 0 { // a bare file name or stem, wherever it lies
		for _, t := range b {
			if base := path.Base(t.rel); base == p || t.stem() == p {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return nil, badInput("no bundled file or folder %q%s; 'cvs config list' shows all", p, b.suggest(p))
	}
	return out, nil
}

// suggest names what p may have meant: a stem spelled almost the same, else the
// configs whose stem contains its words.
func (b bundle) suggest(p string) string {
	word := strings.TrimSuffix(path.Base(p), ".json")
	names := templates.Roots()
	for _, t := range b {
		names = append(names, t.stem(), path.Base(path.Dir(t.rel)))
	}
	if n := plan.Nearest(word, names); n != "" {
		return "; did you mean " + n + "?"
	}
	words := strings.FieldsFunc(strings.ToLower(word), func(r rune) bool { return r == '_' || r == '-' })
	var like []string
	for _, t := range b {
		if !t.threshold() && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(t.stem(), w) }) {
			like = append(like, t.stem())
		}
	}
	if len(words) == 0 || len(like) == 0 {
		return ""
	}
	return "; did you mean one of " + strings.Join(like, ", ") + "?"
}

// cleanTemplatePath accepts ./x, x/ and the operating system's habits.
func cleanTemplatePath(p string) string {
	if p == "" {
		return ""
	}
	p = strings.TrimPrefix(path.Clean(strings.ReplaceAll(p, `\`, "/")), "/")
	if p == "." {
		return ""
	}
	return p
}

func firstSegment(p string) string {
	first, _, _ := strings.Cut(cleanTemplatePath(p), "/")
	return first
}

// completeStems completes the path of a bundled file: its stem, or its path as
// soon as a slash was typed.
func completeStems(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	all, err := bundled(templates.Configs())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, t := range all {
		for _, s := range []string{t.stem(), t.rel, t.full()} {
			if strings.HasPrefix(s, typed) && strings.Contains(typed, "/") == strings.Contains(s, "/") {
				out = append(out, s)
			}
		}
	}
	return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
}

// completeProfiles completes --config_profile from the file that --config_file
// names.
func completeProfiles(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	file, err := cmd.Flags().GetString("config_file")
	if err != nil || file == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := profileNames(file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return withPrefix(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// profileNames lists the profiles of a config file, in file order; a file
// without profiles has the implicit one.
func profileNames(file string) ([]string, error) {
	data, err := readInput(file, maxInputFile)
	if err != nil {
		return nil, err
	}
	v, _, err := strictjson.Parse(data, strictjson.Options{MaxBytes: 16 << 20})
	if err != nil {
		return nil, err
	}
	profiles := v.Get("profiles")
	if profiles == nil {
		return []string{"perf"}, nil
	}
	var names []string
	for _, m := range profiles.Members {
		names = append(names, m.Name)
	}
	return names, nil
}

// completeCells completes cell ids of the plan that the command line names.
func completeCells(e *env) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var o inputOptions
		o.config, _ = cmd.Flags().GetString("config_file")
		o.cluster, _ = cmd.Flags().GetString("cluster_file")
		o.profile, _ = cmd.Flags().GetString("config_profile")
		p, err := o.load(e)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, c := range p.Cells {
			ids = append(ids, c.ID)
		}
		return withPrefix(ids, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeSelection registers cell ids for flags that select cells; as above, a
// mistaken name shows as a completion that is missing.
func completeSelection(e *env, cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		_ = cmd.RegisterFlagCompletionFunc(f, completeCells(e))
	}
}

func withPrefix(names []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return !strings.HasPrefix(s, prefix) })
}
