package ingest

import (
	"strings"

	"cvs/collect/strictjson"
)

// lmEval reads results.json of lm-evaluation-harness of any age. A metric is
// named <task>.<metric>__<filter>: the harness's comma becomes two underscores.
// Files of 2023 have no filter and give <task>.<metric>.
func lmEval() format {
	return format{name: LMEval, is: isLMEval, read: readLMEval}
}

func isLMEval(v *strictjson.Value) bool {
	r := v.Get("results")
	if r == nil || r.Kind != strictjson.Object || len(r.Members) == 0 {
		return false
	}
	for _, m := range r.Members {
		if m.Value.Kind != strictjson.Object {
			return false
		}
	}
	return hasAny(v, "versions", "config", "configs", "group_subtasks", "n-shot", "n-samples", "higher_is_better", "groups")
}

func readLMEval(b *builder, v *strictjson.Value) {
	b.sample.Identity = Identity{Model: lmEvalModel(v), StartUnix: float(v.Get("date")), HigherIsBetter: make(map[string]bool)}
	higher := v.Get("higher_is_better")
	for _, task := range v.Get("results").Members {
		parent := "/results/" + strictjson.EscapePointer(clean(task.Name))
		for _, m := range task.Value.Members {
			x := b.value(m.Name, parent, m.Value)
			// Booleans, texts such as "N/A", the alias and nested counts are
			// facts about the task, not metrics of it. The harness writes
			// numbers as numbers, so a numeric text is a name or a version.
			if m.Value.Kind == strictjson.Number && m.Name != "alias" {
				x.Metric = clean(task.Name) + "." + strings.ReplaceAll(clean(m.Name), ",", "__")
				name, _, _ := strings.Cut(m.Name, ",")
				if h := higher.Get(task.Name).Get(name); h != nil && h.Kind == strictjson.Bool {
					b.sample.Identity.HigherIsBetter[x.Metric] = h.Bool
				}
			}
			b.sample.Values = append(b.sample.Values, x)
		}
	}
}

func lmEvalModel(v *strictjson.Value) string {
	if m := text(v.Get("model_name")); m != "" {
		return m
	}
	args := v.Get("config").Get("model_args")
	if args != nil && args.Kind == strictjson.Object {
		for _, k := range []string{"model", "pretrained"} {
			if m := text(args.Get(k)); m != "" {
				return m
			}
		}
	}
	for _, arg := range strings.Split(text(args), ",") {
		if k, m, ok := strings.Cut(arg, "="); ok && (k == "pretrained" || k == "model") {
			return m
		}
	}
	return ""
}
