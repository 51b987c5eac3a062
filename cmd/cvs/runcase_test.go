package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"cvs/collect/lab"
)

// The cases whose operation is run need hosts. They get the lab's, whose SSH
// servers and processes are real, and for the sick ones of fake_host.json
// listeners that misbehave in the same way. Addresses, login, paths and waits of
// a case's files are replaced by those; what is under test is the rest.

const caseToken = "hf_SENTINEL_0123456789"

// A runCase is one case's files on a lab.
type runCase struct {
	t       *testing.T
	lab     *lab.Lab
	dir     string // of the files as they are used
	name    string // of the config file
	config  map[string]any
	cluster map[string]any
	known   []string
	env     map[string]string
	args    []string
	port    int
	out     *lockedBuffer
	ctx     context.Context // of the command; nil is the test's
	user    string          // whose run it is
}

// lockedBuffer is output that may be read while the command still writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// sub is the object at a path of keys; missing ones are made.
func sub(m map[string]any, keys ...string) map[string]any {
	for _, k := range keys {
		next, ok := m[k].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[k] = next
		}
		m = next
	}
	return m
}

func newRunCase(t *testing.T, id string, nodes int, f lab.Faults) *runCase {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	l, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Executable: exe, Nodes: nodes, Speed: 100, StartDelay: 100 * time.Millisecond, Faults: f})
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	port, err := lab.FreePort("127.0.0.1")
	check(t, err)
	c := &runCase{t: t, lab: l, dir: t.TempDir(), name: "mi325x_atom_demo-70b_fp8_single.json", env: map[string]string{}, user: "benchuser", port: port, known: []string{l.KnownHosts()}, out: &lockedBuffer{}}
	src, err := filepath.Glob(filepath.Join(casesDir(), id, "*_threshold.json"))
	check(t, err)
	configs, err := filepath.Glob(filepath.Join(casesDir(), id, "*_[sd]i[ns][gt]*.json"))
	check(t, err)
	if len(src) != 1 || len(configs) != 1 {
		t.Fatalf("files of %s: %q %q", id, src, configs)
	}
	mustJSON(t, readFile(t, configs[0]), &c.config)
	mustJSON(t, readFile(t, l.ClusterFile()), &c.cluster)
	delete(c.cluster, "container") // the case's config says it all
	check(t, os.WriteFile(filepath.Join(c.dir, filepath.Base(src[0])), []byte(readFile(t, src[0])), 0o600))

	model := filepath.Join(l.ModelsDir(), "models--example-org--Demo-70B-FP8", "snapshots", "abc")
	check(t, os.MkdirAll(model, 0o755))
	for _, name := range []string{"config.json", "model.safetensors"} {
		check(t, os.WriteFile(filepath.Join(model, name), []byte("{}"), 0o600))
	}
	shared := filepath.Dir(l.TokenFile())
	check(t, os.WriteFile(filepath.Join(c.dir, "hf_token"), []byte(caseToken+"\n"), 0o600))
	c.config["enforce_thresholds"] = false // a simulated GPU is not what the bounds are for
	c.config["gpu_arch"] = "labsim"
	paths := sub(c.config, "paths")
	paths["shared_fs"], paths["models_dir"] = shared, l.ModelsDir()
	paths["hf_token_file"] = filepath.Join(c.dir, "hf_token")
	args := sub(c.config, "container", "runtime", "args")
	args["privileged"], args["volumes"] = false, []string{shared + ":" + shared, l.ModelsDir() + ":" + l.ModelsDir() + ":ro"}
	params := sub(c.config, "params")
	params["port_no"], params["num_prompts"] = strconv.Itoa(port), "128"
	delete(params, "master_addr")
	if nodes > 1 {
		master, err := lab.FreePort("127.0.0.1")
		check(t, err)
		params["master_port"] = strconv.Itoa(master)
	}
	return c
}

// argv writes the files and gives the command line.
func (c *runCase) argv() []string {
	c.t.Helper()
	write := func(name string, v any) string {
		b, err := json.MarshalIndent(v, "", " ")
		check(c.t, err)
		file := filepath.Join(c.dir, name)
		check(c.t, os.WriteFile(file, b, 0o600))
		return file
	}
	args := []string{"run", "atom", "--cluster_file", write("cluster.json", c.cluster), "--config_file", write(c.name, c.config),
		"--workspace", filepath.Join(c.dir, "work"), "--connect-timeout", "2s", "-v"}
	for _, k := range c.known {
		args = append(args, "--known-hosts", k)
	}
	return append(args, c.args...)
}

// run carries the command out and returns its exit status.
func (c *runCase) run() int {
	c.t.Helper()
	args := c.argv()
	e := &env{stdin: strings.NewReader(""), stdout: c.out, stderr: c.out, now: time.Now,
		getenv: func(k string) string { return c.env[k] }, osUser: func() string { return c.user }}
	ctx := c.ctx
	if ctx == nil {
		ctx = c.t.Context()
	}
	return run(ctx, e, args)
}

// expect runs and compares exit status and output.
func (c *runCase) expect(code int, says ...string) {
	c.t.Helper()
	if got := c.run(); got != code {
		c.t.Errorf("exit %d, want %d", got, code)
	}
	c.says(says...)
	if c.t.Failed() {
		c.t.Log(c.out.String())
	}
}

func (c *runCase) says(says ...string) {
	c.t.Helper()
	for _, s := range says {
		if !strings.Contains(c.out.String(), s) {
			c.t.Errorf("%q is not said", s)
		}
	}
}

func (c *runCase) containers(node int) string {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.lab.NodeDir(node), "bin", "docker"), "ps", "-a", "--format", "{{.Names}}")
	cmd.Env = []string{"CVS_LAB_NODE=" + c.lab.NodeDir(node), "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("docker ps: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// quiet checks that nothing of the run is left on the nodes.
func (c *runCase) quiet() {
	c.t.Helper()
	var left []int
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var err error
		left, err = c.lab.Processes()
		check(c.t, err)
		if len(left) == 0 {
			break
		}
	}
	if len(left) > 0 {
		c.t.Errorf("processes are left: %v", left)
	}
	for i := range c.lab.Nodes() {
		if names := c.containers(i); names != "" {
			c.t.Errorf("containers are left on node %d: %s", i, names)
		}
	}
}

// runs reports whether a process of the lab has all of the words in its command
// line.
func (c *runCase) runs(words ...string) bool {
	ids, _ := c.lab.Processes()
next:
	for _, id := range ids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
		if !bytes.HasPrefix(line, []byte("python")) {
			continue
		}
		for _, w := range words {
			if !bytes.Contains(line, []byte(w)) {
				continue next
			}
		}
		return true
	}
	return false
}

// finds reports in which files below dir a text is.
func finds(t *testing.T, dir, text string) (where []string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(text)) {
			where = append(where, path)
		}
		return nil
	}))
	return where
}

func newHostKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	s, err := ssh.NewSignerFromKey(key)
	check(t, err)
	return s
}
