// Package artifact is the run directory: what a run leaves behind, and the only
// thing collect and warehouse share.
//
// What a benchmark wrote is kept byte for byte; around it stand small JSON
// records of what was asked for and what happened. Files are written to a
// temporary name, synced and renamed, so a reader never meets half a file;
// stages.jsonl is append-only and synced per line. A reader accepts a directory
// that is still being written or was cut off: it takes what is whole and names
// what is not.
//
// This package must not know what a number means, nor talk to a machine or a
// database.
package artifact

import (
	"encoding/json"
	"time"
)

// FormatVersion is the version of the run directory that this package writes.
// A reader refuses a newer one by name.
const FormatVersion = 1

// A Status says how far a run, a stage or a cell got.
type Status string

// The statuses. A run is Running until it closes; a directory whose run died is
// still Running, which is how a reader knows.
const (
	Running     Status = "running"
	Done        Status = "done"        // everything planned was carried out
	Failed      Status = "failed"      // a host, server or client failed
	Interrupted Status = "interrupted" // the user stopped it
	Skipped     Status = "skipped"     // not attempted; Reason says why
	NotRun      Status = "not_run"     // planned, known in advance not to be possible or not yet supported
)

// A Meta is run.json.
type Meta struct {
	FormatVersion int               `json:"format_version"`
	RunID         string            `json:"run_id"`
	Suite         string            `json:"suite"`
	Profile       string            `json:"profile"`
	Status        Status            `json:"status"`
	Reason        string            `json:"reason,omitempty"`
	StartedAt     *time.Time        `json:"started_at,omitempty"` // UTC
	EndedAt       *time.Time        `json:"ended_at,omitempty"`   // UTC
	ToolVersion   string            `json:"tool_version"`
	CommandLine   []string          `json:"command_line,omitempty"` // secrets redacted
	Launcher      Launcher          `json:"launcher"`
	Inputs        []Input           `json:"inputs,omitempty"`
	Identity      Identity          `json:"identity"`
	Enforce       bool              `json:"enforce_thresholds"`
	EnforceOrigin string            `json:"enforce_origin,omitempty"` // who said so: file, default of the schema, flag
	Simulated     bool              `json:"simulated"`
	MatchLengths  bool              `json:"match_lengths,omitempty"` // clients were told to draw equal lengths
	Warnings      []string          `json:"warnings,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"` // free facts for people, e.g. upstream_run_url, notes
}

// A Launcher is the machine and user that ran cvs.
type Launcher struct {
	Host string `json:"host,omitempty"`
	User string `json:"user,omitempty"`
	OS   string `json:"os,omitempty"`
}

// An Input is one file the run was started from.
type Input struct {
	Kind   string `json:"kind"` // config, thresholds, cluster
	Path   string `json:"path"` // as given
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// An Identity is what two runs must share to be compared (decision 33), and the
// facts that derived metrics need.
type Identity struct {
	Model           string            `json:"model"`
	Precision       string            `json:"precision,omitempty"`
	GPUArch         string            `json:"gpu_arch,omitempty"`
	GPUSeen         string            `json:"gpu_seen,omitempty"` // what the node or the client reported, "" if unknown
	Driver          string            `json:"driver"`
	TP              int               `json:"tp"`
	PP              int               `json:"pp"`
	DP              int               `json:"dp"`
	NNodes          int               `json:"nnodes"`
	Image           string            `json:"image,omitempty"`
	ImageDigests    map[string]string `json:"image_digests,omitempty"` // host → digest
	Hosts           []string          `json:"hosts,omitempty"`         // head first
	ScalingBaseline *float64          `json:"scaling_baseline_output_throughput,omitempty"`
}

// An Expected is expected.json: everything that was planned, in order. A cell
// without a result is visible only because it stands here.
type Expected struct {
	Cells []ExpectedCell `json:"cells"`
	Tasks []ExpectedTask `json:"tasks,omitempty"`
}

// An ExpectedCell is one planned measurement.
type ExpectedCell struct {
	Key         string `json:"key"` // ISL=…,OSL=…,TP=…,PP=…,CONC=…
	ID          string `json:"id"`  // <combo>-conc<concurrency>
	Combo       string `json:"combo"`
	ISL         int    `json:"isl"`
	OSL         int    `json:"osl"`
	Concurrency int    `json:"concurrency"`
	NumPrompts  int    `json:"num_prompts,omitempty"` // 0: not stated
	Repeats     int    `json:"repeats,omitempty"`     // 0 means 1
}

// An ExpectedTask is a planned check that is not a cell: accuracy, long
// context, functional, platform and so on.
type ExpectedTask struct {
	Kind   string `json:"kind"` // accuracy, long_context_accuracy, mtp_quality, quant_parity, functional, platform
	ID     string `json:"id"`
	Status Status `json:"status,omitempty"` // not_run when it was known in advance that it cannot run
	Reason string `json:"reason,omitempty"`
	// Filter is the lm-eval filter that is reported of an accuracy task; "" for all.
	Filter string `json:"filter,omitempty"`
}

// A Threshold is one spec, with the place where it was written.
type Threshold struct {
	Scope        string   `json:"scope"` // cell, accuracy, mtp_quality, long_context_accuracy, quant_parity
	Target       string   `json:"target,omitempty"`
	Metric       string   `json:"metric"` // bare name
	Kind         string   `json:"kind"`   // min max max_ms min_tok_s within min_ratio info
	Value        *float64 `json:"value,omitempty"`
	TolerancePct *float64 `json:"tolerance_pct,omitempty"`
	Reference    string   `json:"reference,omitempty"`
	File         string   `json:"file,omitempty"`    // base name of the threshold file
	Line         int      `json:"line,omitempty"`    // of the metric's key
	Pointer      string   `json:"pointer,omitempty"` // RFC 6901
}

// Thresholds is thresholds.json: the specs of the chosen profile.
type Thresholds struct {
	Specs []Threshold `json:"specs"`
}

// A Stage is one line of stages.jsonl.
type Stage struct {
	Seq     int        `json:"seq"`
	Stage   string     `json:"stage"`
	Host    string     `json:"host,omitempty"`
	Cell    string     `json:"cell,omitempty"` // cell id
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
	Status  Status     `json:"status"`
	Reason  string     `json:"reason,omitempty"`
}

// A Record is record.json of one cell and repeat: how the raw files beside it
// came to be.
type Record struct {
	FormatVersion int        `json:"format_version"`
	CellKey       string     `json:"cell_key"`
	CellID        string     `json:"cell_id"`
	Repeat        int        `json:"repeat"` // from 1
	Host          string     `json:"host"`
	Driver        string     `json:"driver"`
	Status        Status     `json:"status"`
	Reason        string     `json:"reason,omitempty"`
	StartedAt     *time.Time `json:"started_at,omitempty"`
	EndedAt       *time.Time `json:"ended_at,omitempty"`
	ExitCode      *int       `json:"exit_code,omitempty"` // of the client; nil when it was never learned
	ClientArgv    []string   `json:"client_argv,omitempty"`
	ServerArgv    []string   `json:"server_argv,omitempty"`
	ServerSession int        `json:"server_session,omitempty"` // counts server starts of the run, from 1
	Warm          bool       `json:"warm"`                     // the server had served before this cell
	ConfigDigest  string     `json:"config_digest,omitempty"`  // of what determines this cell's result
	Workload      *Workload  `json:"workload,omitempty"`
	Files         []File     `json:"files"`
}

// A Workload is what the client was asked to draw, and what it really sent as
// far as its result says. Lengths are tokens.
type Workload struct {
	InputLen      *Span    `json:"input_len,omitempty"`       // what input lengths are drawn from; nil: a data set's own
	OutputLen     *Span    `json:"output_len,omitempty"`      // the same of output lengths
	Matched       bool     `json:"matched_lengths,omitempty"` // arguments were translated so that clients agree
	MeanInputLen  *float64 `json:"mean_input_len,omitempty"`
	MeanOutputLen *float64 `json:"mean_output_len,omitempty"`
}

// A Span is drawn from evenly, both ends included.
type Span struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// A File is one raw file of a cell.
type File struct {
	Name   string `json:"name"` // base name inside the cell's folder
	Kind   string `json:"kind"` // result, client_log, server_log
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Format string `json:"format,omitempty"` // e.g. atom_benchmark_serving; recognised by content, see warehouse/ingest
}

// A Result is one raw result file as found, with what is known around it.
type Result struct {
	Path   string  // where it was read, for messages; relative to the run directory where there is one
	Data   []byte  // the bytes as written
	SHA256 string  // of Data, hex
	Record *Record // nil for loose files and foreign layouts
	// CellKey is the cell the layout or the record assigns the file to; "" when
	// only its content can tell (a file with many lines, a loose file).
	CellKey string
	Repeat  int // from 1
	Host    string
}

// A Run is everything a run directory holds, decoded. It is what the warehouse
// loads; evaluate builds one from a plan and a results folder.
type Run struct {
	Dir        string // "" when there is none
	Meta       Meta
	Expected   Expected
	Thresholds Thresholds
	Stages     []Stage
	Results    []Result
	// Records are the record.json of all cells and repeats that count, also of
	// those that left no result: they say why.
	Records []Record
	// Superseded are the results of attempts that a resumed run repeated. They
	// are kept and can be referred to; they are never judged.
	Superseded []Result
	Accuracy   []Result // lm-eval results; CellKey is the task id
	Checks     []Result // files under checks/; CellKey is the path below it
	Config     json.RawMessage
	Notes      string // notes.md, at most 64 KiB
	// Problems are the files that were not whole; the rest is still usable.
	Problems []Problem
	// Decisions are put in by whoever can check signatures; nil for none.
	Decisions *Decisions
}

// A Problem is one thing that is wrong with a run directory.
type Problem struct {
	Path string `json:"path"`
	Cell string `json:"cell,omitempty"` // cell key, "" when none is concerned
	Msg  string `json:"msg"`
	Note bool   `json:"note,omitempty"` // worth knowing; makes no result unusable
}
