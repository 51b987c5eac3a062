package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// newSSHD starts a real OpenSSH server with its own keys and configuration on
// loopback. Without the binary the test is skipped, unless CVS_TEST_REAL=1 says
// that it must run.
func newSSHD(t *testing.T) Config {
	t.Helper()
	const bin = "/usr/sbin/sshd"
	if _, err := os.Stat(bin); err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("CVS_TEST_REAL=1 and no OpenSSH server: ", err)
		}
		t.Skip("no OpenSSH server here: ", err)
	}
	u, err := user.Current()
	must(t, err)
	if u.Uid == "0" {
		must(t, os.MkdirAll("/run/sshd", 0o755)) // its empty folder for privilege separation
	}
	dir, err := os.MkdirTemp("", "sshd")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	hostKey, hostPEM := newKey(t, "")
	signer, userPEM := newKey(t, "")
	at := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		must(t, os.WriteFile(p, b, 0o600))
		return p
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := ln.Addr().String()
	ln.Close()
	_, port, _ := net.SplitHostPort(addr)
	conf := at("sshd_config", []byte(fmt.Sprintf(`Port %s
ListenAddress 127.0.0.1
HostKey %s
PidFile none
AuthorizedKeysFile %s
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
MaxSessions 3
`, port, at("host", hostPEM), at("authorized", ssh.MarshalAuthorizedKey(signer.PublicKey())))))
	cmd := exec.Command(bin, "-D", "-e", "-f", conf)
	var logs bytes.Buffer
	cmd.Stderr = &logs
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", logs.String())
		}
	})
	c := Config{
		Addr: addr, User: u.Username, KeyFiles: []string{keyFile(t, userPEM)}, Timeout: 20 * time.Second,
		KnownHostsFiles: []string{at("known_hosts", []byte(xknownhosts.Line([]string{addr}, hostKey.PublicKey())+"\n"))},
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 250 {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return c
		}
		<-tick.C
	}
	t.Fatal("sshd does not listen")
	return c
}

func TestRealSSHD(t *testing.T) {
	t.Parallel()
	c := newSSHD(t)
	h := dial(t, c)
	testOutcomes(t, h)
	testFiles(t, h)
	testJob(t, c)

	// More at once than MaxSessions, while earlier ones are just closing.
	done := make(chan error)
	for range 16 {
		go func() {
			res, err := h.Run(t.Context(), Command{Args: []string{"true"}})
			if err == nil && res.ExitCode != 0 {
				err = fmt.Errorf("status %d: %s", res.ExitCode, res.Stderr)
			}
			done <- err
		}()
	}
	for range 16 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}

	// A command that is cancelled ends, also for root, whose commands sshd does
	// not pass signals on to.
	ctx, cancel := context.WithCancel(t.Context())
	var pid string
	_, err := h.Stream(ctx, Command{Args: []string{"sh", "-c", "echo $$; exec sleep 330"}}, writerFunc(func(p []byte) (int, error) {
		pid = strings.TrimSpace(string(p))
		cancel()
		return len(p), nil
	}), nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	n, err := strconv.Atoi(pid)
	must(t, err)
	waitForEnd(t, n)
	if run(t, h, "true").ExitCode != 0 {
		t.Error("the connection did not survive")
	}

	_, wrong := newKey(t, "")
	bad := c
	bad.KeyFiles = []string{keyFile(t, wrong)}
	var auth *AuthError
	if _, err := Dial(t.Context(), bad); !errors.As(err, &auth) {
		t.Errorf("wrong key: %v", err)
	}
	bad = c
	bad.KnownHostsFiles = nil
	var unknown *UnknownHostKeyError
	if _, err := Dial(t.Context(), bad); !errors.As(err, &unknown) || !strings.HasPrefix(unknown.Fingerprint, "SHA256:") {
		t.Errorf("unknown host: %v", err)
	}
}
