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
// Containers are records in the node's folder. Commands run in them are
// processes of the machine with the container's environment. Nothing is
// mounted: docker run takes bind mounts of paths below the lab's folder with
// the same name on both sides, and refuses others, saying which paths it would
// have needed. Everything a node starts carries a random session id in its
// environment and is ended by that id, never by the look of a command line.
//
// The package must not know how cvs drives a node, what a plan is, or how a
// result is judged.
package lab
