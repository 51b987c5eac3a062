package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/container"
	"cvs/collect/gpu"
)

func (p *patient) lock(ctx context.Context) {
	h, res, err := hold(ctx, p.m.node, command(p.m.cmds.lock()), lease/3)
	switch {
	case err != nil:
		p.say("lock", Unready, "%v", err)
	case h != nil:
		h.release()
		p.say("lock", Ready, "no other cvs run")
	case res.ExitCode == 75:
		p.say("lock", Unready, "another cvs run is using the node")
	default:
		p.say("lock", Notable, "the node cannot be locked against other runs: %s", lockProblem(res))
	}
}

// host looks at clock, disk and driver with one command.
func (p *patient) host(ctx context.Context) {
	before := p.d.Now()
	res, err := p.m.must(ctx, p.m.cmds.hostFacts(p.hostPath(p.d.Plan.Paths.LogDir)))
	after := p.d.Now()
	if err != nil {
		p.say("driver", Unready, "%v", err)
		return
	}
	p.facts = parseFacts(res.Stdout)
	if sec, err := strconv.ParseFloat(p.facts["date"], 64); err == nil {
		there := time.Unix(0, int64(sec*1e9))
		skew := there.Sub(before.Add(after.Sub(before) / 2))
		p.skewed = skew
		p.say("clock", judgeAbove(skew.Abs(), skewNotable, skewUnready), "%v from the launcher's", skew.Round(time.Millisecond))
	} else {
		p.say("clock", Unknown, "the node did not say its time")
	}
	for _, where := range []struct{ key, what string }{{"disk-log", "paths.log_dir"}, {"disk-tmp", "/tmp"}} {
		free, err := strconv.ParseInt(p.facts[where.key], 10, 64)
		if err != nil {
			continue
		}
		v := Ready
		if free <<= 10; free < diskUnready {
			v = Unready
		} else if free < diskNotable {
			v = Notable
		}
		p.say("disk", v, "%.1f GB free for %s", float64(free)/1e9, where.what)
	}
	p.say("driver", Ready, "amdgpu %s, ROCm %s, kernel %s", orUnknown(p.facts["amdgpu"]), orUnknown(p.facts["rocm"]), orUnknown(p.facts["kernel"]))
}

func judgeAbove[T cmp.Ordered](v, notable, unready T) Verdict {
	switch {
	case v >= unready:
		return Unready
	case v >= notable:
		return Notable
	}
	return Ready
}

// parseFacts reads lines of "name value".
func parseFacts(out []byte) map[string]string {
	facts := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		facts[name] = clip(strings.TrimSpace(value), 100)
	}
	return facts
}

func (p *patient) gpus(ctx context.Context) {
	res, err := p.m.do(ctx, p.m.cmds.gpuIdentity())
	if err != nil {
		p.say("gpu", Unready, "%v", err)
		return
	}
	if res.ExitCode != 0 {
		p.say("gpu", Notable, "which GPUs there are is not known: amd-smi cannot be asked (exit status %d)", res.ExitCode)
		return
	}
	names, err := ParseGPUs(res.Stdout)
	if err != nil || len(names) == 0 {
		p.say("gpu", Notable, "which GPUs there are is not known: the answer of amd-smi names none")
		return
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(names)))
	what := fmt.Sprintf("%d × %s", len(names), strings.Join(kinds, ", "))
	need := 0
	if q := p.d.Plan.Params; len(p.d.Plan.Cells) > 0 {
		need = q.GPUs() / max(q.NNodes, 1)
	}
	switch {
	case len(kinds) > 1:
		p.say("gpu", Unready, "%s: several kinds", what)
	case gpu.Compare(p.d.Plan.GPUArch, kinds[0]) == gpu.Another:
		p.say("gpu", Unready, "%s, but the config is for gpu_arch %s", what, p.d.Plan.GPUArch)
	case len(names) < need:
		p.say("gpu", Unready, "%s, but a server needs %d here", what, need)
	default:
		p.say("gpu", Ready, "%s", what)
	}
	if res, err = p.m.do(ctx, p.m.cmds.gpuUse()); err != nil || res.ExitCode != 0 {
		p.say("gpu", Unknown, "whether they are idle is not known")
		return
	}
	uses, err := ParseGPUUse(res.Stdout)
	if err != nil {
		p.say("gpu", Unknown, "whether they are idle is not known: %v", err)
		return
	}
	var busy []string
	for _, u := range uses {
		if u.Activity > activityBusy || u.Total > 0 && u.Used/u.Total > vramBusy {
			busy = append(busy, fmt.Sprintf("GPU %d (%.0f %%, %.0f of %.0f MB)", u.Index, u.Activity, u.Used, u.Total))
		}
	}
	if len(busy) > 0 {
		p.say("gpu", Unready, "in use: %s", strings.Join(busy, ", "))
		return
	}
	p.say("gpu", Ready, "idle")
}

func (p *patient) docker(ctx context.Context) {
	res, err := p.m.do(ctx, p.m.cmds.dockerVersion())
	if err == nil && res.ExitCode != 0 {
		err = errors.New(tailText(res.Stderr, 300))
	}
	if err != nil {
		p.say("docker", Unready, "%v", err)
		return
	}
	p.say("docker", Ready, "version %s", clip(strings.TrimSpace(string(res.Stdout)), 50))
	c := p.d.Plan.Container
	if c.Image == "" || c.Name == "" {
		return
	}
	res, err = p.m.do(ctx, p.m.cmds.inspectImage())
	var img container.Image
	if err == nil {
		img, err = container.ParseImage(res.ExitCode, res.Stdout, res.Stderr)
	}
	switch {
	case err != nil:
		p.say("image", Unready, "%v", err)
	case img.Present:
		p.image = img.Digest
		p.say("image", Ready, "%s is %s", c.Image, img.Digest)
	case c.ImageTar != "":
		p.say("image", Notable, "%s is not there; it will be loaded from %s", c.Image, c.ImageTar)
	default:
		p.say("image", Notable, "%s is not there; it will be pulled", c.Image)
	}
	st, err := p.m.inspect(ctx, "container")
	if err == nil {
		var act container.Action
		if act, err = container.Decide(c, st, p.m.cmds.id, false, p.d.Now()); err == nil {
			p.say("container", Ready, "%s: %s", c.Name, map[container.Action]string{container.Attach: "runs and will be used",
				container.Launch: "will be started", container.Relaunch: "is left over from an earlier run and will be replaced"}[act])
			return
		}
	}
	p.say("container", Unready, "%v", err)
}

// hostPath is where a path of the container lies on the node, "" if no volume
// says so.
func (p *patient) hostPath(inside string) string {
	best, bestHost := "", ""
	for _, v := range p.d.Plan.Container.Runtime.Volumes {
		f := strings.Split(v, ":")
		if len(f) < 2 || !strings.HasPrefix(f[0], "/") {
			continue
		}
		to := strings.TrimSuffix(f[1], "/")
		if (inside == to || strings.HasPrefix(inside, to+"/")) && len(to) >= len(best) {
			best, bestHost = to, strings.TrimSuffix(f[0], "/")
		}
	}
	if bestHost == "" {
		return ""
	}
	return bestHost + strings.TrimPrefix(inside, best)
}

func (p *patient) model(ctx context.Context) {
	if p.d.Plan.Model.ID == "" || p.d.Plan.Paths.ModelsDir == "" && isLocalModel(p.d.Plan) == "" {
		return
	}
	inside := modelRoot(p.d.Plan)
	root := p.hostPath(inside)
	if root == "" {
		p.say("model", Unknown, "no volume of the container holds %s", inside)
		return
	}
	res, err := p.m.must(ctx, p.m.cmds.checkModelOnHost(root))
	if err != nil {
		p.say("model", Unready, "%v", err)
		return
	}
	st := parseModel(res.Stdout)
	switch {
	case st.Missing:
		p.say("model", Unready, "%s is not there: nothing at %s", p.d.Plan.Model.ID, root)
	case len(st.Problems) > 0:
		p.say("model", Unready, "%s is not whole: %s", p.d.Plan.Model.ID, strings.Join(st.Problems, "; "))
	default:
		p.say("model", Ready, "%s, %.3g GB, snapshot %s", p.d.Plan.Model.ID, float64(st.Bytes)/1e9, st.Snapshot)
	}
}

func (p *patient) ports(ctx context.Context) {
	q := p.d.Plan.Params
	if q.Port == 0 {
		return
	}
	if err := p.m.portsFree(ctx); err != nil {
		p.say("ports", Unready, "%s", strings.TrimPrefix(err.Error(), errPort.Error()+": "))
		return
	}
	p.say("ports", Ready, "free")
}
