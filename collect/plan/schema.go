package plan

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cvs/collect/metric"
)

// schemaNode is a JSON Schema (draft 2020-12) in the making; encoding/json
// sorts its keys, so that equal tables give equal bytes.
type schemaNode map[string]any

// Schema returns the JSON Schema of one kind of input file: config, threshold
// or cluster. It is made of the table that the loader decodes by, so editors
// complete and check what the loader accepts. Rules over several fields are
// beyond it; [Load] checks those.
func Schema(kind string) ([]byte, error) {
	d := &draft{dc: newDecoder(&problems{rank: map[string]int{}}), r: newRules()}
	var s schemaNode
	switch kind {
	case "config":
		s = configSchema(d)
	case "threshold":
		s = thresholdSchema()
	case "cluster":
		s = objectSchema(d.clusterFields(), true)
		s["required"] = []string{"node_dict"}
	default:
		return nil, fmt.Errorf("no JSON Schema for %q: known are config, threshold, cluster", kind)
	}
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "cvs " + kind + " file"
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

func configSchema(d *draft) schemaNode {
	native, serving := d.nativeFields(), d.servingFields(false)
	catalogue := schemaNode{"type": "object", "description": "catalogue of cell keys", "patternProperties": schemaNode{cellKey.String(): schemaNode{}, "^_": schemaNode{}}, "additionalProperties": false}
	runs := schemaNode{"type": "array", "description": "cell keys to run; empty: the whole catalogue", "items": schemaNode{"type": []string{"string", "object"}}}

	s := objectSchema(native, false)
	props := s["properties"].(schemaNode)
	for name, p := range objectSchema(serving, false)["properties"].(schemaNode) {
		if _, ok := props[name]; !ok {
			props[name] = p
		}
	}
	props["sweeps"], props["runs"] = catalogue, runs
	// Beside a catalogue, sweep may hold the selection instead of shapes.
	delete(props["sweep"].(schemaNode), "required")

	body := objectSchema(native, false)
	delete(body, "required") // what a profile does not have is inherited
	bodyProps := body["properties"].(schemaNode)
	delete(bodyProps, "schema_version")
	bodyProps["sweeps"], bodyProps["runs"] = catalogue, runs
	delete(bodyProps["sweep"].(schemaNode), "required")
	props["profiles"] = schemaNode{"type": "object", "minProperties": 1, "description": "profile name to the top-level keys it replaces",
		"patternProperties": schemaNode{"^_": schemaNode{}, "^[^_]": body}, "additionalProperties": false}
	props["default_profile"] = schemaNode{"type": "string", "description": "profile used when none is chosen"}

	delete(s, "required")
	common := []string{"paths", "model", "container"}
	s["anyOf"] = []schemaNode{
		{"required": []string{"profiles"}},
		{"required": append(slices.Clone(common), "server_params", "benchmark_params")},
		{"required": append(slices.Clone(common), "params", "sweep")},
		{"required": append(slices.Clone(common), "params", "sweeps")},
	}
	return s
}

func objectSchema(fields []field, open bool) schemaNode {
	props, required := schemaNode{}, []string{}
	for _, f := range fields {
		props[f.name] = fieldSchema(f)
		if f.need {
			required = append(required, f.name)
		}
	}
	s := schemaNode{"type": "object", "properties": props}
	if !open {
		s["patternProperties"] = schemaNode{"^_": schemaNode{}}
		s["additionalProperties"] = false
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func fieldSchema(f field) schemaNode {
	s := schemaNode{}
	null := func(types ...string) any {
		if f.null {
			types = append(types, "null")
		}
		if len(types) == 1 {
			return types[0]
		}
		return types
	}
	switch f.kind {
	case kText:
		s["type"] = null("string")
		if len(f.enum) > 0 {
			s = schemaNode{"enum": enumValues(f)}
		}
	case kInt:
		s["type"] = null("integer", "string")
		s["minimum"] = f.min
		s["maximum"] = maxCount
		if f.max > 0 {
			s["maximum"] = f.max
		}
		s["pattern"] = `^(?:0|[1-9][0-9]*)$`
		if f.blank {
			s["pattern"] = `^(?:0|[1-9][0-9]*)?$`
		}
	case kDecimal:
		s["type"] = null("number", "string")
	case kFloat:
		s["type"] = null("number")
	case kBool:
		s["type"] = null("boolean")
	case kSwitch:
		s["anyOf"] = []schemaNode{{"type": null("boolean")}, {"enum": []any{0, 1}}, {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[Yy][Ee][Ss]|[Nn][Oo]|1|0)?$"}}
	case kTexts:
		s["type"], s["items"] = null("array"), schemaNode{"type": "string"}
	case kEnv:
		s["type"] = null("object")
		s["patternProperties"] = schemaNode{`^[A-Za-z_][A-Za-z0-9_]*$`: schemaNode{"type": "string"}}
		s["additionalProperties"] = false
	case kObject:
		s = objectSchema(f.sub, f.open)
	case kList:
		fields, _ := f.elem()
		s["type"], s["items"] = "array", objectSchema(fields, false)
	case kCustom:
		if f.schema == "false" {
			return schemaNode{"not": schemaNode{}, "description": f.doc}
		}
		if err := json.Unmarshal([]byte(f.schema), &s); err != nil {
			panic(fmt.Sprintf("plan: schema of %s: %v", f.name, err)) // the table is wrong, every test fails
		}
		if t, ok := s["type"].(string); ok && f.null {
			s["type"] = []string{t, "null"}
		} else if l, ok := s["type"].([]any); ok && f.null && !slices.Contains(l, any("null")) {
			s["type"] = append(l, "null")
		}
	}
	if f.idle != "" {
		s = schemaNode{"deprecated": true, "description": "no effect: " + f.idle}
		return s
	}
	if f.doc != "" {
		s["description"] = strings.ToUpper(f.doc[:1]) + f.doc[1:]
	}
	if f.def != "" && f.def != "null" {
		s["default"] = json.RawMessage(f.def)
	}
	return s
}

func enumValues(f field) []any {
	var list []any
	for _, e := range f.enum {
		list = append(list, e)
	}
	if f.null {
		list = append(list, nil)
	}
	return list
}

func thresholdSchema() schemaNode {
	needs := func(kind string, fields ...string) schemaNode {
		return schemaNode{"if": schemaNode{"properties": schemaNode{"kind": schemaNode{"const": kind}}}, "then": schemaNode{"required": fields}}
	}
	var all []schemaNode
	for _, k := range specKinds() {
		switch k {
		case "info":
		case "within":
			all = append(all, needs(k, "value", "tolerance_pct"))
		case "min_ratio":
			all = append(all, needs(k, "value", "reference"))
		default:
			all = append(all, needs(k, "value"))
		}
	}
	spec := schemaNode{"type": "object", "required": []string{"kind"}, "additionalProperties": false, "patternProperties": schemaNode{"^_": schemaNode{}}, "allOf": all,
		"properties": schemaNode{
			"kind":          schemaNode{"enum": specKinds(), "description": "min, min_tok_s: at least value; max, max_ms: at most value; within: value ± tolerance_pct %; min_ratio: metric / reference at least value; info: never fails"},
			"value":         schemaNode{"description": "bound"},
			"tolerance_pct": schemaNode{"type": []string{"number", "string"}, "minimum": 0, "description": "per cent of value, for within"},
			"reference":     schemaNode{"type": "string", "description": "metric of the same cell, for min_ratio"},
		}}
	specs := schemaNode{"type": "object", "additionalProperties": schemaNode{"$ref": "#/$defs/spec"}, "patternProperties": schemaNode{"^_": schemaNode{}}}
	cell := schemaNode{"type": "object", "patternProperties": schemaNode{"^_": schemaNode{}}, "additionalProperties": schemaNode{"$ref": "#/$defs/spec"}, "properties": schemaNode{}}
	for _, m := range metric.Table() {
		doc := m.Label
		if m.Unit != "" {
			doc += " (" + m.Unit + ")"
		}
		cell["properties"].(schemaNode)[m.Name] = schemaNode{"$ref": "#/$defs/spec", "description": doc}
	}
	tasks := schemaNode{"type": "object", "additionalProperties": schemaNode{"$ref": "#/$defs/specs"}, "patternProperties": schemaNode{"^_": schemaNode{}}}
	body := schemaNode{"type": "object", "additionalProperties": false,
		"patternProperties": schemaNode{"^_": schemaNode{}, regexp.MustCompile(`[()]`).ReplaceAllString(cellKey.String(), ""): schemaNode{"$ref": "#/$defs/cell"}},
		"properties": schemaNode{"accuracy": tasks, "long_context_accuracy": tasks,
			"mtp_quality": schemaNode{"$ref": "#/$defs/specs"}, "quant_parity": schemaNode{"$ref": "#/$defs/specs"}}}
	return schemaNode{
		"$defs": schemaNode{"spec": spec, "specs": specs, "cell": cell, "body": body},
		"if":    schemaNode{"required": []string{"profiles"}},
		"then": schemaNode{"type": "object", "properties": schemaNode{"profiles": schemaNode{"type": "object",
			"patternProperties": schemaNode{"^_": schemaNode{}, "^[^_]": schemaNode{"$ref": "#/$defs/body"}}}}},
		"else": schemaNode{"$ref": "#/$defs/body"},
	}
}
