package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// marked lists the processes whose environment holds the entry, without the
// caller. The entry is a random id that only the lab hands out and that every
// descendant inherits, also one that made a session of its own or lost its
// parent; so it finds all of them and nobody else's. Zombies have no
// environment left and do not count. It needs /proc; elsewhere it fails with
// fs.ErrNotExist.
func marked(entry string) ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("reading /proc: %w", fs.ErrNotExist)
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if carries(pid, entry) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// carries reports whether the process lives and has the entry in its
// environment. In the middle of an exec the environment reads as empty for a
// moment, as it does for ever in a zombie or a kernel thread; only the first
// still has an executable, and is looked at again.
func carries(pid int, entry string) bool {
	dir := fmt.Sprintf("/proc/%d", pid)
	want := append([]byte(entry), 0)
	for range 20 {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil {
			return false // gone, or another user's
		}
		if len(env) > 0 {
			return bytes.HasPrefix(env, want) || bytes.Contains(env, append([]byte{0}, want...))
		}
		if _, err := os.Readlink(dir + "/exe"); err != nil {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// killMarked ends the processes that carry the entry: TERM, then KILL after
// grace (0: KILL at once), until none is left. except is spared.
func killMarked(ctx context.Context, entry string, grace time.Duration, except ...int) error {
	sig := syscall.SIGTERM
	deadline := time.Now().Add(grace)
	giveUp := deadline.Add(5 * time.Second)
	signalled := map[int]bool{}
	empty := 0
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids, err := marked(entry)
		if err != nil {
			return err
		}
		if !time.Now().Before(deadline) && sig == syscall.SIGTERM {
			sig = syscall.SIGKILL
			clear(signalled)
		}
		left := 0
		for _, pid := range pids {
			if contains(except, pid) {
				continue
			}
			left++
			if !signalled[pid] || sig == syscall.SIGKILL {
				signalled[pid] = true
				if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("ending process %d: %w", pid, err)
				}
			}
		}
		// A parent may have forked behind the scan's back and died: only a
		// second empty scan proves that nobody is left.
		if left > 0 {
			empty = 0
		} else if empty++; empty == 2 {
			return nil
		}
		if left > 0 && time.Now().After(giveUp) {
			return fmt.Errorf("processes %v do not end", pids)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func contains(list []int, n int) bool {
	for _, v := range list {
		if v == n {
			return true
		}
	}
	return false
}
