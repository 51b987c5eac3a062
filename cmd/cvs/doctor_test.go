package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"cvs/collect"
	"cvs/collect/lab"
)

// TestDoctorCommand looks at a healthy node, at one without Docker, and at one
// that does not answer.
func TestDoctorCommand(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	check(t, err)
	l, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Executable: exe})
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	doctor := func(args ...string) (code int, stdout string) {
		t.Helper()
		var out, errOut bytes.Buffer
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errOut, now: time.Now,
			getenv: func(string) string { return "" }, osUser: func() string { return "me" }}
		cmd := newDoctor(e)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append([]string{"--cluster_file", l.ClusterFile(), "--known-hosts", l.KnownHosts()}, args...))
		return exitCode(cmd.ExecuteContext(t.Context())), out.String()
	}
	code, out := doctor()
	if code != 0 || !strings.Contains(out, "1 node(s): ready") || strings.Contains(out, "NOT READY") {
		t.Errorf("healthy: exit %d\n%s", code, out)
	}
	check(t, l.SetFaults(0, lab.Faults{DockerDown: true}))
	code, out = doctor("--format", "json")
	var d diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 4 || d.Ready {
		t.Errorf("without docker: exit %d, %v\n%s", code, err, out)
	}
	for _, f := range d.Findings {
		if (f.Verdict == collect.Unready) != (f.Check == "docker") {
			t.Errorf("without docker: %+v", f)
		}
	}
	code, out = doctor("--format", "xml")
	if code != 2 || out != "" {
		t.Errorf("unknown format: exit %d\n%s", code, out)
	}
	known := l.KnownHosts()
	check(t, os.WriteFile(known, nil, 0o600))
	if code, out = doctor(); code != 4 || !strings.Contains(out, "unknown host key") || !strings.Contains(out, "NOT READY") {
		t.Errorf("unknown host key: exit %d\n%s", code, out)
	}
}
