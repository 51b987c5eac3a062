package lab

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// document is a results file of lm-eval 0.4.12 for an API model, key for key.
func (r *evalRun) document(names []string, scores []taskScore) object {
	results, configs, versions, shots := object{}, object{}, object{}, object{}
	better, counts, hashes, subtasks, groups := object{}, object{}, object{}, object{}, object{}
	for _, sc := range scores {
		t := sc.task
		row := object{{"name", t.name}, {"alias", t.name}, {"sample_len", len(sc.samples)}}
		higher := object{}
		for k, m := range t.metrics {
			mean, stderr := meanError(sc.correct[k])
			row = append(row, member{m.name + "," + m.filter, mean}, member{m.name + "_stderr," + m.filter, stderr})
			higher = higher.set(m.name, true)
		}
		results = results.set(t.name, row)
		kind := t.kind()
		if t.choices > 0 {
			kind = "multiple_choice"
		}
		configs = configs.set(t.name, object{{"task", t.name}, {"dataset_path", "lab/sums"}, {"output_type", kind}, {"num_fewshot", sc.shots}, {"repeats", 1}})
		versions, shots = versions.set(t.name, t.version), shots.set(t.name, sc.shots)
		better = better.set(t.name, higher)
		counts = counts.set(t.name, object{{"original", t.size}, {"effective", len(sc.samples)}})
		hashes = hashes.set(t.name, hash("task "+t.name))
	}
	for _, name := range names {
		t, _ := findTask(name)
		if t.group == nil {
			subtasks = subtasks.set(name, []string{})
			continue
		}
		subtasks = subtasks.set(name, t.group)
		row := object{{"name", name}, {"alias", name}}
		for k, m := range t.metrics {
			mean, stderr := pooled(scores, t.group, k)
			row = append(row, member{m.name + "," + m.filter, mean}, member{m.name + "_stderr," + m.filter, stderr})
		}
		results, groups = results.set(name, row), groups.set(name, row)
		versions = versions.set(name, t.version)
	}
	out := object{{"results", results}}
	if len(groups) > 0 {
		out = append(out, member{"groups", groups})
	}
	args := object{}
	for _, part := range strings.Split(strings.Join(r.args.list("--model_args"), ","), ",") {
		k, v, _ := strings.Cut(part, "=")
		if n, err := strconv.Atoi(v); err == nil {
			args = args.set(k, n)
		} else if b, err := strconv.ParseBool(v); err == nil && v != "t" && v != "f" {
			args = args.set(k, b)
		} else {
			args = args.set(k, v)
		}
	}
	model := r.model["model"]
	return append(out, object{
		{"group_subtasks", subtasks}, {"configs", configs}, {"versions", versions}, {"n-shot", shots}, {"higher_is_better", better}, {"n-samples", counts},
		{"config", object{{"model", r.args.text("--model")}, {"model_args", args}, {"batch_size", r.args.text("--batch_size")}, {"batch_sizes", []string{}},
			{"device", optional(r.args.text("--device"))}, {"use_cache", optional(r.args.text("--use_cache"))}, {"limit", r.limit()}, {"bootstrap_iters", 100000},
			{"gen_kwargs", object{}}, {"random_seed", r.seed}, {"numpy_seed", 1234}, {"torch_seed", 1234}, {"fewshot_seed", 1234}}},
		{"git_hash", nil}, {"date", unixTime(r.began)}, {"pretty_env_info", "simulated: " + GPUName}, {"transformers_version", labVersion},
		{"lm_eval_version", lmEvalVersion}, {"upper_git_hash", nil}, {"task_hashes", hashes}, {"model_source", r.args.text("--model")}, {"model_name", model},
		{"model_name_sanitized", unsafeName.ReplaceAllString(model, "__")}, {"system_instruction", optional(r.args.text("--system_instruction"))},
		{"system_instruction_sha", nil}, {"fewshot_as_multiturn", r.args.has("--fewshot_as_multiturn")}, {"chat_template", nil}, {"chat_template_sha", nil},
		{"total_evaluation_time_seconds", pythonFloat(time.Since(r.began).Seconds())},
	}...)
}

func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (r *evalRun) limit() any {
	if !r.args.has("--limit") {
		return nil
	}
	return r.args.number("--limit")
}

// pooled is a group's mean over all questions, with lm-eval's pooled error.
func pooled(scores []taskScore, members []string, metric int) (mean, stderr float64) {
	n, k, variance, groups := 0.0, 0.0, 0.0, 0.0
	for _, sc := range scores {
		for _, name := range members {
			if sc.task.name != name {
				continue
			}
			m, e := meanError(sc.correct[metric])
			size := float64(len(sc.correct[metric]))
			n, k, groups = n+size, k+m*size, groups+1
			variance += (size - 1) * e * e * size
		}
	}
	if n <= groups {
		return k / math.Max(1, n), 0
	}
	return k / n, math.Sqrt(variance / (n - groups) / n)
}
