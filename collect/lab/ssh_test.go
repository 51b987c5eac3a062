package lab

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	for _, tc := range []struct {
		name, command, stdin string
		want                 result
	}{
		{"streams apart", "echo out; echo err >&2", "", result{out: "out\n", err: "err\n"}},
		{"exit code", "exit 7", "", result{code: 7}},
		{"stdin", "tr a-z A-Z", "secret\n", result{out: "SECRET\n"}},
		{"bash syntax", `x=(a b); echo "${x[1]}" <(:) | cut -c1`, "", result{out: "b\n"}},
		{"quoting", `printf '%s|' 'a b' "c'd" \$HOME`, "", result{out: "a b|c'd|$HOME|"}},
		{"not found", "no_such_program 2>/dev/null", "", result{code: 127}},
		{"own signal", "kill -TERM $$", "", result{code: 143, signal: "TERM"}},
		{"sudo", "sudo -n true && sudo -n sh -c 'echo as root'", "", result{out: "as root\n"}},
		{"sudo unknown option", "sudo --frobnicate true 2>/dev/null", "", result{code: 1}},
		{"no environment of the machine", "echo ${GOPATH-}${SSH_AUTH_SOCK-}$USER", "", result{out: "lab\n"}},
	} {
		if got := run(t, c, tc.command, tc.stdin); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
	if got, want := mustRun(t, c, "echo $HOME; command -v docker"), filepath.Join(l.NodeDir(0), "home")+"\n"+filepath.Join(l.NodeDir(0), "bin", "docker")+"\n"; got != want {
		t.Errorf("home and shims: got %q, want %q", got, want)
	}
}

func TestSignalReachesTheGroup(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("sleep 1000 & echo $!; wait"); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if err := s.Signal(ssh.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err == nil {
		t.Error("a killed command reported success")
	}
	eventually(t, func() bool { return !carries(pid, envSession+"="+l.session) }, func() string { return "the child survived" })
}

func TestDroppedConnectionLeavesTheCommand(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	eof := filepath.Join(l.NodeDir(0), "tmp", "eof")
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// As OpenSSH: the process lives on, and its stdin ends.
	if err := s.Start("echo up; cat >/dev/null; echo done > " + eof + "; exec sleep 1000"); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		t.Fatal(err)
	}
	l.DropConnections(0)
	eventually(t, func() bool { _, err := os.Stat(eof); return err == nil }, func() string { return "stdin never ended" })
	if left, err := l.Processes(); err != nil || len(left) == 0 {
		t.Errorf("the command was ended with its connection: %v, %v", left, err)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := ssh.NewSignerFromKey(other)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(l.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	right, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, user string
		auth       ssh.AuthMethod
	}{
		{"another key", User, ssh.PublicKeys(wrong)},
		{"another user", "root", ssh.PublicKeys(right)},
		{"a password", User, ssh.Password("lab")},
	} {
		_, err := ssh.Dial("tcp", l.Addr(0), &ssh.ClientConfig{User: tc.user, Auth: []ssh.AuthMethod{tc.auth}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 5 * time.Second})
		if err == nil {
			t.Errorf("%s opened the node", tc.name)
		}
	}
	if st, err := os.Stat(l.KeyFile()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", st.Mode(), err)
	}
}

func TestKeepaliveAndSessionLimit(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); err != nil || ok {
		t.Errorf("keepalive: %v, %v; OpenSSH answers with a refusal", ok, err)
	}
	for i := range maxSessions {
		s, err := c.NewSession()
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		defer s.Close()
	}
	if s, err := c.NewSession(); err == nil {
		s.Close()
		t.Error("the eleventh session was opened")
	}
}

func TestForward(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "through") }))
	defer web.Close()
	u, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: c.DialContext, DisableKeepAlives: true}}
	get := func(host string) (string, error) {
		resp, err := client.Get("http://" + net.JoinHostPort(host, u.Port()))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		return readAll(t, resp.Body), nil
	}
	for _, host := range []string{"localhost", "127.0.0.1"} {
		if got, err := get(host); err != nil || got != "through" {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	if _, err := get("192.0.2.1"); err == nil || !strings.Contains(err.Error(), "loopback only") {
		t.Errorf("another host: %v", err)
	}
	free, err := FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Dial("tcp", net.JoinHostPort("localhost", strconv.Itoa(free))); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("closed port: %v", err)
	}
	if err := l.SetFaults(0, Faults{RefuseForward: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := get("localhost"); err == nil || !strings.Contains(err.Error(), "prohibited") {
		t.Errorf("refused forward: %v", err)
	}
}

func TestFreezeAndDrop(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	l.Freeze(0, true)
	answered := make(chan error, 1)
	go func() {
		_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a frozen node answered (%v)", err)
	case <-time.After(100 * time.Millisecond):
	}
	l.Freeze(0, false)
	if err := <-answered; err != nil {
		t.Errorf("after the thaw: %v", err)
	}
	if err := l.SetFaults(0, Faults{DropOnExec: true}); err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run("true"); err == nil {
		t.Error("the connection was not cut")
	}
}

func TestNodesAreApart(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Nodes: 2})
	a, b := dial(t, l, 0), dial(t, l, 1)
	mustRun(t, a, "docker run -d --name only "+DemoImage+" sleep infinity")
	if got := mustRun(t, b, "docker ps --format '{{.Names}}'"); got != "" {
		t.Errorf("node 1 sees %q", got)
	}
	if l.Addr(0) == l.Addr(1) || !strings.HasPrefix(l.Addr(1), "127.0.0.2:") {
		t.Errorf("addresses %s and %s", l.Addr(0), l.Addr(1))
	}
}

func TestLeftoversAreEnded(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	mustRun(t, c, "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo")
	if _, err := Start(t.Context(), l.opts); err == nil || !strings.Contains(err.Error(), "another lab") {
		t.Fatalf("a second lab in the same folder: %v", err)
	}
	// What a killed program leaves: processes, and a lock nobody holds.
	if err := l.lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := Start(t.Context(), l.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if left, err := l.Processes(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"no folder":     {Executable: "/bin/true"},
		"no program":    {Dir: t.TempDir()},
		"no such file":  {Dir: t.TempDir(), Executable: filepath.Join(t.TempDir(), "absent")},
		"bad speed":     {Dir: t.TempDir(), Executable: "/bin/true", Speed: -1},
		"colon in path": {Dir: filepath.Join(t.TempDir(), "a:b"), Executable: "/bin/true"},
	} {
		if l, err := Start(t.Context(), o); err == nil {
			l.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMainNeedsANode(t *testing.T) {
	t.Parallel()
	if handled, _ := Main([]string{"/home/someone/bin/docker", "ps"}, []string{"PATH=/bin"}, nil, nil, nil); handled {
		t.Error("a link called docker was taken for a shim outside a lab")
	}
	if handled, _ := Main([]string{"cvs", "demo"}, []string{envNode + "=/tmp"}, nil, nil, nil); handled {
		t.Error("cvs itself was taken for a shim")
	}
}
