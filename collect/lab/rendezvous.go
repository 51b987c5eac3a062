package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A rankSpec is a process's place in a server that spans nodes.
type rankSpec struct {
	rank, size int
	master     string // address of rank 0
	port       int    // where the ranks meet
}

// joinTimeout is how long ranks wait for each other, as torch's store does by
// default.
const joinTimeout = 10 * time.Minute

var errRankLost = errors.New("a rank is gone")

// A membership is a rank's part in a server. The ranks hold one connection each
// to rank 0, open for as long as they live.
type membership struct {
	lost  chan error // receives an error when another rank ends
	conns []net.Conn
	load  chan gpuLoad // what rank 0 says about the work, at further ranks
}

func (m *membership) leave() {
	for _, c := range m.conns {
		c.Close()
	}
}

// tell passes rank 0's load on: all ranks work when it does.
func (m *membership) tell(l gpuLoad) {
	text, err := json.Marshal(l)
	if err != nil {
		return
	}
	for _, c := range m.conns {
		c.SetWriteDeadline(time.Now().Add(loadRefresh)) // a rank that is stuck must not hold rank 0
		c.Write(append(text, '\n'))
	}
}

// join waits until all ranks have met: a server that spans nodes comes up and
// goes down as a whole.
func (s *shim) join(ctx context.Context, r rankSpec) (*membership, error) {
	m := &membership{lost: make(chan error, max(1, r.size)), load: make(chan gpuLoad, 1)}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	if r.rank > 0 {
		c, err := dialMaster(ctx, net.JoinHostPort(r.master, strconv.Itoa(r.port)))
		if err != nil {
			return nil, err
		}
		m.conns = []net.Conn{c}
		fmt.Fprintf(c, "rank %d of %d\n", r.rank, r.size)
		stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Now()) })
		in := bufio.NewReader(c)
		line, err := in.ReadString('\n')
		if !stop() || err != nil || line != "go\n" {
			c.Close()
			return nil, fmt.Errorf("rank 0 at %s: %s", r.master, strings.TrimSpace(line))
		}
		go m.watch(in, 0)
		return m, nil
	}
	address := s.node.IP
	if s.node.Isolated {
		address = "0.0.0.0"
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(address, strconv.Itoa(r.port)))
	if err != nil {
		return nil, fmt.Errorf("DistNetworkError: The server socket has failed to listen on any local network address. port: %d, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use", r.port)
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	conns := map[int]net.Conn{}
	for len(conns) < r.size-1 {
		c, err := l.Accept()
		if err != nil {
			m.leave()
			return nil, fmt.Errorf("DistStoreError: Timed out waiting for %d of %d ranks", r.size-1-len(conns), r.size)
		}
		var rank, size int
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = fmt.Fscanf(c, "rank %d of %d\n", &rank, &size)
		c.SetReadDeadline(time.Time{})
		if err != nil || size != r.size || rank < 1 || rank >= r.size || conns[rank] != nil {
			fmt.Fprintf(c, "rank %d of %d does not fit in\n", rank, size)
			c.Close()
			continue
		}
		conns[rank] = c
		m.conns = append(m.conns, c)
	}
	for rank, c := range conns {
		fmt.Fprint(c, "go\n")
		go m.watch(c, rank)
	}
	return m, nil
}

func dialMaster(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp4", address)
		if err == nil {
			return c, nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return nil, fmt.Errorf("DistNetworkError: The client socket has failed to connect to %s: %w", address, err)
		}
	}
}

// watch reports the end of a rank by the end of its connection.
func (m *membership) watch(from io.Reader, rank int) {
	for in := json.NewDecoder(from); ; {
		var l gpuLoad
		if in.Decode(&l) != nil {
			break
		}
		select {
		case m.load <- l:
		default: // the next one is newer
		}
	}
	m.lost <- fmt.Errorf("rank %d: %w", rank, errRankLost)
}
