package collect

import (
	"slices"
	"testing"
	"time"

	"cvs/collect/remote"
)

// lockFor is the command that holds a node's lock, with a lease in seconds.
func lockFor(seconds string) remote.Command {
	c := command((&commands{}).lock())
	c.Args = slices.Clone(c.Args)
	c.Args[len(c.Args)-1] = seconds
	return c
}

// take holds the lock, or says with which status the node refused.
func take(t *testing.T, n Node, seconds string, every time.Duration) (*holding, int) {
	t.Helper()
	h, res, err := hold(t.Context(), n, lockFor(seconds), every)
	if err != nil {
		t.Fatal(err)
	}
	return h, res.ExitCode
}

func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case <-t.Context().Done():
			t.Fatal(what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestLockLease: a launcher that is not heard of any more loses the node, though
// its connection seems to stand; one that is heard of keeps it.
func TestLockLease(t *testing.T) {
	t.Parallel()
	silent, heard := newLocalNode(t), newLocalNode(t)
	kept, code := take(t, heard, "5", 100*time.Millisecond)
	if kept == nil {
		t.Fatalf("locking a free node: status %d", code)
	}
	lost, code := take(t, silent, "5", time.Hour)
	if lost == nil {
		t.Fatalf("locking a free node: status %d", code)
	}
	if h, code := take(t, silent, "5", time.Hour); h != nil && !lost.ended() || h == nil && code != 75 {
		t.Errorf("the lease is not over, but another got the lock: status %d", code)
	} else if h != nil { // a machine that stood still for all of the lease
		h.release()
	}
	waitUntil(t, "the silent launcher keeps the lock", lost.ended)
	if kept.ended() {
		t.Error("the lock is lost although its launcher is heard of")
	}
	if h, code := take(t, heard, "5", time.Hour); h != nil || code != 75 {
		t.Errorf("two have the lock: status %d", code)
	}
	again, code := take(t, silent, "5", time.Hour)
	if again == nil {
		t.Fatalf("the lease is over, but the lock is not to be had: status %d", code)
	}
	for _, h := range []*holding{lost, again, kept} {
		h.release()
	}
	for _, n := range []*localNode{silent, heard} {
		waitUntil(t, "something of the lock is left", func() bool { return len(n.processes()) == 0 })
		if h, code := take(t, n, "5", time.Hour); h == nil {
			t.Errorf("after the release the lock is not to be had: status %d", code)
		} else {
			h.release()
		}
	}
}

// TestStillLocked: a member whose lock ran out takes it again before it starts a
// server, and does not where somebody else has the node by now.
func TestStillLocked(t *testing.T) {
	t.Parallel()
	r, n := localRun(t)
	x := &run{r: r, p: r.Plan}
	m := &member{run: x, node: n, cmds: &commands{}}
	m.held, _ = take(t, n, "1", time.Hour)
	waitUntil(t, "the lock does not run out", m.held.ended)
	if err := m.stillLocked(t.Context()); err != nil || m.held.ended() {
		t.Fatalf("the lock is not taken again: %v", err)
	}
	if err := m.stillLocked(t.Context()); err != nil {
		t.Errorf("a lock that holds: %v", err)
	}
	m.unlock()
	m.held, _ = take(t, n, "1", time.Hour)
	waitUntil(t, "the lock does not run out", m.held.ended)
	other, _ := take(t, n, "30", time.Hour)
	defer other.release()
	if err := m.stillLocked(t.Context()); err == nil {
		t.Error("the node of another run is used")
	}
}
