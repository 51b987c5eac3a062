// Package remote runs commands on other machines over SSH: one connection a
// host, argument lists in, exit status and bytes out, with a deadline on
// everything.
//
// A command that ran and failed is a Result; an error means that its outcome was
// never learned. Host keys are always checked unless the caller says otherwise.
// Work that must outlive a connection is a Job: a process in its own session
// with its ids, log and exit status on the machine, under a lease that the
// launcher renews.
//
// Arguments are quoted here, exactly once; callers never join words. Nothing
// secret belongs into arguments or environment, which every user of the machine
// can list: secrets travel on standard input or in a file written by Put.
//
// This package must not know what the commands mean: no Docker, no framework,
// no plan. It reads no environment variable and no clock but the deadline's.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path"
	"strings"
	"time"
)

// The defaults of Config, and the limits around them.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultKeepAlive = 10 * time.Second
	DefaultMaxOutput = 16 << 20 // bytes

	// MaxSessions is how many commands run at once on one host. sshd allows ten
	// and counts those that are just closing; more than four are no faster.
	MaxSessions = 4

	// maxLine is what Linux takes as one argument, which the login shell gets
	// the command line as. Longer texts go through standard input.
	maxLine = 128<<10 - 1
)

// A Config says how to reach one host.
type Config struct {
	// Addr is host, host:port, an IPv6 address or [v6]:port. The port is 22
	// unless stated.
	Addr string
	User string
	// KeyFiles are private keys, offered first and in this order. A file that
	// others can read is refused. One with a passphrase works if the agent
	// holds its key.
	KeyFiles []string
	// SpareKeyFiles are offered after KeyFiles. One that cannot be used is a
	// notice, not an error: ssh lists key files that nobody chose.
	SpareKeyFiles []string
	Password      string // also for keyboard-interactive; "" for none
	// IdentitiesOnly offers none of the agent's keys but those that the key files
	// name.
	IdentitiesOnly bool
	// AgentSocket is the path of an SSH agent's socket, "" for none. Its keys
	// come after the files, and only as many as a server tolerates.
	AgentSocket string
	// KnownHostsFiles are read for host keys; those that do not exist count as
	// empty. With none at all every host is unknown.
	KnownHostsFiles []string
	// HostKeyAlias is looked up in the known hosts instead of Addr.
	HostKeyAlias string
	// AcceptNew adds the key of a host that is not known to the first of
	// KnownHostsFiles. A key that changed is refused all the same.
	AcceptNew bool
	// SkipHostKeyCheck accepts any host key. Host.Notices says so.
	SkipHostKeyCheck bool
	// Timeout bounds Dial as a whole, and the opening of each session.
	Timeout time.Duration
	// KeepAlive is the time between two questions whether the host is still
	// there; one that stays without an answer for three times as long ends the
	// connection.
	KeepAlive time.Duration
	// Dialer opens the TCP connection; nil is a plain one. The DialTCP of
	// another Host makes that a jump host.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
}

// A Command is one program to run.
type Command struct {
	// Args are the program and its arguments; the login shell of the host finds
	// the program. The first must not start with "-".
	Args []string
	// Env are KEY=value pairs added to the environment, visible to every user
	// of the host like Args.
	Env []string
	// Dir is where the program runs, "" for the home directory. A relative path
	// is below the home directory.
	Dir string
	// Stdin is what the program reads; nil is an empty input. Run does not wait
	// for it to be read to its end.
	Stdin io.Reader
	// Timeout bounds the command, 0 leaves that to the context.
	Timeout time.Duration
	// MaxOutput is how many bytes of each stream Run keeps, 0 is
	// DefaultMaxOutput. Of standard output the first, of standard error the
	// last: an error's reason comes at its end.
	MaxOutput int
	// Name is what messages call the command, "" is the program's name. Messages
	// never show arguments.
	Name string
}

// A Result is what a finished command left behind.
type Result struct {
	ExitCode       int    // 128 plus its number for a signal
	Signal         string // without SIG, such as KILL; "" if it exited by itself
	Stdout, Stderr []byte // empty for Stream
	Truncated      bool   // one of them was longer than MaxOutput
	Duration       time.Duration
}

// Line is the command as a POSIX shell takes it. It is what the host gets, after
// a prefix that only separates the program's output from that of start-up files.
func (c Command) Line() (string, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return "", errors.New("command without a program")
	}
	if strings.HasPrefix(c.Args[0], "-") {
		return "", fmt.Errorf("program name %q starts with a dash", c.Args[0])
	}
	var b strings.Builder
	if c.Dir != "" {
		dir := c.Dir
		if !strings.HasPrefix(dir, "/") {
			dir = "./" + dir // neither an option nor searched for in CDPATH
		}
		b.WriteString("cd " + Quote([]string{dir}) + " || exit 126; ")
	}
	// exec leaves no shell between us and the program: no function, builtin or
	// keyword of its name, and signals and exit status are the program's own.
	b.WriteString("exec " + Quote(c.argv()))
	for _, e := range c.Env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.HasPrefix(name, "-") {
			return "", fmt.Errorf("environment entry of name %q is not KEY=value", name)
		}
	}
	if len(c.Env) > 0 && strings.Contains(c.Args[0], "=") {
		return "", fmt.Errorf("program name %q holds an equals sign and would be taken for a variable", c.Args[0])
	}
	line := b.String()
	switch {
	case strings.IndexByte(line, 0) >= 0:
		return "", fmt.Errorf("command %s: an argument, variable or directory holds a NUL byte", c.name())
	case len(line) > maxLine-256:
		return "", fmt.Errorf("command %s: %d bytes are more than a host takes as one command", c.name(), len(line))
	}
	return line, nil
}

// argv is the program with its environment. env, because sshd refuses variables
// sent the protocol's way unless configured otherwise.
func (c Command) argv() []string {
	if len(c.Env) == 0 {
		return c.Args
	}
	return append(append([]string{"env"}, c.Env...), c.Args...)
}

func (c Command) name() string {
	if c.Name != "" {
		return c.Name
	}
	if len(c.Args) == 0 {
		return "(none)"
	}
	return path.Base(c.Args[0])
}

// splitAddr gives the host and host:port of an address as Config has it.
func splitAddr(addr string) (host, hostPort string, err error) {
	host, port := addr, "22"
	if h, p, err := net.SplitHostPort(addr); err == nil {
		host, port = h, p
	} else if strings.Count(addr, ":") == 1 || strings.HasPrefix(addr, "[") && !strings.HasSuffix(addr, "]") {
		return "", "", fmt.Errorf("address %q: %w", addr, err)
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ":") {
		return "", "", fmt.Errorf("address %q: %w", addr, err)
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n\x00/@,*?!") || strings.HasPrefix(host, "-") {
		return "", "", fmt.Errorf("address %q is not host or host:port", addr)
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return "", "", fmt.Errorf("address %q: %q is not a port", addr, port)
	}
	return host, net.JoinHostPort(host, port), nil
}
