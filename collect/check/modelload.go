package check

import (
	"context"
	"fmt"
	"time"

	"cvs/collect/artifact"
)

// GPULoadCheck is the [Header.Check] of a [ModelLoad].
const GPULoadCheck = "gpu_load"

// A ModelLoad is checks/gpu/model_load-<session>.json: what one start of a server
// took, on its head (spec 02 §19). Memory that could not be read both before and
// after, or did not change, is absent, and a note says why.
type ModelLoad struct {
	Header
	Host     string   `json:"host"`
	Session  int      `json:"session"`
	Seconds  float64  `json:"seconds"` // launch to ready, the launcher's clock
	BeforeMB *float64 `json:"before_mb,omitempty"`
	AfterMB  *float64 `json:"after_mb,omitempty"`
	MemoryMB *float64 `json:"memory_mb,omitempty"` // after - before, over all GPUs of the host
}

// A LoadWatch measures one start.
type LoadWatch struct {
	r      Runner
	now    func() time.Time
	result ModelLoad
}

// WatchLoad looks at the GPUs before a server is started.
func WatchLoad(ctx context.Context, r Runner, host string, session int, now func() time.Time) *LoadWatch {
	w := &LoadWatch{r: r, now: now, result: ModelLoad{Header: Header{Check: GPULoadCheck, Version: Version, Status: artifact.Done}, Host: host, Session: session}}
	w.result.BeforeMB = w.look(ctx, "before the start")
	w.result.StartedAt = now().UTC()
	return w
}

func (w *LoadWatch) look(ctx context.Context, when string) *float64 {
	readings, err := Snapshot(ctx, w.r, w.result.Host)
	if err != nil {
		w.result.note("%s: %v", when, err)
		return nil
	}
	used := UsedVRAM(readings)
	if used == nil {
		w.result.note("%s: no GPU reports its used memory", when)
	}
	return used
}

// Ready looks again when the server answers.
func (w *LoadWatch) Ready(ctx context.Context) ModelLoad {
	r := &w.result
	r.EndedAt = w.now().UTC()
	r.Seconds = r.EndedAt.Sub(r.StartedAt).Seconds()
	r.AfterMB = w.look(ctx, "when ready")
	if r.BeforeMB != nil && r.AfterMB != nil {
		if grown := *r.AfterMB - *r.BeforeMB; grown != 0 {
			r.MemoryMB = &grown
		} else {
			r.note("the used memory did not change: %s", fmt.Sprintf("%g MB", *r.AfterMB))
		}
	}
	return *r
}
