package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lmEvalParser knows the options of lm_eval that runs of a server need.
func lmEvalParser() *parser {
	return &parser{prog: "lm-eval", options: concat(
		[]option{
			{names: []string{"--model", "-m"}, kind: isString, fallback: "hf"},
			{names: []string{"--tasks", "-t"}, kind: isString, many: "+"},
			{names: []string{"--model_args", "-a"}, kind: isString, many: "+"},
			{names: []string{"--num_fewshot", "-f"}, kind: isInt},
			{names: []string{"--limit", "-L"}, kind: isFloat},
			{names: []string{"--output_path", "-o"}, kind: isString},
			{names: []string{"--log_samples", "-s"}, kind: isFlag},
			{names: []string{"--apply_chat_template"}, kind: isString, many: "*"},
			{names: []string{"--fewshot_as_multiturn"}, kind: isString, many: "*"},
			{names: []string{"--gen_kwargs"}, kind: isString, many: "+"},
			{names: []string{"--batch_size", "-b"}, kind: isString, fallback: "1"},
			{names: []string{"--seed"}, kind: isString, fallback: "0,1234,1234,1234"},
		},
		options(isString, "", "--device", "--use_cache", "--samples", "--cache_requests", "--system_instruction", "--metadata", "--include_path", "--max_batch_size", "--verbosity"),
		flags("--check_integrity", "--predict_only", "--trust_remote_code", "--confirm_run_unsafe_code", "--write_out"),
	)}
}

// An evalRun is one call of lm_eval.
type evalRun struct {
	args     *arguments
	model    map[string]string // --model_args
	url      string
	chat     bool
	client   *http.Client
	parallel int
	seed     int
	began    time.Time
}

// A taskScore is what a task measured.
type taskScore struct {
	task    evalTask
	shots   int
	correct [][]bool // by metric, by question
	samples []json.RawMessage
}

// lmEval is lm_eval with an API model: it really asks the server and scores
// what the server really says.
func (s *shim) lmEval(args []string) int {
	if len(args) > 0 && args[0] == "run" {
		args = args[1:]
	}
	a, err := lmEvalParser().parse(args)
	if err != nil {
		s.errorf("%v", err)
		return 2
	}
	r := &evalRun{args: a, model: map[string]string{}, began: time.Now()}
	for _, part := range strings.Split(strings.Join(a.list("--model_args"), ","), ",") {
		k, v, _ := strings.Cut(part, "=")
		r.model[k] = v
	}
	faults, err := readFaults(s.dir)
	if err == nil && faults.EvalFails {
		err = errors.New("RuntimeError: the lab was told to let lm_eval fail")
	}
	switch r.chat = a.text("--model") == "local-chat-completions"; {
	case err != nil:
	case !r.chat && a.text("--model") != "local-completions":
		err = fmt.Errorf("ValueError: a lab node evaluates servers only: --model %s", a.text("--model"))
	case r.model["base_url"] == "" || r.model["model"] == "":
		err = errors.New("ValueError: base_url and model are required in --model_args")
	case r.chat && !a.has("--apply_chat_template"):
		err = errors.New("AssertionError: LocalChatCompletion expects messages as list[dict]. If you see this error, ensure --apply_chat_template is set")
	}
	if err != nil {
		return s.traceback(err)
	}
	r.url = s.local(r.model["base_url"])
	r.parallel = max(1, atoiOr(r.model["num_concurrent"], 1))
	r.seed = atoiOr(strings.Split(a.text("--seed"), ",")[0], 0)
	r.client = newHTTPClient(r.parallel)
	var scores []taskScore
	var names []string
	for _, list := range a.list("--tasks") {
		for _, name := range strings.Split(list, ",") {
			if _, ok := findTask(name); !ok {
				return s.traceback(fmt.Errorf("ValueError: Tasks not found: %s. Try `lm-eval ls tasks` for list of available tasks.", name)) //lint:ignore ST1005 the real program's own words
			}
			names = append(names, name)
		}
	}
	for _, name := range names {
		t, _ := findTask(name)
		subs := t.group
		if subs == nil {
			subs = []string{name}
		}
		for _, sub := range subs {
			st, _ := findTask(sub)
			fmt.Fprintf(s.stderr, "INFO     [lm_eval.evaluator:574] Running %s requests: %s\n", st.kind(), sub)
			score, err := r.run(context.Background(), st)
			if err != nil {
				return s.traceback(err)
			}
			scores = append(scores, score)
		}
	}
	if err := r.write(names, scores, s.stdout); err != nil {
		return s.traceback(err)
	}
	return 0
}

func atoiOr(s string, fallback int) int {
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
		return n
	}
	return fallback
}

func (t evalTask) kind() string {
	if t.choices > 0 {
		return "loglikelihood"
	}
	return "generate_until"
}

// run asks all questions of a task.
func (r *evalRun) run(ctx context.Context, t evalTask) (taskScore, error) {
	n := t.size
	if limit := r.args.number("--limit"); limit >= 1 {
		n = min(n, int(limit))
	} else if limit > 0 {
		n = max(1, int(math.Ceil(limit*float64(n))))
	}
	shots := t.shots
	if r.args.has("--num_fewshot") {
		shots = r.args.integer("--num_fewshot")
	}
	out := taskScore{task: t, shots: shots, samples: make([]json.RawMessage, n)}
	for range t.metrics {
		out.correct = append(out.correct, make([]bool, n))
	}
	if r.chat && t.choices > 0 {
		return out, errors.New("NotImplementedError: Loglikelihood is not supported for chat completions. Consider using the completions API instead.") //lint:ignore ST1005 the real program's own words
	}
	questions := t.questions(n + shots)
	examples, questions := questions[:shots], questions[shots:]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, r.parallel)
	var wg sync.WaitGroup
	for i, q := range questions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			answer, err := r.answer(ctx, t, q, q.prompt(examples))
			if err != nil {
				cancel(err)
				return
			}
			right := map[string]bool{}
			for k, m := range t.metrics {
				out.correct[k][i] = matches(answer, q.answer, m.strict)
				right[m.name+","+m.filter] = out.correct[k][i]
			}
			out.samples[i], err = json.Marshal(struct {
				DocID   int             `json:"doc_id"`
				Prompt  string          `json:"prompt"`
				Target  string          `json:"target"`
				Resps   [][]string      `json:"resps"`
				Metrics map[string]bool `json:"metrics"`
			}{i, q.text, itoa(q.answer), [][]string{{answer}}, right})
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return out, context.Cause(ctx)
}

var (
	strictAnswer = regexp.MustCompile(`#### (-?[0-9.,]+)`)
	anyNumber    = regexp.MustCompile(`-?[0-9][0-9,]*`)
)

// matches scores as GSM8K's two filters do: the number behind ####, or the last
// number whatever stands before it.
func matches(answer string, want int, strict bool) bool {
	if strict {
		m := strictAnswer.FindStringSubmatch(answer)
		return m != nil && m[1] == itoa(want)
	}
	all := anyNumber.FindAllString(answer, -1)
	return len(all) > 0 && all[len(all)-1] == itoa(want)
}

// answer is the generated text, or the likeliest of the choices.
func (r *evalRun) answer(ctx context.Context, t evalTask, q sumQuestion, prompt string) (string, error) {
	body := object{{"model", r.model["model"]}}
	if t.choices == 0 {
		if r.chat {
			body = append(body, member{"messages", []object{{{"role", "user"}, {"content", prompt}}}})
		} else {
			body = append(body, member{"prompt", prompt})
		}
		body = append(body, member{"max_tokens", 256}, member{"temperature", 0}, member{"stop", []string{"Question:", "</s>", "<|im_end|>"}}, member{"seed", 1234})
		reply, err := r.post(ctx, body)
		if err != nil {
			return "", err
		}
		if r.chat {
			return reply.Choices[0].Message.Content, nil
		}
		return reply.Choices[0].Text, nil
	}
	best, text := math.Inf(-1), ""
	for k := range t.choices {
		choice := itoa(q.answer + (k+q.answer)%t.choices)
		reply, err := r.post(ctx, append(body, member{"prompt", prompt[:len(prompt)-len("\nAnswer:")] + " " + choice}, member{"temperature", 0}, member{"max_tokens", 1}, member{"logprobs", 1}, member{"seed", 1234}, member{"echo", true}))
		if err != nil {
			return "", err
		}
		scores := reply.Choices[0].Scores
		if scores == nil || len(scores.Logprobs) < 2 {
			return "", errors.New("TypeError: 'NoneType' object is not subscriptable")
		}
		// The last token was generated, the one before is the choice.
		if p := scores.Logprobs[len(scores.Logprobs)-2]; p != nil && *p > best {
			best, text = *p, choice
		}
	}
	return text, nil
}

type evalReply struct {
	Choices []struct {
		Text    string `json:"text"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Scores *scores `json:"logprobs"`
	} `json:"choices"`
}

// post tries as often as --model_args max_retries says.
func (r *evalRun) post(ctx context.Context, body object) (evalReply, error) {
	text, err := pythonJSON(body)
	if err != nil {
		return evalReply{}, err
	}
	for try := 1; ; try++ {
		reply, err := r.once(ctx, text)
		if err == nil || try >= max(1, atoiOr(r.model["max_retries"], 3)) {
			return reply, err
		}
		if !sleep(ctx, time.Duration(try)*100*time.Millisecond) {
			return reply, ctx.Err()
		}
	}
}

func (r *evalRun) once(ctx context.Context, text string) (evalReply, error) {
	var out evalReply
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader([]byte(text)))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return out, fmt.Errorf("aiohttp.client_exceptions.ClientConnectorError: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return out, err
	case resp.StatusCode != http.StatusOK:
		return out, fmt.Errorf("requests.exceptions.HTTPError: %d %s: %s", resp.StatusCode, http.StatusText(resp.StatusCode), data[:min(len(data), 300)])
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("json.decoder.JSONDecodeError: %w", err)
	}
	if len(out.Choices) == 0 {
		return out, errors.New("KeyError: 'choices'")
	}
	return out, nil
}

var unsafeName = regexp.MustCompile(`["<>:/|\\?*\[\]]+`)

// write leaves results and samples where the real program does.
func (r *evalRun) write(names []string, scores []taskScore, stdout io.Writer) error {
	doc := r.document(names, scores)
	text, err := pythonJSON(doc)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s ({%s}), gen_kwargs: (%s), limit: %s, num_fewshot: %s, batch_size: %s\n", r.args.text("--model"), strings.Join(r.args.list("--model_args"), ","),
		orNone(strings.Join(r.args.list("--gen_kwargs"), ",")), orNone(r.args.text("--limit")), orNone(r.args.text("--num_fewshot")), r.args.text("--batch_size"))
	for _, sc := range scores {
		for k, m := range sc.task.metrics {
			mean, stderr := meanError(sc.correct[k])
			fmt.Fprintf(stdout, "|%s|%g|%s|%d|%s|%.4f|± |%.4f|\n", sc.task.name, sc.task.version, m.filter, sc.shots, m.name, mean, stderr)
		}
	}
	out := r.args.text("--output_path")
	if out == "" {
		return nil
	}
	dir := filepath.Join(out, unsafeName.ReplaceAllString(r.model["model"], "__"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("OSError: %w", err)
	}
	stamp := strings.ReplaceAll(time.Now().Format("2006-01-02T15:04:05.000000"), ":", "-")
	if err := os.WriteFile(filepath.Join(dir, "results_"+stamp+".json"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("OSError: %w", err)
	}
	if !r.args.has("--log_samples") {
		return nil
	}
	for _, sc := range scores {
		data := append(bytes.Join(rawLines(sc.samples), []byte("\n")), '\n')
		if err := os.WriteFile(filepath.Join(dir, "samples_"+sc.task.name+"_"+stamp+".jsonl"), data, 0o644); err != nil {
			return fmt.Errorf("OSError: %w", err)
		}
	}
	return nil
}

func rawLines(in []json.RawMessage) [][]byte {
	out := make([][]byte, len(in))
	for i, l := range in {
		out[i] = l
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "None"
	}
	return s
}

// meanError is the mean and its standard error with the sample's deviation.
func meanError(right []bool) (mean, stderr float64) {
	n, k := float64(len(right)), 0.0
	for _, r := range right {
		if r {
			k++
		}
	}
	mean = k / n
	if n > 1 {
		stderr = math.Sqrt(mean * (1 - mean) / (n - 1))
	}
	return mean, stderr
}
