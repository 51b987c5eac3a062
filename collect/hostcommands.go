package collect

import (
	"strconv"

	"cvs/collect/container"
)

// lock takes the node for one launcher: two runs must not share GPUs or a port.
// It prints a line when it has the lock and holds it as long as its input is
// open and a line comes within each lease, so the lock ends with the connection,
// and with the lease of the run's jobs where the network swallows what is sent
// and the node does not learn that the connection is gone. Where timeout cannot
// be used only the end of the input ends it. The file is opened for reading
// only if it is there, because in a sticky folder the owner of a file may be the
// only one who may open it for creation. Whoever holds the lock removes the file
// at the end, so a lock on a file that is not the one of that name any more is
// no lock.
func (c *commands) lock() Step {
	const script = `f=${TMPDIR:-/tmp}/$1; command -v flock >/dev/null || exit 69
while :; do
[ -e "$f" ] || (umask 022; : >"$f") 2>/dev/null
exec 9<"$f" || exit 73
flock -n 9 || exit 75
[ "$(stat -L -c %d:%i /proc/self/fd/9)" != "$(stat -c %d:%i -- "$f" 2>/dev/null)" ] || break
done
echo locked
if timeout 1 true 2>/dev/null; then
while timeout "$2" sh -c 'IFS= read -r x' 9<&-; do :; done
else cat >/dev/null; fi
rm -f -- "$f"`
	return c.onHost("preflight", container.Command{Args: []string{"sh", "-c", script, "sh", "cvs-node.lock", strconv.Itoa(int(lease.Seconds()))}})
}

// gpuIdentity asks the node, not the container, which GPUs it has.
func (c *commands) gpuIdentity() Step {
	const script = `PATH=$PATH:/opt/rocm/bin; command -v amd-smi >/dev/null || exit 69; exec amd-smi static --asic --json`
	return c.onHost("preflight", container.Command{Args: []string{"sh", "-c", script, "sh"}, Timeout: probeTimeout})
}

// gpuUse asks the node what its GPUs are doing.
func (c *commands) gpuUse() Step {
	const script = `PATH=$PATH:/opt/rocm/bin; exec amd-smi metric --usage --mem-usage --json`
	return c.onHost("preflight", container.Command{Args: []string{"sh", "-c", script, "sh"}, Timeout: probeTimeout})
}

// hostFacts prints facts about the node, one a line: name and value. Disk space
// is in KiB, of the nearest folder that exists.
func (c *commands) hostFacts(logDir string) Step {
	const script = `printf 'date %s\n' "$(date +%s.%N)"; printf 'kernel %s\n' "$(uname -r)"
read -r v </sys/module/amdgpu/version && printf 'amdgpu %s\n' "$v"
read -r v </opt/rocm/.info/version && printf 'rocm %s\n' "$v"
free() { d=$2; while [ -n "$d" ] && [ ! -d "$d" ]; do d=${d%/*}; done
set -- "$1" $(df -Pk -- "${d:-/}" | tail -n 1); printf '%s %s\n' "$1" "$5"; }
[ -z "$1" ] || free disk-log "$1"; free disk-tmp /tmp; exit 0`
	return c.onHost("preflight", container.Command{Args: []string{"sh", "-c", script, "sh", logDir}, Timeout: probeTimeout})
}

func (c *commands) dockerVersion() Step {
	return c.onHost("preflight", c.docker.Version())
}

// checkModelOnHost looks at the model without a container, in the folder that a
// volume mounts.
func (c *commands) checkModelOnHost(root string) Step {
	return c.onHost("model", container.Command{Args: []string{"sh", "-c", modelScript, "sh", root, isLocalModel(c.p)}, Timeout: fileTimeout})
}

// ask is one question of discovery.
func (c *commands) ask(args []string) Step {
	return c.onHost("topology", container.Command{Args: args, Timeout: probeTimeout})
}
