package collect

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cvs/collect/remote"
)

// A memoryNode's GPUs report one reading after the other; the last one stays.
// A negative one is an amd-smi that fails.
type memoryNode struct {
	Node
	mu sync.Mutex
	mb []int
}

func (n *memoryNode) Run(context.Context, remote.Command) (remote.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	mb := n.mb[0]
	if len(n.mb) > 1 {
		n.mb = n.mb[1:]
	}
	if mb < 0 {
		return remote.Result{ExitCode: 1, Stderr: []byte("no GPU")}, nil
	}
	return remote.Result{Stdout: fmt.Appendf(nil, `{"gpu_data":[{"gpu":0,"mem_usage":{"used_vram":{"value":%d,"unit":"MB"}}}]}`, mb)}, nil
}

// TestVRAM waits for the memory of a stopped server: until it is free, not for
// ever, and what is not known is said.
func TestVRAM(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before []int
		after  []int
		warns  string
		notes  string
		slept  int
	}{
		"free at once":  {[]int{300}, []int{310}, "", "", 0},
		"free later":    {[]int{300}, []int{180000, 90000, 400}, "", "", 2},
		"never free":    {[]int{300}, []int{180000}, "180000 MB of GPU memory on ", "", 4},
		"nobody knows":  {[]int{-1}, []int{300}, "", "is not known: amd-smi does not say", 0},
		"not known now": {[]int{300}, []int{-1}, "", "is not known: ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, n := localRun(t)
			r.Plan.Params.ReuseServer = false
			r.Options.StopGrace = 2 * time.Second
			var notes []string
			r.Progress = func(e Event) {
				if e.Kind == Note {
					notes = append(notes, e.Message)
				}
			}
			x, err := r.newRun("")
			if err != nil {
				t.Fatal(err)
			}
			now, slept := time.Now(), 0
			r.Now = func() time.Time { return now }
			r.Sleep = func(_ context.Context, d time.Duration) error { now, slept = now.Add(d), slept+1; return nil }
			g := &memoryNode{Node: n, mb: tt.before}
			x.head().attach(g)
			x.noteVRAM(t.Context())
			g.mb = tt.after
			if err := x.waitVRAM(t.Context()); err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(x.warnings, "\n"); (all == "") != (tt.warns == "") || !strings.Contains(all, tt.warns) {
				t.Errorf("warnings %q, want %q", all, tt.warns)
			}
			if all := strings.Join(notes, "\n"); !strings.Contains(all, tt.notes) {
				t.Errorf("notes %q, want %q", all, tt.notes)
			}
			if slept != tt.slept {
				t.Errorf("looked again %d times, want %d", slept, tt.slept)
			}
		})
	}
}
