package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	// Quotes a command so that a reader can paste it.
	"al.essio.dev/pkg/shellescape"

	"cvs/warehouse"
)

// list decodes a JSON list of strings; text that is none is its only item.
func list(s string) []string {
	var out []string
	if s == "" || json.Unmarshal([]byte(s), &out) == nil {
		return out
	}
	return []string{s}
}

// labels decodes the free facts of a run; what is no string stays JSON.
func labels(s string) map[string]string {
	var raw map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &raw) != nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range raw {
		var one string
		if json.Unmarshal(v, &one) != nil {
			one = string(v)
		}
		out[k] = one
	}
	return out
}

// command is an argument list as a shell would take it.
func command(jsonList string) string {
	args := list(jsonList)
	if len(args) == 0 {
		return ""
	}
	return text(shellescape.QuoteCommand(args))
}

// commands are the command lines of a cell's last attempt.
func commands(attempts []warehouse.AttemptRow) []Field {
	if len(attempts) == 0 {
		return nil
	}
	a := attempts[len(attempts)-1]
	var out []Field
	if c := command(a.ServerArgv); c != "" {
		label := "Server"
		if a.ServerSession > 0 {
			label += fmt.Sprintf(", start %d of the run", a.ServerSession)
		}
		if a.Warm {
			label += ", had served before"
		}
		out = append(out, Field{Label: label, Value: c})
	}
	if c := command(a.ClientArgv); c != "" {
		label := "Client"
		if a.ExitCode != nil {
			label += ", exit status " + strconv.Itoa(*a.ExitCode)
		}
		out = append(out, Field{Label: label, Value: c})
	}
	return out
}

// card is who, what and where.
func (b *builder) card() []Field {
	r := b.d.Run
	var out []Field
	add := func(label, value, note string) {
		out = append(out, Field{Label: text(label), Value: orDash(text(value)), Note: text(note)})
	}
	add("Model", r.Model, "")
	add("Precision", r.Precision, "")
	seen := "seen: " + r.GPUSeen
	switch {
	case r.GPUSeen == "":
		seen = "the GPU was not reported"
	case r.GPUConfirmed:
		seen += ", as configured"
	}
	add("GPU", r.GPUArch, seen)
	add("Framework", r.Driver, "")
	par := fmt.Sprintf("TP %d · PP %d", r.TP, r.PP)
	if r.DP > 1 {
		par += " · DP " + strconv.Itoa(r.DP)
	}
	if r.TP > 0 && r.NNodes > 0 {
		add("Parallelism", par, plural(r.NNodes, "node")+", "+plural(r.GPUs, "GPU"))
	} else {
		add("Parallelism", "", "not stated")
	}
	add("Image", r.Image, b.digest())
	why := r.EnforceOrigin
	if r.Enforce {
		add("Thresholds", "enforced", why)
	} else {
		add("Thresholds", "record-only", why)
	}
	add("Hosts", strings.Join(list(r.Hosts), ", "), "")
	times := Field{Label: "Started", Value: "—", Note: "the results carry no time"}
	if r.StartedAt != nil {
		times.Value, times.Note = instant(*r.StartedAt), "no end was recorded"
		if r.EndedAt != nil {
			times.Note = "took " + span(r.EndedAt.Sub(*r.StartedAt))
		}
	}
	out = append(out, times)
	add("Status", strings.ReplaceAll(r.Status, "_", " "), "")
	out = append(out, Field{Label: "Run", Value: orDash(text(r.RunID)), Mono: true})
	tool, by := r.ToolVersion, strings.Trim(r.LauncherUser+"@"+r.LauncherHost, "@")
	if tool != "" {
		tool = "cvs " + tool
	}
	add("Measured by", tool, by)
	if c := command(r.CommandLine); c != "" {
		out = append(out, Field{Label: "Command", Value: c, Mono: true})
	}
	for _, k := range slices.Sorted(maps.Keys(b.labels)) {
		if k != "notes" {
			add(labelWords(k), b.labels[k], "")
		}
	}
	return out
}

// labelWords is the name of a free fact as a reader would write it.
func labelWords(key string) string {
	words := strings.Split(key, "_")
	for i, w := range words {
		switch w {
		case "ci", "url", "id", "gpu", "cpu", "os", "pr":
			words[i] = strings.ToUpper(w)
		}
	}
	return capital(strings.Join(words, " "))
}

// digest is the image's digest, or the digests by host where they differ; ""
// where none is known.
func (b *builder) digest() string {
	hosts := slices.Sorted(maps.Keys(b.d.Digests))
	seen := map[string]bool{}
	var each []string
	for _, h := range hosts {
		seen[b.d.Digests[h]] = true
		each = append(each, h+": "+b.d.Digests[h])
	}
	if len(seen) == 1 {
		return b.d.Digests[hosts[0]]
	}
	return strings.Join(each, ", ")
}

// words are the notes of the run card and of the reviewers.
func (b *builder) words() string {
	return strings.Trim(b.labels["notes"]+"\n\n"+b.d.Notes, "\n")
}

func (b *builder) footer(o Options) []string {
	made := "Made by cvs " + orDash(text(o.ToolVersion))
	if !o.Now.IsZero() {
		made += " on " + instant(o.Now)
	}
	return []string{
		made + " from run " + orDash(text(b.d.Run.RunID)) + ". Every verdict on this page was decided by the warehouse's views; the page only shows them.",
		"This file needs no network and stays readable without script. Charts: Apache ECharts (Apache-2.0).",
	}
}
