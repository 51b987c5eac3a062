package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"cvs/collect/plan"
)

type listOptions struct {
	in     inputOptions
	k      string
	format string
}

func newList(e *env) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list [flags] [atom]",
		Short: "List the suites, or what a config would measure",
		Args:  atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := emptyProfile(cmd, o.in); err != nil {
				return err
			}
			return runList(cmd.Context(), e, o, args)
		},
	}
	o.in.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.k, "k", "k", "", "only ids that match `expression` (words, and, or, not)")
	cmd.Flags().StringVar(&o.format, "format", "text", "output `format`: text or json")
	completeInputs(cmd)
	completeSelection(e, cmd, "k")
	cmd.ValidArgs = []string{"atom"}
	return cmd
}

// listed is one line of the list.
type listed struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Key  string `json:"key,omitempty"`
}

func runList(_ context.Context, e *env, o listOptions, args []string) error {
	if len(args) == 0 {
		fmt.Fprintln(e.stdout, "atom   LLM serving on AMD Instinct: ATOM, vLLM-ATOM, vLLM, SGLang")
		return nil
	}
	if err := knownSuite(args[0]); err != nil {
		return err
	}
	p, err := o.in.load(e)
	if err != nil {
		return err
	}
	sel, err := parseSelection(o.k)
	if err != nil {
		return err
	}
	if p, err = sel.selectCells(p); err != nil {
		return err
	}
	items := planItems(p)
	if o.format == "json" {
		return printJSON(e, items)
	}
	for _, it := range items {
		if it.Kind == "cell" {
			fmt.Fprintf(e.stdout, "%-40s %s\n", it.ID, it.Key)
			continue
		}
		fmt.Fprintf(e.stdout, "%-40s %s\n", it.ID, it.Kind)
	}
	fmt.Fprintf(e.stdout, "%d selected\n", len(items))
	return nil
}

func planItems(p *plan.Plan) []listed {
	var items []listed
	if p.Functional.APISmoke {
		items = append(items, listed{ID: "api_smoke", Kind: "functional"})
	}
	if p.Functional.HealthCheck {
		items = append(items, listed{ID: "health_check", Kind: "functional"})
	}
	for _, c := range p.Cells {
		items = append(items, listed{c.ID, "cell", c.Key})
	}
	for _, t := range p.Accuracy {
		items = append(items, listed{ID: t.ID, Kind: "accuracy"})
	}
	for _, t := range p.LongContext {
		items = append(items, listed{ID: t.ID, Kind: "long_context_accuracy"})
	}
	if p.MTP.Requested {
		items = append(items, listed{ID: "mtp_quality", Kind: "mtp_quality"})
	}
	if p.Quant.Enabled {
		items = append(items, listed{ID: "quant_parity", Kind: "quant_parity"})
	}
	return items
}

// knownSuite refuses a suite that does not exist, with the nearest that does.
func knownSuite(name string) error {
	if name != "atom" {
		return badInput("unknown suite %q; there is atom (see: cvs list)", name)
	}
	return nil
}
