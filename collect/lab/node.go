package lab

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/crypto/ssh"
)

// nodeInfo is node.json, what a shim has to know of its node.
type nodeInfo struct {
	Name       string  `json:"name"`
	IP         string  `json:"ip"` // the loopback address that is this node's "localhost"
	Session    string  `json:"session"`
	Seed       uint64  `json:"seed"`
	Speed      float64 `json:"speed"`
	StartDelay float64 `json:"start_delay_s"`
}

func readNodeInfo(dir string) (nodeInfo, error) {
	var info nodeInfo
	data, err := os.ReadFile(filepath.Join(dir, "node.json"))
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("reading %s: %w", filepath.Join(dir, "node.json"), err)
	}
	return info, nil
}

// A node is one simulated machine: a state folder and an SSH server.
type node struct {
	info     nodeInfo
	dir      string
	bash     string
	log      *slog.Logger
	listener net.Listener
	config   *ssh.ServerConfig
	hostKey  ssh.PublicKey

	mu     sync.Mutex
	frozen chan struct{} // non-nil while nothing passes; closed to thaw
	conns  map[*nodeConn]struct{}
	closed bool
	wg     sync.WaitGroup
}

// addr is the node_dict key, host:port.
func (n *node) addr() string { return n.listener.Addr().String() }

// environ is what a login on the node sees: nothing of the machine's own
// environment, the shims first on PATH.
func (n *node) environ() []string {
	return []string{
		"HOME=" + filepath.Join(n.dir, "home"),
		"TMPDIR=" + filepath.Join(n.dir, "tmp"),
		"PATH=" + filepath.Join(n.dir, "bin") + ":/usr/local/bin:/usr/bin:/bin",
		"SHELL=" + n.bash, "USER=" + User, "LOGNAME=" + User, "LANG=C.UTF-8",
		envNode + "=" + n.dir, envSession + "=" + n.info.Session,
	}
}

// newNode lays out the state folder and starts listening; serve must follow.
func newNode(dir, executable, bash string, info nodeInfo, user ssh.PublicKey, faults Faults, log *slog.Logger) (*node, error) {
	n := &node{info: info, dir: dir, bash: bash, log: log, conns: map[*nodeConn]struct{}{}}
	for _, sub := range []string{"bin", "home", "tmp", "shared", "containers"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("laying out the node: %w", err)
		}
	}
	for _, name := range shimNames {
		link := filepath.Join(dir, "bin", name)
		if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("laying out the node: %w", err)
		}
		if err := os.Symlink(executable, link); err != nil {
			return nil, fmt.Errorf("laying out the node: %w", err)
		}
	}
	if err := writeFaults(dir, faults); err != nil {
		return nil, fmt.Errorf("writing the node's faults: %w", err)
	}
	if err := writeJSON(filepath.Join(dir, "node.json"), info); err != nil {
		return nil, fmt.Errorf("writing the node's description: %w", err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a host key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, fmt.Errorf("making a host key: %w", err)
	}
	n.hostKey = signer.PublicKey()
	n.config = serverConfig(user)
	n.config.AddHostKey(signer)
	if n.listener, err = net.Listen("tcp", net.JoinHostPort(info.IP, "0")); err != nil {
		return nil, fmt.Errorf("listening for SSH: %w", err)
	}
	return n, nil
}

// close stops listening, cuts every connection and waits for what served them.
// Processes are ended by the caller, by their session id.
func (n *node) close() error {
	err := n.listener.Close()
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.dropConnections()
	return err
}

func (n *node) dropConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.Close()
	}
}

// freeze makes the node mute: nothing is read or written until thawed, as when
// a network swallows every packet.
func (n *node) freeze(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case on && n.frozen == nil:
		n.frozen = make(chan struct{})
	case !on && n.frozen != nil:
		close(n.frozen)
		n.frozen = nil
	}
}

// A nodeConn is a connection that stalls while its node is frozen.
type nodeConn struct {
	net.Conn
	node   *node
	once   sync.Once
	closed chan struct{}
}

func (c *nodeConn) pass() error {
	c.node.mu.Lock()
	frozen := c.node.frozen
	c.node.mu.Unlock()
	if frozen == nil {
		return nil
	}
	select {
	case <-frozen:
		return nil
	case <-c.closed:
		return io.ErrClosedPipe
	}
}

func (c *nodeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if gate := c.pass(); gate != nil {
		return 0, gate
	}
	return n, err
}

func (c *nodeConn) Write(b []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *nodeConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
