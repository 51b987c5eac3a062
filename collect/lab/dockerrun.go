package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func (s *shim) dockerRun(store dockerStore, a dockerArgs, faults Faults) (int, error) {
	if len(a.rest) == 0 {
		return 125, errors.New("\"docker run\" requires at least 1 argument.\nSee 'docker run --help'.\n\nUsage:  docker run [OPTIONS] IMAGE [COMMAND] [ARG...]")
	}
	if a.has("--tty") && a.has("--interactive") {
		return 1, errors.New("the input device is not a TTY")
	}
	env, err := a.environment(s.environ)
	if err != nil {
		return 125, err
	}
	for _, dev := range a.opts["--device"] {
		host, _, _ := strings.Cut(dev, ":")
		if _, err := os.Stat(host); err != nil {
			return 125, fmt.Errorf("docker: Error response from daemon: error gathering device information while adding custom device %q: no such file or directory", host)
		}
	}
	if err := s.makeSources(a.opts["--volume"]); err != nil {
		return 125, fmt.Errorf("docker: Error response from daemon: %w", err)
	}
	if need := s.outside(a.opts["--volume"]); need != nil {
		return 125, fmt.Errorf("docker: Error response from daemon: this lab node is not isolated: it shares the files and ports of this machine and mounts nothing; the container would need %s; name paths below %s, the same inside and outside, or start the lab where user namespaces are allowed",
			strings.Join(need, ", "), filepath.Dir(s.dir))
	}
	lock, err := store.lock()
	if err != nil {
		return 125, err
	}
	defer lock.Close()
	name := a.last("--name")
	id := randomID()
	if name == "" {
		name = "lab_" + id[:8]
	}
	if other, ok, err := store.find(name); err != nil {
		return 125, err
	} else if ok && other.Name == "/"+name {
		return 125, fmt.Errorf("docker: Error response from daemon: Conflict. The container name %q is already in use by container %q. You have to remove (or rename) that container to be able to reuse that name", "/"+name, other.ID)
	}
	im, ok, err := store.findImage(a.rest[0])
	if err != nil {
		return 125, err
	}
	if !ok {
		s.errorf("Unable to find image '%s' locally", a.rest[0])
		if faults.PullFails || a.last("--pull") == "never" {
			return 125, fmt.Errorf("docker: Error response from daemon: No such image: %s", a.rest[0])
		}
		if im, err = store.addImage(a.rest[0]); err != nil {
			return 125, err
		}
	}
	c := newContainer(id, name, im, a, env)
	argv := c.Config.Cmd
	cmd, err := s.containerProcess(store, c, nil, argv, "")
	if err != nil {
		return 127, fmt.Errorf("docker: Error response from daemon: failed to create task for container: %w", err)
	}
	if err := store.save(c); err != nil {
		return 125, err
	}
	if a.has("--detach") {
		log, err := os.Create(store.logPath(c))
		if err != nil {
			return 125, err
		}
		defer log.Close()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, log, log
		if err := cmd.start(); err != nil {
			os.RemoveAll(filepath.Join(store.dir, id))
			return 127, fmt.Errorf("docker: Error response from daemon: failed to create task for container: %w", err)
		}
		c.State.Pid = cmd.Process.Pid
		if err := store.save(c); err != nil {
			return 125, err
		}
		fmt.Fprintln(s.stdout, id)
		return 0, nil
	}
	lock.Unlock()
	cmd.Stdin = nil
	code, err := s.attach(cmd, a.has("--interactive"))
	if err != nil {
		os.RemoveAll(filepath.Join(store.dir, id))
		return 127, fmt.Errorf("docker: Error response from daemon: failed to create task for container: %w", err)
	}
	if c.HostConfig.AutoRemove {
		return code, store.remove(context.Background(), c)
	}
	c.State.Running, c.State.Status, c.State.ExitCode, c.State.FinishedAt = false, "exited", code, time.Now().UTC()
	return code, store.save(c)
}

// outside lists the mounts that a node cannot offer: those that give a path
// another name, and those of the machine's own folders, which a run on the lab
// must not touch.
func (s *shim) outside(volumes []string) []string {
	if s.node.Isolated {
		return nil
	}
	lab := filepath.Dir(s.dir) + string(filepath.Separator)
	var need []string
	for _, v := range volumes {
		parts := strings.SplitN(v, ":", 3)
		if len(parts) < 2 || parts[0] != parts[1] || !strings.HasPrefix(filepath.Clean(parts[0])+string(filepath.Separator), lab) {
			need = append(need, v)
		}
	}
	return need
}

func newContainer(id, name string, im image, a dockerArgs, env []string) container {
	now := time.Now().UTC()
	c := container{
		ID: id, Name: "/" + name, Created: now, Image: im.ID,
		State: containerState{Status: "running", Running: true, StartedAt: now},
		Config: containerConfig{Hostname: id[:12], User: a.last("--user"), Env: env, Cmd: a.rest[1:], Image: a.rest[0],
			WorkingDir: a.last("--workdir"), Labels: map[string]string{}},
		HostConfig: hostConfig{Binds: a.opts["--volume"], NetworkMode: a.last("--network"), IpcMode: a.last("--ipc"), Privileged: a.has("--privileged"),
			ShmSize: a.last("--shm-size"), CapAdd: a.opts["--cap-add"], SecurityOpt: a.opts["--security-opt"], GroupAdd: a.opts["--group-add"],
			Ulimits: a.opts["--ulimit"], Devices: a.opts["--device"], AutoRemove: a.has("--rm"), Other: map[string][]string{}},
	}
	if h := a.last("--hostname"); h != "" {
		c.Config.Hostname = h
	}
	if e := a.last("--entrypoint"); e != "" {
		c.Config.Cmd = append([]string{e}, c.Config.Cmd...)
	}
	if len(c.Config.Cmd) == 0 {
		c.Config.Cmd = []string{"true"} // the simulated images have no default command
	}
	for _, l := range a.opts["--label"] {
		k, v, _ := strings.Cut(l, "=")
		c.Config.Labels[k] = v
	}
	known := "--volume --env --env-file --label --name --network --ipc --privileged --shm-size --cap-add --security-opt --group-add --ulimit --device --rm --hostname --user --workdir --entrypoint --detach --interactive --tty"
	for k, v := range a.opts {
		if !has(known, k) {
			c.HostConfig.Other[k] = v
		}
	}
	for _, b := range c.HostConfig.Binds {
		parts := strings.SplitN(b, ":", 3)
		if len(parts) < 2 {
			continue
		}
		m := mount{Type: "bind", Source: parts[0], Destination: parts[1], RW: true}
		if len(parts) == 3 {
			m.Mode, m.RW = parts[2], !slices.Contains(strings.Split(parts[2], ","), "ro")
		}
		c.Mounts = append(c.Mounts, m)
	}
	return c
}

// makeSources makes missing sources of bind mounts, as Docker does.
func (s *shim) makeSources(volumes []string) error {
	if !s.node.Isolated {
		return nil
	}
	for _, v := range volumes {
		parts := strings.SplitN(v, ":", 3)
		if len(parts) < 2 || !filepath.IsAbs(parts[0]) || !filepath.IsAbs(parts[1]) {
			return fmt.Errorf("invalid volume specification %q: a lab node binds absolute paths only", v)
		}
		if _, err := os.Stat(parts[0]); err == nil {
			continue
		}
		if err := os.MkdirAll(parts[0], 0o755); err != nil {
			return fmt.Errorf("error while creating mount source path %q: %w", parts[0], err)
		}
	}
	return nil
}

// A containerProcess is a process with the container's environment and, on an
// isolated node, its files.
type containerProcess struct {
	*exec.Cmd
	status *os.File // where a helper says why it could not become the process
}

// containerProcess prepares a process. It is a session of its own: what runs in
// a container outlives the docker client that started it, as in Docker.
func (s *shim) containerProcess(store dockerStore, c container, extra, argv []string, dir string) (*containerProcess, error) {
	home, temp := filepath.Join(s.dir, "home"), filepath.Join(s.dir, "tmp")
	if s.node.Isolated {
		home, temp = "/root", "/tmp"
	}
	env := []string{"PATH=" + s.getenv("PATH"), "HOME=" + home, "TMPDIR=" + temp, "HOSTNAME=" + c.Config.Hostname, "LANG=C.UTF-8"}
	for _, e := range append(slices.Clone(c.Config.Env), extra...) {
		k, v, _ := strings.Cut(e, "=")
		env = setEnv(env, k, v)
	}
	for k, v := range map[string]string{envNode: s.dir, envSession: s.node.Session, envContainer: c.ID} {
		env = setEnv(env, k, v)
	}
	switch {
	case dir != "":
	case c.Config.WorkingDir != "":
		dir = c.Config.WorkingDir
	default:
		dir = home
	}
	if s.node.Isolated {
		return s.isolatedProcess(store, c, env, argv, dir)
	}
	path, err := lookPath(env, argv[0], nil)
	if err != nil {
		return nil, notFound(argv[0], err)
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Env, cmd.Dir = argv, env, dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.stdin, s.stdout, s.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("OCI runtime exec failed: exec failed: unable to start container process: chdir to cwd (%q) set in config.json failed: no such file or directory: unknown", dir)
	}
	return &containerProcess{Cmd: cmd}, nil
}

func notFound(name string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("OCI runtime exec failed: exec failed: unable to start container process: exec: %q: permission denied: unknown", name)
	}
	return fmt.Errorf("OCI runtime exec failed: exec failed: unable to start container process: exec: %q: executable file not found in $PATH: unknown", name)
}

// isolatedProcess prepares the helper that makes the container's root again,
// from its folder and its record, and becomes the process.
func (s *shim) isolatedProcess(store dockerStore, c container, env, argv []string, dir string) (*containerProcess, error) {
	spec := containerSpec{Root: filepath.Join(store.dir, c.ID, "rootfs"), Dir: dir, Argv: argv, AllDevices: c.HostConfig.Privileged, Node: s.dir, Executable: s.node.Executable}
	for _, d := range c.HostConfig.Devices {
		parts := strings.Split(d, ":")
		b := bind{Source: parts[0], Target: parts[0]}
		if len(parts) > 1 {
			b.Target = parts[1]
		}
		if !spec.AllDevices || b.Source != b.Target {
			spec.Devices = append(spec.Devices, b)
		}
	}
	for _, m := range c.Mounts {
		spec.Binds = append(spec.Binds, bind{Source: m.Source, Target: m.Destination, ReadOnly: !m.RW})
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	status, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.node.Executable)
	cmd.Args, cmd.Env, cmd.Dir = []string{helperContainer}, setEnv(env, envHelper, string(text)), "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = s.stdin, s.stdout, s.stderr, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	mountNamespace(cmd)
	return &containerProcess{cmd, status}, nil
}

// start returns once the process runs, or says why it does not.
func (p *containerProcess) start() error {
	err := p.Cmd.Start()
	for _, f := range p.ExtraFiles {
		f.Close()
	}
	if err != nil || p.status == nil {
		return err
	}
	defer p.status.Close()
	reason, err := io.ReadAll(io.LimitReader(p.status, 4096))
	if len(reason) > 0 {
		err = errors.New(string(reason))
	}
	if err != nil {
		p.Process.Kill()
		p.Cmd.Wait()
	}
	return err
}

func (s *shim) dockerExec(store dockerStore, a dockerArgs) (int, error) {
	if len(a.rest) < 2 {
		return 1, errors.New("\"docker exec\" requires at least 2 arguments.\nSee 'docker exec --help'.\n\nUsage:  docker exec [OPTIONS] CONTAINER COMMAND [ARG...]")
	}
	if a.has("--tty") && a.has("--interactive") {
		return 1, errors.New("the input device is not a TTY")
	}
	c, ok, err := store.find(a.rest[0])
	if err != nil {
		return 1, err
	}
	if !ok {
		return 1, noSuch(a.rest[0])
	}
	if !c.State.Running {
		return 1, fmt.Errorf("Error response from daemon: container %s is not running", c.ID)
	}
	env, err := a.environment(s.environ)
	if err != nil {
		return 1, err
	}
	cmd, err := s.containerProcess(store, c, env, a.rest[1:], a.last("--workdir"))
	if err != nil {
		return 127, err
	}
	cmd.Stdin = nil
	if a.has("--detach") {
		cmd.Stdout, cmd.Stderr = nil, nil
		return 0, cmd.start()
	}
	code, err := s.attach(cmd, a.has("--interactive"))
	if err != nil {
		return 127, err
	}
	return code, nil
}

// attach runs a process with its streams passed through this one, so that they
// end with the docker client although the process does not.
func (s *shim) attach(cmd *containerProcess, stdin bool) (int, error) {
	cmd.Stdout, cmd.Stderr = struct{ io.Writer }{s.stdout}, struct{ io.Writer }{s.stderr}
	// Children left in the background may hold the streams open for ever.
	cmd.WaitDelay = time.Second
	if stdin {
		in, err := cmd.StdinPipe()
		if err != nil {
			return 0, err
		}
		go func() { // not waited for: the process may end before its input
			io.Copy(in, s.stdin)
			in.Close()
		}()
	}
	if err := cmd.start(); err != nil {
		return 0, err
	}
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return exitCode(err), nil
}

// exitCode is a process's status as a shell reports it.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	}
	if err != nil {
		return 125
	}
	return 0
}
