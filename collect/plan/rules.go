package plan

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/gpu"
	"cvs/collect/strictjson"

	// A shell's word splitting with quotes and backslashes and nothing else: no
	// expansion, no comments. google/shlex drops what follows a #.
	"github.com/kballard/go-shellquote"
)

// settle derives what follows from the decoded fields, and applies the rules
// that need several of them. Each rule keeps quiet about values that were
// already refused.
func (d *draft) settle(root node) {
	dc, q := d.dc, &d.Params
	fail := func(canon, hint, format string, args ...any) {
		dc.errorf(dc.at(canon, root), hint, format, args...)
	}
	if d.remote == 1 {
		fail("model.remote", "put the weights into paths.models_dir and write 0", "remote download (1) is not supported")
	}
	if dc.good("params.bench_extra_args") {
		words, err := shellquote.Split(d.extraArgs)
		if err != nil {
			fail("params.bench_extra_args", "", "cannot be split as a shell would: %v", err)
		}
		q.BenchExtraArgs = words
	}
	q.ResultStem = strings.TrimSuffix(d.resultName, ".json")
	if dc.good("params.result_filename") && (q.ResultStem == "" || strings.Trim(q.ResultStem, ".") == "") {
		fail("params.result_filename", "", "expected a file name, found %s", quote(d.resultName))
	}
	if d.baseline != "" && dc.good("params.scaling_baseline_output_throughput") {
		if f, err := strconv.ParseFloat(d.baseline, 64); err == nil {
			q.ScalingBaseline = &f
		}
	}
	d.serverEnv(root)
	d.serverArgs(root)
	d.topology(root)
	d.sweepCells(root)
	d.workload(root)
	if _, ok := flagValue(d.Server.ATOMArgs, "--method"); ok && q.Driver == DriverATOM {
		all := strings.ToLower(strings.Join(d.Server.ATOMArgs, " "))
		d.MTP.Requested = d.MTP.Requested || strings.Contains(all, "mtp")
	}
}

// serverEnv takes out the variables that topology discovery sets, and the knobs
// that are none of the server's, and puts the MXFP4 defaults in.
func (d *draft) serverEnv(root node) {
	dc := d.dc
	for _, v := range d.serveEnvExtra {
		d.Server.Env = setVar(d.Server.Env, v.Name, v.Value)
	}
	var managed []string
	var kept []EnvVar
	for _, v := range d.Server.Env {
		canon := "roles.server.env." + v.Name
		switch {
		case managedVariable(v.Name):
			managed = append(managed, v.Name)
		case v.Name == "CVS_GPU_MEMORY_UTIL" || v.Name == "VLLM_GPU_MEMORY_UTIL":
			if d.Server.GPUMemoryUtil == "" || v.Name == "CVS_GPU_MEMORY_UTIL" {
				d.Server.GPUMemoryUtil = v.Value
			}
			if !d.r.fraction.ok(v.Value) {
				dc.errorf(dc.at(canon, root), "", "expected %s, found %s", d.r.fraction.want, quote(v.Value))
			}
		case v.Name == "VLLM_ENFORCE_EAGER":
			dc.warnf(dc.at(canon, root), "write enforce-eager in serve_args", "is not passed to the server and has no effect")
		default:
			kept = append(kept, v)
			continue
		}
		dc.facts.drop(canon)
	}
	d.Server.Env = kept
	if len(managed) > 0 {
		first := dc.at("roles.server.env."+managed[0], root)
		slices.Sort(managed)
		dc.warnf(first, "use ib_netdev and ib_hca_devices", "%s: set by topology discovery; what the file says is not used", strings.Join(managed, ", "))
	}
	if strings.EqualFold(d.Model.Precision, "mxfp4") && gpu.GFX(d.GPUArch) == "gfx942" {
		for _, name := range []string{"ATOM_USE_TRITON_MOE", "ATOM_USE_TRITON_GEMM"} {
			v, ok := getVar(d.Server.Env, name)
			if ok && !strings.EqualFold(v, "true") {
				continue
			}
			from := "default for mxfp4 on " + d.GPUArch
			d.Server.Env = setVar(d.Server.Env, name, "1") // ATOM understands 1 only
			dc.facts.put("roles.server.env."+name, `"1"`, from)
		}
	}
}

// tensorFlags are the spellings of the parallel sizes in server arguments.
func tensorFlags(dr Driver) []string {
	if dr == DriverSGLang {
		return []string{"--tp", "--tp-size", "--tensor-parallel-size"}
	}
	return []string{"-tp", "--tp", "--tensor-parallel-size", "--tensor_parallel_size"}
}

// serverArgs compares the driver's own arguments with params, finds the data
// parallel size, and names arguments that the chosen driver does not read.
func (d *draft) serverArgs(root node) {
	dc, q := d.dc, &d.Params
	if q.Driver == "" || !dc.good("params.driver") {
		return
	}
	s := &d.Server
	lists := []struct {
		canon string
		set   bool
		used  bool
	}{
		{"roles.server.atom_args", len(s.ATOMArgs) > 0, q.Driver == DriverATOM},
		{"roles.server.sglang_args", len(s.SGLangArgs) > 0, q.Driver == DriverSGLang},
		{"roles.server.serve_args", len(s.ServeArgs) > 0, q.Driver == DriverVLLM || q.Driver == DriverVLLMATOM},
	}
	for _, l := range lists {
		if l.set && !l.used {
			dc.warnf(dc.at(l.canon, root), "", "has no effect with driver %s", q.Driver)
		}
	}
	canon, args := "roles.server.serve_args", serveArgList(s.ServeArgs)
	switch q.Driver {
	case DriverATOM:
		canon, args = "roles.server.atom_args", s.ATOMArgs
		if len(args) == 0 && dc.good(canon) {
			hint := ""
			if d.Schema == "serving" {
				hint = "write server_params.atom_args, or another server_params.backend"
			}
			dc.errorf(dc.at(canon, root), hint, "driver atom needs the arguments of its server, such as -tp %d", max(q.TP, 1))
			return
		}
	case DriverSGLang:
		canon, args = "roles.server.sglang_args", s.SGLangArgs
	}
	if !dc.good(canon) {
		return
	}
	at := dc.at(canon, root)
	tp, ok := d.parallelFlag(at, args, "params.tensor_parallelism", q.TP, tensorFlags(q.Driver), root)
	if !ok && tp == "" && q.Driver == DriverATOM && q.TP > 1 && dc.good("params.tensor_parallelism") {
		dc.warnf(at, fmt.Sprintf("add -tp %d", q.TP), "has no -tp: ATOM then uses one GPU, but params.tensor_parallelism is %d", q.TP)
	}
	d.parallelFlag(at, args, "params.pipeline_parallel_size", q.PP, []string{"-pp", "--pp", "--pp-size", "--pipeline-parallel-size", "--pipeline_parallel_size"}, root)

	d.ownFlags(at, args, root)

	q.DP = 1
	if q.Driver == DriverATOM {
		q.DP = max(q.NNodes, 1) // one replica a node, unless the arguments say otherwise
	}
	dp := []string{"-dp", "--data-parallel-size", "--data_parallel_size"}
	if q.Driver == DriverSGLang {
		dp = []string{"--dp", "--dp-size", "--data-parallel-size"}
		if _, attention := flagValue(args, "--enable-dp-attention"); attention {
			return // its ranks share the GPUs of TP
		}
	}
	d.joinedFlag(at, args, dp)
	for _, f := range flagValues(args, dp...) { // the last one counts
		n, err := strconv.Atoi(f.value)
		if err != nil || n < 1 {
			dc.errorf(at, "", "%s needs a whole number of at least 1, found %s", f.name, quote(f.value))
			return
		}
		q.DP = n
	}
}

// ownFlags reports arguments that the driver writes itself: a second one with
// another value would win, and a server of another model would answer.
func (d *draft) ownFlags(at node, args []string, root node) {
	dc, q := d.dc, &d.Params
	port := []string{"--port"}
	if q.Driver == DriverATOM {
		port = []string{"--server-port", "--server_port"}
	}
	type ownFlag struct {
		flags      []string
		path, want string
	}
	all := []ownFlag{
		{[]string{"--model", "--model-path", "--model_path"}, "model.id", d.Model.ID},
		{port, "params.port_no", strconv.Itoa(q.Port)},
	}
	if q.Driver != DriverATOM {
		all = append(all, ownFlag{[]string{"--nnodes"}, "params.nnodes", strconv.Itoa(max(q.NNodes, 1))})
	}
	for _, own := range all {
		for _, f := range flagValues(args, own.flags...) {
			if dc.good(own.path) && f.value != own.want {
				dc.errorf(at, "leave it out", "%s %s contradicts %s = %s", f.name, printable(f.value), dc.at(own.path, root).path, own.want)
			}
		}
	}
}

// parallelFlag reports arguments that contradict params, every one of them: the
// servers take the last, so an earlier right one says nothing. It returns the
// last flag that was found.
func (d *draft) parallelFlag(at node, args []string, canon string, want int, flags []string, root node) (flag string, same bool) {
	flag = d.joinedFlag(at, args, flags)
	for _, f := range flagValues(args, flags...) {
		flag, same = f.name, f.value == strconv.Itoa(want)
		if d.dc.good(canon) && !same {
			p := d.dc.at(canon, root)
			d.dc.errorf(at, "make the two equal", "%s %s contradicts %s = %d", f.name, printable(f.value), p.path, want)
		}
	}
	return flag, same
}

// joinedFlag reports flags that stand in one argument with their value: arguments
// reach the server as they are written. It returns the last.
func (d *draft) joinedFlag(at node, args, flags []string) (flag string) {
	for _, a := range args {
		if name, value, ok := strings.Cut(a, " "); ok && slices.Contains(flags, name) {
			d.dc.errorf(at, fmt.Sprintf("write %s, %s", quote(name), quote(strings.TrimSpace(value))), "%s is one argument and no server takes it as a flag with its value", quote(a))
			flag = name
		}
	}
	return flag
}

type flagArg struct{ name, value string }

// flagValues finds every --flag value and --flag=value, in order.
func flagValues(args []string, flags ...string) []flagArg {
	var found []flagArg
	for i, a := range args {
		for _, f := range flags {
			if v, ok := strings.CutPrefix(a, f+"="); ok {
				found = append(found, flagArg{f, v})
			} else if a == f && i+1 < len(args) {
				found = append(found, flagArg{f, args[i+1]})
			} else if a == f {
				found = append(found, flagArg{f, ""})
			}
		}
	}
	return found
}

// flagValue finds the value a server would take: the last one.
func flagValue(args []string, flag string) (string, bool) {
	found := flagValues(args, flag)
	if len(found) == 0 {
		return "", false
	}
	return found[len(found)-1].value, true
}

func serveArgList(args []ServeArg) []string {
	var list []string
	for _, a := range args {
		if a.Off {
			continue
		}
		list = append(list, "--"+a.Flag)
		list = append(list, a.Values...)
	}
	return list
}

// topology checks driver, nodes, stages and addresses (spec 01 §9).
func (d *draft) topology(root node) {
	dc, q := d.dc, &d.Params
	sizes := dc.good("params.driver", "params.nnodes", "params.pipeline_parallel_size")
	at := func(canon string) node { return dc.at(canon, root) }
	ray := slices.ContainsFunc(d.Server.ServeArgs, func(a ServeArg) bool {
		return a.Flag == "distributed-executor-backend" && len(a.Values) == 1 && a.Values[0] == "ray"
	})
	pp, nodes := at("params.pipeline_parallel_size"), at("params.nnodes")
	switch {
	case !sizes:
	case q.Driver == DriverATOM && q.PP > 1:
		dc.errorf(pp, "use driver vllm_atom, vllm or sglang", "%s %s cannot run %s %d: it has no pipeline parallelism", at("params.driver").path, q.Driver, pp.path, q.PP)
	case q.Driver == DriverATOM:
		if q.NNodes > 1 {
			dc.warnf(nodes, "", "driver atom on %d nodes runs one data parallel replica a node; this is experimental", q.NNodes)
		}
		if q.NNodes > 1 && q.TP > 8 {
			dc.errorf(at("params.tensor_parallelism"), "", "a replica of driver atom stays on one node: expected at most 8, found %d", q.TP)
		}
	case q.NNodes == 1 && q.PP > 1:
		dc.errorf(pp, fmt.Sprintf("set %s to the number of nodes", nodes.path), "%s %d needs more than one node, but %s is 1", pp.path, q.PP, nodes.path)
	case q.NNodes > 1 && q.PP == 1 && !ray:
		dc.errorf(pp, fmt.Sprintf("set it to %d", q.NNodes), "%s %d needs pipeline parallelism, but %s is 1", nodes.path, q.NNodes, pp.path)
	case q.NNodes > 1 && q.PP > 1 && q.PP != q.NNodes:
		dc.warnf(pp, "", "%d stages on %d nodes", q.PP, q.NNodes)
	}
	if q.Driver != DriverATOM && q.NNodes > 1 && q.MasterPort == q.Port && sizes && dc.good("params.port_no", "params.master_port") {
		dc.errorf(at("params.master_port"), "", "%d is the port of the server on the same node (%s)", q.MasterPort, at("params.port_no").path)
	}
	d.hosts(root)
}

func (d *draft) hosts(root node) {
	dc, q := d.dc, &d.Params
	nodes := d.Cluster.Nodes
	if len(nodes) > 0 && dc.good("params.nnodes", "cluster.node_dict") && len(nodes) != q.NNodes {
		var names []string
		for _, n := range nodes {
			names = append(names, n.Addr)
		}
		n := dc.at("params.nnodes", root)
		hint := "keep only the head node in node_dict"
		if q.NNodes > len(nodes) {
			hint = "add the other nodes to node_dict"
		} else if q.NNodes > 1 {
			hint = fmt.Sprintf("keep %d nodes in node_dict", q.NNodes)
		}
		dc.errorf(n, hint, "is %d, but node_dict of the cluster file has %d host(s): %s", q.NNodes, len(nodes), shortList(names))
	}
	if q.MasterAddr == "" || !dc.good("params.master_addr", "params.nnodes") {
		return
	}
	at := dc.at("params.master_addr", root)
	if q.NNodes <= 1 {
		if token.MatchString(q.MasterAddr) {
			dc.warnf(at, "", "is not used on one node")
		}
		return
	}
	if !dc.settled(at, q.MasterAddr, false) {
		return
	}
	if !d.r.host.ok(q.MasterAddr) || strings.Contains(q.MasterAddr, ":") && net.ParseIP(q.MasterAddr) == nil {
		dc.errorf(at, "", "expected a host name or address without port, found %s", quote(q.MasterAddr))
		return
	}
	if len(nodes) == 0 || !dc.good("cluster.node_dict", "cluster.head_node_dict.mgmt_ip") {
		return
	}
	same := func(n Node) bool {
		return strings.EqualFold(q.MasterAddr, hostOf(n.Addr)) || strings.EqualFold(q.MasterAddr, n.VPCIP)
	}
	if same(nodes[0]) {
		return
	}
	hint := fmt.Sprintf("leave it out, or set vpc_ip of %s to it", printable(nodes[0].Addr))
	for i, n := range nodes[1:] {
		if same(n) {
			dc.errorf(at, "set head_node_dict.mgmt_ip to that node, or leave master_addr out", "%s is node %d of the cluster file, but rank 0 is %s", quote(q.MasterAddr), i+2, quote(nodes[0].Addr))
			return
		}
	}
	dc.errorf(at, hint, "%s is no address of the head node %s", quote(q.MasterAddr), quote(nodes[0].Addr))
}

// sweepCells expands the runs into cells.
func (d *draft) sweepCells(root node) {
	dc := d.dc
	byName := map[string]comboRow{}
	var known []string
	for _, c := range d.combos {
		if o, ok := byName[c.name]; ok && d.fromKeys == nil {
			dc.errorf(c.at, "rename one of the two", "the name %s is already used by %s", quote(c.name), o.at.path)
			continue
		}
		byName[c.name] = c
		known = append(known, c.name)
	}
	seen := map[string]node{}
	for _, r := range d.runs {
		c, ok := byName[r.combo]
		if !ok {
			if !dc.good("sweep.sequence_combinations") {
				continue // it may be one of the broken ones
			}
			hint := didYouMean(r.combo, known)
			if hint == "" || len(known) > 1 {
				hint = strings.TrimSpace(hint + " known are " + strings.Join(known, ", "))
			}
			n := r.at
			if v := n.v.Get("combo"); v != nil {
				n = n.child("combo", v)
			}
			dc.errorf(n, hint, "%s is not in sequence_combinations", quote(r.combo))
			dc.bad["sweep.runs"] = true
			continue
		}
		key := CellKey(c.isl, c.osl, d.Params.TP, d.Params.PP, r.conc)
		if o, ok := seen[key]; ok {
			dc.errorf(r.at, "remove one of the two", "measures the cell %s a second time; the first is %s", key, o.path)
			continue
		}
		seen[key] = r.at
		d.Cells = append(d.Cells, Cell{Ordinal: len(d.Cells) + 1, ID: fmt.Sprintf("%s-conc%d", r.combo, r.conc), Key: key,
			Combo: r.combo, ISL: c.isl, OSL: c.osl, Concurrency: r.conc})
	}
	if len(d.runs) == 0 && dc.good("sweep", "sweep.runs", "sweep.sequence_combinations", "sweeps", "runs") {
		at := dc.at("sweep.runs", root)
		if d.fromKeys != nil {
			at = node{v: root.v, doc: root.doc, path: "sweeps"}
		}
		dc.errorf(at, "", "the sweep has no cells")
	}
}

// workload warns of cells that cannot be what they say.
func (d *draft) workload(root node) {
	dc, q := d.dc, &d.Params
	if !dc.good("params.num_prompts", "params.max_model_length") {
		return
	}
	var long []string
	for i, c := range d.Cells {
		at := dc.at("sweep.runs", root)
		if i < len(d.runs) {
			at = d.runs[i].at
		}
		if c.Concurrency > q.NumPrompts {
			dc.warnf(at, "", "concurrency %d cannot be reached with %d prompts", c.Concurrency, q.NumPrompts)
		}
		if c.ISL+c.OSL > q.MaxModelLength {
			long = append(long, c.ID)
		}
	}
	if len(long) > 0 {
		dc.warnf(dc.at("params.max_model_length", root), "", "%d is less than ISL + OSL of %s", q.MaxModelLength, shortList(long))
	}
	for _, c := range d.LongContext {
		if c.ISL > q.MaxModelLength {
			dc.warnf(dc.at("long_context_accuracy.cells", root), "", "the cell %s is longer than params.max_model_length %d and is skipped", quote(c.ID), q.MaxModelLength)
		}
	}
}

// textOf is the text of a value, "" if it is none.
func textOf(v *strictjson.Value) string {
	if v == nil || v.Kind != strictjson.String {
		return ""
	}
	return v.Text
}
