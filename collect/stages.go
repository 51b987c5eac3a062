package collect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/container"
	"cvs/collect/plan"
)

// A stage is one step of a run, in the order of lifecycle. A stage that fails
// ends the run: later stages are skipped, not failed. Teardown is no stage of
// the table, because it happens in every case.
type stage struct {
	name string
	skip func(*run) string // why not, for the report; "" means do it
	// names are the stages that a skipped one is reported as; nil is its own name.
	names func(*run) []string
	// always: also after a stage that failed, for what a failed run wants to know.
	always bool
	// late is how long it may take after an interruption; 0: it is skipped then.
	late time.Duration

	// One of these: on every node at once, each with a record of its own; once,
	// recorded for the head; or once, recording stages of its own.
	each func(*member, context.Context) error
	once func(*run, context.Context) error
	own  func(*run, context.Context) error
}

func never(*run) string { return "" }

var lifecycle = []stage{
	{name: "connect", skip: never, each: (*member).connect},
	{name: "preflight", skip: never, each: (*member).preflight},
	{name: "dmesg_mark", skip: noDmesg, each: (*member).markLog},
	{name: "topology", skip: oneNode, once: (*run).topology},
	{name: "containers", skip: notShared, once: (*run).sameEverywhere},
	{name: "container", skip: never, each: (*member).container},
	{name: "images", skip: oneNode, once: (*run).compareImages},
	{name: "model", skip: noModelsDir, each: (*member).model},
	{name: "sweep", skip: never, own: (*run).sweep},
	{name: "tasks", skip: noTasks, names: taskNames, own: (*run).afterCells},
	{name: taskDmesg, skip: noDmesg, always: true, late: lateScan, own: (*run).scanLogs},
}

func noModelsDir(x *run) string {
	if x.p.Paths.ModelsDir == "" && isLocalModel(x.p) == "" {
		return "paths.models_dir is not set"
	}
	return ""
}

// silently is a reason that no reader has to be told: nothing is missing.
const silently = "-"

func oneNode(x *run) string {
	if len(x.members) == 1 {
		return silently
	}
	return ""
}

func notShared(x *run) string {
	if len(x.members) == 1 || x.p.Container.Lifetime != plan.Persistent {
		return silently
	}
	return ""
}

func (s stage) run(x *run, ctx context.Context) error {
	switch {
	case s.own != nil:
		return s.own(x, ctx)
	case s.once != nil:
		return x.record(ctx, artifact.Stage{Stage: s.name}, func(ctx context.Context) error { return s.once(x, ctx) })
	}
	return x.each(func(m *member) error {
		return x.record(ctx, artifact.Stage{Stage: s.name, Host: m.host()}, func(ctx context.Context) error { return s.each(m, ctx) })
	})
}

// stages goes through the table. It returns the error of the stage that ended
// the run.
func (x *run) stages(ctx context.Context) error {
	var failed error
	failedIn := ""
	for _, s := range lifecycle {
		ctx, cancel := ctx, context.CancelFunc(func() {})
		if ctx.Err() != nil && s.late > 0 && x.reached() {
			ctx, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), s.late, errLimit)
		}
		defer cancel()
		reason := s.skip(x)
		if reason == silently {
			continue
		}
		if failed != nil && !s.always || ctx.Err() != nil {
			reason = failedIn + " failed"
			if ctx.Err() != nil {
				reason = "interrupted"
			}
		}
		if reason != "" {
			names := []string{s.name}
			if s.names != nil {
				names = s.names(x)
			}
			if err := x.skipTasks(names, reason); err != nil {
				return err
			}
			continue
		}
		if err := s.run(x, ctx); err != nil {
			failed, failedIn = err, s.name
			var store *storeError
			if errors.As(err, &store) {
				return err
			}
		}
	}
	return failed
}

func (m *member) connect(ctx context.Context) error {
	n, err := m.run.r.Dial(ctx, m.at)
	if err != nil {
		return err
	}
	m.attach(n)
	for _, notice := range n.Notices() {
		if err := m.run.warn("connect", "%s", notice); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) preflight(ctx context.Context) error {
	res, err := m.do(ctx, m.cmds.sudoProbe())
	if err != nil {
		return err
	}
	if m.cmds.docker.Sudo = res.ExitCode == 0; !m.cmds.docker.Sudo {
		m.run.note("preflight", "sudo without a password is not possible on %s: docker is called without it", m.host())
	}
	if err := m.takeLock(ctx); err != nil {
		return err
	}
	return m.identifyGPU(ctx)
}

func (m *member) inspect(ctx context.Context, stage string) (container.State, error) {
	res, err := m.do(ctx, m.cmds.inspect(stage))
	if err != nil {
		return container.State{}, err
	}
	st, err := container.ParseContainer(res.ExitCode, res.Stdout, res.Stderr)
	if err != nil {
		return st, fmt.Errorf("container %s on %s: %w", m.run.p.Container.Name, m.host(), err)
	}
	return st, nil
}

func (m *member) container(ctx context.Context) error {
	c, x := m.run.p.Container, m.run
	st, err := m.inspect(ctx, "container")
	if err != nil {
		return err
	}
	act, err := container.Decide(c, st, m.cmds.id, x.r.Options.Force, x.r.Now())
	if err != nil {
		return fmt.Errorf("on %s: %w", m.host(), err)
	}
	if act == container.Attach {
		m.attached = true
		if err := m.recordImage(ctx, false); err != nil {
			return err
		}
		return m.clearLeftovers(ctx)
	}
	if act == container.Relaunch {
		if err := x.warn("container", "container %s on %s was left over from run %s and is removed", c.Name, m.host(), orUnknown(st.Labels[container.LabelRunID])); err != nil {
			return err
		}
		if _, err := m.must(ctx, m.cmds.removeContainer("container")); err != nil {
			return err
		}
		// What ran in it ends with it, but a port may take a moment to close.
		if err := m.waitPorts(ctx, x.grace()); err != nil {
			return err
		}
	} else if err := m.portsFree(ctx); err != nil {
		return err
	}
	if err := m.recordImage(ctx, true); err != nil {
		return err
	}
	res, err := m.must(ctx, m.cmds.probeDevices())
	if err != nil {
		return err
	}
	present, absent := container.Present(m.cmds.devices(), res.Stdout)
	if len(absent) > 0 {
		if err := x.warn("container", "%s has no %s: the container goes without", m.host(), strings.Join(absent, ", ")); err != nil {
			return err
		}
	}
	m.launched = true // from here on a container may exist, even if no answer comes
	m.leaves()
	if err := m.finish(ctx, m.cmds.runContainer(present)); err != nil {
		return err
	}
	if st, err = m.inspect(ctx, "container"); err != nil {
		return err
	}
	if !st.Running {
		return fmt.Errorf("container %s on %s does not run although docker started it", c.Name, m.host())
	}
	if !x.keepsContainer() {
		return m.keep(ctx)
	}
	return nil
}

// sameEverywhere refuses a persistent container that runs on some nodes only:
// whoever keeps it has to say whether the others lost theirs or never had one.
func (x *run) sameEverywhere(ctx context.Context) error {
	states := make([]container.State, len(x.members))
	if err := x.each(func(m *member) (err error) {
		states[m.rank], err = m.inspect(ctx, "containers")
		return err
	}); err != nil {
		return err
	}
	var up, down []string
	for i, st := range states {
		if st.Running {
			up = append(up, x.members[i].host())
		} else {
			down = append(down, x.members[i].host())
		}
	}
	if len(up) == 0 || len(down) == 0 {
		return nil
	}
	return fmt.Errorf("persistent container %s runs on %s, but not on %s: it is not started again by itself; remove it everywhere, or start it where it is missing",
		x.p.Container.Name, strings.Join(up, ", "), strings.Join(down, ", "))
}

// waitPorts waits until the ports are free, at most for a time.
func (m *member) waitPorts(ctx context.Context, limit time.Duration) error {
	deadline := m.run.r.Now().Add(limit)
	for {
		err := m.portsFree(ctx)
		if !errors.Is(err, errPort) || !m.run.r.Now().Before(deadline) {
			return err
		}
		if err := m.run.r.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}

// recordImage makes sure that the image is there and keeps its digest. With
// obtain false a missing image is only not recorded: the container runs already.
func (m *member) recordImage(ctx context.Context, obtain bool) error {
	x, image := m.run, m.run.p.Container.Image
	ask := func() (container.Image, error) {
		res, err := m.do(ctx, m.cmds.inspectImage())
		if err != nil {
			return container.Image{}, err
		}
		img, err := container.ParseImage(res.ExitCode, res.Stdout, res.Stderr)
		if err != nil {
			err = fmt.Errorf("image %s on %s: %w", image, m.host(), err)
		}
		return img, err
	}
	img, err := ask()
	if err != nil {
		return err
	}
	if !img.Present && !obtain {
		return x.warn("container", "image %s is not on %s: its digest is not recorded", image, m.host())
	}
	if !img.Present {
		x.note("container", "image %s is not on %s: fetching it", image, m.host())
		for _, s := range m.cmds.obtainImage() {
			if _, err := m.must(ctx, s); err != nil {
				return err
			}
		}
		if img, err = ask(); err != nil {
			return err
		}
		if !img.Present {
			return fmt.Errorf("image %s is still not on %s after fetching it", image, m.host())
		}
	}
	m.digest = img.Digest
	if err := x.r.Store.UpdateMeta(func(meta *artifact.Meta) {
		all := map[string]string{m.host(): img.Digest}
		for h, d := range meta.Identity.ImageDigests {
			if h != m.host() {
				all[h] = d
			}
		}
		meta.Identity.ImageDigests = all
	}); err != nil {
		return &storeError{err}
	}
	return nil
}

// compareImages refuses a server whose ranks come from different images: what
// it measured could be attributed to neither.
func (x *run) compareImages(context.Context) error {
	head := x.head()
	var other []string
	for _, m := range x.members[1:] {
		if m.digest != head.digest && m.digest != "" && head.digest != "" {
			other = append(other, fmt.Sprintf("%s has %s", m.host(), m.digest))
		}
	}
	if len(other) == 0 {
		return nil
	}
	return fmt.Errorf("image %s is not the same on all nodes: %s has %s, but %s: pull it again on every node, or name it by digest",
		x.p.Container.Image, head.host(), head.digest, strings.Join(other, ", "))
}

func (m *member) model(ctx context.Context) error {
	p := m.run.p
	res, err := m.must(ctx, m.cmds.checkModel())
	if err != nil {
		return err
	}
	st := parseModel(res.Stdout)
	if st.Missing {
		return fmt.Errorf("model %s is not on %s: nothing at %s in the container (check the volume that is mounted there, and paths.models_dir)", p.Model.ID, m.host(), modelRoot(p))
	}
	if len(st.Problems) > 0 {
		return fmt.Errorf("model %s on %s is not whole (snapshot %s): %s", p.Model.ID, m.host(), st.Snapshot, strings.Join(st.Problems, "; "))
	}
	m.run.note("model", "model %s on %s: %.3g GB, snapshot %s", p.Model.ID, m.host(), float64(st.Bytes)/1e9, st.Snapshot)
	return nil
}

// keepsContainer reports whether the container outlives the run.
func (x *run) keepsContainer() bool { return x.p.Container.Lifetime != plan.PerRun }
