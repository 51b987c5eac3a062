package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/plan"
)

type configShowOptions struct {
	inputOptions
	origin bool
	format string
}

func (o *configShowOptions) addFlags(f *pflag.FlagSet) {
	o.inputOptions.addFlags(f)
	f.BoolVar(&o.origin, "origin", false, "say where each value came from: default, file and line, profile, cluster, flag, environment")
	f.StringVar(&o.format, "format", "", "output `format` of --origin: text or json (default text)")
}

func newConfigShow(e *env) *cobra.Command {
	var o configShowOptions
	cmd := &cobra.Command{
		Use:   "show --config_file F [--cluster_file C] [--config_profile P]",
		Short: "Print the resolved config, and where each value came from",
		Long: `Print the config as a run would use it: placeholders replaced, the profile laid
over, defaults put in, secrets redacted. With --origin one line for each value:
its path, the value and where it came from.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := emptyProfile(cmd, o.inputOptions); err != nil {
				return err
			}
			return runConfigShow(cmd.Context(), e, o)
		},
	}
	o.addFlags(cmd.Flags())
	completeInputs(cmd)
	return cmd
}

// A shownOrigin is one value of show --origin --format json.
type shownOrigin struct {
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
	From  string          `json:"from"`
}

func runConfigShow(_ context.Context, e *env, o configShowOptions) error {
	switch {
	case o.format != "" && o.format != "text" && o.format != "json":
		return badInput("--format %q: want text or json", o.format)
	case o.format == "text" && !o.origin:
		return badInput("--format text needs --origin; without it the resolved config is printed as JSON")
	}
	p, err := o.load(e)
	if err != nil {
		return err
	}
	if !o.origin {
		var b bytes.Buffer
		if err := json.Indent(&b, p.Resolved, "", "  "); err != nil {
			return fmt.Errorf("print the resolved config: %w", err)
		}
		_, err := fmt.Fprintln(e.stdout, strings.TrimSpace(b.String()))
		return err
	}
	if o.format == "json" {
		out := make([]shownOrigin, 0, len(p.Origins))
		for _, x := range p.Origins {
			out = append(out, shownOrigin{x.Path, json.RawMessage(x.Value), x.From})
		}
		return printJSON(e, out)
	}
	return writeOrigins(e, p.Origins)
}

// maxShown bounds a value on a terminal line; the JSON form has it whole.
const maxShown = 60

func writeOrigins(e *env, origins []plan.Origin) error {
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	for _, x := range origins {
		v := x.Value
		if r := []rune(v); len(r) > maxShown {
			v = string(r[:maxShown-1]) + "…"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", x.Path, v, x.From)
	}
	return w.Flush()
}
