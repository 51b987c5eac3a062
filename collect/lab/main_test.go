package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// The test binary is the program behind the shims.
func TestMain(m *testing.M) {
	if handled, code := Main(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// startLab brings a lab up and checks at the end that nothing of it is left.
func startLab(t *testing.T, o Options) *Lab {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Dir, o.Executable = t.TempDir(), exe
	if o.StartDelay == 0 {
		o.StartDelay = 20 * time.Millisecond
	}
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if left, err := l.Processes(); err != nil || len(left) > 0 {
			t.Errorf("processes left: %v, %v", left, err)
		}
	})
	return l
}

// dial logs in to a node with the key and the host keys the lab wrote.
func dial(t *testing.T, l *Lab, node int) *ssh.Client {
	t.Helper()
	pem, err := os.ReadFile(l.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	check, err := knownhosts.New(l.KnownHosts())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ssh.Dial("tcp", l.Addr(node), &ssh.ClientConfig{User: User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: check, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

type result struct {
	out, err string
	code     int
	signal   string
}

// run executes one command over SSH.
func run(t *testing.T, c *ssh.Client, command, stdin string) result {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out, errs bytes.Buffer
	s.Stdout, s.Stderr, s.Stdin = &out, &errs, strings.NewReader(stdin)
	err = s.Run(command)
	r := result{out: out.String(), err: errs.String()}
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		r.code, r.signal = exit.ExitStatus(), exit.Signal()
	case err != nil:
		t.Fatalf("%s: %v", command, err)
	}
	return r
}

// mustRun is run for commands that must succeed; it returns stdout.
func mustRun(t *testing.T, c *ssh.Client, command string) string {
	t.Helper()
	r := run(t, c, command, "")
	if r.code != 0 {
		t.Fatalf("%s: exit %d\nstdout: %s\nstderr: %s", command, r.code, r.out, r.err)
	}
	return r.out
}

// startServer launches a server shim in the background and waits for its port.
func startServer(t *testing.T, l *Lab, c *ssh.Client, port int, args string) (log string) {
	t.Helper()
	log = filepath.Join(l.NodeDir(0), "server.log")
	mustRun(t, c, "nohup "+args+" > "+log+" 2>&1 & echo started")
	eventually(t, func() bool {
		r := run(t, c, "grep -c 'Uvicorn running' "+log, "")
		return strings.TrimSpace(r.out) == "1"
	}, func() string { b, _ := os.ReadFile(log); return "server log: " + string(b) })
	return log
}

// eventually polls a condition that another process makes true.
func eventually(t *testing.T, ok func() bool, why func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !ok() {
		if !sleep(ctx, 20*time.Millisecond) {
			t.Fatal("condition never held; " + why())
		}
	}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// chatText asks node 0's server and returns the answer's text.
func chatText(t *testing.T, l *Lab, port int, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return l.nodes[0].machine.dial(ctx, uint32(port))
	}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var v evalReply
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || len(v.Choices) != 1 {
		t.Fatalf("status %d: %+v, %v", resp.StatusCode, v, err)
	}
	return v.Choices[0].Message.Content
}
