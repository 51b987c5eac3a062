package plan

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"cvs/collect/strictjson"
)

// containerFields are the container block of a config or, with the keys that
// exist only there, of a cluster file. The cluster's is decoded first and the
// config's over it: objects merge, everything else is replaced (spec 01 §10.1).
func (d *draft) containerFields(cluster bool) []field {
	c, r := &d.Container, d.r
	list := func(name string, to *[]string, r *rule, doc string) field {
		return field{name: name, kind: kTexts, to: to, rule: r, doc: doc + "; added to the built-in ones"}
	}
	args := []field{
		{name: "network", to: &c.Runtime.Network, def: `"host"`, rule: r.namespace, doc: "docker --network"},
		{name: "ipc", to: &c.Runtime.IPC, def: `"host"`, rule: r.namespace, doc: "docker --ipc"},
		{name: "privileged", kind: kBool, to: &c.Runtime.Privileged, def: "true", doc: "docker --privileged"},
		{name: "shm_size", to: &c.Runtime.ShmSize, rule: r.size, doc: "docker --shm-size"},
		list("volumes", &c.Runtime.Volumes, r.volume, "mounts host:container[:ro]"),
		list("devices", &c.Runtime.Devices, r.device, "devices; those a node does not have are left out"),
		list("cap_add", &c.Runtime.CapAdd, r.capability, "capabilities"),
		list("security_opt", &c.Runtime.SecurityOpt, r.word, "security options"),
		list("group_add", &c.Runtime.GroupAdd, r.word, "groups"),
		list("ulimit", &c.Runtime.Ulimit, r.ulimit, "limits"),
		{name: "registry", kind: kCustom, custom: d.registry, schema: `{"type":"object","required":["username","password_file"]}`, doc: "login for a private registry: username, password_file (a path on every node), server"},
		{name: "env", kind: kCustom, custom: d.runtimeEnv, schema: `{"type":"object"}`, doc: "environment of the container"},
	}
	fields := []field{
		{name: "lifetime", to: &c.Lifetime, def: `"per_run"`, enum: []string{string(NoLaunch), string(PerRun), string(Persistent)}, doc: "who starts and removes the container"},
		{name: "name", to: &c.Name, need: true, rule: r.container, doc: "container name on every node"},
		{name: "image", to: &c.Image, need: true, rule: r.image, doc: "image reference"},
		{name: "runtime", kind: kObject, need: true, doc: "the container runtime", sub: []field{
			{name: "name", need: true, def: `"docker"`, enum: []string{"docker"}, doc: "docker"},
			{name: "args", kind: kObject, doc: "arguments of docker run", sub: args},
		}},
	}
	if cluster {
		fields = append(fields,
			field{name: "image_tar", to: &c.ImageTar, rule: r.absolute, null: true, blank: true, doc: "image to load on every node instead of pulling"},
			field{name: "env", kind: kEnv, to: &d.clusterEnv, doc: "environment of the container"})
	}
	removed := "was removed; use lifetime (no_launch, per_run or persistent)"
	gone := func(dc *decoder, n node) { dc.errorf(n, "", "%s", removed) }
	return append(fields,
		field{name: "enabled", kind: kCustom, custom: gone, schema: "false", doc: removed},
		field{name: "launch", kind: kCustom, custom: gone, schema: "false", doc: removed})
}

func (d *draft) registry(dc *decoder, c node) {
	reg := &Registry{}
	before := len(dc.bad)
	was := dc.partial
	dc.partial = false
	dc.object(c, []field{
		{name: "server", to: &reg.Server, blank: true, rule: d.r.host, doc: "registry host; default Docker Hub"},
		{name: "username", to: &reg.Username, need: true, rule: d.r.word, doc: "user of the registry"},
		{name: "password_file", to: &reg.PasswordFile, need: true, rule: d.r.absolute, doc: "path on every node of the file that holds the password"},
	}, false)
	dc.partial = was
	if len(dc.bad) == before {
		d.Container.Runtime.Registry = reg
	}
}

// runtimeEnv merges container.runtime.args.env: in a serving file it is part of
// the server's environment, elsewhere it is the container's.
func (d *draft) runtimeEnv(dc *decoder, c node) {
	vars, ok := dc.env(c, true)
	if !ok {
		return
	}
	if d.Schema == "serving" && c.doc.kind == "config" {
		for _, v := range vars {
			n := dc.set[join(c.canon, v.Name)]
			n.canon = join("roles.server.env", v.Name)
			dc.set[n.canon] = n
			dc.facts.add(n, false)
		}
		d.serveEnvExtra = vars
		return
	}
	dc.facts.add(c, false)
	for _, v := range vars {
		d.Container.Runtime.Env = setVar(d.Container.Runtime.Env, v.Name, v.Value)
	}
}

// clusterFields are the keys of a cluster file.
func (d *draft) clusterFields() []field {
	r := d.r
	const other = "another suite's setting"
	return []field{
		{name: "orchestrator", kind: kCustom, schema: `{"type":"string"}`, as: "cluster.orchestrator", doc: "container; this suite always runs in a container", custom: func(dc *decoder, c node) {
			if c.v.Kind != strictjson.String || !slices.Contains([]string{"baremetal", "container"}, strings.ToLower(c.v.Text)) {
				dc.errorf(c, "", "expected baremetal or container, found %s", describe(c.v, false))
			}
		}},
		{name: "username", to: &d.username, as: "cluster.username", null: true, free: true, doc: "SSH user, and the value of {user-id}; default: the user who runs cvs"},
		{name: "priv_key_file", to: &d.Cluster.PrivKeyFile, as: "cluster.priv_key_file", null: true, blank: true, doc: "SSH private key on this machine"},
		{name: "password", to: &d.Cluster.Password, as: "cluster.password", null: true, blank: true, free: true, secret: true, doc: "SSH password; better a key"},
		{name: "head_node_dict", kind: kObject, as: "cluster.head_node_dict", open: true, doc: "the head node", sub: []field{
			{name: "mgmt_ip", to: &d.mgmtIP, null: true, blank: true, rule: r.host, doc: "the node_dict key of the head node (rank 0)"},
		}},
		{name: "env_vars", kind: kEnv, to: &d.Cluster.EnvVars, as: "cluster.env_vars", null: true, doc: "environment of commands on the host"},
		{name: "node_dict", kind: kCustom, custom: d.nodeDict, need: true, as: "cluster.node_dict", schema: `{"type":["object","array"]}`, doc: "the nodes in rank order: address (or host:port) to {vpc_ip, bmc_ip}"},
		{name: "container", kind: kObject, as: "container", doc: "defaults for the config's container", sub: d.containerFields(true)},
		{name: "home_mount_dir_name", idle: other, doc: other}, {name: "node_dir_name", idle: other, doc: other},
		{name: "racks", idle: other, doc: other}, {name: "rack_groups", idle: other, doc: other},
	}
}

func (d *draft) nodeDict(dc *decoder, c node) {
	add := func(n node, key string, keyAt int) {
		row := nodeRow{Node: Node{Addr: key}, at: n}
		fail := func(hint, msg string) {
			dc.bad[c.canon] = true
			dc.probs.add(n.doc, keyAt, n.path, msg, hint, false)
		}
		switch low := strings.ToLower(key); {
		case strings.Contains(low, "<changeme"):
			fail("", quote(key)+" is still to be filled in")
			return
		case strings.ContainsAny(key, "{}"):
			fail("replace it by hand with the address of the node", quote(key)+" is a template's mark, not an address")
			return
		case !d.r.host.ok(key):
			fail("the SSH user is set by username", "expected "+d.r.host.want+", found "+quote(key))
			return
		}
		dc.object(n, []field{
			{name: "vpc_ip", to: &row.VPCIP, null: true, rule: d.r.host, doc: "address that the other nodes use"},
			{name: "bmc_ip", null: true, free: true, doc: "accepted; not used by this suite"},
			{name: "mgmt_ip", null: true, doc: "address, where node_dict is a list"},
		}, true)
		if row.VPCIP == "" {
			row.VPCIP = hostOf(key)
		}
		d.nodes = append(d.nodes, row)
	}
	if n := max(len(c.v.Members), len(c.v.Items)); n > maxElements {
		dc.errorf(c, "", "has %d nodes, at most %d are read", n, maxElements)
		return
	}
	switch c.v.Kind {
	case strictjson.Object:
		for _, m := range c.v.Members {
			if !comment(m.Name) {
				add(c.child(m.Name, m.Value), m.Name, m.Offset)
			}
		}
	case strictjson.Array:
		for i, v := range c.v.Items {
			n := c.item(i, v)
			ip := v.Get("mgmt_ip")
			if ip == nil || ip.Kind != strictjson.String {
				dc.errorf(n, "", "expected an object with mgmt_ip, found %s", describe(v, false))
				dc.bad[c.canon] = true
				continue
			}
			add(n, ip.Text, v.Offset)
		}
	default:
		dc.errorf(c, "", "expected an object of nodes, found %s", describe(c.v, false))
		return
	}
	if len(d.nodes) == 0 && dc.good(c.canon) {
		dc.errorf(c, "", "names no node")
	}
}

// hostOf is the host part of host or host:port.
func hostOf(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return strings.Trim(addr, "[]")
}

// loadCluster decodes the cluster file and settles the user, the head and the
// order of the nodes. It returns the value of {user-id}, "" if there is none.
func (d *draft) loadCluster(doc *document, o Options) string {
	root := node{v: doc.root, doc: doc, origin: "cluster"}
	user := d.clusterUser(root, o)
	if user != "" {
		replaceTokens(doc.root, func(tok string) (string, bool) { return user, tok == "user-id" }, true)
	}
	d.dc.partial, d.dc.tokens = true, []string{"user-id"}
	d.dc.object(root, d.clusterFields(), true)
	d.dc.partial = false
	if doc.root.Kind != strictjson.Object {
		return user
	}
	for _, f := range d.clusterFields() {
		if f.need && doc.root.Get(f.name) == nil {
			d.dc.missing(root, &f)
		}
	}
	d.Cluster.Username = user
	if d.Cluster.PrivKeyFile == "" && d.Cluster.Password == "" && !o.OtherLogin && d.dc.good("cluster.priv_key_file", "cluster.password") {
		d.dc.probs.add(doc, doc.root.Offset, "priv_key_file", "neither a key file nor a password is given", "priv_key_file is the path of a private key on this machine; without it an SSH agent, CVS_SSH_PASSWORD or --ssh_config must log in", false)
	}
	if k := d.Cluster.PrivKeyFile; k != "" && !filepath.IsAbs(k) && !strings.HasPrefix(k, "~/") {
		d.Cluster.PrivKeyFile = filepath.Join(filepath.Dir(doc.Path), k)
	}
	d.orderNodes(root)
	return user
}

func (d *draft) clusterUser(root node, o Options) string {
	v := root.v.Get("username")
	if v != nil && v.Kind == strictjson.String && strings.TrimSpace(v.Text) != "" && v.Text != "{user-id}" {
		n := root.child("username", v)
		n.canon = "cluster.username"
		if d.dc.settled(n, v.Text, true) && !d.r.userName.ok(v.Text) {
			d.dc.errorf(n, "", "expected %s, found %s", d.r.userName.want, describe(v, false))
		}
		if d.dc.good(n.canon) {
			return v.Text
		}
		v.Text = "" // reported; the rest goes on with the fallback
		return o.OSUser
	}
	at, why := root, "is missing"
	if v != nil {
		if v.Kind != strictjson.String && v.Kind != strictjson.Null {
			return o.OSUser // its type is reported by the table
		}
		at, why = root.child("username", v), "does not name a user"
	}
	at.path = "username"
	if !d.r.userName.ok(o.OSUser) {
		d.dc.errorf(at, "write the SSH user", "%s, and the user who runs this is not known", why)
		return ""
	}
	d.dc.warnf(at, "", "%s; {user-id} is you on this machine: %s", why, quote(o.OSUser))
	if v != nil {
		v.Kind, v.Text = strictjson.String, o.OSUser
	}
	d.dc.facts.put("cluster.username", string(appendText(nil, o.OSUser)), "user who runs cvs")
	return o.OSUser
}

// orderNodes puts the head first: mgmt_ip if it is a node, else the first one.
func (d *draft) orderNodes(root node) {
	dc := d.dc
	for i, n := range d.nodes {
		for _, o := range d.nodes[:i] {
			switch {
			case o.Addr == n.Addr: // a duplicate key, reported by the reader
			case strings.EqualFold(o.Addr, n.Addr):
				dc.bad["cluster.node_dict"] = true
				dc.probs.add(n.at.doc, n.at.v.Offset, n.at.path, "is the same host as "+quote(o.Addr), "one machine cannot be two nodes", false)
			case strings.EqualFold(o.VPCIP, n.VPCIP) && hostOf(o.Addr) == hostOf(n.Addr):
				dc.warnf(n.at, "", "shares its address with %s: two ports of one address are taken as two nodes", quote(o.Addr))
			case strings.EqualFold(o.VPCIP, n.VPCIP):
				dc.bad["cluster.node_dict"] = true
				dc.probs.add(n.at.doc, n.at.v.Offset, n.at.path, fmt.Sprintf("has the same vpc_ip %s as %s", quote(n.VPCIP), quote(o.Addr)), "one machine cannot be two nodes", false)
			}
		}
	}
	head := 0
	if d.mgmtIP != "" && len(d.nodes) > 0 && dc.good("cluster.head_node_dict.mgmt_ip") {
		i := slices.IndexFunc(d.nodes, func(n nodeRow) bool { return n.Addr == d.mgmtIP })
		if i < 0 {
			i = slices.IndexFunc(d.nodes, func(n nodeRow) bool { return hostOf(n.Addr) == d.mgmtIP || n.VPCIP == d.mgmtIP })
		}
		if i < 0 {
			dc.warnf(dc.at("cluster.head_node_dict.mgmt_ip", root), "use a key of node_dict", "%s is not a node; the head is the first one, %s", quote(d.mgmtIP), quote(d.nodes[0].Addr))
		}
		head = max(i, 0)
	}
	for i, n := range d.nodes {
		if i == head {
			d.Cluster.Nodes = slices.Insert(d.Cluster.Nodes, 0, n.Node)
		} else {
			d.Cluster.Nodes = append(d.Cluster.Nodes, n.Node)
		}
	}
}
