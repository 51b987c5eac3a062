package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// session serves one session channel: environment, one command, signals.
func (n *node) session(ctx context.Context, conn *ssh.ServerConn, open ssh.NewChannel) {
	ch, requests, err := open.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	env := n.environ()
	var running *command
	for {
		select {
		case req, ok := <-requests:
			if !ok {
				if running != nil {
					running.abandon()
				}
				return
			}
			accepted := false
			switch req.Type {
			case "env":
				var v struct{ Name, Value string }
				// As Debian's sshd: locale only. Everything else has to be in
				// the command, on real nodes too.
				if ssh.Unmarshal(req.Payload, &v) == nil && (v.Name == "LANG" || strings.HasPrefix(v.Name, "LC_")) {
					env = setEnv(env, v.Name, v.Value)
					accepted = true
				}
			case "exec", "shell":
				if running != nil {
					break
				}
				if f, err := readFaults(n.dir); err == nil && f.DropOnExec {
					conn.Close()
					return
				}
				args := []string{n.bash}
				if req.Type == "exec" {
					var v struct{ Command string }
					if ssh.Unmarshal(req.Payload, &v) != nil {
						break
					}
					args = append(args, "-c", v.Command)
				}
				if running, err = n.start(ch, args, env); err != nil {
					n.log.Error("starting a command", "node", n.info.Name, "err", err)
					running = nil
					break
				}
				accepted = true
			case "signal":
				var v struct{ Name string }
				if running != nil && ssh.Unmarshal(req.Payload, &v) == nil {
					accepted = running.signal(v.Name)
				}
			}
			if req.WantReply {
				req.Reply(accepted, nil)
			}
		case <-running.finished():
			return
		case <-ctx.Done():
			if running != nil {
				running.abandon()
			}
			return
		}
	}
}

// A command is a process of a session. It is a session leader of its own, and,
// as with OpenSSH without a terminal, it outlives a dropped connection: only
// its pipes break.
type command struct {
	proc *os.Process
	done chan struct{} // closed when the process has ended and its output was sent
	mine []*os.File    // this end of the pipes
}

func (c *command) finished() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.done
}

func (c *command) abandon() {
	for _, f := range c.mine {
		f.Close()
	}
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	"TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

// signal sends to the process group, as OpenSSH does.
func (c *command) signal(name string) bool {
	sig, ok := signals[name]
	return ok && syscall.Kill(-c.proc.Pid, sig) == nil
}

func (n *node) start(ch ssh.Channel, args, env []string) (*command, error) {
	var theirs, mine []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(theirs, mine...))
			return nil, err
		}
		if i == 0 {
			theirs, mine = append(theirs, r), append(mine, w)
		} else {
			theirs, mine = append(theirs, w), append(mine, r)
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir = env, lookupEnv(env, "HOME")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := cmd.Start()
	closeAll(theirs)
	if err != nil {
		closeAll(mine)
		return nil, err
	}
	c := &command{proc: cmd.Process, done: make(chan struct{}), mine: mine}
	go func() { // ends with the channel or when the process closes its end
		io.Copy(mine[0], ch)
		mine[0].Close()
	}()
	var output sync.WaitGroup
	output.Go(func() { copyOut(ch, mine[1]) })
	output.Go(func() { copyOut(ch.Stderr(), mine[2]) })
	go func() {
		defer close(c.done)
		err := cmd.Wait()
		// The status goes out when the process ends; the channel stays open
		// until background children have closed the pipes they inherited.
		sendStatus(ch, err)
		output.Wait()
		mine[0].Close()
		ch.CloseWrite()
	}()
	return c, nil
}

// copyOut passes output on. When the client is gone it closes the pipe, so that
// the process notices.
func copyOut(to io.Writer, from *os.File) {
	io.Copy(to, from)
	from.Close()
}

func sendStatus(ch ssh.Channel, err error) {
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			name := "KILL"
			for k, v := range signals {
				if v == ws.Signal() {
					name = k
				}
			}
			ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Signal   string
				Core     bool
				Message  string
				Language string
			}{Signal: name, Core: ws.CoreDump()}))
			return
		}
		code = exit.ExitCode()
	} else if err != nil {
		code = 255
	}
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(code)}))
}
