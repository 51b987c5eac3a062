// Package collect carries out a plan: it connects to a node, starts container
// and server, measures every cell, and leaves a run directory.
//
// The order of a run is the table in stages.go. Every remote command is built
// in steps.go, by the same functions for a dry run and for a real one. What was
// measured is kept as it was written; a failed cell is data, not the end.
//
// This package judges no number and prints nothing: it reports progress as
// events and results as files. It must not know the warehouse, nor read the
// environment or the working directory.
package collect

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// ErrRun marks what went wrong on the way: host, SSH, docker, server or client
// (exit status 4). ErrInput marks what the user must put right before anything
// is started (exit status 2).
var (
	ErrRun   = errors.New("run failed")
	ErrInput = errors.New("bad input")
)

// A Node is one machine as a run needs it; [remote.Host] is the real one. An
// error of Run and Stream means that the command's own status was not learned.
type Node interface {
	Run(ctx context.Context, c remote.Command) (remote.Result, error)
	Stream(ctx context.Context, c remote.Command, stdout, stderr io.Writer) (remote.Result, error)
	DialTCP(ctx context.Context, addr string) (net.Conn, error)
	HTTPTransport() http.RoundTripper
	Notices() []string
	Close() error
}

// A Store keeps what a run produces; [artifact.Dir] is the real one. What a
// method took is on disk when it returns.
type Store interface {
	Meta() artifact.Meta
	UpdateMeta(change func(*artifact.Meta)) error
	AddInput(kind, name string, data []byte) error
	WriteConfig(v any) error
	WriteThresholds(t artifact.Thresholds) error
	WriteExpected(e artifact.Expected) error
	AppendStage(s artifact.Stage) (seq int, err error)
	WriteCheck(data []byte, elem ...string) error
	WriteAccuracy(task, name string, data []byte) error
	CellDir(ordinal int, cell artifact.ExpectedCell, repeat int) (*artifact.CellDir, error)
	Close(status artifact.Status, reason string, ended time.Time) error
}

// Options change how a run behaves, never what is measured.
type Options struct {
	Owner       string // user@launcher, for the container's label
	Force       bool   // take over a container that is not ours
	NoHFToken   bool   // run without a token although the config names a file
	FailFast    bool   // the first failed cell ends the sweep
	MaxFailures int    // consecutive failed cells that end the sweep; 0: no limit
	Repeat      int    // measurements of each cell; 0 means 1
	// TeardownTimeout bounds cleaning up, reconnecting included; 0 means 2 min.
	TeardownTimeout time.Duration
	// StopGrace is how long a process may take to end after TERM; 0 means 20 s.
	StopGrace time.Duration
	// Reconnect is how long a connection that broke is tried to be made anew; 0
	// means 20 s, which jobs outlive.
	Reconnect time.Duration
	// Inactivity is how long a client may show no sign of life (log, server log,
	// processor time) before it is stopped as hung; 0 means 10 min.
	Inactivity time.Duration
	// QuantReference is what the answer of quant_parity is compared with.
	QuantReference Reference
	// GPUInterval is the pause between two looks at the GPUs; 0 means 2 s.
	GPUInterval time.Duration
}

// A Runner carries out one plan on its nodes.
type Runner struct {
	Plan  *plan.Plan
	Store Store
	// Previous is what the run directory held before it was opened again, for a
	// run that is resumed; nil for a new one. Cells that were measured as they
	// would be now, and whose artefacts are whole, are not measured again.
	Previous *artifact.Run
	// Dial connects to a node. Its error says what was tried and why it failed.
	Dial     func(ctx context.Context, n plan.Node) (Node, error)
	Now      func() time.Time // time.Now outside tests
	Sleep    func(ctx context.Context, d time.Duration) error
	Progress func(Event) // may be nil; called from one goroutine at a time
	Options  Options
	// Left is told what the run would leave on the nodes if it ended now, one line
	// each, whenever that changes; may be nil. Called from one goroutine at a time.
	Left func([]string)

	// Split is where the time went; filled in by Run.
	Split Split
}

// A Split says where a run's wall time went.
type Split struct {
	Wall        time.Duration
	ServerStart time.Duration // all server starts, launch to ready
	Client      time.Duration // all clients, launch to exit
	Checks      time.Duration // what was asked and read beside the cells
	Cells       int           // measurements tried
	Reused      int           // measurements of an earlier attempt that stand
}

// Idle is what was neither server start nor client nor check.
func (s Split) Idle() time.Duration { return s.Wall - s.ServerStart - s.Client - s.Checks }

// An EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	StageStarted EventKind = "stage_started"
	StageEnded   EventKind = "stage_ended"
	CellStarted  EventKind = "cell_started"
	CellEnded    EventKind = "cell_ended"
	Note         EventKind = "note"    // something worth knowing
	Warning      EventKind = "warning" // also kept in the run's warnings
)

// An Event is one line of progress. Secrets are already taken out.
type Event struct {
	Kind    EventKind       `json:"kind"`
	Time    time.Time       `json:"time"`
	Stage   string          `json:"stage,omitempty"`
	Host    string          `json:"host,omitempty"`
	Cell    string          `json:"cell,omitempty"` // cell id
	Repeat  int             `json:"repeat,omitempty"`
	Index   int             `json:"index,omitempty"` // measurement, from 1, of Total
	Total   int             `json:"total,omitempty"`
	Elapsed time.Duration   `json:"elapsed,omitempty"` // of the stage or cell
	Status  artifact.Status `json:"status,omitempty"`
	Reused  bool            `json:"reused,omitempty"` // CellEnded: an earlier attempt measured it
	Message string          `json:"message,omitempty"`
}
