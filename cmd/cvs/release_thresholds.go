package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/plan"
	"cvs/warehouse"
)

// A thresholdReport compares two judgements of one run: under the thresholds it
// was run with and under an edited file. Nothing was measured again and nothing
// is stored.
type thresholdReport struct {
	RunID  string          `json:"run_id"`
	File   string          `json:"file"`
	Before thresholdSide   `json:"before"`
	After  thresholdSide   `json:"after"`
	Gates  []thresholdGate `json:"gates"` // whose state or bound differs, in plan order
	Same   int             `json:"same"`  // gates that do not
}

type thresholdSide struct {
	Verdict  string `json:"verdict"`
	ExitCode int    `json:"exit_code"`
	Pass     int    `json:"pass"`
	Fail     int    `json:"fail"`
	Invalid  int    `json:"invalid"`
	Vacuous  int    `json:"vacuous"`
}

type thresholdGate struct {
	Cell   string `json:"cell"`
	Host   string `json:"host,omitempty"`
	Metric string `json:"metric"`
	Was    string `json:"was"` // state and bound; "" where there was no gate
	Now    string `json:"now"`
	Got    string `json:"got"`
	Flips  bool   `json:"flips"` // failed before and not now, or the other way round
}

// compareThresholds judges the run in dir as it was and under another threshold
// file, for the same config and profile.
func compareThresholds(ctx context.Context, e *env, dir, file string) (*thresholdReport, error) {
	r, err := artifact.Read(dir)
	if err != nil {
		return nil, badData("%v", err)
	}
	specs, err := thresholdsFor(e, r, file)
	if err != nil {
		return nil, err
	}
	before, bv, err := judgeSide(ctx, r)
	if err != nil {
		return nil, err
	}
	edited := *r
	edited.Thresholds = artifact.Thresholds{Specs: specs}
	after, av, err := judgeSide(ctx, &edited)
	if err != nil {
		return nil, err
	}
	out := &thresholdReport{RunID: r.Meta.RunID, File: file, Before: side(before, bv), After: side(after, av), Gates: []thresholdGate{}}
	out.diff(gateList(before), gateList(after))
	return out, nil
}

// thresholdsFor reads the file for the run's own config: the copies that the run
// kept are laid out with the new file in the place of the old.
func thresholdsFor(e *env, r *artifact.Run, file string) ([]artifact.Threshold, error) {
	text, err := readInput(file, maxInputFile)
	if err != nil {
		return nil, badInput("--thresholds: %v", err)
	}
	tmp, err := os.MkdirTemp("", "cvs-thresholds-")
	if err != nil {
		return nil, badStore(err)
	}
	defer os.RemoveAll(tmp)
	o := plan.Options{Profile: r.Meta.Profile, OSUser: e.osUser()}
	placed := false
	for _, in := range r.Meta.Inputs {
		base := filepath.Base(in.Path)
		kept, err := os.ReadFile(filepath.Join(r.Dir, "inputs", artifact.SafeName(in.Kind+"-"+base)))
		if err != nil {
			return nil, badData("run %s kept no copy of its %s file: %v", r.Meta.RunID, in.Kind, err)
		}
		to := filepath.Join(tmp, base)
		switch in.Kind {
		case "config":
			o.ConfigFile = to
		case "cluster":
			o.ClusterFile = to
		case "thresholds":
			kept, placed = text, true
		}
		if err := os.WriteFile(to, kept, 0o600); err != nil {
			return nil, badStore(err)
		}
	}
	if o.ConfigFile == "" || !placed {
		return nil, badData("run %s kept no config and threshold file, so another cannot stand in", r.Meta.RunID)
	}
	p, err := plan.Load(o)
	if err != nil {
		return nil, &statusError{2, strings.ReplaceAll(err.Error(), tmp+string(filepath.Separator), "")}
	}
	return p.Thresholds, nil
}

func judgeSide(ctx context.Context, r *artifact.Run) (*judgement, int, error) {
	db, j, err := judgeInMemory(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	defer db.Close()
	v, err := db.Vacuous(ctx, r.Meta.RunID)
	if err != nil {
		return nil, 0, badStore(err)
	}
	return j, len(v), nil
}

func side(j *judgement, vacuous int) thresholdSide {
	s := j.status
	return thresholdSide{Verdict: s.Headline, ExitCode: s.ExitCode, Pass: s.Pass, Fail: s.Fail, Invalid: s.Invalid, Vacuous: vacuous}
}

type gateAt struct{ scope, cell, host, metric string }

// gateLine is one gate in words, in a list that keeps the order of the plan.
type gateLine struct {
	at         gateAt
	text, got  string
	failed, ok bool
}

func gateList(j *judgement) []gateLine {
	var out []gateLine
	add := func(at gateAt, state warehouse.State, would bool, bound, got string) {
		failed := state == warehouse.Fail || state == warehouse.Invalid || would
		out = append(out, gateLine{at, stateWord(state) + " " + bound, got, failed, true})
	}
	for _, g := range j.gates {
		add(gateAt{"cell", g.CellKey, g.Host, g.Metric}, g.State, g.WouldFail, g.Bound, g.GotText)
	}
	for _, k := range j.checks {
		add(gateAt{k.Scope, k.Target, "", k.Metric}, k.State, k.WouldFail, k.Bound, k.GotText)
	}
	return out
}

func (t *thresholdReport) diff(before, after []gateLine) {
	now := map[gateAt]gateLine{}
	for _, g := range after {
		now[g.at] = g
	}
	seen := map[gateAt]bool{}
	for _, was := range before {
		seen[was.at] = true
		is := now[was.at]
		if is.ok && is.text == was.text {
			t.Same++
			continue
		}
		t.Gates = append(t.Gates, thresholdGate{was.at.cell, was.at.host, was.at.metric, was.text, is.text, was.got, was.failed != is.failed})
	}
	for _, is := range after {
		if !seen[is.at] {
			t.Gates = append(t.Gates, thresholdGate{is.at.cell, is.at.host, is.at.metric, "", is.text, is.got, is.failed})
		}
	}
}

// print writes the report for people.
func (t *thresholdReport) print(w io.Writer) {
	fmt.Fprintf(w, "run %s under %s; nothing was measured again\n", visible(t.RunID), visible(t.File))
	for _, g := range t.Gates {
		mark := " "
		if g.Flips {
			mark = "!"
		}
		none := func(s string) string {
			if s == "" {
				return "no gate"
			}
			return s
		}
		fmt.Fprintf(w, "%s %s %s: got %s: %s -> %s\n", mark, visible(g.Cell), visible(g.Metric), visible(g.Got), visible(none(g.Was)), visible(none(g.Now)))
	}
	fmt.Fprintf(w, "%d gates differ, %d do not\n", len(t.Gates), t.Same)
	for _, s := range []struct {
		name string
		thresholdSide
	}{{"before", t.Before}, {"after ", t.After}} {
		fmt.Fprintf(w, "%s: %s, %d pass, %d fail, %d invalid, %d vacuous\n", s.name, s.Verdict, s.Pass, s.Fail, s.Invalid, s.Vacuous)
	}
}
