package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

var errNoSuch = errors.New("Error response from daemon: No such container")

func noSuch(ref string) error { return fmt.Errorf("%w: %s", errNoSuch, ref) }

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
			return fmt.Errorf("Error response from daemon: No such image: %s", ref)
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
		return fmt.Errorf("Error response from daemon: cannot remove container %q: container is running: stop the container before removing or force remove", c.Name)
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
		return fmt.Errorf("Error response from daemon: pull access denied for %s, repository does not exist or may require 'docker login'", a.rest[0])
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
		return errors.New("Error: Cannot perform an interactive login from a non TTY device")
	}
	password, err := io.ReadAll(io.LimitReader(s.stdin, 1<<16))
	if err != nil {
		return err
	}
	if faults.PullFails || strings.TrimSpace(string(password)) == "" || a.last("--username") == "" {
		return errors.New("Error response from daemon: login attempt failed with status: 401 Unauthorized")
	}
	fmt.Fprintln(s.stdout, "Login Succeeded")
	return nil
}
