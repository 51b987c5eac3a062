package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/signoff"
	"cvs/warehouse"
)

// vacuousSQL says which gates that hold cannot fail: the bound is a known
// placeholder, or ten times away from what was measured. A bound of 0 at most
// ("no failed request") is the tightest there is and never one of them.
const vacuousSQL = `
WITH judged AS (
	SELECT cell_key, host, tier, metric, kind, wanted, tolerance_pct, got, ratio,
		coalesce(ratio, got) AS actual
	FROM gates WHERE run_id = ? AND state = 'pass' AND kind <> 'info'
)
SELECT cell_key, host, metric, kind, why FROM (
	SELECT *, CASE
		WHEN kind IN ('min', 'min_tok_s', 'min_ratio') AND wanted <= 0 THEN 'placeholder: at least ' || wanted || ' always holds'
		WHEN kind IN ('min', 'min_tok_s', 'min_ratio') AND actual >= 10 * wanted THEN 'the bound is ' || round(actual / wanted, 1) || ' times below what was measured'
		WHEN kind IN ('max', 'max_ms') AND wanted >= 1000000 THEN 'placeholder: at most ' || wanted
		WHEN kind IN ('max', 'max_ms') AND got > 0 AND wanted >= 10 * got THEN 'the bound is ' || round(wanted / got, 1) || ' times above what was measured'
		WHEN kind = 'within' AND tolerance_pct >= 900 THEN 'a band of ' || tolerance_pct || ' per cent'
	END AS why
	FROM judged
) WHERE why IS NOT NULL ORDER BY cell_key, host, metric, kind`

// caseOf judges a run with the views and puts the answer in the form that
// decisions are made on. Nothing here decides about a number.
func caseOf(ctx context.Context, r *artifact.Run, w *signoff.Waivers, at time.Time) (signoff.Case, error) {
	var c signoff.Case
	db, j, err := judgeInMemory(ctx, r)
	if err != nil {
		return c, err
	}
	defer db.Close()
	vacuous, err := vacuousGates(ctx, db, r.Meta.RunID)
	if err != nil {
		return c, err
	}
	c.Facts = factsOf(r)
	for _, g := range j.gates {
		c.Gates = append(c.Gates, signoff.Gate{
			RunID: r.Meta.RunID, Cell: g.CellKey, CellID: g.CellID, Host: g.Host, Tier: g.Tier, Metric: g.Metric, State: string(g.State),
			MarginPct: finite(g.MarginPct), Reason: g.Reason, Vacuous: vacuous[vacuousKey{g.CellKey, g.Host, g.Metric, g.Kind}],
		})
	}
	for _, k := range j.checks {
		task := k.Target
		if task == "" {
			task = k.Scope
		}
		if k.State == warehouse.Error {
			c.Missing = append(c.Missing, fmt.Sprintf("task %s has no result: %s", task, k.Reason))
			continue
		}
		if k.Metric == "" {
			continue
		}
		c.Gates = append(c.Gates, signoff.Gate{
			RunID: r.Meta.RunID, Task: task, Tier: k.Scope, Metric: k.Metric, State: string(k.State), MarginPct: finite(k.MarginPct), Reason: k.Reason,
		})
	}
	for _, cell := range j.cells {
		if cell.State == warehouse.Error {
			c.Missing = append(c.Missing, fmt.Sprintf("cell %s has no result: %s", cell.CellID, cell.Reason))
		}
	}
	c.Coverage = w.Apply(c.Gates, c.Facts, at)
	c.Seen = signoff.Seen{
		Headline: j.status.Headline, Incomplete: j.status.Incomplete, Simulated: j.status.Simulated,
		Failed: len(c.Coverage.Waived) + len(c.Coverage.Unwaived), Waived: len(c.Coverage.Waived), Vacuous: len(vacuous), Reasons: j.status.Reasons(),
	}
	return c, nil
}

type vacuousKey struct{ cell, host, metric, kind string }

func vacuousGates(ctx context.Context, db *warehouse.DB, runID string) (map[vacuousKey]string, error) {
	rows, err := db.Ask(ctx, vacuousSQL, runID)
	if err != nil {
		return nil, badStore(fmt.Errorf("look for vacuous gates: %w", err))
	}
	defer rows.Close()
	out := map[vacuousKey]string{}
	for rows.Next() {
		v, err := rows.Values()
		if err != nil {
			return nil, badStore(err)
		}
		text := func(i int) string {
			if v[i] == nil {
				return ""
			}
			return fmt.Sprint(v[i])
		}
		out[vacuousKey{text(0), text(1), text(2), text(3)}] = text(4)
	}
	if err := rows.Err(); err != nil {
		return nil, badStore(fmt.Errorf("look for vacuous gates: %w", err))
	}
	return out, nil
}

func factsOf(r *artifact.Run) signoff.Facts {
	id := r.Meta.Identity
	f := signoff.Facts{
		RunID: r.Meta.RunID, Profile: r.Meta.Profile, Model: id.Model, Precision: id.Precision, GPUArch: id.GPUArch, Driver: id.Driver,
		NNodes: id.NNodes, TP: id.TP, Simulated: r.Meta.Simulated, LauncherUser: r.Meta.Launcher.User,
	}
	if r.Meta.StartedAt != nil {
		f.Started = *r.Meta.StartedAt
	}
	return f
}

// assess says how the sign-off of the run in dir stands, under the policy of the
// last decision if p is nil. Stated are hashes of files that are not there whole.
func assess(ctx context.Context, e *env, dir string, r *artifact.Run, stated signoff.Listing, p *signoff.Policy, allowed *signoff.Signers) (*signoff.Status, error) {
	log, err := signoff.ReadLog(dir, r.Meta.RunID)
	if err != nil {
		return nil, badData("%v", err)
	}
	now, err := signoff.Survey(dir, stated)
	if err != nil {
		return nil, badData("%v", err)
	}
	c, err := caseInForce(ctx, e, dir, r, now)
	if err != nil {
		return nil, err
	}
	if p == nil {
		if p, err = signoff.SignedPolicy(log); err != nil {
			return nil, badData("%v", err)
		}
	}
	s := signoff.Assess(log, now, c, p, allowed, e.now().UTC())
	return &s, nil
}

// caseInForce is the case with the waivers that lie beside the sign-offs.
func caseInForce(ctx context.Context, e *env, dir string, r *artifact.Run, now *signoff.State) (signoff.Case, error) {
	var w *signoff.Waivers
	if now.Waivers != nil {
		var err error
		if w, err = signoff.ParseWaivers(filepath.Join(dir, signoff.Folder, "waivers.json"), now.Waivers); err != nil {
			return signoff.Case{}, badData("%v", err)
		}
	}
	return caseOf(ctx, r, w, e.now().UTC())
}

// readSigners reads an allowed-signers file; "" is none.
func readSigners(file string) (*signoff.Signers, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, badInput("--allowed-signers: %v", err)
	}
	s, err := signoff.ParseSigners(file, data, time.Local)
	if err != nil {
		return nil, badInput("%v", err)
	}
	return s, nil
}

// readPolicy reads a policy file; "" is none.
func readPolicy(file string) (*signoff.Policy, []byte, error) {
	if file == "" {
		return nil, nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, badInput("--policy: %v", err)
	}
	p, err := signoff.ParsePolicy(file, data)
	if err != nil {
		return nil, nil, badInput("%v", err)
	}
	return p, data, nil
}

// readWaivers reads a waiver file; "" is none.
func readWaivers(file string) (*signoff.Waivers, []byte, error) {
	if file == "" {
		return nil, nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, badInput("--waivers: %v", err)
	}
	w, err := signoff.ParseWaivers(file, data)
	if err != nil {
		return nil, nil, badInput("%v", err)
	}
	return w, data, nil
}
