package check

import (
	"fmt"
	"slices"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// What lm-eval runs as requests for log-likelihoods. lm-eval itself knows only
// after it has loaded the data sets, hours of work before the failure; so the
// well-known tasks stand here, by name. A task that is not listed is tried.
//
// scored are names, or the starts of names that go on with "_" or "-".
var scored = strings.Fields(`
aclue aexams agieval anli arabicmmlu arc arc_challenge arc_easy arithmetic asdiv belebele bertaqa blimp
boolq c4 cb ceval cmmlu cola commonsense_qa copa crows_pairs glue gpqa headqa hellaswag hendrycks_ethics
hendrycksTest kmmlu kobest lambada leaderboard_bbh leaderboard_gpqa leaderboard_mmlu_pro leaderboard_musr
logiqa logiqa2 mathqa mc_taco medmcqa medqa mela mmlu mmlusr mnli moral_stories mrpc multirc musr mutual
openbookqa paloma pawsx pile piqa prost pubmedqa qa4mre qnli qqp race record rte sciq siqa social_iqa sst2
storycloze super_glue swag tinyArc tinyHellaswag tinyMMLU tinyTruthfulQA tinyWinogrande tmmluplus toxigen
truthfulqa_mc1 truthfulqa_mc2 webqs wic wikitext winogrande wmdp wnli wsc wsc273 xcopa xnli xstorycloze
xwinograd`)

// generated are parts of names that lm-eval gives to the generating variants of
// such tasks.
var generated = []string{"generative", "generate_until", "_gen", "_cot", "_chat", "_llama", "_direct", "seq2seq",
	"mmlu_pro", "mmlu_prox", "mmlu_redux", "agieval_math", "gaokao_mathcloze", "open_llm"}

// LogLikelihood reports whether an lm-eval task is known to ask for
// log-likelihoods, as multiple choice and perplexity tasks do.
func LogLikelihood(task string) bool {
	if !strings.HasPrefix(task, "leaderboard_") && // there even mmlu_pro is multiple choice
		slices.ContainsFunc(generated, func(part string) bool { return strings.Contains(task, part) }) {
		return false
	}
	return slices.ContainsFunc(scored, func(name string) bool {
		rest, ok := strings.CutPrefix(task, name)
		return ok && (rest == "" || rest[0] == '_' || rest[0] == '-')
	})
}

// cannotServe says why a task cannot be run against a server, "" if it can.
func cannotServe(t plan.AccuracyTask, d plan.Driver) string {
	var which []string
	for _, name := range t.Tasks {
		if LogLikelihood(name) {
			which = append(which, name)
		}
	}
	names := strings.Join(which, ", ")
	switch {
	case len(which) == 0:
		return ""
	case d == plan.DriverATOM:
		return fmt.Sprintf("%s: log-likelihood requests, and the ATOM server returns no logprobs for a prompt", names)
	case evalModel(t) == chatModel:
		return fmt.Sprintf("%s: log-likelihood requests, which lm-eval cannot send to a chat endpoint", names)
	}
	return ""
}

// Refused are the accuracy tasks that the plan's server cannot serve, as they
// stand in the list of what was planned (decided before anything runs).
func Refused(tasks []plan.AccuracyTask, d plan.Driver) []artifact.ExpectedTask {
	var out []artifact.ExpectedTask
	for _, t := range tasks {
		if why := cannotServe(t, d); why != "" {
			out = append(out, artifact.ExpectedTask{Kind: "accuracy", ID: t.ID, Status: artifact.NotRun, Reason: why})
		}
	}
	return out
}

// An EvalGroup is one run of lm-eval, whose result belongs to every task in IDs.
type EvalGroup struct {
	IDs  []string // of the plan's tasks, in order; the first names the folder
	Task plan.AccuracyTask
	// Filters are the filters that the tasks report, by id; nil where none names one.
	Filters map[string]string
}

// Groups joins the servable tasks that select the same questions in the same way:
// they run once. Id, filter, time limit and the unused backend may differ; of the
// time limits the longest holds.
func Groups(tasks []plan.AccuracyTask, d plan.Driver) ([]EvalGroup, error) {
	var out []EvalGroup
	at := map[string]int{}
	for _, t := range tasks {
		if cannotServe(t, d) != "" {
			continue
		}
		rest, err := withoutFilter(t.Metadata)
		if err != nil {
			return nil, fmt.Errorf("accuracy task %s: metadata: %w", t.ID, err)
		}
		key, err := selection(t, rest)
		if err != nil {
			return nil, fmt.Errorf("accuracy task %s: %w", t.ID, err)
		}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, EvalGroup{IDs: []string{t.ID}, Task: t})
		}
		g := &out[i]
		if t.Filter != "" {
			if g.Filters == nil {
				g.Filters = map[string]string{}
			}
			g.Filters[t.ID] = t.Filter
		}
		if !ok {
			continue
		}
		g.IDs = append(g.IDs, t.ID)
		g.Task.ExecTimeout = max(g.Task.ExecTimeout, t.ExecTimeout)
		if g.Task.Metadata != t.Metadata { // it cannot say two filters, and lm-eval uses none
			g.Task.Metadata = rest
		}
	}
	return out, nil
}
