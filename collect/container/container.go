// Package container knows Docker: which argument lists start, look at, enter and
// remove a container on a node, and what a found container means for a run.
//
// Everything here is pure: argument lists go out, captured output comes in. It
// must not know how commands reach a node, nor what runs inside a container.
package container

import (
	"strconv"
	"strings"
	"time"

	"cvs/collect/plan"
)

// Labels that every container of ours carries.
const (
	LabelRunID = "cvs.run_id"
	LabelOwner = "cvs.owner"
)

// Limits of the docker commands. Images are tens of gigabytes, so a pull and a
// load get an hour; the rest answers at once or not at all.
const (
	ShortTimeout = 30 * time.Second
	RunTimeout   = 2 * time.Minute
	PullTimeout  = time.Hour
)

// A Command is one program to run on a node: its whole argument list, unquoted,
// and what it reads.
type Command struct {
	Args    []string
	Stdin   []byte // may hold secrets; never shown
	Timeout time.Duration
}

// Docker builds docker commands for one node.
type Docker struct {
	// Sudo puts "sudo -n" in front.
	Sudo bool
}

// Identity is what a container of ours says about itself.
type Identity struct {
	RunID string
	Owner string // user@launcher
}

func (d Docker) root(args ...string) []string {
	if d.Sudo {
		return append([]string{"sudo", "-n"}, args...)
	}
	return args
}

func (d Docker) short(args ...string) Command {
	return Command{Args: d.root(append([]string{"docker"}, args...)...), Timeout: ShortTimeout}
}

// Inspect asks for a container's state; [ParseContainer] reads the answer.
func (d Docker) Inspect(name string) Command {
	return d.short("inspect", "--type", "container", name)
}

// Version asks the daemon for its version, printed alone on a line.
func (d Docker) Version() Command {
	return d.short("version", "--format", "{{.Server.Version}}")
}

// InspectImage asks whether an image is there; [ParseImage] reads the answer.
func (d Docker) InspectImage(image string) Command {
	return d.short("image", "inspect", image)
}

// Pull fetches an image.
func (d Docker) Pull(image string) Command {
	c := d.short("pull", image)
	c.Timeout = PullTimeout
	return c
}

// Load reads an image from a tar file on the node.
func (d Docker) Load(tar string) Command {
	c := d.short("load", "--input", tar)
	c.Timeout = PullTimeout
	return c
}

// Login logs in to a registry. The password goes from its file on the node into
// docker's standard input; it is in no argument list and never leaves the node.
func (d Docker) Login(r plan.Registry) Command {
	const script = `f=$1; shift; exec docker login "$@" --password-stdin <"$f"`
	args := []string{"sh", "-c", script, "sh", r.PasswordFile, "--username", r.Username}
	if r.Server != "" {
		args = append(args, r.Server)
	}
	return Command{Args: d.root(args...), Timeout: ShortTimeout}
}

// Remove removes a container, running or not.
func (d Docker) Remove(name string) Command { return d.short("rm", "-f", name) }

// Exec runs a program inside a container. The list is passed on as it is: no
// shell of ours stands between. A command with input needs stdin true.
func (d Docker) Exec(name string, stdin bool, args ...string) []string {
	head := []string{"docker", "exec"}
	if stdin {
		head = append(head, "-i")
	}
	return d.root(append(append(head, name), args...)...)
}

// GPUDevices are wanted for every run, FabricDevices when a server spans nodes.
// Which of them a node has is asked there; see [ProbeDevices].
var (
	GPUDevices    = []string{"/dev/kfd", "/dev/dri"}
	FabricDevices = []string{"/dev/infiniband"}
)

// WantedDevices are the devices to look for on a node: the frameworks' own, then
// the configured ones.
func WantedDevices(c plan.Container, nnodes int) []string {
	want := append([]string(nil), GPUDevices...)
	if nnodes > 1 {
		want = append(want, FabricDevices...)
	}
	seen := map[string]bool{}
	var out []string
	for _, d := range append(want, c.Runtime.Devices...) {
		if !seen[d] {
			seen[d] = true
			out = append(out, d)
		}
	}
	return out
}

// hostPath is the part of host[:container[:permissions]] that is on the node.
func hostPath(device string) string {
	host, _, _ := strings.Cut(device, ":")
	return host
}

// ProbeDevices prints those of the devices that exist on the node, one a line.
// Docker refuses a container with a device that is not there.
func ProbeDevices(devices []string) Command {
	const script = `for d; do [ ! -e "$d" ] || printf '%s\n' "$d"; done`
	args := []string{"sh", "-c", script, "sh"}
	for _, d := range devices {
		args = append(args, hostPath(d))
	}
	return Command{Args: args, Timeout: ShortTimeout}
}

// Present picks the devices that [ProbeDevices] found, as they were configured.
func Present(devices []string, probe []byte) (present, absent []string) {
	found := map[string]bool{}
	for line := range strings.Lines(string(probe)) {
		found[strings.TrimRight(line, "\n")] = true
	}
	for _, d := range devices {
		if found[hostPath(d)] {
			present = append(present, d)
		} else {
			absent = append(absent, d)
		}
	}
	return present, absent
}

// Run starts a container that does nothing until it is removed. Devices are
// those that exist. Environment variables that look like secrets go by stdin.
func (d Docker) Run(p *plan.Plan, id Identity, devices []string) Command {
	c, rt := p.Container, p.Container.Runtime
	args := []string{"run", "-d", "--name", c.Name,
		"--label", LabelRunID + "=" + id.RunID, "--label", LabelOwner + "=" + id.Owner}
	each := func(flag string, values ...string) {
		for _, v := range values {
			args = append(args, flag, v)
		}
	}
	each("-v", rt.Volumes...)

	perNode := p.Params.GPUs() / max(p.Params.NNodes, 1)
	env := []plan.EnvVar{
		{Name: "GPUS", Value: strconv.Itoa(perNode)},
		{Name: "MULTINODE", Value: strconv.FormatBool(p.Params.NNodes > 1)},
	}
	env = plan.LastWins(append(append(env, c.Env...), rt.Env...))
	var secret []plan.EnvVar
	for _, e := range env {
		if Secret(e.Name) {
			secret = append(secret, e)
			args = append(args, "-e", e.Name) // docker takes the value from its own environment
			continue
		}
		args = append(args, "-e", e.Name+"="+e.Value)
	}

	each("--device", devices...)
	each("--cap-add", merge([]string{"SYS_PTRACE", "IPC_LOCK", "SYS_ADMIN"}, rt.CapAdd)...)
	each("--security-opt", merge([]string{"seccomp=unconfined", "apparmor=unconfined"}, rt.SecurityOpt)...)
	var groups []string
	if len(devices) > 0 {
		// The group owns the GPU devices; images for other machines may lack it.
		groups = []string{"video"}
	}
	each("--group-add", merge(groups, rt.GroupAdd)...)
	args = append(args, "--network", or(rt.Network, "host"), "--ipc", or(rt.IPC, "host"))
	each("--ulimit", ulimits(rt.Ulimit)...)
	if rt.ShmSize != "" {
		args = append(args, "--shm-size", rt.ShmSize)
	}
	if rt.Privileged {
		args = append(args, "--privileged")
	}
	// Images for serving start a server by themselves; this one only waits.
	args = append(args, "--entrypoint", "sleep", c.Image, "infinity")

	if len(secret) == 0 {
		return Command{Args: d.root(append([]string{"docker"}, args...)...), Timeout: RunTimeout}
	}
	const script = `d=$(command -v docker) && eval "$(cat)" && exec "$d" "$@"`
	return Command{
		Args:    d.root(append([]string{"sh", "-c", script, "sh"}, args...)...),
		Stdin:   Exports(secret),
		Timeout: RunTimeout,
	}
}

// Exports writes environment variables as shell commands, values quoted, so
// that any text but NUL survives, newlines and quotes included.
func Exports(env []plan.EnvVar) []byte {
	var b strings.Builder
	for _, e := range env {
		b.WriteString("export " + e.Name + "='" + strings.ReplaceAll(e.Value, "'", `'\''`) + "'\n")
	}
	return []byte(b.String())
}

// secretWords mark variables whose values are kept out of argument lists. A
// false hit costs nothing: the variable arrives all the same.
var secretWords = []string{"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "AUTH"}

// Secret reports whether a variable of that name is to be treated as a secret.
func Secret(name string) bool {
	u := strings.ToUpper(name)
	if u == "TOKENIZERS_PARALLELISM" {
		return false
	}
	for _, w := range secretWords {
		if strings.Contains(u, w) {
			return true
		}
	}
	return false
}

// ulimits adds the default for memlock unless the config sets it: RDMA and large
// pinned buffers need it unlimited.
func ulimits(configured []string) []string {
	for _, u := range configured {
		if strings.HasPrefix(u, "memlock=") {
			return configured
		}
	}
	return append([]string{"memlock=-1"}, configured...)
}

// merge appends what is not there yet.
func merge(base, more []string) []string {
	out := append([]string(nil), base...)
	seen := map[string]bool{}
	for _, b := range base {
		seen[b] = true
	}
	for _, m := range more {
		if !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	return out
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
