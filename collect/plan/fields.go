package plan

import (
	"strings"

	"cvs/collect/strictjson"
)

// A draft is a plan in the making, with what only the loader needs.
type draft struct {
	Plan
	dc *decoder
	r  *rules

	thresholdJSON    string
	thresholdProfile string
	baseline         string
	resultName       string
	extraArgs        string
	remote           int
	combos           []comboRow
	runs             []runRow
	serveEnvExtra    []EnvVar // container.runtime.args.env of a serving file
	clusterEnv       []EnvVar // container.env of the cluster file
	username         string
	mgmtIP           string
	nodes            []nodeRow
	fromKeys         []cellRef       // cells selected by key; nil: the sweep block has them
	profileKeys      map[string]bool // top-level keys that the profile has
}

type comboRow struct {
	name     string
	isl, osl int
	at       node
}

type runRow struct {
	combo string
	conc  int
	at    node
}

type nodeRow struct {
	Node
	at node
}

// topFields are the keys every config has, whatever its schema.
func (d *draft) topFields() []field {
	p, r := &d.Plan, d.r
	return []field{
		{name: "schema_version", kind: kCustom, custom: func(*decoder, node) {}, schema: `{"enum":[1,2]}`, doc: "1 for a flat file, 2 for one with profiles; may be left out"},
		{name: "framework", def: `"atom"`, enum: []string{"atom"}, doc: "the suite: atom"},
		{name: "gpu_arch", to: &p.GPUArch, rule: r.arch, blank: true, null: true, doc: "GPU architecture; default: the part of the file name before _atom_"},
		{name: "enforce_thresholds", kind: kBool, to: &p.Enforce, doc: "true: thresholds gate; false: values are recorded only (default: true in native files, false in serving files)"},
		{name: "threshold_json", to: &d.thresholdJSON, null: true, free: true, doc: "file name of the threshold file beside this file; no placeholders; default: the only *threshold.json there"},
		{name: "paths", kind: kObject, need: true, doc: "directories and files", sub: []field{
			{name: "shared_fs", to: &p.Paths.SharedFS, need: true, rule: r.nonBlank, doc: "the lab's shared directory"},
			{name: "models_dir", to: &p.Paths.ModelsDir, need: true, rule: r.absolute, doc: "root of the weights inside the container, exported as HF_HUB_CACHE"},
			{name: "log_dir", to: &p.Paths.LogDir, need: true, rule: r.absolute, doc: "logs and results of every cell go below it, inside the container"},
			{name: "hf_token_file", to: &p.Paths.HFTokenFile, need: true, rule: r.nonBlank, doc: "file on the launcher that holds the Hugging Face token"},
			{name: "temp_dir", to: &p.Paths.TempDir, def: `""`, doc: "accepted; used by other suites"},
		}},
		{name: "model", kind: kObject, need: true, doc: "the model under test", sub: []field{
			{name: "id", to: &p.Model.ID, need: true, rule: r.model, doc: "Hugging Face id or path inside the container"},
			{name: "remote", kind: kInt, to: &d.remote, def: "0", max: 1, doc: "0: the weights are already there; 1 is not supported"},
			{name: "precision", to: &p.Model.Precision, def: `""`, doc: "such as fp8 or mxfp4"},
		}},
		{name: "container", kind: kObject, need: true, doc: "the container on every node; laid over the cluster file's container", sub: d.containerFields(false)},
		{name: "run_card", kind: kObject, doc: "notes for people", sub: []field{
			{name: "upstream_run_url", to: &p.RunCard.UpstreamRunURL, def: `""`, free: true, doc: "where these numbers come from"},
			{name: "atom_image_pin", to: &p.RunCard.ATOMImagePin, def: `""`, free: true, doc: "image to name in reports instead of container.image"},
			{name: "notes", to: &p.RunCard.Notes, def: `""`, free: true, doc: "free text"},
		}},
		{name: "functional", kind: kObject, doc: "checks before the sweep (FUNC-1, FUNC-2)", sub: []field{
			{name: "api_smoke", kind: kBool, to: &p.Functional.APISmoke, def: "false", doc: "FUNC-1: OpenAI API smoke test"},
			{name: "health_check", kind: kBool, to: &p.Functional.HealthCheck, def: "false", doc: "FUNC-2: health endpoints"},
		}},
		{name: "platform", kind: kObject, doc: "checks of the node (INF-6, INF-7)", sub: []field{
			{name: "dmesg_scan", kind: kBool, to: &p.Platform.DmesgScan, def: "false", doc: "INF-6: scan the kernel log"},
			{name: "gpu_metrics_poll", kind: kBool, to: &p.Platform.GPUMetricsPoll, def: "false", doc: "INF-7: sample GPU metrics"},
		}},
		{name: "accuracy", kind: kObject, doc: "lm-eval tasks", sub: []field{
			{name: "tasks", kind: kList, elem: d.accuracyTask, doc: "one entry a task selection"},
		}},
		{name: "long_context_accuracy", kind: kObject, doc: "needle in a haystack (ACC-12)", sub: []field{
			{name: "cells", kind: kList, elem: d.longContextCell, doc: "one entry a cell"},
		}},
		{name: "mtp_quality", kind: kObject, doc: "checks of speculative decoding (ACC-4/5/13)", sub: []field{
			{name: "enabled", kind: kBool, to: &p.MTP.Requested, def: "false", doc: "also implied by --method mtp in atom_args"},
			{name: "chat_template_prompt", to: &p.MTP.Prompt, def: `"Say hello in one short sentence."`, free: true, doc: "prompt of the chat template check"},
			{name: "chat_template_expected_sha256", to: &p.MTP.ExpectedSHA256, def: `""`, rule: r.sha256, doc: "expected fingerprint; blank: record only"},
		}},
		{name: "quant_parity", kind: kObject, doc: "probe against a reference run (ACC-7)", sub: []field{
			{name: "enabled", kind: kBool, to: &p.Quant.Enabled, def: "false", doc: "run the probe"},
			{name: "probe_prompt", to: &p.Quant.ProbePrompt, def: `"The capital of France is"`, free: true, doc: "prompt of the probe"},
			{name: "reference_config_stem", to: &p.Quant.ReferenceStem, def: `""`, rule: r.fileStem, doc: "config name of the reference run"},
		}},
	}
}

// nativeFields are the keys of a file that uses params and roles.
func (d *draft) nativeFields() []field {
	return append(d.topFields(),
		field{name: "threshold_profile", to: &d.thresholdProfile, rule: d.r.pathPart, doc: "profile of the threshold file, where it differs from the config's"},
		field{name: "roles", kind: kObject, doc: "the server", sub: []field{
			{name: "server", kind: kObject, doc: "how the server is started", sub: d.serverFields()},
		}},
		field{name: "params", kind: kObject, need: true, doc: "workload, topology and waits", sub: d.paramFields()},
		field{name: "sweep", kind: kObject, need: true, doc: "shapes and the cells to run", sub: []field{
			{name: "sequence_combinations", kind: kList, need: true, elem: d.combo, doc: "named shapes"},
			{name: "runs", kind: kList, need: true, elem: d.run, doc: "one entry a benchmark cell"},
		}},
	)
}

func (d *draft) serverFields() []field {
	s := &d.Server
	return []field{
		{name: "atom_args", kind: kTexts, to: &s.ATOMArgs, free: true, def: "[]", doc: "arguments of atom.entrypoints.openai_server; required for driver atom"},
		{name: "sglang_args", kind: kTexts, to: &s.SGLangArgs, free: true, def: "[]", doc: "arguments of sglang.launch_server"},
		{name: "serve_args", kind: kCustom, custom: d.serveArgs, def: "{}", schema: `{"type":"object"}`, doc: "flags of vllm serve without dashes: true for a bare flag, false to suppress a default, a list to repeat it"},
		{name: "env", kind: kEnv, to: &s.Env, def: "{}", doc: "environment of the server and of the container"},
		{name: "ib_hca_devices", kind: kCustom, custom: d.hcaDevices, def: "null", schema: `{"anyOf":[{"const":"auto"},{"type":"null"},{"type":"array","items":{"type":"string"}}]}`, doc: "auto, or the RDMA devices to use"},
		{name: "ib_netdev", kind: kCustom, custom: d.netdev, def: "null", schema: `{"type":["string","null"]}`, doc: "auto, or the IP interface for socket traffic; never an RDMA device"},
	}
}

func (d *draft) paramFields() []field {
	q, r := &d.Params, d.r
	count := func(name string, to *int, def string, lo int, doc string) field {
		return field{name: name, kind: kInt, to: to, def: def, min: lo, doc: doc}
	}
	return []field{
		{name: "driver", to: &q.Driver, need: true, enum: drivers, doc: "serving framework: atom, vllm_atom, vllm or sglang"},
		{name: "backend", to: &q.Backend, def: `"vllm"`, rule: r.word, doc: "--backend of the vLLM client"},
		{name: "base_url", to: &q.BaseURL, def: `"http://0.0.0.0"`, rule: r.url, doc: "where clients in the container find the server"},
		{name: "port_no", kind: kInt, to: &q.Port, def: `"8000"`, min: 1, max: 65535, doc: "server port"},
		{name: "dataset_name", to: &q.DatasetName, def: `"random"`, rule: r.word, doc: "data set of the client"},
		{name: "burstiness", kind: kDecimal, to: &q.Burstiness, def: `"1.0"`, rule: r.positive, doc: "burstiness of the arrivals"},
		count("seed", &q.Seed, `"0"`, 0, "seed of the client"),
		{name: "request_rate", kind: kDecimal, to: &q.RequestRate, def: `"inf"`, rule: r.rate, doc: "requests per second, or inf"},
		{name: "random_range_ratio", kind: kDecimal, to: &q.RandomRangeRatio, def: `"0.8"`, rule: r.fraction, doc: "spread of the lengths; its meaning differs between clients"},
		count("random_prefix_len", &q.RandomPrefixLen, `"0"`, 0, "common prefix in tokens"),
		count("tensor_parallelism", &q.TP, `"8"`, 1, "tensor parallel size; TP= in cell keys"),
		{name: "tokenizer_mode", to: &q.TokenizerMode, def: `"auto"`, rule: r.word, doc: "tokenizer mode of the vLLM client"},
		{name: "percentile_metrics", to: &q.PercentileMetrics, def: `"ttft,tpot,itl,e2el"`, rule: r.percentileMetrics, doc: "metrics with percentiles"},
		{name: "metric_percentiles", kind: kDecimal, to: &q.MetricPercentiles, def: `"95,99"`, rule: r.percentiles, doc: "percentiles the client reports"},
		count("num_prompts", &q.NumPrompts, `"1000"`, 1, "requests per cell"),
		count("max_model_length", &q.MaxModelLength, `"8192"`, 1, "context length of the server, in tokens"),
		count("client_poll_count", &q.ClientPollCount, `"50"`, 1, "client limit: initial wait + count * wait"),
		count("client_poll_wait_time", &q.ClientPollWait, `"60"`, 1, "seconds"),
		count("client_initial_wait_s", &q.ClientInitialWait, `"120"`, 0, "seconds"),
		count("server_precheck_wait_s", &q.ServerPrecheckWait, `"30"`, 0, "seconds; part of the limit for a server start"),
		count("server_warmup_wait_s", &q.ServerWarmupWait, `"330"`, 0, "seconds; part of the limit for a server start"),
		count("server_poll_count", &q.ServerPollCount, `"60"`, 1, "server limit: precheck + warm-up + count * wait"),
		count("server_poll_wait_time", &q.ServerPollWait, `"60"`, 1, "seconds"),
		{name: "reuse_server_across_sweep", kind: kSwitch, to: &q.ReuseServer, def: `"false"`, doc: "keep the server for cells that need the same one"},
		count("bench_max_failed_requests", &q.MaxFailedRequests, `"0"`, 0, "failed requests a cell may have"),
		{name: "bench_extra_args", to: &d.extraArgs, def: `""`, free: true, doc: "more client arguments, split as a shell would"},
		{name: "result_filename", to: &d.resultName, def: `"results"`, blank: true, rule: r.fileStem, doc: "name of the client's result file"},
		count("nnodes", &q.NNodes, `"1"`, 1, "number of nodes; never part of a cell key"),
		count("pipeline_parallel_size", &q.PP, `"1"`, 1, "pipeline parallel size; PP= in cell keys"),
		{name: "master_addr", to: &q.MasterAddr, def: `""`, blank: true, free: true, doc: "address of the head node for several nodes; default: the head"},
		{name: "master_port", kind: kInt, to: &q.MasterPort, def: `"29501"`, min: 1, max: 65535, doc: "port of the coordinator"},
		{name: "scaling_baseline_output_throughput", kind: kDecimal, to: &d.baseline, def: `""`, blank: true, null: true, rule: r.positive, doc: "single-node output tok/s for scaling.efficiency_pct; blank: none"},
	}
}

// drivers are the names of params.driver.
var drivers = []string{string(DriverATOM), string(DriverVLLMATOM), string(DriverVLLM), string(DriverSGLang)}

func (d *draft) combo() ([]field, func()) {
	c := &comboRow{}
	return []field{
			{name: "name", to: &c.name, need: true, rule: d.r.pathPart, doc: "name of the shape"},
			{name: "isl", kind: kInt, to: &c.isl, need: true, min: 1, doc: "input length in tokens"},
			{name: "osl", kind: kInt, to: &c.osl, need: true, min: 1, doc: "output length in tokens"},
			{name: "goodput_slo", kind: kObject, doc: "accepted; not used by this suite", sub: []field{
				{name: "ttft_ms", kind: kFloat, doc: "ms"}, {name: "tpot_ms", kind: kFloat, doc: "ms"}, {name: "e2el_ms", kind: kFloat, doc: "ms"},
			}},
		}, func() {
			c.at = d.dc.set[d.dc.lastObject]
			d.combos = append(d.combos, *c)
		}
}

func (d *draft) run() ([]field, func()) {
	c := &runRow{}
	return []field{
			{name: "combo", to: &c.combo, need: true, free: true, doc: "name of a shape"},
			{name: "concurrency", kind: kInt, to: &c.conc, need: true, min: 1, doc: "requests in flight"},
		}, func() {
			c.at = d.dc.set[d.dc.lastObject]
			d.runs = append(d.runs, *c)
		}
}

func (d *draft) longContextCell() ([]field, func()) {
	c := &LongContextCell{}
	return []field{
		{name: "id", to: &c.ID, need: true, rule: d.r.pathPart, doc: "name of the cell"},
		{name: "isl", kind: kInt, to: &c.ISL, need: true, min: 1, doc: "prompt length in tokens"},
		{name: "osl", kind: kInt, to: &c.OSL, def: "32", min: 1, doc: "answer length in tokens"},
		{name: "num_prompts", kind: kInt, to: &c.NumPrompts, def: "8", min: 1, doc: "prompts"},
		{name: "seed", kind: kInt, to: &c.Seed, def: "42", doc: "seed of the needles"},
		{name: "needle_depth_pct", kind: kInt, to: &c.DepthPct, def: "0", max: 100, doc: "where the needle stands: 0 is the start of the prompt, 100 its end"},
		{name: "concurrency", kind: kInt, to: &c.Concurrency, def: "1", min: 1, max: 1024, doc: "requests in flight"},
	}, func() { d.LongContext = append(d.LongContext, *c) }
}

// serveArgs keeps the order of the file; keys that start with _ are data here.
func (d *draft) serveArgs(dc *decoder, c node) {
	if c.v.Kind != strictjson.Object {
		dc.errorf(c, "", "expected an object of flags, found %s", describe(c.v, false))
		return
	}
	dc.facts.add(c, false)
	var args []ServeArg
	for _, m := range c.v.Members {
		e := c.child(m.Name, m.Value)
		dc.set[e.canon] = e
		if !d.r.flag.ok(m.Name) {
			hint := ""
			if strings.HasPrefix(m.Name, "-") {
				hint = "write " + strings.TrimLeft(m.Name, "-")
			}
			dc.bad[c.canon] = true
			dc.probs.add(c.doc, m.Offset, e.path, "expected "+d.r.flag.want+", found "+quote(m.Name), hint, false)
			continue
		}
		a := ServeArg{Flag: m.Name}
		switch m.Value.Kind {
		case strictjson.Bool:
			a.Off = !m.Value.Bool
		case strictjson.Null:
			dc.errorf(e, "true for a bare flag, false for none", "expected a value, found null")
		case strictjson.Array:
			a.Off = len(m.Value.Items) == 0
			for i, v := range m.Value.Items {
				a.Values = append(a.Values, d.argText(dc, e.item(i, v)))
			}
		default:
			a.Values = []string{d.argText(dc, e)}
		}
		args = append(args, a)
	}
	d.Server.ServeArgs = args
}

func (d *draft) argText(dc *decoder, e node) string {
	switch e.v.Kind {
	case strictjson.String:
		dc.settled(e, e.v.Text, true)
		return e.v.Text
	case strictjson.Number:
		return e.v.Text
	}
	return compact(e.v) // as the JSON that flags such as compilation-config take
}

func (d *draft) hcaDevices(dc *decoder, c node) {
	dc.facts.add(c, false)
	switch {
	case c.v.Kind == strictjson.Null, c.v.Kind == strictjson.String && c.v.Text == "auto":
		d.Server.IBHCADevices = nil
	case c.v.Kind == strictjson.Array:
		if l, ok := dc.texts(c, d.r.hca, false); ok && len(l) > 0 {
			d.Server.IBHCADevices = l
		}
	default:
		dc.errorf(c, "", "expected auto or a list of RDMA devices, found %s", describe(c.v, false))
	}
}

func (d *draft) netdev(dc *decoder, c node) {
	dc.facts.add(c, false)
	switch {
	case c.v.Kind == strictjson.Null:
	case c.v.Kind != strictjson.String:
		dc.errorf(c, "", "expected auto or %s, found %s", d.r.netdev.want, describe(c.v, false))
	case strings.TrimSpace(c.v.Text) == "" || strings.EqualFold(strings.TrimSpace(c.v.Text), "auto"):
	case !dc.settled(c, c.v.Text, false):
	case !d.r.netdev.ok(c.v.Text):
		dc.errorf(c, "use auto, or an interface that `ip link` shows", "expected %s, found %s", d.r.netdev.want, describe(c.v, false))
	default:
		d.Server.IBNetdev = c.v.Text
	}
}
