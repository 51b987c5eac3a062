package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	// StartDelay replaces the start-up time of servers, in seconds; 0 keeps it.
	StartDelay float64 `json:"start_delay_s,omitempty"`
	// Client says how benchmark clients misbehave.
	Client ClientFault `json:"client,omitempty"`
	// ClientConcurrency limits Client to clients of that --max-concurrency; 0 is all.
	ClientConcurrency int `json:"client_concurrency,omitempty"`
	// ClientInputLen limits Client to clients of that --random-input-len; 0 is all.
	ClientInputLen int `json:"client_input_len,omitempty"`
	// RefuseForward: the node refuses TCP forwarding.
	RefuseForward bool `json:"refuse_forward,omitempty"`
	// DropOnExec: the connection is cut when the next command is requested.
	DropOnExec bool `json:"drop_on_exec,omitempty"`
	// PullFails: docker pull and login are refused.
	PullFails bool `json:"pull_fails,omitempty"`
	// DockerDown: the Docker daemon cannot be reached.
	DockerDown bool `json:"docker_down,omitempty"`
}

// A ClientFault is a way a benchmark client fails.
type ClientFault string

// The client faults.
const (
	ClientHealthy    ClientFault = ""
	ClientHangs      ClientFault = "hangs"         // sends its requests, then waits for ever, no artefact
	ClientHalf       ClientFault = "half_artefact" // writes half of the artefact, exits 0
	ClientNeverExits ClientFault = "never_exits"   // whole artefact, then waits for ever
	ClientFails      ClientFault = "exit_1"        // traceback, exit code 1, no artefact
)

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

func writeFaults(nodeDir string, f Faults) error {
	return writeJSON(filepath.Join(nodeDir, "faults.json"), f)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(data, '\n'), 0o600)
}

// clientFault is the fault that concerns a client of that shape.
func (f Faults) clientFault(concurrency, inputLen int) ClientFault {
	if f.ClientConcurrency != 0 && f.ClientConcurrency != concurrency || f.ClientInputLen != 0 && f.ClientInputLen != inputLen {
		return ClientHealthy
	}
	return f.Client
}
