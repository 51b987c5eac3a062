package collect

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cvs/collect/container"
	"cvs/collect/fabric"
	"cvs/collect/plan"
)

// A Verdict is what a pre-flight check came to.
type Verdict string

// The verdicts. Only Unready keeps a run from starting.
const (
	Ready   Verdict = "ok"
	Notable Verdict = "warning"
	Unready Verdict = "not ready"
	Unknown Verdict = "not checked" // nothing to check, or no way to
)

// A Finding is one line of the pre-flight.
type Finding struct {
	Host    string  `json:"host"` // "" for what concerns the nodes together, or the launcher
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
}

// A Doctor looks at every node of a plan at once and changes nothing there. A
// plan without cells, from a cluster file alone, has only the node checked.
type Doctor struct {
	Plan    *plan.Plan
	Dial    func(ctx context.Context, n plan.Node) (Node, error)
	Now     func() time.Time
	Owner   string // as in Options
	NoToken bool
}

// Limits of what is fit for a run.
const (
	skewNotable  = 2 * time.Second
	skewUnready  = time.Minute // artefacts would be dated before the run
	diskNotable  = 20 << 30    // bytes
	diskUnready  = 1 << 30
	vramBusy     = 0.05 // share in use: a driver keeps well below one part in a hundred
	activityBusy = 5    // per cent
)

// A patient is one node under examination.
type patient struct {
	d      *Doctor
	m      *member
	mu     sync.Mutex
	found  []Finding
	facts  map[string]string
	image  string
	skewed time.Duration
}

func (p *patient) say(check string, v Verdict, format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = append(p.found, Finding{p.m.host(), check, v, p.m.run.hide.text(fmt.Sprintf(format, a...))})
}

// Examine carries out every check. Findings come in the order of the nodes and,
// on each, of the checks. It takes no longer than the slowest node.
func (d *Doctor) Examine(ctx context.Context) ([]Finding, error) {
	x := &run{r: &Runner{Plan: d.Plan, Now: d.Now}, p: d.Plan}
	var patients []*patient
	for i, n := range d.Plan.Cluster.Nodes {
		q := *d.Plan
		if q.Params.Driver == "" {
			q.Params.Driver = plan.DriverATOM // any will do: nothing is started
		}
		c, err := newCommands(&q, container.Identity{Owner: d.Owner}, "", i)
		if err != nil {
			return nil, err
		}
		x.drv, x.hide = c.drv, c.hide
		m := &member{run: x, rank: i, at: n, cmds: c}
		x.members = append(x.members, m)
		patients = append(patients, &patient{d: d, m: m})
	}
	var wg sync.WaitGroup
	for _, p := range patients {
		wg.Go(func() { p.examine(ctx) })
	}
	wg.Wait()
	defer func() {
		for _, p := range patients {
			if p.m.node != nil {
				_ = p.m.node.Close()
			}
		}
	}()
	out := d.launcher()
	for _, p := range patients {
		slices.SortStableFunc(p.found, func(a, b Finding) int {
			return cmp.Compare(slices.Index(checks, a.Check), slices.Index(checks, b.Check))
		})
		out = append(out, p.found...)
	}
	out = append(out, together(ctx, x, patients)...)
	return out, ctx.Err()
}

// checks are the names of the checks of a node, in the order of the report.
var checks = []string{"ssh", "sudo", "lock", "driver", "gpu", "docker", "image", "container", "model", "ports", "disk", "clock"}

// launcher checks what the launcher itself has to bring.
func (d *Doctor) launcher() []Finding {
	if d.Plan.Paths.HFTokenFile == "" {
		return nil
	}
	if _, err := (&Runner{Plan: d.Plan, Options: Options{NoHFToken: d.NoToken}}).hfToken(); err != nil {
		return []Finding{{"", "token", Unready, strings.TrimPrefix(err.Error(), ErrInput.Error()+": ")}}
	}
	return []Finding{{"", "token", Ready, d.Plan.Paths.HFTokenFile}}
}

func (p *patient) examine(ctx context.Context) {
	began := p.d.Now()
	n, err := p.d.Dial(ctx, p.m.at)
	if err != nil {
		p.say("ssh", Unready, "%v", err)
		return
	}
	p.m.attach(n)
	p.say("ssh", Ready, "connected in %v", p.d.Now().Sub(began).Round(time.Millisecond))
	for _, notice := range n.Notices() {
		p.say("ssh", Notable, "%s", notice)
	}
	res, err := p.m.do(ctx, p.m.cmds.sudoProbe())
	switch {
	case err != nil:
		p.say("sudo", Unready, "%v", err)
		return
	case res.ExitCode == 0:
		p.say("sudo", Ready, "without a password")
	default:
		p.m.cmds.docker.Sudo = false
		p.say("sudo", Notable, "not possible without a password: docker is called as %s", p.d.Plan.Cluster.Username)
	}
	var wg sync.WaitGroup
	for _, look := range []func(context.Context){p.lock, p.host, p.gpus, p.docker, p.model, p.ports} {
		wg.Go(func() { look(ctx) })
	}
	wg.Wait()
}

// together compares the nodes, and discovers the fabric between them.
func together(ctx context.Context, x *run, patients []*patient) []Finding {
	if len(patients) < 2 {
		return nil
	}
	var out []Finding
	same := func(check string, of func(*patient) string, bad Verdict) {
		byValue := map[string][]string{}
		for _, p := range patients {
			if v := of(p); v != "" {
				byValue[v] = append(byValue[v], p.m.host())
			}
		}
		if len(byValue) < 2 {
			return
		}
		var parts []string
		for v, hosts := range byValue {
			parts = append(parts, v+" on "+strings.Join(hosts, ", "))
		}
		slices.Sort(parts)
		out = append(out, Finding{"", check, bad, "differs: " + strings.Join(parts, "; ")})
	}
	same("image", func(p *patient) string { return p.image }, Unready)
	for _, f := range []string{"amdgpu", "rocm", "kernel"} {
		same(f, func(p *patient) string { return p.facts[f] }, Notable)
	}
	for _, p := range patients {
		if p.m.node == nil || p.m.gone() != nil {
			return append(out, Finding{"", "fabric", Unknown, "not all nodes answer"})
		}
	}
	if x.p.Params.NNodes < 2 && len(x.p.Cells) > 0 {
		return out
	}
	var nodes []fabric.Node
	for _, m := range x.members {
		nodes = append(nodes, fabric.Node{Node: m.at, Ask: func(ctx context.Context, args []string) (string, error) {
			res, err := m.do(ctx, m.cmds.ask(args))
			return string(res.Stdout), err
		}})
	}
	found, err := fabric.Discover(ctx, nodes, fabric.Want{HCAs: x.p.Server.IBHCADevices, Netdev: x.p.Server.IBNetdev, Master: masterAddr(x.p)})
	if err != nil {
		return append(out, Finding{"", "fabric", Unready, strings.ReplaceAll(err.Error(), "\n", "; ")})
	}
	return append(out, Finding{"", "fabric", Ready, fmt.Sprintf("%s, HCAs %s, rank 0 at %s", found.Netdev, strings.Join(found.HCAs, ","), net.JoinHostPort(found.Master, strconv.Itoa(x.p.Params.MasterPort)))})
}
