package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRunOutcomes(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, func(s *server) { s.bashrc = `echo "Welcome to $HOSTNAME"; echo warning >&2` })
	testOutcomes(t, dial(t, c))
}

// testOutcomes holds for the test's server and for a real sshd.
func testOutcomes(t *testing.T, h *Host) {
	dir := t.TempDir()
	tests := []struct {
		name string
		cmd  Command
		want Result
	}{
		{"streams apart", Command{Args: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}}, Result{ExitCode: 3, Stdout: []byte("out\n"), Stderr: []byte("err\n")}},
		{"empty", Command{Args: []string{"true"}}, Result{}},
		{"killed", Command{Args: []string{"sh", "-c", "kill -KILL $$"}}, Result{ExitCode: 137, Signal: "KILL"}},
		{"stdin", Command{Args: []string{"cat"}, Stdin: strings.NewReader("a\x00b\r\n")}, Result{Stdout: []byte("a\x00b\r\n")}},
		{"stdin not read", Command{Args: []string{"true"}, Stdin: bytes.NewReader(make([]byte, 8<<20))}, Result{}},
		{"no stdin", Command{Args: []string{"cat"}}, Result{}},
		{"env and dir", Command{Args: []string{"sh", "-c", `printf '%s|%s' "$X" "$PWD"`}, Env: []string{"X=it's\n$HOME `id` é"}, Dir: dir}, Result{Stdout: []byte("it's\n$HOME `id` é|" + dir)}},
		{"no such dir", Command{Args: []string{"true"}, Dir: dir + "/none"}, Result{ExitCode: 126}},
		{"no such program", Command{Args: []string{"no-such-program"}}, Result{ExitCode: 127}},
		{"keyword", Command{Args: []string{"if"}}, Result{ExitCode: 127}},
		{"assignment", Command{Args: []string{"A=b", "true"}}, Result{ExitCode: 127}},
		{"head of stdout", Command{Args: []string{"printf", "abcdef"}, MaxOutput: 4}, Result{Stdout: []byte("abcd"), Truncated: true}},
		{"tail of stderr", Command{Args: []string{"sh", "-c", "printf abcdef >&2"}, MaxOutput: 4}, Result{Stderr: []byte("cdef"), Truncated: true}},
		{"exactly the limit", Command{Args: []string{"printf", "abcd"}, MaxOutput: 4}, Result{Stdout: []byte("abcd")}},
	}
	for _, tt := range tests {
		res, err := h.Run(t.Context(), tt.cmd)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if tt.want.Stderr == nil { // the shell's own words are not ours to pin
			res.Stderr = nil
		}
		if res.ExitCode != tt.want.ExitCode || res.Signal != tt.want.Signal || res.Truncated != tt.want.Truncated ||
			!bytes.Equal(res.Stdout, tt.want.Stdout) || !bytes.Equal(res.Stderr, tt.want.Stderr) {
			t.Errorf("%s: %+v, want %+v", tt.name, res, tt.want)
		}
		if res.Duration <= 0 {
			t.Errorf("%s: no duration", tt.name)
		}
	}
}

func TestRunRefusesBeforeSending(t *testing.T) {
	t.Parallel()
	for _, c := range []Command{
		{}, {Args: []string{""}}, {Args: []string{"-c"}}, {Args: []string{"true", "a\x00"}},
		{Args: []string{"true"}, Env: []string{"novalue"}}, {Args: []string{"true"}, Env: []string{"=x"}},
		{Args: []string{"true"}, Env: []string{"-i=x"}}, {Args: []string{"a=b"}, Env: []string{"X=1"}},
		{Args: []string{"true", strings.Repeat("x", 128<<10)}},
	} {
		if line, err := c.Line(); err == nil {
			t.Errorf("%q was accepted: %.60s", c.Args, line)
		}
	}
}

func TestHugeOutput(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, nil)
	h := dial(t, c)
	res, err := h.Run(t.Context(), Command{Args: []string{"sh", "-c", "yes | head -c 50000000; yes | head -c 50000000 >&2"}, MaxOutput: 1 << 20})
	must(t, err)
	if len(res.Stdout) != 1<<20 || len(res.Stderr) != 1<<20 || !res.Truncated || res.ExitCode != 0 {
		t.Errorf("%d and %d bytes, truncated %v", len(res.Stdout), len(res.Stderr), res.Truncated)
	}
	var n countWriter
	_, err = h.Stream(t.Context(), Command{Args: []string{"head", "-c", "30000000", "/dev/zero"}}, &n, nil)
	if err != nil || n != 30000000 {
		t.Errorf("streamed %d bytes, %v", n, err)
	}
}

type countWriter int

func (c *countWriter) Write(p []byte) (int, error) { *c += countWriter(len(p)); return len(p), nil }

func TestShellThatNeverStarts(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, func(s *server) { s.bashrc = "echo This account is currently not available.; exit 1" })
	_, err := dial(t, c).Run(t.Context(), Command{Args: []string{"true"}})
	var se *ShellError
	if !errors.As(err, &se) || se.ExitCode != 1 || !strings.Contains(se.Output, "not available") || !errors.Is(err, ErrRemote) {
		t.Errorf("err = %v", err)
	}
}

// TestManySessions runs more commands at once than the server has sessions for.
func TestManySessions(t *testing.T) {
	t.Parallel()
	s, c := newServer(t, func(s *server) { s.maxSessions = 2 })
	h := dial(t, c)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			res, err := h.Run(t.Context(), Command{Args: []string{"echo", fmt.Sprint(i)}})
			if err != nil || string(res.Stdout) != fmt.Sprintln(i) {
				t.Errorf("%d: %q, %v", i, res.Stdout, err)
			}
		})
	}
	wg.Wait()
	if s.logins != 1 {
		t.Errorf("%d connections, want 1", s.logins)
	}
}

func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, nil)
	h := dial(t, c)
	pidFile := filepath.Join(t.TempDir(), "pid")
	res, err := h.Run(t.Context(), Command{
		Args: []string{"sh", "-c", `echo part; echo $$ >"$1"; exec sleep 310`, "x", pidFile}, Timeout: 300 * time.Millisecond, Name: "bench",
	})
	var te *TimeoutError
	if !errors.As(err, &te) || te.Phase != PhaseCommand || te.Command != "bench" || !errors.Is(err, ErrRemote) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	if string(res.Stdout) != "part\n" {
		t.Errorf("output so far = %q", res.Stdout)
	}
	waitForEnd(t, waitForPID(t, pidFile)) // it got TERM
	if run(t, h, "true").ExitCode != 0 {
		t.Error("the connection did not survive")
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, nil)
	h := dial(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	go func() {
		_, _ = pr.Read(make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, pr)
	}()
	_, err := h.Stream(ctx, Command{Args: []string{"sh", "-c", "echo x; exec sleep 311"}}, pw, nil)
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), "sh interrupted while running") {
		t.Errorf("err = %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := h.Run(ctx, Command{Args: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	if _, err := Dial(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial with a cancelled context: %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriterFails(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, nil)
	h := dial(t, c)
	for _, args := range [][]string{{"yes"}, {"echo", "short"}} {
		_, err := h.Stream(t.Context(), Command{Args: args}, brokenWriter{}, nil)
		if err == nil || !strings.Contains(err.Error(), "disk full") || errors.Is(err, ErrRemote) {
			t.Errorf("%v: err = %v", args, err)
		}
	}
}

func TestFilesOverSSH(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, nil)
	testFiles(t, dial(t, c))
}

func testFiles(t *testing.T, h *Host) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a 'b' $(c)")
	data := bytes.Repeat([]byte("line\r\n\x00\xff"), 100000)
	must(t, h.Put(t.Context(), file, 0o600, data))
	fi, err := os.Stat(file)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", fi.Mode(), err)
	}
	var got bytes.Buffer
	n, err := h.Fetch(t.Context(), file, &got, int64(len(data)))
	if err != nil || n != int64(len(data)) || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("fetched %d bytes, %v", n, err)
	}
	if _, err := h.Fetch(t.Context(), file, io.Discard, int64(len(data))-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if _, err := h.Fetch(t.Context(), file+"x", io.Discard, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := h.Fetch(t.Context(), dir, io.Discard, 1); err == nil || errors.Is(err, ErrRemote) {
		t.Errorf("folder: %v", err)
	}
	const secret = "hf_SENTINEL_0123456789"
	err = h.Put(t.Context(), dir+"/none/x", 0o600, []byte(secret))
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "none/x") {
		t.Errorf("put into a folder that is not there: %v", err)
	}
	must(t, h.Put(t.Context(), file, 0o644, nil))
	if fi, err := os.Stat(file); err != nil || fi.Size() != 0 || fi.Mode().Perm() != 0o644 {
		t.Errorf("replaced: %v, %v", fi, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Half a file, as after a lost connection, does not replace a whole one.
func TestPutCutShort(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(file, []byte("old"), 0o600))
	argv := PutArgs(file, 0o600, 10)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader("half")
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitSize {
		t.Errorf("put of half a file: %v", err)
	}
	left, _ := os.ReadDir(filepath.Dir(file))
	if b, err := os.ReadFile(file); err != nil || string(b) != "old" || len(left) != 1 {
		t.Errorf("file = %q, %v, folder %v", b, err, left)
	}
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	defer web.Close()
	_, c := newServer(t, nil)
	h := dial(t, c)
	client := &http.Client{Transport: h.HTTPTransport()}
	for range 2 {
		resp, err := client.Get(web.URL + "/health")
		must(t, err)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(b) != "/health" {
			t.Errorf("got %q, %v", b, err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ln.Close()
	if _, err := h.DialTCP(t.Context(), ln.Addr().String()); err == nil || errors.Is(err, ErrRemote) {
		t.Errorf("closed port: %v", err)
	}
	h.Close()
	var lost *LostError
	if _, err := h.DialTCP(t.Context(), web.Listener.Addr().String()); !errors.As(err, &lost) {
		t.Errorf("closed connection: %v", err)
	}
}

func TestJobOverSSH(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, nil)
	testJob(t, c)
}

// testJob starts a job over one connection and waits for it over another.
func testJob(t *testing.T, c Config) {
	j := Job{Dir: filepath.Join(t.TempDir(), "job"), Args: []string{"sh", "-c", `cat "$1"; echo done; exit 5`, "x", ""}, Lease: time.Minute}
	fifo := filepath.Join(t.TempDir(), "go")
	must(t, exec.Command("mkfifo", fifo).Run())
	j.Args[4] = fifo
	first := dial(t, c)
	start(t, first, j)
	first.Close()
	second := dial(t, c)
	if s, err := j.Poll(t.Context(), second); err != nil || s.Phase != JobRunning {
		t.Errorf("after a lost connection: %+v, %v", s, err)
	}
	must(t, os.WriteFile(fifo, []byte("go\n"), 0))
	s, err := j.Wait(t.Context(), second)
	if want := (JobState{Phase: JobExited, ExitCode: 5}); err != nil || s != want {
		t.Errorf("state = %+v, %v", s, err)
	}
	if log(t, j) != "go\ndone\n" {
		t.Errorf("log = %q", log(t, j))
	}
	must(t, j.Renew(t.Context(), second))
	must(t, j.Kill(t.Context(), second, time.Second))
	must(t, j.Clean(t.Context(), second))
}
