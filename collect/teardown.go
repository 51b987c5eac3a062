package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/container"
)

// teardown stops what the run started and removes what it made, in every case
// and on every node: also after a cancelled ctx, with a limit of its own. Its
// error says what may have been left behind.
func (x *run) teardown(ctx context.Context) error {
	limit := x.r.Options.TeardownTimeout
	if limit == 0 {
		limit = defaultTeardown
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()

	// Clients and servers first, on all nodes: ranks depend on each other.
	stopped := x.stopAll(ctx)
	err := x.each(func(m *member) error {
		if m.node == nil {
			return nil
		}
		if m.unkeep != nil {
			m.unkeep()
		}
		tried := false
		err := x.record(ctx, artifact.Stage{Stage: "teardown", Host: m.host()}, func(ctx context.Context) error {
			tried = true
			return m.cleanUp(ctx, stopped[m])
		})
		if !tried { // a full disk here keeps nothing alive there
			err = errors.Join(err, m.cleanUp(ctx, stopped[m]))
		}
		m.unlock()
		// A connection that does not close properly keeps nothing of ours alive.
		_ = m.node.Close()
		return err
	})
	x.unwatch()
	return err
}

// stopAll reconnects to lost nodes and stops client and server. It returns what
// could not be stopped, by node.
func (x *run) stopAll(ctx context.Context) map[*member]error {
	out := map[*member]error{}
	errs := make([]error, len(x.members))
	_ = x.each(func(m *member) error {
		if m.node != nil && m.gone() != nil && (m.launched || m.workMade) {
			errs[m.rank] = m.reconnect(ctx)
		}
		return nil
	})
	for i, m := range x.members {
		if errs[i] != nil {
			out[m] = fmt.Errorf("%s does not answer any more: whether container and processes are still there is unknown: %w", m.host(), errs[i])
		}
	}
	if head := x.head(); x.clientJob != "" && out[head] == nil {
		out[head] = head.stopJob(ctx, "teardown", x.clientJob)
	}
	if s := x.server; s != nil {
		for i := len(s.ranks) - 1; i >= 0; i-- {
			if r := s.ranks[i]; r.started && r.m.gone() == nil {
				out[r.m] = errors.Join(out[r.m], r.m.stopJob(ctx, "teardown", r.job))
			}
		}
		for _, r := range s.ranks {
			if !r.started || r.m.gone() != nil || out[r.m] != nil {
				continue
			}
			r.m.http.CloseIdleConnections()
			if err := r.m.waitPorts(ctx, x.grace()); err != nil {
				out[r.m] = errors.Join(out[r.m], fmt.Errorf("the server was stopped, but %w", err))
			}
		}
	}
	return out
}

// cleanUp removes what the run made on one node. Stopped is what could not be
// stopped there.
func (m *member) cleanUp(ctx context.Context, stopped error) error {
	x := m.run
	if m.gone() != nil {
		return stopped
	}
	errs := []error{stopped}
	if m.workMade {
		if _, err := m.must(ctx, m.cmds.removeWork()); err != nil {
			errs = append(errs, fmt.Errorf("removing the environment file: %w", err))
		}
	}
	if !x.keepsContainer() && m.launched {
		// What cannot be stopped by its ids ends with its container.
		if got, err := m.removeContainer(ctx); got != container.Removed {
			errs = append(errs, fmt.Errorf("container %s on %s: %v: %w", x.p.Container.Name, m.host(), got, err))
		} else {
			errs = []error{m.endKeeper(ctx)}
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		m.launched, m.workMade = false, false
		m.leaves()
	}
	return err
}

// leaves says what would be left on the node if the run ended now.
func (m *member) leaves() {
	x, name := m.run, m.run.p.Container.Name
	text := ""
	switch {
	case m.launched && !x.keepsContainer():
		text = fmt.Sprintf("container %s on %s may be left; the node removes it after %v, because nobody renews its lease; if it does not: docker rm -f %s", name, m.host(), lease, name)
	case m.workMade:
		text = fmt.Sprintf("processes in container %s on %s may be left; they end within %v, because nobody renews their lease", name, m.host(), lease)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left == nil {
		x.left = map[int]string{}
	}
	if x.left[m.rank] = text; x.r.Left == nil {
		return
	}
	var all []string
	for i := range x.members {
		if s := x.left[i]; s != "" {
			all = append(all, s)
		}
	}
	x.r.Left(all)
}

// removeContainer removes the container of this run, and only that.
func (m *member) removeContainer(ctx context.Context) (container.Removal, error) {
	st, err := m.inspect(ctx, "teardown")
	if err != nil {
		return container.Unknown, err
	}
	if !st.Present || st.Labels[container.LabelRunID] != m.cmds.id.RunID {
		return container.Removed, nil
	}
	_, rmErr := m.must(ctx, m.cmds.removeContainer("teardown"))
	st, err = m.inspect(ctx, "teardown")
	got := container.Outcome(st, err)
	if got == container.StillThere && rmErr == nil {
		rmErr = errors.New("docker rm succeeded, but it is there")
	}
	return got, errors.Join(rmErr, err)
}

// reconnect tries until the teardown's time is up: a node that comes back must
// not keep what was started on it.
func (m *member) reconnect(ctx context.Context) error {
	x, cause := m.run, m.gone()
	_ = m.node.Close()
	m.unlock() // the lock went with the connection; this ends its watch
	if s := x.server; s != nil {
		for _, r := range s.ranks {
			if r.m == m {
				r.cancel()
			}
		}
	}
	for {
		n, err := x.r.Dial(ctx, m.at)
		if err == nil {
			m.attach(n)
			return nil
		}
		if x.r.Sleep(ctx, 2*time.Second) != nil {
			return errors.Join(cause, err)
		}
	}
}
