package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A server is a running server shim.
type server struct {
	spec    serverSpec
	engine  *engine
	created int64
	faults  func() Faults
	served  atomic.Int64 // completions answered
	drifts  atomic.Uint64
	onFault func(Faults)
	mayDie  func(Faults) bool
	dying   atomic.Bool
	die     context.CancelCauseFunc
}

var errEngineDied = errors.New("the engine died")

// serve is the life of a server: load the engine, only then open the socket,
// answer until TERM.
func (s *shim) serve(spec serverSpec) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ctx, die := context.WithCancelCause(ctx)
	defer die(nil)
	logf := func(format string, a ...any) {
		fmt.Fprintf(s.stdout, "%s INFO [%s] %s\n", time.Now().Format("2006-01-02 15:04:05"), spec.framework, fmt.Sprintf(format, a...))
	}
	if spec.served == "" {
		spec.served = spec.model
	}
	faults, err := readFaults(s.dir)
	if err != nil {
		s.errorf("%v", err)
		return 1
	}
	sched := spec.scheduler(s.node)
	if faults.Acceptance > 0 {
		sched.accept = faults.Acceptance
	}
	sched.slowTokens, sched.slowdown = faults.SlowTokens, faults.Slowdown
	logf("Loading tokenizer from %s", spec.model)
	logf("Initializing engine with model %s (tensor_parallel_size=%d, data_parallel_size=%d) on simulated hardware", spec.model, spec.tp, max(1, spec.dp))
	if !sleep(ctx, s.startDelay(faults)) {
		return 143
	}
	if spec.engineFailed != "" {
		s.errorf("%s", spec.engineFailed)
		return 1
	}
	if faults.ServerDiesAtStart {
		s.errorf("[%s] EngineCore_DP0 proc died unexpectedly (exit code 1)", spec.framework)
		s.errorf("RuntimeError: Failed to initialize all EngineCores, cleaning up: [0]")
		return 1
	}
	var ranks *membership
	if spec.ranks.size > 1 {
		logf("Waiting for %d ranks at %s:%d", spec.ranks.size, spec.ranks.master, spec.ranks.port)
		if ranks, err = s.join(ctx, spec.ranks); err != nil {
			s.errorf("[%s] EngineCore_DP%d proc died unexpectedly (exit code 1)\n%v", spec.framework, spec.ranks.rank, err)
			return 1
		}
		defer ranks.leave()
		logf("All %d ranks are connected", spec.ranks.size)
		go func() {
			select {
			case err := <-ranks.lost:
				die(err)
			case <-ctx.Done():
			}
		}()
	}
	// The real servers listen on 0.0.0.0. A node without isolation is one
	// loopback address of the machine.
	address := s.node.IP
	if s.node.Isolated {
		address = "0.0.0.0"
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort(address, strconv.Itoa(spec.port)))
	if err != nil {
		s.errorf("ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', %d): address already in use", spec.port)
		return 1
	}
	srv := &server{spec: spec, engine: newEngine(sched), created: time.Now().Unix(), die: die,
		mayDie: func(f Faults) bool { return f.mayDie(s.dir) }}
	srv.faults = func() Faults {
		f, err := readFaults(s.dir)
		if err != nil {
			return Faults{}
		}
		return f
	}
	var logged sync.Once
	srv.onFault = func(f Faults) {
		if f.ECCError {
			logged.Do(func() {
				if err := appendKernelLog(s.dir, eccLines...); err != nil {
					s.errorf("%v", err)
				}
			})
		}
	}
	httpServer := &http.Server{Handler: srv.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.engine.run(ctx)
	}()
	go func() {
		<-ctx.Done()
		httpServer.Close()
	}()
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		s.reportLoad(srv.engine, spec, ranks, ctx.Done())
	}()
	logf("Starting server on 0.0.0.0:%d (loop=uvloop)...", spec.port)
	if spec.framework != "atom" {
		logf("Started server process [%d]", os.Getpid())
		logf("Application startup complete.")
	}
	logf("Server started successfully and ready to accept requests")
	logf("Uvicorn running on http://0.0.0.0:%d (Press CTRL+C to quit)", spec.port)
	if spec.framework == "sglang" {
		logf("The server is fired up and ready to roll!")
	}
	err = httpServer.Serve(listener)
	die(nil)
	<-done
	<-reported
	if cause := context.Cause(ctx); errors.Is(cause, errEngineDied) || errors.Is(cause, errRankLost) {
		s.errorf("[%s] EngineCore_DP0 proc died unexpectedly (exit code -9): %v", spec.framework, cause)
		s.errorf("Received unexpected SHUTDOWN signal from DP rank 0")
		return 1
	}
	if !errors.Is(err, http.ErrServerClosed) {
		s.errorf("ERROR:    %v", err)
		return 1
	}
	logf("Shutting down")
	return 0
}

// headless is a further rank of a multi-node server: it loads and then waits.
func (s *shim) headless(spec serverSpec) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	faults, err := readFaults(s.dir)
	if err != nil {
		s.errorf("%v", err)
		return 1
	}
	if !sleep(ctx, s.startDelay(faults)) {
		return 143
	}
	if faults.ServerDiesAtStart {
		s.errorf("RuntimeError: WorkerProc failed to start")
		return 1
	}
	ranks, err := s.join(ctx, spec.ranks)
	if err != nil {
		s.errorf("WorkerProc failed to start: %v", err)
		return 1
	}
	defer ranks.leave()
	fmt.Fprintf(s.stdout, "%s INFO [%s] rank %d of %d is connected to %s:%d\n", time.Now().Format("2006-01-02 15:04:05"), spec.framework, spec.ranks.rank, spec.ranks.size, spec.ranks.master, spec.ranks.port)
	report, err := s.newLoadFile()
	if err != nil {
		s.errorf("%v", err)
		return 1
	}
	defer report.close()
	for {
		select {
		case l := <-ranks.load:
			report.write(l)
		case err := <-ranks.lost:
			s.errorf("[%s] WorkerProc was terminated: %v", spec.framework, err)
			return 1
		case <-ctx.Done():
			return 0
		}
	}
}

func (s *shim) startDelay(f Faults) time.Duration {
	d := s.node.StartDelay
	if f.StartDelay > 0 {
		d = f.StartDelay
	}
	return time.Duration(d * float64(time.Second))
}

// sleep waits and reports whether it was not interrupted.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// local rewrites a URL's or an address's host, when it means "this node", to
// the node's loopback address.
func (s *shim) local(base string) string {
	if s.node.Isolated {
		return base
	}
	for _, h := range []string{"localhost", "127.0.0.1", "0.0.0.0"} {
		for _, scheme := range []string{"http://", ""} {
			if rest, ok := strings.CutPrefix(base, scheme+h); ok && (rest == "" || rest[0] == ':' || rest[0] == '/') {
				return scheme + s.node.IP + rest
			}
		}
	}
	return base
}
