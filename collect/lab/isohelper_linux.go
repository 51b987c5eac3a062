package lab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// runHelper is the life of a helper; it returns its exit code.
func runHelper(name, text string, environ []string, stderr *os.File) int {
	fail := func(err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	switch name {
	case helperFabric:
		var specs []nodeSpec
		if err := json.Unmarshal([]byte(text), &specs); err != nil {
			return fail(err)
		}
		return fabricHelper(specs, stderr)
	case helperNode:
		var spec nodeSpec
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			return fail(err)
		}
		return nodeHelper(spec)
	default:
		var spec containerSpec
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			return fail(err)
		}
		return containerHelper(spec, environ)
	}
}

// fabricHelper starts the nodes, joins them by a bridge, reports one line on
// file 4 and then holds everything until file 3 ends. It is process 1 of its
// namespace: its end is the end of all.
func fabricHelper(specs []nodeSpec, stderr *os.File) int {
	control, status := os.NewFile(3, "control"), os.NewFile(4, "status")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	say := func(err error) int {
		fmt.Fprintln(status, strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	// Starting children in namespaces needs the /proc of this one.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return say(fmt.Errorf("private mounts: %w", err))
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return say(fmt.Errorf("mounting /proc: %w", err))
	}
	net, err := newBridge()
	if err != nil && len(specs) > 1 {
		return say(err)
	}
	var answers []*bufio.Reader
	for i, spec := range specs {
		spec.Network = net != nil
		syscall.CloseOnExec(5 + i)
		answer, err := startNode(spec, os.NewFile(uintptr(5+i), "node"), net, i, stderr)
		if err != nil {
			return say(fmt.Errorf("%s: %w", spec.Name, err))
		}
		answers = append(answers, answer)
	}
	for i, a := range answers {
		line, err := a.ReadString('\n')
		if line = strings.TrimSpace(line); err != nil || line != "ready" {
			return say(fmt.Errorf("%s: %s", specs[i].Name, line))
		}
	}
	fmt.Fprintln(status, "ready")
	status.Close()
	control.Read(make([]byte, 1))
	return 0
}

// startNode starts the first process of a node and plugs its network in.
func startNode(spec nodeSpec, control *os.File, net *bridge, i int, stderr *os.File) (*bufio.Reader, error) {
	defer control.Close()
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	gate, plugged, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer gate.Close()
	defer plugged.Close()
	answer, answerEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer answerEnd.Close()
	cmd := exec.Command(spec.Executable)
	cmd.Args, cmd.Env, cmd.Dir, cmd.Stderr = []string{helperNode}, []string{envHelper + "=" + string(text)}, "/", stderr
	cmd.ExtraFiles = []*os.File{control, gate, answerEnd}
	cmd.SysProcAttr = namespaces()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	if net != nil {
		if err := net.plug(i, cmd.Process.Pid); err != nil {
			return nil, err
		}
	}
	return bufio.NewReader(answer), nil
}

// nodeHelper is process 1 of a node: it makes the node's root and network,
// then starts programs and connects to ports on request.
func nodeHelper(spec nodeSpec) int {
	control, gate, answer := os.NewFile(3, "control"), os.NewFile(4, "gate"), os.NewFile(5, "answer")
	for fd := 3; fd <= 5; fd++ {
		syscall.CloseOnExec(fd)
	}
	gate.Read(make([]byte, 1)) // until the network is plugged in
	err := nodeNetwork(spec)
	if err == nil {
		err = nodeRoot(spec)
	}
	if err == nil {
		err = executable(spec.Bash)
	}
	if err != nil {
		fmt.Fprintln(answer, strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	c, err := net.FileConn(control)
	control.Close()
	if err != nil {
		fmt.Fprintln(answer, err)
		return 1
	}
	fmt.Fprintln(answer, "ready")
	answer.Close()
	h := &nodeProcesses{conns: map[int]*json.Encoder{}, open: map[int]*net.UnixConn{}}
	go h.reap()
	h.serve(c.(*net.UnixConn))
	return 0
}

// nodeProcesses are the programs that a node's first process started. Being
// process 1, it inherits every orphan of the node and has to reap those too,
// so one loop waits for all.
type nodeProcesses struct {
	mu    sync.Mutex
	conns map[int]*json.Encoder
	open  map[int]*net.UnixConn
}

func (h *nodeProcesses) reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for ; ; <-ended {
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			h.mu.Lock() // a start holds it until its process is known
			if out := h.conns[pid]; out != nil {
				out.Encode(runReply{Ended: true, Status: uint32(ws)})
				h.open[pid].Close()
				delete(h.conns, pid)
				delete(h.open, pid)
			}
			h.mu.Unlock()
		}
	}
}

// serve answers requests until the control socket ends.
func (h *nodeProcesses) serve(c *net.UnixConn) {
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4*4))
	for {
		n, oobn, _, _, err := c.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return
		}
		files, err := received(oob[:oobn])
		if err != nil || len(files) == 0 {
			return
		}
		conn, err := net.FileConn(files[0])
		files[0].Close()
		if err != nil {
			return
		}
		switch uc := conn.(*net.UnixConn); {
		case buf[0] == askRun && len(files) == 4:
			go h.run(uc, files[1:])
		case buf[0] == askDial:
			go forwardTo(uc)
		default:
			uc.Close()
		}
	}
}

func (h *nodeProcesses) run(conn *net.UnixConn, stdio []*os.File) {
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var q runRequest
	if err := in.Decode(&q); err != nil || len(q.Args) == 0 {
		conn.Close()
		return
	}
	h.mu.Lock()
	pid, err := syscall.ForkExec(q.Args[0], q.Args, &syscall.ProcAttr{
		Dir: q.Dir, Env: q.Env, Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []uintptr{stdio[0].Fd(), stdio[1].Fd(), stdio[2].Fd()},
	})
	for _, f := range stdio {
		f.Close()
	}
	if err != nil {
		out.Encode(runReply{Error: err.Error()})
		conn.Close()
		h.mu.Unlock()
		return
	}
	out.Encode(runReply{})
	h.conns[pid], h.open[pid] = out, conn
	h.mu.Unlock()
	for {
		var sig int
		if in.Decode(&sig) != nil {
			return // ended, or the other side is gone: the program goes on
		}
		h.mu.Lock()
		if h.conns[pid] == out {
			syscall.Kill(-pid, syscall.Signal(sig))
		}
		h.mu.Unlock()
	}
}

// forwardTo connects to a port of the node's loopback and hands the socket over.
func forwardTo(conn *net.UnixConn) {
	defer conn.Close()
	var q dialRequest
	if json.NewDecoder(conn).Decode(&q) != nil {
		return
	}
	target, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.FormatUint(uint64(q.Port), 10)))
	if err != nil {
		conn.Write([]byte(err.Error()))
		return
	}
	defer target.Close()
	f, err := target.(*net.TCPConn).File()
	if err != nil {
		conn.Write([]byte(err.Error()))
		return
	}
	defer f.Close()
	conn.WriteMsgUnix([]byte{'k'}, unix.UnixRights(int(f.Fd())), nil)
}

// containerHelper makes a container's root and becomes its process. File 3
// carries the reason when that fails; on success it just ends.
func containerHelper(spec containerSpec, environ []string) int {
	status := os.NewFile(3, "status")
	syscall.CloseOnExec(3)
	fail := func(code int, format string, a ...any) int {
		fmt.Fprintf(status, format, a...)
		return code
	}
	if err := containerRoot(spec); err != nil {
		return fail(125, "%v", err)
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return fail(127, "OCI runtime exec failed: exec failed: unable to start container process: chdir to cwd (%q) set in config.json failed: no such file or directory: unknown", spec.Dir)
	}
	env := withoutEnv(environ, envHelper)
	path, err := lookPath(env, spec.Argv[0], nil)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil {
		err = syscall.Exec(path, spec.Argv, env)
	}
	return fail(127, "%v", notFound(spec.Argv[0], err))
}
