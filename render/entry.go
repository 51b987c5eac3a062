package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cvs/collect/metric"
	"cvs/warehouse"
)

// An Entry is what the pages around the decks need to know of one published
// run. It is written beside its deck, so that an index can be made of a folder
// into which several warehouses publish.
type Entry struct {
	Version    int        `json:"entry_version"` // 1
	RunID      string     `json:"run_id"`
	Folder     string     `json:"folder"` // below runs/
	Started    *time.Time `json:"started_at"`
	Published  time.Time  `json:"published_at"`
	Model      string     `json:"model"`
	Precision  string     `json:"precision"`
	GPU        string     `json:"gpu"`
	Driver     string     `json:"driver"`
	TP         int        `json:"tp"`
	PP         int        `json:"pp"`
	DP         int        `json:"dp"`
	NNodes     int        `json:"nnodes"`
	Simulated  bool       `json:"simulated"`
	Image      string     `json:"image"`
	Tool       string     `json:"tool_version"`
	Verdict    string     `json:"verdict"` // pass, fail, record
	Incomplete bool       `json:"incomplete"`
	Expected   int        `json:"cells_expected"`
	Measured   int        `json:"cells_measured"`
	Failed     int        `json:"gates_failed"`
	Evaluated  int        `json:"gates_evaluated"`
	Peak       *float64   `json:"peak_output_throughput"` // tok/s, of the best cell
	// Against the run before, + is better: see macro mean_change. Entries of older
	// publishers have none.
	Change     *float64    `json:"output_change_pct,omitempty"`
	ChangeLow  *float64    `json:"output_change_low_pct,omitempty"`
	ChangeHigh *float64    `json:"output_change_high_pct,omitempty"`
	Cells      []EntryCell `json:"cells"`
	// Assets are the files that the run's deck shares with others.
	Assets []string `json:"assets,omitempty"`
}

// An EntryCell is one cell of an [Entry].
type EntryCell struct {
	Key    string   `json:"cell_id"`
	Name   string   `json:"name"`
	State  string   `json:"state"`
	Output *float64 `json:"output_throughput"` // tok/s
	TTFT   *float64 `json:"mean_ttft_ms"`
}

// EntryOf sums up a run for the pages around the decks.
func EntryOf(d *Data, o Options) Entry {
	b := newBuilder(d)
	r := d.Run
	e := Entry{Version: 1, RunID: r.RunID, Folder: FolderName(r.RunID), Started: r.StartedAt, Published: o.Now.UTC(), Model: r.Model, Precision: r.Precision, GPU: r.GPUArch,
		Driver: r.Driver, TP: r.TP, PP: r.PP, DP: r.DP, NNodes: r.NNodes, Simulated: r.Simulated, Image: r.Image, Tool: r.ToolVersion,
		Verdict: string(d.Status.Verdict), Incomplete: d.Status.Incomplete, Expected: d.Status.Expected, Measured: d.Status.Measured,
		Failed: d.Status.Fail + d.Status.Invalid, Evaluated: d.Status.Pass + d.Status.Fail + d.Status.Invalid, Cells: []EntryCell{}}
	if m, ok := d.Means[meanKey("previous", metric.Headline)]; ok {
		e.Change, e.ChangeLow, e.ChangeHigh = m.BetterPct, m.LowPct, m.HighPct
	}
	usable := func(v *float64) *float64 {
		if v == nil || !finite(*v) {
			return nil
		}
		return v
	}
	for _, c := range b.cells {
		x := EntryCell{Key: c.CellKey, Name: c.name, State: string(c.State)}
		if c.State != warehouse.Error {
			x.Output, x.TTFT = usable(c.metric(metric.Headline).Value), usable(c.metric("mean_ttft_ms").Value)
		}
		if x.Output != nil && (e.Peak == nil || *x.Output > *e.Peak) {
			e.Peak = x.Output
		}
		e.Cells = append(e.Cells, x)
	}
	return e
}

// FolderName is a run's folder below runs/: its id, or a safe name made of it
// where it could be a path or an odd file name.
func FolderName(runID string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	plain := runID != "" && len(runID) <= 100 && runID[0] != '.' && strings.IndexFunc(runID, func(r rune) bool { return !safe(r) }) < 0
	if plain {
		return runID
	}
	return anchor("run", runID, map[string]bool{}) + "-" + short(runID)
}

func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// Configuration is what runs must share to stand in one history: model,
// precision, GPU, framework, parallelism, nodes, simulated or real.
func (e Entry) Configuration() string {
	return strings.Join([]string{e.Model, e.Precision, e.GPU, e.Driver, fmt.Sprintf("TP %d PP %d DP %d", e.TP, e.PP, e.DP), strconv.Itoa(e.NNodes), strconv.FormatBool(e.Simulated)}, "\x00")
}

// HistoryName is the file name of the configuration's history page.
func (e Entry) HistoryName() string {
	return strings.TrimPrefix(anchor("", e.GPU+"-"+e.Driver+"-"+e.Model, map[string]bool{}), "-") + "-" + short(e.Configuration()) + ".html"
}

func (e Entry) mark() Mark {
	switch {
	case e.Verdict == "fail":
		return Mark{Class: "fail", Word: "fail"}
	case e.Incomplete:
		return Mark{Class: "incomplete", Word: "incomplete"}
	case e.Verdict == "pass":
		return Mark{Class: "pass", Word: "pass"}
	}
	return Mark{Class: "record", Word: "record only"}
}
