package main

import (
	"context"
	"fmt"
	"time"

	"cvs/collect/artifact"
	"cvs/collect/signoff"
	"cvs/warehouse"
)

// readRun reads a run directory with the decisions on it; nobody is known.
func readRun(dir string) (*artifact.Run, error) { return readRunAgainst(dir, signoff.Against{}) }

// readRunAgainst reads a run directory with the decisions on it, held against a
// policy, signers and waivers.
func readRunAgainst(dir string, a signoff.Against) (*artifact.Run, error) {
	r, err := artifact.Read(dir)
	if err != nil {
		return nil, err
	}
	if r.Decisions, err = signoff.Read(dir, r.Meta.RunID, a); err != nil {
		return nil, fmt.Errorf("read the decisions on %s: %w", r.Meta.RunID, err)
	}
	return r, nil
}

// A judgedCase is a run as the views judge it, for a decision. The warehouse
// holds it and nothing else.
type judgedCase struct {
	signoff.Case
	db    *warehouse.DB
	state warehouse.SignoffStateRow
}

// caseOf judges a run with the views and puts the answer in the form that
// decisions are made on. Nothing here decides about a number. The caller closes
// the warehouse.
func caseOf(ctx context.Context, r *artifact.Run, at time.Time) (_ *judgedCase, err error) {
	db, j, err := judgeInMemory(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			db.Close()
		}
	}()
	id := r.Meta.RunID
	c := &judgedCase{db: db}
	if c.state, err = db.SignoffState(ctx, id, at); err != nil {
		return nil, badStore(err)
	}
	sum, err := db.ReleaseRun(ctx, id)
	if err != nil {
		return nil, badStore(err)
	}
	c.Seen = signoff.Seen{
		Headline: j.status.Headline, Incomplete: j.status.Incomplete, Simulated: j.status.Simulated,
		Failed: c.state.Failed, Waived: c.state.Waived, Vacuous: sum.Judged - sum.Calibrated, Reasons: j.status.Reasons(),
	}
	blocks, err := db.SignoffBlocks(ctx, id, at)
	if err != nil {
		return nil, badStore(err)
	}
	for _, b := range blocks {
		c.Blocks = append(c.Blocks, signoff.Block{Class: b.Class, Tier: b.Tier, Reason: b.Reason, Holds: b.Holds, Absolute: b.Absolute})
	}
	use, err := db.WaiverUse(ctx, id, at)
	if err != nil {
		return nil, badStore(err)
	}
	for _, u := range use {
		if u.Waived > 0 {
			c.Used = append(c.Used, signoff.UsedWaiver{ID: u.WaiverID, Expires: u.LastDay.Format(time.DateOnly), Gates: u.Waived})
		}
	}
	return c, nil
}

// readSigners reads an allowed-signers file; "" is none.
func readSigners(file string) (*signoff.Signers, error) {
	if file == "" {
		return nil, nil
	}
	data, err := readInput(file, maxInputFile)
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
	data, err := readInput(file, maxInputFile)
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
	data, err := readInput(file, maxInputFile)
	if err != nil {
		return nil, nil, badInput("--waivers: %v", err)
	}
	w, err := signoff.ParseWaivers(file, data)
	if err != nil {
		return nil, nil, badInput("%v", err)
	}
	return w, data, nil
}
