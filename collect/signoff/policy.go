package signoff

import (
	"fmt"
	"slices"
	"strings"
)

const policyFormat = "cvs-policy@v1"

// A Policy says what a decision needs and what a release needs.
type Policy struct {
	Name    string // of the file
	Title   string
	Signoff Rules
	Release Release
}

// Rules are for the decision on one run. The zero value asks for one approval.
type Rules struct {
	Approvals    int      // different people who approve; 0 means 1
	Roles        []string // roles that must be among the approvals
	Checklist    []string // items that every approval must confirm
	NotLauncher  bool     // who started the run does not approve it
	Calibrated   []string // tiers that must not be wholly vacuous; nil means every tier
	AllowRecord  bool     // a run that gates nothing may be approved
	AllowPartial bool     // an incomplete run may be approved
}

// A Release is the evidence that a release candidate needs. Whether it is there
// is not decided here: view release_check reads the same file.
type Release struct {
	Require        []Requirement
	MaxAgeDays     int  // 0: any age
	AllowSimulated bool // lab runs count; for tests of the policy itself
	NeedSignoff    bool // every run needs a valid sign-off under the rules
	AllowWaived    bool // waived failures do not block
}

// A Requirement is one run that must be there. Patterns may hold * and ?; ""
// asks for nothing.
type Requirement struct {
	Name                                       string
	Model, Driver, GPUArch, Precision, Profile string
	NNodes, TP                                 int // 0: any
	MaxAgeDays                                 int // 0: that of the release
	Calibrated                                 []string
}

func gateTiers() []string {
	return []string{"throughput", "ttft", "tpot", "itl", "e2el", "health", "scaling", "other"}
}

// ParsePolicy reads a policy file strictly; the error is an *InputError with
// everything that is wrong with it.
func ParsePolicy(name string, data []byte) (*Policy, error) {
	d, top := open(name, data, policyFormat)
	p := &Policy{Name: name, Title: top.text("title", false)}
	if o, ok := top.child("signoff"); ok {
		p.Signoff = Rules{
			Approvals: o.whole("approvals", 1), Roles: o.texts("roles"), Checklist: o.texts("checklist"), NotLauncher: o.flag("not_launcher"),
			Calibrated: tierList(o, "calibrated"), AllowRecord: o.flag("allow_record"), AllowPartial: o.flag("allow_incomplete"),
		}
		o.done()
	}
	if o, ok := top.child("release"); ok {
		p.Release = Release{
			MaxAgeDays: o.whole("max_age_days", 1), AllowSimulated: o.flag("allow_simulated"),
			NeedSignoff: o.flag("need_signoff"), AllowWaived: o.flag("allow_waived"),
		}
		seen := map[string]bool{}
		for _, r := range o.objects("require", true) {
			req := Requirement{
				Name: r.text("name", true), Model: r.text("model", false), Driver: r.text("driver", false), GPUArch: r.text("gpu_arch", false),
				Precision: r.text("precision", false), Profile: r.text("profile", false), NNodes: r.whole("nnodes", 1), TP: r.whole("tp", 1),
				MaxAgeDays: r.whole("max_age_days", 1), Calibrated: tierList(r, "calibrated"),
			}
			if req.Name != "" && seen[req.Name] {
				d.bad(r.v.Get("name"), r.at("name"), "%q stands twice", req.Name)
			}
			seen[req.Name] = true
			if req.Model+req.Driver+req.GPUArch+req.Precision+req.Profile == "" && req.NNodes == 0 && req.TP == 0 {
				d.bad(r.v, r.pointer, "any run would do; say which model, driver, gpu_arch, precision, profile, nnodes or tp")
			}
			r.done()
			p.Release.Require = append(p.Release.Require, req)
		}
		if v := o.v.Get("require"); v != nil && len(p.Release.Require) == 0 {
			d.bad(v, o.at("require"), "is empty: a release that needs nothing is not checked")
		}
		o.done()
	}
	top.done()
	return p, d.err()
}

func tierList(o obj, key string) []string {
	list := o.texts(key)
	for i, t := range list {
		if !slices.Contains(gateTiers(), t) {
			o.d.bad(o.v.Get(key).Items[i], fmt.Sprintf("%s/%d", o.at(key), i), "no tier is called %q; known are %s", t, strings.Join(gateTiers(), ", "))
		}
	}
	return list
}

// A Case is what a decision on one run is about, as the views said it.
type Case struct {
	Seen   Seen
	Used   []UsedWaiver
	Blocks []Block
}

// A Block is one reason against approving a run, a row of signoff_block.
type Block struct {
	Class    string `json:"class"`          // failure, expired, outside, missing, record, vacuous
	Tier     string `json:"tier,omitempty"` // of a vacuous one
	Reason   string `json:"reason"`
	Holds    bool   `json:"holds"`    // under the policy that the case was made with
	Absolute bool   `json:"absolute"` // against a conditional decision too
}

// Block lists what stands against approving the run; nothing means it may be
// approved. Waived failures do not block, expired waivers do.
func (c Case) Block() []string {
	var out []string
	for _, b := range c.Blocks {
		if b.Holds {
			out = append(out, b.Reason)
		}
	}
	return out
}

// BlockAlways lists what stands even against a conditional decision: a tier
// whose gates cannot fail says nothing that a condition could mend, and an
// expired waiver is no waiver.
func (c Case) BlockAlways() []string {
	var out []string
	for _, b := range c.Blocks {
		if b.Holds && b.Absolute {
			out = append(out, b.Reason)
		}
	}
	return out
}

// MissingItems are the checklist items that were not confirmed.
func (r Rules) MissingItems(confirmed []string) []string {
	var out []string
	for _, item := range r.Checklist {
		if !slices.Contains(confirmed, item) {
			out = append(out, item)
		}
	}
	return out
}

// SignedPolicy is the policy that the last decision in the log was made under,
// from the copy beside the log; nil if it was made under none or the copy is
// gone.
func SignedPolicy(l *Log) (*Policy, error) {
	if len(l.Records) == 0 {
		return nil, nil
	}
	data := kept(l.Dir, "policy", l.Records[len(l.Records)-1].Entry.Evidence.Policy)
	if data == nil {
		return nil, nil
	}
	return ParsePolicy("policy of the last decision", data)
}
