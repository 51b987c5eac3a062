package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Dial connects and logs in within Config.Timeout. The context only bounds Dial
// itself. Close the Host when done.
func Dial(ctx context.Context, c Config) (*Host, error) {
	c = c.withDefaults()
	host, hostPort, err := splitAddr(c.Addr)
	if err != nil {
		return nil, inputError{err}
	}
	db, err := c.knownHosts()
	if err != nil {
		return nil, err
	}
	ids, notices, closeAgent, err := c.identities()
	if err != nil {
		return nil, err
	}
	defer closeAgent()

	lookup := hostPort
	if c.HostKeyAlias != "" {
		lookup = net.JoinHostPort(c.HostKeyAlias, "22")
	}
	keys := &keyCheck{cfg: c, host: c.Addr, lookup: lookup, db: db, notices: notices}
	var phase atomic.Value
	phase.Store(PhaseConnect)
	log := &authLog{}
	cc := &ssh.ClientConfig{
		User:          c.User,
		Auth:          authMethods(c, ids, log),
		ClientVersion: "SSH-2.0-cvs",
		HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			if err := keys.check(name, remote, key); err != nil {
				return err
			}
			phase.Store(PhaseAuth)
			return nil
		},
	}
	if !c.SkipHostKeyCheck {
		cc.HostKeyAlgorithms = db.HostKeyAlgorithms(lookup)
	}

	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	client, err := connect(ctx, c, hostPort, cc, &phase)
	if err == nil {
		return newHost(c, host, client, keys.notices), nil
	}
	var negotiation *ssh.AlgorithmNegotiationError
	at := phase.Load().(string)
	switch {
	case keys.rejected != nil:
		return nil, keys.rejected
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, fmt.Errorf("%s: %s interrupted: %w", c.Addr, at, ctx.Err())
	case ctx.Err() != nil || isTimeout(err):
		return nil, &TimeoutError{Host: c.Addr, Phase: at, After: time.Since(start)}
	case len(cc.HostKeyAlgorithms) > 0 && errors.As(err, &negotiation) && strings.Contains(err.Error(), "host key"):
		return nil, &HostKeyChangedError{Host: c.Addr, Known: c.KnownHostsFiles}
	case at == PhaseAuth:
		return nil, &AuthError{Host: c.Addr, User: c.User, Tried: log.list(), Err: err}
	}
	return nil, &UnreachableError{Host: c.Addr, Phase: at, Err: err}
}

// connect opens the connection and does the handshake, which knows no context:
// its end moves the connection's deadline into the past.
func connect(ctx context.Context, c Config, hostPort string, cc *ssh.ClientConfig, phase *atomic.Value) (*ssh.Client, error) {
	conn, err := c.Dialer(ctx, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	phase.Store(PhaseHandshake)
	// Closing, because the connections of a jump host have no deadlines.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	sc, chans, reqs, err := ssh.NewClientConn(conn, hostPort, cc)
	if err != nil {
		stop()
		conn.Close()
		return nil, err
	}
	if !stop() {
		sc.Close()
		return nil, ctx.Err()
	}
	return ssh.NewClient(sc, chans, reqs), nil
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// An authLog remembers what was offered.
type authLog struct {
	mu    sync.Mutex
	tried []string
}

func (l *authLog) add(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried = append(l.tried, what)
}

func (l *authLog) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.tried...)
}

// authMethods lists keys first, then the password, asked for either way.
func authMethods(c Config, ids []identity, log *authLog) (methods []ssh.AuthMethod) {
	if len(ids) > 0 {
		methods = append(methods, ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			var signers []ssh.Signer
			for _, id := range ids {
				log.add(id.name)
				signers = append(signers, id.signer)
			}
			return signers, nil
		}))
	}
	if c.Password != "" {
		methods = append(methods,
			ssh.PasswordCallback(func() (string, error) {
				log.add("password")
				return c.Password, nil
			}),
			ssh.KeyboardInteractive(func(_, _ string, questions []string, echos []bool) ([]string, error) {
				if len(questions) == 0 {
					return nil, nil
				}
				// One hidden question is the password's; anything else is not ours to answer.
				if len(questions) != 1 || echos[0] {
					return nil, errors.New("the host asks for more than a password")
				}
				log.add("keyboard-interactive")
				return []string{c.Password}, nil
			}))
	}
	return methods
}
