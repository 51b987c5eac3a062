package lab

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// lmEvalVersion is the release whose command line and files lm_eval has.
const lmEvalVersion = "0.4.12"

// An evalTask is one task of the lab's edition of lm-eval: names, metrics and
// form are those of the real one, the questions are sums that the simulated
// model can work out.
type evalTask struct {
	name    string
	version float64
	size    int // questions
	shots   int // by default
	choices int // 0: a text is generated; else one of so many is chosen by likelihood
	metrics []evalMetric
	group   []string // sub-tasks; a group has no questions of its own
}

// An evalMetric is one number of a task.
type evalMetric struct {
	name, filter string
	strict       bool // the answer has to stand behind ####
}

var (
	exactMath  = []evalMetric{{"exact_match", "strict-match", true}, {"exact_match", "flexible-extract", false}}
	accuracy   = []evalMetric{{"acc", "none", false}}
	accuracies = []evalMetric{{"acc", "none", false}, {"acc_norm", "none", false}}
)

var evalTasks = []evalTask{
	{name: "gsm8k", version: 3, size: 1319, shots: 5, metrics: exactMath},
	{name: "gsm8k_cot", version: 3, size: 1319, shots: 8, metrics: exactMath},
	{name: "mmlu_pro", version: 2, shots: 5, size: 40, metrics: []evalMetric{{"exact_match", "custom-extract", false}},
		group: prefixed("mmlu_pro_", "biology business chemistry computer_science economics engineering health history law math other philosophy physics psychology")},
	{name: "bbh", version: 4, shots: 3, size: 25, metrics: []evalMetric{{"exact_match", "get-answer", false}},
		group: prefixed("bbh_cot_fewshot_", "boolean_expressions causal_judgement date_understanding disambiguation_qa dyck_languages formal_fallacies geometric_shapes "+
			"hyperbaton logical_deduction_five_objects movie_recommendation multistep_arithmetic_two navigate object_counting penguins_in_a_table ruin_names snarks "+
			"sports_understanding temporal_sequences web_of_lies word_sorting")},
	{name: "humaneval", version: 1, size: 164, metrics: []evalMetric{{"pass@1", "create_test", false}}},
	{name: "mbpp", version: 1, size: 500, shots: 3, metrics: []evalMetric{{"pass_at_1", "none", false}}},
	{name: "ifeval", version: 4, size: 541, metrics: []evalMetric{{"prompt_level_strict_acc", "none", true}, {"prompt_level_loose_acc", "none", false}}},
	{name: "hendrycks_math500", version: 0, size: 500, metrics: []evalMetric{{"exact_match", "none", false}}},
	{name: "hellaswag", version: 1, size: 300, choices: 4, metrics: accuracies},
	{name: "arc_challenge", version: 1, size: 300, choices: 4, metrics: accuracies},
	{name: "arc_easy", version: 1, size: 300, choices: 4, metrics: accuracies},
	{name: "winogrande", version: 1, size: 300, choices: 2, metrics: accuracy},
	{name: "piqa", version: 1, size: 300, choices: 2, metrics: accuracies},
	{name: "boolq", version: 2, size: 300, choices: 2, metrics: accuracy},
	{name: "mmlu", version: 2, size: 60, choices: 4, metrics: accuracy, group: prefixed("mmlu_", "humanities other social_sciences stem")},
	{name: "musr", version: 1, size: 60, choices: 3, metrics: []evalMetric{{"acc_norm", "none", false}},
		group: prefixed("leaderboard_musr_", "murder_mysteries object_placements team_allocation")},
}

func prefixed(prefix, list string) []string {
	var out []string
	for _, w := range strings.Fields(list) {
		out = append(out, prefix+w)
	}
	return out
}

// findTask also finds a sub-task by its own name.
func findTask(name string) (evalTask, bool) {
	for _, t := range evalTasks {
		if t.name == name {
			return t, true
		}
		if slices.Contains(t.group, name) {
			t.name, t.group = name, nil
			return t, true
		}
	}
	return evalTask{}, false
}

// A sumQuestion is one document of a task.
type sumQuestion struct {
	text   string
	answer int
}

// questions are always the same for a task.
func (t evalTask) questions(n int) []sumQuestion {
	h := fnv.New64a()
	h.Write([]byte(t.name))
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	out := make([]sumQuestion, n)
	for i := range out {
		out[i] = newQuestion(rng)
	}
	return out
}

func newQuestion(rng *rand.Rand) sumQuestion {
	a, b := rng.IntN(900)+10, rng.IntN(900)+10
	op := []string{"+", "-", "*"}[rng.IntN(3)]
	if op == "-" && a < b {
		a, b = b, a
	}
	return sumQuestion{fmt.Sprintf("What is %d %s %d?", a, op, b), sum(itoa(a), op, itoa(b))}
}

// prompt puts examples before the question.
func (q sumQuestion) prompt(examples []sumQuestion) string {
	var b strings.Builder
	for _, e := range examples {
		fmt.Fprintf(&b, "Question: %s\nAnswer: #### %d\n\n", e.text, e.answer)
	}
	fmt.Fprintf(&b, "Question: %s\nAnswer:", q.text)
	return b.String()
}
