package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/artifact"
	"cvs/collect/plan"
)

type configCheckOptions struct {
	inputOptions
	format string
}

func (o *configCheckOptions) addFlags(f *pflag.FlagSet) {
	o.inputOptions.addFlags(f)
	f.StringVar(&o.format, "format", "text", "output `format`: text or json")
}

func newConfigCheck(e *env) *cobra.Command {
	var o configCheckOptions
	cmd := &cobra.Command{
		Use:   "check --config_file F [--cluster_file C] [--config_profile P]",
		Short: "Check config, threshold and cluster file without touching a node",
		Long: `Check a config, the threshold file it names and a cluster file together. Every
problem of all of them is printed with its position and remedy, exit status 2;
otherwise a summary of what would run, exit status 0. No node is touched and no
key or token file is read.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := emptyProfile(cmd, o.inputOptions); err != nil {
				return err
			}
			return runConfigCheck(cmd.Context(), e, o)
		},
	}
	o.addFlags(cmd.Flags())
	completeInputs(cmd)
	return cmd
}

// completeInputs registers what the shell completes for the input flags.
func completeInputs(cmd *cobra.Command) {
	// The only error is a flag that does not exist, a mistake of the caller's
	// that shows as a completion that is missing.
	_ = cmd.RegisterFlagCompletionFunc("config_profile", completeProfiles)
	for _, name := range []string{"config_file", "cluster_file"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt))
	}
}

func runConfigCheck(_ context.Context, e *env, o configCheckOptions) error {
	if o.format != "text" && o.format != "json" {
		return badInput("--format %q: want text or json", o.format)
	}
	p, err := o.load(e)
	var bad *plan.Error
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	if o.format == "json" {
		r := checkReport{OK: err == nil, Problems: []checkProblem{}}
		if bad != nil {
			r.add(bad.Problems)
		} else {
			r.add(p.Warnings)
			r.Plan = newCheckPlan(p)
		}
		if jsonErr := printJSON(e, r); jsonErr != nil {
			return badStore(jsonErr)
		}
		return err
	}
	if err != nil {
		return err // printed once, with every problem, by the caller
	}
	return writeCheck(e, p)
}

// A checkReport is the JSON form of the answer.
type checkReport struct {
	OK       bool           `json:"ok"`
	Problems []checkProblem `json:"problems"`
	Plan     *checkPlan     `json:"plan,omitempty"`
}

type checkProblem struct {
	File     string `json:"file"`
	Line     int    `json:"line"`   // 0: the file as a whole
	Column   int    `json:"column"` // bytes, from 1
	Path     string `json:"path"`
	Message  string `json:"message"`
	Hint     string `json:"hint"`
	Severity string `json:"severity"` // error, warning
}

func (r *checkReport) add(problems []plan.Problem) {
	for _, p := range problems {
		severity := "error"
		if p.Warning {
			severity = "warning"
		}
		r.Problems = append(r.Problems, checkProblem{p.File, p.Line, p.Column, p.Path, p.Msg, p.Hint, severity})
	}
}

type checkPlan struct {
	Profile       string          `json:"profile"`
	Schema        string          `json:"schema"`
	Driver        string          `json:"driver"`
	Model         string          `json:"model"`
	Image         string          `json:"image"`
	GPUArch       string          `json:"gpu_arch"`
	NNodes        int             `json:"nnodes"`
	GPUs          int             `json:"gpus"` // TP x PP x DP
	Enforce       bool            `json:"enforce"`
	EnforceOrigin string          `json:"enforce_origin"`
	Cells         []checkCell     `json:"cells"`
	Tasks         []checkTask     `json:"tasks"`
	Hosts         []string        `json:"hosts"` // rank order
	Files         []string        `json:"expected_files"`
	Thresholds    checkThresholds `json:"thresholds"`
	RecordOnly    []string        `json:"record_only"`
	Coverage      checkCoverage   `json:"coverage"`
	Resolved      json.RawMessage `json:"resolved"` // secrets redacted
}

type checkCell struct {
	ID          string `json:"id"`
	Key         string `json:"key"`
	ISL         int    `json:"isl"`
	OSL         int    `json:"osl"`
	TP          int    `json:"tp"`
	PP          int    `json:"pp"`
	Concurrency int    `json:"concurrency"`
}

type checkTask struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

type checkThresholds struct {
	File  string         `json:"file"`
	Cells map[string]int `json:"cells"` // specs by cell key
	Other map[string]int `json:"other"` // specs by scope: accuracy, mtp_quality, …
}

type checkCoverage struct {
	CellsWithoutSpecs []string `json:"cells_without_specs"`
	MissingSpecs      []string `json:"missing_specs"`
	StaleCells        []string `json:"stale_cells"`
	UngatedTasks      []string `json:"ungated_tasks"`
}

func newCheckPlan(p *plan.Plan) *checkPlan {
	c := &checkPlan{
		Profile: p.Profile, Schema: p.Schema, Driver: string(p.Params.Driver), Model: p.Model.ID, Image: p.Container.Image,
		GPUArch: p.GPUArch, NNodes: p.Params.NNodes, GPUs: p.Params.GPUs(),
		Enforce: p.Enforce, EnforceOrigin: p.EnforceOrigin,
		Cells: []checkCell{}, Tasks: []checkTask{}, Hosts: []string{}, Files: expectedFiles(p), RecordOnly: recordOnly(p),
		Thresholds: checkThresholds{File: p.Threshold.Path, Cells: map[string]int{}, Other: map[string]int{}},
		Coverage: checkCoverage{
			orEmpty(p.Coverage.CellsWithoutSpecs), orEmpty(p.Coverage.MissingSpecs),
			orEmpty(p.Coverage.StaleCells), orEmpty(p.Coverage.UngatedTasks),
		},
		Resolved: p.Resolved,
	}
	for _, n := range p.Cluster.Nodes {
		c.Hosts = append(c.Hosts, n.Addr)
	}
	for _, x := range p.Cells {
		c.Cells = append(c.Cells, checkCell{x.ID, x.Key, x.ISL, x.OSL, p.Params.TP, p.Params.PP, x.Concurrency})
		c.Thresholds.Cells[x.Key] = 0
	}
	for _, t := range p.Thresholds {
		if t.Scope != "cell" {
			c.Thresholds.Other[t.Scope]++
		} else if _, ours := c.Thresholds.Cells[t.Target]; ours {
			c.Thresholds.Cells[t.Target]++
		}
	}
	for _, t := range plannedTasks(p) {
		c.Tasks = append(c.Tasks, checkTask{t.Kind, t.ID})
	}
	return c
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// plannedTasks lists what runs beside the cells, in the order of the stages.
func plannedTasks(p *plan.Plan) []artifact.ExpectedTask {
	var out []artifact.ExpectedTask
	add := func(on bool, kind, id string) {
		if on {
			out = append(out, artifact.ExpectedTask{Kind: kind, ID: id})
		}
	}
	add(p.Functional.APISmoke, "functional", "api_smoke")
	add(p.Functional.HealthCheck, "functional", "health_check")
	add(p.Platform.DmesgScan, "platform", "dmesg_scan")
	add(p.Platform.GPUMetricsPoll, "platform", "gpu_metrics_poll")
	for _, t := range p.Accuracy {
		add(true, "accuracy", t.ID)
	}
	for _, c := range p.LongContext {
		add(true, "long_context_accuracy", c.ID)
	}
	add(p.MTP.Requested, "mtp_quality", "mtp_quality")
	add(p.Quant.Enabled, "quant_parity", "quant_parity")
	return out
}

// expectedFiles lists what a run leaves, below its run directory.
func expectedFiles(p *plan.Plan) []string {
	files := []string{"run.json", "expected.json", "stages.jsonl"}
	for _, c := range p.Cells {
		files = append(files, fmt.Sprintf("cells/%d-%s/1/", c.Ordinal, c.ID))
	}
	for _, t := range p.Accuracy {
		files = append(files, "accuracy/"+t.ID+"/")
	}
	return append(files, "atom_run_deck.html", "atom_run_deck.json")
}

// recordOnly says in words what is measured and judged by nothing.
func recordOnly(p *plan.Plan) []string {
	if !p.Enforce {
		return []string{"everything: thresholds are not enforced (" + p.EnforceOrigin + ")"}
	}
	out := []string{}
	for _, key := range p.Coverage.CellsWithoutSpecs {
		out = append(out, "cell "+key)
	}
	out = append(out, p.Coverage.UngatedTasks...)
	info := map[string]int{}
	for _, t := range p.Thresholds {
		if t.Kind == "info" {
			info[strings.TrimSpace(t.Scope+" "+t.Metric)]++
		}
	}
	names := make([]string, 0, len(info))
	for name := range info {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		out = append(out, name+" (kind info)")
	}
	return out
}
