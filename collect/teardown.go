package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/container"
	"cvs/collect/plan"
)

// teardown stops what the run started and removes what it made, in every case:
// also after a cancelled ctx, with a limit of its own. Its error says what may
// have been left behind.
func (x *run) teardown(ctx context.Context) error {
	if x.node == nil {
		return nil
	}
	limit := x.r.Options.TeardownTimeout
	if limit == 0 {
		limit = defaultTeardown
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := x.record(ctx, artifact.Stage{Stage: "teardown"}, x.cleanUp)
	if x.release != nil {
		x.release()
	}
	if s := x.server; s != nil { // it could not be stopped; only its watch ends
		s.cancel()
		<-s.done
	}
	// A connection that does not close properly keeps nothing of ours alive.
	_ = x.node.Close()
	return err
}

func (x *run) cleanUp(ctx context.Context) error {
	if x.lost != nil && (x.launched || x.workMade) {
		if err := x.reconnect(ctx); err != nil {
			return fmt.Errorf("%s does not answer any more: whether container and processes are still there is unknown: %w", x.cmds.host, err)
		}
	}
	var errs []error
	if x.clientJob != "" {
		errs = append(errs, x.stopJob(ctx, "teardown", x.clientJob))
	}
	errs = append(errs, x.stopServer(ctx))
	if x.workMade {
		if _, err := x.must(ctx, x.cmds.removeWork()); err != nil {
			errs = append(errs, fmt.Errorf("removing the environment file: %w", err))
		}
	}
	if x.p.Container.Lifetime == plan.PerRun && x.launched {
		// What cannot be stopped by its ids ends with its container.
		if got, err := x.removeContainer(ctx); got != container.Removed {
			errs = append(errs, fmt.Errorf("container %s on %s: %v: %w", x.p.Container.Name, x.cmds.host, got, err))
		} else {
			errs = nil
		}
	}
	return errors.Join(errs...)
}

// removeContainer removes the container of this run, and only that.
func (x *run) removeContainer(ctx context.Context) (container.Removal, error) {
	st, err := x.inspect(ctx, "teardown")
	if err != nil {
		return container.Unknown, err
	}
	if !st.Present || st.Labels[container.LabelRunID] != x.cmds.id.RunID {
		return container.Removed, nil
	}
	_, rmErr := x.must(ctx, x.cmds.removeContainer("teardown"))
	st, err = x.inspect(ctx, "teardown")
	got := container.Outcome(st, err)
	if got == container.StillThere && rmErr == nil {
		rmErr = errors.New("docker rm succeeded, but it is there")
	}
	return got, errors.Join(rmErr, err)
}

// reconnect tries until the teardown's time is up: a node that comes back must
// not keep what was started on it.
func (x *run) reconnect(ctx context.Context) error {
	cause := x.lost
	_ = x.node.Close()
	if x.release != nil { // the lock went with the connection; this ends its watch
		x.release()
		x.release = nil
	}
	if s := x.server; s != nil {
		s.cancel()
	}
	for {
		n, err := x.r.Dial(ctx, x.p.Cluster.Nodes[0])
		if err == nil {
			x.attach(n)
			return nil
		}
		if x.r.Sleep(ctx, 2*time.Second) != nil {
			return errors.Join(cause, err)
		}
	}
}
