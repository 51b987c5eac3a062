package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/ssh"

	"cvs/collect/artifact"
	"cvs/collect/plan"
	"cvs/collect/signoff"
)

type signoffOptions struct {
	workspace  string
	decision   string
	role       string
	identity   string
	key        string
	noteFile   string
	waivers    string
	policy     string
	allowed    string
	conditions []string
	confirm    []string
}

func (o *signoffOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.workspace, "workspace", "", "`folder` whose cvs_runs holds the runs (default: CVS_WORKSPACE, else the working directory)")
	f.StringVar(&o.decision, "decision", "", "approve, reject or conditional")
	f.StringVar(&o.role, "role", "", "`role` in which you decide, e.g. performance")
	f.StringVar(&o.identity, "identity", "", "who you are, as in the allowed-signers file, e.g. alice@example.com (default: what that file says of the key)")
	f.StringVar(&o.key, "key", "", "private key `file`, a .pub file whose key the SSH agent holds, or \"agent\" (default: ~/.ssh/id_ed25519, else the agent)")
	f.StringVar(&o.noteFile, "note-file", "", "your words, a text or Markdown `file`; - reads standard input")
	f.StringVar(&o.waivers, "waivers", "", "waiver `file` under which you decide; a copy is kept with the run (default: the copy that is there)")
	f.StringVar(&o.policy, "policy", "", "policy `file`: approvals, roles, checklist")
	f.StringVar(&o.allowed, "allowed-signers", "", "`file` that says whose keys may sign, see ssh-keygen(1)")
	f.StringArrayVar(&o.conditions, "condition", nil, "what must still happen, for a conditional decision (may be given several times)")
	f.StringArrayVar(&o.confirm, "confirm", nil, "checklist `item` that you confirm, word for word (may be given several times)")
}

func newSignoff(e *env) *cobra.Command {
	var o signoffOptions
	cmd := &cobra.Command{
		Use:   "signoff [flags] RUN…",
		Short: "Decide on runs: approve, reject or conditional, signed with an SSH key",
		Long: `Records a decision on each RUN (a run directory, a run id of the workspace, or
"latest") in <run directory>/signoff/log.jsonl: who, when, in which role, and the
SHA-256 of raw data, thresholds, waivers and deck. The entry is signed in the
OpenSSH signature format; ssh-keygen alone can check it.

A run with a failed gate that no waiver covers, an expired waiver, a missing
result or a tier whose gates cannot fail is not approved. Waived failures remain
failures. Any later change of data, thresholds or waivers makes the decision
stale: see cvs signoff status.
` + exitHelp,
		Args: needArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error { return runSignoff(cmd.Context(), e, o, args) },
	}
	o.addFlags(cmd.Flags())
	cmd.AddCommand(newSignoffStatus(e), newSignoffVerify(e), newSignoffLog(e))
	return cmd
}

// A decided run is one that everything was checked of, ready to be signed.
type decidedRun struct {
	dir   string
	entry signoff.Entry
	state *signoff.State
}

func runSignoff(ctx context.Context, e *env, o signoffOptions, args []string) error {
	if !slices.Contains(signoff.Decisions(), o.decision) {
		return badInput("--decision: want %s, found %q", strings.Join(signoff.Decisions(), ", "), o.decision)
	}
	if strings.TrimSpace(o.role) == "" {
		return badInput("--role is required: in which role do you decide?")
	}
	if o.decision == string(signoff.Conditional) && len(o.conditions) == 0 {
		return badInput("--decision conditional needs --condition: what must still happen?")
	}
	if o.decision != string(signoff.Conditional) && len(o.conditions) > 0 {
		return badInput("--condition goes with --decision conditional")
	}
	policy, policyText, err := readPolicy(o.policy)
	if err != nil {
		return err
	}
	allowed, err := readSigners(o.allowed)
	if err != nil {
		return err
	}
	waivers, waiverText, err := readWaivers(o.waivers)
	if err != nil {
		return err
	}
	note, err := readNote(e, o.noteFile)
	if err != nil {
		return err
	}
	if err := knownItems(policy, o.confirm); err != nil {
		return err
	}
	dirs, err := runDirs(e, o.workspace, args)
	if err != nil {
		return err
	}
	key, done, err := signingKey(ctx, e, o.key)
	if err != nil {
		return err
	}
	defer done()
	at := e.now().UTC().Truncate(time.Second)
	if o.identity, err = whoSigns(o.identity, key, allowed, at); err != nil {
		return err
	}
	var ready []decidedRun
	var refused []error
	for _, dir := range dirs {
		d, err := decideRun(ctx, e, o, dir, policy, waivers, waiverText, at)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		d.state.Policy = policyText
		d.entry.Evidence, d.entry.Note = d.state.Evidence(), note
		ready = append(ready, *d)
	}
	if len(refused) > 0 {
		// One decision on several runs is one decision.
		return errors.Join(append(refused, &statusError{1, "nothing was signed"})...)
	}
	var together []string
	for _, d := range ready {
		together = append(together, d.entry.RunID)
	}
	for _, d := range ready {
		if len(together) > 1 {
			d.entry.Together = together
		}
		if err := signRun(e, d, key, waiverText); err != nil {
			return err
		}
	}
	return nil
}

func signRun(e *env, d decidedRun, key ssh.Signer, waiverText []byte) error {
	if waiverText != nil {
		if err := signoff.KeepWaivers(d.dir, waiverText); err != nil {
			return badStore(err)
		}
	}
	rec, err := signoff.Append(d.dir, d.entry, d.state, key)
	switch {
	case errors.Is(err, signoff.ErrTampered):
		return badData("%v", err)
	case err != nil:
		return badStore(err)
	}
	fmt.Fprintf(e.stdout, "%s: %s by %s (%s), entry %d, signed with %s\n", visible(d.entry.RunID), rec.Entry.Decision, visible(rec.Entry.Identity), visible(rec.Entry.Role), rec.Entry.Seq, rec.Entry.Key)
	for _, w := range rec.Entry.Waivers {
		fmt.Fprintf(e.stdout, "  waiver %s covers %d failed gate(s) until %s; they remain failures\n", visible(w.ID), w.Gates, w.Expires)
	}
	fmt.Fprintf(e.stdout, "  log head %s\n  %s\n", rec.Hash, visible(verifyLine(d.dir, rec.Entry.Identity, rec.Entry.Seq)))
	return nil
}

func readNote(e *env, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	in := e.stdin
	if file != "-" {
		if err := regular(file); err != nil {
			return "", badInput("--note-file: %v", err)
		}
		f, err := os.Open(file)
		if err != nil {
			return "", badInput("--note-file: %v", err)
		}
		defer f.Close()
		in = f
	}
	const most = 64 << 10
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return "", badInput("--note-file: %v", err)
	}
	if len(data) > most {
		return "", badInput("--note-file %s: more than %d bytes", file, most)
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(data)), "\uFFFD"), nil
}

// knownItems refuses a confirmation that the policy does not ask for: it would
// look like one that was given.
func knownItems(p *signoff.Policy, confirmed []string) error {
	for _, item := range confirmed {
		if p == nil {
			return badInput("--confirm needs --policy, which holds the checklist")
		}
		if !slices.Contains(p.Signoff.Checklist, item) {
			return badInput("--confirm %q: no such item in %s; did you mean %q?", item, p.Name, plan.Nearest(item, p.Signoff.Checklist))
		}
	}
	return nil
}

// whoSigns settles the identity and that the key may sign for it.
func whoSigns(identity string, key ssh.Signer, allowed *signoff.Signers, at time.Time) (string, error) {
	if allowed == nil {
		if identity == "" {
			return "", badInput("--identity is required without --allowed-signers: who are you?")
		}
		return identity, nil
	}
	if identity == "" {
		switch ids := allowed.Identities(key.PublicKey()); len(ids) {
		case 1:
			identity = ids[0]
		case 0:
			return "", badInput("unknown signer: the allowed-signers file has no identity for key %s", ssh.FingerprintSHA256(key.PublicKey()))
		default:
			return "", badInput("the key signs for %s; say which with --identity", strings.Join(ids, ", "))
		}
	}
	if err := allowed.Check(identity, key.PublicKey(), signoff.Namespace, at); err != nil {
		return "", badInput("%v", err)
	}
	return identity, nil
}

// decideRun checks that the decision may be taken on one run.
func decideRun(ctx context.Context, e *env, o signoffOptions, dir string, p *signoff.Policy, w *signoff.Waivers, waiverText []byte, at time.Time) (*decidedRun, error) {
	r, err := readRunAgainst(dir, signoff.Against{Policy: p, Waivers: w})
	if err != nil {
		return nil, badData("%v", err)
	}
	log, err := signoff.ReadLog(dir, r.Meta.RunID)
	if err != nil {
		return nil, badData("%v", err)
	}
	if len(log.Findings) > 0 {
		return nil, badData("run %s: %v: %s", r.Meta.RunID, signoff.ErrTampered, log.Findings[0])
	}
	state, err := signoff.Survey(dir, nil)
	if err != nil {
		return nil, badData("%v", err)
	}
	if waiverText != nil {
		if state.Waivers != nil && string(state.Waivers) != string(waiverText) && len(log.Records) > 0 {
			fmt.Fprintf(e.stderr, "cvs: run %s: the waivers differ from those of earlier decisions, which become stale\n", visible(r.Meta.RunID))
		}
		state.Waivers = waiverText
	} else if err := waiversReadable(dir, state); err != nil {
		return nil, err
	}
	if p == nil && r.Decisions != nil { // a first decision without a policy needs none; a later one is its own
		r.Decisions.Rules = artifact.DecisionRules{Approvals: 1}
	}
	c, err := caseOf(ctx, r, at)
	if err != nil {
		return nil, err
	}
	defer c.db.Close()
	d := &decidedRun{dir: dir, state: state, entry: signoff.Entry{
		RunID: r.Meta.RunID, Decision: signoff.Decision(o.decision), Role: o.role, Identity: o.identity, Time: at, Tool: toolVersion(),
		Seen: c.Seen, Waivers: c.Used, Conditions: o.conditions, Checklist: o.confirm,
	}}
	if d.entry.Decision == signoff.Reject {
		return d, nil
	}
	if state.Deck == "" {
		fmt.Fprintf(e.stderr, "cvs: run %s: there is no %s; the decision is bound to no deck\n", visible(r.Meta.RunID), deckName)
	}
	return d, refusals(d.entry.Decision, dir, r, c.Case, p, o)
}

// refusals are the reasons why a run is not approved.
func refusals(decision signoff.Decision, dir string, r *artifact.Run, c signoff.Case, p *signoff.Policy, o signoffOptions) error {
	rules := signoff.Rules{}
	if p != nil {
		rules = p.Signoff
	}
	changed, err := artifact.Verify(dir)
	if err != nil {
		return badData("%v", err)
	}
	var errs []error
	for _, x := range changed {
		errs = append(errs, badData("run %s: %s: %s", r.Meta.RunID, x.Path, x.Msg))
	}
	for _, item := range rules.MissingItems(o.confirm) {
		errs = append(errs, badInput("run %s: the policy wants --confirm %q", r.Meta.RunID, item))
	}
	if rules.NotLauncher && signoff.SamePerson(o.identity, r.Meta.Launcher.User) {
		errs = append(errs, badInput("run %s: %s started it; the policy wants somebody else", r.Meta.RunID, o.identity))
	}
	block := c.Block()
	if decision == signoff.Conditional {
		block = c.BlockAlways()
	}
	for _, why := range block {
		errs = append(errs, &statusError{1, visible(fmt.Sprintf("run %s: not %s: %s", r.Meta.RunID, map[signoff.Decision]string{signoff.Approve: "approved", signoff.Conditional: "approved on conditions"}[decision], why))})
	}
	return errors.Join(errs...)
}

// waiversReadable refuses to decide under waivers that cannot be read.
func waiversReadable(dir string, s *signoff.State) error {
	if s.Waivers == nil {
		return nil
	}
	if _, err := signoff.ParseWaivers(filepath.Join(dir, signoff.Folder, "waivers.json"), s.Waivers); err != nil {
		return badData("%v", err)
	}
	return nil
}
