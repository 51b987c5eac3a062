package collect

import (
	"context"
	"fmt"
	"time"

	"cvs/collect/check"
)

// vramSlack is the memory, in MB over all GPUs of a node, that may be in use
// beyond what was before the first server: drivers keep some for a while.
const vramSlack = 2048

// A vram is how much GPU memory of a node was in use before the first server.
type vram struct {
	asked  bool
	before *float64 // MB over all GPUs; nil is not known
}

// noteVRAM reads what is in use on every node before the first server, where a
// later one may have to wait for it.
func (x *run) noteVRAM(ctx context.Context) {
	if x.p.Params.ReuseServer {
		return
	}
	_ = x.each(func(m *member) error {
		if m.vram.asked {
			return nil
		}
		m.vram.asked = true
		m.vram.before, _ = m.usedVRAM(ctx) // what cannot be learned is said where it would be used
		return nil
	})
}

func (m *member) usedVRAM(ctx context.Context) (*float64, error) {
	readings, err := check.Snapshot(ctx, runner{m}, m.host())
	if err != nil {
		return nil, err
	}
	used := check.UsedVRAM(readings)
	if used == nil {
		err = fmt.Errorf("no GPU of %s reports its used memory", m.host())
	}
	return used, err
}

// waitVRAM waits after a server was stopped until its GPU memory is free: a next
// one that finds it in use does not start. It never fails a run: whether the next
// server starts is what decides. What is not known is said once.
func (x *run) waitVRAM(ctx context.Context) error {
	return x.each(func(m *member) error {
		if !m.vram.asked {
			return nil
		}
		if m.vram.before == nil {
			m.vram.asked = false
			x.note("server_stop", "whether the GPU memory on %s is released between servers is not known: amd-smi does not say", m.host())
			return nil
		}
		for deadline := x.r.Now().Add(x.grace()); ; {
			used, err := m.usedVRAM(ctx)
			if err != nil {
				x.note("server_stop", "whether the GPU memory on %s is released is not known: %v", m.host(), err)
				return ctx.Err()
			}
			if *used <= *m.vram.before+vramSlack {
				return nil
			}
			if !x.r.Now().Before(deadline) {
				return x.warn("server_stop", "%.0f MB of GPU memory on %s are still in use %v after the server was stopped; before the first one %.0f MB were",
					*used, m.host(), x.grace(), *m.vram.before)
			}
			if err := x.r.Sleep(ctx, 500*time.Millisecond); err != nil {
				return err
			}
		}
	})
}
