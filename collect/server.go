package collect

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

// A server is one start of the serving framework, on one node or on all.
type server struct {
	session int
	served  bool // a cell was measured with it
	ranks   []*process

	once sync.Once
	done chan struct{} // closed when a rank ended or cannot be watched any more
}

// A process is one rank of a server.
type process struct {
	m    *member
	job  string
	log  string
	argv []string
	next int64  // where the log is read on; see readLog
	hint string // the last telling line that was noted

	started bool
	cancel  context.CancelFunc // ends the watch, not the process
	done    chan struct{}      // closed when the process ended or cannot be watched any more
	exit    exit               // after done
	err     error              // after done: why the exit is not known
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// died says how a server ended, or "" while it runs. A server of several ranks
// has ended when one of them has.
func (s *server) died() string {
	select {
	case <-s.done:
	default:
		return ""
	}
	var out []string
	for _, r := range s.ranks {
		if !r.ended() {
			continue
		}
		how := r.exit.String()
		if r.err != nil {
			how = r.err.Error()
		}
		if len(s.ranks) > 1 {
			how = fmt.Sprintf("rank %d on %s: %s", r.m.rank, r.m.host(), how)
		}
		out = append(out, how)
	}
	return strings.Join(out, "; ")
}

// lost is the error of a rank whose node is gone; the member remembers it.
func (s *server) lost() error {
	for _, r := range s.ranks {
		if r.ended() && r.err != nil && unreachable(r.err) {
			r.m.lose(r.err)
			return r.err
		}
	}
	return nil
}

// errServer marks a cell's failure that the server is to blame for.
var errServer = errors.New("the server is not usable")

// lostHost is a node whose connection is gone, or "".
func (x *run) lostHost() string {
	for _, m := range x.members {
		if m.gone() != nil {
			return m.host()
		}
	}
	return ""
}

// ensureServer gives the cell a server: the one that runs, if the plan lets
// cells share it and it still answers, else a fresh one. A server that died is
// replaced once in a run, and the run says so.
func (x *run) ensureServer(ctx context.Context, c plan.Cell, repeat int) error {
	if s := x.server; s != nil {
		sick := s.died()
		if sick == "" && x.p.Params.ReuseServer {
			if err := x.healthy(ctx, s); err == nil {
				return nil
			} else if ctx.Err() != nil || x.lostHost() != "" {
				return err
			} else {
				sick = "it runs but does not answer: " + err.Error()
			}
		}
		if sick != "" {
			if x.restarts > 0 {
				x.abort = "the server died again after one restart"
				return fmt.Errorf("%w: session %d: %s; it was restarted once already", errServer, s.session, sick)
			}
			x.restarts++
			if err := x.warn("server_start", "the server of session %d died (%s) and is restarted once", s.session, sick); err != nil {
				return err
			}
		}
		if err := x.record(ctx, artifact.Stage{Stage: "server_stop", Cell: c.ID}, x.stopServer); err != nil {
			return err
		}
	}
	began := x.r.Now()
	err := x.record(ctx, artifact.Stage{Stage: "server_start", Cell: c.ID}, func(ctx context.Context) error {
		return x.startServer(ctx, c, repeat)
	})
	x.r.Split.ServerStart += x.r.Now().Sub(began)
	if err != nil && x.p.Params.ReuseServer && ctx.Err() == nil {
		x.abort = "the server did not start"
	}
	if err != nil {
		return err
	}
	return x.functional(ctx)
}

// startServer starts every rank in order and waits until the server is ready.
func (x *run) startServer(ctx context.Context, c plan.Cell, repeat int) error {
	x.noteVRAM(ctx)
	x.sessions++
	s := &server{session: x.sessions, done: make(chan struct{})}
	for _, m := range x.members {
		p, err := m.prepareServer(ctx, s.session, c, repeat)
		if err != nil {
			return err
		}
		s.ranks = append(s.ranks, p)
	}
	x.server = s
	kept := x.watchLoad(ctx, s.session)
	for _, p := range s.ranks {
		if err := p.start(ctx, s, c, repeat); err != nil {
			return err
		}
	}
	if err := x.ready(ctx, s); err != nil {
		if ctx.Err() == nil && x.lostHost() == "" {
			err = fmt.Errorf("%w%s", err, x.serverTails(ctx, s))
		}
		return err
	}
	return kept(ctx)
}

// prepareServer makes a node ready for its rank.
func (m *member) prepareServer(ctx context.Context, session int, c plan.Cell, repeat int) (*process, error) {
	if err := m.stillLocked(ctx); err != nil {
		return nil, err
	}
	limit := time.Duration(0)
	if m.attached {
		// In a container that outlives runs the server of a run whose launcher
		// died may be there, until its lease is over.
		limit = lease + m.run.grace()
	}
	if err := m.waitPorts(ctx, limit); err != nil {
		return nil, err
	}
	proc, err := m.cmds.server(m.fabric)
	if err != nil {
		return nil, err
	}
	dir := m.cmds.dir(c, repeat)
	steps := []Step{m.cmds.prepare("server_start", dir, m.run.drv.ServerLog())}
	if !m.workMade {
		m.workMade = true
		m.leaves()
		steps = append([]Step{m.cmds.writeEnv(proc)}, steps...)
	}
	if s, ok := m.cmds.cleanup(); ok {
		steps = append(steps, s)
	}
	for _, s := range steps {
		if _, err := m.must(ctx, s); err != nil {
			return nil, err
		}
	}
	return &process{m: m, job: m.cmds.serverJob(session), log: path.Join(dir, m.run.drv.ServerLog()),
		argv: proc.Args, cancel: func() {}, done: make(chan struct{})}, nil
}

// start launches a rank and begins to watch it.
func (p *process) start(ctx context.Context, s *server, c plan.Cell, repeat int) error {
	m := p.m
	proc, err := m.cmds.server(m.fabric)
	if err != nil {
		return err
	}
	p.started = true
	if err := m.finish(ctx, m.cmds.startServer(proc, s.session, m.cmds.dir(c, repeat))); err != nil {
		p.err = errors.New("it was never seen to run")
		close(p.done)
		s.once.Do(func() { close(s.done) })
		return err
	}
	// The watch outlives ctx: teardown wants to know whether the process ended.
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	node, job := m.node, m.cmds.job(p.job)
	go func() { // owned by stopServer, which cancels it and waits for done
		state, err := job.Wait(watch, node)
		p.exit, p.err = exitOf(state), err
		close(p.done)
		s.once.Do(func() { close(s.done) })
	}()
	return nil
}

// stopServer stops the server by its recorded ids, the ranks in reverse order,
// and waits until its ports are closed.
func (x *run) stopServer(ctx context.Context) error {
	s := x.server
	if s == nil {
		return nil
	}
	var errs []error
	for i := len(s.ranks) - 1; i >= 0; i-- {
		r := s.ranks[i]
		if lost := r.m.gone(); lost != nil {
			errs = append(errs, fmt.Errorf("stopping %s on %s: %w", path.Base(r.job), r.m.host(), lost))
			continue
		}
		errs = append(errs, r.m.stopJob(ctx, "server_stop", r.job))
	}
	x.unwatch()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	x.server = nil
	for _, r := range s.ranks {
		r.m.http.CloseIdleConnections()
		if err := r.m.waitPorts(ctx, x.grace()); err != nil {
			if errors.Is(err, errPort) {
				err = fmt.Errorf("the server was stopped, but %w", err)
			}
			return err
		}
	}
	return x.waitVRAM(ctx)
}

// unwatch ends the watches of the server's ranks.
func (x *run) unwatch() {
	if x.server == nil {
		return
	}
	for _, r := range x.server.ranks {
		r.cancel()
		if r.started {
			<-r.done
		}
	}
}

// serverTails is the end of the logs of those ranks that ended, or of all while
// none has, for a message, with what is known about such lines.
func (x *run) serverTails(ctx context.Context, s *server) string {
	some := s.died() != ""
	var b strings.Builder
	for _, r := range s.ranks {
		if some && !r.ended() || r.m.gone() != nil {
			continue
		}
		where := ""
		if len(s.ranks) > 1 {
			where = fmt.Sprintf(" (rank %d on %s)", r.m.rank, r.m.host())
		}
		tail := r.m.logTail(ctx, r.log)
		fmt.Fprintf(&b, "; last lines of its log%s:\n%s", where, tail)
		if hint := annotate(tail); hint != "" {
			fmt.Fprintf(&b, "\nthe line that usually tells: %s", hint)
		}
	}
	return b.String()
}
