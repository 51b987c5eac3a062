package collect

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"cvs/collect/remote"
)

// keeperScript waits on the node, outside the container. When it is ended
// because nobody renewed its lease, it removes the container, and what it left
// itself.
//
//go:embed script/keeper.sh
var keeperScript string

// keeperWork is the keeper's folder, on the node itself; see [commands.samplerWork]
// for its name.
func (c *commands) keeperWork(attempt int) string {
	return "/tmp/cvs-keeper-" + c.id.RunID + "-r" + strconv.Itoa(c.rank) + "-" + strconv.Itoa(attempt)
}

// keeper is the job that removes a per-run container when the launcher is gone
// for a lease: jobs in the container end by their own leases, but the container
// itself would stay for ever.
func (c *commands) keeper(attempt int) remote.Job {
	dir := c.keeperWork(attempt)
	rm := c.docker.Remove(c.p.Container.Name).Args
	args := append([]string{"sh", "-c", keeperScript, "sh", dir, c.work(), c.p.Container.Name}, rm[:len(rm)-3]...)
	return remote.Job{Dir: dir + "/job", Lease: lease, Args: args}
}

func (c *commands) startKeeper() Step {
	return c.plain("container", c.keeper(max(c.attempt, 1)).StartArgs(), probeTimeout)
}

// stopKeeper also ends the keepers of earlier attempts, whose launchers died.
func (c *commands) stopKeeper() []Step {
	var out []Step
	for i := range max(c.attempt, 1) {
		out = append(out, c.plain("teardown", c.keeper(i+1).KillArgs(time.Second), fileTimeout),
			c.plain("teardown", []string{"rm", "-rf", "--", c.keeperWork(i + 1)}, fileTimeout))
	}
	return out
}

// keep starts the keeper of a container that was just started and renews its
// lease until the teardown. A node that cannot run one is no reason not to
// measure there.
func (m *member) keep(ctx context.Context) error {
	if err := m.finish(ctx, m.cmds.startKeeper()); err != nil {
		if ctx.Err() != nil || m.gone() != nil {
			return err
		}
		return m.run.warn("container", "should this launcher be lost, container %s on %s would stay: %v", m.run.p.Container.Name, m.host(), err)
	}
	m.kept = true
	ctx, m.unkeep = context.WithCancel(context.WithoutCancel(ctx))
	node, renew := m.node, remote.Command{Args: m.cmds.keeper(max(m.cmds.attempt, 1)).RenewArgs(), Timeout: probeTimeout, Name: "renew the container's lease"}
	go func() { // ends with unkeep, which the teardown calls
		t := time.NewTicker(lease / 3)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			// What fails here fails for the run's own commands, too; they tell.
			_, _ = node.Run(ctx, renew)
		}
	}()
	return nil
}

// endKeeper ends what keep started, once the container is gone.
func (m *member) endKeeper(ctx context.Context) error {
	if !m.kept {
		return nil
	}
	for _, s := range m.cmds.stopKeeper() {
		if _, err := m.must(ctx, s); err != nil {
			return fmt.Errorf("ending the container's keeper: %w", err)
		}
	}
	m.kept = false
	return nil
}
