package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh" // for the reason why a tunnel was not opened

	"cvs/collect/artifact"
	"cvs/collect/container"
	"cvs/collect/remote"
)

// A stage is one step of a run, in the order of lifecycle. A stage that fails
// ends the run: later stages are skipped, not failed. Teardown is no stage of
// the table, because it happens in every case.
type stage struct {
	name string
	skip func(*run) string // why not, for the report; "" means do it
	do   func(*run, context.Context) error
	own  bool // records stages of its own, so none is recorded around it
}

func never(*run) string { return "" }

var lifecycle = []stage{
	{"connect", never, (*run).connect, false},
	{"preflight", never, (*run).preflight, false},
	{"container", never, (*run).container, false},
	{"model", noModelsDir, (*run).model, false},
	{"sweep", never, (*run).sweep, true},
}

func noModelsDir(x *run) string {
	if x.p.Paths.ModelsDir == "" && isLocalModel(x.p) == "" {
		return "paths.models_dir is not set"
	}
	return ""
}

// stages goes through the table. It returns the error of the stage that ended
// the run.
func (x *run) stages(ctx context.Context) error {
	var failed error
	failedIn := ""
	for _, s := range lifecycle {
		line := artifact.Stage{Stage: s.name}
		reason := s.skip(x)
		if failed != nil {
			reason = failedIn + " failed"
			if ctx.Err() != nil {
				reason = "interrupted"
			}
		}
		if reason != "" {
			if err := x.skip(line, reason); err != nil {
				return err
			}
			continue
		}
		var err error
		if s.own {
			err = s.do(x, ctx)
		} else {
			err = x.record(ctx, line, func(ctx context.Context) error { return s.do(x, ctx) })
		}
		if err != nil {
			failed, failedIn = err, s.name
			var store *storeError
			if errors.As(err, &store) {
				return err
			}
		}
	}
	return failed
}

func (x *run) connect(ctx context.Context) error {
	n, err := x.r.Dial(ctx, x.p.Cluster.Nodes[0])
	if err != nil {
		return err
	}
	x.attach(n)
	for _, notice := range n.Notices() {
		if err := x.warn("connect", "%s", notice); err != nil {
			return err
		}
	}
	return nil
}

func (x *run) attach(n Node) {
	x.node, x.lost = n, nil
	x.http = &http.Client{Transport: n.HTTPTransport()}
}

func (x *run) preflight(ctx context.Context) error {
	res, err := x.do(ctx, x.cmds.sudoProbe())
	if err != nil {
		return err
	}
	if x.cmds.docker.Sudo = res.ExitCode == 0; !x.cmds.docker.Sudo {
		x.note("preflight", "sudo without a password is not possible on %s: docker is called without it", x.cmds.host)
	}
	if err := x.takeLock(ctx); err != nil {
		return err
	}
	return x.portFree(ctx)
}

func (x *run) takeLock(ctx context.Context) error {
	s := x.cmds.lock()
	release, res, err := hold(ctx, x.node, command(s))
	switch {
	case err != nil:
		return x.transport(ctx, s, err)
	case release != nil:
		x.release = release
		return nil
	case res.ExitCode == 75:
		return fmt.Errorf("another cvs run is using %s: wait until it ends", x.cmds.host)
	}
	return x.warn("preflight", "%s cannot be locked against other runs (%s)", x.cmds.host, lockProblem(res))
}

// hold starts a command that prints a line and then stays until its input ends.
// It returns once the line came, with what ends the command, or once the command
// ended by itself, with its result.
func hold(ctx context.Context, n Node, c remote.Command) (release func(), res remote.Result, err error) {
	stdin, input := io.Pipe()
	stdout, output := io.Pipe()
	var stderr bytes.Buffer
	c.Stdin = stdin
	hctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { // ended by release, or by the command
		defer close(done)
		res, err = n.Stream(hctx, c, output, &stderr)
		output.Close()
	}()
	line := make(chan bool, 1)
	go func() { // ends with the output
		var b [1]byte
		_, rerr := stdout.Read(b[:])
		line <- rerr == nil
		_, _ = io.Copy(io.Discard, stdout)
	}()
	end := func() {
		input.Close()
		select {
		case <-done:
		case <-time.After(holdGrace):
			cancel()
			<-done
		}
		cancel()
	}
	select {
	case <-ctx.Done():
		end()
		return nil, remote.Result{}, ctx.Err()
	case held := <-line:
		if held {
			return end, remote.Result{}, nil
		}
	}
	end()
	res.Stderr = stderr.Bytes()
	return nil, res, err
}

// holdGrace is how long a held command may take to notice the end of its input.
const holdGrace = 2 * time.Second

func lockProblem(res remote.Result) string {
	if res.ExitCode == 69 {
		return "flock is not installed there"
	}
	return "exit status " + strconv.Itoa(res.ExitCode) + ": " + tailText(res.Stderr, 200)
}

func (x *run) loopback() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(x.p.Params.Port)) }

// portFree fails when something already listens where the server will.
func (x *run) portFree(ctx context.Context) error {
	dctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := x.node.DialTCP(dctx, x.loopback())
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("port %d on %s is already in use: stop what listens there, or choose another params.port_no", x.p.Params.Port, x.cmds.host)
	case unreachable(err) && ctx.Err() == nil:
		x.lost = err
		return fmt.Errorf("asking for port %d on %s: %w", x.p.Params.Port, x.cmds.host, err)
	}
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) && refused.Reason == ssh.Prohibited {
		return fmt.Errorf("the SSH server of %s refuses TCP forwarding, which readiness is asked through: allow it for this user (AllowTcpForwarding local): %w", x.cmds.host, err)
	}
	return ctx.Err()
}

func (x *run) inspect(ctx context.Context, stage string) (container.State, error) {
	res, err := x.do(ctx, x.cmds.inspect(stage))
	if err != nil {
		return container.State{}, err
	}
	st, err := container.ParseContainer(res.ExitCode, res.Stdout, res.Stderr)
	if err != nil {
		return st, fmt.Errorf("container %s on %s: %w", x.p.Container.Name, x.cmds.host, err)
	}
	return st, nil
}

func (x *run) container(ctx context.Context) error {
	c := x.p.Container
	st, err := x.inspect(ctx, "container")
	if err != nil {
		return err
	}
	act, err := container.Decide(c, st, x.cmds.id, x.r.Options.Force, x.r.Now())
	if err != nil {
		return fmt.Errorf("on %s: %w", x.cmds.host, err)
	}
	if act == container.Attach {
		return x.recordImage(ctx, false)
	}
	if act == container.Relaunch {
		if err := x.warn("container", "container %s on %s was left over from run %s and is removed", c.Name, x.cmds.host, orUnknown(st.Labels[container.LabelRunID])); err != nil {
			return err
		}
		if _, err := x.must(ctx, x.cmds.removeContainer("container")); err != nil {
			return err
		}
	}
	if err := x.recordImage(ctx, true); err != nil {
		return err
	}
	res, err := x.must(ctx, x.cmds.probeDevices())
	if err != nil {
		return err
	}
	present, absent := container.Present(x.cmds.devices(), res.Stdout)
	if len(absent) > 0 {
		if err := x.warn("container", "%s has no %s: the container goes without", x.cmds.host, strings.Join(absent, ", ")); err != nil {
			return err
		}
	}
	x.launched = true // from here on a container may exist, even if no answer comes
	if err := x.finish(ctx, x.cmds.runContainer(present)); err != nil {
		return err
	}
	if st, err = x.inspect(ctx, "container"); err != nil {
		return err
	}
	if !st.Running {
		return fmt.Errorf("container %s on %s does not run although docker started it", c.Name, x.cmds.host)
	}
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}

// recordImage makes sure that the image is there and keeps its digest. With
// obtain false a missing image is only not recorded: the container runs already.
func (x *run) recordImage(ctx context.Context, obtain bool) error {
	ask := func() (container.Image, error) {
		res, err := x.do(ctx, x.cmds.inspectImage())
		if err != nil {
			return container.Image{}, err
		}
		return container.ParseImage(res.ExitCode, res.Stdout, res.Stderr)
	}
	img, err := ask()
	if err != nil {
		return err
	}
	if !img.Present && !obtain {
		return x.warn("container", "image %s is not on %s: its digest is not recorded", x.p.Container.Image, x.cmds.host)
	}
	if !img.Present {
		x.note("container", "image %s is not on %s: fetching it", x.p.Container.Image, x.cmds.host)
		for _, s := range x.cmds.obtainImage() {
			if _, err := x.must(ctx, s); err != nil {
				return err
			}
		}
		if img, err = ask(); err != nil {
			return err
		}
		if !img.Present {
			return fmt.Errorf("image %s is still not on %s after fetching it", x.p.Container.Image, x.cmds.host)
		}
	}
	x.image = img.Digest
	if err := x.r.Store.UpdateMeta(func(m *artifact.Meta) {
		m.Identity.ImageDigests = map[string]string{x.cmds.host: img.Digest}
	}); err != nil {
		return &storeError{err}
	}
	return nil
}

func (x *run) model(ctx context.Context) error {
	res, err := x.must(ctx, x.cmds.checkModel())
	if err != nil {
		return err
	}
	m := parseModel(res.Stdout)
	if m.Missing {
		return fmt.Errorf("model %s is not on %s: nothing at %s in the container (check the volume that is mounted there, and paths.models_dir)", x.p.Model.ID, x.cmds.host, modelRoot(x.p))
	}
	if len(m.Problems) > 0 {
		return fmt.Errorf("model %s on %s is not whole (snapshot %s): %s", x.p.Model.ID, x.cmds.host, m.Snapshot, strings.Join(m.Problems, "; "))
	}
	x.note("model", "model %s: %.3g GB, snapshot %s", x.p.Model.ID, float64(m.Bytes)/1e9, m.Snapshot)
	return nil
}
