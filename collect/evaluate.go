package collect

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/check"
	"cvs/collect/container"
	"cvs/collect/driver"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// evalPlace is where lm-eval runs for one group: results in the run's own folder,
// downloads in one that later runs may use.
func (c *commands) evalPlace(i int) check.EvalPlace {
	return check.EvalPlace{URL: check.EvalURL(c.p.Params), Model: c.p.Model.ID,
		Output: path.Join(driver.Base(c.p, c.id.RunID), "accuracy", strconv.Itoa(i+1)+"-"+strconv.Itoa(max(c.attempt, 1))),
		Cache:  path.Join(c.p.Paths.LogDir, "atom", "hf_cache"), Hub: c.p.Paths.ModelsDir}
}

func (c *commands) evalJob(i int) string { return c.work() + "/eval-" + strconv.Itoa(i+1) }

// evalLaunch wraps lm-eval as every other process in the container: log file,
// secrets from the environment file, the server's environment.
func (c *commands) evalLaunch(env []plan.EnvVar) func(string, []string, []plan.EnvVar) []string {
	return func(log string, args []string, more []plan.EnvVar) []string {
		return c.launch(log, driver.Process{Args: args, Env: append(slices.Clip(env), more...)})
	}
}

// accuracy runs lm-eval for one group and keeps what it wrote for each of its
// tasks.
func (x *run) accuracy(ctx context.Context, i int, g check.EvalGroup) error {
	m := x.head()
	proc, err := m.cmds.server(m.fabric)
	if err != nil {
		return err
	}
	e := check.Evaluator{Runner: runner{m}, Prefix: m.cmds.docker.Exec(x.p.Container.Name, false), Launch: m.cmds.evalLaunch(proc.Env),
		JobDir: m.cmds.evalJob(i), Lease: lease, Grace: x.grace(), Now: x.r.Now}
	r := e.Run(ctx, g, m.cmds.evalPlace(i))
	for j, f := range r.Files {
		data := r.Data[j]
		if x.hide.has(data) {
			if err := x.warn("accuracy", "%s held a secret, which was taken out: it is not byte for byte as written", f.Name); err != nil {
				return err
			}
			data = []byte(x.hide.json(string(data)))
		}
		for _, id := range g.IDs {
			if err := x.r.Store.WriteAccuracy(id, f.Name, data); err != nil {
				return &storeError{err}
			}
		}
	}
	return x.keepResult(ctx, &r.Header, &r, "accuracy", g.IDs[0]+".json")
}

// evalCommands are those of every run of lm-eval.
func (c *commands) evalCommands(env []plan.EnvVar) ([]Step, error) {
	groups, err := check.Groups(c.p.Accuracy, c.p.Params.Driver)
	if err != nil {
		return nil, err
	}
	var out []Step
	for i, g := range groups {
		at, stage := c.evalPlace(i), g.IDs[0]
		argv, err := check.EvalArgs(g.Task, at)
		if err != nil {
			return nil, err
		}
		for _, args := range [][]string{check.PrepareArgs(at), check.InstallArgs(), check.StampArgs()} {
			out = append(out, c.inside(stage, nil, fileTimeout, args...))
		}
		j := c.job(c.evalJob(i))
		all := append(append([]plan.EnvVar(nil), env...), check.EvalEnv(at)...)
		j.Args = c.evalLaunch(env)(path.Join(at.Output, "lm_eval.log"), argv, check.EvalEnv(at))
		start := c.step(stage, c.p.Container.Name, argv, all, container.Command{Args: j.StartArgs(), Timeout: probeTimeout})
		out = append(out, start, c.wait(stage, c.evalJob(i)), c.inside(stage, nil, fileTimeout, check.FindArgs(at.Output)...))
		fetch := c.inside(stage, nil, fetchTimeout, remote.FetchArgs(strings.TrimSuffix(at.Output, "/")+"/"+found)...)
		fetch.When = "for the newest results file and each of its sample files"
		out = append(out, fetch)
	}
	return out, nil
}
