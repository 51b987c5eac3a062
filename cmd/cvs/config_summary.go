package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"cvs/collect/plan"
)

// writeCheck prints the summary for people.
func writeCheck(e *env, p *plan.Plan) error {
	c := newCheckPlan(p)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	row := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", label, fmt.Sprintf(format, args...))
	}
	row("config", "%s, profile %s, %s schema", p.Config.Path, p.Profile, p.Schema)
	row("model", "%s%s on %s", p.Model.ID, parens(p.Model.Precision), p.GPUArch)
	row("driver", "%s, TP %d, PP %d, DP %d: %s on %s", c.Driver, p.Params.TP, p.Params.PP, p.Params.DP,
		count(c.GPUs, "GPU"), count(p.Params.NNodes, "node"))
	row("image", "%s, container %s (%s)", p.Container.Image, p.Container.Name, p.Container.Lifetime)
	if len(c.Hosts) > 0 {
		row("hosts", "%s (head)%s", c.Hosts[0], strings.Join(append([]string{""}, c.Hosts[1:]...), ", "))
	} else {
		row("hosts", "not checked: no --cluster_file")
	}
	total := 0
	for _, n := range c.Thresholds.Cells {
		total += n
	}
	row("thresholds", "%s: %s for %s%s", or(p.Threshold.Path, "none"), count(total, "spec"), count(len(c.Cells), "cell"), otherSpecs(c.Thresholds.Other))
	if p.Enforce {
		row("enforced", "yes (%s)", p.EnforceOrigin)
	} else {
		row("enforced", "no, record-only (%s)", p.EnforceOrigin)
	}
	row("coverage", "%s", c.Coverage.summary())
	_ = w.Flush() // into memory

	fmt.Fprintf(&b, "\n%s\n", count(len(c.Cells), "cell"))
	w = tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for i, x := range c.Cells {
		fmt.Fprintf(w, "  %d\t%s\t%s\t%s\n", i+1, x.ID, x.Key, count(c.Thresholds.Cells[x.Key], "spec"))
	}
	_ = w.Flush()

	if len(c.Tasks) > 0 {
		byKind := map[string][]string{}
		var kinds []string
		for _, t := range c.Tasks {
			if !slices.Contains(kinds, t.Kind) {
				kinds = append(kinds, t.Kind)
			}
			byKind[t.Kind] = append(byKind[t.Kind], t.ID)
		}
		fmt.Fprintf(&b, "\n%s\n", count(len(c.Tasks), "check"))
		w = tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		for _, kind := range kinds {
			fmt.Fprintf(w, "  %s\t%s\n", kind, strings.Join(byKind[kind], ", "))
		}
		_ = w.Flush()
	}
	section(&b, "expected in the run directory", c.Files)
	section(&b, "record-only", c.RecordOnly)
	section(&b, "cells without any threshold", c.Coverage.CellsWithoutSpecs)
	section(&b, "required thresholds that are missing", c.Coverage.MissingSpecs)
	section(&b, "thresholds of cells that this sweep does not have", c.Coverage.StaleCells)
	section(&b, "tasks without a gate", c.Coverage.UngatedTasks)
	warnings := make([]string, 0, len(p.Warnings))
	for _, x := range p.Warnings {
		warnings = append(warnings, x.String())
	}
	section(&b, count(len(warnings), "warning"), warnings)
	b.WriteString("\nok: no node was touched\n")
	_, err := fmt.Fprint(e.stdout, b.String())
	return err
}

func section(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, l := range lines {
		fmt.Fprintf(b, "  %s\n", l)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func parens(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func otherSpecs(by map[string]int) string {
	scopes := make([]string, 0, len(by))
	for s := range by {
		scopes = append(scopes, s)
	}
	sort.Strings(scopes)
	var out string
	for _, s := range scopes {
		out += fmt.Sprintf(", %d for %s", by[s], s)
	}
	return out
}

// summary is one line; the lists follow where they are not empty.
func (c checkCoverage) summary() string {
	var parts []string
	for _, x := range []struct {
		list []string
		one  string
		many string
	}{
		{c.CellsWithoutSpecs, "1 cell without thresholds", "%d cells without thresholds"},
		{c.MissingSpecs, "1 cell lacks required thresholds", "%d cells lack required thresholds"},
		{c.StaleCells, "thresholds of 1 cell that is not in this sweep", "thresholds of %d cells that are not in this sweep"},
		{c.UngatedTasks, "1 task without a gate", "%d tasks without a gate"},
	} {
		switch n := len(x.list); n {
		case 0:
		case 1:
			parts = append(parts, x.one)
		default:
			parts = append(parts, fmt.Sprintf(x.many, n))
		}
	}
	if len(parts) == 0 {
		return "complete: every cell has every required threshold, every task a gate"
	}
	return strings.Join(parts, ", ")
}
