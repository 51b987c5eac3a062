package plan

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/metric"
	"cvs/collect/strictjson"
)

// specKinds are the kinds of a spec, sorted as messages list them.
func specKinds() []string {
	return []string{"info", "max", "max_ms", "min", "min_ratio", "min_tok_s", "within"}
}

// nonCellKeys are the top-level keys of a threshold file that are no cells.
func nonCellKeys() []string {
	return []string{"accuracy", "mtp_quality", "long_context_accuracy", "quant_parity"}
}

// A gates is a threshold file with the chosen profile.
type gates struct {
	root  node // object of the chosen profile, or the whole file
	names map[string]bool
	cells map[string]*cellGates
	specs []artifact.Threshold // of every scope but cells
	byID  map[string][]artifact.Threshold
	ok    bool
	alias node // first metric spelt client.<name>
	old   int  // how many are
	text  int  // values written as text
	first node // the first of them
}

type cellGates struct {
	at    node
	specs []artifact.Threshold
	index map[string]int
}

// readGates checks the shape of every spec of the file, and keeps those of the
// profile that the config chose.
func (d *draft) readGates(doc *document) *gates {
	g := &gates{names: map[string]bool{}, cells: map[string]*cellGates{}, byID: map[string][]artifact.Threshold{}}
	for _, m := range metric.Table() {
		g.names[m.Name] = true
	}
	root := node{v: doc.root, doc: doc, origin: "threshold"}
	if doc.root.Kind != strictjson.Object {
		d.dc.errorf(root, "", "expected an object of cells, found %s", describe(doc.root, false))
		return g
	}
	profiles := doc.root.Get("profiles")
	if profiles == nil || profiles.Kind != strictjson.Object {
		g.ok = true
		d.readProfile(g, root, "", true)
		return g
	}
	want := d.thresholdProfile
	if want == "" {
		want = d.Profile
	}
	at := root.child("profiles", profiles)
	var known []string
	for _, m := range profiles.Members {
		if comment(m.Name) {
			continue
		}
		known = append(known, m.Name)
		n := at.child(m.Name, m.Value)
		if m.Value.Kind != strictjson.Object {
			d.dc.errorf(n, "", "expected an object of cells, found %s", describe(m.Value, false))
			continue
		}
		if m.Name == want {
			g.ok = true
		}
		d.readProfile(g, n, "/profiles/"+strictjson.EscapePointer(m.Name), m.Name == want)
	}
	for _, m := range doc.root.Members {
		if m.Name != "profiles" && !comment(m.Name) {
			d.dc.probs.add(doc, m.Offset, join("", m.Name), "is ignored: the file has profiles", "move it into one of them", true)
		}
	}
	if !g.ok && want != "" {
		d.dc.errorf(at, "known are "+strings.Join(known, ", "), "the config uses the threshold profile %s, which is not here", quote(want))
	}
	return g
}

func (d *draft) readProfile(g *gates, n node, pointer string, chosen bool) {
	if chosen {
		g.root = n
	}
	for _, m := range n.v.Members {
		if comment(m.Name) {
			continue
		}
		c := n.child(m.Name, m.Value)
		switch m.Name {
		case "accuracy", "long_context_accuracy":
			if m.Value.Kind != strictjson.Object {
				d.dc.errorf(c, "", "expected an object, found %s", describe(m.Value, false))
				continue
			}
			for _, t := range m.Value.Members {
				if comment(t.Name) {
					continue
				}
				specs := d.readSpecs(g, c.child(t.Name, t.Value), m.Name, t.Name, pointer)
				if chosen {
					g.specs = append(g.specs, specs...)
					g.byID[m.Name+"/"+t.Name] = specs
				}
			}
		case "mtp_quality", "quant_parity":
			specs := d.readSpecs(g, c, m.Name, "", pointer)
			if chosen {
				g.specs = append(g.specs, specs...)
				g.byID[m.Name] = specs
			}
		default:
			// What is no cell key is judged with the sweep; its specs must be
			// sound either way, unless it is a misspelt block of another shape.
			if !strings.HasPrefix(strings.ToUpper(m.Name), "ISL") {
				if chosen {
					g.cells[m.Name] = &cellGates{at: c}
				}
				continue
			}
			specs := d.readSpecs(g, c, "cell", m.Name, pointer)
			if chosen {
				cg := &cellGates{at: c, specs: specs, index: make(map[string]int, len(specs))}
				for i, s := range specs {
					cg.index[s.Metric] = i
				}
				g.cells[m.Name] = cg
			}
		}
	}
}

// readSpecs decodes metric → spec. Broken specs are reported whether thresholds
// are enforced or not: the file itself is broken.
func (d *draft) readSpecs(g *gates, n node, scope, target, pointer string) []artifact.Threshold {
	if n.v.Kind != strictjson.Object {
		d.dc.errorf(n, "", "expected an object of metrics, found %s", describe(n.v, false))
		return nil
	}
	pointer += "/" + strictjson.EscapePointer(scope)
	if scope == "cell" {
		pointer = strings.TrimSuffix(pointer, "/cell")
	}
	if target != "" {
		pointer += "/" + strictjson.EscapePointer(target)
	}
	list := make([]artifact.Threshold, 0, len(n.v.Members))
	seen := make(map[string]bool, len(n.v.Members))
	for _, m := range n.v.Members {
		if comment(m.Name) {
			continue
		}
		c := n.child(m.Name, m.Value)
		name := m.Name
		if strings.TrimSpace(strings.TrimPrefix(name, "client.")) == "" {
			d.dc.bad[c.canon] = true
			d.dc.probs.add(c.doc, m.Offset, c.path, "expected the name of a metric, found "+quote(name), "", false)
			continue
		}
		if scope == "cell" {
			if bare, ok := strings.CutPrefix(name, "client."); ok {
				if g.old == 0 {
					g.alias = c
				}
				g.old++
				name = bare
			}
			if canon := aliasOf(name); canon != "" {
				d.dc.probs.add(c.doc, m.Offset, c.path, "is the client's name of "+canon+" and is read as that", "write "+canon, true)
				name = canon
			}
			if seen[name] && name == m.Name && n.v.Get("client."+name) == nil {
				continue // the same key twice is reported already
			}
			if seen[name] {
				d.dc.bad[c.canon] = true
				d.dc.probs.add(c.doc, m.Offset, c.path, name+" is given twice under different names", "keep "+name, false)
				continue
			}
			seen[name] = true
		}
		line, _ := c.doc.pos(m.Offset)
		t := artifact.Threshold{Scope: scope, Target: target, Metric: name, File: c.doc.base, Line: line}
		if d.readSpec(g, c, &t) {
			t.Pointer = pointer + "/" + strictjson.EscapePointer(m.Name)
			list = append(list, t)
		}
	}
	if scope == "cell" {
		d.checkNames(g, n, list)
	}
	return list
}

// aliasOf is our name of a metric that a threshold file calls by a client's
// key, "" if the name is ours or nobody's. Without it such a gate would be
// passed over as "not in the artefact" although the artefact has the value.
func aliasOf(name string) string {
	alias := ""
	for _, def := range metric.Table() {
		if def.Name == name {
			return ""
		}
		if alias == "" && slices.Contains(def.Keys, name) {
			alias = def.Name
		}
	}
	return alias
}

func (d *draft) readSpec(g *gates, c node, t *artifact.Threshold) bool {
	dc, before := d.dc, len(d.dc.probs.list)
	if c.v.Kind != strictjson.Object {
		dc.errorf(c, `write {"kind": …, "value": …}`, "expected a spec, found %s", describe(c.v, false))
		return false
	}
	for _, m := range c.v.Members {
		if !comment(m.Name) && !slices.Contains([]string{"kind", "value", "tolerance_pct", "reference"}, m.Name) {
			dc.unknown(c, m, []string{"kind", "value", "tolerance_pct", "reference"}, false)
		}
	}
	kind := c.v.Get("kind")
	switch {
	case kind == nil:
		dc.errorf(c, "known are "+strings.Join(specKinds(), ", "), "kind is missing")
		return false
	case kind.Kind != strictjson.String || !slices.Contains(specKinds(), kind.Text):
		hint := "known are " + strings.Join(specKinds(), ", ")
		if near := Nearest(kind.Text, specKinds()); near != "" {
			hint = didYouMean(kind.Text, specKinds()) + " " + hint
		}
		dc.errorf(c.child("kind", kind), hint, "unknown kind %s", describe(kind, false))
		return false
	}
	t.Kind = kind.Text
	t.Value = d.specNumber(g, c, "value", t.Kind == "info")
	if v := c.v.Get("tolerance_pct"); v != nil && t.Kind != "within" {
		dc.warnf(c.child("tolerance_pct", v), "", "has no effect with kind %s", t.Kind)
	} else if t.Kind == "within" {
		if t.TolerancePct = d.specNumber(g, c, "tolerance_pct", false); t.TolerancePct != nil && *t.TolerancePct < 0 {
			dc.errorf(c.child("tolerance_pct", v), "", "expected at least 0, found %s", describe(v, false))
		}
	}
	d.specReference(g, c, t)
	return !slices.ContainsFunc(dc.probs.list[before:], func(p Problem) bool { return !p.Warning })
}

func (d *draft) specNumber(g *gates, c node, name string, optional bool) *float64 {
	v := c.v.Get(name)
	if v == nil {
		if !optional {
			d.dc.errorf(c, "", "%s is missing", name)
		}
		return nil
	}
	n := c.child(name, v)
	if v.Kind == strictjson.Number || v.Kind == strictjson.String && strictjson.IsNumber(v.Text) {
		if f, err := strconv.ParseFloat(v.Text, 64); err == nil && !math.IsInf(f, 0) {
			if v.Kind == strictjson.String {
				if g.text == 0 {
					g.first = n
				}
				g.text++
			}
			return &f
		}
	}
	if optional {
		return nil // info needs no value, and none is used
	}
	hint := ""
	if v.Kind == strictjson.String {
		hint = "a number without unit"
	}
	d.dc.errorf(n, hint, "expected a finite number, found %s", describe(v, false))
	return nil
}

func (d *draft) specReference(g *gates, c node, t *artifact.Threshold) {
	v := c.v.Get("reference")
	if t.Kind != "min_ratio" {
		if v != nil {
			d.dc.warnf(c.child("reference", v), "", "has no effect with kind %s", t.Kind)
		}
		return
	}
	if v == nil {
		d.dc.errorf(c, "the metric of the same cell to divide by", "reference is missing")
		return
	}
	n := c.child("reference", v)
	if v.Kind != strictjson.String || strings.TrimSpace(v.Text) == "" {
		d.dc.errorf(n, "", "expected the name of a metric, found %s", describe(v, false))
		return
	}
	t.Reference = strings.TrimPrefix(v.Text, "client.")
	if canon := aliasOf(t.Reference); canon != "" {
		t.Reference = canon
	}
	if t.Scope != "cell" || g.names[t.Reference] {
		return
	}
	if near := Nearest(t.Reference, d.metricNames(g)); near != "" && distance(t.Reference, near, 2) <= 2 && !latencyName.MatchString(t.Reference) {
		d.dc.errorf(n, "did you mean "+quote(near)+"?", "no metric is called %s", quote(v.Text))
		return
	}
	d.dc.warnf(n, "", "%s is not a metric this suite knows; the gate fails if the result does not have it", quote(v.Text))
}

func (d *draft) metricNames(g *gates) []string {
	var names []string
	for _, m := range metric.Table() {
		names = append(names, m.Name)
	}
	return names
}

// latencyName are the names of statistics of a latency. Clients report whichever
// they are asked for, so one that is not in the table is no slip of one that is.
var latencyName = regexp.MustCompile(`^(?:mean|median|std|min|max|p\d{1,2}(?:\.\d{1,3})?)_(?:ttft|tpot|itl|e2el)_ms$`)

// checkNames warns of metrics that are almost one that is known: always if they
// differ in a letter or two, else if that one has no spec.
func (d *draft) checkNames(g *gates, n node, specs []artifact.Threshold) {
	for _, s := range specs {
		if g.names[s.Metric] {
			continue
		}
		near := Nearest(s.Metric, d.metricNames(g))
		slip := near != "" && distance(s.Metric, near, 2) <= 2 && !latencyName.MatchString(s.Metric)
		if near != "" && (slip || !slices.ContainsFunc(specs, func(o artifact.Threshold) bool { return o.Metric == near })) {
			d.dc.probs.add(n.doc, n.v.Get(s.Metric).Offset, join(n.path, s.Metric), "is not a metric this suite knows", fmt.Sprintf("did you mean %q?", near), true)
		}
	}
}
