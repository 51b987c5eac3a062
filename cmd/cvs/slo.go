package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cvs/collect/metric"
	"cvs/collect/plan"
	"cvs/warehouse"
)

// sloExample is what a service level looks like.
const sloExample = "p99_ttft_ms<=2000,p95_tpot_ms<=50"

// maxObjectives bounds a service level.
const maxObjectives = 32

// sloFlag adds the flag that several commands share.
func sloFlag(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "slo", "", "also say up to which concurrency each shape meets this service `level`, for example "+sloExample)
}

// parseSLO reads a service level; every mistake in it is in the error.
func parseSLO(text string) ([]warehouse.Objective, error) {
	var out []warehouse.Objective
	var errs []error
	seen := map[string]bool{}
	for i, part := range strings.Split(text, ",") {
		fail := func(format string, a ...any) {
			errs = append(errs, badInput("--slo, objective %d %q: %s", i+1, part, fmt.Sprintf(format, a...)))
		}
		at := strings.IndexAny(part, "<>=")
		if at < 0 {
			fail("expected METRIC<=NUMBER or METRIC>=NUMBER, for example %s", sloExample)
			continue
		}
		name, rest := strings.TrimSpace(part[:at]), part[at:]
		op := rest[:1]
		if len(rest) > 1 && rest[1] == '=' {
			op = rest[:2]
		}
		known := true
		switch op {
		case "<=", "<", ">=", ">":
		default:
			fail("expected <=, <, >= or >, found %s", op)
			known = false
		}
		def, ok := metric.Lookup(strings.TrimPrefix(name, "client."))
		if !ok {
			fail("unknown metric %q%s", name, nearestMetric(name))
			continue
		}
		number := strings.TrimSpace(rest[len(op):])
		bound, err := strconv.ParseFloat(number, 64)
		unit := def.Unit
		if unit != "" {
			unit = " of " + unit
		}
		switch {
		case !known:
			continue
		case err != nil || math.IsNaN(bound) || math.IsInf(bound, 0):
			fail("expected a number%s without its unit, found %q", unit, number)
			continue
		case def.Direction == metric.Lower && op[0] == '>':
			fail("lower is better for %s: write <=", def.Name)
			continue
		case def.Direction == metric.Higher && op[0] == '<':
			fail("higher is better for %s: write >=", def.Name)
			continue
		case seen[def.Name+op[:1]]:
			fail("%s is bounded twice", def.Name)
			continue
		case len(out) == maxObjectives:
			fail("more than %d objectives", maxObjectives)
			return nil, errors.Join(errs...)
		}
		seen[def.Name+op[:1]] = true
		out = append(out, warehouse.Objective{Metric: def.Name, Op: op, Bound: bound})
	}
	return out, errors.Join(errs...)
}

func nearestMetric(name string) string {
	var names []string
	for _, d := range metric.Table() {
		names = append(names, d.Name)
	}
	if near := plan.Nearest(strings.TrimPrefix(name, "client."), names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return "; cvs sql \"FROM metric_def\" lists them"
}

// levelWords is a service level as it is shown.
func levelWords(level []warehouse.Objective) string {
	var parts []string
	for _, o := range level {
		unit := ""
		if d, ok := metric.Lookup(o.Metric); ok && d.Unit != "" {
			unit = " " + d.Unit
		}
		parts = append(parts, fmt.Sprintf("%s %s %s%s", o.Metric, o.Op, strconv.FormatFloat(o.Bound, 'g', -1, 64), unit))
	}
	return strings.Join(parts, " and ")
}

// An sloLine is one shape of a report in JSON.
type sloLine struct {
	ISL             int    `json:"isl"`
	OSL             int    `json:"osl"`
	Shape           string `json:"shape"`
	Concurrency     *int   `json:"concurrency"` // null: none meets it
	NextConcurrency *int   `json:"next_concurrency"`
	NextReason      string `json:"next_reason,omitempty"`
	OpenEnd         bool   `json:"open_end"`
	MissedBelow     string `json:"missed_below,omitempty"`
	Measured        int    `json:"measured"`
	Cells           int    `json:"cells"`
}

// An sloReport answers a service level for one run.
type sloReport struct {
	RunID  string                `json:"run_id"`
	Level  []warehouse.Objective `json:"level"`
	Shapes []sloLine             `json:"shapes"`
}

func sloOf(ctx context.Context, db *warehouse.DB, runID string, level []warehouse.Objective) (*sloReport, error) {
	rows, err := db.SLO(ctx, runID, level)
	if err != nil {
		return nil, badStore(err)
	}
	out := &sloReport{RunID: runID, Level: level, Shapes: []sloLine{}}
	for _, r := range rows {
		out.Shapes = append(out.Shapes, sloLine{r.ISL, r.OSL, r.Shape, r.Concurrency, r.NextConcurrency, r.NextReason, r.OpenEnd, r.MissedBelow, r.Measured, r.Cells})
	}
	return out, nil
}

// sloOfBoth asks about a run and about the run it was compared with, as far as the
// warehouse has it.
func sloOfBoth(ctx context.Context, db *warehouse.DB, cmp *comparison, level []warehouse.Objective) ([]*sloReport, error) {
	ids := []string{cmp.RunID}
	for _, r := range cmp.Prev.Rows {
		if r.BaseRun != "" && !slices.Contains(ids, r.BaseRun) {
			ids = append(ids, r.BaseRun)
		}
	}
	var out []*sloReport
	for _, id := range ids {
		report, err := sloOf(ctx, db, id, level)
		if err != nil {
			return nil, err
		}
		if len(report.Shapes) > 0 || id == cmp.RunID {
			out = append(out, report)
		}
	}
	return out, nil
}

// optionalSLO is parseSLO for a flag that may be left out.
func optionalSLO(text string) ([]warehouse.Objective, error) {
	if text == "" {
		return nil, nil
	}
	return parseSLO(text)
}

// words are one shape's answer: the concurrency, the next that does not, and why.
func (r sloLine) words() (best, next, why string) {
	best, next, why = "none", "—", r.NextReason
	if r.Concurrency != nil {
		best = strconv.Itoa(*r.Concurrency)
	}
	if r.NextConcurrency != nil {
		next = strconv.Itoa(*r.NextConcurrency)
	}
	if r.OpenEnd {
		why = "the highest measured one meets it"
	}
	if r.MissedBelow != "" {
		why = strings.TrimPrefix(why+"; missed at the lower "+r.MissedBelow, "; ")
	}
	return best, next, why
}

func (s *sloReport) title() string {
	return fmt.Sprintf("highest concurrency of run %s with %s:", visible(s.RunID), levelWords(s.Level))
}

func (s *sloReport) print(w io.Writer) {
	tw := newTable()
	tw.AppendHeader(table.Row{"isl", "osl", "shape", "concurrency", "next that does not", "because", "measured"})
	for _, r := range s.Shapes {
		best, next, why := r.words()
		tw.AppendRow(table.Row{r.ISL, r.OSL, visible(r.Shape), best, next, visible(why), fmt.Sprintf("%d of %d", r.Measured, r.Cells)})
	}
	fmt.Fprintf(w, "\n%s\n%s\n", s.title(), tw.Render())
}

func (s *sloReport) markdown(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n\n| shape | concurrency | next that does not | because |\n|---|---:|---:|---|\n", mdText(s.title()))
	for _, r := range s.Shapes {
		best, next, why := r.words()
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", mdText(r.Shape), best, next, mdText(why))
	}
}

type sloOptions struct {
	in      inputOptions
	store   storeOptions
	results string
	format  string
	slo     string
}

func newSLO(e *env) *cobra.Command {
	var o sloOptions
	cmd := &cobra.Command{
		Use:   "slo [flags] --slo LEVEL [RUN]",
		Short: "Say up to which concurrency each shape meets a service level",
		Long: `Prints for each shape of RUN (a run id of the warehouse, "latest", or a run
directory) the highest measured concurrency at which every objective holds:

  cvs slo --slo '` + sloExample + `' latest

Objectives are METRIC<=NUMBER or METRIC>=NUMBER in the metric's unit. A value
that is missing does not meet them, and nothing is guessed between two measured
concurrencies. It is a question, not a gate: the exit status does not depend on
the answer.
` + exitHelp,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := emptyProfile(cmd, o.in); err != nil {
				return err
			}
			return runSLO(cmd.Context(), e, o, args)
		},
	}
	f := cmd.Flags()
	o.in.addFlags(f)
	o.store.addFlags(f)
	f.StringVar(&o.results, "results", "", "ask about the results in `folder` (with --config_file); nothing is stored")
	f.StringVar(&o.format, "format", "text", "output `format`: text or json")
	f.StringVar(&o.slo, "slo", "", "the service `level`, for example "+sloExample)
	completeInputs(cmd)
	return cmd
}

func runSLO(ctx context.Context, e *env, o sloOptions, args []string) error {
	if o.format != "text" && o.format != "json" {
		return badInput("--format %s: want text or json", o.format)
	}
	if o.slo == "" {
		return badInput("--slo is required, for example --slo '%s'", sloExample)
	}
	level, err := parseSLO(o.slo)
	if err != nil {
		return err
	}
	db, j, err := judgedRun(ctx, e, o.in, o.store, o.results, args)
	if err != nil {
		return err
	}
	defer db.Close()
	report, err := sloOf(ctx, db, j.status.RunID, level)
	if err != nil {
		return err
	}
	if o.format == "json" {
		return printJSON(e, report)
	}
	report.print(e.stdout)
	return nil
}

// ServiceLevel answers the level that the command line asks about.
func (s *deckSource) ServiceLevel(ctx context.Context, runID string) (string, []warehouse.Objective, []warehouse.SLORow, error) {
	if len(s.level) == 0 {
		return "", nil, nil, nil
	}
	rows, err := s.SLO(ctx, runID, s.level)
	return levelWords(s.level), s.level, rows, err
}
