package warehouse

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"cvs/collect/gpu"
)

// Labels that a published history gives to its runs; see [artifact.Meta].
const (
	LabelCIRun  = "ci_run" // of the CI that measured: runs of one are one measurement, however often published
	LabelCommit = "commit" // of the software measured
)

// originRow says which accelerator a run really had and which runs are one
// measurement: those of one CI run, else those with equal results.
func (b *batch) originRow() {
	id := b.meta.Identity
	seen := id.GPUSeen
	var results []string
	for _, s := range b.samples {
		if seen == "" {
			seen = s.Identity.GPU
		}
		if !s.unusable {
			results = append(results, s.Digest)
		}
	}
	word := gpuWord(seen)
	if word == "" || id.GPUArch != "" && gpu.Name(seen) == "" {
		word = strings.ToLower(id.GPUArch) // the report says nothing against it
	}
	origin := "run " + b.meta.RunID
	source := b.meta.Labels[LabelCIRun]
	switch {
	case source != "":
		origin = "ci " + source
	case len(results) > 0:
		slices.Sort(results)
		sum := sha256.Sum256([]byte(strings.Join(results, " ")))
		origin = "results " + hex.EncodeToString(sum[:])
	}
	b.add("run_origin", b.meta.RunID, str(word), valid(origin), str(source), str(b.meta.Labels[LabelCommit]))
}

// gpuWord is the name of an accelerator as one word: mi355x of "AMD Instinct
// MI355X VF", h100 of "NVIDIA H100 80GB HBM3". A generic name ("AMD Radeon
// Graphics" is how some guests report theirs) or a bare gfx id tells too little
// and stays as it is; "" where nothing was reported.
func gpuWord(seen string) string {
	if name := gpu.Name(seen); name != "" {
		return name
	}
	if gpu.Version(seen) != "" {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(seen))
}
