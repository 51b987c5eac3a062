package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// A server is an SSH server inside the test that runs commands with bash, as
// sshd does, and can be made to misbehave.
type server struct {
	t       *testing.T
	ln      net.Listener
	hostKey ssh.Signer
	config  *ssh.ServerConfig
	home    string
	shell   string // what gets the command line after -c; bash

	bashrc      string // printed before every command, as a start-up file would
	silent      string // phase in which the server stops to answer
	maxSessions int
	asked       chan struct{} // receives keep-alive questions; nil if nobody looks

	mu       sync.Mutex
	conns    []net.Conn
	sessions int
	opened   int // most sessions at once
	logins   int
	wg       sync.WaitGroup
}

// newKey makes a key and its PEM form.
func newKey(t *testing.T, passphrase string) (ssh.Signer, []byte) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	signer, err := ssh.NewSignerFromKey(priv)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(priv, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(priv, "", []byte(passphrase))
	}
	must(t, err)
	return signer, pem.EncodeToMemory(block)
}

// keyFile writes a private key with mode 600.
func keyFile(t *testing.T, pemText []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "id_ed25519")
	must(t, os.WriteFile(name, pemText, 0o600))
	return name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newServer starts a server that setup may change before, and returns it with a
// configuration that connects to it.
func newServer(t *testing.T, setup func(*server)) (*server, Config) {
	t.Helper()
	signer, pemText := newKey(t, "")
	s := &server{t: t, home: t.TempDir(), shell: "bash", maxSessions: 10}
	s.hostKey, _ = newKey(t, "")
	s.config = &ssh.ServerConfig{
		MaxAuthTries: 6,
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if bytes.Equal(key.Marshal(), signer.PublicKey().Marshal()) {
				return nil, nil
			}
			return nil, errors.New("unknown key")
		},
	}
	if setup != nil {
		setup(s)
	}
	s.config.AddHostKey(s.hostKey)
	var err error
	s.ln, err = net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.wg.Go(func() {
		for {
			c, err := s.ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		s.ln.Close()
		s.drop()
		s.wg.Wait()
	})
	known := filepath.Join(t.TempDir(), "known_hosts")
	line := xknownhosts.Line([]string{s.ln.Addr().String()}, s.hostKey.PublicKey()) + "\n"
	must(t, os.WriteFile(known, []byte(line), 0o600))
	return s, Config{
		Addr: s.ln.Addr().String(), User: "tester", KeyFiles: []string{keyFile(t, pemText)},
		KnownHostsFiles: []string{known}, Timeout: 10 * time.Second,
	}
}

// drop cuts every connection.
func (s *server) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
}

func (s *server) serve(c net.Conn) {
	defer c.Close()
	if s.silent == PhaseHandshake {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	conn, chans, reqs, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.logins++
	s.mu.Unlock()
	s.wg.Go(func() {
		for r := range reqs {
			if r.WantReply && s.silent != "keepalive" {
				_ = r.Reply(false, nil)
			}
			select {
			case s.asked <- struct{}{}:
			default:
			}
		}
	})
	for nc := range chans {
		switch {
		case s.silent == PhaseSession:
		case nc.ChannelType() == "direct-tcpip":
			s.wg.Go(func() { s.forward(nc) })
		case nc.ChannelType() == "session":
			s.mu.Lock()
			full := s.sessions >= s.maxSessions
			if !full {
				s.sessions++
				s.opened = max(s.opened, s.sessions)
			}
			s.mu.Unlock()
			if full {
				_ = nc.Reject(ssh.ConnectionFailed, "open failed")
				continue
			}
			ch, reqs, err := nc.Accept()
			if err != nil {
				continue
			}
			s.wg.Go(func() {
				defer func() {
					s.mu.Lock()
					s.sessions--
					s.mu.Unlock()
				}()
				s.session(ch, reqs)
			})
		default:
			_ = nc.Reject(ssh.UnknownChannelType, "no")
		}
	}
	conn.Close()
}

func (s *server) forward(nc ssh.NewChannel) {
	var to struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}
	if err := ssh.Unmarshal(nc.ExtraData(), &to); err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	out, err := net.Dial("tcp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, reqs, err := nc.Accept()
	if err != nil {
		out.Close()
		return
	}
	go ssh.DiscardRequests(reqs)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(out, ch); out.(*net.TCPConn).CloseWrite() })
	wg.Go(func() { _, _ = io.Copy(ch, out); ch.Close() })
	wg.Wait()
	out.Close()
}

// session runs one command, in its own process group like sshd.
func (s *server) session(ch ssh.Channel, reqs <-chan *ssh.Request) {
	defer ch.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for r := range reqs {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var line struct{ Command string }
		_ = ssh.Unmarshal(r.Payload, &line)
		_ = r.Reply(true, nil)
		cmd := exec.CommandContext(ctx, s.shell, "-c", s.bashrc+"\n"+line.Command)
		cmd.Dir = s.home
		cmd.Env = []string{"HOME=" + s.home, "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		in, err := cmd.StdinPipe()
		if err != nil {
			s.t.Error(err)
			return
		}
		cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
		if err := cmd.Start(); err != nil {
			s.t.Error(err)
			return
		}
		go func() { _, _ = io.Copy(in, ch); in.Close() }()
		go func() {
			for r := range reqs {
				var sig struct{ Name string }
				if r.Type == "signal" && ssh.Unmarshal(r.Payload, &sig) == nil && sig.Name == "TERM" {
					_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
				}
				_ = r.Reply(false, nil)
			}
		}()
		_ = cmd.Wait()
		ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if ws.Signaled() {
			names := map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL"}
			_, _ = ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Name       string
				Core       bool
				Msg, Empty string
			}{names[ws.Signal()], false, "", ""}))
		} else {
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{uint32(ws.ExitStatus())}))
		}
		return
	}
}

// dial connects, and closes the connection at the end of the test.
func dial(t *testing.T, c Config) *Host {
	t.Helper()
	h, err := Dial(t.Context(), c)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

func run(t *testing.T, h *Host, args ...string) Result {
	t.Helper()
	res, err := h.Run(t.Context(), Command{Args: args})
	must(t, err)
	return res
}
