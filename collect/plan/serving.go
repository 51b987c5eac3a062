package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/strictjson"
)

// isServing reports whether a config is written in the unified serving schema.
func isServing(v *strictjson.Value) bool {
	object := func(name string) bool { m := v.Get(name); return m != nil && m.Kind == strictjson.Object }
	if object("server_params") && object("benchmark_params") {
		return true
	}
	return object("server_params") && object("sweeps") || object("benchmark_params") && object("sweeps")
}

// servingFields are the keys of a file that uses server_params and
// benchmark_params. Each goes to the same place as its native counterpart; what
// has none is named as without effect. A file without the functional block gets
// both checks.
func (d *draft) servingFields(functional bool) []field {
	native := d.paramFields()
	// mapped takes type, range and target of a native param.
	mapped := func(name, param, def string) field {
		i := slices.IndexFunc(native, func(f field) bool { return f.name == param })
		f := native[i]
		f.name, f.as, f.need, f.null, f.blank = name, "params."+param, false, true, true
		f.def = def // "" leaves the native default, which is set before
		return f
	}
	const unused = "no client or server of this suite takes it"
	idle := func(name, why string) field { return field{name: name, idle: why, doc: why} }
	server := []field{
		{name: "backend", kind: kCustom, custom: d.servingBackend, as: "params.driver", def: `"atom"`, schema: `{"type":"string"}`, doc: "serving framework: atom, vllm, vllm_atom or sglang"},
		{name: "model", free: true, kind: kCustom, schema: `{"type":"string"}`, doc: "model id where model.id is empty", custom: func(dc *decoder, c node) {
			if c.v.Kind != strictjson.String {
				dc.errorf(c, "", "expected a text, found %s", describe(c.v, false))
			}
		}},
		mapped("tensor_parallelism", "tensor_parallelism", ""),
		mapped("pipeline_parallelism", "pipeline_parallel_size", ""),
		mapped("nnodes", "nnodes", ""),
		mapped("port_no", "port_no", ""),
		mapped("proxy_router_serv_port", "port_no", ""),
		mapped("context_length", "max_model_length", ""),
		mapped("master_addr", "master_addr", ""),
		mapped("dist_init_port", "master_port", ""),
		mapped("master_port", "master_port", ""),
		mapped("tokenizer_mode", "tokenizer_mode", ""),
	}
	for _, f := range d.serverFields() {
		f.as, f.def = "roles.server."+f.name, ""
		if f.name == "sglang_args" {
			f.name, f.doc = "add_flags", "arguments of sglang.launch_server"
		}
		server = append(server, f)
	}
	server = append(server,
		idle("log_level", unused), idle("max_concurrency", "the concurrency of each cell is used"),
		idle("memory_fraction", "write it in add_flags or serve_args"), idle("inference_poll_iterations", unused),
		idle("server_node_list", "the nodes are those of the cluster file"), idle("benchmark_serv_node", "the client runs on the head node"))
	bench := []field{mapped("data_set_name", "dataset_name", ""), mapped("client_poll_count", "client_poll_count", `"80"`),
		mapped("reuse_server_across_sweep", "reuse_server_across_sweep", `"true"`)}
	for _, n := range []string{"backend", "dataset_name", "num_prompts", "random_range_ratio", "random_prefix_len", "metric_percentiles", "percentile_metrics",
		"client_poll_wait_time", "client_initial_wait_s", "max_model_length", "scaling_baseline_output_throughput", "seed", "burstiness", "request_rate",
		"base_url", "bench_extra_args", "bench_max_failed_requests", "result_filename"} {
		bench = append(bench, mapped(n, n, ""))
	}
	for _, n := range []string{"server_poll_count", "server_poll_wait_time", "server_precheck_wait_s", "server_warmup_wait_s"} {
		server, bench = append(server, mapped(n, n, "")), append(bench, mapped(n, n, ""))
	}
	bench = append(bench, idle("model_num_params", unused), idle("peak_gpu_tflops", unused))

	top := d.topFields()
	for i := range top {
		if top[i].name == "functional" {
			for j := range top[i].sub {
				top[i].sub[j].def = strconv.FormatBool(!functional)
			}
		}
	}
	return append(top,
		field{name: "server_params", kind: kObject, need: true, as: "server_params", sub: server, doc: "the server (unified serving schema)"},
		field{name: "benchmark_params", kind: kObject, need: true, as: "benchmark_params", sub: bench, doc: "the client (unified serving schema)"},
		field{name: "hca_id_prefix", idle: "the RDMA devices are discovered, or set by server_params.ib_hca_devices", doc: "no effect"})
}

func (d *draft) servingBackend(dc *decoder, c node) {
	known := []string{"atom", "vllm", "vllm_atom", "sglang"}
	if c.v.Kind != strictjson.String {
		dc.errorf(c, "", "expected one of %s, found %s", strings.Join(known, ", "), describe(c.v, false))
		return
	}
	name := strings.ToLower(strings.TrimSpace(c.v.Text))
	if name == "vllm" {
		name = string(DriverVLLMATOM) // as the existing suite maps it
	}
	if !slices.Contains(known, name) {
		dc.errorf(c, didYouMean(name, known), "expected one of %s, found %s", strings.Join(known, ", "), describe(c.v, false))
		return
	}
	d.Params.Driver = Driver(name)
	dc.facts.add(c, false)
	dc.facts.put("params.driver", fmt.Sprintf("%q", name), dc.facts.list[dc.facts.index["params.driver"]].From)
}

// A cellRef is a cell key with the place where it was selected.
type cellRef struct {
	key string
	at  node
}

// catalogue selects the cells of a file with sweeps: those of sweep.runs, else
// of runs, else all of the catalogue (spec 01 §6.2).
func (d *draft) catalogue(root node) []cellRef {
	dc := d.dc
	var keys []cellRef
	sweeps := root.v.Get("sweeps")
	catalogue := dc.child(root, strictjson.Member{Name: "sweeps", Value: sweeps})
	known := map[string]bool{}
	if sweeps != nil && sweeps.Kind == strictjson.Object {
		for _, m := range sweeps.Members {
			known[m.Name] = true
		}
	} else if sweeps != nil {
		dc.errorf(catalogue, "", "expected an object of cell keys, found %s", describe(sweeps, false))
	}
	list := func(n node) {
		if n.v.Kind != strictjson.Array {
			dc.errorf(n, "", "expected a list of cell keys, found %s", describe(n.v, false))
			return
		}
		for i, v := range n.v.Items {
			e := n.item(i, v)
			if v.Kind == strictjson.Object && v.Get("combo") != nil {
				e = e.child("combo", v.Get("combo"))
			}
			if e.v.Kind != strictjson.String {
				dc.errorf(e, "", "expected a cell key, found %s", describe(e.v, false))
				continue
			}
			if len(known) > 0 && !known[e.v.Text] {
				if _, _, _, _, _, err := ParseCellKey(e.v.Text); err == nil {
					dc.warnf(e, "", "%s is not in sweeps; it is run all the same", quote(e.v.Text))
				}
			}
			keys = append(keys, cellRef{e.v.Text, e})
		}
	}
	runs := root.v.Get("runs")
	if sweep := root.v.Get("sweep"); sweep != nil && sweep.Kind == strictjson.Object && sweep.Get("runs") != nil {
		n := dc.child(root, strictjson.Member{Name: "sweep", Value: sweep})
		list(n.child("runs", sweep.Get("runs")))
		for _, m := range sweep.Members {
			if m.Name != "runs" && !comment(m.Name) {
				dc.unknown(n, m, []string{"runs"}, false)
			}
		}
		if runs != nil {
			dc.warnf(dc.child(root, strictjson.Member{Name: "runs", Value: runs}), "", "has no effect: sweep.runs selects the cells")
		}
	} else if sweep != nil {
		dc.errorf(dc.child(root, strictjson.Member{Name: "sweep", Value: sweep}), "beside sweeps it has only runs", "expected an object with runs")
	} else if runs != nil {
		list(dc.child(root, strictjson.Member{Name: "runs", Value: runs}))
	}
	if len(keys) == 0 && sweeps != nil && sweeps.Kind == strictjson.Object {
		for _, m := range sweeps.Members {
			if comment(m.Name) {
				continue
			}
			n := catalogue.child(m.Name, m.Value)
			n.v = &strictjson.Value{Kind: strictjson.String, Text: m.Name, Offset: m.Offset}
			keys = append(keys, cellRef{m.Name, n})
		}
	}
	return keys
}

// sweepFromKeys makes shapes and runs of cell keys. Their TP and PP must be the
// configured ones: the cell is measured with those.
func (d *draft) sweepFromKeys(keys []cellRef) {
	dc := d.dc
	if len(keys) > maxElements {
		dc.errorf(keys[maxElements].at, "", "%d cells are selected, at most %d are run", len(keys), maxElements)
		dc.bad["sweep.runs"] = true
		return
	}
	for _, k := range keys {
		isl, osl, tp, pp, conc, err := ParseCellKey(k.key)
		if err != nil {
			hint := ""
			if fixed, why := repairCellKey(k.key, d.Params.TP, d.Params.PP); fixed != "" {
				hint = why + ": write " + fixed
			}
			dc.errorf(k.at, hint, "%s", err)
			dc.bad["sweep.runs"] = true
			continue
		}
		if dc.good("params.tensor_parallelism", "params.pipeline_parallel_size") && (tp != d.Params.TP || pp != d.Params.PP) {
			dc.errorf(k.at, "write "+CellKey(isl, osl, d.Params.TP, d.Params.PP, conc), "the key says TP=%d,PP=%d but the configuration says TP=%d,PP=%d", tp, pp, d.Params.TP, d.Params.PP)
			dc.bad["sweep.runs"] = true
			continue
		}
		name := fmt.Sprintf("isl%d_osl%d", isl, osl)
		if !slices.ContainsFunc(d.combos, func(c comboRow) bool { return c.name == name }) {
			d.combos = append(d.combos, comboRow{name: name, isl: isl, osl: osl, at: k.at})
		}
		d.runs = append(d.runs, runRow{combo: name, conc: conc, at: k.at})
	}
	for i, c := range d.combos {
		at := fmt.Sprintf("sweep.sequence_combinations[%d].", i)
		line, _ := c.at.doc.pos(c.at.v.Offset)
		from := fmt.Sprintf("%s line %d", c.at.origin, line)
		dc.facts.put(at+"name", fmt.Sprintf("%q", c.name), from)
		dc.facts.put(at+"isl", fmt.Sprint(c.isl), from)
		dc.facts.put(at+"osl", fmt.Sprint(c.osl), from)
	}
	for i, r := range d.runs {
		at := fmt.Sprintf("sweep.runs[%d].", i)
		line, _ := r.at.doc.pos(r.at.v.Offset)
		from := fmt.Sprintf("%s line %d", r.at.origin, line)
		dc.facts.put(at+"combo", fmt.Sprintf("%q", r.combo), from)
		dc.facts.put(at+"concurrency", fmt.Sprint(r.conc), from)
	}
}
