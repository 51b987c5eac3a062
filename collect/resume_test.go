package collect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// resumed is the runner that continues a run, as cvs run --resume makes it.
func resumed(t *testing.T, r *Runner) *Runner {
	t.Helper()
	path := r.Store.(*artifact.Dir).Path()
	prev, err := artifact.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := artifact.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	next := *r
	next.Store, next.Previous, next.Split = dir, prev, Split{}
	return &next
}

// TestResume continues a run of which one cell failed and one was measured.
func TestResume(t *testing.T) {
	t.Parallel()
	r, n := localRun(t)
	n.behave(t, "client-64", "exit1")
	if _, err := r.Run(context.Background()); !errors.Is(err, ErrRun) {
		t.Fatalf("first attempt: %v", err)
	}
	before := readRun(t, r)
	if len(before.Results) != 1 {
		t.Fatalf("%d results after the first attempt, want 1", len(before.Results))
	}
	os.Remove(filepath.Join(n.dir, "client-64"))

	next := resumed(t, r)
	var reused, notes []string
	next.Progress = func(e Event) {
		if e.Reused {
			reused = append(reused, e.Cell)
		}
		notes = append(notes, e.Message)
	}
	meta, err := next.Run(context.Background())
	if err != nil || meta.Status != artifact.Done || meta.Reason != "" {
		t.Errorf("second attempt: %v, %+v", err, meta)
	}
	if !slices.Equal(reused, []string{"w1-conc128"}) || next.Split.Reused != 1 || next.Split.Cells != 1 {
		t.Errorf("re-used %v, split %+v", reused, next.Split)
	}
	if !strings.Contains(strings.Join(notes, "\n"), "same configuration digest, artefact whole (sha256 ") {
		t.Errorf("nobody says why the cell was re-used: %q", notes)
	}
	after := readRun(t, r)
	if len(after.Results) != 2 || len(after.Problems) != 0 {
		t.Errorf("%d results, problems %v", len(after.Results), after.Problems)
	}
	for _, res := range after.Results {
		switch res.Record.CellID {
		case "w1-conc128":
			if res.SHA256 != before.Results[0].SHA256 || !res.Record.StartedAt.Equal(*before.Results[0].Record.StartedAt) {
				t.Errorf("the measured cell is another now: %+v", res.Record)
			}
		case "w1-conc64":
			if res.Record.ServerSession < 2 {
				t.Errorf("server session %d was used by the first attempt", res.Record.ServerSession)
			}
		}
	}
	if !meta.StartedAt.Equal(*before.Meta.StartedAt) {
		t.Error("the run's start moved")
	}
	if !slices.ContainsFunc(after.Stages, func(s artifact.Stage) bool {
		return s.Stage == "resume" && strings.Contains(s.Reason, "attempt 2: the run was failed; 1 results are there")
	}) {
		t.Errorf("the record does not say that the run was resumed")
	}
	if bad, err := artifact.Verify(next.Store.(*artifact.Dir).Path()); err != nil || len(bad) > 0 {
		t.Errorf("manifest: %v, %v", bad, err)
	}
	n.nothingLeft(t, meta.RunID)
}

// TestResumeKilled continues what kill -9 left: a run that says it is running,
// half a last line, a cell without its record, an artefact that changed.
func TestResumeKilled(t *testing.T) {
	t.Parallel()
	r, n := localRun(t)
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	dir := r.Store.(*artifact.Dir).Path()
	edit := func(name string, f func([]byte) []byte) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), f(b), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit("run.json", func(b []byte) []byte {
		return []byte(strings.Replace(string(b), `"status": "done"`, `"status": "running"`, 1))
	})
	edit("stages.jsonl", func(b []byte) []byte { return b[:len(b)-25] })
	cell, err := filepath.Glob(filepath.Join(dir, "cells", "*w1-conc128", "1", "results.json"))
	if err != nil || len(cell) != 1 {
		t.Fatal(cell, err)
	}
	rel, err := filepath.Rel(dir, cell[0])
	if err != nil {
		t.Fatal(err)
	}
	edit(rel, func(b []byte) []byte { return b[:20] })
	if err := os.Remove(filepath.Join(dir, "MANIFEST.sha256")); err != nil {
		t.Fatal(err)
	}
	// A container of the dead attempt, as docker shows it.
	n.behave(t, "container-atom_demo", `[{"Id":"x","Config":{"Labels":{"cvs.run_id":"`+r.Store.Meta().RunID+`","cvs.owner":"me@here"},"Image":"i"},"State":{"Running":true}}]`)
	next := resumed(t, r)
	meta, err := next.Run(context.Background())
	if err != nil || meta.Status != artifact.Done {
		t.Fatalf("%v, %+v", err, meta)
	}
	if next.Split.Reused != 1 || next.Split.Cells != 1 {
		t.Errorf("split %+v", next.Split)
	}
	if !slices.ContainsFunc(meta.Warnings, func(w string) bool { return strings.Contains(w, "was left over from run "+meta.RunID) }) {
		t.Errorf("warnings: %q", meta.Warnings)
	}
	after := readRun(t, r)
	if len(after.Results) != 2 {
		t.Errorf("%d results; problems %v", len(after.Results), after.Problems)
	}
	n.nothingLeft(t, meta.RunID)
}

// TestResumeElse has the configuration change between the attempts.
func TestResumeElse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*plan.Plan)
		err    string // refused with it
		reused int
	}{
		{"nothing", func(*plan.Plan) {}, "", 2},
		{"more prompts", func(p *plan.Plan) { p.Params.NumPrompts++ }, "", 0},
		{"server arguments", func(p *plan.Plan) { p.Server.ATOMArgs = []string{"-tp", "4"} }, "", 0},
		{"waits only", func(p *plan.Plan) { p.Params.ServerPollWait++ }, "", 2},
		{"other cells", func(p *plan.Plan) { p.Cells = p.Cells[:1] }, "has the cells w1-conc64, w1-conc128, the plan has w1-conc64", 0},
		{"another model", func(p *plan.Plan) { p.Model.ID = "other/model" }, `was of model "example-org/Demo-70B-FP8"`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, n := localRun(t)
			if _, err := r.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			p := *r.Plan
			tt.change(&p)
			next := resumed(t, r)
			next.Plan = &p
			if err := next.Check(); (err == nil) != (tt.err == "") {
				t.Errorf("check: %v", err)
			}
			meta, err := next.Run(context.Background())
			if tt.err != "" {
				if meta.Status != artifact.Done {
					t.Errorf("the run that was not continued is %s now", meta.Status)
				}
				if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want ErrInput with %q", err, tt.err)
				}
				return
			}
			if err != nil || next.Split.Reused != tt.reused {
				t.Errorf("%v, split %+v, want %d re-used", err, next.Split, tt.reused)
			}
			n.nothingLeft(t, next.Store.Meta().RunID)
		})
	}
}

// TestInputsAreRedacted keeps the input files byte for byte but for what is
// secret in them.
func TestInputsAreRedacted(t *testing.T) {
	t.Parallel()
	r := newRedactor("hf_SENTINEL_token")
	tests := []struct{ in, want string }{
		{`{"username": "u",  "password":"a\"b" , "priv_key_file": "/k"}`, `{"username": "u",  "password":"[redacted]" , "priv_key_file": "/k"}`},
		{`{"password": 12345}`, `{"password": "[redacted]"}`},
		{`{"p\u0061ssword": "x"}`, `{"p\u0061ssword": "[redacted]"}`},
		{`{"password_file": "/pw", "hf_token_file": "/tok", "tokenizer_mode": "auto"}`, `{"password_file": "/pw", "hf_token_file": "/tok", "tokenizer_mode": "auto"}`},
		{`{"env_vars": {"MY_TOKEN": "x1", "MAX_TOKENS": "10", "A": "b"}}`, `{"env_vars": {"MY_TOKEN": "[redacted]", "MAX_TOKENS": "10", "A": "b"}}`},
		{`{"roles": {"server": {"env": {"AWS_SECRET": "y", "B": 1}}}}`, `{"roles": {"server": {"env": {"AWS_SECRET": "[redacted]", "B": 1}}}}`},
		{`{"notes": "hf_SENTINEL_token"}`, `{"notes": "[redacted]"}`},
		{"{\n  // not JSON\n}", `"[redacted]"` + "\n"},
	}
	for _, tt := range tests {
		if got := string(r.fileText([]byte(tt.in))); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}
