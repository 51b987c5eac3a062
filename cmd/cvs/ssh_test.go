package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"cvs/collect/artifact"
	"cvs/collect/lab"
)

// jumpHost is an SSH server that only forwards, to anywhere; a lab's nodes
// forward to themselves. It returns its address and its line of known_hosts, and
// what makes it go away.
func jumpHost(t *testing.T) (addr, known string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	key := newHostKey(t)
	conf := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	conf.AddHostKey(key)
	var wg sync.WaitGroup
	forward := func(n ssh.NewChannel) {
		var to struct {
			Host string
			Port uint32
			From string
			At   uint32
		}
		if n.ChannelType() != "direct-tcpip" || ssh.Unmarshal(n.ExtraData(), &to) != nil {
			_ = n.Reject(ssh.UnknownChannelType, "it only forwards")
			return
		}
		out, err := net.Dial("tcp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
		if err != nil {
			_ = n.Reject(ssh.ConnectionFailed, err.Error())
			return
		}
		ch, requests, err := n.Accept()
		if err != nil {
			out.Close()
			return
		}
		go ssh.DiscardRequests(requests)
		go func() { _, _ = io.Copy(out, ch); out.Close() }()
		_, _ = io.Copy(ch, out)
		ch.Close()
	}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_, channels, requests, err := ssh.NewServerConn(conn, conf)
				if err != nil {
					return
				}
				go ssh.DiscardRequests(requests)
				for n := range channels {
					wg.Go(func() { forward(n) })
				}
			})
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { l.Close(); wg.Wait() }) }
	t.Cleanup(stop)
	return l.Addr().String(), knownhosts.Line([]string{l.Addr().String()}, key.PublicKey()), stop
}

// TestSSHConfig has run and doctor find a node by an alias, through a jump host
// that the same file names. The cluster file has no address.
func TestSSHConfig(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh"); err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("no ssh program here")
		}
		t.Skip("no ssh program here")
	}
	exe, err := os.Executable()
	check(t, err)
	l, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Executable: exe, Speed: 100, StartDelay: 100 * time.Millisecond})
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	config, err := l.DemoConfig(lab.Demo{AllPass: true, Slack: lab.BusyMachine})
	check(t, err)
	var cluster map[string]any
	mustJSON(t, readFile(t, l.HeadClusterFile()), &cluster)
	user := cluster["username"].(string)
	cluster["node_dict"] = map[string]any{"gpu-a": map[string]any{"vpc_ip": "127.0.0.1"}}
	delete(cluster, "head_node_dict")
	delete(cluster, "priv_key_file") // the ssh_config names it
	dir := t.TempDir()
	clusterFile := filepath.Join(dir, "cluster.json")
	b, err := json.Marshal(cluster)
	check(t, err)
	check(t, os.WriteFile(clusterFile, b, 0o600))

	gate, known, stop := jumpHost(t)
	knownFile, sshConfig := filepath.Join(dir, "known_hosts"), filepath.Join(dir, "ssh_config")
	check(t, os.WriteFile(knownFile, []byte(readFile(t, l.KnownHosts())+known+"\n"), 0o600))
	write := func(jump string) {
		var b strings.Builder
		for i, name := range []string{"gpu-a", "gate"} {
			host, port, err := net.SplitHostPort([]string{l.Addr(0), gate}[i])
			check(t, err)
			fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %s\n  User %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile none\n",
				name, host, port, user, l.KeyFile(), knownFile)
			if i == 0 {
				fmt.Fprintf(&b, "  ProxyJump %s\n", jump)
			}
		}
		check(t, os.WriteFile(sshConfig, []byte(b.String()), 0o600))
	}
	var out bytes.Buffer
	cvs := func(args ...string) int {
		t.Helper()
		out.Reset()
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out, now: time.Now,
			getenv: func(string) string { return "" }, osUser: func() string { return "me" }}
		return run(t.Context(), e, append(args, "--cluster_file", clusterFile, "--ssh_config", sshConfig))
	}
	write("gate")
	if code := cvs("doctor"); code != 0 || !strings.Contains(out.String(), "gpu-a") {
		t.Fatalf("doctor: exit %d\n%s", code, out.String())
	}
	if code := cvs("run", "atom", "--config_file", config, "-k", "conc4", "--workspace", dir); code != 0 {
		t.Fatalf("run: exit %d\n%s", code, out.String())
	}
	dirs, err := filepath.Glob(filepath.Join(dir, "cvs_runs", "*"))
	check(t, err)
	if len(dirs) != 1 {
		t.Fatalf("run directories %q", dirs)
	}
	r, err := artifact.Read(dirs[0])
	check(t, err)
	if line := strings.Join(r.Meta.CommandLine, " "); len(r.Results) != 2 || !strings.Contains(line, "--ssh_config "+sshConfig) {
		t.Errorf("%d results, %s", len(r.Results), line)
	}
	// The jump host on the command line wins over the file's, which leads nowhere.
	write("192.0.2.1")
	if code := cvs("doctor", "--jump-host", "gate"); code != 0 {
		t.Errorf("--jump-host: exit %d\n%s", code, out.String())
	}
	write("gate")
	// Frozen, it takes connections and says nothing: the way is lost at the gate.
	stop()
	if code := cvs("doctor", "--connect-timeout", "1s"); code != 4 || !strings.Contains(out.String(), "jump host "+gate) {
		t.Errorf("without the jump host: exit %d\n%s", code, out.String())
	}
	if code := cvs("doctor", "--jump-host", "a b"); code != 2 {
		t.Errorf("a bad jump host: exit %d\n%s", code, out.String())
	}
}

// TestLoginNamed: the cluster file names a key or a password, unless something
// else may hold what logs in.
func TestLoginNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check(t, os.CopyFS(dir, os.DirFS(caseDir(t, "c126-orphan-result"))))
	cluster := filepath.Join(dir, "cluster.json")
	text := regexp.MustCompile(`\s*"priv_key_file": "[^"]*",`).ReplaceAllString(readFile(t, cluster), "")
	write(t, cluster, text)
	sshConfig := filepath.Join(dir, "ssh_config")
	write(t, sshConfig, "Host *\n")
	for name, tc := range map[string]struct {
		env  map[string]string
		args []string
		exit int
	}{
		"nothing":         {nil, nil, 2},
		"agent":           {map[string]string{"SSH_AUTH_SOCK": "/run/agent"}, nil, 0},
		"password":        {map[string]string{"CVS_SSH_PASSWORD": "x"}, nil, 0},
		"ssh_config file": {nil, []string{"--ssh_config", sshConfig}, 0},
	} {
		res := cvsCommand(t, tc.env, append(append([]string{"run", "atom", "--dry-run"}, inputArgs(t, dir, caseInvocation{})...), tc.args...)...)
		if res.code != tc.exit || tc.exit == 2 && !strings.Contains(res.stderr, "an SSH agent, CVS_SSH_PASSWORD or --ssh_config must log in") {
			t.Errorf("%s: exit %d, want %d: %s", name, res.code, tc.exit, res.stderr)
		}
	}
}
