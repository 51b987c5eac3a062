package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh" // for the reason why a tunnel was not opened

	"cvs/collect/check"
	"cvs/collect/driver"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// A member is one node of a run, at its place in rank order, with what the run
// has on it.
type member struct {
	run  *run
	rank int
	at   plan.Node
	cmds *commands

	node Node
	http *http.Client
	held *holding // the node's lock; see setHeld and unlock

	lost     error // the connection failed; nothing more can be learned from it
	launched bool  // docker run was sent: a container may be ours
	kept     bool  // a keeper of the container may run; unkeep ends its renewal
	unkeep   context.CancelFunc
	vram     vram
	attached bool // the container was there before this run
	workMade bool // the work folder may exist
	digest   string
	fabric   driver.Rank
	mark     check.Mark // where the kernel log stood
	markErr  error
	markNote string // what a reader of the scan should know about its window
	logName  string // of the scan below checks/dmesg, without suffix; "" is the host
}

func (m *member) host() string { return m.cmds.host }

func (m *member) attach(n Node) {
	l := newLink(m, n)
	m.node, m.lost = l, nil
	m.http = &http.Client{Transport: l.HTTPTransport()}
}

// command is a step as the transport takes it.
func command(s Step) remote.Command {
	c := remote.Command{Args: s.cmd.Args, Timeout: s.cmd.Timeout, Name: brief(s)}
	if s.cmd.Stdin != nil {
		c.Stdin = bytes.NewReader(s.cmd.Stdin)
	}
	return c
}

// brief names a step in a message: the program, and docker's verb.
func brief(s Step) string {
	switch {
	case len(s.Argv) > 2 && s.Argv[0] == "sh":
		return s.Stage + " step"
	case len(s.Argv) > 2 && s.Argv[1] == "-m": // a framework's module
		return strings.Join(s.Argv[:3], " ")
	case len(s.Argv) > 1:
		return s.Argv[0] + " " + s.Argv[1]
	}
	return s.Stage + " step"
}

// unreachable reports whether an error means that the connection is of no more
// use. A command that took too long does not: the node still answered others.
func unreachable(err error) bool {
	var slow *remote.TimeoutError
	if errors.As(err, &slow) && slow.Phase == remote.PhaseCommand {
		return false
	}
	return errors.Is(err, remote.ErrRemote)
}

// do sends one step. The error says which host and what was being done; when the
// connection is the reason, the run remembers it.
func (m *member) do(ctx context.Context, s Step) (remote.Result, error) {
	res, err := m.node.Run(ctx, command(s))
	if s.cmd.Stdin != nil && broken(err) && ctx.Err() == nil {
		res, err = m.node.Run(ctx, command(s)) // with its input from the beginning
	}
	if err != nil {
		return res, m.transport(ctx, s, err)
	}
	return res, nil
}

func (m *member) transport(ctx context.Context, s Step, err error) error {
	if unreachable(err) && ctx.Err() == nil {
		m.lose(err)
	}
	return fmt.Errorf("%s on %s: %w", brief(s), s.Host, err)
}

// lose remembers that the connection is gone. Several goroutines may find out.
func (m *member) lose(err error) {
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	if m.lost == nil {
		m.lost = err
	}
}

func (m *member) gone() error {
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	return m.lost
}

// must is do for a step that has to succeed.
func (m *member) must(ctx context.Context, s Step) (remote.Result, error) {
	res, err := m.do(ctx, s)
	if err == nil && res.ExitCode != 0 {
		out := res.Stderr
		if len(strings.TrimSpace(string(out))) == 0 {
			out = res.Stdout
		}
		err = fmt.Errorf("%s on %s: exit status %d: %s", brief(s), s.Host, res.ExitCode, tailText(out, 500))
	}
	return res, err
}

// finish is must for a step that leaves something on the node: a cancelled ctx
// does not cut it off, because then nobody would know whether it is there.
func (m *member) finish(ctx context.Context, s Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := m.must(context.WithoutCancel(ctx), s); err != nil {
		return err
	}
	return ctx.Err()
}

// errLocked marks a node that another launcher uses.
var errLocked = errors.New("another cvs run is using")

func (m *member) takeLock(ctx context.Context) error {
	err := m.takeLockOn(ctx, m.node)
	if err != nil && !errors.Is(err, errLocked) {
		return m.transport(ctx, m.cmds.lock(), err)
	}
	return err
}

// relock takes the lock over a new connection, if the run held it before.
func (m *member) relock(ctx context.Context, n Node) error {
	if !m.unlock() {
		return nil
	}
	err := m.takeLockOn(ctx, n)
	if err != nil {
		m.setHeld(&holding{release: func() {}, ended: func() bool { return false }}) // it is still to be taken
	}
	return err
}

// stillLocked takes the lock again if its lease is over although the connection
// stands, as after the launcher was stopped for a while: somebody else may be
// using the node by now.
func (m *member) stillLocked(ctx context.Context) error {
	m.run.mu.Lock()
	h := m.held
	m.run.mu.Unlock()
	if h == nil || !h.ended() {
		return nil
	}
	if err := m.run.warn("server_start", "nothing was heard of this launcher on %s for %s; the node is locked again", m.host(), lease); err != nil {
		return err
	}
	m.unlock()
	return m.takeLock(ctx)
}

func (m *member) setHeld(h *holding) {
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	m.held = h
}

// unlock gives up the node's lock, or what was left of it when the connection
// broke, and reports whether there was one.
func (m *member) unlock() bool {
	m.run.mu.Lock()
	h := m.held
	m.held = nil
	m.run.mu.Unlock()
	if h == nil {
		return false
	}
	h.release()
	return true
}

func (m *member) takeLockOn(ctx context.Context, n Node) error {
	h, res, err := hold(ctx, n, command(m.cmds.lock()), lease/3)
	switch {
	case err != nil:
		return err
	case h != nil:
		m.setHeld(h)
		return nil
	case res.ExitCode == 75:
		return fmt.Errorf("%w %s: wait until it ends", errLocked, m.host())
	}
	return m.run.warn("preflight", "%s cannot be locked against other runs (%s)", m.host(), lockProblem(res))
}

// A holding is a command that stays until it is released.
type holding struct {
	release func()
	ended   func() bool // by itself, and not because the connection did
}

// hold starts a command that prints a line and then stays until its input ends,
// and sends it an empty line at every interval. It returns once the line came, or
// once the command ended by itself, with its result.
func hold(ctx context.Context, n Node, c remote.Command, every time.Duration) (h *holding, res remote.Result, err error) {
	stdin, input := io.Pipe()
	stdout, output := io.Pipe()
	var stderr bytes.Buffer
	var result remote.Result // and why there is none: known when done is closed
	var failed error
	c.Stdin = stdin
	hctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { // ended by release, or by the command
		defer close(done)
		result, failed = n.Stream(hctx, c, output, &stderr)
		output.Close()
		stdin.Close() // nobody reads it any more
	}()
	go func() { // ends with the input, at the latest with the command
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			if _, err := io.WriteString(input, "\n"); err != nil {
				return
			}
		}
	}()
	line := make(chan bool, 1)
	go func() { // ends with the output
		var b [1]byte
		_, rerr := stdout.Read(b[:])
		line <- rerr == nil
		_, _ = io.Copy(io.Discard, stdout)
	}()
	end := func() {
		input.Close()
		select {
		case <-done:
		case <-time.After(holdGrace):
			cancel()
			<-done
		}
		cancel()
	}
	select {
	case <-ctx.Done():
		end()
		return nil, remote.Result{}, ctx.Err()
	case held := <-line:
		if held {
			return &holding{release: end, ended: func() bool {
				select {
				case <-done:
					return failed == nil
				default:
					return false
				}
			}}, remote.Result{}, nil
		}
	}
	end()
	result.Stderr = stderr.Bytes()
	return nil, result, failed
}

// holdGrace is how long a held command may take to notice the end of its input.
const holdGrace = 2 * time.Second

func lockProblem(res remote.Result) string {
	if res.ExitCode == 69 {
		return "flock is not installed there"
	}
	return "exit status " + strconv.Itoa(res.ExitCode) + ": " + tailText(res.Stderr, 200)
}

// errPort marks a port that somebody listens on.
var errPort = errors.New("port in use")

// portFree fails when something already listens where the server will. A port
// that is in use is an errPort.
func (m *member) portFree(ctx context.Context, port int, param string) error {
	dctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := m.node.DialTCP(dctx, loopback(port))
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("%w: port %d on %s is already in use: stop what listens there, or choose another %s", errPort, port, m.host(), param)
	case unreachable(err) && ctx.Err() == nil:
		m.lose(err)
		return fmt.Errorf("asking for port %d on %s: %w", port, m.host(), err)
	}
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) && refused.Reason == ssh.Prohibited {
		return fmt.Errorf("the SSH server of %s refuses TCP forwarding, which readiness is asked through: allow it for this user (AllowTcpForwarding local): %w", m.host(), err)
	}
	return ctx.Err()
}

// portsFree asks for every port that the run is going to use on the node.
func (m *member) portsFree(ctx context.Context) error {
	p := m.run.p.Params
	if m.cmds.drv.Serves(m.run.p, m.rank) {
		if err := m.portFree(ctx, p.Port, "params.port_no"); err != nil {
			return err
		}
	}
	if m.rank == 0 && p.NNodes > 1 {
		return m.portFree(ctx, p.MasterPort, "params.master_port")
	}
	return nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// logTail is the end of a log for a message; it never fails a stage.
func (m *member) logTail(ctx context.Context, file string) string {
	res, err := m.do(ctx, m.cmds.tail("log", file))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if res.ExitCode != 0 {
		return "(no log)"
	}
	return tailText(res.Stdout, 1500)
}

// stopJob stops a job by the ids it recorded. An error means that it may still
// be running.
func (m *member) stopJob(ctx context.Context, stage, job string) error {
	if _, err := m.must(ctx, m.cmds.stop(stage, job, m.run.grace())); err != nil {
		return fmt.Errorf("stopping %s: %w", job[strings.LastIndexByte(job, '/')+1:], err)
	}
	return nil
}
