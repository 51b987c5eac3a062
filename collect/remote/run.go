package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"
)

// cancelGrace is how long a command that was cancelled may take to end before
// its session is left behind.
const cancelGrace = 2 * time.Second

// Run carries out a command and keeps its output. The error is nil whenever the
// command's exit status was learned, whatever it is.
func (h *Host) Run(ctx context.Context, c Command) (Result, error) {
	limit := c.MaxOutput
	if limit <= 0 {
		limit = DefaultMaxOutput
	}
	stdout, stderr := &headBuffer{limit: limit}, &tailBuffer{limit: limit}
	res, err := h.Stream(ctx, c, stdout, stderr)
	res.Stdout, res.Stderr = stdout.buf, stderr.bytes()
	res.Truncated = stdout.cut || stderr.cut
	return res, err
}

// Stream is Run with the output going to writers as it comes; nil discards it.
// The two may be called at the same time, and not after Stream has returned. A
// writer that fails ends the command.
func (h *Host) Stream(ctx context.Context, c Command, stdout, stderr io.Writer) (Result, error) {
	start := time.Now()
	line, err := c.Line()
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", h.name, err)
	}
	x := &execution{host: h, cmd: c, writers: make(chan error, 2)}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, errCommandTimeout)
		defer cancel()
	}
	x.mark = newMark()
	x.out = &output{w: stdout, mark: x.mark, failed: x.writers}
	x.err = &output{w: stderr, mark: x.mark, failed: x.writers}
	// The output may be written to by goroutines that outlive a lost session.
	defer x.err.detach()
	defer x.out.detach()
	res, err := x.run(ctx, line)
	res.Duration = time.Since(start)
	return res, err
}

var errCommandTimeout = errors.New("command timed out")

// newMark separates what start-up files of the login shell print from what the
// command prints. Nobody can guess it.
func newMark() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return "cvs-" + hex.EncodeToString(b[:]) + "-"
}

// An execution is one command under way.
type execution struct {
	host     *Host
	cmd      Command
	mark     string
	out, err *output
	writers  chan error // failures of the caller's writers
}

func (x *execution) run(ctx context.Context, line string) (Result, error) {
	h := x.host
	select {
	case h.slots <- struct{}{}:
	case <-h.done:
		return Result{}, h.lost(x.cmd.name())
	case <-ctx.Done():
		return Result{}, x.interrupted(ctx, "waiting for a session")
	}
	defer func() { <-h.slots }()
	if h.ending() { // a connection that is gone wins over a free slot
		return Result{}, h.lost(x.cmd.name())
	}

	s, err := x.start(ctx, "printf %s%s%s "+pidMark+" $$ "+x.mark+"; printf %s "+x.mark+" >&2; "+line)
	if err != nil {
		return Result{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	select {
	case err = <-ended:
		s.Close()
		return x.outcome(err)
	case err = <-x.writers:
		x.abandon(s, ended)
		return Result{}, fmt.Errorf("%s: output of %s: %w", h.name, x.cmd.name(), err)
	case <-ctx.Done():
		x.abandon(s, ended)
		return Result{}, x.interrupted(ctx, "running")
	}
}

// start opens a session and starts the command in it. Neither step knows a
// context, and both wait for ever on a host that is silent, so they have a
// goroutine, which ends at the latest when the connection is closed.
func (x *execution) start(ctx context.Context, line string) (*ssh.Session, error) {
	h := x.host
	type started struct {
		s   *ssh.Session
		err error
	}
	got := make(chan started, 1)
	limit, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	go func() {
		s, err := h.session(limit)
		if err == nil {
			if err = x.begin(s, line); err != nil {
				s.Close()
			}
		}
		got <- started{s, err}
	}()
	select {
	case g := <-got:
		if g.err == nil {
			return g.s, nil
		}
		if h.ending() {
			return nil, h.lost(x.cmd.name())
		}
		if ctx.Err() != nil {
			return nil, x.interrupted(ctx, "starting")
		}
		return nil, &UnreachableError{Host: h.name, Phase: PhaseSession, Err: g.err}
	case <-limit.Done():
	}
	go func() {
		if g := <-got; g.err == nil {
			g.s.Close()
		}
	}()
	if ctx.Err() != nil {
		return nil, x.interrupted(ctx, "starting")
	}
	// A host that opens no session will not open the next one either: the next
	// command must fail at once instead of waiting as long again.
	err := &TimeoutError{Host: h.name, Phase: PhaseSession, After: h.cfg.Timeout}
	h.end(err)
	return nil, err
}

// session opens a session, again while the host says that it has too many: it
// counts those that are just closing.
func (h *Host) session(ctx context.Context) (*ssh.Session, error) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		s, err := h.client.NewSession()
		var open *ssh.OpenChannelError
		if !errors.As(err, &open) || open.Reason != ssh.ConnectionFailed && open.Reason != ssh.ResourceShortage {
			return s, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-h.done:
			timer.Stop()
			return nil, err
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// begin connects the streams and starts the command.
func (x *execution) begin(s *ssh.Session, line string) error {
	s.Stdout, s.Stderr = x.out, x.err
	if x.cmd.Stdin == nil {
		return s.Start(line)
	}
	in, err := s.StdinPipe()
	if err != nil {
		return err
	}
	if err := s.Start(line); err != nil {
		return err
	}
	// Not s.Stdin: Wait would wait for the reader even after the program's end.
	go func() {
		_, _ = io.Copy(in, x.cmd.Stdin) // fails when the program does not read it all
		in.Close()
	}()
	return nil
}

// outcome turns the end of a session into a result.
func (x *execution) outcome(err error) (Result, error) {
	var exit *ssh.ExitError
	var res Result
	switch {
	case err == nil:
	case errors.As(err, &exit):
		res.ExitCode, res.Signal = exit.ExitStatus(), exit.Signal()
	default:
		select {
		case werr := <-x.writers:
			return Result{}, fmt.Errorf("%s: output of %s: %w", x.host.name, x.cmd.name(), werr)
		default:
		}
		if x.host.ending() {
			return Result{}, x.host.lost(x.cmd.name())
		}
		var missing *ssh.ExitMissingError
		if errors.As(err, &missing) {
			err = errors.New("the session ended without an exit status")
		}
		return Result{}, &LostError{Host: x.host.name, Command: x.cmd.name(), Err: err}
	}
	if !x.out.started() {
		return Result{}, &ShellError{Host: x.host.name, ExitCode: res.ExitCode, Output: x.out.before() + x.err.before()}
	}
	return res, nil
}

// abandon asks the command to end and gives it a moment to do so: closing alone
// would leave it running. OpenSSH passes signals on, except to commands of root;
// those are told by their process id, which is that of the login shell that
// became them.
func (x *execution) abandon(s *ssh.Session, ended <-chan error) {
	grace, cancel := context.WithTimeout(context.Background(), cancelGrace)
	defer cancel()
	closed := make(chan struct{})
	go func() { // writing to a frozen peer may block
		defer close(closed)
		_ = s.Signal(ssh.SIGTERM)
		if pid := x.out.processID(); pid != "" {
			if k, err := x.host.session(grace); err == nil {
				// The group first: sshd makes the shell lead one. It fails
				// when TERM has done its work.
				_ = k.Run("kill -TERM -" + pid + " 2>/dev/null || kill -TERM " + pid + " 2>/dev/null")
				k.Close()
			}
		}
		s.Close()
	}()
	select {
	case <-ended:
	case <-grace.Done():
	}
	select {
	case <-closed:
	case <-grace.Done():
	}
}

// interrupted says why the context ended a command.
func (x *execution) interrupted(ctx context.Context, doing string) error {
	name := x.cmd.name()
	cause := context.Cause(ctx)
	if errors.Is(cause, errCommandTimeout) {
		return &TimeoutError{Host: x.host.name, Phase: PhaseCommand, After: x.cmd.Timeout, Command: name}
	}
	return fmt.Errorf("%s: %s interrupted while %s: %w", x.host.name, name, doing, cause)
}
