package main

import (
	"math"

	"cvs/warehouse"
)

// The JSON forms of a judgement and an inspection. Field names are a contract
// with scripts; the row types of package warehouse may change under them.

type reportJSON struct {
	Run      runJSON       `json:"run"`
	Cells    []cellJSON    `json:"cells"`
	Tiers    []tierJSON    `json:"tiers"`
	Gates    []gateJSON    `json:"gates"`
	Checks   []checkJSON   `json:"checks"`
	Problems []problemJSON `json:"problems"`
	SLO      *sloReport    `json:"slo,omitempty"` // of --slo
}

type runJSON struct {
	RunID      string   `json:"run_id"`
	Verdict    string   `json:"verdict"`
	Incomplete bool     `json:"incomplete"`
	Simulated  bool     `json:"simulated"`
	Enforced   bool     `json:"enforced"`
	ExitCode   int      `json:"exit_code"`
	Reasons    []string `json:"reasons"`
	Cells      counts   `json:"cells"`
	Gates      counts   `json:"gates"`
}

type counts map[string]int

type cellJSON struct {
	Key         string   `json:"key"`
	ID          string   `json:"id"`
	ISL         int      `json:"isl"`
	OSL         int      `json:"osl"`
	Concurrency int      `json:"concurrency"`
	Planned     bool     `json:"planned"`
	State       string   `json:"state"`
	Reason      string   `json:"reason,omitempty"`
	Pass        int      `json:"pass"`
	Fail        int      `json:"fail"`
	Invalid     int      `json:"invalid"`
	Skipped     int      `json:"skipped"`
	NA          int      `json:"na"`
	WouldFail   int      `json:"would_fail"`
	WorstPct    *float64 `json:"worst_margin_pct"`
}

type tierJSON struct {
	Cell   string `json:"cell"`
	Host   string `json:"host"`
	Tier   string `json:"tier"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

type gateJSON struct {
	Cell      string   `json:"cell"`
	Host      string   `json:"host"`
	Tier      string   `json:"tier"`
	Metric    string   `json:"metric"`
	Unit      string   `json:"unit,omitempty"`
	Kind      string   `json:"kind"`
	Wanted    *float64 `json:"wanted"`
	Actual    *float64 `json:"actual"`
	Text      string   `json:"text,omitempty"` // what the file says where that is no number
	State     string   `json:"state"`
	WouldFail bool     `json:"would_fail"`
	Reason    string   `json:"reason,omitempty"`
	MarginPct *float64 `json:"margin_pct"`
	Origin    string   `json:"file,omitempty"`
	Line      int      `json:"line,omitempty"`
}

type checkJSON struct {
	Scope  string   `json:"scope"`
	Target string   `json:"target"`
	Metric string   `json:"metric"`
	Kind   string   `json:"kind"`
	Wanted *float64 `json:"wanted"`
	Actual *float64 `json:"actual"`
	StdErr *float64 `json:"stderr"`
	State  string   `json:"state"`
	Reason string   `json:"reason,omitempty"`
}

type problemJSON struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Cell     string `json:"cell,omitempty"`
	Task     string `json:"task,omitempty"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"`
	Msg      string `json:"msg"`
}

type metricJSON struct {
	Cell    string   `json:"cell"`
	Host    string   `json:"host,omitempty"`
	Metric  string   `json:"metric"`
	Value   *float64 `json:"value"`
	Unit    string   `json:"unit,omitempty"`
	Quality string   `json:"quality"`
	Text    string   `json:"text,omitempty"`
	Key     string   `json:"key,omitempty"`
	Derived bool     `json:"derived"`
	Note    string   `json:"note,omitempty"`
}

// finite keeps the document strict JSON; the text beside it says what it was.
func finite(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	return v
}

// report turns a judgement into its JSON form.
func (j *judgement) report() reportJSON {
	s := j.status
	out := reportJSON{
		Run: runJSON{
			RunID: s.RunID, Verdict: string(s.Verdict), Incomplete: s.Incomplete, Simulated: s.Simulated, Enforced: s.Enforce,
			ExitCode: s.ExitCode, Reasons: append([]string{}, s.Reasons()...),
			Cells: counts{"expected": s.Expected, "measured": s.Measured, "pass": s.CellsPass, "fail": s.CellsFail, "record": s.CellsRecord, "error": s.CellsError},
			Gates: counts{"pass": s.Pass, "fail": s.Fail, "invalid": s.Invalid, "skipped": s.Skipped, "na": s.NA, "info": s.Info, "record": s.Record, "would_fail": s.WouldFail},
		},
		Cells: []cellJSON{}, Tiers: []tierJSON{}, Gates: []gateJSON{}, Checks: []checkJSON{}, Problems: problemsJSON(j.quality),
	}
	for _, p := range j.plan {
		out.Problems = append(out.Problems, problemJSON{Severity: "warning", Code: "plan", Msg: p})
	}
	for _, c := range j.cells {
		out.Cells = append(out.Cells, cellJSON{c.CellKey, c.CellID, c.ISL, c.OSL, c.Concurrency, c.Planned, string(c.State), c.Reason,
			c.Pass, c.Fail, c.Invalid, c.Skipped, c.NA, c.WouldFail, finite(c.WorstMarginPct)})
	}
	for _, t := range j.tiers {
		out.Tiers = append(out.Tiers, tierJSON{t.CellKey, t.Host, t.Tier, string(t.State), t.Reason})
	}
	for _, g := range j.gates {
		x := gateJSON{Cell: g.CellKey, Host: g.Host, Tier: g.Tier, Metric: g.Metric, Unit: g.Unit, Kind: g.Kind, Wanted: g.Wanted, Actual: finite(g.Got),
			State: string(g.State), WouldFail: g.WouldFail, Reason: g.Reason, MarginPct: finite(g.MarginPct), Origin: g.File, Line: g.Line}
		if x.Actual == nil {
			x.Text = g.GotText
		}
		out.Gates = append(out.Gates, x)
	}
	for _, k := range j.checks {
		out.Checks = append(out.Checks, checkJSON{k.Scope, k.Target, k.Metric, k.Kind, k.Wanted, finite(k.Got), finite(k.StdErr), string(k.State), k.Reason})
	}
	return out
}

func problemsJSON(rows []warehouse.DataQualityRow) []problemJSON {
	out := []problemJSON{}
	for _, q := range rows {
		out = append(out, problemJSON{q.Severity, q.Code, q.CellKey, q.TaskID, q.Path, q.Line, q.Message})
	}
	return out
}

func metricsJSON(rows []warehouse.MetricRow) []metricJSON {
	out := []metricJSON{}
	for _, m := range rows {
		out = append(out, metricJSON{m.CellKey, m.Host, m.Metric, finite(m.Value), m.Unit, m.Quality, m.Text, m.Key, m.Derived, m.Note})
	}
	return out
}
