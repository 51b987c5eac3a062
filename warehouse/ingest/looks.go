package ingest

import (
	"bytes"
	"strings"

	"cvs/collect/strictjson"
)

// looksLike names files that are no JSON but that people point at by mistake.
func looksLike(data []byte) string {
	head := data[:min(len(data), 4096)]
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return "a gzip archive: unpack it first"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "a zip archive: unpack it first"
	case bytes.HasPrefix(head, []byte("(\xb5/\xfd")):
		return "a zstd archive: unpack it first"
	case bytes.HasPrefix(head, []byte("PAR1")):
		return "a Parquet file"
	case len(head) > 12 && string(head[8:12]) == "DUCK":
		return "a DuckDB database"
	case bytes.HasPrefix(head, []byte("# ")):
		return "a text document"
	case bytes.HasPrefix(head, []byte("<!DOCTYPE")), bytes.HasPrefix(head, []byte("<html")):
		return "a web page"
	case bytes.Contains(head, []byte("============ Serving Benchmark Result")):
		return "a benchmark client's console log: the JSON beside it is what is read"
	case bytes.HasPrefix(head, []byte("GPU: ")), bytes.HasPrefix(head, []byte("$ amd-smi")):
		return "amd-smi text output"
	case bytes.HasPrefix(head, []byte("kern ")), bytes.HasPrefix(head, []byte("[ ")) && bytes.Contains(head, []byte("] ")):
		return "a kernel log"
	}
	first, _, _ := strings.Cut(strings.TrimLeft(string(head), "\ufeff \r\n\t"), "\n")
	if first == "" || first[0] == '{' || first[0] == '[' {
		return ""
	}
	if strings.Count(first, ",") >= 2 && !strings.ContainsAny(first, "{}\"") {
		if strings.Contains(first, "card0") || strings.Contains(first, "gpu_") || strings.Contains(first, "timestamp") {
			return "a monitor's log of a GPU: telemetry, no benchmark result"
		}
		return "a CSV table"
	}
	return ""
}

// looksLikeJSON names JSON documents that are not results of one benchmark.
func looksLikeJSON(v *strictjson.Value) string {
	switch {
	case v.Kind == strictjson.Array:
		return "a list (a summary of several runs?); load the single result files, not their summary"
	case v.Kind != strictjson.Object:
		return "a bare JSON " + v.Kind.String()
	case len(v.Members) == 0:
		return "an empty object"
	case has(v, "meta", "models"):
		return "a comparison page's data: hand-made tables of several models without a date for each"
	case has(v, "format_version", "run_id"):
		return "the run.json of a run directory: load the directory"
	case has(v, "schema_version", "cells"):
		return "the sidecar of a run deck"
	case hasAny(v, "roles", "sweep", "params") && hasAny(v, "model", "container"):
		return "a cvs configuration"
	case hasAny(v, "node_dict"):
		return "a cluster file"
	case strings.HasPrefix(v.Members[0].Name, "ISL="):
		return "a threshold file"
	case hasAny(v, "gpu_data"):
		return "amd-smi output"
	}
	return ""
}
