package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cvs/collect/strictjson"
)

// Options say what to load. Nothing else is read: the caller looks at flags and
// environment.
type Options struct {
	ConfigFile  string
	ClusterFile string // "" : the cluster is unknown; only config and thresholds are checked
	Profile     string // --config_profile
	EnvProfile  string // CVS_CONFIG_PROFILE
	OSUser      string // launcher's OS user by uid, fallback for {user-id}
	// MatchLengths is --match-lengths; see [Params].
	MatchLengths bool
	// OtherLogin says that something beside the cluster file may hold what logs
	// in, such as an SSH agent; the file then need not name a key or a password.
	OtherLogin bool
}

// maxInput bounds an input file, in bytes.
const maxInput = 16 << 20

// files is what the loader needs of a file system, so that tests and fuzzing
// can stay in memory.
type files interface {
	// read returns the content of a regular file.
	read(path string) ([]byte, error)
	// thresholds lists the base names in dir that end in threshold.json, sorted.
	thresholds(dir string) ([]string, error)
}

type disk struct{}

func (disk) read(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if st.Size() > maxInput {
		return nil, fmt.Errorf("the file has %d bytes, at most %d are read", st.Size(), maxInput)
	}
	return os.ReadFile(path)
}

func (disk) thresholds(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	var names []string
	for _, e := range list {
		if strings.HasSuffix(e.Name(), "threshold.json") && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Load reads a config, the threshold file it names and a cluster file, and
// returns the plan they make. Everything wrong with any of them is reported
// together: the error is an *[Error]. Warnings are in the plan.
//
// Key, password and token files are not opened.
func Load(o Options) (*Plan, error) { return load(disk{}, o) }

func load(fsys files, o Options) (*Plan, error) {
	ps := &problems{rank: map[string]int{}}
	d := &draft{dc: newDecoder(ps), r: newRules()}
	d.Suite = "atom"

	config := d.read(fsys, "config", o.ConfigFile)
	user := o.OSUser
	var cluster *document
	if o.ClusterFile != "" {
		if cluster = d.read(fsys, "cluster", o.ClusterFile); cluster != nil {
			d.ClusterSrc = cluster.Source
			if cluster.root != nil {
				user = d.loadCluster(cluster, o)
			}
		}
	}
	if config != nil {
		d.Config = config.Source
		if o.ClusterFile == "" {
			ps.add(config, -1, "", "no cluster file: hosts are not checked, and {user-id} is the user who runs this", "", true)
		}
		if config.root != nil {
			d.loadConfig(fsys, config, user, o)
		}
	}
	if ps.failed() {
		return nil, &Error{Problems: ps.sorted()}
	}
	p := &d.Plan
	p.Params.MatchLengths = o.MatchLengths
	p.Warnings = ps.warnings()
	p.Origins = d.dc.facts.origins()
	p.Resolved = resolved(p.Origins)
	return p, nil
}

// read reads and parses one file. A file that cannot be read gives nil; one
// that is no JSON has no root. Either is reported.
func (d *draft) read(fsys files, kind, path string) *document {
	data, err := fsys.read(path)
	doc := newDocument(kind, path, data)
	ps := d.dc.probs
	if _, ok := ps.rank[doc.base]; !ok {
		ps.rank[doc.base] = map[string]int{"config": 1, "threshold": 2, "cluster": 3}[kind]
	}
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		ps.add(doc, -1, "", fmt.Sprintf("the %s file cannot be read: %v", kind, err), printable(path), false)
		return nil
	}
	sum := sha256.Sum256(data)
	doc.SHA256 = hex.EncodeToString(sum[:])
	root, findings, err := strictjson.Parse(data, strictjson.Options{KeepDuplicates: true, MaxBytes: maxInput})
	if err != nil {
		var se *strictjson.SyntaxError
		if errors.As(err, &se) {
			ps.add(doc, min(se.Offset, len(data)), "", se.Msg, "", false)
		} else {
			ps.add(doc, -1, "", err.Error(), "", false)
		}
		return doc
	}
	for _, f := range findings {
		path := pointerPath(f.Pointer)
		if f.Duplicate != "" {
			path = join(path, f.Duplicate)
		}
		ps.add(doc, f.Offset, path, f.Msg, "", f.Duplicate == "")
	}
	doc.root = root
	return doc
}

// pointerPath writes an RFC 6901 pointer the way messages write paths. A step
// of digits may be a list index or a key; for a message either reads well.
func pointerPath(pointer string) string {
	path := ""
	for i, s := range strings.Split(pointer, "/") {
		if i == 0 {
			continue
		}
		s = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
		if listIndex.MatchString(s) && path != "" {
			path += "[" + s + "]"
			continue
		}
		path = join(path, s)
	}
	return path
}

var (
	listIndex = regexp.MustCompile(`^[0-9]+$`)
	archStem  = regexp.MustCompile(`^([a-z0-9-]+)_atom_`)
)

func (d *draft) loadConfig(fsys files, doc *document, user string, o Options) {
	dc := d.dc
	root := node{v: doc.root, doc: doc, origin: "config"}
	if doc.root.Kind != strictjson.Object {
		dc.errorf(root, "", "expected an object, found %s", describe(doc.root, false))
		return
	}
	d.Schema = "native"
	if isServing(doc.root) {
		d.Schema = "serving"
		if v := doc.root.Get("profiles"); v != nil {
			dc.errorf(root.child("profiles", v), "", "a file with server_params cannot have profiles")
			root.v = without(root.v, "profiles", "default_profile")
		}
	}
	flat := d.selectProfile(root, o)
	if flat == nil {
		return
	}
	root.v = flat
	dc.profile, dc.fromProfile = "", d.profileKeys
	if d.profileKeys != nil {
		dc.profile = d.Profile
	}
	d.placeholders(root, user)

	hasCatalogue := flat.Get("sweeps") != nil || d.Schema == "serving"
	body := root
	if hasCatalogue {
		d.fromKeys = d.catalogue(root)
		body.v = without(flat, "sweeps", "runs", "sweep")
	}
	var fields []field
	if d.Schema == "serving" {
		d.servingModel(body)
		if v := body.v.Get("server_params"); v != nil { // where messages about missing arguments point
			dc.set["roles.server"] = body.child("server_params", v)
		}
		for _, f := range d.paramFields() {
			if f.def != "" {
				dc.setDefault(node{v: body.v, doc: doc, path: "params." + f.name, canon: "params." + f.name}, &f)
			}
		}
		fields = d.servingFields(flat.Get("functional") != nil)
	} else {
		fields = d.nativeFields()
		if hasCatalogue {
			fields = slices.DeleteFunc(fields, func(f field) bool { return f.name == "sweep" })
		}
	}
	dc.object(body, fields, false)
	d.otherProfiles(doc, user)
	dc.facts.drop("server_params")
	dc.facts.drop("benchmark_params")
	d.architecture(root)
	d.enforcement(root)
	d.thresholds(fsys, root)
}

// otherProfiles checks the form of the profiles that are not used, so that a
// mistake in one does not wait for the day it is chosen. They stop nothing.
func (d *draft) otherProfiles(doc *document, user string) {
	profiles := doc.root.Get("profiles")
	if profiles == nil || d.profileKeys == nil {
		return
	}
	for _, m := range profiles.Members {
		if comment(m.Name) || m.Name == d.Profile {
			continue
		}
		other := &draft{dc: newDecoder(&problems{rank: map[string]int{}}), r: d.r}
		other.Config, other.Schema = d.Config, d.Schema
		root := node{v: doc.root, doc: doc, origin: "config"}
		if root.v = other.selectProfile(root, Options{Profile: m.Name}); root.v != nil {
			other.dc.profile, other.dc.fromProfile = other.Profile, other.profileKeys
			other.placeholders(root, user)
			fields := other.nativeFields()
			if root.v.Get("sweeps") != nil {
				root.v = without(root.v, "sweeps", "runs", "sweep")
				fields = slices.DeleteFunc(fields, func(f field) bool { return f.name == "sweep" })
			}
			other.dc.object(root, fields, false)
		}
		for _, p := range other.dc.probs.list {
			if !p.Warning && strings.HasPrefix(p.Path, join("profiles", m.Name)) {
				p.Warning, p.Msg = true, "in a profile that is not used: "+p.Msg
				d.dc.probs.list = append(d.dc.probs.list, p)
			}
		}
	}
}

// servingModel fills model.id from server_params.model where it is empty.
func (d *draft) servingModel(root node) {
	server := root.v.Get("server_params")
	name := server.Get("model")
	if textOf(name) == "" {
		return
	}
	model := root.v.Get("model")
	switch {
	case model == nil:
		model = &strictjson.Value{Kind: strictjson.Object, Offset: name.Offset}
		root.v.Members = append(root.v.Members, strictjson.Member{Name: "model", Offset: name.Offset, Value: model})
	case model.Kind != strictjson.Object:
		return
	}
	id := model.Get("id")
	if textOf(id) != "" {
		if id.Text != name.Text {
			d.dc.warnf(root.child("server_params", server).child("model", name), "", "is not used: model.id is %s", quote(id.Text))
		}
		return
	}
	if id == nil || id.Kind == strictjson.String {
		model.Members = slices.DeleteFunc(model.Members, func(m strictjson.Member) bool { return m.Name == "id" })
		model.Members = append(model.Members, strictjson.Member{Name: "id", Offset: name.Offset, Value: name})
	}
}

// architecture settles gpu_arch: what the file says, else the start of its name.
func (d *draft) architecture(root node) {
	base := filepath.Base(d.Config.Path)
	m := archStem.FindStringSubmatch(strings.TrimSuffix(base, filepath.Ext(base)))
	written, has := d.dc.set["gpu_arch"]
	switch {
	case !d.dc.good("gpu_arch"):
	case d.GPUArch == "" && m == nil:
		d.dc.probs.add(root.doc, root.v.Offset, "gpu_arch", "is missing, and the file name does not start with an architecture", "write gpu_arch, or rename the file to mi3xx_atom_….json", false)
	case d.GPUArch == "":
		d.GPUArch = m[1]
		d.dc.facts.put("gpu_arch", fmt.Sprintf("%q", m[1]), "file name")
	case has && m != nil && m[1] != d.GPUArch:
		d.dc.warnf(written, "", "is %s, although the file name says %s", d.GPUArch, m[1])
	}
}

func (d *draft) enforcement(root node) {
	if n, ok := d.dc.set["enforce_thresholds"]; ok {
		line, _ := n.doc.pos(n.v.Offset)
		d.EnforceOrigin = fmt.Sprintf("%s line %d", n.origin, line)
		return
	}
	d.Enforce = d.Schema == "native"
	d.EnforceOrigin = fmt.Sprintf("default of the %s schema", d.Schema)
	d.dc.facts.put("enforce_thresholds", fmt.Sprint(d.Enforce), "default")
}

// thresholds finds and reads the threshold file, then settles the plan: the
// sweep of a catalogue may come from there.
func (d *draft) thresholds(fsys files, root node) {
	doc := d.thresholdFile(fsys, root)
	var g *gates
	if doc != nil {
		d.Threshold = doc.Source
		if doc.root != nil {
			g = d.readGates(doc)
		}
	}
	if d.fromKeys != nil || d.Schema == "serving" || root.v.Get("sweeps") != nil {
		if len(d.fromKeys) == 0 && g != nil && g.ok && d.dc.good("sweeps", "runs", "sweep.runs", "sweep") {
			for _, m := range g.root.v.Members {
				if strings.HasPrefix(m.Name, "ISL=") {
					n := g.root.child(m.Name, m.Value)
					d.fromKeys = append(d.fromKeys, cellRef{m.Name, n})
				}
			}
			if len(d.fromKeys) > 0 {
				d.dc.probs.add(root.doc, root.v.Offset, "sweeps", "selects no cell: the cells of the threshold file are run", "", true)
			}
		}
		d.sweepFromKeys(d.fromKeys)
		if d.fromKeys == nil {
			d.fromKeys = []cellRef{}
		}
	}
	d.settle(root)
	d.finish()
	if g != nil && g.ok && d.dc.good("sweep", "sweep.runs", "sweep.sequence_combinations", "params", "params.tensor_parallelism", "params.pipeline_parallel_size", "enforce_thresholds") {
		d.coverage(g)
	}
}

// thresholdFile finds the threshold file: the one that is named, else the only
// one beside the config (decision 8). Nothing else is searched.
func (d *draft) thresholdFile(fsys files, root node) *document {
	dc := d.dc
	if !dc.good("threshold_json") {
		return nil
	}
	dir := filepath.Dir(d.Config.Path)
	beside, err := fsys.thresholds(dir)
	if err != nil {
		dc.probs.add(root.doc, -1, "threshold_json", "the directory of the config cannot be listed", "", false)
		return nil
	}
	at := dc.at("threshold_json", root)
	name := d.thresholdJSON // literal, blanks included
	if strings.TrimSpace(name) == "" {
		name = ""
	}
	var shown []string
	for _, b := range beside {
		shown = append(shown, printable(b))
	}
	switch {
	case name == "" && len(beside) == 0:
		dc.errorf(at, "name the file with threshold_json", "no *threshold.json stands beside the config")
		return nil
	case name == "" && len(beside) > 1:
		dc.errorf(at, "name one of them with threshold_json", "ambiguous: several threshold files stand beside the config: %s", strings.Join(shown, ", "))
		return nil
	case name == "":
		name = beside[0]
	case len(beside) > 1 && !filepath.IsAbs(name):
		dc.warnf(at, "keep each config with its threshold file in a directory of its own", "%d threshold files stand beside the config; %s is used because it is named", len(beside), printable(name))
	}
	path := name
	if !filepath.IsAbs(name) {
		if !filepath.IsLocal(name) {
			dc.errorf(at, "put the threshold file beside the config", "%s is outside of the config's directory", quote(name))
			return nil
		}
		path = filepath.Join(dir, name)
	}
	before := len(dc.probs.list)
	doc := d.read(fsys, "threshold", path)
	if doc == nil { // said where the name is written
		dc.probs.list = dc.probs.list[:before]
		dc.errorf(at, cmp.Or(didYouMean(name, beside), "beside the config stand: "+cmp.Or(strings.Join(shown, ", "), "none")), "the threshold file %s cannot be read", quote(name))
	}
	return doc
}

// finish puts together what spans the files.
func (d *draft) finish() {
	c := &d.Container
	c.Env = slices.Clone(d.clusterEnv)
	for _, v := range d.Server.Env {
		c.Env = setVar(c.Env, v.Name, v.Value)
	}
	dir := filepath.Dir(d.Config.Path)
	if f := d.Paths.HFTokenFile; f != "" && !filepath.IsAbs(f) {
		d.Paths.HFTokenFile = filepath.Join(dir, f)
		d.dc.facts.put("paths.hf_token_file", string(appendText(nil, d.Paths.HFTokenFile)), "relative to the config file")
	}
}
