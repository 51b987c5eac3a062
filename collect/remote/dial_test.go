package remote

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func TestHostKeys(t *testing.T) {
	t.Parallel()
	s, c := newServer(t, nil)
	finger := ssh.FingerprintSHA256(s.hostKey.PublicKey())
	known := c.KnownHostsFiles[0]

	c.KnownHostsFiles = []string{filepath.Join(t.TempDir(), "ssh", "known_hosts")}
	_, err := Dial(t.Context(), c)
	var unknown *UnknownHostKeyError
	if !errors.As(err, &unknown) || unknown.Fingerprint != finger || unknown.KeyType != "ssh-ed25519" || !errors.Is(err, ErrRemote) {
		t.Fatalf("unknown key: %v", err)
	}
	for _, part := range []string{c.Addr, finger, "ssh-ed25519", "--accept-new-host-keys"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %s", err, part)
		}
	}
	if s.logins != 0 {
		t.Error("logged in to an unknown host")
	}

	c.AcceptNew = true
	must(t, os.MkdirAll(filepath.Dir(c.KnownHostsFiles[0]), 0o700))
	must(t, os.WriteFile(c.KnownHostsFiles[0], []byte("# no line end"), 0o600))
	if n := dial(t, c).Notices(); len(n) != 1 || !strings.Contains(n[0], finger) {
		t.Errorf("notices = %q", n)
	}
	c.AcceptNew = false
	if n := dial(t, c).Notices(); len(n) != 0 {
		t.Errorf("notices of a known host = %q", n)
	}
	fi, err := os.Stat(c.KnownHostsFiles[0])
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("known_hosts: %v, %v", fi.Mode(), err)
	}

	other, _ := newKey(t, "")
	line, err := os.ReadFile(known)
	must(t, err)
	host, _, _ := strings.Cut(string(line), " ")
	must(t, os.WriteFile(known, []byte(host+" "+string(ssh.MarshalAuthorizedKey(other.PublicKey()))), 0o600))
	c.KnownHostsFiles, c.AcceptNew = []string{known}, true
	var changed *HostKeyChangedError
	if _, err := Dial(t.Context(), c); !errors.As(err, &changed) || changed.Known[0] != known+":1" || errors.As(err, &unknown) || !strings.Contains(err.Error(), "CHANGED") {
		t.Errorf("changed key: %v", err)
	}
	c.SkipHostKeyCheck = true
	if n := dial(t, c).Notices(); len(n) != 1 || !strings.Contains(n[0], "NOT checked") {
		t.Errorf("notices without a check = %q", n)
	}
	must(t, os.WriteFile(known, []byte("@revoked * "+string(ssh.MarshalAuthorizedKey(s.hostKey.PublicKey()))), 0o600))
	c.SkipHostKeyCheck = false
	if _, err := Dial(t.Context(), c); !errors.As(err, &changed) || !changed.Revoked {
		t.Errorf("revoked key: %v", err)
	}
	must(t, os.WriteFile(known, []byte("host ssh-ed25519 %%%"), 0o600))
	if _, err := Dial(t.Context(), c); !errors.Is(err, ErrInput) {
		t.Errorf("broken known_hosts: %v", err)
	}
}

func TestLoginRefused(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, func(s *server) {
		s.config.PasswordCallback = func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
			if string(p) == "right" {
				return nil, nil
			}
			return nil, errors.New("no")
		}
	})
	_, wrong := newKey(t, "")
	right := c.KeyFiles
	c.KeyFiles, c.Password = []string{keyFile(t, wrong)}, "wr0ng-secret"
	_, err := Dial(t.Context(), c)
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Tried) != 2 || auth.Tried[1] != "password" || !errors.Is(err, ErrRemote) {
		t.Errorf("err = %v", err)
	}
	if strings.Contains(err.Error(), c.Password) || !strings.Contains(err.Error(), c.KeyFiles[0]) {
		t.Errorf("message: %v", err)
	}
	c.Password = "right"
	dial(t, c)
	c.Password, c.KeyFiles = "", nil
	if _, err := Dial(t.Context(), c); !errors.As(err, &auth) || !strings.Contains(err.Error(), "nothing to offer") {
		t.Errorf("without any key: %v", err)
	}
	c.KeyFiles = append([]string{keyFile(t, wrong)}, right...)
	dial(t, c)
}

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, nil)
	_, locked := newKey(t, "passphrase")
	_, plain := newKey(t, "")
	readable := keyFile(t, plain)
	must(t, os.Chmod(readable, 0o644))
	for file, part := range map[string]string{
		"/no/such/key":                "does not exist",
		keyFile(t, locked):            "has a passphrase",
		readable:                      "0644",
		keyFile(t, []byte("ssh-rsa")): "not a private key",
		t.TempDir():                   "not a private key",
	} {
		c.KeyFiles = []string{file}
		_, err := Dial(t.Context(), c)
		var kf *KeyFileError
		if !errors.As(err, &kf) || !errors.Is(err, ErrInput) || errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", part, err)
		}
		if err := c.Check(); !errors.As(err, &kf) {
			t.Errorf("Check of %s: %v", part, err)
		}
	}
}

// serveAgent serves keys on a socket.
func serveAgent(t *testing.T, keys ...any) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		must(t, ring.Add(agent.AddedKey{PrivateKey: k}))
	}
	dir, err := os.MkdirTemp("", "a") // socket paths are short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c); c.Close() }()
		}
	}()
	return ln.Addr().String()
}

func rawKey(t *testing.T, pemText []byte, passphrase string) any {
	t.Helper()
	if passphrase != "" {
		k, err := ssh.ParseRawPrivateKeyWithPassphrase(pemText, []byte(passphrase))
		must(t, err)
		return k
	}
	k, err := ssh.ParseRawPrivateKey(pemText)
	must(t, err)
	return k
}

func TestAgentWithManyKeys(t *testing.T) {
	t.Parallel()
	s, c := newServer(t, nil)
	var keys []any
	for range 10 {
		_, p := newKey(t, "")
		keys = append(keys, rawKey(t, p, ""))
	}
	c.AgentSocket = serveAgent(t, keys...)
	dial(t, c) // the configured key comes first
	_, wrong := newKey(t, "")
	c.KeyFiles = []string{keyFile(t, wrong)}
	_, err := Dial(t.Context(), c)
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Tried) != maxKeyOffers || !strings.Contains(auth.Tried[1], "agent key SHA256:") {
		t.Errorf("err = %v", err)
	}

	// A key file with a passphrase works when the agent holds its key.
	signer, locked := newKey(t, "pp")
	s.mu.Lock()
	s.config.PublicKeyCallback = func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) == string(signer.PublicKey().Marshal()) {
			return nil, nil
		}
		return nil, errors.New("no")
	}
	s.mu.Unlock()
	c.KeyFiles = []string{keyFile(t, locked)}
	c.AgentSocket = serveAgent(t, append(keys, rawKey(t, locked, "pp"))...)
	dial(t, c)

	c.AgentSocket = "/no/such/agent"
	if _, err := Dial(t.Context(), c); !errors.Is(err, ErrInput) {
		t.Errorf("locked key without an agent: %v", err)
	}
}

// TestIdentitiesOnly: of the agent's keys only those are offered that a key file
// names, be it by its public half alone.
func TestIdentitiesOnly(t *testing.T) {
	t.Parallel()
	s, c := newServer(t, nil)
	_, stranger := newKey(t, "")
	signer, mine := newKey(t, "")
	s.mu.Lock()
	s.config.PublicKeyCallback = func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) == string(signer.PublicKey().Marshal()) {
			return nil, nil
		}
		return nil, errors.New("no")
	}
	s.mu.Unlock()
	c.AgentSocket = serveAgent(t, rawKey(t, stranger, ""), rawKey(t, mine, ""))
	c.KeyFiles = nil
	dial(t, c) // the agent's keys, whatever they are

	c.IdentitiesOnly = true
	var auth *AuthError
	if _, err := Dial(t.Context(), c); !errors.As(err, &auth) || len(auth.Tried) != 0 {
		t.Errorf("no key file: %v", err)
	}
	_, other := newKey(t, "")
	c.KeyFiles = []string{keyFile(t, other)}
	if _, err := Dial(t.Context(), c); !errors.As(err, &auth) || len(auth.Tried) != 1 {
		t.Errorf("another key file: %v", err)
	}
	pub := filepath.Join(t.TempDir(), "id")
	must(t, os.WriteFile(pub+".pub", ssh.MarshalAuthorizedKey(signer.PublicKey()), 0o644))
	for _, name := range []string{pub, pub + ".pub"} {
		c.KeyFiles, c.SpareKeyFiles = []string{name}, nil
		dial(t, c)
		c.KeyFiles, c.SpareKeyFiles = nil, []string{name}
		dial(t, c)
	}
}

// TestSilentHost is a host that stops to answer in each phase.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	tests := map[string]func(*server){
		PhaseHandshake: func(s *server) { s.silent = PhaseHandshake },
		PhaseAuth: func(s *server) {
			s.config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
				<-block
				return nil, errors.New("late")
			}
		},
	}
	for phase, setup := range tests {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			_, c := newServer(t, setup)
			if phase == PhaseAuth {
				t.Cleanup(func() { block <- struct{}{} }) // runs before the server waits for its end
			}
			c.Timeout = 300 * time.Millisecond
			_, err := Dial(t.Context(), c)
			var te *TimeoutError
			if !errors.As(err, &te) || te.Phase != phase || te.Host != c.Addr || !errors.Is(err, ErrRemote) {
				t.Errorf("err = %v", err)
			}
		})
	}
	t.Run(PhaseSession, func(t *testing.T) {
		t.Parallel()
		_, c := newServer(t, func(s *server) { s.silent = PhaseSession })
		c.Timeout = 300 * time.Millisecond
		h := dial(t, c)
		_, err := h.Run(t.Context(), Command{Args: []string{"true"}})
		var te *TimeoutError
		if !errors.As(err, &te) || te.Phase != PhaseSession {
			t.Errorf("err = %v", err)
		}
		// The total time must not grow with the number of commands.
		began := time.Now()
		for range 50 {
			if _, err := h.Run(t.Context(), Command{Args: []string{"true"}}); !errors.As(err, &te) {
				t.Fatalf("after the first: %v", err)
			}
		}
		if d := time.Since(began); d > c.Timeout {
			t.Errorf("50 commands took %s", d)
		}
	})
	t.Run(PhaseConnect, func(t *testing.T) {
		t.Parallel()
		c := Config{Addr: "192.0.2.12", Timeout: 100 * time.Millisecond, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done() // packets go nowhere
			return nil, ctx.Err()
		}}
		_, err := Dial(t.Context(), c)
		var te *TimeoutError
		if !errors.As(err, &te) || te.Phase != PhaseConnect || te.Host != "192.0.2.12" {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ln.Close()
		_, err = Dial(t.Context(), Config{Addr: ln.Addr().String()})
		var ue *UnreachableError
		if !errors.As(err, &ue) || ue.Phase != PhaseConnect || !errors.Is(err, ErrRemote) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestConnectionLost(t *testing.T) {
	t.Parallel()
	s, c := newServer(t, nil)
	h := dial(t, c)
	pidFile := filepath.Join(t.TempDir(), "pid")
	go func() {
		waitForPID(t, pidFile)
		s.drop()
	}()
	_, err := h.Run(t.Context(), Command{Args: []string{"sh", "-c", `echo $$ >"$1"; exec sleep 320`, "x", pidFile}, Name: "client"})
	var lost *LostError
	if !errors.As(err, &lost) || lost.Command != "client" || !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), c.Addr) {
		t.Errorf("err = %v", err)
	}
	<-h.Done()
	if _, err := h.Run(t.Context(), Command{Args: []string{"true"}}); !errors.As(err, &lost) {
		t.Errorf("afterwards: %v", err)
	}
	kill(t, waitForPID(t, pidFile))
}

// TestFrozenPeer is a host whose network dies without a word.
func TestFrozenPeer(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, func(s *server) { s.silent = "keepalive" })
	c.KeepAlive = 100 * time.Millisecond
	h := dial(t, c)
	pidFile := filepath.Join(t.TempDir(), "pid")
	began := time.Now()
	_, err := h.Run(t.Context(), Command{Args: []string{"sh", "-c", `echo $$ >"$1"; exec sleep 321`, "x", pidFile}})
	var lost *LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "keep-alive") {
		t.Errorf("err = %v", err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("noticed after %s", d)
	}
	kill(t, waitForPID(t, pidFile))
}

// A freezer passes on what two connections say to each other until it is frozen.
// Then it reads nothing any more and says nothing, as a host does whose network
// is gone.
type freezer struct {
	net.Conn
	frozen, closed chan struct{}
	once           sync.Once
}

func (f *freezer) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	select {
	case <-f.frozen:
		<-f.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (f *freezer) Write(p []byte) (int, error) {
	select {
	case <-f.frozen:
		<-f.closed
		return 0, net.ErrClosed
	default:
		return f.Conn.Write(p)
	}
}

func (f *freezer) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.Conn.Close()
}

// TestNetworkGone is a network that dies while both sides are sending: not even
// writing works any more, and everything must end all the same.
func TestNetworkGone(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, nil)
	c.KeepAlive = 100 * time.Millisecond
	f := &freezer{frozen: make(chan struct{}), closed: make(chan struct{})}
	c.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		f.Conn = conn
		return f, err
	}
	h := dial(t, c)
	var once sync.Once
	freeze := writerFunc(func(p []byte) (int, error) {
		once.Do(func() { close(f.frozen) })
		return len(p), nil
	})
	_, err := h.Stream(t.Context(), Command{Args: []string{"cat"}, Stdin: bytes.NewReader(make([]byte, 64<<20))}, freeze, nil)
	var lost *LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "keep-alive") {
		t.Errorf("err = %v", err)
	}
	h.Close()

	// A command that is cancelled does not wait for the network either.
	f = &freezer{frozen: make(chan struct{}), closed: make(chan struct{})}
	c.KeepAlive = time.Hour
	h = dial(t, c)
	once = sync.Once{}
	began := time.Now()
	_, err = h.Stream(t.Context(), Command{Args: []string{"sh", "-c", "echo x; cat"}, Timeout: 200 * time.Millisecond}, freeze, nil)
	var te *TimeoutError
	if !errors.As(err, &te) || te.Phase != PhaseCommand {
		t.Errorf("err = %v", err)
	}
	if d := time.Since(began); d > cancelGrace+2*time.Second {
		t.Errorf("took %s", d)
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// TestKeepAliveHealthy: a host that answers is asked again and kept.
func TestKeepAliveHealthy(t *testing.T) {
	t.Parallel()
	s, c := newServer(t, func(s *server) { s.asked = make(chan struct{}) })
	c.KeepAlive = 500 * time.Millisecond // the limit is three of these, far from what an answer takes
	h := dial(t, c)
	for range 3 {
		select {
		case <-s.asked:
		case <-h.Done():
			t.Fatal("lost a healthy host")
		}
	}
	if run(t, h, "true").ExitCode != 0 {
		t.Error("lost a healthy host")
	}
}

// TestAnswers has a clock of its own: what is late by less than three intervals
// is an answer, and what is not is none.
func TestAnswers(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) func() <-chan struct{} {
		return func() <-chan struct{} {
			answer := make(chan struct{})
			time.AfterFunc(d, func() { close(answer) })
			return answer
		}
	}
	for _, tc := range []struct {
		takes time.Duration
		alive bool
		ends  time.Duration
	}{{0, true, time.Hour}, {29 * time.Second, true, time.Hour}, {31 * time.Second, false, 40 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			done := make(chan struct{})
			timer := time.AfterFunc(time.Hour, func() { close(done) })
			defer timer.Stop()
			began := time.Now()
			if alive := answers(10*time.Second, done, after(tc.takes)); alive != tc.alive || time.Since(began) != tc.ends {
				t.Errorf("an answer after %s: alive %v after %s, want %v after %s", tc.takes, alive, time.Since(began), tc.alive, tc.ends)
			}
		})
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	must(t, err)
	_ = p.Kill()
}

func TestJumpHost(t *testing.T) {
	t.Parallel()
	_, jump := newServer(t, nil)
	_, c := newServer(t, nil)
	j := dial(t, jump)
	c.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) { return j.DialTCP(ctx, addr) }
	if out := run(t, dial(t, c), "echo", "x").Stdout; string(out) != "x\n" {
		t.Errorf("got %q", out)
	}
}

func TestSplitAddr(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"h": "h:22", "h:2222": "h:2222", "192.0.2.1": "192.0.2.1:22", "::1": "[::1]:22", "[::1]": "[::1]:22", "[fe80::1]:99": "[fe80::1]:99",
		"": "", ":22": "", "h:x": "", "h:0": "", "h:70000": "", "-oProxyCommand=x": "", "a b": "", "u@h": "", "[::1": "", "h:22:": "", "a,b": "",
	} {
		_, got, err := splitAddr(addr)
		if (err == nil) != (want != "") || got != want {
			t.Errorf("%q: %q, %v, want %q", addr, got, err, want)
		}
	}
}

// TestNothingLeaks opens, uses, breaks and closes connections and checks that no
// goroutine of this package or of the SSH library is left.
func TestNothingLeaks(t *testing.T) {
	// Not parallel: it counts.
	t.Run("use", func(t *testing.T) {
		s, c := newServer(t, func(s *server) { s.maxSessions = 3 })
		for i := range 5 {
			h := dial(t, c)
			run(t, h, "true")
			_, _ = h.Run(t.Context(), Command{Args: []string{"sleep", "322"}, Timeout: 50 * time.Millisecond})
			_, _ = h.Stream(t.Context(), Command{Args: []string{"yes"}}, brokenWriter{}, nil)
			if i == 4 {
				s.drop()
			}
			h.Close()
		}
		bad := c
		bad.KnownHostsFiles = nil
		if _, err := Dial(t.Context(), bad); err == nil {
			t.Error("dialled an unknown host")
		}
		_, c = newServer(t, func(s *server) { s.silent = PhaseSession })
		c.Timeout = 100 * time.Millisecond
		h := dial(t, c)
		_, _ = h.Run(t.Context(), Command{Args: []string{"true"}})
		h.Close()
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var dump string
	for range 250 { // goroutines end a moment after what they waited for
		buf := make([]byte, 4<<20)
		dump = string(buf[:runtime.Stack(buf, true)])
		_, others, _ := strings.Cut(dump, "\n\n") // the first one is this test
		if !strings.Contains(others, "crypto/ssh.") && !strings.Contains(others, "remote.(*") {
			return
		}
		<-tick.C
	}
	t.Errorf("goroutines left:\n%s", dump)
}
