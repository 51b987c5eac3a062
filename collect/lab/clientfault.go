package lab

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"
)

// slowRead is how late a slow client looks at what has arrived.
const slowRead = 20 * time.Millisecond

// misbehave reads the faults that concern a client of b's shape. ended means
// that the client's life is over with that exit status.
func (s *shim) misbehave(b *bench) (code int, ended bool) {
	f, err := readFaults(s.dir)
	if err != nil {
		return s.traceback(err), true
	}
	if f.concerns(b.max, b.input) {
		b.fault, b.endsServer = f.Client, f.ServerDiesBetween
	}
	switch b.fault {
	case ClientFails:
		return s.traceback(errors.New("RuntimeError: the lab was told to let this client fail")), true
	case ClientSlow:
		b.load.lag = slowRead
	}
	return 0, false
}

// sent is called when all requests were answered and nothing was written yet.
func (b *bench) sent() {
	switch b.fault {
	case ClientHangs:
		hang()
	case ClientKilled:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // as the kernel does when memory runs out
		hang()                                         // until the signal arrives
	}
}

// written is called when the artefact lies there; it gives the exit status.
func (b *bench) written(ctx context.Context, client *http.Client) int {
	if b.endsServer {
		b.endServer(ctx, client)
	}
	if b.fault == ClientNeverExits {
		hang()
	}
	return 0
}

// endPath ends a server whose node has the fault ServerDiesBetween.
const endPath = "/lab/end"

// endServer has the server die and waits until nobody listens any more. It is
// the client's last act: the server dies after a cell and before the next one.
func (b *bench) endServer(ctx context.Context, client *http.Client) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for sleep(ctx, 5*time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.baseURL+endPath, nil)
		if err != nil {
			return
		}
		resp, err := client.Do(req)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err != nil {
			continue // it is going down
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return // it stays: another one had its turn
		}
	}
}

// A lateReader looks at what has arrived only now and then.
type lateReader struct {
	ctx context.Context
	r   io.Reader
	lag time.Duration
}

func (l lateReader) Read(b []byte) (int, error) {
	if !sleep(l.ctx, l.lag) {
		return 0, l.ctx.Err()
	}
	return l.r.Read(b)
}
