package lab

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startIsolated is startLab with namespaces; where the machine has none the
// test is skipped, unless CVS_TEST_REAL says that it must have.
func startIsolated(t *testing.T, o Options) *Lab {
	t.Helper()
	o.Isolate = IsolateAuto
	if os.Getenv("CVS_TEST_REAL") == "1" {
		o.Isolate = IsolateOn
	}
	l := startLab(t, o)
	if ok, why := l.Isolated(); !ok {
		t.Skip("no namespaces on this machine: " + why)
	}
	return l
}

func TestIsolatedNode(t *testing.T) {
	t.Parallel()
	l := startIsolated(t, Options{})
	c := dial(t, l, 0)
	for _, tc := range []struct{ name, command, want string }{
		{"home", "echo $HOME; touch ~/mine; ls ~", "/home/lab\nmine\n"},
		{"host name", "hostname", "lab-node-0\n"},
		{"root", "id -u", "0\n"},
		{"the machine's programs are read-only", "touch /usr/bin/x 2>/dev/null || echo refused", "refused\n"},
		{"its configuration too", "echo >/etc/hostname 2>/dev/null || echo refused", "refused\n"},
		{"so is the kernel's", "echo 1 >/proc/sys/kernel/printk_ratelimit 2>/dev/null || echo refused", "refused\n"},
		{"models", "test -d /models && { touch /models/x 2>/dev/null || echo read-only; }", "read-only\n"},
		{"only its own processes", "ls -d /proc/[0-9]* | wc -l | awk '$1<12{print \"few\"}'", "few\n"},
		{"devices", "echo x >/dev/null && head -c1 /dev/zero | wc -c; ls /dev/dri | head -1", "1\ncard0\n"},
		{"stdin", "cat", ""},
		{"an orphan is reaped", "(sleep 0.05 &) ; sleep 0.2; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l", "0\n"},
	} {
		if got := mustRun(t, c, tc.command); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	if r := run(t, c, "kill -TERM $$", ""); r.signal != "TERM" {
		t.Errorf("own signal: %+v", r)
	}
	if r := run(t, c, "exit 7", ""); r.code != 7 {
		t.Errorf("exit code: %+v", r)
	}
	if _, err := os.Stat("/home/lab/mine"); err == nil {
		t.Error("the machine's /home was touched")
	}
	if _, err := os.Stat(filepath.Join(l.NodeDir(0), "home", "mine")); err != nil {
		t.Error(err)
	}
}

func TestIsolatedContainer(t *testing.T) {
	t.Parallel()
	l := startIsolated(t, Options{})
	c := dial(t, l, 0)
	if err := os.WriteFile(filepath.Join(l.modelsDir(), "m"), []byte("weights\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(mustRun(t, c, "docker run -d --name w --network host --ipc host --privileged --shm-size 128G -v /home/lab:/home/lab -v "+l.modelsDir()+
		":/models:ro -v /data/made:/d --device /dev/kfd --device /dev/dri --entrypoint sleep "+ShippedImage+" infinity"))
	for _, tc := range []struct {
		command string
		want    result
	}{
		{"docker exec w cat /models/m", result{out: "weights\n"}},
		{"docker exec w bash -c 'touch /models/x 2>/dev/null || echo read-only'", result{out: "read-only\n"}},
		{"docker exec w bash -c 'echo hi >/home/lab/f; echo $HOME; pwd'; cat /home/lab/f", result{out: "/root\n/root\nhi\n"}},
		{"docker exec w sh -c 'echo kept >/tmp/f'; docker exec w cat /tmp/f; ls /tmp/f 2>/dev/null", result{out: "kept\n", code: 2}},
		{"docker exec w sh -c 'echo app >/srv-file'; docker exec w cat /srv-file", result{out: "app\n"}},
		{"docker exec w ls /dev/dri | head -1; ls -d /data/made", result{out: "card0\n/data/made\n"}},
		{"docker exec -w /nowhere w true 2>/dev/null", result{code: 127}},
		{"docker exec w no_such 2>&1 | grep -o 'executable file not found'; docker exec w bash -c 'exit 4'", result{out: "executable file not found\n", code: 4}},
		{"docker exec w bash -c 'echo ${CVS_LAB_HELPER-none}'", result{out: "none\n"}},
		{"docker run -d --name bad --entrypoint no_such " + ShippedImage + " >/dev/null 2>&1; echo $?; docker ps -aq --filter name=bad", result{out: "127\n"}},
		{"docker inspect -f '{{.State.Running}}' w", result{out: "true\n"}},
	} {
		if got := run(t, c, tc.command, ""); got != tc.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.command, got, tc.want)
		}
	}
	mustRun(t, c, "docker exec -d w sleep 1000")
	if p, err := marked(envContainer + "=" + id); err != nil || len(p) != 2 {
		t.Errorf("processes of the container: %v, %v", p, err)
	}
	mustRun(t, c, "docker rm -f w")
	if p, err := marked(envContainer + "=" + id); err != nil || len(p) != 0 {
		t.Errorf("rm -f left %v, %v", p, err)
	}
}

// TestIsolatedServer uses port 8000 whatever the machine has there.
func TestIsolatedServer(t *testing.T) {
	t.Parallel()
	l := startIsolated(t, Options{Nodes: 2})
	a, b := dial(t, l, 0), dial(t, l, 1)
	startServer(t, l, a, 8000, "python -m atom.entrypoints.openai_server --model org/m")
	client := &http.Client{Transport: &http.Transport{DialContext: a.DialContext, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://localhost:8000/health")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if _, err := b.Dial("tcp", "127.0.0.1:8000"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("node 1 has the port of node 0: %v", err)
	}
	for name, host := range map[string]string{"address": isolatedIP(0), "name": "lab-node-0"} {
		command := fmt.Sprintf("exec 3<>/dev/tcp/%s/8000 && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && grep -c '\"ok\"' <&3", host)
		if r := run(t, b, command, ""); r.out != "1\n" {
			t.Errorf("by %s: %+v", name, r)
		}
	}
}

// TestIsolatedEnd: a lab whose program is killed leaves nothing. The holder
// notices by its control socket alone.
func TestIsolatedEnd(t *testing.T) {
	t.Parallel()
	l := startIsolated(t, Options{})
	c := dial(t, l, 0)
	mustRun(t, c, "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo")
	l.fabric.control.Close()
	eventually(t, func() bool { p, err := l.Processes(); return err == nil && len(p) == 0 }, func() string { return "processes are left" })
}
