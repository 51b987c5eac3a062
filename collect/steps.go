package collect

import (
	"bytes"
	"path"
	"strconv"
	"time"

	"cvs/collect/container"
	"cvs/collect/driver"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// A Step is one remote command of a run, as it would be sent.
type Step struct {
	Stage     string   `json:"stage"`
	Host      string   `json:"host"`
	Container string   `json:"container"` // "" for a command on the host
	Argv      []string `json:"argv"`      // of the program meant, as it arrives there
	Stdin     string   `json:"stdin"`     // secrets redacted
	Env       []string `json:"env"`       // NAME=value added to the environment, secrets redacted
	Command   string   `json:"command"`   // the single string sent over SSH
	When      string   `json:"when,omitempty"`

	cmd container.Command
}

// commands builds every remote command of a run on one node. It is pure.
type commands struct {
	p       *plan.Plan
	drv     driver.Driver
	docker  container.Docker
	id      container.Identity
	rank    int // place of the node
	host    string
	attempt int    // at the same run, from 1; 0 counts as 1
	token   string // HF token, "" for none
	hide    redactor
}

// Limits of commands that are not docker's. Preparing and stopping touch file
// systems that may be slow; a fetch has the whole artefact to move.
const (
	probeTimeout = 30 * time.Second
	fileTimeout  = 2 * time.Minute
	fetchTimeout = 15 * time.Minute
	logTail      = 64 << 10  // bytes of each log that are kept per cell
	logPiece     = 256 << 10 // bytes of a log that are read on at once
)

func newCommands(p *plan.Plan, id container.Identity, token string, rank int) (*commands, error) {
	d, err := driver.For(p.Params.Driver)
	if err != nil {
		return nil, err
	}
	values := []string{token, p.Cluster.Password}
	for _, list := range [][]plan.EnvVar{p.Server.Env, p.Container.Env, p.Container.Runtime.Env, p.Cluster.EnvVars} {
		for _, e := range list {
			if container.Secret(e.Name) {
				values = append(values, e.Value)
			}
		}
	}
	host := ""
	if rank < len(p.Cluster.Nodes) {
		host = p.Cluster.Nodes[rank].Addr
	}
	return &commands{p: p, drv: d, docker: container.Docker{Sudo: true}, id: id, rank: rank, host: host,
		token: token, hide: newRedactor(values...)}, nil
}

// onHost makes a step of a command on the host. Argv is what docker or the shell
// gets, without sudo.
func (c *commands) onHost(stage string, cmd container.Command) Step {
	return c.step(stage, "", withoutSudo(cmd.Args), nil, cmd)
}

// withoutSudo leaves the probe of sudo itself as it is.
func withoutSudo(args []string) []string {
	if len(args) > 2 && args[0] == "sudo" && args[1] == "-n" && args[2] != "true" {
		return args[2:]
	}
	return args
}

// inside makes a step of a command in the container.
func (c *commands) inside(stage string, stdin []byte, limit time.Duration, args ...string) Step {
	cmd := container.Command{Args: c.docker.Exec(c.p.Container.Name, stdin != nil, args...), Stdin: stdin, Timeout: limit}
	return c.step(stage, c.p.Container.Name, args, nil, cmd)
}

func (c *commands) step(stage, in string, argv []string, env []plan.EnvVar, cmd container.Command) Step {
	s := Step{Stage: stage, Host: c.host, Container: in, Argv: c.hide.list(argv), Env: []string{},
		Command: c.hide.text(line(cmd)), cmd: cmd}
	if cmd.Stdin != nil {
		s.Stdin = redactExports(cmd.Stdin)
	}
	for _, e := range env {
		v := e.Value
		if container.Secret(e.Name) {
			v = redacted
		}
		s.Env = append(s.Env, e.Name+"="+c.hide.text(v))
	}
	return s
}

// line is the text sent for a command. One that cannot be sent fails when it is
// tried, with the reason; a list of commands only shows that reason.
func line(cmd container.Command) string {
	text, err := remote.Command{Args: cmd.Args}.Line()
	if err != nil {
		return "(cannot be sent: " + err.Error() + ")"
	}
	return text
}

// redactExports shows which variables an input sets, and no value: everything
// that goes by standard input does so because it is secret.
func redactExports(stdin []byte) string {
	var b bytes.Buffer
	for _, line := range bytes.Split(stdin, []byte("\n")) {
		if name, _, ok := bytes.Cut(line, []byte("=")); ok && bytes.HasPrefix(name, []byte("export ")) {
			b.Write(name)
			b.WriteString("=" + redacted + "\n")
		}
	}
	return b.String()
}

// workBase is what the names of this run's folders in the container begin with.
func (c *commands) workBase() string {
	return "/tmp/cvs-" + c.id.RunID + "-r" + strconv.Itoa(c.rank) + "-"
}

// work is the folder in the container for job states and the environment file,
// of this attempt: a job's folder serves one start. Rank and attempt are part of
// it because containers may share /tmp.
func (c *commands) work() string { return c.workBase() + strconv.Itoa(max(c.attempt, 1)) }

func (c *commands) envFile() string { return c.work() + "/env" }

func (c *commands) dir(cell plan.Cell, repeat int) string {
	return driver.Dir(c.p, c.id.RunID, c.rank, cell, repeat)
}

func (c *commands) sudoProbe() Step {
	return c.onHost("preflight", container.Command{Args: []string{"sudo", "-n", "true"}, Timeout: probeTimeout})
}

func (c *commands) inspect(stage string) Step {
	return c.onHost(stage, c.docker.Inspect(c.p.Container.Name))
}

func (c *commands) inspectImage() Step {
	return c.onHost("container", c.docker.InspectImage(c.p.Container.Image))
}

// obtainImage lists what brings a missing image to the node.
func (c *commands) obtainImage() []Step {
	const when = "only if the image is missing"
	var out []Step
	if tar := c.p.Container.ImageTar; tar != "" {
		out = append(out, c.onHost("container", c.docker.Load(tar)))
	} else {
		if r := c.p.Container.Runtime.Registry; r != nil {
			out = append(out, c.onHost("container", c.docker.Login(*r)))
		}
		out = append(out, c.onHost("container", c.docker.Pull(c.p.Container.Image)))
	}
	for i := range out {
		out[i].When = when
	}
	return out
}

func (c *commands) devices() []string {
	return container.WantedDevices(c.p.Container, c.p.Params.NNodes)
}

func (c *commands) probeDevices() Step {
	return c.onHost("container", container.ProbeDevices(c.devices()))
}

func (c *commands) runContainer(devices []string) Step {
	cmd := c.docker.Run(c.p, c.id, devices)
	return c.step("container", "", withoutSudo(cmd.Args), append(append([]plan.EnvVar(nil), c.p.Container.Env...), c.p.Container.Runtime.Env...), cmd)
}

func (c *commands) removeContainer(stage string) Step {
	return c.onHost(stage, c.docker.Remove(c.p.Container.Name))
}

func (c *commands) checkModel() Step {
	return c.inside("model", nil, fileTimeout, "sh", "-c", modelScript, "sh", modelRoot(c.p), isLocalModel(c.p))
}

// secrets are the variables that go through the environment file: the token
// first, so that a config's own HF_TOKEN overrides it.
func (c *commands) secrets(proc driver.Process) []plan.EnvVar {
	var out []plan.EnvVar
	if c.token != "" {
		out = append(out, plan.EnvVar{Name: "HF_TOKEN", Value: c.token})
	}
	for _, e := range proc.Env {
		if container.Secret(e.Name) {
			out = append(out, e)
		}
	}
	return out
}

// writeEnv puts the secrets into a file that only its owner can read. It is
// written once a run and removed at teardown.
func (c *commands) writeEnv(proc driver.Process) Step {
	const script = `umask 077; mkdir -p -- "$1" && cat >"$1/env.new" && mv -- "$1/env.new" "$1/env"`
	env := c.secrets(proc)
	stdin := container.Exports(env)
	s := c.inside("server_start", stdin, fileTimeout, "sh", "-c", script, "sh", c.work())
	return s
}

// prepare makes a cell's folder and sets aside files of those names that are
// there already: an older result must never be taken for this cell's.
func (c *commands) prepare(stage, dir string, names ...string) Step {
	const script = `d=$1; shift; mkdir -p -- "$d" || exit
for f; do if [ -e "$d/$f" ] || [ -L "$d/$f" ]; then
n=1; while [ -e "$d/$f.stale-$n" ]; do n=$((n+1)); done
mv -- "$d/$f" "$d/$f.stale-$n" && echo "$f" || exit; fi; done`
	return c.inside(stage, nil, fileTimeout, append([]string{"sh", "-c", script, "sh", dir}, names...)...)
}

func (c *commands) cleanup() (Step, bool) {
	args := c.drv.Cleanup()
	if args == nil {
		return Step{}, false
	}
	return c.inside("server_start", nil, fileTimeout, args...), true
}

// start launches a process as a job. Plain variables are arguments of env, so
// that they arrive byte for byte and can be read in a dry run; secrets come from
// the environment file.
func (c *commands) start(stage, job, log string, proc driver.Process) Step {
	j := c.job(job)
	j.Args = c.launch(log, proc)
	cmd := container.Command{Args: j.StartArgs(), Timeout: probeTimeout}
	env := c.secrets(proc)
	for _, e := range proc.Env {
		if !container.Secret(e.Name) {
			env = append(env, e)
		}
	}
	return c.step(stage, c.p.Container.Name, proc.Args, env, cmd)
}

// launch is the argument list that a job runs for a process.
func (c *commands) launch(log string, proc driver.Process) []string {
	argv := proc.Args
	for _, v := range proc.PrependPath {
		// Only the folder, a constant of the driver, is part of the script.
		script := v.Name + `=` + remote.Quote([]string{v.Value}) + `${` + v.Name + `:+:$` + v.Name + `}; export ` + v.Name + `; exec "$@"`
		argv = append([]string{"sh", "-c", script, "sh"}, argv...)
	}
	var plain []string
	for _, e := range proc.Env {
		if !container.Secret(e.Name) {
			plain = append(plain, e.Name+"="+e.Value)
		}
	}
	if len(plain) > 0 {
		argv = append(append([]string{"env"}, plain...), argv...)
	}
	return append([]string{"sh", "-c", launchScript, "sh", log, c.envFile()}, argv...)
}

// job is the detached process whose state lies in that folder of the container.
func (c *commands) job(dir string) remote.Job {
	return remote.Job{Dir: dir, Prefix: c.docker.Exec(c.p.Container.Name, false), Lease: lease}
}

func (c *commands) serverJob(session int) string {
	return c.work() + "/server-" + strconv.Itoa(session)
}

func (c *commands) clientJob(cell plan.Cell, repeat int) string {
	return c.work() + "/client-" + strconv.Itoa(cell.Ordinal) + "-" + strconv.Itoa(repeat)
}

// server is the process of this node's rank, with what discovery found.
func (c *commands) server(r driver.Rank) (driver.Process, error) {
	r.Index = c.rank
	if r.MasterAddr == "" {
		r.MasterAddr = c.p.Params.MasterAddr
	}
	return c.drv.Server(c.p, r)
}

func (c *commands) startServer(proc driver.Process, session int, dir string) Step {
	return c.start("server_start", c.serverJob(session), path.Join(dir, c.drv.ServerLog()), proc)
}

func (c *commands) startClient(cell plan.Cell, repeat int) Step {
	dir := c.dir(cell, repeat)
	return c.start("cell", c.clientJob(cell, repeat), path.Join(dir, clientLog), c.drv.Client(c.p, cell, dir))
}

// clientLog is the client's log in a cell's folder, for every driver.
const clientLog = "client.log"

// wait shows one of the commands that a run waits with: each waits for a part of
// the time and renews the job's lease. The run itself uses [remote.Job.Wait].
func (c *commands) wait(stage, job string) Step {
	args := c.job(job).WaitArgs(lease / 3)
	return c.jobStep(stage, container.Command{Args: args, Timeout: lease})
}

// stop ends a job by its recorded ids: TERM, and KILL after the grace period.
func (c *commands) stop(stage, job string, grace time.Duration) Step {
	return c.jobStep(stage, container.Command{Args: c.job(job).KillArgs(grace), Timeout: grace + fileTimeout})
}

// jobStep shows a job's command without what brings it into the container.
func (c *commands) jobStep(stage string, cmd container.Command) Step {
	argv := cmd.Args[len(c.docker.Exec(c.p.Container.Name, false)):]
	return c.step(stage, c.p.Container.Name, argv, nil, cmd)
}

func (c *commands) fetch(file string) Step {
	return c.inside("cell", nil, fetchTimeout, "cat", "--", file)
}

// room prints how many KiB are free where a folder lies.
func (c *commands) room(dir string) Step {
	return c.inside("log", nil, probeTimeout, "sh", "-c", `df -Pk -- "$1" | { read -r l; read -r d s u free r; echo "$free"; }`, "sh", dir)
}

func (c *commands) tail(stage, file string) Step {
	return c.inside(stage, nil, fileTimeout, "tail", "-c", strconv.Itoa(logTail), "--", file)
}

// readOn reads what a log holds from a byte on, a piece at most.
func (c *commands) readOn(file string, from int64) Step {
	const script = `[ ! -e "$1" ] || tail -c "+$2" -- "$1" | head -c "$3"`
	return c.inside("log", nil, fileTimeout, "sh", "-c", script, "sh", file, strconv.FormatInt(from+1, 10), strconv.Itoa(logPiece))
}

// usage prints the processor time that a job's processes have used, in clock
// ticks. The job's file of ids says how it was set apart; see [remote.Job].
func (c *commands) usage(job string) Step {
	const script = `read -r p m t <"$1/pid" || exit 1
n=0; for f in /proc/[0-9]*/stat; do IFS= read -r l <"$f" || continue; set -- ${l##*) }
case $m in s) g=$4;; *) g=$3;; esac
[ "$g" = "$p" ] && n=$((n + ${12} + ${13} + ${14} + ${15})); done 2>/dev/null; echo "$n"`
	return c.inside("log", nil, probeTimeout, "sh", "-c", script, "sh", job)
}

// listWork lists the job folders of all attempts at this run.
func (c *commands) listWork() Step {
	const script = `for d in "$1"*/*/; do [ ! -d "$d" ] || printf '%s\n' "${d%/}"; done`
	return c.inside("container", nil, fileTimeout, "sh", "-c", script, "sh", c.workBase())
}

func (c *commands) removeAllWork() Step {
	return c.inside("container", nil, fileTimeout, "sh", "-c", `rm -rf -- "$1"*`, "sh", c.workBase())
}

// removeWork also takes what earlier attempts, whose launchers died, left where
// the container's /tmp outlived them.
func (c *commands) removeWork() Step {
	if c.attempt > 1 {
		return c.inside("teardown", nil, fileTimeout, "sh", "-c", `rm -rf -- "$1"*`, "sh", c.workBase())
	}
	return c.inside("teardown", nil, fileTimeout, "rm", "-rf", "--", c.work())
}
