package container

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cvs/collect/plan"
)

// full is a plan whose container uses every key.
func full() *plan.Plan {
	return &plan.Plan{
		Params: plan.Params{TP: 8, PP: 1, DP: 1, NNodes: 1},
		Container: plan.Container{
			Lifetime: plan.PerRun, Name: "atom_demo", Image: "registry.example/atom:1.2.3",
			Env: []plan.EnvVar{{Name: "A", Value: "two words"}, {Name: "HF_TOKEN", Value: "it's $ecret\n"}},
			Runtime: plan.RuntimeArgs{
				Network: "bridge", IPC: "private", ShmSize: "128G", Privileged: true,
				Volumes: []string{"/data/hf models:/models:ro"}, Devices: []string{"/dev/dri", "/dev/fuse:/dev/fuse:rw"},
				CapAdd: []string{"SYS_ADMIN", "NET_ADMIN"}, SecurityOpt: []string{"label=disable"},
				GroupAdd: []string{"render"}, Ulimit: []string{"nofile=1:2"}, Env: []plan.EnvVar{{Name: "A", Value: "wins"}},
				Registry: &plan.Registry{Server: "registry.example", Username: "u", PasswordFile: "/etc/pw file"},
			},
		},
	}
}

// TestCommands shows every command, with all keys set and with none.
func TestCommands(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := func(what string, c Command) {
		fmt.Fprintf(&b, "%s (%v)\n", what, c.Timeout)
		for _, a := range c.Args {
			fmt.Fprintf(&b, "  %q\n", a)
		}
		if c.Stdin != nil {
			fmt.Fprintf(&b, "  stdin %q\n", c.Stdin)
		}
	}
	p, d, id := full(), Docker{Sudo: true}, Identity{RunID: "run-1", Owner: "me@here"}
	show("run, every key", d.Run(p, id, WantedDevices(p.Container, 1)))
	plain := &plan.Plan{Params: plan.Params{TP: 4, PP: 2, DP: 1, NNodes: 2}, Container: plan.Container{Name: "n", Image: "i"}}
	show("run, no key, no device, no sudo", Docker{}.Run(plain, id, nil))
	show("inspect", d.Inspect("n"))
	show("inspect image", d.InspectImage("i"))
	show("pull", d.Pull("i"))
	show("load", d.Load("/tars/a b.tar"))
	show("login", d.Login(*p.Container.Runtime.Registry))
	show("rm", d.Remove("n"))
	show("exec", Command{Args: d.Exec("n", true, "cat", "a b")})
	show("devices over two nodes", ProbeDevices(WantedDevices(p.Container, 2)))
	file := filepath.Join("testdata", "commands.txt")
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got, UPDATE=1 refreshes):\n%s", file, diff)
	}
	for _, a := range d.Run(p, id, nil).Args {
		if strings.Contains(a, "$ecret") {
			t.Errorf("a secret is in the arguments: %q", a)
		}
	}
	if !bytes.Contains(d.Run(p, id, nil).Stdin, []byte(`export HF_TOKEN='it'\''s $ecret`)) {
		t.Error("the secret is not in the input")
	}
}

func TestPresent(t *testing.T) {
	t.Parallel()
	present, absent := Present([]string{"/dev/kfd", "/dev/dri", "/dev/fuse:/dev/fuse:rw"}, []byte("/dev/kfd\n/dev/fuse\n"))
	if !slices.Equal(present, []string{"/dev/kfd", "/dev/fuse:/dev/fuse:rw"}) || !slices.Equal(absent, []string{"/dev/dri"}) {
		t.Errorf("present %q, absent %q", present, absent)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	inspected := `[{"Id":"c1","Created":"2026-01-02T03:04:05.5Z","Config":{"Labels":{"cvs.run_id":"r"},"Image":"i:1"},"State":{"Running":true}}]`
	tests := []struct {
		name        string
		exit        int
		out, stderr string
		want        State
		err         bool
	}{
		{"running", 0, inspected, "", State{Present: true, Running: true, ID: "c1", Labels: map[string]string{"cvs.run_id": "r"},
			Image: "i:1", Created: time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC)}, false},
		{"absent", 1, "[]\n", "Error: No such container: n", State{}, false},
		{"absent, other words", 1, "[]", "error: no such object: n", State{}, false},
		{"daemon down", 1, "[]", "Cannot connect to the Docker daemon", State{}, true},
		{"not allowed", 126, "", "permission denied", State{}, true},
		{"no docker", 127, "", "docker: command not found", State{}, true},
		{"garbage", 0, "oops", "", State{}, true},
		{"nothing", 0, "[]", "", State{}, true},
	}
	for _, tt := range tests {
		got, err := ParseContainer(tt.exit, []byte(tt.out), []byte(tt.stderr))
		if tt.err != (err != nil) || err != nil && !errors.Is(err, ErrDocker) {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	img, err := ParseImage(0, []byte(`[{"Id":"sha256:a","RepoDigests":["r/i@sha256:b"]}]`), nil)
	if err != nil || img.Digest != "sha256:b" {
		t.Errorf("image: %+v, %v", img, err)
	}
	if img, err = ParseImage(0, []byte(`[{"Id":"sha256:a","RepoDigests":[]}]`), nil); err != nil || img.Digest != "sha256:a" {
		t.Errorf("local image: %+v, %v", img, err)
	}
	if img, err = ParseImage(1, []byte("[]"), []byte("Error: No such image: i")); err != nil || img.Present {
		t.Errorf("absent image: %+v, %v", img, err)
	}
}

// TestDecide covers the lifetimes against everything that can be found.
func TestDecide(t *testing.T) {
	t.Parallel()
	me := Identity{RunID: "now", Owner: "me@here"}
	now := time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	state := func(running bool, owner, run string) State {
		s := State{Present: true, Running: running, Image: "i", Labels: map[string]string{}, Created: now.Add(-time.Hour)}
		if run != "" {
			s.Labels[LabelRunID] = run
		}
		if owner != "" {
			s.Labels[LabelOwner] = owner
		}
		return s
	}
	tests := []struct {
		life  plan.Lifetime
		s     State
		force bool
		want  Action
		err   string
	}{
		{plan.NoLaunch, State{}, false, 0, "does not exist"},
		{plan.NoLaunch, state(false, "", ""), true, 0, "does not run"},
		{plan.NoLaunch, state(true, "", ""), false, Attach, ""},
		{plan.PerRun, State{}, false, Launch, ""},
		{plan.PerRun, state(false, "", "old"), false, Relaunch, ""},
		{plan.PerRun, state(true, "me@here", "old"), false, Relaunch, ""},
		{plan.PerRun, state(true, "you@there", "old"), false, 0, "belongs to you@there, run old"},
		{plan.PerRun, state(true, "", ""), false, 0, "already exists (running, created 1h0m0s ago) and was not started by cvs"},
		{plan.PerRun, state(true, "", ""), true, Relaunch, ""},
		{plan.Persistent, State{}, false, Launch, ""},
		{plan.Persistent, state(true, "me@here", "old"), false, Attach, ""},
		{plan.Persistent, state(false, "me@here", "old"), false, Relaunch, ""},
		{plan.Persistent, state(true, "", ""), false, 0, "was not started by cvs"},
		{plan.Persistent, state(true, "", ""), true, Attach, ""},
		{plan.Persistent, func() State { s := state(true, "me@here", "old"); s.Image = "other"; return s }(), false, 0, "runs image other"},
		{"forever", State{}, false, 0, "unknown container lifetime"},
	}
	for _, tt := range tests {
		got, err := Decide(plan.Container{Lifetime: tt.life, Name: "n", Image: "i"}, tt.s, me, tt.force, now)
		if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s %+v force %v: %v, %v; want %v %q", tt.life, tt.s, tt.force, got, err, tt.want, tt.err)
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s    State
		err  error
		want string
	}{{State{}, nil, "removed"}, {State{Present: true}, nil, "still there"}, {State{}, errors.New("no answer"), "unknown"}} {
		if got := Outcome(tt.s, tt.err).String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"HF_TOKEN": true, "WANDB_API_KEY": true, "DB_PASSWORD": true, "hf_token": true,
		"TOKENIZERS_PARALLELISM": false, "HF_HUB_CACHE": false, "NCCL_IB_HCA": false} {
		if got := Secret(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
