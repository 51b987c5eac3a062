package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/lab"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// TestMain lets the test binary stand in for docker, python and a server under
// their names, so that the run's commands are really executed.
func TestMain(m *testing.M) {
	if handled, code := lab.Main(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr); handled {
		os.Exit(code)
	}
	switch filepath.Base(os.Args[0]) {
	case "docker":
		os.Exit(dockerMain(os.Args[1:]))
	case "python":
		os.Exit(pythonMain(os.Args[1:]))
	}
	os.Exit(m.Run())
}

const stateEnv = "CVS_TEST_STATE"

func stateFile(name string) string { return filepath.Join(os.Getenv(stateEnv), name) }

// behave is what a test asked a program to do: the content of a file.
func behave(name string) string {
	b, _ := os.ReadFile(stateFile(name))
	return string(b)
}

func dockerMain(args []string) int {
	fail := func(format string, a ...any) int { fmt.Fprintf(os.Stderr, format+"\n", a...); return 1 }
	if behave("docker-broken") != "" {
		return fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
	}
	switch args[0] {
	case "inspect":
		b, err := os.ReadFile(stateFile("container-" + args[3]))
		if err != nil {
			return fail("Error response from daemon: No such container: %s", args[3])
		}
		os.Stdout.Write(b)
	case "login":
		in, _ := io.ReadAll(os.Stdin)
		os.WriteFile(stateFile("login"), []byte(strings.Join(args, " ")+" < "+string(in)), 0o600)
	case "load", "pull":
		os.WriteFile(stateFile("obtained"), []byte(strings.Join(args, " ")), 0o600)
		os.Remove(stateFile("image-missing"))
	case "image":
		if behave("image-missing") != "" {
			return fail("Error: No such image: %s", args[2])
		}
		fmt.Println(`[{"Id":"sha256:abc","RepoDigests":["registry.example/atom@sha256:def"]}]`)
	case "run":
		labels, name := map[string]string{}, ""
		for i, a := range args {
			switch a {
			case "--name":
				name = args[i+1]
			case "--label":
				k, v, _ := strings.Cut(args[i+1], "=")
				labels[k] = v
			}
		}
		if msg := behave("docker-run-fails"); msg != "" {
			return fail("%s", msg)
		}
		b, _ := json.Marshal([]any{map[string]any{"Id": "c1", "Created": "2026-01-02T03:04:05Z",
			"Config": map[string]any{"Labels": labels, "Image": args[len(args)-2]}, "State": map[string]any{"Running": true}}})
		if err := os.WriteFile(stateFile("container-"+name), b, 0o600); err != nil {
			return fail("%v", err)
		}
		os.WriteFile(stateFile("run-env"), []byte(strings.Join(os.Environ(), "\x00")), 0o600)
	case "rm":
		if behave("rm-fails") == "" {
			os.Remove(stateFile("container-" + args[2]))
		}
	case "exec":
		args = args[1:]
		if args[0] == "-i" {
			args = args[1:]
		}
		path, err := exec.LookPath(args[1])
		if err != nil {
			return fail("%v", err)
		}
		return fail("%v", syscall.Exec(path, args[1:], os.Environ()))
	}
	return 0
}

func pythonMain(args []string) int {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	port := fs.Int("server-port", 0, "")
	model := fs.String("model", "", "")
	dir := fs.String("result-dir", "", "")
	name := fs.String("result-filename", "", "")
	conc := fs.Int("max-concurrency", 0, "")
	url := fs.String("base-url", "", "")
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] { // all others are passed over
		if f := fs.Lookup(strings.TrimLeft(rest[0], "-")); f != nil && strings.HasPrefix(rest[0], "--") && len(rest) > 1 {
			f.Value.Set(rest[1])
		}
	}
	if args[1] == "atom.entrypoints.openai_server" {
		return serveMain(*port, *model)
	}
	what := behave(fmt.Sprintf("client-%d", *conc))
	fmt.Println("client says", what)
	result := `{"model_id": "m", "completed": 4, "total_input_tokens": 40, "total_output_tokens": 20, "mean_ttft_ms": NaN, "gpu_name": "lab-sim"}`
	out := filepath.Join(*dir, *name)
	switch what {
	case "exit1":
		fmt.Fprintln(os.Stderr, "error: unrecognized arguments: --foo", os.Getenv("HF_TOKEN"))
		return 1
	case "hang":
		select {}
	case "whole, never exits":
		os.WriteFile(out, []byte(result), 0o600)
		select {}
	case "busy":
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		}
	case "partial":
		os.WriteFile(out, []byte(result[:40]), 0o600)
		return 0
	case "none":
		return 0
	case "killserver":
		if resp, err := http.Get(*url + "/die"); err == nil {
			resp.Body.Close()
		}
		select {}
	}
	if err := os.WriteFile(out, []byte(result), 0o600); err != nil {
		return 1
	}
	return 0
}

func serveMain(port int, model string) int {
	fmt.Println("server starts with", os.Getenv("HF_TOKEN"))
	if b := behave("server"); b == "crash" {
		fmt.Fprintln(os.Stderr, "SafetensorError: incomplete metadata")
		return 3
	}
	if m := behave("served-model"); m != "" {
		model = m
	}
	if behave("grandchild") != "" { // an engine worker that ignores TERM
		c := exec.Command("sh", "-c", `trap "" TERM; while :; do sleep 1; done`)
		if err := c.Start(); err != nil {
			return 1
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"status":"ok"}`) })
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q}]}`, model)
	})
	mux.HandleFunc("/v1/completions", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"choices":[]}`) })
	mux.HandleFunc("/die", func(http.ResponseWriter, *http.Request) { os.Exit(9) })
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+strconv.Itoa(port), mux))
	return 1
}

// A localNode is this machine in the place of a remote one.
type localNode struct {
	env  []string
	dir  string                    // state
	lose func(remote.Command) bool // from this command on the node does not answer

	mu   sync.Mutex
	lost bool
}

func newLocalNode(t *testing.T) *localNode {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	self, err := os.Executable()
	if err == nil {
		err = os.Mkdir(bin, 0o755)
	}
	for _, n := range []string{"docker", "python"} {
		if err == nil {
			err = os.Symlink(self, filepath.Join(bin, n))
		}
	}
	if err == nil {
		err = os.Symlink(testdata(t, "harness", "fakebin", "sudo"), filepath.Join(bin, "sudo"))
	}
	if err != nil {
		t.Fatal(err)
	}
	n := &localNode{dir: dir, env: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, stateEnv + "=" + dir}}
	t.Cleanup(func() {
		for _, p := range n.processes() {
			syscall.Kill(p, syscall.SIGKILL)
		}
	})
	return n
}

// behave tells a program of the node what to do.
func (n *localNode) behave(t *testing.T, name, what string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(what), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (n *localNode) gone(c remote.Command) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = n.lost || n.lose != nil && n.lose(c)
	return n.lost
}

func (n *localNode) back() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose, n.lost = nil, false
}

func (n *localNode) Stream(ctx context.Context, c remote.Command, stdout, stderr io.Writer) (remote.Result, error) {
	if n.gone(c) {
		return remote.Result{}, &remote.LostError{Host: "192.0.2.11", Command: c.Name, Err: errors.New("connection reset")}
	}
	line, err := c.Line()
	if err != nil {
		return remote.Result{}, err
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Env, cmd.Stdout, cmd.Stderr = n.env, stdout, stderr
	cmd.WaitDelay = time.Second
	if c.Stdin != nil {
		in, err := cmd.StdinPipe()
		if err != nil {
			return remote.Result{}, err
		}
		go func() { // as over SSH: nobody waits for the input to be read
			io.Copy(in, c.Stdin)
			in.Close()
		}()
	}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return remote.Result{}, ctx.Err()
	case errors.As(err, &exit):
		return remote.Result{ExitCode: exit.ExitCode()}, nil
	}
	return remote.Result{}, err
}

func (n *localNode) Run(ctx context.Context, c remote.Command) (remote.Result, error) {
	var out, errs bytes.Buffer
	res, err := n.Stream(ctx, c, &out, &errs)
	res.Stdout, res.Stderr = out.Bytes(), errs.Bytes()
	return res, err
}

func (n *localNode) DialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

func (n *localNode) HTTPTransport() http.RoundTripper { return &http.Transport{} }
func (n *localNode) Notices() []string                { return nil }
func (n *localNode) Close() error                     { return nil }

// processes are the living ones that were started on the node.
func (n *localNode) processes() []int {
	var out []int
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range all {
		b, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(b, []byte(stateEnv+"="+n.dir+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// nothingLeft checks what every run owes the node.
func (n *localNode) nothingLeft(t *testing.T, runID string) {
	t.Helper()
	// A job's lease watch may need a moment to notice that the job is over.
	p := n.processes()
	for end := time.Now().Add(10 * time.Second); len(p) > 0 && time.Now().Before(end); p = n.processes() {
		time.Sleep(20 * time.Millisecond)
	}
	if len(p) > 0 {
		for _, pid := range p {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			t.Errorf("process %d is left: %q", pid, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	if c, _ := filepath.Glob(filepath.Join(n.dir, "container-*")); len(c) > 0 {
		t.Errorf("containers are left: %q", c)
	}
	if _, err := os.Stat("/tmp/cvs-" + runID + "-r0-1"); err == nil {
		t.Errorf("/tmp/cvs-%s-r0-1 is left", runID)
	}
}

// localRun is a runner on a fresh local node, and its run directory.
func localRun(t *testing.T) (*Runner, *localNode) {
	t.Helper()
	n := newLocalNode(t)
	p := testPlan(t)
	p.Paths.LogDir = filepath.Join(n.dir, "logs")
	p.Paths.HFTokenFile = filepath.Join(n.dir, "token")
	n.behave(t, "token", "hf_SENTINEL_0123456789\n")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Params.Port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	meta := NewMeta(p)
	meta.RunID = fmt.Sprintf("test-%d-%d", os.Getpid(), p.Params.Port)
	dir, err := artifact.Create(filepath.Join(n.dir, "runs"), meta)
	if err != nil {
		t.Fatal(err)
	}
	return &Runner{
		Plan: p, Store: dir, Now: time.Now, Sleep: sleep,
		Dial:    func(context.Context, plan.Node) (Node, error) { return n, nil },
		Options: Options{Owner: "me@here", StopGrace: 2 * time.Second},
	}, n
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func readRun(t *testing.T, r *Runner) *artifact.Run {
	t.Helper()
	run, err := artifact.Read(r.Store.(*artifact.Dir).Path())
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func readJSON[T any](t *testing.T, file string) T {
	t.Helper()
	var v T
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}
