package lab

import (
	"fmt"
	"path/filepath"
)

// An Isolation says whether nodes get namespaces of their own: user, process
// ids, mounts, network, IPC and host name. With them a node has its own
// /models, /home, /tmp and ports, and sees the machine's programs read-only.
type Isolation string

// The values of Options.Isolate.
const (
	IsolateOff  Isolation = "off"  // as the zero value: nodes share the machine; no privilege, no kernel feature needed
	IsolateAuto Isolation = "auto" // where the machine allows it; [Lab.Isolated] says so
	IsolateOn   Isolation = "on"   // or Start fails
)

// Names under which the program runs as one of the lab's own helpers.
const (
	helperFabric    = "cvs-lab-fabric"    // holds the network between the nodes
	helperNode      = "cvs-lab-node"      // first process of a node
	helperContainer = "cvs-lab-container" // makes a container's root, then becomes its process
)

// envHelper carries a helper's description as JSON.
const envHelper = "CVS_LAB_HELPER"

// A nodeSpec is what the first process of a node has to know.
type nodeSpec struct {
	Name       string `json:"name"`
	IP         string `json:"ip"`
	Dir        string `json:"dir"` // state folder
	Lab        string `json:"lab"` // the lab's folder
	Bash       string `json:"bash"`
	Executable string `json:"executable"`
	Network    bool   `json:"network"` // an eth0 comes and is waited for
}

// Folders of a node's root that nodes of a lab share, below the lab's folder.
func (s nodeSpec) shared() []string {
	return []string{filepath.Join(s.Lab, "shared"), filepath.Join(s.Lab, "models")}
}

// isolatedIP is the address of node i on the network between isolated nodes.
func isolatedIP(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// isolatedHome is where [User]'s home is on an isolated node.
const isolatedHome = "/home/" + User

// A bind shows a path of the outer root inside another one.
type bind struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// A containerSpec is what the process of a container has to know.
type containerSpec struct {
	Root       string   `json:"root"` // folder that becomes /
	Dir        string   `json:"dir"`  // working directory
	Argv       []string `json:"argv"`
	Devices    []bind   `json:"devices,omitempty"`
	AllDevices bool     `json:"all_devices,omitempty"` // privileged
	Binds      []bind   `json:"binds,omitempty"`
	Node       string   `json:"node"` // the node's state folder, for the shims
	Executable string   `json:"executable"`
}
