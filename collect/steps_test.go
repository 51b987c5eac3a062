package collect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cvs/collect/container"
	"cvs/collect/driver"
	"cvs/collect/plan"
)

// nasty is one argument each that some shell would change.
var nasty = []string{
	"$(touch %s/pwn_sub)", "`touch %s/pwn_tick`", "; touch %s/pwn_semi", "&& touch %s/pwn_and", "| tee %s/pwn_pipe",
	"a'b\"c", "two words", "$HOME", "*", "~", "line1\nline2", "tab\there", `\`, "!!", "#x", "é漢🙂", "",
	`{"level":3}`, "{run}", "-n", "--",
}

// TestRecorded runs every planned command the way sshd would, with recorders in
// place of programs, and looks at what reached server and client.
func TestRecorded(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	p := testPlan(t)
	// The same characters in a folder of the test, because mkdir is not recorded.
	p.Paths.LogDir = filepath.Join(tmp, "team share", "O'Neil & co", "LOGS")
	var extra []string
	for _, a := range nasty {
		extra = append(extra, strings.ReplaceAll(a, "%s", tmp))
	}
	p.Server.ATOMArgs = append([]string{"-tp", "8"}, extra...)
	p.Params.BenchExtraArgs = []string{"--extra-body", `{"n":8}`, "a'b $(id)"}
	env := []plan.EnvVar{
		{Name: "PLAIN", Value: "1"}, {Name: "SPACES", Value: "a b  c"}, {Name: "QUOTES", Value: `it's "quoted"`},
		{Name: "DOLLAR", Value: "$HOME ${PATH} $(id)"}, {Name: "EQ", Value: "k=v=w"}, {Name: "NL", Value: "line1\nline2\n"},
		{Name: "EMPTY", Value: ""}, {Name: "HASH", Value: "#no comment"}, {Name: "UNI", Value: "Zürich 🙂"},
		{Name: "BACKSLASH", Value: `C:\x\n`}, {Name: "GLOB", Value: "/data/*"}, {Name: "CACHE", Value: "${HOME}/cache"},
		{Name: "MY_API_KEY", Value: "it's $ecret\n"},
	}
	p.Server.Env = env
	p.Container.Env = env

	c, err := newCommands(p, container.Identity{RunID: filepath.Base(tmp) + "-" + fmt.Sprint(os.Getpid()), Owner: "me@here"}, "hf_SENTINEL_0123456789", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(c.work()) })
	proc, err := c.server(driver.Rank{})
	if err != nil {
		t.Fatal(err)
	}
	cell := p.Cells[0]
	dir := c.dir(cell, 1)
	steps := []Step{
		c.sudoProbe(), c.lock(), c.inspect("container"), c.runContainer(nil), c.writeEnv(proc),
		c.prepare("server_start", dir, c.drv.ServerLog()), c.startServer(proc, 1, dir), c.wait("server_start", c.serverJob(1)),
		c.prepare("cell", dir, c.drv.Artefact(p), clientLog), c.startClient(cell, 1), c.wait("cell", c.clientJob(cell, 1)),
		c.fetch(dir + "/" + clientLog), c.tail("cell", dir+"/"+clientLog),
		c.stop("teardown", c.serverJob(1), time.Second), c.removeWork(), c.removeContainer("teardown"),
	}
	rec := replay(t, steps)

	client := c.drv.Client(p, cell, dir)
	for what, want := range map[string][]string{"server": proc.Args, "client": client.Args} {
		if !slices.ContainsFunc(rec.argv, func(got []string) bool { return slices.Equal(got, want) }) {
			t.Errorf("%s argv did not arrive as planned:\nwant %q\ngot  %q", what, want, rec.argv)
		}
	}
	seen := 0
	for i, argv := range rec.argv {
		if argv[0] != "python" {
			continue
		}
		seen++
		for _, e := range append(env, plan.EnvVar{Name: "HF_TOKEN", Value: "hf_SENTINEL_0123456789"}) {
			if got, ok := rec.env[i][e.Name]; !ok || got != e.Value {
				t.Errorf("%s: %s arrived as %q, want %q", argv[2], e.Name, got, e.Value)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d python processes, want server and client", seen)
	}
	for _, argv := range rec.argv {
		if argv[0] == "docker" && argv[1] == "run" {
			j := slices.Index(argv, "-v")
			if j < 0 || argv[j+1] != "/data/hf models:/models:ro" {
				t.Errorf("the volume is not one argument: %q", argv)
			}
		}
		for _, a := range argv {
			if strings.Contains(a, "SENTINEL") || strings.Contains(a, "$ecret") {
				t.Errorf("a secret is in an argument list: %q", argv)
			}
		}
	}
	left, _ := filepath.Glob(tmp + "/pwn_*")
	if len(left) > 0 {
		t.Errorf("something was executed: %q", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "client.log")); err != nil {
		t.Errorf("the redirect went elsewhere: %v", err)
	}
	if _, err := os.Stat(c.work()); err == nil {
		t.Errorf("%s is left behind", c.work())
	}
	for _, s := range steps {
		shown, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(shown, []byte("SENTINEL")) || bytes.Contains(shown, []byte("$ecret")) {
			t.Errorf("a dry run would show a secret: %s", shown)
		}
	}
}

// TestStaleIsSetAside keeps an older result, under a name nobody reads.
func TestStaleIsSetAside(t *testing.T) {
	t.Parallel()
	p := testPlan(t)
	p.Paths.LogDir = t.TempDir()
	c, err := newCommands(p, container.Identity{RunID: "r"}, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := c.dir(p.Cells[0], 1)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := os.WriteFile(dir+"/results.json", []byte{byte('0' + i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		replay(t, []Step{c.prepare("cell", dir, "results.json", "client.log")})
	}
	for name, want := range map[string]string{"results.json": "", "results.json.stale-1": "0", "results.json.stale-2": "1"} {
		if got, _ := os.ReadFile(dir + "/" + name); string(got) != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

type records struct {
	argv [][]string
	env  []map[string]string
}

// replay sends each command string through /bin/sh in a bare environment, as
// sshd does, with the recorders first in PATH.
func replay(t *testing.T, steps []Step) records {
	t.Helper()
	fake, rec := testdata(t, "harness", "fakebin"), t.TempDir()
	links := t.TempDir() // the recorder is called by the programs' names
	for _, name := range []string{"curl", "pkill", "python", "python3", "vllm"} {
		if err := os.Symlink(filepath.Join(fake, "_rec"), filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range steps {
		cmd := exec.Command("/bin/sh", "-c", sent(s))
		cmd.Env = []string{"PATH=" + fake + ":" + links + ":/usr/bin:/bin", "HOME=/home/benchuser", "TMPDIR=" + rec, "REC=" + rec}
		cmd.Stdin = bytes.NewReader(s.cmd.Stdin)
		if out, err := cmd.CombinedOutput(); err != nil && s.Stage != "container" {
			t.Fatalf("%v: %v\n%s", s.Argv, err, out)
		}
	}
	var r records
	files, err := filepath.Glob(rec + "/argv.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		env := map[string]string{}
		e, err := os.ReadFile(strings.Replace(f, "/argv.", "/env.", 1))
		if err == nil {
			for _, kv := range strings.Split(string(e), "\x00") {
				if k, v, ok := strings.Cut(kv, "="); ok {
					env[k] = v
				}
			}
		}
		r.argv = append(r.argv, strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"))
		r.env = append(r.env, env)
	}
	return r
}

// TestCommandsGolden is the whole dry run of two cells for every driver, on one
// node and on two.
func TestCommandsGolden(t *testing.T) {
	t.Parallel()
	for _, d := range []plan.Driver{plan.DriverATOM, plan.DriverVLLMATOM, plan.DriverVLLM, plan.DriverSGLang} {
		for nodes := 1; nodes <= 2; nodes++ {
			t.Run(fmt.Sprintf("%s_%d", d, nodes), func(t *testing.T) {
				t.Parallel()
				commandsGolden(t, d, nodes)
			})
		}
	}
}

func commandsGolden(t *testing.T, d plan.Driver, nodes int) {
	p := testPlan(t)
	p.Params.Driver, p.Params.NNodes = d, nodes
	if nodes > 1 {
		p.Cluster.Nodes = append(p.Cluster.Nodes, plan.Node{Addr: "192.0.2.12", VPCIP: "198.51.100.12"})
		if d != plan.DriverATOM {
			p.Params.PP = 2
		}
		if d == plan.DriverSGLang { // one config that leaves nothing to discovery
			p.Server.IBNetdev, p.Server.IBHCADevices = "ens1f0", []string{"mlx5_2", "mlx5_0"}
		}
	}
	p.Paths.ModelsDir, p.Paths.HFTokenFile = "/models", "/nowhere/token"
	p.Server.Env = []plan.EnvVar{{Name: "A_TOKEN", Value: "sentinel-1"}, {Name: "B", Value: "two words"}}
	p.Container.Runtime.Registry = &plan.Registry{Server: "registry.example", Username: "u", PasswordFile: "/etc/pw file"}
	steps, err := Commands(p, "run-1")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range steps {
		where := s.Host
		if s.Container != "" {
			where += "/" + s.Container
		}
		fmt.Fprintf(&b, "%s %s %s\n  argv %q\n", s.Stage, where, s.When, s.Argv)
		if len(s.Env) > 0 {
			fmt.Fprintf(&b, "  env %q\n", s.Env)
		}
		if s.Stdin != "" {
			fmt.Fprintf(&b, "  stdin %q\n", s.Stdin)
		}
		if strings.Contains(s.Command, "sentinel") {
			t.Errorf("a secret in %s", s.Command)
		}
	}
	golden(t, fmt.Sprintf("commands_%s_%d.txt", d, nodes), b.String())
}

func TestCommandsCountNodes(t *testing.T) {
	t.Parallel()
	p := testPlan(t)
	p.Params.NNodes = 2
	if _, err := Commands(p, "r"); err == nil || !strings.Contains(err.Error(), "params.nnodes is 2, but the cluster file names 1 nodes") {
		t.Errorf("got %v", err)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got, UPDATE=1 refreshes):\n%s", file, diff)
	}
}

// sent is the string that goes over SSH; a step's Command is the same with
// secrets taken out.
func sent(s Step) string { return line(s.cmd) }
