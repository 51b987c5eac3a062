package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"cvs/collect/remote"
)

// reconnectFor is how long a broken connection is tried to be made anew. Jobs
// live for a lease without a sign from the launcher, and the last one may be a
// third of it old.
const reconnectFor = lease * 2 / 3

// A link is a Node whose connection may break: it is made anew, and the command
// that was under way is sent again. Commands of a run stand that: they look, or
// they say the second time that the first one did its work.
type link struct {
	m    *member
	http *http.Transport

	redial sync.Mutex // held while a connection is made

	mu     sync.Mutex
	cur    Node
	given  error // reconnecting was given up
	closed bool
}

func newLink(m *member, n Node) *link {
	l := &link{m: m, cur: n}
	l.http = &http.Transport{
		DialContext:         func(ctx context.Context, _, addr string) (net.Conn, error) { return l.DialTCP(ctx, addr) },
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     time.Minute,
	}
	return l
}

// broken reports whether an error is the end of a connection that was there, as
// opposed to one that could not be made.
func broken(err error) bool {
	var lost *remote.LostError
	var slow *remote.TimeoutError
	var refused *remote.UnreachableError
	return errors.As(err, &lost) || errors.As(err, &slow) && slow.Phase == remote.PhaseSession ||
		errors.As(err, &refused) && refused.Phase == remote.PhaseSession
}

func (l *link) current() Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur
}

func (l *link) Run(ctx context.Context, c remote.Command) (remote.Result, error) {
	n := l.current()
	res, err := n.Run(ctx, c)
	if !broken(err) || ctx.Err() != nil {
		return res, err
	}
	if err := l.again(ctx, n, err); err != nil {
		return res, err
	}
	if c.Stdin != nil {
		return res, err // it was read; whoever made the command can make it again
	}
	if res, err = l.current().Run(ctx, c); err == nil && res.ExitCode == remote.ExitJobStarted {
		res.ExitCode = 0 // by the first one, whose answer did not come
	}
	return res, err
}

// Stream does not repeat anything: what came is with the caller already.
func (l *link) Stream(ctx context.Context, c remote.Command, stdout, stderr io.Writer) (remote.Result, error) {
	return l.current().Stream(ctx, c, stdout, stderr)
}

func (l *link) DialTCP(ctx context.Context, addr string) (net.Conn, error) {
	n := l.current()
	conn, err := n.DialTCP(ctx, addr)
	if !broken(err) || ctx.Err() != nil {
		return conn, err
	}
	if err := l.again(ctx, n, err); err != nil {
		return nil, err
	}
	return l.current().DialTCP(ctx, addr)
}

func (l *link) HTTPTransport() http.RoundTripper { return l.http }
func (l *link) Notices() []string                { return l.current().Notices() }

func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.http.CloseIdleConnections()
	return l.current().Close()
}

var errLinkClosed = errors.New("closed by this program")

// state is the connection that is in use and why no other will come, if so.
func (l *link) state() (Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.cur, errLinkClosed
	}
	return l.cur, l.given
}

// again replaces a connection that broke, unless somebody else did already. The
// error is the cause, with what was tried.
func (l *link) again(ctx context.Context, old Node, cause error) error {
	if l.m.run.r.Dial == nil {
		return cause // an examination, to which a broken connection is a finding
	}
	l.redial.Lock()
	defer l.redial.Unlock()
	switch cur, err := l.state(); {
	case errors.Is(err, errLinkClosed):
		return cause
	case err != nil:
		return fmt.Errorf("%w; %w", cause, err)
	case cur != old:
		return nil
	}
	_ = old.Close()
	l.http.CloseIdleConnections()
	limit := l.m.run.reconnect()
	began := l.m.run.r.Now()
	n, err := l.dial(ctx, began.Add(limit))
	if ctx.Err() != nil {
		if n != nil {
			_ = n.Close()
		}
		return cause // the next command tries again
	}
	l.mu.Lock()
	closed := l.closed
	if err == nil && !closed {
		l.cur = n
	}
	if err != nil {
		err = fmt.Errorf("no new connection within %v: %w", limit, err)
		l.given = err
	}
	l.mu.Unlock()
	switch {
	case err != nil:
		return fmt.Errorf("%w; %w", cause, err)
	case closed:
		_ = n.Close()
		return cause
	}
	took := l.m.run.r.Now().Sub(began).Round(100 * time.Millisecond)
	return l.m.run.warn("connection", "the connection to %s broke (%v) and was made anew after %v", l.m.host(), cause, took)
}

// dial connects until the deadline and takes the node's lock, which went with
// the old connection, again: somebody else may be using the node by now.
func (l *link) dial(ctx context.Context, deadline time.Time) (Node, error) {
	r := l.m.run.r
	for {
		n, err := r.Dial(ctx, l.m.at)
		if err == nil {
			if err = l.m.relock(ctx, n); err == nil {
				return n, nil
			}
			_ = n.Close()
		}
		if !r.Now().Before(deadline) || r.Sleep(ctx, 500*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// reconnect is how long a broken connection is tried to be made anew.
func (x *run) reconnect() time.Duration {
	if x.r.Options.Reconnect > 0 {
		return x.r.Options.Reconnect
	}
	return reconnectFor
}
