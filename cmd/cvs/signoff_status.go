package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cvs/collect/artifact"
	"cvs/collect/signoff"
	"cvs/warehouse"
)

// statusOptions are shared by the commands that read sign-offs.
type statusOptions struct {
	workspace, policy, allowed, format, head string
}

func newSignoffStatus(e *env) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status [flags] RUN…",
		Short: "Say how the sign-off of each run stands, and why",
		Long: `Prints for each RUN whether it is approved, conditional, rejected, pending, stale,
tampered or without a decision. Stale says exactly which file, threshold or
waiver is no longer what was signed.

The exit status is 0 when every run is approved, 1 when one is not, 3 when one is
stale or its log was tampered with.
`,
		Args: needArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error { return runSignoffStatus(cmd.Context(), e, o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.workspace, "workspace", "", "`folder` whose cvs_runs holds the runs")
	f.StringVar(&o.policy, "policy", "", "policy `file`: approvals, roles, checklist (default: that of the last decision, else one approval)")
	f.StringVar(&o.allowed, "allowed-signers", "", "`file` that says whose keys may sign, see ssh-keygen(1)")
	f.StringVar(&o.format, "format", "text", "output `format`: text or json")
	return cmd
}

func runSignoffStatus(ctx context.Context, e *env, o statusOptions, args []string) error {
	if o.format != "text" && o.format != "json" {
		return badInput("--format %s: want text or json", o.format)
	}
	policy, _, err := readPolicy(o.policy)
	if err != nil {
		return err
	}
	allowed, err := readSigners(o.allowed)
	if err != nil {
		return err
	}
	dirs, err := runDirs(e, o.workspace, args)
	if err != nil {
		return err
	}
	var all []*signoffReport
	var errs []error
	for _, dir := range dirs {
		s, err := assess(ctx, dir, signoff.Against{Policy: policy, Allowed: allowed}, e.now())
		if err != nil {
			return err
		}
		all = append(all, s)
		switch s.State {
		case signoff.StateApproved:
		case signoff.StateStale, signoff.StateTampered:
			errs = append(errs, badData("run %s: sign-off: %s", s.RunID, s.State))
		default:
			errs = append(errs, &statusError{1, visible(fmt.Sprintf("run %s: sign-off: %s", s.RunID, s.State))})
		}
	}
	if o.format == "json" {
		if err := printJSON(e, all); err != nil {
			return err
		}
		return errors.Join(errs...)
	}
	for _, s := range all {
		s.print(e)
	}
	return errors.Join(errs...)
}

// A signoffReport is the sign-off of one run as the views say it.
type signoffReport struct {
	RunID     string           `json:"run_id"`
	State     string           `json:"state"`
	Reasons   []string         `json:"reasons,omitempty"`
	Head      string           `json:"head,omitempty"` // SHA-256 of the log's last line
	Failed    int              `json:"failed"`         // gates
	Waived    int              `json:"waived"`         // of them
	Decisions []decisionReport `json:"decisions"`
	Waivers   []string         `json:"waivers,omitempty"` // what to do about them
	Notes     []string         `json:"notes,omitempty"`
}

type decisionReport struct {
	Seq      int       `json:"seq"`
	Decision string    `json:"decision"`
	Identity string    `json:"identity"`
	Role     string    `json:"role"`
	Time     time.Time `json:"time"`
	SHA256   string    `json:"line_sha256"`
	Replaced bool      `json:"replaced"` // the same person decided again later
	Counts   bool      `json:"counts"`
	Stale    []string  `json:"stale,omitempty"`
	Problems []string  `json:"problems,omitempty"`
}

// assess says how the sign-off of the run in dir stands on a day, from the views.
func assess(ctx context.Context, dir string, a signoff.Against, at time.Time) (*signoffReport, error) {
	r, err := readRunAgainst(dir, a)
	if err != nil {
		return nil, badData("%v", err)
	}
	db, err := warehouse.Open(ctx, "", warehouse.Options{})
	if err != nil {
		return nil, badStore(err)
	}
	defer db.Close()
	if _, err := db.Load(ctx, r); err != nil {
		return nil, err
	}
	s, err := reportSignoff(ctx, db, r.Meta.RunID, at)
	if err != nil {
		return nil, err
	}
	if s.Notes, err = signoff.DeckNotes(dir, r.Decisions); err != nil {
		return nil, badData("%v", err)
	}
	return s, nil
}

// reportSignoff reads the sign-off views of one run.
func reportSignoff(ctx context.Context, db *warehouse.DB, runID string, at time.Time) (*signoffReport, error) {
	state, err := db.SignoffState(ctx, runID, at)
	if err != nil {
		return nil, badStore(err)
	}
	s := &signoffReport{RunID: runID, State: state.State, Reasons: state.Reasons(), Head: state.Head, Failed: state.Failed, Waived: state.Waived, Decisions: []decisionReport{}}
	rows, err := db.SignoffStandings(ctx, runID, at)
	if err != nil {
		return nil, badStore(err)
	}
	for _, x := range rows {
		s.Decisions = append(s.Decisions, decisionReport{x.Seq, x.Decision, x.Identity, x.Role, x.SignedAt.UTC(), x.SHA, x.Replaced, x.Counts, x.Stale(), x.Problems()})
	}
	use, err := db.WaiverUse(ctx, runID, at)
	if err != nil {
		return nil, badStore(err)
	}
	for _, u := range use {
		if msg := waiverRemark(u); msg != "" {
			s.Waivers = append(s.Waivers, msg)
		}
	}
	return s, nil
}

// waiverRemark is what should be done about a waiver; "" for nothing.
func waiverRemark(u warehouse.WaiverUseRow) string {
	name := fmt.Sprintf("waiver %s (%s)", u.WaiverID, u.Target)
	switch u.Remark {
	case "unmatched":
		return name + " matches no gate"
	case "remove":
		return name + ": every gate it matches passes; remove it"
	case "expired":
		return fmt.Sprintf("%s expired on %s; %d gate(s) fail without it", name, u.LastDay.Format(time.DateOnly), u.Expired)
	case "outside":
		return name + ": the failure does not meet its condition"
	}
	return ""
}

func (s *signoffReport) print(e *env) {
	fmt.Fprintf(e.stdout, "%s: %s; failed gates: %d, of which waived: %d\n", visible(s.RunID), strings.ToUpper(s.State), s.Failed, s.Waived)
	for _, r := range s.Reasons {
		fmt.Fprintf(e.stdout, "  %s\n", visible(r))
	}
	for _, d := range s.Decisions {
		mark := "counts"
		switch {
		case d.Replaced:
			mark = "replaced by a later decision"
		case len(d.Problems) > 0:
			mark = "does not count"
		case len(d.Stale) > 0:
			mark = "stale"
		}
		fmt.Fprintf(e.stdout, "  entry %d: %s by %s (%s) on %s: %s\n", d.Seq, d.Decision, visible(d.Identity), visible(d.Role), d.Time.Format(time.RFC3339), mark)
	}
	for _, n := range append(slices.Clone(s.Waivers), s.Notes...) {
		fmt.Fprintf(e.stdout, "  note: %s\n", visible(n))
	}
}

func newSignoffVerify(e *env) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "verify [flags] RUN…",
		Short: "Check the sign-off log of each run: chain, signatures, signers",
		Long: `Checks that no entry was removed, added, moved or edited, that every signature
fits its entry and, with --allowed-signers, that the key may sign for that
person. A log that was cut short at its end is only seen with --head, the hash
that was printed when the last entry was signed.
`,
		Args: needArgs("RUN"),
		RunE: func(_ *cobra.Command, args []string) error { return runSignoffVerify(e, o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.workspace, "workspace", "", "`folder` whose cvs_runs holds the runs")
	f.StringVar(&o.allowed, "allowed-signers", "", "`file` that says whose keys may sign, see ssh-keygen(1)")
	f.StringVar(&o.head, "head", "", "SHA-256 that the last line must have (one RUN)")
	return cmd
}

func runSignoffVerify(e *env, o statusOptions, args []string) error {
	allowed, err := readSigners(o.allowed)
	if err != nil {
		return err
	}
	dirs, err := runDirs(e, o.workspace, args)
	if err != nil {
		return err
	}
	if o.head != "" && len(dirs) != 1 {
		return badInput("--head goes with one RUN")
	}
	var errs []error
	for _, dir := range dirs {
		log, id, err := logOf(dir)
		if err != nil {
			return err
		}
		found := append(log.Findings, log.Signed(allowed)...)
		for _, f := range found {
			errs = append(errs, badData("run %s: %s", id, f))
		}
		if o.head != "" && !strings.EqualFold(o.head, log.Head()) {
			errs = append(errs, badData("run %s: the last line has SHA-256 %q, expected %s: entries are missing at the end, or others were added", id, log.Head(), o.head))
			continue
		}
		if len(found) == 0 {
			who := ""
			if allowed == nil {
				who = "; nobody is known without --allowed-signers"
			}
			fmt.Fprintf(e.stdout, "%s: %d entries, chain and signatures hold%s; head %s\n", visible(id), len(log.Records), who, log.Head())
		}
	}
	return errors.Join(errs...)
}

func logOf(dir string) (*signoff.Log, string, error) {
	r, err := artifact.Read(dir)
	if err != nil {
		return nil, "", badData("%v", err)
	}
	log, err := signoff.ReadLog(dir, r.Meta.RunID)
	if err != nil {
		return nil, "", badData("%v", err)
	}
	return log, r.Meta.RunID, nil
}

func newSignoffLog(e *env) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "log [flags] RUN…",
		Short: "Print the decisions on each run in order",
		Args:  needArgs("RUN"),
		RunE:  func(_ *cobra.Command, args []string) error { return runSignoffLog(e, o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.workspace, "workspace", "", "`folder` whose cvs_runs holds the runs")
	f.StringVar(&o.format, "format", "text", "output `format`: text or jsonl")
	return cmd
}

func runSignoffLog(e *env, o statusOptions, args []string) error {
	if o.format != "text" && o.format != "jsonl" {
		return badInput("--format %s: want text or jsonl", o.format)
	}
	dirs, err := runDirs(e, o.workspace, args)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		log, id, err := logOf(dir)
		if err != nil {
			return err
		}
		for _, f := range log.Findings {
			errs = append(errs, badData("run %s: %s", id, f))
		}
		for _, r := range log.Records {
			if o.format == "jsonl" {
				enc := json.NewEncoder(e.stdout)
				enc.SetEscapeHTML(false)
				if err := enc.Encode(r.Entry); err != nil {
					return err
				}
				continue
			}
			printEntry(e, r.Entry)
		}
	}
	return errors.Join(errs...)
}

func printEntry(e *env, x signoff.Entry) {
	fmt.Fprintf(e.stdout, "%s entry %d: %s by %s (%s) on %s, cvs %s\n", visible(x.RunID), x.Seq, strings.ToUpper(string(x.Decision)), visible(x.Identity), visible(x.Role),
		x.Time.Format(time.RFC3339), visible(x.Tool))
	fmt.Fprintf(e.stdout, "  saw %s, %d failed gates of which %d waived, %d vacuous\n", visible(x.Seen.Headline), x.Seen.Failed, x.Seen.Waived, x.Seen.Vacuous)
	for _, h := range []struct{ name, sum string }{{"raw data", x.Evidence.Raw}, {"thresholds", x.Evidence.Thresholds}, {"waivers", x.Evidence.Waivers}, {"deck", x.Evidence.Deck}, {"policy", x.Evidence.Policy}} {
		if h.sum == "" {
			h.sum = "none"
		}
		fmt.Fprintf(e.stdout, "  %-10s %s\n", h.name, visible(h.sum))
	}
	for _, c := range x.Conditions {
		fmt.Fprintf(e.stdout, "  condition: %s\n", visible(c))
	}
	for line := range strings.Lines(x.Note) {
		fmt.Fprintf(e.stdout, "  | %s\n", visible(strings.TrimRight(line, "\r\n")))
	}
}
