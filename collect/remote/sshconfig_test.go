package remote

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolveSSHConfig(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh"); err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("no ssh program here")
		}
		t.Skip("no ssh program here")
	}
	home := t.TempDir()
	must(t, os.Mkdir(filepath.Join(home, "keys"), 0o700))
	must(t, os.WriteFile(filepath.Join(home, "keys", "k"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(home, "keys", "held.pub"), nil, 0o600))
	file := filepath.Join(home, "config")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(`
Host node1
  HostName 192.0.2.11
  Port 2222
  User amd
  IdentityFile ~/keys/k
  IdentityFile ~/keys/held
  IdentityFile ~/keys/none
  IdentitiesOnly yes
  UserKnownHostsFile HOME/known1 HOME/known2
  GlobalKnownHostsFile none
  HostKeyAlias rack1
  ProxyJump jump.example
Host bad
  ProxyCommand nc %h %p
`, "HOME", home)), 0o600))
	c, jump, err := ResolveSSHConfig(t.Context(), file, home, "", "node1")
	must(t, err)
	got := []string{c.Addr, c.User, strings.Join(c.KeyFiles, " "), strings.Join(c.KnownHostsFiles, " "), c.HostKeyAlias, jump}
	want := []string{"192.0.2.11:2222", "amd", home + "/keys/k " + home + "/keys/held", home + "/known1 " + home + "/known2", "rack1", "jump.example"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !c.IdentitiesOnly {
		t.Error("IdentitiesOnly is lost")
	}
	if c, _, err := ResolveSSHConfig(t.Context(), file, home, "", "other"); err != nil || c.IdentitiesOnly {
		t.Errorf("IdentitiesOnly of a host that does not want it: %v, %v", c.IdentitiesOnly, err)
	}
	if c, _, err := ResolveSSHConfig(t.Context(), file, home, "", "node1:99"); err != nil || c.Addr != "192.0.2.11:99" {
		t.Errorf("a port that is stated: %s, %v", c.Addr, err)
	}
	for _, addr := range []string{"bad", "-oProxyCommand=x", "a b"} {
		if _, _, err := ResolveSSHConfig(t.Context(), file, home, "", addr); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if _, _, err := ResolveSSHConfig(t.Context(), file+"x", home, "", "node1"); !errors.Is(err, ErrInput) {
		t.Errorf("no such file: %v", err)
	}
}

func FuzzParseSSHConfig(f *testing.F) {
	f.Add("hostname h\nport 22\nidentityfile ~/x\n")
	f.Add("hostname -x\nport 22")
	f.Fuzz(func(t *testing.T, out string) {
		c, _, err := parseSSHConfig([]byte(out), "/home/u")
		if err != nil {
			return
		}
		if host, _, err := splitAddr(c.Addr); err != nil || strings.HasPrefix(host, "-") {
			t.Errorf("address %q", c.Addr)
		}
	})
}
