package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	// The protocol is not this package's purpose; x/crypto/ssh serves both sides.
	"golang.org/x/crypto/ssh"
)

// User is the only login of a lab node.
const User = "lab"

// maxSessions is OpenSSH's default; a client that opens more is refused by real
// nodes too.
const maxSessions = 10

func serverConfig(user ssh.PublicKey) *ssh.ServerConfig {
	return &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-cvs-lab",
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if c.User() != User || !bytes.Equal(key.Marshal(), user.Marshal()) {
				return nil, fmt.Errorf("the key is not authorised for %s", c.User())
			}
			return &ssh.Permissions{}, nil
		},
	}
}

// serve accepts connections until the listener is closed.
func (n *node) serve() {
	defer n.wg.Done()
	for {
		raw, err := n.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				n.log.Error("accepting SSH connections ended", "node", n.info.Name, "err", err)
			}
			return
		}
		c := &nodeConn{Conn: raw, node: n, closed: make(chan struct{})}
		n.mu.Lock()
		if n.closed || n.away {
			closed := n.closed
			n.mu.Unlock()
			c.Close()
			if closed {
				return
			}
			continue
		}
		n.conns[c] = struct{}{}
		n.wg.Add(1)
		n.mu.Unlock()
		go func() {
			defer n.wg.Done()
			n.connection(c)
			n.mu.Lock()
			delete(n.conns, c)
			n.mu.Unlock()
		}()
	}
}

func (n *node) connection(c *nodeConn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second)) // as LoginGraceTime: a silent client is not kept
	conn, channels, requests, err := ssh.NewServerConn(c, n.config)
	if err != nil {
		n.log.Debug("SSH login failed", "node", n.info.Name, "err", err)
		return
	}
	c.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		// Keepalives come as unknown requests that want an answer; "no" is one.
		ssh.DiscardRequests(requests)
	})
	sessions := make(chan struct{}, maxSessions)
	for ch := range channels {
		switch ch.ChannelType() {
		case "session":
			select {
			case sessions <- struct{}{}:
			default:
				ch.Reject(ssh.ConnectionFailed, "open failed")
				continue
			}
			wg.Go(func() {
				defer func() { <-sessions }()
				n.session(ctx, conn, ch)
			})
		case "direct-tcpip":
			wg.Go(func() { n.forward(ctx, ch) })
		default:
			ch.Reject(ssh.UnknownChannelType, "not offered by a lab node")
		}
	}
}

// forward connects to a port of the node's loopback, and nowhere else.
func (n *node) forward(ctx context.Context, ch ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &to); err != nil {
		ch.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	faults, err := readFaults(n.dir)
	if err != nil {
		n.log.Error("forwarding", "node", n.info.Name, "err", err)
	}
	if faults.RefuseForward {
		ch.Reject(ssh.Prohibited, "administratively prohibited: open failed")
		return
	}
	switch to.Host {
	case "localhost", "127.0.0.1", "::1", "0.0.0.0", n.info.IP:
	default:
		ch.Reject(ssh.Prohibited, "a lab node forwards to its own loopback only")
		return
	}
	target, err := n.machine.dial(ctx, to.Port)
	if err != nil {
		ch.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	defer target.Close()
	channel, requests, err := ch.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	stop := context.AfterFunc(ctx, func() { target.Close() })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { ssh.DiscardRequests(requests) })
	wg.Go(func() {
		io.Copy(target, channel)
		if t, ok := target.(*net.TCPConn); ok {
			t.CloseWrite()
		}
	})
	io.Copy(channel, target)
	channel.CloseWrite()
	channel.Close()
	wg.Wait()
}
