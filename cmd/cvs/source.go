package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect"
	"cvs/collect/artifact"
	"cvs/collect/plan"
	"cvs/collect/signoff"
	"cvs/collect/strictjson"
	"cvs/warehouse"
	"cvs/warehouse/ingest"
)

// inputOptions name the three input files; several commands share them.
type inputOptions struct {
	config, cluster, profile string
	matchLengths             bool // of run
	sshConfig                bool // there is an --ssh_config, which may name a key
}

func (o *inputOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.config, "config_file", "", "sweep config, JSON `file`")
	f.StringVar(&o.cluster, "cluster_file", "", "cluster, JSON `file`")
	f.StringVar(&o.profile, "config_profile", "", "profile of the config (default: CVS_CONFIG_PROFILE, the file's default_profile, then perf)")
}

// profileGiven reports a --config_profile that was written but is empty, which
// is a mistake and not the same as leaving it out.
func emptyProfile(cmd *cobra.Command, o inputOptions) error {
	if f := cmd.Flags().Lookup("config_profile"); f != nil && f.Changed && strings.TrimSpace(o.profile) == "" {
		return badInput("--config_profile is empty; leave it out for the default profile, or name one")
	}
	return nil
}

// load reads the input files; every problem of all of them is in the error.
func (o *inputOptions) load(e *env) (*plan.Plan, error) {
	if o.config == "" {
		return nil, badInput("--config_file is required")
	}
	return plan.Load(plan.Options{
		ConfigFile: o.config, ClusterFile: o.cluster, Profile: o.profile,
		EnvProfile: e.getenv("CVS_CONFIG_PROFILE"), OSUser: e.osUser(), MatchLengths: o.matchLengths,
		OtherLogin: o.otherLogin(e),
	})
}

// otherLogin says whether something beside the cluster file may log in.
func (o *inputOptions) otherLogin(e *env) bool {
	return o.sshConfig || e.getenv("SSH_AUTH_SOCK") != "" || e.getenv(passwordEnv) != ""
}

// runOfPlan is the run directory's view of a plan: what was asked for.
func runOfPlan(p *plan.Plan) *artifact.Run {
	meta := collect.NewMeta(p)
	meta.FormatVersion, meta.Status, meta.ToolVersion = artifact.FormatVersion, artifact.Done, toolVersion()
	r := &artifact.Run{Meta: meta, Thresholds: artifact.Thresholds{Specs: p.Thresholds}, Config: p.Resolved}
	for _, s := range []struct {
		kind string
		src  plan.Source
	}{{"config", p.Config}, {"thresholds", p.Threshold}, {"cluster", p.ClusterSrc}} {
		if s.src.Path != "" {
			r.Meta.Inputs = append(r.Meta.Inputs, artifact.Input{Kind: s.kind, Path: s.src.Path, SHA256: s.src.SHA256, Bytes: int64(len(s.src.Bytes))})
		}
	}
	for _, c := range p.Cells {
		r.Expected.Cells = append(r.Expected.Cells, artifact.ExpectedCell{
			Key: c.Key, ID: c.ID, Combo: c.Combo, ISL: c.ISL, OSL: c.OSL, Concurrency: c.Concurrency,
			NumPrompts: p.Params.NumPrompts, Repeats: 1,
		})
	}
	for _, t := range p.Accuracy {
		r.Expected.Tasks = append(r.Expected.Tasks, artifact.ExpectedTask{Kind: "accuracy", ID: t.ID, Filter: t.Filter})
	}
	return r
}

// foreignMeta is the run.json of a folder that cvs did not write: a few facts
// around results that somebody collected by hand (cases/CONTRACT.md).
type foreignMeta struct {
	runID, gpuArch, detectedGPU, detectedGFX, host, image, notes string
	startedAt                                                    *time.Time
	replaced                                                     []artifact.Problem // text that could not be taken as written
}

func readForeignMeta(path string) (*foreignMeta, error) {
	data, err := readInput(path, maxInputFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &foreignMeta{}, nil
	}
	if err != nil {
		return nil, err
	}
	v, findings, err := strictjson.Parse(data, strictjson.Options{MaxBytes: 16 << 20})
	if err != nil {
		return nil, badData("%s: %v", path, err)
	}
	if v.Kind != strictjson.Object {
		return nil, badData("%s: expected an object with run_id and started_at, found a %s", path, v.Kind)
	}
	var errs []error
	text := func(key string) string {
		m := v.Get(key)
		switch {
		case m == nil || m.Kind == strictjson.Null:
			return ""
		case m.Kind != strictjson.String:
			errs = append(errs, badData("%s:%s: %s: expected a text, found a %s", path, strictjson.PosAt(data, m.Offset), key, m.Kind))
			return ""
		}
		return m.Text
	}
	m := &foreignMeta{
		runID: text("run_id"), gpuArch: text("gpu_arch"), detectedGPU: text("detected_gpu"), detectedGFX: text("detected_gfx"),
		host: text("host"), image: text("image"), notes: text("notes"),
	}
	for _, f := range findings {
		m.replaced = append(m.replaced, artifact.Problem{Path: filepath.Base(path), Note: true, Msg: fmt.Sprintf("at %s: %s", f.Pos, f.Msg)})
	}
	if m.runID != "" && strings.TrimSpace(m.runID) == "" {
		errs = append(errs, badData("%s: run_id: expected the id of the run, found %q", path, m.runID))
	}
	if s := text("started_at"); s != "" {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			errs = append(errs, badData("%s: started_at: expected an RFC 3339 time with an offset, found %q", path, s))
		}
		m.startedAt = &t
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return m, nil
}

// runFromResults joins a plan with a folder of results: what evaluate judges.
func runFromResults(p *plan.Plan, dir string) (*artifact.Run, error) {
	r := runOfPlan(p)
	r.Dir = dir
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, badInput("--results %s: want a folder that holds results/", dir)
	}
	var err error
	if r.Results, r.Accuracy, r.Problems, err = warehouse.ResultsLayout(dir); err != nil {
		return nil, badData("read results in %s: %v", dir, err)
	}
	m, err := readForeignMeta(filepath.Join(dir, "run.json"))
	if err != nil {
		return nil, err
	}
	if m.gpuArch != "" && p.GPUArch != "" && !strings.EqualFold(m.gpuArch, p.GPUArch) {
		return nil, badData("%s: gpu_arch %s contradicts the config's %s", filepath.Join(dir, "run.json"), m.gpuArch, p.GPUArch)
	}
	r.Meta.RunID = m.runID
	if r.Meta.RunID == "" {
		r.Meta.RunID = evaluatedID
	}
	r.Meta.StartedAt, r.Meta.EndedAt = m.startedAt, nil
	r.Notes = m.notes
	r.Problems = append(r.Problems, m.replaced...)
	r.Meta.Identity.GPUSeen = strings.TrimSpace(strings.Join(nonEmpty(m.detectedGPU, m.detectedGFX), " "))
	if m.image != "" {
		r.Meta.Identity.Image = m.image
	}
	if m.host != "" {
		r.Meta.Identity.Hosts = []string{m.host}
		for i := range r.Results {
			if r.Results[i].Host == "" {
				r.Results[i].Host = m.host
			}
		}
	}
	return r, nil
}

func nonEmpty(s ...string) []string {
	var out []string
	for _, x := range s {
		if x != "" {
			out = append(out, x)
		}
	}
	return out
}

// loadedRun is one thing that a path held.
type loadedRun struct {
	path string
	run  *artifact.Run
	err  error
	src  *warehouse.Source // of a loose file: what was read of it already
	// the file is no result that we know, and not one that is damaged
	unknown bool
}

// A finding is a loadedRun or, not read yet, a file that may hold loose results.
type finding struct {
	loadedRun
	unread bool
	size   int64 // of the file, bytes; 0: not looked at
	listed bool  // found in a folder: what is no result is listed, not an error
}

// read returns what a finding holds.
func (f finding) read(known warehouse.Inventory) []loadedRun {
	if !f.unread {
		return []loadedRun{f.loadedRun}
	}
	found := looseRuns(f.path, f.size, known)
	for i, l := range found {
		// beside results lies much else, but one that is cut off or locked away is missed
		if f.listed && l.unknown {
			found[i].err = &skippedError{f.path, strings.TrimPrefix(l.err.Error(), f.path+": ")}
		}
	}
	return found
}

var configName = regexp.MustCompile(`_atom_.*\.json$`)

// foreignInputs finds the config and cluster file of a folder in the layout of
// results collected by hand; ok is false if it is no such folder. One whose
// run.json names a run but lacks the rest is an error: its results would
// otherwise be taken for loose files, and counted again under another id.
func foreignInputs(dir string) (o inputOptions, ok bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return o, false, badStore(err)
	}
	hasResults, named := false, false
	var configs []string
	for _, d := range entries {
		name := d.Name()
		switch {
		case d.IsDir() && (name == "results" || name == "accuracy"):
			hasResults = true
		case !d.IsDir() && configName.MatchString(name) && !strings.HasSuffix(name, "threshold.json"):
			configs = append(configs, filepath.Join(dir, name))
		case name == "cluster.json":
			o.cluster = filepath.Join(dir, name)
		case name == "run.json" && d.Type().IsRegular():
			m, err := readForeignMeta(filepath.Join(dir, name))
			named = err == nil && m.runID != ""
		}
	}
	switch {
	case len(configs) == 1 && hasResults:
		o.config = configs[0]
		return o, true, nil
	case named && len(configs) != 1:
		return o, false, badData("%s: run.json names a run; expected one config (*_atom_*.json) beside it, found %d", dir, len(configs))
	case named:
		return o, false, badData("%s: run.json names a run, but there is no results folder", dir)
	}
	return o, false, nil
}

// runsAt finds the runs a path holds: a run directory, a folder of them, a
// folder of results with its config, or a loose result file. Files of a folder
// that are none of these come back with an error each.
func runsAt(e *env, path string) ([]loadedRun, error) {
	found, err := findRuns(e, path, signoff.Against{})
	if err != nil {
		return nil, err
	}
	var out []loadedRun
	for _, f := range found {
		out = append(out, f.read(nil)...)
	}
	return out, nil
}

// findRuns is runsAt with the loose files left unread: there may be many. The
// decisions on runs are held against a.
func findRuns(e *env, path string, a signoff.Against) ([]finding, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, badInput("%v", err)
	}
	one := func(r *artifact.Run, err error) []finding {
		return []finding{{loadedRun: loadedRun{path: path, run: r, err: err}}}
	}
	if !st.IsDir() {
		return []finding{{loadedRun: loadedRun{path: path}, unread: true}}, nil
	}
	if filepath.Base(path) == pinsFolder {
		return pinsIn(path)
	}
	if artifact.IsRunDir(path) {
		return one(readRunAgainst(path, a)), nil
	}
	switch o, ok, err := foreignInputs(path); {
	case err != nil:
		return one(nil, err), nil
	case ok:
		return one(foreignRun(e, o, path)), nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, badStore(err)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	var out []finding
	for _, d := range entries {
		sub := filepath.Join(path, d.Name())
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			out = append(out, finding{loadedRun: loadedRun{path: sub, err: &skippedError{sub, "a link; links are not followed"}}})
		case d.IsDir():
			more, err := findRuns(e, sub, a)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		case d.Type().IsRegular():
			out = append(out, finding{loadedRun: loadedRun{path: sub}, unread: true, listed: true})
		}
	}
	return out, nil
}

// A skippedError is a file in a folder that is nothing cvs knows (decision 31):
// listed, not fatal.
type skippedError struct{ path, why string }

func (e *skippedError) Error() string { return e.path + ": " + e.why }

func foreignRun(e *env, o inputOptions, dir string) (*artifact.Run, error) {
	p, err := o.load(e)
	if err != nil {
		return nil, err
	}
	r, err := runFromResults(p, dir)
	if err != nil {
		return nil, err
	}
	if r.Meta.RunID == evaluatedID {
		r.Meta.RunID = folderID(r)
	}
	return r, nil
}

// evaluatedID stands for the run id of results that state none.
const evaluatedID = "evaluated"

// folderID names a folder of results without a run.json by its content, so that
// loading it twice is still loading it once.
func folderID(r *artifact.Run) string {
	h := sha256.New()
	for _, in := range r.Meta.Inputs {
		if in.Kind == "config" {
			fmt.Fprintln(h, in.SHA256)
		}
	}
	for _, list := range [][]artifact.Result{r.Results, r.Accuracy} {
		for _, x := range list {
			fmt.Fprintln(h, x.Path, x.SHA256)
		}
	}
	return "folder-" + hex.EncodeToString(h.Sum(nil))[:12]
}

// looseRuns wraps a result file that stands alone: run id from its hash, time
// from its content where it states one (decision 31). A published history is as
// many runs as it holds. A file that is among the known ones is not parsed: its
// run has an id and nothing else. size is what [readSized] wants, of a file that is
// known to be one.
func looseRuns(path string, size int64, known warehouse.Inventory) []loadedRun {
	read := func() ([]byte, error) { return readSized(path, size) }
	if size <= 0 || size > 1<<20 {
		read = func() ([]byte, error) { return readInput(path, maxResultFile) }
	}
	data, err := read()
	if err != nil {
		return []loadedRun{{path: path, err: notRead(path, err)}}
	}
	if id, ok := known.Has(data); ok {
		return []loadedRun{{path: path, run: &artifact.Run{Meta: artifact.Meta{RunID: id}}}}
	}
	sources, err := warehouse.LooseSources(path, data)
	var out []loadedRun
	for _, s := range sources {
		out = append(out, loadedRun{path: path, run: s.Run, src: s})
	}
	if err != nil {
		out = append(out, loadedRun{path: path, err: badData("%s", visible(err.Error())), // it names the file
			unknown: errors.As(err, new(*ingest.UnknownError)) || !namedResult(path)})
	}
	return out
}

// namedResult reports whether a file that cannot be read was meant to be a result.
func namedResult(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".json" || ext == ".jsonl"
}

// notRead says why a file was not read: it is not there or no file (exit 2), or
// the disk or the rights are at fault (exit 5).
func notRead(path string, err error) error {
	if st, serr := os.Stat(path); errors.Is(err, fs.ErrNotExist) || serr == nil && (!st.Mode().IsRegular() || st.Size() > maxResultFile) {
		return badInput("%v", err)
	}
	return badStore(err)
}

// workspace is where runs and the warehouse lie (decision 38).
func workspace(e *env, flag string) string {
	if flag != "" {
		return flag
	}
	if w := e.getenv("CVS_WORKSPACE"); w != "" {
		return w
	}
	return "."
}

// storeOptions say which warehouse a command uses.
type storeOptions struct{ warehouse, workspace string }

func (o *storeOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.warehouse, "warehouse", "", "DuckDB `file` (default: CVS_WAREHOUSE, else cvs.duckdb in the workspace)")
	f.StringVar(&o.workspace, "workspace", "", "`folder` for runs and warehouse (default: CVS_WORKSPACE, else the working directory)")
}

func (o *storeOptions) path(e *env) string {
	if o.warehouse != "" {
		return o.warehouse
	}
	if w := e.getenv("CVS_WAREHOUSE"); w != "" {
		return w
	}
	return filepath.Join(workspace(e, o.workspace), "cvs.duckdb")
}

// printJSON writes v indented, as every --format json does.
func printJSON(e *env, v any) error {
	enc := json.NewEncoder(e.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
