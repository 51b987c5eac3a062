package collect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cvs/collect/plan"
	"cvs/collect/remote"
)

// A breakingNode loses its connection with the first command.
type breakingNode struct {
	*localNode
	name string
	runs *[]string
	mu   *sync.Mutex
}

func (n breakingNode) Run(ctx context.Context, c remote.Command) (remote.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.runs = append(*n.runs, n.name)
	if n.name == "old" {
		return remote.Result{}, &remote.LostError{Host: "h", Command: c.Name, Err: errors.New("connection reset")}
	}
	return remote.Result{Stdout: []byte(n.name)}, nil
}

// TestLink has commands meet a broken connection: many at once make one new one,
// a node that does not come back is given up once, and where nobody can connect
// the loss is the answer.
func TestLink(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T) (*link, *Runner, *[]string) {
		r, n := localRun(t)
		x, err := r.newRun("")
		if err != nil {
			t.Fatal(err)
		}
		var runs []string
		old := breakingNode{n, "old", &runs, &sync.Mutex{}}
		x.head().attach(old)
		r.Dial = func(context.Context, plan.Node) (Node, error) {
			return breakingNode{n, "new", old.runs, old.mu}, nil
		}
		return x.head().node.(*link), r, &runs
	}
	t.Run("comes back", func(t *testing.T) {
		t.Parallel()
		l, r, runs := setUp(t)
		dials := 0
		dial := r.Dial
		r.Dial = func(ctx context.Context, n plan.Node) (Node, error) {
			if dials++; dials < 3 {
				return nil, errors.New("no route to host")
			}
			return dial(ctx, n)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				res, err := l.Run(t.Context(), remote.Command{Args: []string{"true"}})
				if err != nil || string(res.Stdout) != "new" {
					t.Errorf("%q, %v", res.Stdout, err)
				}
			})
		}
		wg.Wait()
		if dials != 3 {
			t.Errorf("dialled %d times", dials)
		}
		if n := len(slices.DeleteFunc(*runs, func(s string) bool { return s == "old" })); n != 8 {
			t.Errorf("%d commands over the new connection", n)
		}
		if w := r.Store.Meta().Warnings; len(w) != 1 || !strings.Contains(w[0], "broke (h: connection lost during ") || !strings.Contains(w[0], "made anew after") {
			t.Errorf("warnings %q", w)
		}
	})
	t.Run("input", func(t *testing.T) { // who made it has to make it again
		t.Parallel()
		l, _, _ := setUp(t)
		if _, err := l.Run(t.Context(), remote.Command{Args: []string{"cat"}, Stdin: strings.NewReader("x")}); !broken(err) {
			t.Errorf("first: %v", err)
		}
		if _, err := l.Run(t.Context(), remote.Command{Args: []string{"cat"}, Stdin: strings.NewReader("x")}); err != nil {
			t.Errorf("second: %v", err)
		}
	})
	t.Run("does not come back", func(t *testing.T) {
		t.Parallel()
		l, r, _ := setUp(t)
		r.Options.Reconnect = time.Nanosecond
		dials := 0
		r.Dial = func(context.Context, plan.Node) (Node, error) { dials++; return nil, errors.New("no route to host") }
		for range 3 {
			_, err := l.Run(t.Context(), remote.Command{Args: []string{"true"}})
			if !unreachable(err) || !strings.Contains(err.Error(), "connection reset; no new connection within 1ns: no route to host") {
				t.Errorf("%v", err)
			}
		}
		if dials != 1 {
			t.Errorf("dialled %d times", dials)
		}
	})
	t.Run("nobody connects", func(t *testing.T) {
		t.Parallel()
		l, r, _ := setUp(t)
		r.Dial = nil
		if _, err := l.Run(t.Context(), remote.Command{Args: []string{"true"}}); !broken(err) {
			t.Errorf("%v", err)
		}
	})
}
