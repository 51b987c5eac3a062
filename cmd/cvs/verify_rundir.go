package main

import (
	"context"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"cvs/collect/artifact"
	evidence "cvs/collect/bundle" // another thing here is called bundle
	"cvs/collect/signoff"
	"cvs/warehouse"
)

// verifySignoff checks the decisions on one run.
func verifySignoff(ctx context.Context, e *env, f *findings, dir string, stated signoff.Listing, allowed *signoff.Signers) error {
	s, err := assess(ctx, dir, signoff.Against{Stated: stated, Allowed: allowed}, e.now())
	if err != nil {
		f.bad("sign-off", "%s: %s", filepath.Base(dir), shorten(err.Error(), dir))
		return nil
	}
	if s.State == signoff.StateTampered {
		for _, why := range s.Reasons {
			f.bad("sign-off", "%s: %s", s.RunID, why)
		}
	}
	for _, d := range s.Decisions {
		name := fmt.Sprintf("%s: entry %d, %s by %s (%s)", s.RunID, d.Seq, d.Decision, d.Identity, d.Role)
		for _, why := range d.Stale {
			f.bad("sign-off", "%s no longer holds: %s", name, why)
		}
		for _, why := range d.Problems {
			f.bad("sign-off", "%s does not count: %s", name, why)
		}
		if len(d.Stale) == 0 && len(d.Problems) == 0 {
			f.ok("sign-off", "%s: signature and evidence hold", name)
		}
	}
	for _, why := range append(slices.Clone(s.Waivers), s.Notes...) {
		f.note("sign-off", "%s: %s", s.RunID, why)
	}
	f.note("sign-off", "%s: %s", s.RunID, s.State)
	if s.State == signoff.StatePending {
		for _, why := range s.Reasons {
			f.note("sign-off", "%s: %s", s.RunID, why)
		}
	}
	return nil
}

func verifyRunDir(ctx context.Context, e *env, f *findings, dir string, allowed *signoff.Signers) error {
	if err := verifyManifest(f, dir, filepath.Base(filepath.Clean(dir)), nil); err != nil {
		return err
	}
	r, err := readRun(dir)
	if err != nil {
		return badData("%v", err)
	}
	for _, p := range r.Problems {
		if p.Note {
			f.note("run", "%s: %s", p.Path, p.Msg)
		} else if !strings.Contains(p.Msg, "after the run closed") { // said by the manifest
			f.bad("run", "%s: %s", p.Path, p.Msg)
		}
	}
	if err := verifyOwnDeck(ctx, f, dir, r); err != nil {
		return err
	}
	return verifySignoff(ctx, e, f, dir, nil, allowed)
}

// verifyOwnDeck renders the deck of a run directory again, as of when and for
// the version it states.
func verifyOwnDeck(ctx context.Context, f *findings, dir string, r *artifact.Run) error {
	deck, err := os.ReadFile(filepath.Join(dir, deckName))
	if err != nil {
		f.note("decks", "there is no %s", deckName)
		return nil
	}
	side, err := os.ReadFile(filepath.Join(dir, "atom_run_deck.json"))
	if err != nil {
		f.note("decks", "there is no sidecar")
	}
	version, made, ok := deckMade(deck)
	if !ok {
		f.bad("decks", "%s does not say when and by which version it was made", deckName)
		return nil
	}
	if v := toolVersion(); v != version {
		f.note("version", "the deck was made by cvs %s, checked by cvs %s: pages may have changed between them", version, v)
	}
	diffs, err := deckDifferences(ctx, dir, r, deck, side, made, version)
	if err != nil {
		return err
	}
	for _, d := range diffs {
		f.bad("decks", "%s", d)
	}
	if len(diffs) == 0 {
		f.ok("decks", "deck and sidecar rendered again: byte for byte")
	}
	return nil
}

// deckDifferences says how deck and sidecar differ from what is rendered again.
// A deck may show earlier runs, which stand beside this one, and the decisions
// that were taken by then; it holds if any of what it can have been made of gives
// the same bytes. What differs is told of the run alone.
func deckDifferences(ctx context.Context, dir string, r *artifact.Run, deck, side []byte, made time.Time, version string) ([]string, error) {
	var first []string
	for _, beside := range [][]*artifact.Run{nil, earlierRuns(dir, r)} {
		if beside == nil && first != nil {
			break
		}
		for _, inclusive := range []bool{true, false} {
			one := *r
			var err error
			if one.Decisions, err = decisionsAsOf(dir, r.Meta.RunID, r.Decisions, made, inclusive); err != nil {
				return nil, badData("%v", err)
			}
			diffs, err := differences(ctx, append(beside, &one), r.Meta.RunID, deck, side, made, version)
			if err != nil || len(diffs) == 0 {
				return nil, err
			}
			if first == nil {
				first = diffs
			}
			if r.Decisions == nil {
				break
			}
		}
	}
	return first, nil
}

func differences(ctx context.Context, runs []*artifact.Run, runID string, deck, side []byte, made time.Time, version string) ([]string, error) {
	db, err := warehouse.Open(ctx, "", warehouse.Options{})
	if err != nil {
		return nil, badStore(err)
	}
	defer db.Close()
	if _, err := db.Load(ctx, runs...); err != nil {
		return nil, err
	}
	again, sidecar, err := renderRun(ctx, &warehouse.Compared{DB: db}, runID, &evidence.Info{Rendered: made, ToolVersion: version})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, x := range []struct {
		name     string
		was, now []byte
	}{{deckName, deck, again}, {"atom_run_deck.json", side, sidecar}} {
		if d := firstDifference(x.was, x.now); d != "" && x.was != nil {
			out = append(out, x.name+": "+d)
		}
	}
	return out, nil
}

// earlierRuns are the runs in the same folder that started before r.
func earlierRuns(dir string, r *artifact.Run) []*artifact.Run {
	all, err := artifact.FindRuns(filepath.Dir(filepath.Clean(dir)))
	if err != nil || r.Meta.StartedAt == nil {
		return nil
	}
	var out []*artifact.Run
	for _, other := range all {
		x, err := artifact.Read(other)
		if err == nil && x.Meta.RunID != r.Meta.RunID && x.Meta.StartedAt != nil && x.Meta.StartedAt.Before(*r.Meta.StartedAt) {
			out = append(out, x)
		}
	}
	return out
}

// madeBy is the last line of a deck: which version made it and when.
var madeBy = regexp.MustCompile(`Made by cvs (\S+) on (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)`)

// deckMade reads that line; the last one counts, since text of a run may look
// like it.
func deckMade(deck []byte) (version string, made time.Time, ok bool) {
	all := madeBy.FindAllSubmatch(deck, -1)
	if len(all) == 0 {
		return "", made, false
	}
	last := all[len(all)-1]
	made, err := time.Parse("2006-01-02 15:04:05 UTC", string(last[2]))
	return html.UnescapeString(string(last[1])), made, err == nil
}
