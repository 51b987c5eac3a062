package warehouse_test

import (
	"strings"
	"testing"

	"cvs/collect/artifact"
)

// TestAccuracyOfOneDate: the newest file of a task counts; of two with one date
// neither does, unless they say the same.
func TestAccuracyOfOneDate(t *testing.T) {
	t.Parallel()
	const later, earlier = `"date": 1788264000.5`, `"date": 1788260000.5`
	file := func(path, date, value string) artifact.Result {
		text := `{"results": {"gsm8k": {"alias": "gsm8k", "exact_match,strict-match": ` + value + `, "exact_match_stderr,strict-match": 0.01}}, "configs": {"gsm8k": {"task": "gsm8k"}},
			"n-shot": {"gsm8k": 3}, "versions": {"gsm8k": 3}, "config": {"model": "local-completions"}` + date + `}`
		return artifact.Result{Path: "accuracy/gsm8k/" + path, CellKey: "gsm8k", Data: []byte(text)}
	}
	other := file("a/results_2.json", ", "+later, "0.9")
	other.Data = []byte(strings.NewReplacer("\n\t\t\t", " ", `"exact_match,strict-match": 0.9, "exact_match_stderr,strict-match": 0.01`,
		`"exact_match_stderr,strict-match":0.010,  "exact_match,strict-match": 9e-1`).Replace(string(other.Data)))
	for name, x := range map[string]struct {
		files []artifact.Result
		value string // of the task's metric; "" for no result
		code  string // of what is said about it
	}{
		"newest counts": {[]artifact.Result{file("a/results_1.json", ", "+later, "0.9"), file("b/results_1.json", ", "+earlier, "0.8")}, "0.9", ""},
		"one date, two values": {[]artifact.Result{file("a/results_1.json", ", "+later, "0.9"), file("b/results_1.json", ", "+later, "0.8"),
			file("c/results_1.json", ", "+earlier, "0.7")}, "", "ambiguous"},
		"two of no date":   {[]artifact.Result{file("a/results_1.json", "", "0.9"), file("b/results_1.json", "", "0.8")}, "", "ambiguous"},
		"dated and not":    {[]artifact.Result{file("a/results_1.json", "", "0.9"), file("b/results_1.json", ", "+earlier, "0.8")}, "0.8", ""},
		"the same bytes":   {[]artifact.Result{file("a/results_1.json", ", "+later, "0.9"), file("b/results_1.json", ", "+later, "0.9")}, "0.9", "twice"},
		"another spelling": {[]artifact.Result{file("a/results_1.json", ", "+later, "0.9"), other}, "0.9", "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, "")
			run := sampleRun("r", resultJSON(2048))
			run.Meta.Identity.Model = ""
			run.Expected.Tasks = []artifact.ExpectedTask{{Kind: "accuracy", ID: "gsm8k"}}
			run.Accuracy = x.files
			load(t, w, run)
			got := values(t, w, "SELECT value FROM accuracy WHERE metric = 'gsm8k.exact_match__strict-match'")
			if strings.Join(got, " ") != x.value {
				t.Errorf("value %q, want %q", got, x.value)
			}
			said := values(t, w, "SELECT code || ' ' || message FROM problem WHERE task_id = 'gsm8k' AND code IN ('ambiguous', 'twice')")
			switch {
			case x.code == "" && len(said) > 0, x.code != "" && (len(said) != 1 || !strings.HasPrefix(said[0], x.code)):
				t.Errorf("said %q, want %q", said, x.code)
			case x.code == "ambiguous" && (!strings.Contains(said[0], "a/results_1.json, accuracy/gsm8k/b/results_1.json") || strings.Contains(said[0], "c/results")):
				t.Errorf("the files are not named: %q", said)
			}
			state := values(t, w, "SELECT state || ' ' || reason FROM check_gates WHERE target = 'gsm8k'")
			if x.code == "ambiguous" && (len(state) != 1 || !strings.HasPrefix(state[0], "error") || !strings.Contains(state[0], "none is used")) {
				t.Errorf("the gate is %q", state)
			}
		})
	}
}

// TestResultsOfOneCell: a result that is found twice counts once, also in another
// spelling; what differs in a value, however little, is another result.
func TestResultsOfOneCell(t *testing.T) {
	t.Parallel()
	first := string(resultJSON(2048))
	for name, x := range map[string]struct {
		other, code string
		said        string // in the message
	}{
		"the same":            {first, "twice", "found 2 times"},
		"indented":            {strings.ReplaceAll(first, ", ", " ,\n  "), "twice", ""},
		"other order":         {strings.Replace(first, "{", `{"zzz": {"a": 1, "b": [1, 2]}, `, 1), "twice", ""},
		"a digit":             {strings.Replace(first, "2048", "2048.0000001", 1), "ambiguous", "2 different objects were found for one cell (20260901-100500, 20260901-100500 in results/isl1024_osl1024_conc128/again.json)"},
		"a key more":          {strings.Replace(first, "{", `{"extra": 1, `, 1), "ambiguous", ""},
		"a key of other kind": {strings.Replace(first, "2048", `"2048"`, 1), "ambiguous", ""},
		"one of them twice":   {first + "\n" + strings.Replace(first, "2048", "900", 1), "ambiguous", "3 objects, 2 of them different, were found for one cell"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := first
			if name == "other order" {
				one = strings.TrimSuffix(strings.TrimSpace(first), "}") + `, "zzz": {"b":[1,2], "a":1}}`
			}
			run := sampleRun("r", []byte(one))
			again := run.Results[0]
			again.Path, again.Data = "results/isl1024_osl1024_conc128/again.json", []byte(x.other)
			run.Results = append(run.Results, again)
			w := open(t, "")
			load(t, w, run)
			said := values(t, w, "SELECT code FROM problem WHERE code IN ('ambiguous', 'twice')")
			if strings.Join(said, " ") != x.code {
				t.Errorf("said %q, want %s", said, x.code)
			}
			message := values(t, w, "SELECT message FROM problem WHERE code IN ('ambiguous', 'twice')")
			if !strings.Contains(strings.Join(message, " "), x.said) {
				t.Errorf("said %q, want %q in it", message, x.said)
			}
			n := values(t, w, "SELECT count(*) FROM metrics WHERE metric = 'output_throughput' AND value = 2048 AND repeats = 1")
			if want := map[string]string{"twice": "1", "ambiguous": "0"}[x.code]; n[0] != want {
				t.Errorf("%s values, want %s", n[0], want)
			}
		})
	}
}

// TestNoPrompts: a number of prompts that cannot be one is a contradiction, and
// the plan's does not stand in for it.
func TestNoPrompts(t *testing.T) {
	t.Parallel()
	for count, refused := range map[string]bool{"1000": false, "null": false, `"1000"`: false, "1e3": false, "0": true, "-5": true, "1.5": true, `"many"`: true, "NaN": true, "[]": true} {
		w := open(t, "")
		data := strings.Replace(string(resultJSON(2048)), `"num_prompts": 1000`, `"num_prompts": `+count, 1)
		if count != "1000" && data == string(resultJSON(2048)) {
			t.Fatal("the result has no num_prompts")
		}
		load(t, w, sampleRun("r", []byte(data)))
		got := values(t, w, "SELECT message FROM problem WHERE code = 'identity' AND severity = 'data_error'")
		if refused != (len(got) == 1 && strings.Contains(got[0], "num_prompts is "+count)) {
			t.Errorf("num_prompts %s: %q, refused should be %v", count, got, refused)
		}
		status, err := w.RunStatus(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if refused != (status.ExitCode == 3) {
			t.Errorf("num_prompts %s: exit %d", count, status.ExitCode)
		}
	}
}

// TestAccuracyNotRecognised: a file in the place of a task's result that is none
// is what the task has instead of one; beside a result it is listed.
func TestAccuracyNotRecognised(t *testing.T) {
	t.Parallel()
	strange := artifact.Result{Path: "accuracy/gsm8k/a/results_1.json", CellKey: "gsm8k", Data: []byte(`{"results": {}, "date": 1788264000.5}`)}
	result := artifact.Result{Path: "accuracy/gsm8k/a/results_2.json", CellKey: "gsm8k",
		Data: []byte(`{"results": {"gsm8k": {"alias": "gsm8k", "exact_match,strict-match": 0.9}}, "configs": {"gsm8k": {"task": "gsm8k"}}, "n-shot": {"gsm8k": 3}, "versions": {"gsm8k": 3}, "config": {"model": "local-completions"}}`)}
	for name, x := range map[string]struct {
		files              []artifact.Result
		severity, state, s string
	}{
		"alone":           {[]artifact.Result{strange}, "data_error", "error", "accuracy/gsm8k/a/results_1.json: not recognised"},
		"beside a result": {[]artifact.Result{strange, result}, "warning", "record", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, "")
			run := sampleRun("r", resultJSON(2048))
			run.Meta.Identity.Model = ""
			run.Expected.Tasks = []artifact.ExpectedTask{{Kind: "accuracy", ID: "gsm8k"}}
			run.Accuracy = x.files
			load(t, w, run)
			if got := values(t, w, "SELECT severity FROM problem WHERE task_id = 'gsm8k' AND code = 'unknown_format'"); strings.Join(got, " ") != x.severity {
				t.Errorf("listed as %q, want %s", got, x.severity)
			}
			got := values(t, w, "SELECT state || ' ' || reason FROM check_gates WHERE target = 'gsm8k'")
			if len(got) != 1 || !strings.HasPrefix(got[0], x.state+" ") || !strings.Contains(got[0], x.s) {
				t.Errorf("the task is %q, want %s %s", got, x.state, x.s)
			}
		})
	}
}
