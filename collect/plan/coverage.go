package plan

import (
	"fmt"
	"slices"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/metric"
	"cvs/collect/strictjson"
)

// coverage compares the thresholds with the sweep and the tasks, in both
// directions. With enforcement on a gap is an error, off it is a warning.
func (d *draft) coverage(g *gates) {
	dc := d.dc
	gap := func(n node, offset int, hint, format string, args ...any) {
		dc.probs.add(n.doc, offset, n.path, fmt.Sprintf(format, args...), hint, !d.Enforce)
	}
	if g.old > 0 {
		dc.warnf(g.alias, "leave the prefix out", "metric names with the prefix client. are deprecated (%d here); they mean the bare names", g.old)
	}
	if g.text > 0 {
		dc.warnf(g.first, "leave the quotes out", "numbers written as text (%d here) are taken as numbers", g.text)
	}
	expected := map[string]bool{}
	for _, c := range d.Cells {
		expected[c.Key] = true
	}
	var stale, unknown []string
	for _, m := range g.root.v.Members {
		c := g.cells[m.Name]
		if c == nil || expected[m.Name] {
			continue
		}
		if _, _, _, _, _, err := ParseCellKey(m.Name); err == nil {
			stale = append(stale, m.Name)
			continue
		}
		unknown = append(unknown, m.Name)
		hint, why := "", ""
		var fixed string
		if fixed, why = repairCellKey(m.Name, d.Params.TP, d.Params.PP); fixed != "" {
			hint = why + ": write " + fixed
		} else {
			hint = didYouMean(m.Name, append(nonCellKeys(), sortedCells(d.Cells)...))
		}
		gap(c.at, m.Offset, hint, "the key %s matches no cell", quote(m.Name))
	}
	for _, c := range d.Cells {
		cg := g.cells[c.Key]
		if cg == nil {
			d.Coverage.CellsWithoutSpecs = append(d.Coverage.CellsWithoutSpecs, c.Key)
			hint := didYouMean(c.Key, append(slices.Clone(unknown), stale...))
			if hint != "" {
				hint = "nearest is " + strings.TrimSuffix(strings.TrimPrefix(hint, "did you mean "), "?")
			}
			gap(g.root, g.root.v.Offset, hint, "the cell %s has no entry", c.Key)
			continue
		}
		d.Thresholds = append(d.Thresholds, cg.specs...)
		d.cellCoverage(cg, c, gap)
	}
	slices.Sort(stale)
	d.Coverage.StaleCells = stale
	if len(stale) > 0 && dc.good("sweep.runs", "params.tensor_parallelism", "params.pipeline_parallel_size") {
		dc.probs.add(g.root.doc, g.root.v.Offset, g.root.path, fmt.Sprintf("not in this sweep and not used: %s", shortList(stale)), "", true)
	}
	d.taskCoverage(g, gap)
	d.perGPUBounds(g)
}

func (d *draft) cellCoverage(cg *cellGates, c Cell, gap func(node, int, string, string, ...any)) {
	if cg.at.v.Kind != strictjson.Object {
		return // reported with its kind
	}
	var missing []string
	for _, name := range metric.Gated() {
		if _, ok := cg.index[name]; !ok {
			missing = append(missing, name)
		}
	}
	// A spec that was refused is there: it is reported already.
	missing = slices.DeleteFunc(missing, func(name string) bool {
		return cg.at.v.Get(name) != nil || cg.at.v.Get("client."+name) != nil
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		d.Coverage.MissingSpecs = append(d.Coverage.MissingSpecs, c.Key+": "+strings.Join(missing, ", "))
		gap(cg.at, cg.at.v.Offset, "", "no spec for the gated metrics %s", strings.Join(missing, ", "))
	}
	_, has := cg.index[metric.ScalingEfficiency]
	scaled := d.Params.NNodes > 1 && d.Params.ScalingBaseline != nil
	switch {
	case scaled && !has:
		d.Coverage.MissingSpecs = append(d.Coverage.MissingSpecs, c.Key+": "+metric.ScalingEfficiency)
		gap(cg.at, cg.at.v.Offset, "", "%s has no spec, but params.scaling_baseline_output_throughput is set", metric.ScalingEfficiency)
	case has && !scaled && d.dc.good("params.nnodes", "params.scaling_baseline_output_throughput"):
		why := "no scaling baseline is configured"
		if d.Params.NNodes <= 1 {
			why = "the sweep runs on one node"
		}
		v := cg.at.v.Get(metric.ScalingEfficiency)
		d.dc.probs.add(cg.at.doc, v.Offset, join(cg.at.path, metric.ScalingEfficiency), "can never be evaluated: "+why, "", true)
	}
}

// taskCoverage compares the blocks beside the cells with the configured tasks.
// An entry that only informs may stay for a task that is not configured: files
// serve several configs.
func (d *draft) taskCoverage(g *gates, gap func(node, int, string, string, ...any)) {
	type block struct {
		key string
		ids []string
	}
	var acc, long block
	acc.key, long.key = "accuracy", "long_context_accuracy"
	for _, t := range d.Accuracy {
		acc.ids = append(acc.ids, t.ID)
	}
	for _, c := range d.LongContext {
		long.ids = append(long.ids, c.ID)
	}
	for _, b := range []block{acc, long} {
		for _, id := range b.ids {
			if len(g.byID[b.key+"/"+id]) == 0 {
				d.Coverage.UngatedTasks = append(d.Coverage.UngatedTasks, b.key+": "+id)
			}
		}
		v := g.root.v.Get(b.key)
		if v == nil || !d.dc.good("accuracy", "accuracy.tasks", "long_context_accuracy", "long_context_accuracy.cells") {
			continue
		}
		var idle []string
		for _, m := range v.Members {
			if comment(m.Name) || slices.Contains(b.ids, m.Name) {
				continue
			}
			if gating(g.byID[b.key+"/"+m.Name]) {
				n := g.root.child(b.key, v).child(m.Name, m.Value)
				hint := didYouMean(m.Name, b.ids)
				if hint == "" && len(b.ids) > 0 {
					hint = "configured are " + strings.Join(b.ids, ", ")
				}
				gap(n, m.Offset, hint, "gates a task that the config does not have")
				continue
			}
			idle = append(idle, m.Name)
		}
		if len(idle) > 0 {
			d.dc.warnf(g.root.child(b.key, v), "", "has entries without gates for tasks that are not configured: %s", strings.Join(idle, ", "))
		}
	}
	for _, b := range []struct {
		key string
		on  bool
	}{{"mtp_quality", d.MTP.Requested}, {"quant_parity", d.Quant.Enabled}} {
		if v := g.root.v.Get(b.key); v != nil && !b.on && gating(g.byID[b.key]) {
			gap(g.root.child(b.key, v), v.Offset, "", "gates a check that the config does not switch on")
		}
	}
	for _, s := range g.specs {
		switch {
		case s.Scope == "accuracy" && !slices.Contains(acc.ids, s.Target),
			s.Scope == "long_context_accuracy" && !slices.Contains(long.ids, s.Target),
			s.Scope == "mtp_quality" && !d.MTP.Requested,
			s.Scope == "quant_parity" && !d.Quant.Enabled:
			continue
		}
		d.Thresholds = append(d.Thresholds, s)
	}
}

func gating(specs []artifact.Threshold) bool {
	return slices.ContainsFunc(specs, func(s artifact.Threshold) bool { return s.Kind != "info" })
}

// perGPUBounds warns of per-GPU bounds that were made by dividing by TP alone,
// as the existing suite does: they are too high by PP × DP (decision 11).
func (d *draft) perGPUBounds(g *gates) {
	if d.Params.NNodes <= 1 {
		return
	}
	var odd []string
	var at node
	for _, c := range d.Cells {
		cg := g.cells[c.Key]
		if cg == nil {
			continue
		}
		for _, p := range [][2]string{{"per_gpu_throughput", "total_token_throughput"}, {"output_tput_per_gpu", "output_throughput"}} {
			per, ok1 := cg.floor(p[0])
			total, ok2 := cg.floor(p[1])
			if ok1 && ok2 && total > 0 && per > total/float64(d.Params.GPUs())*1.05 {
				if odd == nil {
					at = cg.at
				}
				odd = append(odd, fmt.Sprintf("%s %s %g > %g", c.Key, p[0], per, total/float64(d.Params.GPUs())))
			}
		}
	}
	if len(odd) > 0 {
		d.dc.warnf(at, "GPUs are TP × PP × DP, not TP alone",
			"%d per-GPU bounds are above the bound of the total divided by the %d GPUs used: %s", len(odd), d.Params.GPUs(), shortList(odd))
	}
}

func (c *cellGates) floor(name string) (float64, bool) {
	i, ok := c.index[name]
	if !ok || c.specs[i].Value == nil || c.specs[i].Kind != "min" && c.specs[i].Kind != "min_tok_s" {
		return 0, false
	}
	return *c.specs[i].Value, true
}

func shortList(all []string) string {
	if len(all) > 6 {
		return strings.Join(all[:5], "; ") + fmt.Sprintf("; and %d more", len(all)-5)
	}
	return strings.Join(all, "; ")
}

func sortedCells(cells []Cell) []string {
	var keys []string
	for _, c := range cells {
		keys = append(keys, c.Key)
	}
	slices.Sort(keys)
	return keys
}
