package warehouse_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

// TestMain lets a test start this binary again as another process.
func TestMain(m *testing.M) {
	switch file := os.Getenv("CVS_TEST_WAREHOUSE"); os.Getenv("CVS_TEST_ROLE") {
	case "hold":
		w, err := warehouse.Open(context.Background(), file, warehouse.Options{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		defer w.Close()
		fmt.Println("held")
		var b [1]byte
		os.Stdin.Read(b[:]) // until the parent lets go
		return
	case "five": // load five runs, waiting for the others
		for i := range 5 {
			w, err := warehouse.Open(context.Background(), file, warehouse.Options{Wait: 2 * time.Minute})
			if err == nil {
				_, err = w.Load(context.Background(), sampleRun(fmt.Sprintf("%s-%d", os.Getenv("CVS_TEST_NAME"), i), resultJSON(2048)))
				err = errors.Join(err, w.Close())
			}
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		return
	case "load":
		w, err := warehouse.Open(context.Background(), file, warehouse.Options{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for i := 0; ; i++ {
			run := sampleRun(fmt.Sprintf("r%04d", i), resultJSON(2048))
			if _, err := w.Load(context.Background(), run); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println(i)
		}
	}
	os.Exit(m.Run())
}

func resultJSON(throughput float64) []byte {
	return fmt.Appendf(nil, `{"date": "20260901-100500", "backend": "vllm", "model_id": "org/M", "best_of": 1, "num_prompts": 1000, "request_rate": "inf",
 "max_concurrency": 128, "duration": 500.0, "completed": 1000, "total_output_tokens": 1024000, "request_goodput:": null, "output_throughput": %v,
 "total_token_throughput": 4096.0, "concurrency": 127.5, "mean_ttft_ms": 412.5, "p99_ttft_ms": 880.0}`, throughput)
}

// sampleRun is a run of one planned cell with one result.
func sampleRun(id string, data []byte) *artifact.Run {
	start := time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)
	floor := 1500.0
	key := "ISL=1024,OSL=1024,TP=8,PP=1,CONC=128"
	return &artifact.Run{
		Meta: artifact.Meta{
			FormatVersion: 1, RunID: id, Suite: "atom", Status: artifact.Done, StartedAt: &start, Enforce: true,
			Identity: artifact.Identity{Model: "org/M", GPUArch: "mi325x", Driver: "atom", TP: 8, PP: 1, DP: 1, NNodes: 1},
		},
		Expected: artifact.Expected{Cells: []artifact.ExpectedCell{{Key: key, ID: "w1-conc128", Combo: "w1", ISL: 1024, OSL: 1024, Concurrency: 128, NumPrompts: 1000}}},
		Thresholds: artifact.Thresholds{Specs: []artifact.Threshold{
			{Scope: "cell", Target: key, Metric: "output_throughput", Kind: "min_tok_s", Value: &floor, File: "t.json", Line: 3},
			{Scope: "cell", Target: key, Metric: "mean_ttft_ms", Kind: "info"},
		}},
		Results: []artifact.Result{{Path: "results/isl1024_osl1024_conc128/results.json", Data: data, CellKey: key, Repeat: 1}},
	}
}

func load(t *testing.T, w *warehouse.DB, runs ...*artifact.Run) []warehouse.LoadResult {
	t.Helper()
	r, err := w.Load(t.Context(), runs...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// values asks a question with one column and returns it as text.
func values(t *testing.T, w *warehouse.DB, text string, args ...any) []string {
	t.Helper()
	rows, err := w.Ask(t.Context(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		v, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(v[0]))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLoadAgain(t *testing.T) {
	t.Parallel()
	w := open(t, filepath.Join(t.TempDir(), "w.duckdb"))
	run := sampleRun("r1", resultJSON(2048))
	if r := load(t, w, run); r[0].Outcome != warehouse.Loaded || r[0].Samples != 1 {
		t.Errorf("first load: %+v", r)
	}
	before := values(t, w, "SELECT metric || coalesce(value::VARCHAR, '-') FROM metrics ORDER BY metric")
	again := sampleRun("r1", resultJSON(2048))
	again.Dir = "/somewhere/else"
	if r := load(t, w, again); r[0].Outcome != warehouse.Unchanged {
		t.Errorf("second load: %+v, want unchanged", r)
	}
	if after := values(t, w, "SELECT metric || coalesce(value::VARCHAR, '-') FROM metrics ORDER BY metric"); !slices.Equal(before, after) {
		t.Errorf("loading twice changed the metrics:\n%v\n%v", before, after)
	}

	// a resumed run has more: it replaces
	more := sampleRun("r1", resultJSON(2048))
	more.Expected.Cells = append(more.Expected.Cells, artifact.ExpectedCell{Key: "ISL=1,OSL=1,TP=8,PP=1,CONC=1", ID: "x", ISL: 1, OSL: 1, Concurrency: 1})
	if r := load(t, w, more); r[0].Outcome != warehouse.Replaced {
		t.Errorf("superset: %+v, want replaced", r)
	}
	if n := values(t, w, "SELECT count(*) FROM run UNION ALL SELECT count(*) FROM sample"); !slices.Equal(n, []string{"1", "1"}) {
		t.Errorf("runs and samples after replacing: %v", n)
	}

	// a resumed run that measured the cell again keeps the old file aside
	resumed := sampleRun("r3", resultJSON(1))
	load(t, w, resumed)
	old := resumed.Results
	resumed = sampleRun("r3", resultJSON(1700))
	resumed.Superseded = old
	if r := load(t, w, resumed); r[0].Outcome != warehouse.Replaced {
		t.Errorf("resumed: %+v, want replaced", r)
	}
	if got := values(t, w, "SELECT value FROM metrics WHERE run_id = 'r3' AND metric = 'output_throughput'"); !slices.Equal(got, []string{"1700"}) {
		t.Errorf("output_throughput of the resumed run is %v, want 1700", got)
	}

	// other numbers under the same id: nothing changes
	other := sampleRun("r1", resultJSON(9999))
	good := sampleRun("r2", resultJSON(1))
	r, err := w.Load(t.Context(), other, good)
	var conflict *warehouse.ConflictError
	if !errors.As(err, &conflict) || conflict.RunID != "r1" || conflict.Path != other.Results[0].Path {
		t.Errorf("conflict: %v", err)
	}
	if len(r) != 2 || r[0].Outcome != warehouse.Refused || r[1].Outcome != warehouse.Loaded {
		t.Errorf("a conflict must not keep the next run out: %+v", r)
	}
	if got := values(t, w, "SELECT value FROM metrics WHERE run_id = 'r1' AND metric = 'output_throughput'"); !slices.Equal(got, []string{"2048"}) {
		t.Errorf("output_throughput of r1 is %v, want 2048", got)
	}

	// the same numbers of another start are another run; a zone is no other start
	for start, want := range map[string]string{"2026-09-02T10:00:00Z": "the stored run of this id at 2026-09-01T10:00:00Z", "2026-09-01T12:00:00+02:00": ""} {
		moved := sampleRun("r2", resultJSON(1))
		when, err := time.Parse(time.RFC3339, start)
		if err != nil {
			t.Fatal(err)
		}
		moved.Meta.StartedAt = &when
		_, err = w.Load(t.Context(), moved)
		if refused := errors.As(err, &conflict); refused != (want != "") || refused && !strings.Contains(err.Error(), want) {
			t.Errorf("start %s: %v, want %q", start, err, want)
		}
	}
}

func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	raw := `{"backend": "vllm", "num_prompts": 1, "completed": 12345678901234567, "mean_ttft_ms": 1e400, "accept_length": 2.71,
 "spec_decode": {"accepted": [1, 2], "mode": "mtp"}, "weird key with spaces": 1, "ключ": "значение", "": "empty", "a.b": 2, "a": {"b": 1},
 "x\"); DELETE FROM run; --": "'; DROP TABLE run; --", "nul": "a\u0000b", "errors": [], "e2": ["it's \"quoted\"\n"], "Output_Throughput": 9, "std_tpot_ms": 1e400}`
	run := sampleRun(`r'1"; DROP TABLE runs;--`, []byte(raw))
	load(t, w, sampleRun("plain", resultJSON(1)), run)
	got := values(t, w, "SELECT json FROM raw_record WHERE run_id = ?", run.Meta.RunID)
	if len(got) != 1 {
		t.Fatalf("raw_record: %v", got)
	}
	var want, have map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got[0]), &have); err != nil {
		t.Fatalf("%v in %s", err, got[0])
	}
	for k, v := range want {
		if string(have[k]) != string(v) {
			t.Errorf("key %q reads back as %s, want %s", k, have[k], v)
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d keys came back, want %d", len(have), len(want))
	}
	if n := values(t, w, "SELECT count(*) FROM runs"); n[0] != "2" {
		t.Errorf("%s runs, want 2", n[0])
	}
	if text := values(t, w, "SELECT text FROM raw_value WHERE key = 'nul'"); text[0] != "a\uFFFDb" {
		t.Errorf("the text with a NUL is %q", text[0])
	}
	if q := values(t, w, "SELECT quality || ' ' || text || ' ' || coalesce(number::VARCHAR, 'none') FROM raw_value WHERE key = 'std_tpot_ms'"); q[0] != "out_of_range 1e400 none" {
		t.Errorf("1e400 is kept as %q", q[0])
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	replace := func(old, new string) []byte { return []byte(strings.Replace(string(resultJSON(2048)), old, new, 1)) }
	tests := []struct {
		name  string
		data  []byte
		meta  func(*artifact.Meta)
		state warehouse.State
		code  string // of the problem
		exit  int
		said  string // in the reason of the cell
	}{
		{name: "as planned", data: resultJSON(2048), state: warehouse.Fail}, // ttft tier has only an info spec; tpot has none
		{name: "other model", data: replace("org/M", "org/N"), state: warehouse.Error, code: "identity", exit: 3},
		{name: "local path", data: replace("org/M", "/models/M"), state: warehouse.Fail, code: "model_path"},
		{name: "other concurrency", data: replace(`"max_concurrency": 128`, `"max_concurrency": 64`), state: warehouse.Error, code: "identity", exit: 3},
		{name: "other length", data: replace(`"best_of": 1`, `"random_input_len": 8192`), state: warehouse.Error, code: "identity", exit: 3},
		{name: "other tensor parallelism", data: replace(`"best_of": 1`, `"tensor_parallel_size": "4"`), state: warehouse.Error, code: "identity", exit: 3},
		{name: "silent", data: replace(`"model_id": "org/M"`, `"x": 1`), state: warehouse.Fail, code: "identity_unstated"},
		{name: "a day old", data: replace("20260901-100500", "20260831-095959"), state: warehouse.Error, code: "stale", exit: 3},
		{name: "another zone", data: replace("20260901-100500", "20260831-110000"), state: warehouse.Fail},
		{name: "other gpu in the file", data: replace(`"best_of": 1`, `"gpu_name": "AMD Instinct MI300X"`), state: warehouse.Error, code: "gpu", exit: 3},
		{name: "other gpu on the node", data: resultJSON(2048), meta: func(m *artifact.Meta) { m.Identity.GPUSeen = "MI355X gfx950" }, state: warehouse.Error, code: "gpu", exit: 3, said: "the node reports MI355X gfx950"},
		{name: "unknown gpu", data: resultJSON(2048), meta: func(m *artifact.Meta) { m.Identity.GPUSeen = "AMD Radeon Graphics" }, state: warehouse.Fail, code: "gpu"},
		{name: "two objects", data: append(resultJSON(900), append([]byte("\n"), resultJSON(2048)...)...), state: warehouse.Error, code: "ambiguous", exit: 3},
		{name: "one object twice", data: append(resultJSON(900), append([]byte("\n"), resultJSON(900)...)...), state: warehouse.Fail, code: "twice"},
		{name: "key twice, equal", data: replace(`"best_of": 1`, `"best_of": 1, "best_of": 1`), state: warehouse.Fail, code: "reading"},
		{name: "key twice, different", data: replace(`"best_of": 1`, `"best_of": 1, "best_of": 2`), state: warehouse.Error, code: "contradiction", exit: 3},
		{name: "cut off", data: resultJSON(2048)[:300], state: warehouse.Error, code: "broken", exit: 3},
		{name: "a config", data: []byte(`{"model": {}, "params": {}, "sweep": {}}`), state: warehouse.Error, code: "unknown_format", exit: 3},
	}
	w := open(t, "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := sampleRun(tt.name, tt.data)
			if tt.meta != nil {
				tt.meta(&run.Meta)
			}
			load(t, w, run)
			cells, err := w.CellStatus(t.Context(), tt.name)
			if err != nil {
				t.Fatal(err)
			}
			if cells[0].State != tt.state {
				t.Errorf("cell is %s, want %s: %s", cells[0].State, tt.state, cells[0].Reason)
			}
			if !strings.Contains(cells[0].Reason, tt.said) {
				t.Errorf("the cell says %q, want %q in it", cells[0].Reason, tt.said)
			}
			codes := values(t, w, "SELECT code FROM problem WHERE run_id = ?", tt.name)
			if tt.code != "" && !slices.Contains(codes, tt.code) || tt.code == "" && len(codes) > 0 {
				t.Errorf("problems %v, want %q", codes, tt.code)
			}
			status, err := w.RunStatus(t.Context(), tt.name)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.exit
			if want == 0 {
				want = 1 // the cell fails: tiers without specs
			}
			if status.ExitCode != want {
				t.Errorf("exit code %d, want %d", status.ExitCode, want)
			}
		})
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w.duckdb")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "CVS_TEST_ROLE=hold", "CVS_TEST_WAREHOUSE="+file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var line string
	if _, err := fmt.Fscanln(out, &line); err != nil || line != "held" {
		t.Fatalf("holder said %q: %v", line, err)
	}
	_, err = warehouse.Open(t.Context(), file, warehouse.Options{})
	var locked *warehouse.LockedError
	if !errors.As(err, &locked) || !strings.Contains(locked.Holder, fmt.Sprintf("PID %d", cmd.Process.Pid)) {
		t.Errorf("open while held: %v, want a LockedError naming PID %d", err, cmd.Process.Pid)
	}
	// a waiting reader gets it as soon as it is free
	released := make(chan error, 1)
	go func() {
		in.Close()
		released <- cmd.Wait()
	}()
	w, err := warehouse.Open(t.Context(), file, warehouse.Options{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := <-released; err != nil {
		t.Error(err)
	}
}

func TestLoadersAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w.duckdb")
	const loaders = 4
	var all []*exec.Cmd
	for i := range loaders {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "CVS_TEST_ROLE=five", "CVS_TEST_WAREHOUSE="+file, fmt.Sprintf("CVS_TEST_NAME=l%d", i))
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	w := open(t, file)
	if got := values(t, w, "SELECT (SELECT count(*) FROM run) || ' ' || (SELECT count(DISTINCT run_id) FROM run) || ' ' || (SELECT count(*) FROM sample) || ' ' || (SELECT count(*) FROM raw_value)"); got[0] != "20 20 20 320" {
		t.Errorf("runs, distinct runs, samples, values: %s, want 20 20 20 320", got[0])
	}
}

func TestKilledWhileLoading(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w.duckdb")
	acknowledged := 0
	for _, stop := range []int{1, 7} { // kill after so many acknowledged runs
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "CVS_TEST_ROLE=load", "CVS_TEST_WAREHOUSE="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for n := -1; n < stop; {
			if _, err := fmt.Fscanln(out, &n); err != nil {
				t.Fatal(err)
			}
			acknowledged = max(acknowledged, n+1)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // killed: the status says nothing
		w := open(t, file)
		runs := values(t, w, "SELECT run_id FROM run ORDER BY run_id")
		if len(runs) < acknowledged {
			t.Errorf("%d runs are there, %d were acknowledged", len(runs), acknowledged)
		}
		if half := values(t, w, `SELECT r.run_id FROM run r WHERE (SELECT count(*) FROM raw_value v WHERE v.run_id = r.run_id) <> 16
			OR (SELECT count(*) FROM threshold t WHERE t.run_id = r.run_id) <> 2`); len(half) > 0 {
			t.Errorf("half a run is stored: %v", half)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkLoadManyFiles(b *testing.B) {
	// One run of many small files: parsing, typing, hashing, inserting.
	run := sampleRun("r", nil)
	run.Results, run.Expected.Cells = nil, nil
	for i := range 1000 {
		c := artifact.ExpectedCell{Key: fmt.Sprintf("ISL=1024,OSL=1024,TP=8,PP=1,CONC=%d", i+1), ISL: 1024, OSL: 1024, Concurrency: 128}
		run.Expected.Cells = append(run.Expected.Cells, c)
		run.Results = append(run.Results, artifact.Result{Path: c.Key, Data: resultJSON(float64(i)), CellKey: c.Key, Repeat: 1})
	}
	w, err := warehouse.Open(b.Context(), filepath.Join(b.TempDir(), "w.duckdb"), warehouse.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for i := 0; b.Loop(); i++ {
		run.Meta.RunID = fmt.Sprint(i)
		if _, err := w.Load(b.Context(), run); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(run.Results))*float64(b.N)/b.Elapsed().Seconds(), "files/s")
}
