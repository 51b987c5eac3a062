// Package lab is a set of simulated GPU nodes behind real SSH servers on
// loopback, for the demo, for tests and for training.
//
// A node really executes the commands it receives, with bash, so that quoting,
// streams, exit codes, signals and dropped connections are those of the real
// thing. What a node lacks it gets from shims that stand first on PATH and are
// all the running program itself under other names (see [Main]): sudo, docker,
// python with the modules of ATOM, vLLM and SGLang. The serving shim is an HTTP
// server over a model of an engine with continuous batching; the client shim
// is a load generator that measures what it really saw. Nothing is scaled back:
// the simulated hardware is just fast, and its results say gpu_name "lab-sim".
//
// Beside those there are amd-smi, whose values follow the engines' load, dmesg
// and journalctl over a log that tests can add to, ibv_devinfo, ip and getent
// for the fabric, lm_eval, which asks the server sums and scores its answers,
// pip and hf. [Faults] say what goes wrong, on each node and while it runs.
//
// Without isolation a node is a loopback address and a folder: commands see the
// machine's files and ports, and docker run takes bind mounts of paths below the
// lab's folder with the same name on both sides only, and refuses others, saying
// which paths it would have needed. With [IsolateOn] or [IsolateAuto] a node is a
// set of namespaces (user, processes, mounts, network, IPC, host name) made
// without privileges: the machine's programs read-only, and /home, /models,
// /tmp, devices and ports of its own, on a network shared by the nodes alone.
// The SSH server stays outside and hands commands and forwards to the node's
// first process, which ends, with all its node, when this program does.
//
// Containers are records in the node's folder. On an isolated node each of their
// processes gets a root made from the container's folder and its bind mounts;
// elsewhere they are processes with the container's environment. Everything a
// node starts carries a random session id in its environment and is ended by
// that id, never by the look of a command line.
//
// A soak over the lab is recorded here. TestSoak of cmd/cvs runs sweeps of six
// cells in a row, each with a fault drawn at random: of the server, of one cell's
// client, of Docker, of the network at a random moment, an interrupt, a foreign
// container, a taken port. After each, cvs load must take the run directory,
// every cell must be measured or say why not, and this process and the node may
// have no more goroutines, open files, processes, containers, sockets or files
// than before. On 2026-12-01, with two busy cores:
//
//	CVS_SOAK=200 CVS_SOAK_SEED=20261201 go test ./cmd/cvs -run TestSoak -timeout 60m -v
//	200 sweeps in 24m55s: 844 cells measured, 362 explained; exit statuses map[0:84 4:111 130:6]
//	at the end: 3 goroutines (3 after the first sweep), 12 open files (12)
//
// The figures include one healthy sweep before the 200, so there are 1206 cells.
//
// The package must not know how cvs drives a node, what a plan is, or how a
// result is judged.
package lab
