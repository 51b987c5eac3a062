package collect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/collect/lab"
)

// TestTasksResume goes on with a run that was interrupted among its checks: what
// was asked then stands, and what was not is asked now.
func TestTasksResume(t *testing.T) {
	t.Parallel()
	r, l := labRun(t, lab.Faults{})
	withTasks(r)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.Progress = func(e Event) {
		if e.Kind == StageStarted && e.Stage == taskMTP {
			cancel()
		}
	}
	if _, err := r.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("first attempt: %v", err)
	}
	if err := l.LogKernel(0, "err", "amdgpu 0000:05:00.0: amdgpu: GPU reset begin!"); err != nil {
		t.Fatal(err)
	}
	next := resumed(t, r)
	next.Progress = nil
	if _, err := next.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	run := readRun(t, next)
	stages := lastStages(run)
	for _, name := range []string{"api_smoke", "health_check", "gsm8k", "gsm8k_strict", "niah_1k"} {
		if s := stages[name]; s.Status != artifact.Done || !strings.HasPrefix(s.Reason, "re-used: ") {
			t.Errorf("%s: %q: %s", name, s.Status, s.Reason)
		}
	}
	for _, name := range []string{taskMTP, taskQuant, taskDmesg} {
		if s := stages[name]; s.Status != artifact.Done || s.Reason != "" {
			t.Errorf("%s: %q: %s", name, s.Status, s.Reason)
		}
	}
	// Both attempts scanned their own window; what happened between them is
	// neither's.
	for _, name := range []string{l.Addr(0), l.Addr(0) + ".attempt2"} {
		if d := evidence[check.DmesgResult](t, run, "dmesg/"+artifact.SafeName(name+".json")); !d.Pass || d.Status != artifact.Done {
			t.Errorf("%s: %+v", name, d)
		}
	}
	// Another question is another check.
	next = resumed(t, next)
	next.Plan.Quant.ProbePrompt = "The capital of Italy is"
	if _, err := next.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	stages = lastStages(readRun(t, next))
	if s := stages[taskQuant]; strings.HasPrefix(s.Reason, "re-used") {
		t.Errorf("another prompt: %s", s.Reason)
	}
	if s := stages[taskMTP]; !strings.HasPrefix(s.Reason, "re-used") {
		t.Errorf("the same prompts: %q", s.Reason)
	}
}

// TestTasksResumeKilled: a launcher that was killed scanned nothing; the attempt
// that goes on answers for that window too.
func TestTasksResumeKilled(t *testing.T) {
	t.Parallel()
	r, l := labRun(t, lab.Faults{})
	r.Plan.Cells = r.Plan.Cells[:1]
	r.Plan.Platform.DmesgScan = true
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	path := r.Store.(*artifact.Dir).Path()
	host := filepath.Join(path, "checks", "dmesg", artifact.SafeName(l.Addr(0)))
	mark, err := os.ReadFile(host + ".mark.json")
	if err != nil {
		t.Fatal(err)
	}
	unscanned := strings.Replace(string(mark), `"scanned": true`, `"scanned": false`, 1)
	if unscanned == string(mark) {
		t.Fatalf("the mark does not say that the log was scanned: %s", mark)
	}
	if err := errors.Join(os.WriteFile(host+".mark.json", []byte(unscanned), 0o644), os.Remove(host+".json"), os.Remove(host+".txt"),
		os.Remove(filepath.Join(path, "MANIFEST.sha256"))); err != nil {
		t.Fatal(err)
	}
	if err := l.LogKernel(0, "err", "amdgpu 0000:05:00.0: amdgpu: GPU reset begin!"); err != nil {
		t.Fatal(err)
	}
	next := resumed(t, r)
	if _, err := next.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	d := evidence[check.DmesgResult](t, readRun(t, next), "dmesg/"+artifact.SafeName(l.Addr(0)+".json"))
	if d.Pass || d.Errors != 1 || len(d.Notes) == 0 || !strings.Contains(d.Notes[0], "left no scan") {
		t.Errorf("%+v", d)
	}
}
