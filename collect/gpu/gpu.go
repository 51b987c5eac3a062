// Package gpu is the one table of AMD Instinct accelerators: which name belongs to
// which architecture, and whether what a node reports is what a config is for
// (decision 15 of the design). It is a leaf and asks no machine.
package gpu

import (
	"regexp"
	"strings"
)

// GFX maps AMD's accelerator names, without suffix letters, to their
// architecture: the family name mi3xx stands for the first generation, and an
// architecture's own name for itself.
func GFX(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	switch {
	case namedGfx.FindString(name) == name:
		return name
	case name == "mi3xx", strings.HasPrefix(name, "mi300"), strings.HasPrefix(name, "mi308"), strings.HasPrefix(name, "mi325"):
		return "gfx942"
	case strings.HasPrefix(name, "mi350"), strings.HasPrefix(name, "mi355"):
		return "gfx950"
	case strings.HasPrefix(name, "mi210"), strings.HasPrefix(name, "mi250"):
		return "gfx90a"
	case strings.HasPrefix(name, "mi100"):
		return "gfx908"
	}
	return ""
}

var (
	namedGPU = regexp.MustCompile(`(?i)\bmi\d{3}[ax]?\b`)
	namedGfx = regexp.MustCompile(`(?i)\bgfx[0-9a-f]{3,4}\b`)
)

// An Agreement is that of a configured architecture with a reported one.
type Agreement int

const (
	Unknown     Agreement = iota // the report names no accelerator we know
	Same                         // it is the one
	Another                      // it is another
	NothingSeen                  // there is no report
)

// Name finds an accelerator's name in free text, lower case, "" if there is none.
func Name(text string) string { return strings.ToLower(namedGPU.FindString(text)) }

// Version finds a gfx version in free text, lower case, "" if there is none.
func Version(text string) string { return strings.ToLower(namedGfx.FindString(text)) }

// Compare compares what was configured (mi325x) with what was reported
// ("AMD Instinct MI300X", "gfx942", "AMD Radeon Graphics"). Of a name and a gfx
// version in one report, either can contradict; an architecture that is not in
// the table contradicts nothing.
func Compare(configured, seen string) Agreement {
	if seen == "" || configured == "" {
		return NothingSeen
	}
	want := GFX(configured)
	if want == "" {
		return Unknown
	}
	result := Unknown
	if v := Version(seen); v != "" {
		if v != want {
			return Another
		}
		result = Same
	}
	if name := Name(seen); name != "" {
		family := strings.HasSuffix(strings.ToLower(configured), "xx") || strings.EqualFold(want, strings.TrimSpace(configured))
		if family && GFX(name) != want || !family && !strings.EqualFold(name, strings.TrimSpace(configured)) {
			return Another
		}
		result = Same
	}
	return result
}
