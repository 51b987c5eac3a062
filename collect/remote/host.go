package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// A Host is one connection to one machine. Its methods may be called from
// several goroutines; more than MaxSessions commands wait for each other.
type Host struct {
	name    string // Config.Addr, for messages
	host    string // without port
	cfg     Config
	client  *ssh.Client
	notices []string
	http    *http.Transport
	slots   chan struct{}
	via     *Host // the jump host that the connection goes through, or nil

	done chan struct{} // closed with the connection
	wg   sync.WaitGroup

	mu    sync.Mutex
	cause error // why the connection ended; the first reason stands
}

var errClosed = errors.New("closed by this program")

func newHost(c Config, host string, client *ssh.Client, notices []string) *Host {
	h := &Host{
		name: c.Addr, host: host, cfg: c, client: client, notices: notices,
		slots: make(chan struct{}, MaxSessions),
		done:  make(chan struct{}),
	}
	h.http = &http.Transport{
		DialContext:           func(ctx context.Context, _, addr string) (net.Conn, error) { return h.DialTCP(ctx, addr) },
		MaxIdleConnsPerHost:   2,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
	}
	h.wg.Go(func() {
		err := client.Wait()
		if err == nil {
			err = errors.New("closed by the host")
		}
		h.end(err)
		close(h.done)
	})
	h.wg.Go(h.keepAlive)
	return h
}

// Name is the address the host was dialled by.
func (h *Host) Name() string { return h.name }

// Notices are what a person should know about how the connection came to be,
// such as a host key that was accepted. They belong into the run's warnings.
func (h *Host) Notices() []string { return append([]string(nil), h.notices...) }

// Done is closed when the connection has ended, for whatever reason.
func (h *Host) Done() <-chan struct{} { return h.done }

// Close ends the connection. Commands under way return a LostError and may keep
// running on the host.
func (h *Host) Close() error {
	h.end(errClosed)
	h.wg.Wait()
	h.http.CloseIdleConnections()
	if h.via != nil {
		return h.via.Close()
	}
	return nil
}

// end closes the connection for a reason, which later errors give.
func (h *Host) end(cause error) {
	h.mu.Lock()
	if h.cause == nil {
		h.cause = cause
	}
	h.mu.Unlock()
	h.client.Close() // its error is that it is closed already
}

func (h *Host) lost(what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	cause := h.cause
	if cause == nil {
		cause = errors.New("no reason given")
	}
	return &LostError{Host: h.name, Command: what, Err: cause}
}

// ending reports whether a reason for the end of the connection is known.
func (h *Host) ending() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause != nil
}

// keepAlive asks the host now and then whether it is there, and ends the
// connection when it is not.
func (h *Host) keepAlive() {
	alive := answers(h.cfg.KeepAlive, h.done, func() <-chan struct{} {
		answer := make(chan struct{})
		h.wg.Go(func() {
			defer close(answer)
			// Any answer will do; sshd refuses the request, which is one.
			_, _, _ = h.client.SendRequest("keepalive@openssh.com", true, nil)
		})
		return answer
	})
	if !alive {
		h.end(fmt.Errorf("no answer to keep-alive for %s", 3*h.cfg.KeepAlive))
	}
}

// answers asks at every interval until done, and reports false as soon as one
// question stays without an answer for three intervals. A question blocks for ever
// on a frozen peer, so it is asked in a goroutine of its own, which ends at the
// latest when the connection is closed.
func answers(every time.Duration, done <-chan struct{}, ask func() <-chan struct{}) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return true
		case <-tick.C:
		}
		timer := time.NewTimer(3 * every)
		select {
		case <-ask():
		case <-done:
		case <-timer.C:
			return false
		}
		timer.Stop()
	}
}

// DialTCP opens a TCP connection from the host to addr, host:port as the host
// sees it, through the SSH connection. It has no deadlines of its own; close it
// to end a read. A port that nobody listens on is an error that does not match
// ErrRemote.
func (h *Host) DialTCP(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	conn, err := h.client.DialContext(ctx, "tcp", addr)
	if err == nil {
		return conn, nil
	}
	if h.ending() {
		return nil, h.lost("tunnel to " + addr)
	}
	return nil, fmt.Errorf("%s: tunnel to %s: %w", h.name, addr, err)
}

// HTTPTransport sends HTTP requests from the host, so that "localhost" in a URL
// is the host itself. It shares the connection and ends with it.
func (h *Host) HTTPTransport() http.RoundTripper { return h.http }
