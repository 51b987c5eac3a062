package plan

import (
	"slices"
	"strconv"
	"strings"

	"cvs/collect/strictjson"
)

// accuracyTask is one entry of accuracy.tasks: the newer, larger set of fields,
// of which the older one is a part.
func (d *draft) accuracyTask() ([]field, func()) {
	t := &AccuracyTask{}
	var legacy []string
	names := func(to *[]string) func(*decoder, node) {
		return func(dc *decoder, c node) {
			dc.facts.add(c, false)
			list := []string{c.v.Text}
			if c.v.Kind == strictjson.Array {
				var ok bool
				if list, ok = dc.texts(c, nil, false); !ok {
					return
				}
			} else if c.v.Kind != strictjson.String {
				dc.errorf(c, "", "expected a task name or a list of them, found %s", describe(c.v, false))
				return
			}
			for _, l := range list {
				for _, n := range strings.Split(l, ",") {
					if n = strings.TrimSpace(n); n == "" {
						continue
					}
					if !d.r.word.ok(n) {
						dc.errorf(c, "", "expected lm-eval task names, found %s", quote(n))
						return
					}
					*to = append(*to, n)
				}
			}
			if len(*to) == 0 {
				dc.errorf(c, "", "names no lm-eval task")
			}
		}
	}
	text := func(name string, to *string, doc string) field {
		return field{name: name, to: to, null: true, free: true, doc: doc}
	}
	flag := func(name string, to *bool, doc string) field {
		return field{name: name, kind: kBool, to: to, def: "false", doc: doc}
	}
	const namesSchema = `{"type":["string","array"],"items":{"type":"string"}}`
	fields := []field{
		{name: "id", to: &t.ID, need: true, rule: d.r.pathPart, doc: "key of the thresholds, and folder of the results"},
		{name: "task", kind: kCustom, custom: names(&legacy), null: true, schema: namesSchema, doc: "older name of tasks"},
		{name: "tasks", kind: kCustom, custom: names(&t.Tasks), null: true, schema: namesSchema, doc: "lm-eval tasks"},
		{name: "num_fewshot", kind: kInt, to: &t.NumFewshot, null: true, doc: "examples in the prompt"},
		{name: "num_concurrent", kind: kInt, to: &t.NumConcurrent, def: "8", min: 1, doc: "requests in flight"},
		{name: "metadata", kind: kCustom, null: true, schema: `{"type":"object"}`, doc: "passed to lm-eval; filter selects the filter that is reported", custom: func(dc *decoder, c node) {
			if c.v.Kind != strictjson.Object {
				dc.errorf(c, "", "expected an object, found %s", describe(c.v, false))
				return
			}
			dc.facts.add(c, false)
			if kept := withoutComments(c.v); len(kept.Members) > 0 {
				t.Metadata = compact(kept)
			}
			if f := c.v.Get("filter"); f != nil && f.Kind == strictjson.String {
				t.Filter = f.Text
			}
		}},
		text("include_path", &t.IncludePath, "folder with more task definitions"),
		{name: "apply_chat_template", kind: kCustom, null: true, def: "false", schema: `{"type":["boolean","string"]}`, doc: "true, or the name of a template: use the chat endpoint", custom: func(dc *decoder, c node) {
			dc.facts.add(c, false)
			switch c.v.Kind {
			case strictjson.Bool:
				t.ApplyChatTemplate = c.v.Bool
			case strictjson.String:
				t.ApplyChatTemplate, t.ChatTemplate = c.v.Text != "", c.v.Text
			default:
				dc.errorf(c, "", "expected true, false or a template name, found %s", describe(c.v, false))
			}
		}},
		{name: "gen_kwargs", kind: kCustom, null: true, schema: `{"type":"object"}`, doc: "generation arguments", custom: func(dc *decoder, c node) {
			if c.v.Kind != strictjson.Object {
				dc.errorf(c, "", "expected an object, found %s", describe(c.v, false))
				return
			}
			dc.facts.add(c, false)
			if len(c.v.Members) > 0 {
				t.GenKwargs = compact(c.v)
			}
		}},
		text("backend", &t.Backend, "accepted; not used"),
		{name: "lm_eval_model", to: &t.LMEvalModel, null: true, enum: []string{"local-completions", "local-chat-completions"}, doc: "default: by apply_chat_template"},
		text("extra_model_args", &t.ExtraModelArgs, "more --model_args, k=v separated by commas"),
		{name: "batch_size", kind: kDecimal, to: &t.BatchSize, def: `"1"`, rule: d.r.word, doc: "lm-eval batch size"},
		{name: "max_batch_size", kind: kInt, to: &t.MaxBatchSize, null: true, min: 1, doc: "upper bound for an automatic batch size"},
		{name: "device", to: &t.Device, null: true, def: `"cuda:0"`, rule: d.r.word, doc: "device of lm-eval"},
		{name: "limit", kind: kFloat, to: &t.Limit, null: true, doc: "number or share of the questions"},
		{name: "samples", kind: kCustom, null: true, schema: `{"type":["object","string"]}`, doc: "which samples, as an object or a text", custom: func(dc *decoder, c node) {
			dc.facts.add(c, false)
			switch c.v.Kind {
			case strictjson.Object:
				t.Samples = compact(c.v)
			case strictjson.String:
				t.Samples = c.v.Text
			default:
				dc.errorf(c, "", "expected an object or a text, found %s", describe(c.v, false))
			}
		}},
		text("use_cache", &t.UseCache, "cache of lm-eval"),
		{name: "cache_requests", to: &t.CacheRequests, null: true, enum: []string{"true", "refresh", "delete"}, doc: "cache of the requests"},
		flag("check_integrity", &t.CheckIntegrity, "run lm-eval's own tests of the task"),
		flag("predict_only", &t.PredictOnly, "no scoring"),
		flag("trust_remote_code", &t.TrustRemoteCode, "let data sets run code"),
		flag("confirm_run_unsafe_code", &t.ConfirmRunUnsafeCode, "let tasks run generated code"),
		text("system_instruction", &t.SystemInstruction, "system prompt"),
		{name: "fewshot_as_multiturn", kind: kBool, to: &t.FewshotAsMultiturn, null: true, doc: "examples as turns of a chat"},
		{name: "seed", kind: kCustom, def: "[0,1234,1234,1234]", schema: `{"type":"array","minItems":4,"maxItems":4,"items":{"type":["integer","null"]}}`, doc: "four seeds: python, numpy, torch, few-shot", custom: func(dc *decoder, c node) {
			dc.facts.add(c, false)
			if c.v.Kind != strictjson.Array || len(c.v.Items) != 4 {
				dc.errorf(c, "", "expected four seeds (python, numpy, torch, few-shot), found %s", describe(c.v, false))
				return
			}
			t.Seed = nil
			for i, v := range c.v.Items {
				if v.Kind == strictjson.Null {
					t.Seed = append(t.Seed, "None")
				} else if n, ok := dc.integer(c.item(i, v), 0, 0); ok {
					t.Seed = append(t.Seed, strconv.Itoa(n))
				}
			}
		}},
		{name: "exec_timeout_sec", kind: kInt, to: &t.ExecTimeout, def: "14400", min: 1, doc: "limit in seconds"},
	}
	return fields, func() {
		at := d.dc.set[d.dc.lastObject]
		switch {
		case len(t.Tasks) == 0:
			t.Tasks = legacy
		case len(legacy) > 0 && !slices.Equal(t.Tasks, legacy):
			d.dc.errorf(at, "keep tasks", "task and tasks name different lm-eval tasks")
		}
		if len(t.Tasks) == 0 {
			d.dc.errorf(at, "", "names no lm-eval task: tasks is missing")
			return
		}
		if slices.ContainsFunc(d.Accuracy, func(o AccuracyTask) bool { return o.ID == t.ID }) {
			d.dc.errorf(at, "", "the task id %s occurs twice", quote(t.ID))
			return
		}
		d.Accuracy = append(d.Accuracy, *t)
	}
}
