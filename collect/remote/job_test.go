package remote

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// local runs commands on this machine, without SSH, with the programs of one
// folder only if path is set.
type local struct{ path string }

func (l local) Run(ctx context.Context, c Command) (Result, error) {
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if l.path != "" {
		cmd.Env = []string{"PATH=" + l.path}
	}
	err := cmd.Run()
	if ee := new(exec.ExitError); err != nil && !errors.As(err, &ee) {
		return Result{}, err
	}
	return Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out.Bytes(), Stderr: errOut.Bytes()}, nil
}

// withoutSetsid is a PATH with everything that the scripts need but setsid.
func withoutSetsid(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range []string{"sh", "bash", "env", "mkdir", "mkfifo", "date", "cat", "mv", "rm", "rmdir", "sleep", "timeout", "true"} {
		full, err := exec.LookPath(p)
		must(t, err)
		must(t, os.Symlink(full, filepath.Join(dir, p)))
	}
	return dir
}

// onEveryRunner runs a test with setsid, without it, and under a prefix.
func onEveryRunner(t *testing.T, f func(t *testing.T, r Runner, j Job)) {
	for name, r := range map[string]Runner{"setsid": local{}, "bash": local{path: withoutSetsid(t)}, "prefix": local{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := Job{Dir: filepath.Join(t.TempDir(), "my job's $(dir)")}
			if name == "prefix" {
				j.Prefix = []string{"env", "IN_CONTAINER=1"}
			}
			t.Cleanup(func() {
				if err := j.Kill(context.Background(), r, 0); err != nil {
					t.Error(err)
				}
			})
			f(t, r, j)
		})
	}
}

func start(t *testing.T, r Runner, j Job) int {
	t.Helper()
	pid, err := j.Start(t.Context(), r)
	must(t, err)
	return pid
}

func log(t *testing.T, j Job) string {
	t.Helper()
	b, err := os.ReadFile(j.LogFile())
	must(t, err)
	return string(b)
}

func TestJobEnds(t *testing.T) {
	t.Parallel()
	onEveryRunner(t, func(t *testing.T, r Runner, j Job) {
		if s, err := j.Poll(t.Context(), r); err != nil || s.Phase != JobNone {
			t.Errorf("before the start: %+v, %v", s, err)
		}
		j.WorkDir = t.TempDir()
		j.Env = []string{"A=b c'd\n$e"}
		j.Args = []string{"sh", "-c", `printf '%s|%s|%s\n' "$A" "$PWD" "$1"; echo err >&2; read x || echo no input; exit 7`, "x", "it's \"$HOME\" `id`\\"}
		start(t, r, j)
		s, err := j.Wait(t.Context(), r)
		if want := (JobState{Phase: JobExited, ExitCode: 7}); err != nil || s != want {
			t.Errorf("state = %+v, %v, want %+v", s, err, want)
		}
		if want := "b c'd\n$e|" + j.WorkDir + "|it's \"$HOME\" `id`\\\nerr\nno input\n"; log(t, j) != want {
			t.Errorf("log = %q, want %q", log(t, j), want)
		}
		if _, err := j.Start(t.Context(), r); !errors.Is(err, ErrJobStarted) {
			t.Errorf("second start: %v", err)
		}
		must(t, j.Clean(t.Context(), r))
		if _, err := os.Stat(j.Dir); !os.IsNotExist(err) {
			t.Errorf("folder after Clean: %v", err)
		}
	})
}

// A job that ignores TERM, with a child that went its own way, is ended by KILL;
// nothing of it is left, and nothing else is touched.
func TestJobKill(t *testing.T) {
	t.Parallel()
	onEveryRunner(t, func(t *testing.T, r Runner, j Job) {
		other := exec.Command("sleep", "300")
		must(t, other.Start())
		defer func() { _ = other.Process.Kill(); _ = other.Wait() }()

		child := filepath.Join(t.TempDir(), "child")
		j.Args = []string{"sh", "-c", `trap '' TERM; sleep 301 & echo $! >"$1.new"; mv "$1.new" "$1"; while :; do sleep 302; done`, "x", child}
		pid := start(t, r, j)
		if s, err := j.Poll(t.Context(), r); err != nil || s.Phase != JobRunning {
			t.Errorf("running job: %+v, %v", s, err)
		}
		grandchild := waitForPID(t, child)
		must(t, j.Kill(t.Context(), r, time.Second))
		for _, p := range []int{pid, grandchild} {
			if alive(p) {
				t.Errorf("process %d survived", p)
			}
		}
		s, err := j.Poll(t.Context(), r)
		if err != nil || s.Phase != JobExited || s.ExitCode != 137 {
			t.Errorf("after Kill: %+v, %v", s, err)
		}
		must(t, j.Kill(t.Context(), r, time.Second)) // again does nothing
		if !alive(other.Process.Pid) {
			t.Error("a process of nobody's was killed")
		}
	})
}

// What a job leaves behind after its first process ended is found and ended.
func TestJobKillLeftovers(t *testing.T) {
	t.Parallel()
	onEveryRunner(t, func(t *testing.T, r Runner, j Job) {
		child := filepath.Join(t.TempDir(), "child")
		j.Args = []string{"sh", "-c", `sleep 303 & echo $! >"$1"`, "x", child}
		start(t, r, j)
		if s, err := j.Wait(t.Context(), r); err != nil || s.Phase != JobExited {
			t.Fatalf("state = %+v, %v", s, err)
		}
		left := waitForPID(t, child)
		if !alive(left) {
			t.Fatal("the leftover is gone too early for this test")
		}
		must(t, j.Kill(t.Context(), r, time.Second))
		if alive(left) {
			t.Error("the leftover survived")
		}
	})
}

func TestJobLease(t *testing.T) {
	t.Parallel()
	onEveryRunner(t, func(t *testing.T, r Runner, j Job) {
		j.Lease = 2 * time.Second
		j.Args = []string{"sh", "-c", "sleep 304 & sleep 305"}
		began := time.Now()
		pid := start(t, r, j)
		// Waiting renews; the job outlives its lease several times over.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for ctx.Err() == nil {
			s, err := j.wait(t.Context(), r, 500*time.Millisecond)
			if err != nil || s.Phase != JobRunning {
				t.Fatalf("after %s: %+v, %v", time.Since(began), s, err)
			}
		}
		// Reading only, as nobody would be there: the supervisor's pipe ends.
		quiet := j
		quiet.Lease = 0
		s, err := quiet.wait(t.Context(), r, 30*time.Second)
		if want := (JobState{Phase: JobExited, ExitCode: 143, LeaseExpired: true}); err != nil || s != want {
			t.Errorf("state = %+v, %v, want %+v", s, err, want)
		}
		if alive(pid) {
			t.Error("the job survived its lease")
		}
	})
}

func TestJobNotFound(t *testing.T) {
	t.Parallel()
	onEveryRunner(t, func(t *testing.T, r Runner, j Job) {
		j.Args = []string{"no-such-program"}
		start(t, r, j)
		s, err := j.Wait(t.Context(), r)
		if err != nil || s.ExitCode != 127 || !strings.Contains(log(t, j), "no-such-program") {
			t.Errorf("state = %+v, %v, log %q", s, err, log(t, j))
		}
	})
}

func TestJobSupervisorKilled(t *testing.T) {
	t.Parallel()
	onEveryRunner(t, func(t *testing.T, r Runner, j Job) {
		j.Args = []string{"sleep", "306"}
		pid := start(t, r, j)
		must(t, syscall.Kill(parent(t, pid), syscall.SIGKILL))
		s, err := j.Wait(t.Context(), r)
		if err != nil || s.Phase != JobLost {
			t.Errorf("state = %+v, %v, want lost", s, err)
		}
		must(t, j.Kill(t.Context(), r, time.Second))
		if alive(pid) {
			t.Error("the job survived Kill")
		}
	})
}

func TestJobRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, j := range []Job{
		{Dir: "relative", Args: []string{"true"}},
		{Dir: dir},
		{Dir: dir, Args: []string{"-x"}},
		{Dir: dir, Args: []string{"true"}, Env: []string{"x"}},
		{Dir: dir, Args: []string{"true", "a\x00b"}},
		{Dir: dir, Args: []string{"true"}, Lease: time.Second, LeaseFile: "x"},
	} {
		if _, err := j.Start(t.Context(), local{}); err == nil {
			t.Errorf("%+v was started", j)
		}
	}
	j := Job{Dir: filepath.Join(dir, "j"), Args: []string{"true"}, WorkDir: filepath.Join(dir, "none")}
	if _, err := j.Start(t.Context(), local{}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("start in a folder that is not there: %v", err)
	}
}

func FuzzParseState(f *testing.F) {
	for _, s := range []string{"running", "exited 0", "exited 143 lease", "exited", "exited -1", "lost x", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, out string) {
		s, err := parseState(out)
		if err == nil && (s.Phase == "" || s.Phase != JobExited && s.ExitCode != 0 || s.ExitCode < 0 || s.ExitCode > 255) {
			t.Errorf("%q gave %+v", out, s)
		}
	})
}

// waitForPID waits until a file with a process id is there.
func waitForPID(t *testing.T, file string) int {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if b, err := os.ReadFile(file); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				return pid
			}
		}
		<-tick.C
	}
	t.Fatal("no process id in", file)
	return 0
}

// waitForEnd waits until a process is gone.
func waitForEnd(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if !alive(pid) {
			return
		}
		<-tick.C
	}
	t.Errorf("process %d does not end", pid)
}

// stat gives the fields of /proc/PID/stat after the name, nil if there is none.
func stat(pid int) []string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func alive(pid int) bool {
	f := stat(pid)
	return f != nil && f[0] != "Z" && f[0] != "X"
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	f := stat(pid)
	if f == nil {
		t.Fatalf("process %d is gone", pid)
	}
	n, err := strconv.Atoi(f[1])
	must(t, err)
	return n
}

// TestJobHelpersEnd: what watches a lease ends with the job and is not left to
// sleep until its next look.
func TestJobHelpersEnd(t *testing.T) {
	t.Parallel()
	tick := 100_000 + os.Getpid()%10_000*20 // seconds; a number that only this process sleeps for
	for i, r := range []Runner{local{}, local{path: withoutSetsid(t)}} {
		for k := range 5 { // a helper may be met at any point of its loop
			tick := tick + 5*i + k
			j := Job{Dir: filepath.Join(t.TempDir(), "job"), Args: []string{"true"}, Lease: time.Duration(6*tick) * time.Second}
			start(t, r, j)
			s, err := j.Wait(t.Context(), r)
			must(t, err)
			if s.Phase != JobExited || s.ExitCode != 0 {
				t.Fatalf("state %+v", s)
			}
			for _, text := range []string{j.Dir, "sleep\x00" + strconv.Itoa(tick) + "\x00"} {
				if left := naming(t, text); len(left) > 0 {
					t.Errorf("the job has ended and left %q", left)
				}
			}
		}
	}
}

// naming lists the command lines that hold a text.
func naming(t *testing.T, text string) (out []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f) // it may have ended by now
		if err == nil && bytes.Contains(b, []byte(text)) {
			out = append(out, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}
