package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"cvs/collect"
	"cvs/collect/container"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// sshOptions say how nodes are reached.
type sshOptions struct {
	knownHosts []string
	acceptNew  bool
	timeout    time.Duration
}

func (o *sshOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.knownHosts, "known-hosts", nil, "known_hosts `file` (default: ~/.ssh/known_hosts; may be given several times)")
	f.BoolVar(&o.acceptNew, "accept-new-host-keys", false, "trust and remember the key of a host that is met for the first time; a changed key is always refused")
	f.DurationVar(&o.timeout, "connect-timeout", 20*time.Second, "bound for connecting to one node, handshake included")
}

// passwordEnv may hold the SSH password, so that it need not stand in a file.
const passwordEnv = "CVS_SSH_PASSWORD"

// dialer returns what a runner calls to reach a node.
func (o *sshOptions) dialer(e *env, p *plan.Plan, warn func(string)) func(context.Context, plan.Node) (collect.Node, error) {
	return func(ctx context.Context, n plan.Node) (collect.Node, error) {
		home := e.getenv("HOME")
		c := remote.Config{
			Addr: n.Addr, User: p.Cluster.Username, Password: p.Cluster.Password,
			AgentSocket: e.getenv("SSH_AUTH_SOCK"), KnownHostsFiles: o.knownHosts,
			AcceptNew: o.acceptNew, Timeout: o.timeout,
		}
		if len(c.KnownHostsFiles) == 0 && home != "" {
			c.KnownHostsFiles = []string{filepath.Join(home, ".ssh", "known_hosts")}
		}
		if c.Password == "" {
			c.Password = e.getenv(passwordEnv)
		}
		if p.Cluster.PrivKeyFile != "" {
			c.KeyFiles = []string{p.Cluster.PrivKeyFile}
		}
		h, err := remote.Dial(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", collect.ErrRun, err)
		}
		return &sshNode{h: h}, nil
	}
}

// sshNode makes a [remote.Host] the node that package collect asks for.
type sshNode struct{ h *remote.Host }

func (n *sshNode) Run(ctx context.Context, c container.Command) (collect.Result, error) {
	res, err := n.h.Run(ctx, command(c))
	return collect.Result{ExitCode: res.ExitCode, Stdout: res.Stdout, Stderr: res.Stderr}, unreachable(err)
}

func (n *sshNode) Stream(ctx context.Context, c container.Command, w io.Writer, limit int64) (collect.Result, error) {
	bounded := &limitWriter{w: w, left: limit}
	var errOut bytes.Buffer
	res, err := n.h.Stream(ctx, command(c), bounded, &limitWriter{w: &errOut, left: 64 << 10, drop: true})
	if err == nil {
		err = bounded.err
	}
	return collect.Result{ExitCode: res.ExitCode, Stderr: errOut.Bytes()}, unreachable(err)
}

// Hold keeps a command running: the lock on a node lives as long as its session.
func (n *sshNode) Hold(ctx context.Context, c container.Command) (bool, collect.Result, func(), error) {
	first := make(chan struct{})
	hold, cancel := context.WithCancel(context.WithoutCancel(ctx))
	pr, pw := io.Pipe() // an open stdin that release closes
	var out, errOut bytes.Buffer
	type ended struct {
		res remote.Result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		cmd := command(c)
		cmd.Timeout = 0
		cmd.Stdin = pr
		w := &firstLine{w: &limitWriter{w: &out, left: 64 << 10, drop: true}, seen: first}
		res, err := n.h.Stream(hold, cmd, w, &limitWriter{w: &errOut, left: 64 << 10, drop: true})
		done <- ended{res, err}
	}()
	release := func() {
		pw.Close()
		cancel()
	}
	select {
	case <-first:
		return true, collect.Result{}, release, nil
	case x := <-done:
		release()
		return false, collect.Result{ExitCode: x.res.ExitCode, Stdout: out.Bytes(), Stderr: errOut.Bytes()}, func() {}, unreachable(x.err)
	case <-ctx.Done():
		release()
		return false, collect.Result{}, func() {}, ctx.Err()
	}
}

func (n *sshNode) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return n.h.DialTCP(ctx, addr)
}
func (n *sshNode) HTTP() http.RoundTripper { return n.h.HTTPTransport() }
func (n *sshNode) Close() error            { return n.h.Close() }

func command(c container.Command) remote.Command {
	cmd := remote.Command{Args: c.Args, Timeout: c.Timeout}
	if c.Stdin != nil {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	return cmd
}

// unreachable marks a transport error as such for package collect.
func unreachable(err error) error {
	if err != nil && errors.Is(err, remote.ErrRemote) {
		return fmt.Errorf("%w: %w", collect.ErrUnreachable, err)
	}
	return err
}

// A limitWriter stops after so many bytes: with an error, or silently.
type limitWriter struct {
	w    io.Writer
	left int64
	drop bool
	err  error
}

func (l *limitWriter) Write(p []byte) (int, error) {
	if int64(len(p)) <= l.left {
		l.left -= int64(len(p))
		return l.w.Write(p)
	}
	n := len(p)
	if _, err := l.w.Write(p[:l.left]); err != nil {
		return 0, err
	}
	l.left = 0
	if l.drop {
		return n, nil
	}
	l.err = errors.New("the output is larger than the limit")
	return 0, l.err
}

// firstLine tells when the first line has come.
type firstLine struct {
	w    io.Writer
	once sync.Once
	seen chan struct{}
}

func (f *firstLine) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if bytes.IndexByte(p, '\n') >= 0 {
		f.once.Do(func() { close(f.seen) })
	}
	return n, err
}
