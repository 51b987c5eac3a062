package lab

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// A machine is what a node's commands run on: this machine itself, or
// namespaces of it.
type machine interface {
	// start runs a program in a session of its own.
	start(args, env []string, dir string, stdio [3]*os.File) (process, error)
	// dial connects to a TCP port of the machine's loopback.
	dial(ctx context.Context, port uint32) (net.Conn, error)
}

// A process is a started program.
type process interface {
	// signal goes to the process group.
	signal(sig syscall.Signal) error
	// wait returns how it ended; an error says that nobody knows. It is called once.
	wait() (syscall.WaitStatus, error)
}

// sharedMachine is this machine, without any isolation.
type sharedMachine struct{ ip string }

type localProcess struct{ cmd *exec.Cmd }

func (m sharedMachine) start(args, env []string, dir string, stdio [3]*os.File) (process, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdio[0], stdio[1], stdio[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return localProcess{cmd}, nil
}

func (m sharedMachine) dial(ctx context.Context, port uint32) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(m.ip, strconv.FormatUint(uint64(port), 10)))
}

func (p localProcess) signal(sig syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, sig) }

func (p localProcess) wait() (syscall.WaitStatus, error) {
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, errors.New("no wait status")
	}
	return ws, nil
}
