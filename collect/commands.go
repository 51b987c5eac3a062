package collect

import (
	"path"

	"cvs/collect/container"
	"cvs/collect/driver"
	"cvs/collect/fabric"
	"cvs/collect/plan"
)

// found stands in a dry run for what discovery would find on the nodes.
const found = "(discovered)"

// Commands lists every remote command that a run of the plan sends when nothing
// goes wrong, in order, without any connection: node after node where the run
// goes to all of them at once. The run id is the caller's, because job folders
// bear it. Requests through the tunnel (readiness, and every check but lm-eval)
// are no commands and not listed, nor are the looks at logs while a client runs.
// Sudo is taken for granted, every wanted device for present, and what discovery
// would find is written as (discovered).
func Commands(p *plan.Plan, runID string) ([]Step, error) {
	if err := supported(p); err != nil {
		return nil, err
	}
	var nodes []*commands
	var ranks []driver.Rank
	for i := range p.Cluster.Nodes {
		c, err := newCommands(p, container.Identity{RunID: runID, Owner: "user@launcher"}, "", i)
		if err != nil {
			return nil, err
		}
		if p.Paths.HFTokenFile != "" {
			c.token = redacted
		}
		nodes, ranks = append(nodes, c), append(ranks, dryRank(p))
	}
	var out []Step
	each := func(list func(*commands) []Step) {
		for _, c := range nodes {
			out = append(out, list(c)...)
		}
	}
	each(func(c *commands) []Step { return []Step{c.sudoProbe(), c.lock(), c.gpuIdentity()} })
	if p.Platform.DmesgScan {
		each((*commands).dmesgMark)
	}
	if len(nodes) > 1 {
		each(func(c *commands) []Step { return c.topology(masterAddr(p)) })
	}
	each(func(c *commands) []Step {
		list := []Step{c.inspect("container"), c.inspectImage()}
		if p.Container.Lifetime != plan.NoLaunch {
			list = append(list, c.obtainImage()...)
			list = append(list, c.probeDevices(), c.runContainer(c.devices()), c.inspect("container"))
			if p.Container.Lifetime == plan.PerRun {
				list = append(list, c.startKeeper())
			}
		}
		return list
	})
	if p.Paths.ModelsDir != "" || isLocalModel(p) != "" {
		each(func(c *commands) []Step { return []Step{c.checkModel()} })
	}
	sweep, err := sweepCommands(p, nodes, ranks)
	if err != nil {
		return nil, err
	}
	out = append(out, sweep...)
	each(func(c *commands) []Step {
		list := []Step{c.removeWork()}
		if p.Container.Lifetime == plan.PerRun {
			list = append(list, c.inspect("teardown"), c.removeContainer("teardown"), c.inspect("teardown"))
			list = append(list, c.stopKeeper()...)
		}
		return list
	})
	return out, nil
}

// dryRank is a rank as far as the plan says it.
func dryRank(p *plan.Plan) driver.Rank {
	if p.Params.NNodes < 2 {
		return driver.Rank{MasterAddr: p.Params.MasterAddr}
	}
	r := driver.Rank{MasterAddr: masterAddr(p), Netdev: p.Server.IBNetdev, HCAs: p.Server.IBHCADevices}
	if r.Netdev == "" {
		r.Netdev = found
	}
	if len(r.HCAs) == 0 {
		r.HCAs = []string{found}
	}
	return r
}

// sweepCommands are the servers' and clients', the last server's stop included.
func sweepCommands(p *plan.Plan, nodes []*commands, ranks []driver.Rank) ([]Step, error) {
	var out []Step
	var procs []driver.Process
	for i, c := range nodes {
		proc, err := c.server(ranks[i])
		if err != nil {
			return nil, err
		}
		procs = append(procs, proc)
	}
	session := 0
	stop := func(stage string) {
		for i := len(nodes) - 1; i >= 0; i-- {
			out = append(out, nodes[i].stop(stage, nodes[i].serverJob(session), defaultGrace))
		}
	}
	head := nodes[0]
	for i, cell := range p.Cells {
		if i == 0 || !p.Params.ReuseServer {
			if session > 0 {
				stop("server_stop")
			}
			session++
			for j, c := range nodes {
				if session == 1 {
					out = append(out, c.writeEnv(procs[j]))
				}
				out = append(out, c.prepare("server_start", c.dir(cell, 1), c.drv.ServerLog()))
				if s, ok := c.cleanup(); ok {
					out = append(out, s)
				}
			}
			if p.Platform.GPUMetricsPoll {
				out = append(out, head.gpuSnapshot())
			}
			for j, c := range nodes {
				out = append(out, c.startServer(procs[j], session, c.dir(cell, 1)))
			}
			for _, c := range nodes {
				out = append(out, c.wait("server_start", c.serverJob(session)))
			}
			if p.Platform.GPUMetricsPoll {
				out = append(out, head.gpuSnapshot())
			}
		}
		dir := head.dir(cell, 1)
		out = append(out, head.prepare("cell", dir, head.drv.Artefact(p), clientLog))
		if p.Platform.GPUMetricsPoll {
			for _, c := range nodes {
				out = append(out, c.pollStart(cell))
			}
		}
		out = append(out,
			head.startClient(cell, 1),
			head.wait("cell", head.clientJob(cell, 1)))
		if p.Platform.GPUMetricsPoll {
			for _, c := range nodes {
				out = append(out, c.pollStop(cell)...)
			}
		}
		out = append(out,
			head.fetch(path.Join(dir, head.drv.Artefact(p))),
			head.tail("cell", path.Join(dir, clientLog)))
		for _, c := range nodes {
			out = append(out, c.tail("cell", path.Join(c.dir(firstOf(p, i), 1), c.drv.ServerLog())))
		}
	}
	evals, err := head.evalCommands(procs[0].Env)
	if err != nil {
		return nil, err
	}
	out = append(out, evals...)
	if p.Platform.DmesgScan {
		for _, c := range nodes {
			out = append(out, c.dmesgScan()...)
		}
	}
	stop("teardown")
	return out, nil
}

// firstOf is the cell in whose folder the server of cell i logs.
func firstOf(p *plan.Plan, i int) plan.Cell {
	if p.Params.ReuseServer {
		i = 0
	}
	return p.Cells[i]
}

// topology lists what discovery asks on a node's own operating system.
func (c *commands) topology(master string) []Step {
	var out []Step
	for _, args := range fabric.Questions(c.p.Cluster.Nodes[c.rank], master) {
		out = append(out, c.ask(args))
	}
	return out
}
