package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/plan"
	"cvs/collect/strictjson"
)

// LMEvalVersion is the release of lm-evaluation-harness that is installed when
// the container has another one or none.
const LMEvalVersion = "0.4.12"

// The adapters of lm-eval. They change scores, so the record says which was used.
const (
	completionsModel = "local-completions"
	chatModel        = "local-chat-completions"
)

func evalModel(t plan.AccuracyTask) string {
	switch {
	case t.LMEvalModel != "":
		return t.LMEvalModel
	case t.ApplyChatTemplate:
		return chatModel
	}
	return completionsModel
}

// An EvalPlace is where lm-eval runs: paths inside the head's container.
type EvalPlace struct {
	URL    string // of the server, as the container sees it: scheme, host, port
	Model  string // model.id: also the tokenizer
	Output string // folder for this group's results; it must be of this run only
	Cache  string // writable folder for what the Hugging Face libraries download
	Hub    string // read-only hub cache with the model, "" for none
}

// EvalURL is the server's address for a client in the container (spec 02 §14.2).
func EvalURL(p plan.Params) string {
	return strings.Replace(p.BaseURL, "0.0.0.0", "127.0.0.1", 1) + ":" + strconv.Itoa(p.Port)
}

// EvalArgs is the lm_eval command line of spec 02 §14.2, options in its order.
func EvalArgs(t plan.AccuracyTask, at EvalPlace) ([]string, error) {
	modelArgs, err := modelArgs(t, at)
	if err != nil {
		return nil, fmt.Errorf("accuracy task %s: extra_model_args: %w", t.ID, err)
	}
	gen, err := genKwargs(t.GenKwargs)
	if err != nil {
		return nil, fmt.Errorf("accuracy task %s: gen_kwargs: %w", t.ID, err)
	}
	a := append([]string{"lm_eval", "--model", evalModel(t), "--model_args", modelArgs, "--tasks"}, t.Tasks...)
	a = append(a, "--output_path", at.Output, "--log_samples")
	opt := func(on bool, args ...string) {
		if on {
			a = append(a, args...)
		}
	}
	if t.NumFewshot != nil {
		a = append(a, "--num_fewshot", strconv.Itoa(*t.NumFewshot))
	}
	a = append(a, "--batch_size", t.BatchSize)
	if t.MaxBatchSize != nil {
		a = append(a, "--max_batch_size", strconv.Itoa(*t.MaxBatchSize))
	}
	opt(t.Device != "", "--device", t.Device)
	if t.Limit != nil {
		a = append(a, "--limit", strconv.FormatFloat(*t.Limit, 'f', -1, 64))
	}
	opt(t.UseCache != "", "--use_cache", t.UseCache)
	opt(t.Samples != "", "--samples", t.Samples)
	opt(t.CacheRequests != "", "--cache_requests", t.CacheRequests)
	opt(t.CheckIntegrity, "--check_integrity")
	opt(t.SystemInstruction != "", "--system_instruction", t.SystemInstruction)
	opt(t.ApplyChatTemplate, "--apply_chat_template")
	opt(t.ApplyChatTemplate && t.ChatTemplate != "", t.ChatTemplate)
	if m := t.FewshotAsMultiturn; m != nil {
		a = append(a, "--fewshot_as_multiturn")
		opt(!*m, "false")
	}
	opt(t.Metadata != "", "--metadata", t.Metadata)
	opt(t.IncludePath != "", "--include_path", t.IncludePath)
	opt(gen != "", "--gen_kwargs", gen)
	opt(t.PredictOnly, "--predict_only")
	opt(len(t.Seed) > 0, "--seed", strings.Join(t.Seed, ","))
	opt(t.TrustRemoteCode, "--trust_remote_code")
	opt(t.ConfirmRunUnsafeCode, "--confirm_run_unsafe_code")
	return a, nil
}

// EvalEnv is what lm-eval needs in its environment beside the server's: a place
// to write its caches, because the models' folder is mounted read-only.
func EvalEnv(at EvalPlace) []plan.EnvVar {
	return []plan.EnvVar{
		{Name: "HF_HUB_CACHE", Value: at.Cache + "/hub"},
		{Name: "HF_DATASETS_CACHE", Value: at.Cache + "/datasets"},
		{Name: "HF_MODULES_CACHE", Value: at.Cache + "/modules"},
		{Name: "LM_HARNESS_CACHE_PATH", Value: at.Cache + "/lm_eval"},
	}
}

// PrepareArgs makes the folders of EvalPlace. What the read-only hub cache holds
// is linked into the writable one, so that a tokenizer or data set that was
// downloaded before is found without network.
func PrepareArgs(at EvalPlace) []string {
	const script = `mkdir -p -- "$1" "$2/hub" "$2/datasets" "$2/modules" "$2/lm_eval" || exit
[ -n "$3" ] && [ "$3" != "$2/hub" ] || exit 0
for d in "$3"/models--* "$3"/datasets--*; do
[ -d "$d" ] || continue
[ -e "$2/hub/${d##*/}" ] || ln -s -- "$d" "$2/hub/${d##*/}" || exit; done`
	return []string{"sh", "-c", script, "sh", at.Output, at.Cache, at.Hub}
}

// InstallArgs makes sure that the container has lm-eval in the version that the
// commands are written for.
func InstallArgs() []string {
	const script = `python -c "import importlib.metadata as m; import lm_eval, math_verify; assert m.version('lm-eval') == '` +
		LMEvalVersion + `'" 2>/dev/null || exec pip install -q 'lm-eval[api,math]==` + LMEvalVersion + `'`
	return []string{"sh", "-c", script}
}

// modelArgs joins --model_args: ours in the order of the specification, then the
// extra ones. An extra that contradicts one of ours is an error, one that repeats
// it says nothing new.
func modelArgs(t plan.AccuracyTask, at EvalPlace) (string, error) {
	path := completionPath
	if evalModel(t) == chatModel {
		path = chatPath
	}
	ours := [][2]string{
		{"base_url", at.URL + path}, {"model", at.Model}, {"tokenizer", at.Model}, {"tokenizer_backend", "huggingface"},
		{"num_concurrent", strconv.Itoa(t.NumConcurrent)}, {"max_retries", "3"}, {"tokenized_requests", "False"}, {"trust_remote_code", "True"},
	}
	var out []string
	for _, kv := range ours {
		if strings.ContainsRune(kv[1], ',') {
			return "", fmt.Errorf("%s %q holds a comma, which lm-eval would split", kv[0], kv[1])
		}
		out = append(out, kv[0]+"="+kv[1])
	}
	extras, err := splitArgs(t.ExtraModelArgs)
	if err != nil {
		return "", err
	}
	for _, e := range extras {
		k, v, ok := strings.Cut(e, "=")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if !ok || k == "" {
			return "", fmt.Errorf("%q is not key=value", e)
		}
		i := slices.IndexFunc(ours, func(kv [2]string) bool { return kv[0] == k })
		switch {
		case i < 0:
			ours = append(ours, [2]string{k, v}) // a second, different value is a clash too
			out = append(out, k+"="+v)
		case ours[i][1] != v:
			return "", fmt.Errorf("%s is %s already and cannot be %s as well", k, ours[i][1], v)
		}
	}
	return strings.Join(out, ","), nil
}

// splitArgs splits at the commas outside quotes and brackets.
func splitArgs(s string) ([]string, error) {
	var out []string
	var open []rune
	quote, start := rune(0), 0
	closing := map[rune]rune{'[': ']', '{': '}', '(': ')'}
	for i, c := range s {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case closing[c] != 0:
			open = append(open, closing[c])
		case c == ']' || c == '}' || c == ')':
			if len(open) == 0 || open[len(open)-1] != c {
				return nil, fmt.Errorf("%c without its opening bracket in %q", c, s)
			}
			open = open[:len(open)-1]
		case c == ',' && len(open) == 0:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	if quote != 0 || len(open) > 0 {
		return nil, fmt.Errorf("a quote or bracket is not closed in %q", s)
	}
	out = append(out, s[start:])
	return slices.DeleteFunc(out, func(e string) bool { return strings.TrimSpace(e) == "" }), nil
}

// genKwargs turns the generation arguments, a JSON object or "", into k=v,k=v in
// their order. Where that cannot carry a value (a list, a text with a comma) the
// object goes as it is: lm-eval reads both.
func genKwargs(object string) (string, error) {
	if object == "" {
		return "", nil
	}
	v, _, err := strictjson.Parse([]byte(object), strictjson.Options{})
	if err != nil {
		return "", err
	}
	if v.Kind != strictjson.Object {
		return "", fmt.Errorf("a %s, expected an object", v.Kind)
	}
	var out []string
	for _, m := range v.Members {
		text := m.Value.Text
		switch m.Value.Kind {
		case strictjson.Bool:
			text = strconv.FormatBool(m.Value.Bool)
		case strictjson.Number:
		case strictjson.String:
			// lm-eval would read "5" and "true" back as a number and a truth value.
			if text == "" || strings.ContainsAny(text, ",= \t\n") || strictjson.IsNumber(text) || strings.EqualFold(text, "true") || strings.EqualFold(text, "false") {
				return object, nil
			}
		default:
			return object, nil
		}
		out = append(out, m.Name+"="+text)
	}
	return strings.Join(out, ","), nil
}

// withoutFilter drops our own key from metadata; nothing left is "".
func withoutFilter(metadata string) (string, error) {
	if metadata == "" {
		return "", nil
	}
	v, _, err := strictjson.Parse([]byte(metadata), strictjson.Options{})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range v.Members {
		if m.Name == "filter" {
			continue
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, ",%s:%s", name, metadata[m.Value.Offset:m.Value.End])
	}
	if b.Len() == 0 {
		return "", nil
	}
	return "{" + b.String()[1:] + "}", nil
}

// selection is what two tasks must share to be one run.
func selection(t plan.AccuracyTask, metadata string) (string, error) {
	t.LMEvalModel = evalModel(t)
	t.ID, t.Backend, t.Filter, t.Metadata, t.ExecTimeout = "", "", "", metadata, 0
	b, err := json.Marshal(t)
	return string(b), err
}
