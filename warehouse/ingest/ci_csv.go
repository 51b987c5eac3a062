package ingest

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"cvs/collect/strictjson"
)

func isCICSV(data []byte) bool {
	head, _, _ := bytes.Cut(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), []byte("\n"))
	h := "," + strings.TrimSpace(string(head)) + ","
	return strings.Contains(h, ",date_ms,") && strings.Contains(h, ",backend,") && (strings.Contains(h, ",model,") && strings.Contains(h, ",conc,") || strings.Contains(h, ",bench,") && strings.Contains(h, ",value,"))
}

// splitCSV groups the rows by what measured them; the rows stay as written. Rows
// that cannot be read, such as the last one of a file that was cut, are left out
// and told in the error.
func splitCSV(data []byte) ([]Part, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	r := csv.NewReader(bytes.NewReader(data))
	head, err := r.Read()
	if err != nil {
		return nil, err
	}
	header := data[:r.InputOffset()]
	groups := make(map[string][]byte)
	var order []string
	var broken []error
	for {
		start := r.InputOffset()
		row, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			if r.InputOffset() == start {
				return nil, err
			}
			broken = append(broken, fmt.Errorf("not used: %w", err))
			continue
		}
		get := columns(head, row)
		model, _ := ciModel(get("model"))
		if b := accuracyName.FindStringSubmatch(get("bench")); b != nil {
			model, _ = ciModel(b[2])
		}
		key := strings.Join([]string{get("date_ms"), get("ci_run"), get("backend"), model, csvTP(get), get("gpu"), get("docker")}, "\x00")
		if groups[key] == nil {
			order = append(order, key)
			groups[key] = bytes.Clone(header)
		}
		groups[key] = append(groups[key], data[start:r.InputOffset()]...)
	}
	accuracy := columns(head, head)("bench") != ""
	var parts []Part
	for _, key := range order {
		parts = append(parts, part(groups[key], accuracy))
	}
	return parts, few(broken)
}

func columns(head, row []string) func(string) string {
	return func(name string) string {
		for i, h := range head {
			if h == name && i < len(row) {
				return row[i]
			}
		}
		return ""
	}
}

func csvTP(get func(string) string) string {
	if tp := get("tp"); tp != "" {
		return tp
	}
	if _, tp := ciModel(get("model")); tp > 0 {
		return strconv.FormatInt(tp, 10)
	}
	if b := accuracyName.FindStringSubmatch(get("bench")); b != nil {
		if _, tp := ciModel(b[2]); tp > 0 {
			return strconv.FormatInt(tp, 10)
		}
	}
	return get("gpu_count")
}

// readCSV reads rows of the published CSV files; every row is a sample.
func readCSV(name string, data []byte) (*Document, error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := &Document{Format: CICSV}
	for {
		row, err := r.Read()
		if err == io.EOF {
			return d, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		get := columns(head, row)
		b := &builder{sample: Sample{Line: line}}
		bench := benchName{backend: get("backend"), isl: atoi(get("isl")), osl: atoi(get("osl")), conc: atoi(get("conc")), tp: atoi(csvTP(get))}
		bench.model, _ = ciModel(get("model"))
		task := ""
		if acc := accuracyName.FindStringSubmatch(get("bench")); acc != nil {
			bench.model, _ = ciModel(acc[2])
			task = strings.ToLower(acc[3])
		}
		id := Identity{Model: bench.model, Driver: ciDriver(bench.backend), GPU: get("gpu"), Image: get("docker"), CIRun: get("ci_run"), Commit: get("atom_commit")}
		id.shape(bench.isl, bench.osl, bench.conc, bench.tp)
		if ms := atoi(get("date_ms")); ms > 0 {
			s := float64(ms) / 1000
			id.StartUnix = &s
		}
		b.sample.Identity = id
		for i, h := range head {
			if i < len(row) && row[i] != "" {
				b.sample.Values = append(b.sample.Values, csvValue(h, row[i], task))
			}
		}
		b.sample.Digest = b.digest()
		d.Samples = append(d.Samples, b.sample)
	}
}

func csvValue(column, field, task string) Value {
	x := Value{Key: clean(column), pointer: "/" + strictjson.EscapePointer(clean(column)), Kind: "string", Quality: NonNumeric, Text: clean(field), Raw: clean(field), Bytes: len(field)}
	if strictjson.IsNumber(field) {
		x.Kind = "number"
		x.Number, x.Quality = number(&strictjson.Value{Kind: strictjson.Number, Text: field})
	}
	if m, ok := ciMetrics[column]; ok {
		x.Metric = m.metric
		x.Number *= m.factor
	}
	if filter := map[string]string{"value": "flexible-extract", "strict_match": "strict-match"}[column]; task != "" && filter != "" {
		x.Key, x.Parent, x.Metric = "exact_match,"+filter, "/results/"+task, task+".exact_match__"+filter
	}
	return x
}
