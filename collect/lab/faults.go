package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	// Writes that a shim may read at the same moment must be whole.
	"github.com/google/renameio/v2"
)

// Faults are the things that go wrong on a node. They stand in its faults.json
// and are read at each use, so that a test can switch them while a run is under
// way. The zero value is a healthy node.
type Faults struct {
	// ServerDiesAtStart: the server logs an engine failure instead of listening.
	ServerDiesAtStart bool `json:"server_dies_at_start,omitempty"`
	// ServerDiesAfter: the server dies once it has answered that many
	// completions; 0 is never.
	ServerDiesAfter int `json:"server_dies_after,omitempty"`
	// ServerDiesBetween: the server dies when the client of a cell (see
	// ClientConcurrency) has written its artefact and before that client ends.
	ServerDiesBetween bool `json:"server_dies_between,omitempty"`
	// Once limits ServerDiesAfter and ServerDiesBetween to one server of the node.
	Once bool `json:"once,omitempty"`
	// StartDelay replaces the start-up time of servers, in seconds; 0 keeps it.
	StartDelay float64 `json:"start_delay_s,omitempty"`
	// Client says how benchmark clients misbehave.
	Client ClientFault `json:"client,omitempty"`
	// ClientConcurrency limits client faults and ServerDiesBetween to clients of that --max-concurrency; 0 is all.
	ClientConcurrency int `json:"client_concurrency,omitempty"`
	// ClientInputLen limits the same to clients of that --random-input-len; 0 is all.
	ClientInputLen int `json:"client_input_len,omitempty"`
	// RefuseForward: the node refuses TCP forwarding.
	RefuseForward bool `json:"refuse_forward,omitempty"`
	// DropOnExec: the connection is cut when the next command is requested.
	DropOnExec bool `json:"drop_on_exec,omitempty"`
	// PullFails: docker pull and login are refused.
	PullFails bool `json:"pull_fails,omitempty"`
	// DockerDown: the Docker daemon cannot be reached.
	DockerDown bool `json:"docker_down,omitempty"`
	// Answers says how the server answers wrongly.
	Answers AnswerFault `json:"answers,omitempty"`
	// Acceptance replaces the probability that a draft token is confirmed, for
	// servers that start from now on; 0 keeps it.
	Acceptance float64 `json:"acceptance,omitempty"`
	// SlowTokens and Slowdown: engine steps take Slowdown times as long while
	// sequences of more than SlowTokens tokens are in the cache, for servers that
	// start from now on; a Slowdown of 0 is none.
	SlowTokens int     `json:"slow_tokens,omitempty"`
	Slowdown   float64 `json:"slowdown,omitempty"`
	// SMI says how amd-smi misbehaves, or which of its forms it takes.
	SMI SMIFault `json:"smi,omitempty"`
	// Throttled: busy GPUs say that they are held back.
	Throttled bool `json:"throttled,omitempty"`
	// ECCError: with its next answer the server's node logs a fatal memory
	// error, once a server.
	ECCError bool `json:"ecc_error,omitempty"`
	// DmesgDenied: the kernel log may not be read; the journal may.
	DmesgDenied bool `json:"dmesg_denied,omitempty"`
	// HCAs replaces the network adapters that are listed; one empty name is none.
	HCAs []string `json:"hcas,omitempty"`
	// Netdev replaces the name of the network interface.
	Netdev string `json:"netdev,omitempty"`
	// EvalFails: lm_eval ends with a traceback.
	EvalFails bool `json:"eval_fails,omitempty"`
}

// An AnswerFault is a way a server answers wrongly.
type AnswerFault string

// The answer faults.
const (
	AnswersRight AnswerFault = ""
	AnswersJSON  AnswerFault = "bad_json" // what should be JSON is cut off
	AnswersEmpty AnswerFault = "empty"    // no text at all
	AnswersLoop  AnswerFault = "repeats"  // one word for ever
	AnswersWrong AnswerFault = "wrong"    // another needle, another sum
	AnswersDrift AnswerFault = "drift"    // temperature 0 says something new each time
)

// An SMIFault is a way amd-smi answers.
type SMIFault string

// The forms of amd-smi.
const (
	SMIHealthy      SMIFault = ""          // whole JSON, metrics under gpu_data
	SMIList         SMIFault = "list"      // a bare list
	SMINotAvailable SMIFault = "na"        // N/A for everything
	SMIAbsent       SMIFault = "absent"    // no such program
	SMITruncated    SMIFault = "truncated" // JSON that ends early
	SMIFails        SMIFault = "fails"     // exit status 255
)

// A ClientFault is a way a benchmark client fails.
type ClientFault string

// The client faults.
const (
	ClientHealthy    ClientFault = ""
	ClientHangs      ClientFault = "hangs"         // sends its requests, then waits for ever, no artefact
	ClientHalf       ClientFault = "half_artefact" // writes half of the artefact, exits 0
	ClientNeverExits ClientFault = "never_exits"   // whole artefact, then waits for ever
	ClientFails      ClientFault = "exit_1"        // traceback, exit code 1, no artefact
	ClientKilled     ClientFault = "killed"        // sends its requests, then SIGKILL, no artefact
	ClientDiskFull   ClientFault = "disk_full"     // no room for the artefact: a piece of it, traceback, exit code 1
	ClientSlow       ClientFault = "slow"          // reads every answer late, so that its cell is slow
)

// ParseFaults reads faults as a person types them: the JSON names, each with
// =value or, for what is simply on, without. All wrong words are reported.
func ParseFaults(words []string) (Faults, error) {
	var f Faults
	var errs []error
	for _, w := range words {
		name, value, given := strings.Cut(w, "=")
		if !given {
			value = "true"
		}
		if !json.Valid([]byte(value)) {
			quoted, err := json.Marshal(value)
			if err != nil {
				return f, err
			}
			value = string(quoted)
		}
		key, err := json.Marshal(name)
		if err != nil {
			return f, err
		}
		dec := json.NewDecoder(strings.NewReader("{" + string(key) + ":" + value + "}"))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&f); err != nil {
			errs = append(errs, fmt.Errorf("fault %s: %w; the names are %s", w, err, strings.Join(FaultNames(), ", ")))
		}
	}
	if !slices.Contains(clientFaults, f.Client) {
		errs = append(errs, fmt.Errorf("fault client=%s: want one of %q", f.Client, clientFaults[1:]))
	}
	return f, errors.Join(errs...)
}

// FaultNames are the names that ParseFaults takes.
func FaultNames() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Faults]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

var clientFaults = []ClientFault{ClientHealthy, ClientHangs, ClientHalf, ClientNeverExits, ClientFails, ClientKilled, ClientDiskFull, ClientSlow}

func readFaults(nodeDir string) (Faults, error) {
	var f Faults
	data, err := os.ReadFile(filepath.Join(nodeDir, "faults.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("reading the node's faults: %w", err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("reading %s: %w", filepath.Join(nodeDir, "faults.json"), err)
	}
	return f, nil
}

// writeFaults also takes amd-smi off the node's PATH when there is to be none,
// because its absence is found by looking for it.
func writeFaults(nodeDir string, f Faults) error {
	link, hidden := filepath.Join(nodeDir, "bin", "amd-smi"), filepath.Join(nodeDir, "amd-smi.absent")
	from, to := hidden, link
	if f.SMI == SMIAbsent {
		from, to = link, hidden
	}
	if err := os.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeJSON(filepath.Join(nodeDir, "faults.json"), f)
}

// writeJSON writes state of the lab itself: its unfinished file lies beside it,
// not in the TMPDIR of whoever runs in a node, where it would look like something
// a killed sweep left behind.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(data, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(path)))
}

// concerns reports whether client faults are meant for a client of that shape.
func (f Faults) concerns(concurrency, inputLen int) bool {
	return (f.ClientConcurrency == 0 || f.ClientConcurrency == concurrency) && (f.ClientInputLen == 0 || f.ClientInputLen == inputLen)
}

// mayDie reports whether a server of the node may die now, of those deaths that
// Once limits. A file that is made only once is the count.
func (f Faults) mayDie(nodeDir string) bool {
	if !f.Once {
		return true
	}
	mark, err := os.OpenFile(filepath.Join(nodeDir, "died.once"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return mark.Close() == nil
}
