package warehouse

import (
	"regexp"
	"strings"
)

// gfxOf maps AMD's accelerator names, without suffix letters, to their
// architecture: the family name mi3xx stands for the first generation.
func gfxOf(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	switch {
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

// agreement of a configured architecture with a reported one.
type agreement int

const (
	unknownGPU  agreement = iota // the report names no accelerator we know
	sameGPU                      // it is the one
	anotherGPU                   // it is another
	nothingSeen                  // there is no report
)

// compareGPU compares what was configured (mi325x) with what was reported
// ("AMD Instinct MI300X", "gfx942", "AMD Radeon Graphics"). Of a name and a gfx
// id in one report, either can contradict.
func compareGPU(configured, seen string) agreement {
	if seen == "" || configured == "" {
		return nothingSeen
	}
	want := gfxOf(configured)
	result := unknownGPU
	if gfx := strings.ToLower(namedGfx.FindString(seen)); gfx != "" && want != "" {
		if gfx != want {
			return anotherGPU
		}
		result = sameGPU
	}
	if name := strings.ToLower(namedGPU.FindString(seen)); name != "" {
		family := strings.HasSuffix(configured, "xx")
		if family && gfxOf(name) != want || !family && !strings.EqualFold(name, configured) {
			return anotherGPU
		}
		result = sameGPU
	}
	return result
}
