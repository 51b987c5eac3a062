package collect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// TestIdle stops a client that does nothing any more long before its budget,
// and leaves one alone that works without a word.
func TestIdle(t *testing.T) {
	t.Parallel()
	tests := []struct {
		client, reason string
		kinds          []string
	}{
		{"hang", "no sign of life for", []string{"client_log", "server_log"}},
		{"whole, never exits", "no sign of life for", []string{"client_log", "partial", "server_log"}},
		{"busy", "", []string{"client_log", "result", "server_log"}},
	}
	for _, tt := range tests {
		t.Run(tt.client, func(t *testing.T) {
			t.Parallel()
			r, n := localRun(t)
			r.Options.Inactivity = time.Second
			n.behave(t, "client-64", tt.client)
			meta, err := r.Run(context.Background())
			if (err == nil) != (tt.reason == "") {
				t.Errorf("error %v", err)
			}
			recs := records1(t, r)
			if len(recs) != 2 || !strings.Contains(recs[0].Reason, tt.reason) || recs[1].Status != artifact.Done {
				t.Fatalf("records: %+v", recs)
			}
			var kinds []string
			for _, f := range recs[0].Files {
				kinds = append(kinds, f.Kind)
			}
			slices.Sort(kinds)
			if !slices.Equal(kinds, tt.kinds) {
				t.Errorf("files %v, want %v", kinds, tt.kinds)
			}
			n.nothingLeft(t, meta.RunID)
		})
	}
}

// TestServerDiesBetweenCells has it restarted once, visibly.
func TestServerDiesBetweenCells(t *testing.T) {
	t.Parallel()
	r, n := localRun(t)
	r.Progress = func(e Event) {
		if e.Kind == CellEnded && e.Index == 1 {
			if resp, err := http.Get("http://" + loopback(r.Plan.Params.Port) + "/die"); err == nil {
				resp.Body.Close()
			}
		}
	}
	meta, err := r.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	recs := records1(t, r)
	if len(recs) != 2 || recs[1].Status != artifact.Done || recs[1].ServerSession != 2 || recs[1].Warm {
		t.Errorf("records: %+v", recs)
	}
	if !slices.ContainsFunc(meta.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "the server of session 1 died") && strings.HasSuffix(w, "is restarted once")
	}) {
		t.Errorf("warnings %q", meta.Warnings)
	}
	n.nothingLeft(t, meta.RunID)
}

// TestTelling has a line of the log explain an end, and decide nothing.
func TestTelling(t *testing.T) {
	t.Parallel()
	tests := []struct{ log, want string }{
		{"INFO a\nSafetensorError: incomplete metadata, file not fully covered\nlater\n", "SafetensorError: incomplete metadata, file not fully covered"},
		{"ModuleNotFoundError: No module named 'deep_ep' (optional)\nls: cannot access x: No such file or directory\n", ""},
		{"ValueError: Free memory on device (10/192 GiB) on startup is less than desired GPU memory utilization", "ValueError: Free memory on device (10/192 GiB) on startup is less than desired GPU memory utilization"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := annotate(tt.log); got != tt.want {
			t.Errorf("%q: got %q", tt.log, got)
		}
	}
}

// TestReadLog reads what was added, each byte once.
func TestReadLog(t *testing.T) {
	t.Parallel()
	r, n := localRun(t)
	x, err := r.newRun("")
	if err != nil {
		t.Fatal(err)
	}
	m := x.head()
	m.attach(n)
	file := filepath.Join(n.dir, "a log")
	var next int64
	if got := m.readLog(t.Context(), file, &next); got != "" || next != 0 {
		t.Errorf("without a file: %q at %d", got, next)
	}
	for _, part := range []string{"one\n", "", "two\nthree"} {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(part)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got := m.readLog(t.Context(), file, &next); got != part {
			t.Errorf("got %q, want %q", got, part)
		}
	}
}

// TestImage has the image brought to the node: from a tar file, or from a
// registry with a login whose password is in no argument.
func TestImage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		set           func(*plan.Container, *localNode)
		obtain, login string
	}{
		{"tar", func(c *plan.Container, _ *localNode) { c.ImageTar = "/images/a b.tar" }, "load --input /images/a b.tar", ""},
		{"registry", func(c *plan.Container, n *localNode) {
			c.Runtime.Registry = &plan.Registry{Server: "registry.example", Username: "u", PasswordFile: filepath.Join(n.dir, "pw")}
		}, "pull registry.example/atom:1.2.3", "login --username u registry.example --password-stdin < pw-SENTINEL"},
		{"plain pull", func(*plan.Container, *localNode) {}, "pull registry.example/atom:1.2.3", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, n := localRun(t)
			n.behave(t, "image-missing", "1")
			n.behave(t, "pw", "pw-SENTINEL")
			tt.set(&r.Plan.Container, n)
			if _, err := r.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			for file, want := range map[string]string{"obtained": tt.obtain, "login": tt.login} {
				if got, _ := os.ReadFile(filepath.Join(n.dir, file)); string(got) != want {
					t.Errorf("%s: %q, want %q", file, got, want)
				}
			}
			noSecret(t, r, nil)
		})
	}
}

// TestPersistentTwice has a second run use the container of the first, and a
// third whose image is another refused.
func TestPersistentTwice(t *testing.T) {
	t.Parallel()
	r, n := localRun(t)
	r.Plan.Container.Lifetime = plan.Persistent
	again := func() (artifact.Meta, error) {
		meta := NewMeta(r.Plan)
		meta.RunID = fmt.Sprintf("%s-x%d", filepath.Base(n.dir), time.Now().UnixNano())
		dir, err := artifact.Create(filepath.Join(n.dir, "runs"), meta)
		if err != nil {
			t.Fatal(err)
		}
		r.Store = dir
		return r.Run(context.Background())
	}
	if _, err := again(); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(filepath.Join(n.dir, "container-atom_demo"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again(); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(filepath.Join(n.dir, "container-atom_demo")); string(second) != string(first) {
		t.Error("the container was started again")
	}
	r.Plan.Container.Image = "registry.example/atom:9"
	if _, err := again(); !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), "runs image registry.example/atom:1.2.3, the config names registry.example/atom:9") {
		t.Errorf("another image: %v", err)
	}
	os.Remove(filepath.Join(n.dir, "container-atom_demo"))
	n.nothingLeft(t, r.Store.Meta().RunID)
}
