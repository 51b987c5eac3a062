package lab

import (
	"context"
	"io"
	"os"
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
	proc process
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
	return ok && c.proc.signal(sig) == nil
}

func (n *node) start(ch ssh.Channel, args, env []string) (*command, error) {
	var theirs [3]*os.File
	var mine []*os.File
	closeTheirs := func() {
		for _, f := range theirs {
			f.Close() // a nil file only returns an error
		}
	}
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			closeTheirs()
			for _, f := range mine {
				f.Close()
			}
			return nil, err
		}
		if i == 0 {
			theirs[i], mine = r, append(mine, w)
		} else {
			theirs[i], mine = w, append(mine, r)
		}
	}
	proc, err := n.machine.start(args, env, lookupEnv(env, "HOME"), theirs)
	closeTheirs()
	c := &command{proc: proc, done: make(chan struct{}), mine: mine}
	if err != nil {
		c.abandon()
		return nil, err
	}
	go func() { // ends with the channel or when the process closes its end
		io.Copy(mine[0], ch)
		mine[0].Close()
	}()
	var output sync.WaitGroup
	output.Go(func() { copyOut(ch, mine[1]) })
	output.Go(func() { copyOut(ch.Stderr(), mine[2]) })
	go func() {
		defer close(c.done)
		status, err := proc.wait()
		// The status goes out when the process ends; the channel stays open
		// until background children have closed the pipes they inherited.
		sendStatus(ch, status, err)
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

func sendStatus(ch ssh.Channel, ws syscall.WaitStatus, err error) {
	code := ws.ExitStatus()
	switch {
	case err != nil:
		code = 255
	case ws.Signaled():
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
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(code)}))
}
