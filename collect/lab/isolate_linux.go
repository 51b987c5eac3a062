package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A fabric is the tree of helpers behind isolated nodes: one process that holds
// the network, and below it the first process of each node. They live as long
// as this program holds the control socket: the kernel closes it even when the
// program is killed, the holder ends, and with it every process of every node.
type fabric struct {
	control *os.File
	cmd     *exec.Cmd
	nodes   []*net.UnixConn
}

func socketpair(kind int) (mine *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(fds[1]), "lab")
	f := os.NewFile(uintptr(fds[0]), "lab")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c.(*net.UnixConn), theirs, nil
}

// startFabric makes the namespaces and returns when every node is ready.
func startFabric(ctx context.Context, specs []nodeSpec) (_ *fabric, err error) {
	text, err := json.Marshal(specs)
	if err != nil {
		return nil, err
	}
	status, statusEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer status.Close()
	controlEnd, control, err := os.Pipe()
	if err != nil {
		statusEnd.Close()
		return nil, err
	}
	f := &fabric{control: control}
	pass := []*os.File{controlEnd, statusEnd}
	defer func() {
		for _, p := range pass {
			p.Close()
		}
		if err != nil {
			f.close()
		}
	}()
	for range specs {
		mine, theirs, err := socketpair(unix.SOCK_SEQPACKET)
		if err != nil {
			return nil, err
		}
		f.nodes, pass = append(f.nodes, mine), append(pass, theirs)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(specs[0].Executable)
	cmd.Args, cmd.Env, cmd.Dir, cmd.ExtraFiles, cmd.Stderr = []string{helperFabric}, []string{envHelper + "=" + string(text)}, "/", pass, &stderr
	cmd.SysProcAttr = namespaces()
	cmd.SysProcAttr.Setsid = true // Ctrl-C on the terminal is the lab's to handle
	if err := cmd.Start(); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			return nil, fmt.Errorf("this machine allows no user namespaces: %w", err)
		}
		return nil, fmt.Errorf("making namespaces: %w", err)
	}
	f.cmd = cmd
	statusEnd.Close()
	deadline := time.Now().Add(20 * time.Second)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	status.SetReadDeadline(deadline)
	answer, err := readLine(status)
	if err == nil && answer != "ready" {
		err = errors.New(answer)
	}
	if err != nil {
		f.close()
		f.cmd = nil
		return nil, fmt.Errorf("isolating the nodes: %w%s", err, tail(stderr.String()))
	}
	return f, nil
}

func tail(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return ""
	}
	return ": " + s[max(0, len(s)-500):]
}

func readLine(f *os.File) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < 4096 {
		if _, err := f.Read(b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			break
		}
		line = append(line, b[0])
	}
	return string(line), nil
}

// namespaces asks for all of them, with this user as root inside.
func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

// mountNamespace gives a command mounts of its own.
func mountNamespace(cmd *exec.Cmd) { cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS }

// close ends the holder and with it every process of the nodes.
func (f *fabric) close() {
	f.control.Close()
	for _, c := range f.nodes {
		c.Close()
	}
	if f.cmd != nil {
		f.cmd.Process.Kill()
		f.cmd.Wait()
	}
}

func (f *fabric) machine(i int) machine { return &isolatedMachine{control: f.nodes[i]} }

// An isolatedMachine hands its work to the first process of a node. Each request
// has a connection of its own, whose other end travels with the request.
type isolatedMachine struct {
	mu      sync.Mutex
	control *net.UnixConn
}

const (
	askRun  = 'r' // with the three standard streams
	askDial = 'd'
)

type runRequest struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

type runReply struct {
	Error  string `json:"error,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Status uint32 `json:"status,omitempty"` // of wait(2), once ended
}

type dialRequest struct {
	Port uint32 `json:"port"`
}

func (m *isolatedMachine) ask(kind byte, files ...*os.File) (*net.UnixConn, error) {
	mine, theirs, err := socketpair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	fds := []int{int(theirs.Fd())}
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, _, err := m.control.WriteMsgUnix([]byte{kind}, unix.UnixRights(fds...), nil); err != nil {
		mine.Close()
		return nil, err
	}
	return mine, nil
}

type remoteProcess struct {
	conn *net.UnixConn
	in   *json.Decoder
	mu   sync.Mutex
}

func (m *isolatedMachine) start(args, env []string, dir string, stdio [3]*os.File) (process, error) {
	conn, err := m.ask(askRun, stdio[:]...)
	if err != nil {
		return nil, err
	}
	p := &remoteProcess{conn: conn, in: json.NewDecoder(conn)}
	var reply runReply
	if err = json.NewEncoder(conn).Encode(runRequest{args, env, dir}); err == nil {
		err = p.in.Decode(&reply)
	}
	if err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return p, nil
}

func (p *remoteProcess) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return json.NewEncoder(p.conn).Encode(int(sig))
}

func (p *remoteProcess) wait() (syscall.WaitStatus, error) {
	defer p.conn.Close()
	var reply runReply
	if err := p.in.Decode(&reply); err != nil {
		return 0, err
	}
	return syscall.WaitStatus(reply.Status), nil
}

func (m *isolatedMachine) dial(ctx context.Context, port uint32) (net.Conn, error) {
	conn, err := m.ask(askDial)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(dialRequest{port}); err != nil {
		return nil, err
	}
	buf, oob := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, err
	}
	files, err := received(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, errors.New(string(buf[:n]))
	}
	defer files[0].Close()
	return net.FileConn(files[0])
}

// received takes over the files that came with a message.
func received(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "lab"))
		}
	}
	return files, nil
}
