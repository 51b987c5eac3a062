package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"cvs/collect"
	"cvs/collect/plan"
)

type doctorOptions struct {
	in      inputOptions
	ssh     sshOptions
	format  string
	noToken bool
}

func newDoctor(e *env) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor --cluster_file C [--config_file F]",
		Short: "Pre-flight: is every node ready for a run?",
		Long: `Looks at every node of the cluster file at once and changes nothing there: SSH,
sudo, other runs, driver and ROCm, GPUs and whether they are idle, Docker, disk,
clock, and between several nodes the fabric. With a config also the image, the
container's name, every shard of the model, the ports and the number of GPUs.
The exit status is 4 if a node is not ready; warnings leave it at 0.
` + exitHelp,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := emptyProfile(cmd, o.in); err != nil {
				return err
			}
			return runDoctor(cmd.Context(), e, o)
		},
	}
	o.in.addFlags(cmd.Flags())
	o.ssh.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.format, "format", "text", "output `format`: text or json")
	cmd.Flags().BoolVar(&o.noToken, "no-hf-token", false, "do not ask for the Hugging Face token that the config names")
	return cmd
}

func (o *doctorOptions) load(e *env) (*plan.Plan, error) {
	if o.in.cluster == "" {
		return nil, badInput("--cluster_file is required")
	}
	o.in.sshConfig = o.ssh.config != ""
	if o.in.config != "" {
		return o.in.load(e)
	}
	return plan.LoadCluster(plan.Options{ClusterFile: o.in.cluster, OSUser: e.osUser(), OtherLogin: o.in.otherLogin(e)})
}

// diagnosis is the output of --format json.
type diagnosis struct {
	Ready    bool              `json:"ready"`
	Findings []collect.Finding `json:"findings"`
}

func runDoctor(ctx context.Context, e *env, o doctorOptions) error {
	if o.format != "text" && o.format != "json" {
		return badInput("--format %s: want text or json", o.format)
	}
	if err := o.ssh.check(); err != nil {
		return err
	}
	p, err := o.load(e)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	d := collect.Doctor{Plan: p, Dial: o.ssh.dialer(e, p), Now: e.now, Owner: e.osUser() + "@" + host, NoToken: o.noToken}
	found, err := d.Examine(ctx)
	if err != nil {
		return err
	}
	out := diagnosis{Ready: true, Findings: found}
	var bad []string
	for _, f := range found {
		if f.Verdict == collect.Unready {
			out.Ready = false
			bad = append(bad, strings.TrimSpace(f.Host+" "+f.Check))
		}
	}
	if o.format == "json" {
		if err := printJSON(e, out); err != nil {
			return err
		}
	} else {
		out.print(e, p)
	}
	if !out.Ready {
		return &statusError{4, "not ready: " + visible(strings.Join(bad, ", "))}
	}
	return nil
}

func (d diagnosis) print(e *env, p *plan.Plan) {
	for _, w := range p.Warnings {
		fmt.Fprintf(e.stderr, "warning: %s\n", w.String())
	}
	tw := newTable()
	tw.AppendHeader(table.Row{"node", "check", "verdict", "found"})
	last := ""
	for _, f := range d.Findings {
		host := f.Host
		if host == "" {
			host = "(all)"
		}
		if host == last {
			host = ""
		} else {
			if last != "" {
				tw.AppendSeparator()
			}
			last = host
		}
		verdict := string(f.Verdict)
		if f.Verdict == collect.Unready {
			verdict = "NOT READY"
		}
		tw.AppendRow(table.Row{visible(host), f.Check, verdict, visible(f.Detail)})
	}
	fmt.Fprintln(e.stdout, tw.Render())
	word := "ready"
	if !d.Ready {
		word = "NOT READY"
	}
	fmt.Fprintf(e.stdout, "\n%d node(s): %s\n", len(p.Cluster.Nodes), word)
}
