package collect

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/collect/driver"
	"cvs/collect/plan"
)

// NewMeta is run.json as far as a plan says it. Run id, tool version, launcher
// and command line are the caller's.
func NewMeta(p *plan.Plan) artifact.Meta {
	m := artifact.Meta{
		Suite: p.Suite, Profile: p.Profile, Enforce: p.Enforce, EnforceOrigin: p.EnforceOrigin,
		MatchLengths: p.Params.MatchLengths,
		Identity: artifact.Identity{
			Model: p.Model.ID, Precision: p.Model.Precision, GPUArch: p.GPUArch,
			Driver: string(p.Params.Driver), TP: p.Params.TP, PP: p.Params.PP, DP: p.Params.DP,
			NNodes: p.Params.NNodes, Image: p.Container.Image, ScalingBaseline: p.Params.ScalingBaseline,
		},
	}
	for _, n := range p.Cluster.Nodes {
		m.Identity.Hosts = append(m.Identity.Hosts, n.Addr)
	}
	labels := map[string]string{}
	for k, v := range map[string]string{"upstream_run_url": p.RunCard.UpstreamRunURL,
		"atom_image_pin": p.RunCard.ATOMImagePin, "notes": p.RunCard.Notes} {
		if v != "" {
			labels[k] = v
		}
	}
	if len(labels) > 0 {
		m.Labels = labels
	}
	for _, w := range p.Warnings {
		m.Warnings = append(m.Warnings, problemText(w))
	}
	if d, err := driver.For(p.Params.Driver); err == nil {
		m.Warnings = append(m.Warnings, d.Notes(p)...)
	}
	return m
}

func problemText(w plan.Problem) string {
	var b strings.Builder
	if w.File != "" {
		b.WriteString(w.File)
		if w.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", w.Line, w.Column)
		}
		b.WriteString(": ")
	}
	if w.Path != "" {
		b.WriteString(w.Path + ": ")
	}
	b.WriteString(w.Msg)
	if w.Hint != "" {
		b.WriteString(" (" + w.Hint + ")")
	}
	return b.String()
}

// Expected lists everything that a plan asks for, in order. Accuracy tasks
// that the server cannot serve stand in it with their reason, so that the run is
// incomplete.
func Expected(p *plan.Plan, repeats int) artifact.Expected {
	var e artifact.Expected
	for _, c := range p.Cells {
		e.Cells = append(e.Cells, expectedCell(p, c, repeats))
	}
	task := func(kind, id string) {
		e.Tasks = append(e.Tasks, artifact.ExpectedTask{Kind: kind, ID: id})
	}
	for _, block := range functionalBlocks(p.Functional) {
		task("functional", block)
	}
	refused := check.Refused(p.Accuracy, p.Params.Driver)
	for _, a := range p.Accuracy {
		if i := slices.IndexFunc(refused, func(t artifact.ExpectedTask) bool { return t.ID == a.ID }); i >= 0 {
			e.Tasks = append(e.Tasks, refused[i])
			continue
		}
		task("accuracy", a.ID)
	}
	for _, l := range p.LongContext {
		task("long_context_accuracy", l.ID)
	}
	if p.MTP.Requested {
		task(taskMTP, taskMTP)
	}
	if p.Quant.Enabled {
		task(taskQuant, taskQuant)
	}
	if p.Platform.DmesgScan {
		task("platform", taskDmesg)
	}
	if p.Platform.GPUMetricsPoll {
		task("platform", taskGPU)
	}
	return e
}

// supported refuses a plan whose nodes do not fit it. The loader says so with
// the place in the file; this is for plans that were put together otherwise.
func supported(p *plan.Plan) error {
	if n := max(p.Params.NNodes, 1); len(p.Cluster.Nodes) != n {
		return fmt.Errorf("%w: params.nnodes is %d, but the cluster file names %d nodes", ErrInput, n, len(p.Cluster.Nodes))
	}
	return nil
}

// Check says whether a run may start at all, without touching a node or the
// store, which need not be there yet. A run that is to be resumed is checked
// before its directory is opened, because that changes what it says. Errors are
// ErrRun or ErrInput.
func (r *Runner) Check() error {
	if err := supported(r.Plan); err != nil {
		return err
	}
	if _, err := r.earlier(); err != nil {
		return err
	}
	_, err := r.hfToken()
	return err
}

// hfToken reads the Hugging Face token; "" when none is configured or wanted.
func (r *Runner) hfToken() (string, error) {
	file := r.Plan.Paths.HFTokenFile
	if file == "" || r.Options.NoHFToken {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: paths.hf_token_file: %w (--no-hf-token runs without a token)", ErrInput, err)
	}
	token := strings.TrimSpace(strings.TrimPrefix(string(b), "\ufeff"))
	switch {
	case token == "":
		return "", fmt.Errorf("%w: paths.hf_token_file %s is empty (--no-hf-token runs without a token)", ErrInput, file)
	case len(token) > 4096 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%w: paths.hf_token_file %s does not hold one token", ErrInput, file)
	}
	return token, nil
}

// writePlan stores what was asked for. Secrets are taken out of the copies.
func (x *run) writePlan() error {
	p, st := x.p, x.r.Store
	for _, in := range []struct {
		kind string
		src  plan.Source
	}{{"config", p.Config}, {"thresholds", p.Threshold}, {"cluster", p.ClusterSrc}} {
		if in.src.Path == "" {
			continue
		}
		if err := st.AddInput(in.kind, in.src.Path, x.hide.fileText(in.src.Bytes)); err != nil {
			return err
		}
	}
	if len(p.Resolved) > 0 {
		if err := st.WriteConfig(json.RawMessage(x.hide.json(string(p.Resolved)))); err != nil {
			return err
		}
	}
	if err := st.WriteThresholds(artifact.Thresholds{Specs: p.Thresholds}); err != nil {
		return err
	}
	return st.WriteExpected(Expected(p, x.repeats()))
}

// expectedCell is a planned cell as the run directory lists it.
func expectedCell(p *plan.Plan, c plan.Cell, repeats int) artifact.ExpectedCell {
	return artifact.ExpectedCell{Key: c.Key, ID: c.ID, Combo: c.Combo, ISL: c.ISL, OSL: c.OSL,
		Concurrency: c.Concurrency, NumPrompts: p.Params.NumPrompts, Repeats: repeats}
}
