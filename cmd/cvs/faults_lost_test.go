package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cvs/collect/lab"
)

// The faults at a moment: of the network, of disks, and of the launcher itself.

// atClient does something once the client of a cell is about to run. The
// function it returns waits until that was done.
func (c *runCase) atClient(cell string, do func()) (wait func()) {
	done, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for !strings.Contains(c.out.String(), " client  "+c.lab.Addr(0)+"  "+cell+"  …") {
			select {
			case <-stop:
				c.t.Errorf("the client of %s never ran", cell)
				return
			case <-time.After(time.Millisecond):
			}
		}
		do()
	}()
	return func() { close(stop); <-done }
}

// TestFaultConnectionLostBriefly loses the network for 5 s while a client runs:
// once it swallows packets, once the connection breaks.
func TestFaultConnectionLostBriefly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(l *lab.Lab, on bool)
		says []string
	}{
		"swallowed": {func(l *lab.Lab, on bool) { l.Freeze(0, on) }, []string{"2 measured"}},
		"broken":    {func(l *lab.Lab, on bool) { l.Unplug(0, on) }, []string{"2 measured", "the connection to ", " broke (", "and was made anew after"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFaultCase(t, lab.Faults{})
			wait := c.atClient(firstCell, func() {
				tt.lose(c.lab, true)
				time.Sleep(5 * time.Second) // the loss itself
				tt.lose(c.lab, false)
			})
			c.fault(0, []string{firstCell, secondCell}, tt.says...)
			wait()
		})
	}
}

// TestFaultConnectionLostForGood loses the node in the second cell. What is left
// on it ends by its lease, and a resumed run takes the rest.
func TestFaultConnectionLostForGood(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientHangs, ClientConcurrency: 16})
	before := c.inventory()
	c.args = []string{"--reconnect", "1s", "--teardown-timeout", "3s"}
	wait := c.atClient(secondCell, func() { c.lab.Unplug(0, true) })
	c.expect(4, "no new connection within 1s", "whether container and processes are still there is unknown", "1 measured")
	wait()
	c.keeps(firstCell)
	c.lab.Unplug(0, false)
	c.leaseEnds(before)
	c.resumes(before)
}

// leaseEnds waits, with CVS_TEST_REAL=1, until everything that lost its launcher
// is gone from the node, the container included.
func (c *runCase) leaseEnds(before []string) {
	c.t.Helper()
	if os.Getenv("CVS_TEST_REAL") != "1" {
		return
	}
	var now []string
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if now = c.inventory(); slices.Equal(now, before) {
			return
		}
	}
	c.t.Errorf("after the lease: %q, before the run: %q", now, before)
}

// resumes goes on with the run on a node that is well again, after which nothing
// of any attempt is left.
func (c *runCase) resumes(before []string) {
	c.t.Helper()
	check(c.t, c.lab.SetFaults(0, lab.Faults{}))
	c.args, c.out = []string{"--resume", c.runDir()}, &lockedBuffer{}
	c.expect(0, "re-used", "2 measured")
	c.keeps(firstCell, secondCell)
	c.leavesNothing(before)
}

// A launcher is cvs run as a process of its own.
type launcher struct {
	c   *runCase
	cmd *exec.Cmd
}

func (c *runCase) launch() *launcher {
	c.t.Helper()
	exe, err := os.Executable()
	check(c.t, err)
	tmp := c.t.TempDir()
	c.env["TMPDIR"] = tmp
	l := &launcher{c, exec.Command(exe, c.argv()...)}
	l.cmd.Env = []string{asCVS + "=1", "TMPDIR=" + tmp, "HOME=" + tmp, "PATH=/usr/bin:/bin"}
	l.cmd.Stdout, l.cmd.Stderr = c.out, c.out
	check(c.t, l.cmd.Start())
	c.t.Cleanup(func() { _ = l.cmd.Process.Kill() }) // long gone, unless the test failed
	return l
}

func (l *launcher) signal(s os.Signal) {
	l.c.t.Helper()
	check(l.c.t, l.cmd.Process.Signal(s))
}

// until waits for something in the output.
func (l *launcher) until(says string) {
	l.c.t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(l.c.out.String(), says); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			l.c.t.Fatalf("%q is not said\n%s", says, l.c.out.String())
		}
	}
}

// ends waits for the exit status, -1 for a signal.
func (l *launcher) ends() int {
	l.c.t.Helper()
	err := l.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.c.t.Fatal(err)
	}
	return l.cmd.ProcessState.ExitCode()
}

// TestFaultLauncherKilled kills the launcher with -9 in the second cell and goes
// on with the run.
func TestFaultLauncherKilled(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientHangs, ClientConcurrency: 16})
	before := c.inventory()
	l := c.launch()
	l.until(" client  " + c.lab.Addr(0) + "  " + secondCell + "  …")
	l.signal(syscall.SIGKILL)
	if code := l.ends(); code != -1 {
		t.Errorf("exit %d", code)
	}
	c.keepsCutOff(firstCell)
	c.leaseEnds(before)
	c.resumes(before)
}

// TestFaultInterrupted sends Ctrl-C while a client runs: all is torn down.
func TestFaultInterrupted(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientHangs, ClientConcurrency: 16})
	before := c.inventory()
	l := c.launch()
	l.until(" client  " + c.lab.Addr(0) + "  " + secondCell + "  …")
	l.signal(syscall.SIGINT)
	if code := l.ends(); code != 130 {
		t.Errorf("exit %d, want 130\n%s", code, c.out.String())
	}
	c.says("interrupted: cleaning up; interrupt again to end at once", "run interrupted", "1 measured")
	c.keeps(firstCell)
	c.leavesNothing(before)
}

// TestFaultInterruptedTwice sends Ctrl-C again while the teardown waits for a
// mute node: cvs ends at once and says what is left.
func TestFaultInterruptedTwice(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientHangs, ClientConcurrency: 16})
	before := c.inventory()
	l := c.launch()
	l.until(" client  " + c.lab.Addr(0) + "  " + secondCell + "  …")
	c.lab.Freeze(0, true)
	l.signal(syscall.SIGINT)
	l.until("interrupted: cleaning up")
	l.signal(syscall.SIGINT)
	if code := l.ends(); code != 130 {
		t.Errorf("exit %d, want 130\n%s", code, c.out.String())
	}
	c.says("interrupted again", "container cvs-lab on "+c.lab.Addr(0)+" may be left", "docker rm -f cvs-lab", "cvs run atom --resume "+filepath.Base(c.runDir()))
	c.keepsCutOff(firstCell)
	c.lab.Freeze(0, false)
	c.leaseEnds(before)
	c.resumes(before)
}

// smallDisk mounts a file system of that size over a folder.
func smallDisk(t *testing.T, dir, size string) {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("needs a file system of its own:", err)
		}
		t.Skip("needs a file system of its own:", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

// fillDisk leaves no byte free; the function it returns makes room again.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "others")
	for size := 1 << 20; size > 0; size /= 2 {
		for {
			f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			check(t, err)
			_, err = f.Write(make([]byte, size))
			check(t, f.Close())
			if err != nil {
				break
			}
		}
	}
	return func() { check(t, os.Remove(name)) }
}

func TestFaultNodeDiskFull(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientSlow, ClientConcurrency: 16})
	disk := filepath.Join(filepath.Dir(c.lab.TokenFile()), "disk")
	smallDisk(t, disk, "4m")
	sub(c.config, "paths")["log_dir"] = disk
	wait := c.atClient(secondCell, func() { fillDisk(t, disk) })
	c.fault(4, []string{firstCell}, "the disk of "+disk, "is full (0 KiB free)", "1 measured")
	wait()
}

func TestFaultLauncherDiskFull(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t, lab.Faults{Client: lab.ClientSlow, ClientConcurrency: 16})
	disk := filepath.Join(c.dir, "work")
	smallDisk(t, disk, "16m")
	before := c.inventory()
	var free func()
	wait := c.atClient(secondCell, func() { free = fillDisk(t, disk) })
	c.expect(5, "no space left on device")
	wait()
	c.leavesNothing(before)
	free()
	c.keepsCutOff(firstCell)
}
