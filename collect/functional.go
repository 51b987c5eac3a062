package collect

import (
	"context"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/check"
	"cvs/collect/plan"
)

// functionalBlocks are the blocks of the functional check that a plan asks for.
func functionalBlocks(f plan.Functional) []string {
	var out []string
	if f.APISmoke {
		out = append(out, check.APISmoke)
	}
	if f.HealthCheck {
		out = append(out, check.HealthCheck)
	}
	return out
}

// functional asks the first server that became ready what FUNC-1 and FUNC-2 ask,
// once a run: later servers only repeat it.
func (x *run) functional(ctx context.Context) error {
	if x.functionalDone {
		return nil
	}
	x.functionalDone = true
	if done, err := x.functionalBefore(); done || err != nil {
		return err
	}
	began := x.r.Now()
	defer func() { x.r.Split.Checks += x.r.Now().Sub(began); x.asking = "" }()
	var all check.FunctionalResult
	for i, block := range functionalBlocks(x.p.Functional) {
		err := x.record(ctx, artifact.Stage{Stage: block}, func(ctx context.Context) error {
			ctx, cancel := x.whileServed(ctx, functionalLimit)
			defer cancel()
			r := check.Functional(ctx, x.asServer(), plan.Functional{APISmoke: block == check.APISmoke, HealthCheck: block == check.HealthCheck})
			if i == 0 {
				all = r
			} else {
				all = joinFunctional(all, r)
			}
			if err := x.keepResult(ctx, &all.Header, &all, "functional.json"); err != nil {
				return err
			}
			if !r.Pass {
				return &finding{functionalFailures(r)}
			}
			return nil
		})
		if isStore(err) {
			return err
		}
	}
	return nil
}

// joinFunctional adds the second block's result to the first's: both stand in one
// file.
func joinFunctional(a, b check.FunctionalResult) check.FunctionalResult {
	a.EndedAt, a.Pass, a.Steps = b.EndedAt, a.Pass && b.Pass, append(a.Steps, b.Steps...)
	if b.HealthCheck != nil {
		a.HealthCheck = b.HealthCheck
	}
	if a.Status == artifact.Done {
		a.Status, a.Reason = b.Status, b.Reason
	}
	a.Notes = append(a.Notes, b.Notes...)
	return a
}

// functionalFailures is what did not hold, for the stage's reason.
func functionalFailures(r check.FunctionalResult) string {
	var out []string
	for _, s := range r.Steps {
		if !s.Pass {
			out = append(out, s.ID+" ("+s.Request+"): "+strings.Join(s.Failures, ", "))
		}
	}
	return clip(strings.Join(out, "; "), 2000)
}
