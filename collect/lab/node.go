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
	IP         string  `json:"ip"` // among the nodes; without isolation also the node's "localhost"
	Session    string  `json:"session"`
	Seed       uint64  `json:"seed"`
	Speed      float64 `json:"speed"`
	StartDelay float64 `json:"start_delay_s"`
	// Isolated: in namespaces of its own, where localhost is the node.
	Isolated   bool   `json:"isolated,omitempty"`
	Executable string `json:"executable"` // the program behind the shims
	Peers      []peer `json:"peers"`      // all nodes in rank order, this one too
}

// A peer is a node as the others know it.
type peer struct {
	Name string `json:"name"`
	IP   string `json:"ip"`
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
	machine  machine
	log      *slog.Logger
	listener net.Listener
	config   *ssh.ServerConfig
	hostKey  ssh.PublicKey

	mu     sync.Mutex
	frozen chan struct{} // non-nil while nothing passes; closed to thaw
	away   bool          // nobody gets through to it
	conns  map[*nodeConn]struct{}
	closed bool
	wg     sync.WaitGroup
}

// addr is the node_dict key, host:port.
func (n *node) addr() string { return n.listener.Addr().String() }

// environ is what a login on the node sees: nothing of the machine's own
// environment, the shims first on PATH.
func (n *node) environ() []string {
	home, temp := filepath.Join(n.dir, "home"), filepath.Join(n.dir, "tmp")
	if n.info.Isolated {
		home, temp = isolatedHome, "/tmp"
	}
	return []string{
		"HOME=" + home, "TMPDIR=" + temp,
		"PATH=" + filepath.Join(n.dir, "bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"SHELL=" + n.bash, "USER=" + User, "LOGNAME=" + User, "LANG=C.UTF-8",
		envNode + "=" + n.dir, envSession + "=" + n.info.Session,
	}
}

// layOut makes a node's state folder.
func layOut(dir, executable string, info nodeInfo, faults Faults) error {
	for _, sub := range []string{"bin", "home", "tmp", "shared", "containers"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("laying out the node: %w", err)
		}
	}
	for _, name := range shimNames {
		link := filepath.Join(dir, "bin", name)
		if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("laying out the node: %w", err)
		}
		if err := os.Symlink(executable, link); err != nil {
			return fmt.Errorf("laying out the node: %w", err)
		}
	}
	if err := writeFaults(dir, faults); err != nil {
		return fmt.Errorf("writing the node's faults: %w", err)
	}
	if err := os.RemoveAll(kernelLogPath(dir)); err != nil {
		return fmt.Errorf("laying out the node: %w", err)
	}
	if err := appendKernelLog(dir, bootLines...); err != nil {
		return fmt.Errorf("writing the node's kernel log: %w", err)
	}
	hosts := "127.0.0.1 localhost\n::1 localhost\n"
	for _, p := range info.Peers {
		hosts += p.IP + " " + p.Name + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte(hosts), 0o644); err != nil {
		return fmt.Errorf("writing the node's hosts: %w", err)
	}
	return nil
}

// newNode starts listening at that loopback address; serve must follow.
func newNode(dir, bash, listen string, info nodeInfo, user ssh.PublicKey, m machine, log *slog.Logger) (*node, error) {
	n := &node{info: info, dir: dir, bash: bash, machine: m, log: log, conns: map[*nodeConn]struct{}{}}
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
	if n.listener, err = net.Listen("tcp", net.JoinHostPort(listen, "0")); err != nil {
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

// unplug cuts every connection and lets no new one through until it is undone.
func (n *node) unplug(on bool) {
	n.mu.Lock()
	n.away = on
	n.mu.Unlock()
	if on {
		n.dropConnections()
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
