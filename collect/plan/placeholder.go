package plan

import (
	"fmt"
	"strings"

	"cvs/collect/strictjson"
)

// replaceTokens replaces placeholders in every text below v, keys included if
// asked. What a token is replaced by is not looked at again.
func replaceTokens(v *strictjson.Value, value func(tok string) (string, bool), keys bool) {
	sub := func(s string) string {
		if !strings.Contains(s, "{") {
			return s
		}
		return token.ReplaceAllStringFunc(s, func(m string) string {
			if r, ok := value(m[1 : len(m)-1]); ok {
				return r
			}
			return m
		})
	}
	switch v.Kind {
	case strictjson.String:
		v.Text = sub(v.Text)
	case strictjson.Array:
		for _, e := range v.Items {
			replaceTokens(e, value, keys)
		}
	case strictjson.Object:
		for i := range v.Members {
			m := &v.Members[i]
			if comment(m.Name) {
				continue
			}
			if keys {
				m.Name = sub(m.Name)
			}
			replaceTokens(m.Value, value, keys)
		}
	}
}

// maxPath bounds a path after its placeholders were resolved (PATH_MAX of
// Linux): references to references grow as a power of their number.
const maxPath = 4096

// placeholders resolves a config's texts: {user-id} everywhere, {name} inside
// paths, {paths.name} everywhere (spec 01 §3, after the profile was chosen so
// that a profile's own paths work too). threshold_json is a literal name.
func (d *draft) placeholders(root node, user string) {
	dc := d.dc
	dc.tokens = []string{"user-id"}
	if user != "" {
		d.replaceConfig(root, func(tok string) (string, bool) { return user, tok == "user-id" })
	}
	paths := root.v.Get("paths")
	if paths == nil || paths.Kind != strictjson.Object {
		return
	}
	values := map[string]*strictjson.Value{}
	for _, m := range paths.Members {
		if !comment(m.Name) && m.Value.Kind == strictjson.String {
			values[m.Name] = m.Value
			dc.tokens = append(dc.tokens, "paths."+m.Name)
		}
	}
	at := root.child("paths", paths)
	at.path = d.prefix("paths") + at.path
	state := map[string]int{} // 1: being resolved, 2: done
	var resolve func(name string, chain []string)
	resolve = func(name string, chain []string) {
		v := values[name]
		state[name] = 1
		chain = append(chain, name)
		replaceTokens(v, func(tok string) (string, bool) {
			name := strings.TrimPrefix(tok, "paths.")
			ref, ok := values[name]
			if !ok {
				return "", false
			}
			if state[name] == 1 {
				dc.errorf(at.child(chain[len(chain)-1], v), "", "refers to itself: %s", strings.Join(append(chain, name), " → "))
				return "/", true // any path will do: the cycle is reported
			}
			if state[name] == 0 {
				resolve(name, chain)
			}
			return ref.Text, true
		}, false)
		if n := len(v.Text); n > maxPath {
			dc.errorf(at.child(name, v), "", "expands to %d bytes; a path has at most %d", n, maxPath)
			v.Text = "/" // texts that refer to it stay small
		}
		state[name] = 2
	}
	for _, m := range paths.Members {
		if values[m.Name] == m.Value && state[m.Name] == 0 {
			resolve(m.Name, nil)
		}
	}
	d.replaceConfig(root, func(tok string) (string, bool) {
		if v, ok := values[strings.TrimPrefix(tok, "paths.")]; ok && strings.HasPrefix(tok, "paths.") {
			return v.Text, true
		}
		return "", false
	})
}

func (d *draft) replaceConfig(root node, value func(string) (string, bool)) {
	if root.v.Kind != strictjson.Object {
		return
	}
	for _, m := range root.v.Members {
		if m.Name != "threshold_json" && !comment(m.Name) {
			replaceTokens(m.Value, value, false)
		}
	}
}

// prefix is what stands before a top-level key in paths of messages: the place
// of the profile, where the profile has that key.
func (d *draft) prefix(key string) string {
	if d.profileKeys[key] {
		return join("profiles", d.Profile) + "."
	}
	return ""
}

// selectProfile decides which profile is used, lays it over the file and
// returns the flat config. A profile's keys replace whole top-level keys,
// absent ones are inherited (decision 14).
func (d *draft) selectProfile(root node, o Options) *strictjson.Value {
	dc := d.dc
	profiles := root.v.Get("profiles")
	version := root.v.Get("schema_version")
	if version != nil && !(version.Kind == strictjson.Number && (version.Text == "1" || version.Text == "2")) {
		dc.errorf(root.child("schema_version", version), "", "expected 1 or 2, found %s", describe(version, false))
		version = nil
	}
	flag, env := strings.TrimSpace(o.Profile), strings.TrimSpace(o.EnvProfile)
	if profiles == nil {
		if version != nil && version.Text == "2" {
			dc.errorf(root.child("schema_version", version), "write 1, or add profiles", "2 needs profiles, and there are none")
		}
		d.Profile = "perf"
		if flag != "" && flag != "perf" {
			dc.probs.add(root.doc, -1, "", fmt.Sprintf("--config_profile %s: a file without profiles has only the implicit profile perf", quote(flag)), "leave the flag out", false)
		}
		if env != "" && env != "perf" && flag == "" {
			dc.probs.add(root.doc, -1, "", fmt.Sprintf("CVS_CONFIG_PROFILE=%s is ignored: the file has no profiles", quote(env)), "", true)
		}
		if v := root.v.Get("default_profile"); v != nil {
			dc.errorf(root.child("default_profile", v), "", "names a profile, but the file has no profiles")
		}
		return without(root.v, "profiles", "default_profile")
	}
	at := root.child("profiles", profiles)
	if version != nil && version.Text == "1" {
		dc.errorf(root.child("schema_version", version), "write 2, or leave it out", "is 1, but the file has profiles")
	}
	if profiles.Kind != strictjson.Object {
		dc.errorf(at, "", "expected an object of profiles, found %s", describe(profiles, false))
		return without(root.v, "profiles", "default_profile")
	}
	if len(profiles.Members) == 0 {
		dc.errorf(at, "leave it out, or write one", "has no profile")
		return without(root.v, "profiles", "default_profile")
	}
	body := d.chooseProfile(root, at, flag, env)
	if body == nil {
		return nil
	}
	flat := without(root.v, "profiles", "default_profile")
	d.profileKeys = map[string]bool{}
	for _, m := range body.Members {
		if comment(m.Name) {
			continue
		}
		if m.Name == "schema_version" || m.Name == "profiles" || m.Name == "default_profile" {
			n := at.child(d.Profile, body)
			dc.probs.add(root.doc, m.Offset, join(n.path, m.Name), "does not belong into a profile", "it stands at the top of the file", false)
			continue
		}
		d.profileKeys[m.Name] = true
		flat = without(flat, m.Name)
		flat.Members = append(flat.Members, m)
	}
	return flat
}

func (d *draft) chooseProfile(root, at node, flag, env string) *strictjson.Value {
	dc := d.dc
	var known []string
	for _, m := range at.v.Members {
		if !comment(m.Name) {
			known = append(known, m.Name)
		}
	}
	list := "known are " + strings.Join(known, ", ")
	name, from := flag, "--config_profile "+quote(flag)
	if name == "" && env != "" {
		name, from = env, "CVS_CONFIG_PROFILE="+quote(env)
	}
	where := node{v: at.v, doc: root.doc}
	if def := root.v.Get("default_profile"); def != nil {
		n := root.child("default_profile", def)
		if def.Kind != strictjson.String {
			dc.errorf(n, list, "expected the name of a profile, found %s", describe(def, false))
		} else if at.v.Get(strings.TrimSpace(def.Text)) == nil {
			dc.errorf(n, list, "%s is not a profile of this file", quote(def.Text))
		} else if name == "" {
			name, from, where = strings.TrimSpace(def.Text), "default_profile", n
		}
	}
	if name == "" && at.v.Get("perf") != nil {
		name = "perf"
	}
	if name == "" && !dc.good("default_profile") {
		return nil
	}
	if name == "" {
		dc.errorf(at, list, "no profile was chosen: use --config_profile, or default_profile in the file")
		return nil
	}
	body := at.v.Get(name)
	if body == nil || comment(name) {
		hint := list
		if n := Nearest(name, known); n != "" {
			hint = didYouMean(name, known) + " " + list
		}
		dc.probs.add(root.doc, positionOf(where), where.path, from+" is not a profile of this file", hint, false)
		return nil
	}
	if body.Kind != strictjson.Object {
		dc.errorf(at.child(name, body), "", "expected an object, found %s", describe(body, false))
		return nil
	}
	d.Profile = name
	return body
}

func positionOf(n node) int {
	if n.path == "" {
		return -1
	}
	return n.v.Offset
}

// without is a copy of an object without some members.
func without(v *strictjson.Value, names ...string) *strictjson.Value {
	c := *v
	c.Members = nil
next:
	for _, m := range v.Members {
		for _, n := range names {
			if m.Name == n {
				continue next
			}
		}
		c.Members = append(c.Members, m)
	}
	return &c
}
