package remote

import (
	"bytes"
	"io"
	"strconv"
	"sync"
)

// maxBefore bounds what is kept of the text before the mark, for messages.
const maxBefore = 4 << 10

// pidMark comes before the process id, which the mark follows on standard output.
const pidMark = "cvs-pid-"

// maxPID is more than its digits and pidMark take.
const maxPID = 64

// An output is one stream of a command: it drops everything up to the mark,
// passes on the rest, and can be let go of while the session still writes to it.
type output struct {
	w      io.Writer // nil discards
	mark   string
	failed chan<- error

	mu       sync.Mutex
	head     []byte // what came before the mark, its beginning
	tail     []byte // its end, where the mark may begin
	seen     bool
	pid      string // digits, "" until they are known
	detached bool
}

// Write never fails for the session's sake: a writer that failed is reported
// once and the rest of the stream dropped, so that the host is not blocked.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	if !o.seen {
		p = o.find(p)
	}
	if o.detached || o.w == nil || len(p) == 0 {
		return n, nil
	}
	if _, err := o.w.Write(p); err != nil {
		o.detached = true
		o.failed <- err // there is room for one of each stream
	}
	return n, nil
}

// find looks for the mark and returns what follows it.
func (o *output) find(p []byte) []byte {
	o.head = append(o.head, p[:min(len(p), maxBefore-len(o.head))]...)
	all := append(o.tail, p...)
	if i := bytes.Index(all, []byte(o.mark)); i >= 0 {
		o.seen, o.head, o.tail = true, nil, nil
		if j := bytes.LastIndex(all[:i], []byte(pidMark)); j >= 0 {
			if pid, err := strconv.ParseUint(string(all[j+len(pidMark):i]), 10, 31); err == nil && pid > 1 {
				o.pid = strconv.FormatUint(pid, 10)
			}
		}
		return all[i+len(o.mark):]
	}
	o.tail = append([]byte(nil), all[max(0, len(all)-len(o.mark)-maxPID):]...)
	return nil
}

// processID is the command's, "" if it is not known.
func (o *output) processID() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pid
}

// detach drops whatever comes from now on.
func (o *output) detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.detached = true
}

func (o *output) started() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen
}

func (o *output) before() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.head)
}

// A headBuffer keeps the first limit bytes.
type headBuffer struct {
	limit int
	buf   []byte
	cut   bool
}

func (b *headBuffer) Write(p []byte) (int, error) {
	room := min(len(p), b.limit-len(b.buf))
	b.buf = append(b.buf, p[:room]...)
	b.cut = b.cut || room < len(p)
	return len(p), nil
}

// A tailBuffer keeps the last limit bytes.
type tailBuffer struct {
	limit int
	buf   []byte // up to twice the limit, so that moving it costs little
	cut   bool
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	n := len(p)
	if n > b.limit {
		p, b.buf, b.cut = p[n-b.limit:], b.buf[:0], true
	}
	if len(b.buf)+len(p) > 2*b.limit {
		b.buf = b.buf[:copy(b.buf, b.bytes())]
	}
	b.buf = append(b.buf, p...)
	b.cut = b.cut || len(b.buf) > b.limit
	return n, nil
}

func (b *tailBuffer) bytes() []byte { return b.buf[max(0, len(b.buf)-b.limit):] }
