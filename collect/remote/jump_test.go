package remote

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// needSSH skips where there is no ssh program to ask, unless CVS_TEST_REAL=1
// says that it must be there.
func needSSH(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("no ssh program here")
		}
		t.Skip("no ssh program here")
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	needSSH(t)
	dir := t.TempDir()
	key := filepath.Join(dir, "k")
	must(t, os.WriteFile(key, nil, 0o600))
	file := filepath.Join(dir, "config")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(`
Host node
  HostName 192.0.2.1
  Port 2222
  User file
  IdentityFile DIR/k
  ProxyJump second
Host second
  User hop
  HostName 192.0.2.8
  ProxyJump first:99
Host first
  HostName 192.0.2.9
Host ring
  ProxyJump ring
Host plain
  HostName 192.0.2.2
Match all
  User other
  IdentityFile DIR/k
  UserKnownHostsFile DIR/known
  GlobalKnownHostsFile none
`, "DIR", dir)), 0o600))
	tests := []struct {
		name  string
		base  Config
		route Route
		want  string // target then hops: user@addr keys/spares known
	}{
		{"nothing stated", Config{Addr: "node"}, Route{File: file},
			"file@192.0.2.1:2222 /k known; other@192.0.2.9:99 /k known; hop@192.0.2.8:22 /k known"},
		{"the cluster file wins", Config{Addr: "node:77", User: "amd", KeyFiles: []string{"mine"}, KnownHostsFiles: []string{"here"}, Password: "p"}, Route{File: file},
			"amd@192.0.2.1:77 mine/ here p; other@192.0.2.9:99 /k,mine here; hop@192.0.2.8:22 /k,mine here"},
		{"named jump hosts", Config{Addr: "node"}, Route{File: file, Jump: "me@192.0.2.7,ssh://you@plain:44/"},
			"file@192.0.2.1:2222 /k known; me@192.0.2.7:22 /k known; you@192.0.2.2:44 /k known"},
		{"without a file", Config{Addr: "node", User: "amd", KeyFiles: []string{"mine"}, Password: "p"}, Route{Jump: "gate:44,x@last"},
			"amd@node mine/  p; amd@gate:44 mine/ ; x@last mine/ "},
		{"direct", Config{Addr: "plain"}, Route{File: file}, "other@192.0.2.2:22 /k known"},
	}
	for _, tt := range tests {
		c, hops, err := tt.route.Resolve(t.Context(), tt.base)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, c := range append([]Config{c}, hops...) {
			line := fmt.Sprintf("%s@%s %s/%s %s", c.User, c.Addr, strings.Join(c.KeyFiles, ","), strings.Join(c.SpareKeyFiles, ","), strings.Join(c.KnownHostsFiles, ","))
			if c.Password != "" {
				line += " " + c.Password
			}
			got = append(got, strings.ReplaceAll(line, dir+"/", ""))
		}
		if d := cmp.Diff(tt.want, strings.Join(got, "; ")); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
	for _, r := range []Route{{File: file, Jump: "ring"}, {Jump: "a b"}, {Jump: "a,,b"}, {Jump: "-oX"}, {File: file + "x"}} {
		addr := "plain"
		if _, _, err := r.Resolve(t.Context(), Config{Addr: addr}); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", r, err)
		}
		if err := r.Check(); r.Jump != "ring" && !errors.Is(err, ErrInput) {
			t.Errorf("%+v: checked: %v", r, err)
		}
	}
	if err := (Route{File: file, Jump: "a:1,b@[::1]:2"}).Check(); err != nil {
		t.Error(err)
	}
}

// TestRealJump goes through one real sshd to another, as a file says.
func TestRealJump(t *testing.T) {
	t.Parallel()
	needSSH(t)
	gate, node := newSSHD(t), newSSHD(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	config := func(key string) {
		var b strings.Builder
		for name, c := range map[string]Config{"gate": gate, "node": node} {
			host, hostPort, err := splitAddr(c.Addr)
			must(t, err)
			fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %s\n  User %s\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile none\n  IdentitiesOnly yes\n",
				name, host, hostPort[len(host)+1:], c.User, c.KnownHostsFiles[0])
			if name == "node" {
				fmt.Fprintf(&b, "  IdentityFile %s\n  ProxyJump gate\n", c.KeyFiles[0])
			} else {
				fmt.Fprintf(&b, "  IdentityFile %s\n", key)
			}
		}
		must(t, os.WriteFile(file, []byte(b.String()), 0o600))
	}
	config(gate.KeyFiles[0])
	through := func() (*Host, error) {
		c, hops, err := Route{File: file, Home: dir}.Resolve(t.Context(), Config{Addr: "node", Timeout: gate.Timeout})
		must(t, err)
		if len(hops) != 1 {
			t.Fatalf("hops %+v", hops)
		}
		return DialThrough(t.Context(), hops, c)
	}
	h, err := through()
	must(t, err)
	if res := run(t, h, "echo", "hello"); string(res.Stdout) != "hello\n" {
		t.Errorf("got %+v", res)
	}
	via := h.via
	must(t, h.Close())
	select {
	case <-via.Done():
	default:
		t.Error("the jump host's connection is still open")
	}
	// Without the jump host there is no way, which shows that it was used.
	config(node.KeyFiles[0])
	var auth *AuthError
	if _, err := through(); !errors.As(err, &auth) || !strings.Contains(err.Error(), "jump host "+gate.Addr+" on the way to "+node.Addr) {
		t.Errorf("with a key that the jump host does not know: %v", err)
	}
}
