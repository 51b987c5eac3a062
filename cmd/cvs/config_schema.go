package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cvs/collect/plan"
	"cvs/templates"
)

// sidecarKind is the file that cvs writes beside a deck; the others it reads.
const sidecarKind = "sidecar"

// schemaKinds are the kinds of files that have a published JSON Schema.
var schemaKinds = [...]string{"config", "threshold", "cluster", sidecarKind}

func newConfigSchema(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [config|threshold|cluster|sidecar]",
		Short: "Print the JSON Schema of a kind of file, for editors",
		Long: `Print the JSON Schema (draft 2020-12) of config, threshold or cluster files;
without an argument, of config files. sidecar is the JSON beside a deck, which
cvs writes and other tools read. An editor that knows it completes fields and
marks mistakes while typing. What spans several files, such as whether the
thresholds cover the sweep, only 'cvs config check' can tell.`,
		Example:   `  cvs config schema > config.schema.json`,
		Args:      atMost(1),
		ValidArgs: schemaKinds[:],
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConfigSchema(cmd.Context(), e, strings.Join(args, ""))
		},
	}
}

func runConfigSchema(_ context.Context, e *env, kind string) error {
	if kind == "" {
		kind = schemaKinds[0]
	}
	if !slices.Contains(schemaKinds[:], kind) {
		hint := ""
		if n := plan.Nearest(kind, schemaKinds[:]); n != "" {
			hint = "; did you mean " + n + "?"
		}
		return badInput("no schema of %q: want config, threshold, cluster or sidecar%s", kind, hint)
	}
	if kind == sidecarKind {
		_, err := e.stdout.Write(templates.SidecarSchema())
		return err
	}
	schema, err := plan.Schema(kind)
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(schema)
	return err
}
