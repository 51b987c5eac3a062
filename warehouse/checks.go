package warehouse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/artifact"
)

// The files below checks/ as far as their facts are loaded. They are written by
// package collect/check, which this one must not know; the names are the format.

type checkHeader struct {
	Check  string          `json:"check"`
	Status artifact.Status `json:"status"`
	Reason string          `json:"reason"`
}

type functionalFile struct {
	APISmoke    *bool `json:"api_smoke"`
	HealthCheck *bool `json:"health_check"`
	Steps       []struct {
		Block     string   `json:"block"`
		ID        string   `json:"id"`
		Request   string   `json:"request"`
		LatencyMS float64  `json:"latency_ms"`
		Pass      bool     `json:"pass"`
		Failures  []string `json:"failures"`
	} `json:"steps"`
}

type niahFile struct {
	ID       string   `json:"id"`
	Correct  int      `json:"correct"`
	Total    int      `json:"total"`
	PassRate *float64 `json:"pass_rate"`
	CILow    *float64 `json:"ci_low"`
	CIHigh   *float64 `json:"ci_high"`
	Results  []struct {
		Expected string `json:"expected"`
		Actual   string `json:"actual"`
		Passed   bool   `json:"passed"`
	} `json:"results"`
}

type mtpFile struct {
	Metrics        map[string]float64 `json:"metrics"`
	Missing        map[string]string  `json:"missing"`
	TemplateSHA256 string             `json:"chat_template_sha256"`
}

type quantFile struct {
	SHA256    string   `json:"probe_sha256"`
	Chars     *float64 `json:"probe_chars"`
	Stem      string   `json:"reference_config_stem"`
	Match     *float64 `json:"probe_match"`
	Reference *struct {
		Path    string `json:"path"`
		Problem string `json:"problem"`
	} `json:"reference"`
}

type dmesgFile struct {
	Host     string `json:"host"`
	Errors   int    `json:"errors"`
	Warnings int    `json:"warnings"`
	Pass     bool   `json:"pass"`
	Events   []struct {
		Severity string `json:"severity"`
		Line     string `json:"line"`
	} `json:"events"`
	Records []struct {
		Severity string `json:"severity"`
		Head     string `json:"head"`
	} `json:"records"`
}

type gpuFile struct {
	Cell     string `json:"cell"`
	Samples  int    `json:"samples"`
	Problems int    `json:"problems"`
	Total    struct {
		PeakVRAMMB   *float64 `json:"peak_vram_mb"`
		MeanGFXPct   *float64 `json:"mean_gfx_pct"`
		MeanUMCPct   *float64 `json:"mean_umc_pct"`
		MeanPowerW   *float64 `json:"mean_power_w"`
		PeakPowerW   *float64 `json:"peak_power_w"`
		PeakTempC    *float64 `json:"peak_hotspot_c"`
		EnergyJ      *float64 `json:"energy_j"`
		ThrottledPct *float64 `json:"throttled_pct"`
	} `json:"total"`
}

type evalFile struct {
	IDs     []string          `json:"ids"`
	Filters map[string]string `json:"filters"`
	WallS   *float64          `json:"wall_s"`
}

// A checkRow is one row of check_result without what all rows of a file share.
type checkRow struct {
	scope, target, part string
	metric              string
	value               *float64
	text                string
	passed              *bool
	detail              string
}

// checkResult loads the facts of one file below checks/. A file that is none of
// ours is kept as an artifact only.
func (b *batch) checkResult(r artifact.Result) {
	h, is, err := checkName(r)
	if !is {
		return
	}
	if err != nil {
		b.problem(warning, "check_unreadable", where{path: r.Path}, "not a result of a check: %v", err)
		return
	}
	rows, err := checkRows(h, r.Data)
	if err == nil {
		err = b.quality(h.Check, r)
	}
	if err != nil {
		b.problem(warning, "check_unreadable", where{path: r.Path}, "not a result of the check %s: %v", h.Check, err)
		return
	}
	for _, c := range rows {
		var passed any
		if c.passed != nil {
			passed = *c.passed
		}
		if c.metric == "" && c.detail == "" {
			c.detail = h.Reason
		}
		b.add("check_result", b.meta.RunID, int32(len(b.rows["check_result"])+1), valid(c.scope), valid(c.target), valid(c.part), valid(string(h.Status)),
			valid(c.metric), num(c.value), str(c.text), passed, str(c.detail), valid(r.Path))
		if c.scope == "platform" && c.metric == "warnings" && *c.value > 0 {
			b.problem(warning, "kernel_log", where{path: r.Path, task: c.target}, "%s warnings in the kernel log of %s: %s", strconv.FormatFloat(*c.value, 'f', -1, 64), c.part, c.detail)
		}
	}
}

func checkRows(h checkHeader, data []byte) ([]checkRow, error) {
	switch h.Check {
	case "functional":
		return functionalRows(data)
	case "long_context_accuracy":
		return niahRows(data)
	case "mtp_quality":
		return mtpRows(data)
	case "quant_parity":
		return quantRows(data)
	case "dmesg":
		return dmesgRows(h, data)
	case "gpu":
		return gpuRows(data)
	case "accuracy":
		f, err := decodeCheck[evalFile](data)
		var rows []checkRow
		for _, id := range f.IDs {
			rows = append(rows, checkRow{scope: "accuracy", target: id}, checkRow{scope: "accuracy", target: id, metric: "wall_s", value: f.WallS})
			if filter := f.Filters[id]; filter != "" {
				rows = append(rows, checkRow{scope: "accuracy", target: id, metric: "filter", text: filter})
			}
		}
		return rows, err
	}
	return nil, nil
}

func decodeCheck[T any](data []byte) (T, error) {
	var v T
	err := json.Unmarshal(data, &v)
	return v, err
}

func functionalRows(data []byte) ([]checkRow, error) {
	f, err := decodeCheck[functionalFile](data)
	if err != nil {
		return nil, err
	}
	var rows []checkRow
	for _, block := range []struct {
		id     string
		passed *bool
	}{{"api_smoke", f.APISmoke}, {"health_check", f.HealthCheck}} {
		if block.passed == nil {
			continue
		}
		whole := checkRow{scope: "functional", target: block.id, passed: block.passed}
		var steps []checkRow
		var wrong []string
		for _, s := range f.Steps {
			if s.Block != block.id {
				continue
			}
			why := strings.Join(s.Failures, ", ")
			if !s.Pass {
				wrong = append(wrong, s.ID+" ("+s.Request+"): "+why)
			}
			steps = append(steps, checkRow{scope: "functional", target: block.id, metric: s.ID, value: &s.LatencyMS, text: s.Request, passed: &s.Pass, detail: why})
		}
		whole.detail = strings.Join(wrong, "; ")
		rows = append(append(rows, whole), steps...)
	}
	return rows, nil
}

func niahRows(data []byte) ([]checkRow, error) {
	f, err := decodeCheck[niahFile](data)
	if err != nil {
		return nil, err
	}
	const scope = "long_context_accuracy"
	detail := fmt.Sprintf("%d of %d needles found", f.Correct, f.Total)
	for _, s := range f.Results {
		if !s.Passed {
			detail += fmt.Sprintf("; first miss: %q for %s", s.Actual, s.Expected)
			break
		}
	}
	rows := []checkRow{{scope: scope, target: f.ID}}
	// The name with the id is the existing suite's, the bare one is ours.
	for _, m := range []struct {
		name  string
		value *float64
	}{{"accuracy.niah_pass_rate__" + f.ID, f.PassRate}, {"pass_rate", f.PassRate}, {"ci_low", f.CILow}, {"ci_high", f.CIHigh}} {
		if m.value != nil {
			rows = append(rows, checkRow{scope: scope, target: f.ID, metric: m.name, value: m.value, detail: detail})
		}
	}
	return rows, nil
}

func mtpRows(data []byte) ([]checkRow, error) {
	f, err := decodeCheck[mtpFile](data)
	if err != nil {
		return nil, err
	}
	row := checkRow{scope: "mtp_quality", target: "mtp_quality"}
	rows := []checkRow{row}
	var names []string
	for m := range f.Metrics {
		names = append(names, m)
	}
	for m := range f.Missing {
		if _, ok := f.Metrics[m]; !ok {
			names = append(names, m)
		}
	}
	slices.Sort(names)
	for _, m := range names {
		row.metric, row.value, row.detail = m, nil, f.Missing[m]
		if v, ok := f.Metrics[m]; ok {
			row.value = &v
		}
		rows = append(rows, row)
	}
	if f.TemplateSHA256 != "" {
		rows = append(rows, checkRow{scope: row.scope, target: row.target, metric: "accuracy.chat_template_sha256", text: f.TemplateSHA256})
	}
	return rows, nil
}

func quantRows(data []byte) ([]checkRow, error) {
	f, err := decodeCheck[quantFile](data)
	if err != nil {
		return nil, err
	}
	row := func(metric string, value *float64, text, detail string) checkRow {
		return checkRow{scope: "quant_parity", target: "quant_parity", metric: metric, value: value, text: text, detail: detail}
	}
	against := "no reference to compare with"
	if f.Reference != nil {
		if against = "compared with " + f.Reference.Path; f.Reference.Problem != "" {
			against = f.Reference.Path + ": " + f.Reference.Problem
		}
	}
	rows := []checkRow{row("", nil, "", ""), row("quant_parity.probe_match", f.Match, "", against)}
	if f.SHA256 != "" {
		rows = append(rows, row("quant_parity.probe_sha256", nil, f.SHA256, ""), row("quant_parity.probe_chars", f.Chars, "", ""))
	}
	if f.Stem != "" {
		rows = append(rows, row("quant_parity.reference_config_stem", nil, f.Stem, ""))
	}
	return rows, nil
}

func dmesgRows(h checkHeader, data []byte) ([]checkRow, error) {
	f, err := decodeCheck[dmesgFile](data)
	if err != nil {
		return nil, err
	}
	first := map[string]string{}
	for _, r := range f.Records {
		if first[r.Severity] == "" {
			first[r.Severity] = r.Head
		}
	}
	for _, e := range f.Events {
		if first[e.Severity] == "" {
			first[e.Severity] = e.Line
		}
	}
	row := checkRow{scope: "platform", target: "dmesg_scan", part: f.Host}
	whole, errs, warns := row, row, row
	if h.Status == artifact.Done {
		whole.passed, whole.detail = &f.Pass, first["error"]
	}
	ne, nw := float64(f.Errors), float64(f.Warnings)
	errs.metric, errs.value, errs.detail = "errors", &ne, first["error"]
	warns.metric, warns.value, warns.detail = "warnings", &nw, first["warning"]
	if h.Status != artifact.Done { // nothing was counted
		return []checkRow{whole}, nil
	}
	return []checkRow{whole, errs, warns}, nil
}

func gpuRows(data []byte) ([]checkRow, error) {
	f, err := decodeCheck[gpuFile](data)
	if err != nil {
		return nil, err
	}
	row := checkRow{scope: "platform", target: "gpu_metrics_poll", part: f.Cell}
	samples, problems := float64(f.Samples), float64(f.Problems)
	rows := []checkRow{row}
	for _, m := range []struct {
		name  string
		value *float64
	}{{"samples", &samples}, {"problems", &problems},
		{"gpu.peak_gpu_memory_mb", f.Total.PeakVRAMMB}, {"gpu.gpu_compute_util_pct", f.Total.MeanGFXPct}, {"gpu.gpu_bandwidth_util_pct", f.Total.MeanUMCPct},
		{"gpu.mean_power_w", f.Total.MeanPowerW}, {"gpu.peak_power_w", f.Total.PeakPowerW}, {"gpu.peak_hotspot_c", f.Total.PeakTempC},
		{"gpu.energy_j", f.Total.EnergyJ}, {"gpu.throttled_pct", f.Total.ThrottledPct}} {
		if m.value != nil {
			row.metric, row.value = m.name, m.value
			rows = append(rows, row)
		}
	}
	return rows, nil
}
