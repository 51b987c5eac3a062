package render

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// SidecarVersion is the schema of the JSON beside the deck. Version 1 is what
// the older suite wrote; its keys are kept where they still have a meaning.
const SidecarVersion = 2

// number is a float that JSON can hold: what is not finite becomes null.
type number float64

// MarshalJSON writes the shortest text that reads back as the same number.
func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); finite(v) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

func num(v *float64) *number {
	if v == nil {
		return nil
	}
	n := number(*v)
	return &n
}

type sidecar struct {
	SchemaVersion int        `json:"schema_version"`
	SuiteID       string     `json:"suite_id"`
	GeneratedAt   string     `json:"generated_at,omitempty"`
	CVSVersion    string     `json:"cvs_version"`
	OverallStatus string     `json:"overall_status"` // pass, fail, record, incomplete, na
	Verdict       sideJudged `json:"verdict"`
	Report        sideReport `json:"report"`
	RunCard       [][3]any   `json:"run_card_display"` // label, value, is a link
	RunCardNotes  string     `json:"run_card_notes"`
	Provenance    sideOrigin `json:"provenance"`
	Run           sideRun    `json:"run"`
	Identity      sideWho    `json:"identity"`

	Lifecycle    map[string]number  `json:"lifecycle"` // stage → seconds, the longest of its name
	Accuracy     map[string]*number `json:"accuracy"`
	Cells        []sideCell         `json:"cells"` // with a result
	Expected     []sideExpected     `json:"expected_cells"`
	GateMatrix   []sideMatrix       `json:"gate_matrix"`
	Gates        []sideGate         `json:"gates"`
	ResultsTable sideTable          `json:"results_table"`
	Tasks        []sideTask         `json:"tasks"`
	Quality      []sideQuality      `json:"data_quality"`
	Artifacts    []sideFile         `json:"artifacts"`
	Panels       map[string]any     `json:"panels"`

	ChartSeries    map[string][]sideSeries `json:"chart_series"`
	ChartConfig    []sideChart             `json:"chart_config"`
	SweepSummaries []sideSweep             `json:"sweep_summaries"`
	Viewer         sideViewer              `json:"viewer_config"`
	Inputs         []sideInput             `json:"inputs"`
	Summary        sideSummary             `json:"summary"`
}

type sideJudged struct {
	Status     string         `json:"status"`
	Incomplete bool           `json:"incomplete"`
	ExitCode   int            `json:"exit_code"`
	Reasons    []string       `json:"reasons"`
	Cells      map[string]int `json:"cells"`   // planned cells by state
	Gates      map[string]int `json:"gates"`   // gates by state
	Orphans    int            `json:"orphans"` // files with results outside the plan
}

type sideReport struct {
	Title     string   `json:"title"`
	Subtitle  string   `json:"subtitle"`
	TierOrder []string `json:"metric_tier_order"`
	Headline  string   `json:"headline_metric"`
	TTFT      string   `json:"sweep_ttft_metric"`
}

type sideOrigin struct {
	CVSVersion  string   `json:"cvs_version"`
	CommandLine []string `json:"command_line,omitempty"`
	Image       string   `json:"image_tag,omitempty"`
	Digest      string   `json:"image_digest,omitempty"`
}

type sideRun struct {
	ID        string     `json:"run_id"`
	Profile   string     `json:"profile"`
	Status    string     `json:"status"`
	Started   *time.Time `json:"started_at"`
	Ended     *time.Time `json:"finished_at"`
	Tool      string     `json:"tool_version"`
	Enforce   bool       `json:"enforce_thresholds"`
	Origin    string     `json:"enforce_origin,omitempty"`
	Simulated bool       `json:"simulated"`
}

type sideWho struct {
	Model     string `json:"model_id"`
	Precision string `json:"precision"`
	GPUArch   string `json:"gpu_arch"`
	GPUName   string `json:"gpu_name"`
	Driver    string `json:"driver"`
	TP        int    `json:"tp"`
	PP        int    `json:"pp"`
	DP        int    `json:"dp"`
	NNodes    int    `json:"nnodes"`
}

type sideCell struct {
	Model       string             `json:"model"`
	GPU         string             `json:"gpu"`
	ISL         string             `json:"isl"` // text, as in version 1
	OSL         string             `json:"osl"`
	Policy      string             `json:"policy"`
	Concurrency int                `json:"concurrency"`
	Host        string             `json:"host"`
	CellID      string             `json:"cell_id"` // the cell key
	Status      string             `json:"status"`
	Actuals     map[string]*number `json:"actuals"`                // prefixed as in version 1
	ActualsText map[string]string  `json:"actuals_text,omitempty"` // what is no finite number, as written
	Tiers       map[string]string  `json:"tiers"`
	Metrics     []sideHighlight    `json:"metrics"`
	Lifecycle   map[string]number  `json:"cell_lifecycle"` // stage → seconds
	HostLabel   bool               `json:"show_host_in_label"`
}

type sideInput struct {
	Kind   string `json:"kind"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

type sideCompared struct {
	CellID     string  `json:"cell_id"`
	Host       string  `json:"host"`
	Metric     string  `json:"metric"`
	OtherRun   string  `json:"other_run,omitempty"`
	Value      *number `json:"value"`
	Other      *number `json:"other"`
	Ratio      *number `json:"ratio"`
	BetterPct  *number `json:"better_pct"`
	State      string  `json:"state"`
	Reason     string  `json:"reason,omitempty"`
	Changed    bool    `json:"changed"`
	Regression bool    `json:"regression"`
	NoisePct   *number `json:"noise_pct"`
	NoiseRuns  int     `json:"noise_runs"`
}

// sidePanel is one comparison; without rows it says that there is none, and why
// what was asked for could not be compared with.
func sidePanel(rows []ComparedRow, problem string) any {
	if len(rows) == 0 {
		panel := map[string]string{"status": "not compared"}
		if problem != "" {
			panel["reason"] = problem
		}
		return panel
	}
	out := make([]sideCompared, 0, len(rows))
	status := "not compared"
	for _, r := range rows {
		if r.State == "compared" {
			status = "compared"
		}
		out = append(out, sideCompared{CellID: r.CellKey, Host: r.Slot, Metric: r.Metric, OtherRun: r.OtherRun, Value: num(r.Value), Other: num(r.Other), Ratio: num(r.Ratio),
			BetterPct: num(r.BetterPct), State: r.State, Reason: r.Reason, Changed: r.Changed, Regression: r.Regression, NoisePct: num(r.NoisePct), NoiseRuns: r.NoiseRuns})
	}
	return map[string]any{"status": status, "headline_metric": clientName(metric.Headline), "threshold_pct": 5.0, "rows": out}
}

type sideExpected struct {
	CellID string `json:"cell_id"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

type sideMatrix struct {
	Label       string            `json:"label"`
	CellID      string            `json:"cell_id"`
	Concurrency int               `json:"concurrency"`
	Status      string            `json:"status"`
	Tiers       map[string]string `json:"tiers"`
}

type sideGate struct {
	CellID    string  `json:"cell_id"` // empty for a check
	Name      string  `json:"name"`    // of the cell or the check
	Host      string  `json:"host"`
	Tier      string  `json:"tier"`
	Metric    string  `json:"metric"`
	Kind      string  `json:"kind"`
	Target    *number `json:"target"`
	Tolerance *number `json:"tolerance_pct,omitempty"`
	Reference string  `json:"reference,omitempty"`
	Actual    *number `json:"actual"`
	Text      string  `json:"actual_text,omitempty"` // where actual is null
	Margin    *number `json:"margin_abs"`
	MarginPct *number `json:"margin_pct"`
	Status    string  `json:"status"`
	WouldFail bool    `json:"would_fail,omitempty"`
	Reason    string  `json:"reason,omitempty"`
	File      string  `json:"file,omitempty"`
	Line      int     `json:"line,omitempty"`
}

type sideTable struct {
	Headers []string `json:"headers"`
	Rows    [][]any  `json:"rows"`
}

type sideTask struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

type sideQuality struct {
	CellID   string `json:"cell_id,omitempty"`
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Path     string `json:"path,omitempty"`
	Msg      string `json:"message"`
}

type sideFile struct {
	CellID string `json:"cell_id,omitempty"`
	Path   string `json:"path"`
	Format string `json:"format,omitempty"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

type sideSummary struct {
	Mode  string `json:"mode"` // always full: nothing is cut
	Total int    `json:"total_cells"`
}

// clientName is how version 1 spelt a metric of the client.
func clientName(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return "client." + name
}

// WriteJSON prints the same rows as strict JSON: no NaN, no Infinity; what is
// not a finite number is null with its text beside it.
func WriteJSON(w io.Writer, d *Data, o Options) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(side(d, o)); err != nil {
		return fmt.Errorf("writing the sidecar: %w", err)
	}
	return nil
}

// WriteJSONFile writes the sidecar to path as [WriteFile] writes the deck.
func WriteJSONFile(path string, d *Data, o Options) error {
	return WriteTo(path, func(w io.Writer) error { return WriteJSON(w, d, o) })
}

func side(d *Data, o Options) sidecar {
	b := newBuilder(d)
	r, st := d.Run, d.Status
	s := sidecar{
		SchemaVersion: SidecarVersion, SuiteID: r.Suite, CVSVersion: o.ToolVersion, OverallStatus: string(st.Verdict),
		Verdict: sideJudged{Status: string(st.Verdict), Incomplete: st.Incomplete, ExitCode: st.ExitCode, Reasons: append([]string{}, st.Reasons()...), Cells: map[string]int{}, Gates: map[string]int{}},
		Report:  sideReport{Title: "ATOM Run Deck", Subtitle: r.Model, TierOrder: b.tierNames(), Headline: clientName(metric.Headline), TTFT: clientName("mean_ttft_ms")},
		RunCard: [][3]any{}, RunCardNotes: b.words(),
		Provenance: sideOrigin{CVSVersion: r.ToolVersion, CommandLine: list(r.CommandLine), Image: r.Image, Digest: b.digest()},
		Run: sideRun{ID: r.RunID, Profile: r.Profile, Status: r.Status, Started: r.StartedAt, Ended: r.EndedAt, Tool: r.ToolVersion,
			Enforce: r.Enforce, Origin: r.EnforceOrigin, Simulated: r.Simulated},
		Identity:  sideWho{Model: r.Model, Precision: r.Precision, GPUArch: r.GPUArch, GPUName: r.GPUSeen, Driver: r.Driver, TP: r.TP, PP: r.PP, DP: r.DP, NNodes: r.NNodes},
		Lifecycle: map[string]number{}, Accuracy: map[string]*number{}, Cells: []sideCell{}, Expected: []sideExpected{}, GateMatrix: []sideMatrix{},
		Gates: []sideGate{}, Tasks: []sideTask{}, Quality: []sideQuality{}, Artifacts: []sideFile{},
		Panels: map[string]any{"prev_run": sidePanel(d.Prev, d.Problems["previous"]), "golden": sidePanel(d.Golden, d.Problems["golden"]),
			"framework_parity": sidePanel(d.Parity, d.Problems["parity"])},
		Inputs:  []sideInput{},
		Summary: sideSummary{Mode: "full", Total: len(d.Cells)},
	}
	if st.Incomplete && st.Verdict != "fail" {
		s.OverallStatus = "incomplete"
	}
	s.Verdict.Orphans = b.orphans()
	if !o.Now.IsZero() {
		s.GeneratedAt = o.Now.UTC().Format("2006-01-02 15:04 UTC")
	}
	for _, f := range b.card() {
		s.RunCard = append(s.RunCard, [3]any{f.Label, f.Value, false})
	}
	for _, x := range d.Stages {
		if x.StartedAt != nil && x.EndedAt != nil {
			s.Lifecycle[x.Stage] = number(math.Max(float64(s.Lifecycle[x.Stage]), x.EndedAt.Sub(*x.StartedAt).Seconds()))
		}
	}
	stages := map[string][]warehouse.StageRow{}
	for _, x := range d.Stages {
		if x.CellID != "" && x.StartedAt != nil && x.EndedAt != nil {
			stages[x.CellID] = append(stages[x.CellID], x)
		}
	}
	for _, in := range d.Inputs {
		s.Inputs = append(s.Inputs, sideInput(in))
	}
	b.sideCharts(&s)
	for _, a := range d.Accuracy {
		s.Accuracy[a.Metric] = num(a.Value)
	}
	for _, c := range b.cells {
		tiers := map[string]string{}
		for _, t := range c.tiers {
			tiers[t.Tier] = string(t.State)
		}
		s.Verdict.Cells[string(c.State)]++
		if c.Planned {
			s.Expected = append(s.Expected, sideExpected{CellID: c.CellKey, Name: c.CellID, State: string(c.State), Reason: c.Reason})
		}
		s.GateMatrix = append(s.GateMatrix, sideMatrix{Label: fmt.Sprintf("%s · C=%d", c.Combo, c.Concurrency), CellID: c.CellKey, Concurrency: c.Concurrency, Status: string(c.State), Tiers: tiers})
		if c.State != warehouse.Error {
			s.Cells = append(s.Cells, sideActuals(c, r, tiers))
			took := s.Cells[len(s.Cells)-1].Lifecycle
			for _, x := range stages[c.CellID] {
				took[x.Stage] = number(math.Max(float64(took[x.Stage]), x.EndedAt.Sub(*x.StartedAt).Seconds()))
			}
		}
	}
	for _, g := range b.gates {
		s.Verdict.Gates[string(g.State)]++
		row := sideGate{CellID: g.CellKey, Name: g.CellID, Host: g.Host, Tier: g.Tier, Metric: g.Metric, Kind: g.Kind, Target: num(g.Wanted), Tolerance: num(g.TolerancePct),
			Reference: g.Reference, Actual: num(g.Got), Margin: num(g.Margin), MarginPct: num(g.MarginPct), Status: string(g.State), WouldFail: g.WouldFail, Reason: g.Reason, File: g.File, Line: g.Line}
		if g.Got == nil || !finite(*g.Got) {
			row.Text = g.GotText
		}
		s.Gates = append(s.Gates, row)
	}
	s.ResultsTable = b.sideResults()
	for _, k := range d.Checks {
		if k.Metric == "" {
			s.Tasks = append(s.Tasks, sideTask{Kind: k.Scope, ID: k.Target, State: string(k.State), Reason: k.Reason})
		}
	}
	for _, q := range d.Quality {
		s.Quality = append(s.Quality, sideQuality{CellID: q.CellKey, Kind: q.Code, Severity: q.Severity, Path: q.Path, Msg: q.Message})
	}
	for _, a := range d.Artifacts {
		s.Artifacts = append(s.Artifacts, sideFile{CellID: a.CellKey, Path: a.Path, Format: a.Format, SHA256: a.SHA256, Bytes: a.Bytes})
	}
	return s
}

func sideActuals(c *cell, r warehouse.RunRow, tiers map[string]string) sideCell {
	out := sideCell{Model: r.Model, GPU: r.GPUArch, ISL: strconv.Itoa(c.ISL), OSL: strconv.Itoa(c.OSL), Policy: c.Combo, Concurrency: c.Concurrency, Host: c.hosts(),
		CellID: c.CellKey, Status: string(c.State), Actuals: map[string]*number{}, Tiers: tiers, Metrics: highlights(c), Lifecycle: map[string]number{}, HostLabel: c.Hosts > 1}
	for _, m := range c.metrics {
		name := m.Metric
		if _, dup := out.Actuals[clientName(name)]; dup {
			continue // of a second host
		}
		out.Actuals[clientName(name)] = num(m.Value)
		if (m.Value == nil || !finite(*m.Value)) && m.Text != "" {
			if out.ActualsText == nil {
				out.ActualsText = map[string]string{}
			}
			out.ActualsText[clientName(name)] = m.Text
		}
	}
	return out
}

// sideResults is the table of version 1: seven columns of identity, six of
// numbers, a dash for what is missing.
func (b *builder) sideResults() sideTable {
	t := sideTable{Headers: []string{"Model", "GPU", "ISL", "OSL", "Policy", "Conc", "Host", "Output tok/s", "Total tok/s", "Mean TTFT (ms)", "Mean TPOT (ms)", "P99 ITL (ms)", "Scaling eff. (%)"}, Rows: [][]any{}}
	for _, c := range b.cells {
		row := []any{b.d.Run.Model, b.d.Run.GPUArch, c.ISL, c.OSL, c.Combo, c.Concurrency, orDash(c.hosts())}
		for _, name := range []string{"output_throughput", "total_token_throughput", "mean_ttft_ms", "mean_tpot_ms", "p99_itl_ms", metric.ScalingEfficiency} {
			if m := c.metric(name); m.Value != nil && finite(*m.Value) {
				row = append(row, number(*m.Value))
			} else {
				row = append(row, "—")
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
