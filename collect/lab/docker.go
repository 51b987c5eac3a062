package lab

import (
	"context"
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

// docker carries out one docker command against the node's records.
func (s *shim) docker() int {
	args := s.args[1:]
	for len(args) > 0 && (args[0] == "-D" || strings.HasPrefix(args[0], "--log-level=")) {
		args = args[1:]
	}
	if len(args) == 0 {
		s.errorf("Usage:  docker [OPTIONS] COMMAND")
		return 1
	}
	command, args := args[0], args[1:]
	if command == "container" || command == "image" {
		if len(args) == 0 {
			s.errorf("Usage:  docker %s COMMAND", command)
			return 1
		}
		group := command
		command, args = args[0], args[1:]
		switch {
		case command == "ls" && group == "image":
			command = "images"
		case command == "ls":
			command = "ps"
		case command == "rm" && group == "image":
			command = "rmi"
		case command == "inspect":
			args = append([]string{"--type=" + group}, args...)
		}
	}
	if command == "--version" || command == "-v" {
		fmt.Fprintln(s.stdout, "Docker version 27.0.0, build lab")
		return 0
	}
	usage := 1
	if command == "run" || command == "exec" {
		usage = 125
	}
	a, err := parseDocker(command, args)
	if err != nil {
		s.errorf("%v", err)
		return usage
	}
	faults, err := readFaults(s.dir)
	if err != nil {
		s.errorf("docker: %v", err)
		return usage
	}
	if faults.DockerDown && command != "login" {
		s.errorf("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
		return 1
	}
	store := dockerStore{dir: filepath.Join(s.dir, "containers"), session: s.node.Session}
	var code int
	switch command {
	case "run":
		code, err = s.dockerRun(store, a, faults)
	case "exec":
		code, err = s.dockerExec(store, a)
	case "ps":
		err = s.dockerPs(store, a)
	case "inspect":
		code, err = s.dockerInspect(store, a)
	case "images":
		err = s.dockerImages(store, a)
	case "pull":
		err = s.dockerPull(store, a, faults)
	case "load":
		err = s.dockerLoad(store, a)
	case "login":
		err = s.dockerLogin(a, faults)
	case "rm", "stop", "kill", "rmi":
		code, err = s.dockerEnd(store, command, a)
	case "logs":
		err = s.dockerLogs(store, a)
	case "version":
		err = s.dockerTemplate(a.last("--format"), "Client: Docker Engine (lab)\n Version: 27.0.0\n\nServer: Docker Engine (lab)\n Engine:\n  Version: 27.0.0", dockerVersion{Client: versionPart{"27.0.0"}, Server: versionPart{"27.0.0"}})
	case "info":
		info := dockerInfo{ID: s.node.Session, Name: s.node.Name, ServerVersion: "27.0.0", OperatingSystem: "lab-sim", OSType: "linux", Architecture: "x86_64", DockerRootDir: store.dir}
		err = s.dockerTemplate(a.last("--format"), " Name: "+s.node.Name+"\n Server Version: 27.0.0\n Operating System: lab-sim\n Docker Root Dir: "+store.dir, info)
	}
	if err != nil {
		s.errorf("%v", err)
		if code == 0 {
			code = usage
		}
	}
	return code
}

type versionPart struct{ Version string }

type dockerVersion struct{ Client, Server versionPart }

type dockerInfo struct {
	ID, Name, ServerVersion, OperatingSystem, OSType, Architecture, DockerRootDir string
}

var errNoSuch = errors.New("Error response from daemon: No such container") //lint:ignore ST1005 Docker's own words

func noSuch(ref string) error { return fmt.Errorf("%w: %s", errNoSuch, ref) }

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
	cmd, err := s.containerProcess(c, nil, argv, "")
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
		if err := cmd.Start(); err != nil {
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

// containerProcess prepares a process with the container's environment. It is a
// session of its own: what runs in a container outlives the docker client that
// started it, as in Docker.
func (s *shim) containerProcess(c container, extra, argv []string, dir string) (*exec.Cmd, error) {
	env := []string{
		"PATH=" + s.getenv("PATH"), "HOME=" + filepath.Join(s.dir, "home"), "TMPDIR=" + filepath.Join(s.dir, "tmp"),
		"HOSTNAME=" + c.Config.Hostname, "LANG=C.UTF-8",
	}
	for _, e := range append(slices.Clone(c.Config.Env), extra...) {
		k, v, _ := strings.Cut(e, "=")
		env = setEnv(env, k, v)
	}
	for k, v := range map[string]string{envNode: s.dir, envSession: s.node.Session, envContainer: c.ID} {
		env = setEnv(env, k, v)
	}
	path, err := lookPath(env, argv[0], nil)
	if err != nil {
		return nil, fmt.Errorf("OCI runtime exec failed: exec failed: unable to start container process: exec: %q: executable file not found in $PATH: unknown", argv[0])
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Env = argv, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.stdin, s.stdout, s.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	switch {
	case dir != "":
		cmd.Dir = dir
	case c.Config.WorkingDir != "":
		cmd.Dir = c.Config.WorkingDir
	default:
		cmd.Dir = filepath.Join(s.dir, "home")
	}
	if st, err := os.Stat(cmd.Dir); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("OCI runtime exec failed: exec failed: unable to start container process: chdir to cwd (%q) set in config.json failed: no such file or directory: unknown", cmd.Dir)
	}
	return cmd, nil
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
		return 1, fmt.Errorf("Error response from daemon: container %s is not running", c.ID) //lint:ignore ST1005 Docker's own words
	}
	env, err := a.environment(s.environ)
	if err != nil {
		return 1, err
	}
	cmd, err := s.containerProcess(c, env, a.rest[1:], a.last("--workdir"))
	if err != nil {
		return 127, err
	}
	cmd.Stdin = nil
	if a.has("--detach") {
		cmd.Stdout, cmd.Stderr = nil, nil
		return 0, cmd.Start()
	}
	code, err := s.attach(cmd, a.has("--interactive"))
	if err != nil {
		return 126, err
	}
	return code, nil
}

// attach runs a process with its streams passed through this one, so that they
// end with the docker client although the process does not.
func (s *shim) attach(cmd *exec.Cmd, stdin bool) (int, error) {
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
	if err := cmd.Start(); err != nil {
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

// dockerEnd is rm, stop, kill and rmi: each argument on its own, errors do not
// stop the rest.
func (s *shim) dockerEnd(store dockerStore, command string, a dockerArgs) (int, error) {
	if len(a.rest) == 0 {
		return 1, fmt.Errorf("\"docker %s\" requires at least 1 argument", command)
	}
	lock, err := store.lock()
	if err != nil {
		return 1, err
	}
	defer lock.Close()
	code := 0
	for _, ref := range a.rest {
		if err := s.endOne(store, command, ref, a); err != nil {
			s.errorf("%v", err)
			if !a.has("--force") || !errors.Is(err, errNoSuch) { // rm -f of what is not there succeeds
				code = 1
			}
			continue
		}
		fmt.Fprintln(s.stdout, ref)
	}
	return code, nil
}

func (s *shim) endOne(store dockerStore, command, ref string, a dockerArgs) error {
	if command == "rmi" {
		all, err := store.images()
		if err != nil {
			return err
		}
		im, ok, err := store.findImage(ref)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("Error response from daemon: No such image: %s", ref) //lint:ignore ST1005 Docker's own words
		}
		return writeJSON(filepath.Join(store.dir, "images.json"), slices.DeleteFunc(all, func(i image) bool { return i.ID == im.ID }))
	}
	c, ok, err := store.find(ref)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch {
	case !ok:
		return noSuch(ref)
	case command == "rm" && c.State.Running && !a.has("--force"):
		return fmt.Errorf("Error response from daemon: cannot remove container %q: container is running: stop the container before removing or force remove", c.Name) //lint:ignore ST1005 Docker's own words
	case command == "rm":
		return store.remove(ctx, c)
	case command == "kill":
		return store.stop(ctx, c, 0)
	}
	grace := 10 * time.Second
	if t := a.last("--time"); t != "" {
		d, err := time.ParseDuration(t + "s")
		if err != nil {
			return fmt.Errorf("invalid argument %q for \"-t, --time\" flag", t)
		}
		grace = d
	}
	err = store.stop(ctx, c, grace)
	if err == nil && c.HostConfig.AutoRemove {
		err = store.remove(ctx, c)
	}
	return err
}

func (s *shim) dockerLogs(store dockerStore, a dockerArgs) error {
	if len(a.rest) != 1 {
		return errors.New("\"docker logs\" requires exactly 1 argument")
	}
	c, ok, err := store.find(a.rest[0])
	if err != nil {
		return err
	}
	if !ok {
		return noSuch(a.rest[0])
	}
	f, err := os.Open(store.logPath(c))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(s.stdout, f)
	return err
}

func (s *shim) dockerPull(store dockerStore, a dockerArgs, faults Faults) error {
	if len(a.rest) != 1 {
		return errors.New("\"docker pull\" requires exactly 1 argument")
	}
	if faults.PullFails {
		return fmt.Errorf("Error response from daemon: pull access denied for %s, repository does not exist or may require 'docker login'", a.rest[0]) //lint:ignore ST1005 Docker's own words
	}
	return s.addImages(store, a.rest[0])
}

func (s *shim) addImages(store dockerStore, refs ...string) error {
	lock, err := store.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, ref := range refs {
		im, err := store.addImage(ref)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.stdout, "Digest: %s\nStatus: Downloaded newer image for %s:%s\n", strings.TrimPrefix(im.RepoDigests[0], im.Repository+"@"), im.Repository, im.Tag)
	}
	return nil
}

// dockerLoad accepts a file whose first line names the image; a real archive
// would need an image store the lab does not have.
func (s *shim) dockerLoad(store dockerStore, a dockerArgs) error {
	var in io.Reader = s.stdin
	if name := a.last("--input"); name != "" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open %s: no such file or directory", name)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, 4096))
	if err != nil {
		return err
	}
	ref, _, _ := strings.Cut(string(data), "\n")
	if ref = strings.TrimSpace(ref); ref == "" || strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("open /var/lib/docker/tmp/docker-import/repositories: no such file or directory")
	}
	if err := s.addImages(store, ref); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "Loaded image: %s\n", ref)
	return nil
}

func (s *shim) dockerLogin(a dockerArgs, faults Faults) error {
	if !a.has("--password-stdin") {
		return errors.New("Error: Cannot perform an interactive login from a non TTY device") //lint:ignore ST1005 Docker's own words
	}
	password, err := io.ReadAll(io.LimitReader(s.stdin, 1<<16))
	if err != nil {
		return err
	}
	if faults.PullFails || strings.TrimSpace(string(password)) == "" || a.last("--username") == "" {
		return errors.New("Error response from daemon: login attempt failed with status: 401 Unauthorized") //lint:ignore ST1005 Docker's own words
	}
	fmt.Fprintln(s.stdout, "Login Succeeded")
	return nil
}
