package main

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"cvs/collect/artifact"
	"cvs/collect/metric"
)

// The names of what stands in for a GPU node's image.
const (
	realImage = "cvs-test/serving:1"
	realModel = "lab/sim-8b"
)

// A realNode is this machine as a node: a real OpenSSH server and a real Docker
// daemon of the test's own, with their own keys, socket and data.
type realNode struct {
	dir    string
	addr   string
	socket string
	user   string
	key    string
	known  string
}

// needReal skips the test unless CVS_TEST_REAL=1 asks for real components; then
// whatever is missing fails it.
func needReal(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv("CVS_TEST_REAL") != "1" {
		t.Skip("real sshd and Docker are started only with CVS_TEST_REAL=1")
	}
	for _, p := range programs {
		if _, err := os.Stat(p); err != nil {
			t.Fatalf("CVS_TEST_REAL=1, but %v (see .ci/setup)", err)
		}
	}
	if os.Getuid() != 0 {
		t.Fatal("CVS_TEST_REAL=1, but only root can start a Docker daemon")
	}
}

func startRealNode(t *testing.T) *realNode {
	t.Helper()
	needReal(t, "/usr/sbin/sshd", "/usr/sbin/dockerd", "/usr/bin/docker", "/bin/busybox")
	// Short, because it holds Unix sockets, whose names have a limit.
	dir, err := os.MkdirTemp("", "cvsreal")
	check(t, err)
	n := &realNode{dir: dir, socket: filepath.Join(dir, "d.sock"), key: filepath.Join(dir, "key"), known: filepath.Join(dir, "known_hosts")}
	t.Cleanup(func() {
		unmountBelow(t, dir) // Docker leaves its network namespace's mount behind
		check(t, os.RemoveAll(dir))
	})
	u, err := user.Current()
	check(t, err)
	n.user = u.Username
	n.startDocker(t)
	n.startSSH(t)
	n.importImage(t)
	return n
}

func unmountBelow(t *testing.T, dir string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	check(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	slices.Reverse(lines) // the last mounted first
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			check(t, syscall.Unmount(f[1], syscall.MNT_DETACH))
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// background starts a daemon and ends it with the test.
func (n *realNode) background(t *testing.T, ready func() bool, stop os.Signal, name string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(n.dir, filepath.Base(name)+".log"))
	check(t, err)
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	check(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(stop)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
			t.Errorf("%s did not end", name)
		}
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s: %s", name, b[max(0, len(b)-4000):])
		}
		log.Close()
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1500 {
		select {
		case <-ended:
			b, _ := os.ReadFile(log.Name())
			t.Fatalf("%s ended: %s", name, b[max(0, len(b)-2000):])
		case <-tick.C:
		}
		if ready() {
			return
		}
	}
	t.Fatalf("%s is not ready after 30 s", name)
}

// startDocker starts a daemon that touches neither network nor the machine's
// own daemon.
func (n *realNode) startDocker(t *testing.T) {
	t.Helper()
	n.background(t, func() bool { return n.tryDocker("version") == nil }, os.Interrupt, "/usr/sbin/dockerd",
		"-H", "unix://"+n.socket, "--data-root", n.dir+"/data", "--exec-root", n.dir+"/exec", "--pidfile", n.dir+"/pid",
		"--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs")
}

func (n *realNode) tryDocker(args ...string) error {
	return exec.Command("/usr/bin/docker", append([]string{"-H", "unix://" + n.socket}, args...)...).Run()
}

func (n *realNode) docker(t *testing.T, stdin io.Reader, args ...string) string {
	t.Helper()
	cmd := exec.Command("/usr/bin/docker", append([]string{"-H", "unix://" + n.socket}, args...)...)
	cmd.Stdin = stdin
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", args[0], err, out)
	}
	return string(out)
}

// startSSH starts an OpenSSH server whose sessions reach the test's daemon only.
// A sudo that always refuses stands first, since the real one would drop the
// variable that says so.
func (n *realNode) startSSH(t *testing.T) {
	t.Helper()
	check(t, os.MkdirAll("/run/sshd", 0o755)) // its empty folder for privilege separation
	bin := filepath.Join(n.dir, "bin")
	check(t, os.Mkdir(bin, 0o755))
	check(t, os.WriteFile(filepath.Join(bin, "sudo"), []byte("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"), 0o755))
	newKey := func(file string) ssh.Signer {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		check(t, err)
		block, err := ssh.MarshalPrivateKey(key, "")
		check(t, err)
		check(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
		s, err := ssh.NewSignerFromKey(key)
		check(t, err)
		return s
	}
	host, login := newKey(filepath.Join(n.dir, "host")), newKey(n.key)
	check(t, os.WriteFile(filepath.Join(n.dir, "authorized"), ssh.MarshalAuthorizedKey(login.PublicKey()), 0o600))
	port := freeTCPPort(t)
	n.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	check(t, os.WriteFile(n.known, []byte(knownhosts.Line([]string{n.addr}, host.PublicKey())+"\n"), 0o600))
	conf := filepath.Join(n.dir, "sshd_config")
	check(t, os.WriteFile(conf, []byte(fmt.Sprintf(`Port %d
ListenAddress 127.0.0.1
HostKey %s/host
PidFile none
AuthorizedKeysFile %s/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
SetEnv DOCKER_HOST=unix://%s PATH=%s:/usr/sbin:/usr/bin:/sbin:/bin
`, port, n.dir, n.dir, n.socket, bin)), 0o600))
	n.background(t, func() bool {
		c, err := net.Dial("tcp", n.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, os.Interrupt, "/usr/sbin/sshd", "-D", "-e", "-f", conf)
}

func freeTCPPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// importImage makes an image of static programs: busybox, and the lab's servers
// and clients under the names of python.
func (n *realNode) importImage(t *testing.T) {
	t.Helper()
	prog := filepath.Join(n.dir, "node")
	build := exec.Command("go", "build", "-o", prog, "./testdata/real/node")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the image's program: %v: %s", err, out)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		check(t, w.WriteHeader(&h))
		_, err := w.Write(data)
		check(t, err)
	}
	for _, d := range []string{"bin", "tmp", "root", "lab", "logs", "models"} {
		add(tar.Header{Name: d + "/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil)
	}
	for _, f := range []struct{ from, to string }{{"/bin/busybox", "bin/busybox"}, {prog, "bin/python"}} {
		data, err := os.ReadFile(f.from)
		check(t, err)
		add(tar.Header{Name: f.to, Typeflag: tar.TypeReg, Mode: 0o755}, data)
	}
	list, err := exec.Command("/bin/busybox", "--list").Output()
	check(t, err)
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			add(tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
		}
	}
	add(tar.Header{Name: "bin/python3", Typeflag: tar.TypeSymlink, Linkname: "python"}, nil)
	add(tar.Header{Name: "lab/node.json", Typeflag: tar.TypeReg, Mode: 0o644},
		[]byte(`{"name":"real","ip":"127.0.0.1","session":"real","seed":1,"speed":20,"start_delay_s":0.3}`))
	check(t, w.Close())
	n.docker(t, &b, "import", "--change", "ENV PATH=/bin HOME=/root CVS_LAB_NODE=/lab", "-", realImage)
}

// files writes cluster, config and thresholds for a driver, as a user would, and
// returns the first two.
func (n *realNode) files(t *testing.T, driver string, port int) (cluster, config string) {
	t.Helper()
	dir := filepath.Join(n.dir, driver)
	models := filepath.Join(n.dir, "models", "models--lab--sim-8b", "snapshots", "0123456789abcdef")
	for _, d := range []string{dir, models} {
		check(t, os.MkdirAll(d, 0o755))
	}
	write := func(file string, v any) string {
		b, err := json.MarshalIndent(v, "", " ")
		check(t, err)
		check(t, os.WriteFile(file, b, 0o600))
		return file
	}
	write(filepath.Join(models, "config.json"), map[string]any{"model_type": "sim"})
	check(t, os.WriteFile(filepath.Join(models, "model.safetensors"), []byte("weights"), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "token"), []byte("hf_REAL_SENTINEL_01234\n"), 0o600))

	specs, cells := map[string]any{}, []int{2, 8}
	var runs []any
	for _, c := range cells {
		gates := map[string]any{}
		for _, name := range metric.Gated() {
			gates[name] = map[string]any{"kind": "max_ms", "value": 1e7}
			if d, ok := metric.Lookup(name); ok && d.Tier == metric.Throughput {
				gates[name] = map[string]any{"kind": "min_tok_s", "value": 1e-3}
			}
		}
		gates["success_rate"] = map[string]any{"kind": "min", "value": 1}
		gates["failed"] = map[string]any{"kind": "max", "value": 0}
		specs[fmt.Sprintf("ISL=64,OSL=16,TP=1,PP=1,CONC=%d", c)] = gates
		runs = append(runs, map[string]any{"combo": "w", "concurrency": c})
	}
	write(filepath.Join(dir, "labsim_atom_sim_single_threshold.json"), specs)
	cluster = write(filepath.Join(dir, "cluster.json"), map[string]any{
		"orchestrator": "container", "username": n.user, "priv_key_file": n.key,
		"node_dict": map[string]any{n.addr: map[string]any{"vpc_ip": "127.0.0.1"}},
	})
	config = write(filepath.Join(dir, "labsim_atom_sim_single.json"), map[string]any{
		"schema_version": 1, "framework": "atom", "gpu_arch": "labsim", "enforce_thresholds": true,
		"threshold_json": "labsim_atom_sim_single_threshold.json",
		"paths":          map[string]any{"shared_fs": dir, "models_dir": "/models", "log_dir": "/logs", "hf_token_file": filepath.Join(dir, "token")},
		"model":          map[string]any{"id": realModel, "remote": 0, "precision": "fp8"},
		"container": map[string]any{"lifetime": "per_run", "name": "cvs_real_" + driver, "image": realImage,
			"runtime": map[string]any{"name": "docker", "args": map[string]any{
				// What a small machine allows: no privileges, no higher limits than its own.
				"privileged": false, "shm_size": "64M", "ulimit": []string{"memlock=65536:65536"},
				"volumes": []string{filepath.Join(n.dir, "models") + ":/models:ro"}}}},
		"roles": map[string]any{"server": map[string]any{"atom_args": []string{"-tp", "1"}, "env": map[string]any{"MARK": "it's here"}}},
		"params": map[string]any{"driver": driver, "port_no": strconv.Itoa(port), "tensor_parallelism": "1", "num_prompts": "16",
			"max_model_length": "4096", "reuse_server_across_sweep": "true", "metric_percentiles": "90,95,99"},
		"sweep": map[string]any{"sequence_combinations": []any{map[string]any{"name": "w", "isl": "64", "osl": "16"}}, "runs": runs},
	})
	return cluster, config
}

// throughJumpHost renames the cluster file's node to an alias, and says with an
// ssh_config that the way to it leads through another alias of this sshd.
func (n *realNode) throughJumpHost(t *testing.T, cluster string) (flags []string) {
	t.Helper()
	text := readFile(t, cluster)
	check(t, os.WriteFile(cluster, []byte(strings.ReplaceAll(text, strconv.Quote(n.addr), `"gpu-node"`)), 0o600))
	host, port, err := net.SplitHostPort(n.addr)
	check(t, err)
	var b strings.Builder
	for _, name := range []string{"gate", "gpu-node"} {
		fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %s\n  User %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile none\n",
			name, host, port, n.user, n.key, n.known)
	}
	b.WriteString("  ProxyJump gate\n")
	file := filepath.Join(n.dir, "ssh_config")
	check(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return []string{"--ssh_config", file}
}

// leftovers lists what a run may leave on the machine: containers, processes,
// the server's socket, files.
func (n *realNode) leftovers(t *testing.T, port int) []string {
	t.Helper()
	var out []string
	for _, id := range strings.Fields(n.docker(t, nil, "ps", "-aq", "--no-trunc")) {
		out = append(out, "container "+id)
	}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(t, err)
	for _, f := range procs {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it ended
		}
		line := strings.ReplaceAll(string(b), "\x00", " ")
		if strings.Contains(line, "/tmp/cvs-2") || strings.Contains(line, n.dir+"/exec") && strings.Contains(line, "shim") ||
			(strings.Contains(line, "openai_server") || strings.Contains(line, "sglang.") || strings.Contains(line, "vllm.entry") || strings.Contains(line, "bench")) &&
				strings.Contains(line, strconv.Itoa(port)) { // other packages' tests run servers meanwhile
			if g, err := os.ReadFile(filepath.Join(filepath.Dir(f), "environ")); err == nil && bytes.Contains(g, []byte("CVS_LAB_SESSION")) {
				continue // another test's lab
			}
			out = append(out, "process "+strings.TrimSpace(line))
		}
	}
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
		c.Close()
		out = append(out, "socket on port "+strconv.Itoa(port))
	}
	return out
}

// TestReal runs sweeps over a real sshd in real containers, from the input files
// to the deck, and lists what is there before and after.
func TestReal(t *testing.T) {
	n := startRealNode(t)
	for _, driver := range []string{"atom", "vllm_atom", "sglang"} {
		t.Run(driver, func(t *testing.T) {
			port := freeTCPPort(t)
			cluster, config := n.files(t, driver, port)
			before := n.leftovers(t, port)
			work := filepath.Join(n.dir, "work-"+driver)
			var stdout, stderr bytes.Buffer
			e := &env{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, now: time.Now,
				getenv: func(string) string { return "" }, osUser: func() string { return n.user }}
			way := []string{"--known-hosts", n.known}
			if driver == "vllm_atom" { // one of them as behind a jump host
				way = n.throughJumpHost(t, cluster)
				if code := run(t.Context(), e, append([]string{"doctor", "--cluster_file", cluster, "--format", "json"}, way...)); !strings.Contains(stdout.String(), `"check": "ssh"`) {
					t.Errorf("doctor: exit %d\n%s\n%s", code, stdout.String(), stderr.String())
				}
				stdout.Reset()
			}
			code := run(t.Context(), e, append([]string{"run", "atom", "--cluster_file", cluster, "--config_file", config,
				"--workspace", work, "-v"}, way...))
			if code != 0 {
				t.Fatalf("exit %d\n%s\n%s", code, stdout.String(), stderr.String())
			}
			t.Logf("%s\n%s", stderr.String(), stdout.String())
			if !strings.Contains(stdout.String(), "verdict: PASS, SIMULATED") {
				t.Errorf("verdict:\n%s", stdout.String())
			}
			dirs, err := filepath.Glob(filepath.Join(work, "cvs_runs", "*"))
			check(t, err)
			if len(dirs) != 1 {
				t.Fatalf("run directories: %q", dirs)
			}
			r, err := artifact.Read(dirs[0])
			check(t, err)
			if len(r.Results) != 2 || len(r.Problems) != 0 || r.Meta.Identity.Driver != driver || len(r.Meta.Identity.ImageDigests) != 1 {
				t.Errorf("%d results, problems %v, %+v", len(r.Results), r.Problems, r.Meta.Identity)
			}
			deck, err := os.ReadFile(filepath.Join(dirs[0], deckName))
			check(t, err)
			if !bytes.Contains(deck, []byte(realModel)) {
				t.Error("the deck does not name the model")
			}
			after := n.leftovers(t, port)
			for end := time.Now().Add(10 * time.Second); !slices.Equal(before, after) && time.Now().Before(end); after = n.leftovers(t, port) {
				time.Sleep(50 * time.Millisecond) // a watch of a job may need a moment to see that it is over
			}
			t.Logf("before: %q\nafter:  %q", before, after)
			if !slices.Equal(before, after) {
				t.Errorf("before the run: %q, after: %q", before, after)
			}
			for _, f := range []string{"/tmp/cvs-" + r.Meta.RunID + "*", "/tmp/cvs-node.lock"} {
				if left, _ := filepath.Glob(f); len(left) > 0 {
					t.Errorf("files are left: %q", left)
				}
			}
			if strings.Contains(stdout.String()+stderr.String()+string(deck), "REAL_SENTINEL") {
				t.Error("the token is in the output or the deck")
			}
		})
	}
}
