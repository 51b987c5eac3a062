package lab

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Options describe a lab. Only Dir and Executable are required.
type Options struct {
	Dir        string        // scratch folder of the lab; created if missing
	Executable string        // the program the shims are: one whose main calls [Main]
	Seed       uint64        // of jitter and speculation
	Speed      float64       // how many times faster than the modelled hardware; 0 is 5
	StartDelay time.Duration // from a server's start to its open port; 0 is 1.5 s
	Nodes      int           // 0 is 1
	Isolate    Isolation     // whether nodes get namespaces of their own
	Faults     Faults        // of every node, to begin with
	Log        *slog.Logger  // nil: nothing is logged
}

const (
	defaultSpeed      = 5
	defaultStartDelay = 1500 * time.Millisecond
	maxNodes          = 64
)

// A Lab is a set of running nodes.
type Lab struct {
	dir     string
	session string
	opts    Options
	nodes   []*node
	fabric  *fabric // of isolated nodes, else nil
	shared  string  // why the nodes are not isolated, "" if they are
	lock    *flock.Flock
	once    sync.Once
	err     error
}

// Start brings a lab up: folders, keys, nodes, cluster file. ctx bounds the
// start only; the lab runs until [Lab.Close]. Processes that an earlier lab in
// the same folder left behind, because its program was killed, are ended
// first. Errors: the folder is in use by another lab, the machine has no bash
// or no /proc, no port could be opened.
func Start(ctx context.Context, o Options) (*Lab, error) {
	o, bash, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("starting the lab: %w", err)
	}
	lock := flock.New(filepath.Join(o.Dir, "lab.lock"))
	if ok, err := lock.TryLock(); err != nil {
		return nil, fmt.Errorf("starting the lab: locking %s: %w", o.Dir, err)
	} else if !ok {
		return nil, fmt.Errorf("starting the lab: another lab is running in %s", o.Dir)
	}
	l := &Lab{dir: o.Dir, session: randomID(), opts: o, lock: lock}
	if err := l.start(ctx, bash); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the lab: %w", err), l.Close())
	}
	return l, nil
}

func (o Options) complete() (Options, string, error) {
	if o.Dir == "" || o.Executable == "" {
		return o, "", errors.New("a folder and the program for the shims are required")
	}
	if o.Speed == 0 {
		o.Speed = defaultSpeed
	}
	if o.StartDelay == 0 {
		o.StartDelay = defaultStartDelay
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	switch o.Isolate {
	case "":
		o.Isolate = IsolateOff
	case IsolateOff, IsolateAuto, IsolateOn:
	default:
		return o, "", fmt.Errorf("isolation is auto, on or off, not %q", o.Isolate)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if !(o.Speed > 0) || o.StartDelay < 0 || o.Nodes < 1 || o.Nodes > maxNodes {
		return o, "", fmt.Errorf("speed and start delay must be positive, and there may be 1 to %d nodes", maxNodes)
	}
	if o.Nodes > 1 && runtime.GOOS != "linux" {
		return o, "", errors.New("several nodes need the loopback addresses that only Linux has")
	}
	if _, err := marked(envSession + "="); err != nil {
		return o, "", fmt.Errorf("this machine cannot tell which processes belong to the lab: %w", err)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		return o, "", fmt.Errorf("the nodes run their commands with bash: %w", err)
	}
	if o.Executable, err = filepath.Abs(o.Executable); err != nil {
		return o, "", err
	}
	if err := executable(o.Executable); err != nil {
		return o, "", fmt.Errorf("the program for the shims: %w", err)
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, "", err
	}
	if strings.ContainsAny(o.Dir, ":\x00\n") {
		return o, "", fmt.Errorf("the folder %q cannot stand in PATH", o.Dir)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return o, "", err
	}
	return o, bash, nil
}

func (l *Lab) start(ctx context.Context, bash string) error {
	if err := l.clearLeftovers(ctx); err != nil {
		return err
	}
	public, err := writeKey(l.KeyFile())
	if err != nil {
		return err
	}
	for _, dir := range []string{l.sharedDir(), l.modelsDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := l.writeModels(); err != nil {
		return err
	}
	if err := l.startNodes(ctx, bash, public); err != nil {
		return err
	}
	if err := l.writeKnownHosts(); err != nil {
		return fmt.Errorf("writing %s: %w", l.KnownHosts(), err)
	}
	for path, n := range map[string]int{l.ClusterFile(): len(l.nodes), l.HeadClusterFile(): 1} {
		if err := l.writeCluster(path, l.nodes[:n]); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return nil
}

// startNodes brings the machines up, then the SSH servers in front of them.
func (l *Lab) startNodes(ctx context.Context, bash string, user ssh.PublicKey) error {
	infos := l.nodeInfos(l.opts.Isolate != IsolateOff)
	var specs []nodeSpec
	for i := range infos {
		if err := layOut(l.NodeDir(i), l.opts.Executable, infos[i], l.opts.Faults); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		specs = append(specs, nodeSpec{Name: infos[i].Name, IP: infos[i].IP, Dir: l.NodeDir(i), Lab: l.dir, Bash: bash, Executable: l.opts.Executable})
	}
	switch l.opts.Isolate {
	case IsolateOff:
		l.shared = "not asked for"
	default:
		var err error
		if l.fabric, err = startFabric(ctx, specs); err != nil {
			if l.opts.Isolate == IsolateOn {
				return err
			}
			l.shared, infos = err.Error(), l.nodeInfos(false)
		}
	}
	for i, info := range infos {
		listen := fmt.Sprintf("127.0.0.%d", i+1)
		var m machine = sharedMachine{info.IP}
		if l.fabric != nil {
			m = l.fabric.machine(i)
		}
		n, err := newNode(l.NodeDir(i), bash, listen, info, user, m, l.opts.Log)
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		l.nodes = append(l.nodes, n)
		n.wg.Add(1)
		go n.serve()
		for _, image := range []string{DemoImage, ShippedImage} {
			if _, err := l.store(i).addImage(image); err != nil {
				return fmt.Errorf("node %d: %w", i, err)
			}
		}
	}
	return nil
}

func (l *Lab) nodeInfos(isolated bool) []nodeInfo {
	var infos []nodeInfo
	var peers []peer
	for i := range l.opts.Nodes {
		ip := fmt.Sprintf("127.0.0.%d", i+1)
		if isolated {
			ip = isolatedIP(i)
		}
		name := fmt.Sprintf("lab-node-%d", i)
		peers = append(peers, peer{name, ip})
		infos = append(infos, nodeInfo{
			Name: name, IP: ip, Session: l.session, Seed: l.opts.Seed + uint64(i), Speed: l.opts.Speed,
			StartDelay: l.opts.StartDelay.Seconds(), Isolated: isolated, Executable: l.opts.Executable,
		})
	}
	for i := range infos {
		infos[i].Peers = peers
	}
	return infos
}

// Isolated reports whether the nodes have namespaces of their own, and why not
// if they have none.
func (l *Lab) Isolated() (isolated bool, why string) { return l.fabric != nil, l.shared }

// clearLeftovers ends what a lab of the same folder left when its program was
// killed, and forgets its containers.
func (l *Lab) clearLeftovers(ctx context.Context) error {
	old, err := filepath.Glob(filepath.Join(l.dir, "node*", "node.json"))
	if err != nil {
		return err
	}
	for _, path := range old {
		dir := filepath.Dir(path)
		info, err := readNodeInfo(dir)
		if err == nil && len(info.Session) == len(l.session) {
			if err := killMarked(ctx, envSession+"="+info.Session, time.Second); err != nil {
				return fmt.Errorf("ending what an earlier lab left behind: %w", err)
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, "containers")); err != nil {
			return err
		}
	}
	return nil
}

// writeKey makes the only key that opens the nodes and stores it as OpenSSH
// wants it.
func writeKey(path string) (ssh.PublicKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "cvs lab")
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	if err := renameio.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return ssh.NewPublicKey(key.Public())
}

func (l *Lab) writeKnownHosts() error {
	var b strings.Builder
	for _, n := range l.nodes {
		b.WriteString(knownhosts.Line([]string{knownhosts.Normalize(n.addr())}, n.hostKey))
		b.WriteByte('\n')
	}
	return renameio.WriteFile(l.KnownHosts(), []byte(b.String()), 0o600)
}

// writeCluster writes the nodes in rank order, which a Go map would lose.
func (l *Lab) writeCluster(path string, members []*node) error {
	quote := func(s string) string {
		b, _ := json.Marshal(s) // a string always marshals
		return string(b)
	}
	var nodes []string
	for _, n := range members {
		nodes = append(nodes, fmt.Sprintf("    %s: {\"bmc_ip\": \"NA\", \"vpc_ip\": %s}", quote(n.addr()), quote(n.info.IP)))
	}
	text := fmt.Sprintf(`{
  "_comment": "Simulated nodes. They exist while the lab runs.",
  "orchestrator": "container",
  "username": %s,
  "priv_key_file": %s,
  "head_node_dict": {"mgmt_ip": %s},
  "env_vars": {},
  "node_dict": {
%s
  },
  "container": {
    "lifetime": "per_run",
    "image": %s,
    "name": "cvs-lab",
    "runtime": {"name": "docker", "args": {"network": "host", "ipc": "host", "privileged": false}}
  }
}
`, quote(User), quote(l.KeyFile()), quote(l.nodes[0].addr()), strings.Join(nodes, ",\n"), quote(DemoImage))
	return renameio.WriteFile(path, []byte(text), 0o600)
}

// Close cuts every connection, ends everything the nodes started, by session
// id, and reports what would not go. It may be called more than once.
func (l *Lab) Close() error {
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		var errs []error
		for _, n := range l.nodes {
			n.freeze(false)
			errs = append(errs, n.close())
		}
		if err := killMarked(ctx, envSession+"="+l.session, time.Second); err != nil {
			errs = append(errs, fmt.Errorf("the lab's processes: %w", err))
		}
		if l.fabric != nil {
			l.fabric.close()
		}
		for _, n := range l.nodes {
			n.wg.Wait()
			if err := os.RemoveAll(filepath.Join(n.dir, "containers")); err != nil {
				errs = append(errs, err)
			}
		}
		if left, err := l.Processes(); err != nil || len(left) > 0 {
			errs = append(errs, err, fmt.Errorf("%d processes of the lab are left: %v", len(left), left))
		}
		errs = append(errs, l.lock.Unlock())
		if err := errors.Join(errs...); err != nil {
			l.err = fmt.Errorf("closing the lab: %w", err)
		}
	})
	return l.err
}

// Processes lists the ids of all processes that run on the nodes now.
func (l *Lab) Processes() ([]int, error) { return marked(envSession + "=" + l.session) }

// ClusterFile is the path of the cluster file.
func (l *Lab) ClusterFile() string { return filepath.Join(l.dir, "cluster.json") }

// HeadClusterFile is the path of a cluster file with the first node alone, for
// configs that want one.
func (l *Lab) HeadClusterFile() string { return filepath.Join(l.dir, "cluster_single.json") }

// Address is where the other nodes reach node i, its vpc_ip.
func (l *Lab) Address(i int) string { return l.nodes[i].info.IP }

// KnownHosts is the path of the known_hosts file with the nodes' host keys.
func (l *Lab) KnownHosts() string { return filepath.Join(l.dir, "known_hosts") }

// KeyFile is the path of the private key of [User].
func (l *Lab) KeyFile() string { return filepath.Join(l.dir, "id_ed25519") }

// NodeDir is the state folder of node i, from 0.
func (l *Lab) NodeDir(i int) string { return filepath.Join(l.dir, fmt.Sprintf("node%d", i)) }

func (l *Lab) sharedDir() string { return filepath.Join(l.dir, "shared") }

func (l *Lab) modelsDir() string { return filepath.Join(l.dir, "models") }

func (l *Lab) store(i int) dockerStore {
	return dockerStore{dir: filepath.Join(l.NodeDir(i), "containers")}
}

// Addr is the host:port of node i, the key of node_dict.
func (l *Lab) Addr(i int) string { return l.nodes[i].addr() }

// Nodes is the number of nodes.
func (l *Lab) Nodes() int { return len(l.nodes) }
