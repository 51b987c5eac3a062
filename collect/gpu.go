package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cvs/collect/artifact"
	"cvs/collect/gpu"
)

// maxGPUs bounds what is read of an answer that lists GPUs.
const maxGPUs = 1024

// gpuList decodes what amd-smi prints of each GPU: a list, bare or under
// gpu_data.
func gpuList[T any](out []byte) (list []T, err error) {
	doc := bytes.TrimSpace(out)
	if len(doc) > 0 && doc[0] == '{' {
		var wrapped struct {
			Data []T `json:"gpu_data"`
		}
		err = json.Unmarshal(doc, &wrapped)
		list = wrapped.Data
	} else {
		err = json.Unmarshal(doc, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("amd-smi: %w", err)
	}
	if len(list) > maxGPUs {
		return nil, fmt.Errorf("amd-smi: %d GPUs, more than %d", len(list), maxGPUs)
	}
	return list, nil
}

// ParseGPUs reads the output of "amd-smi static --asic --json": a list of GPUs,
// bare or under gpu_data. Each GPU is its market name and gfx version, as far as
// the tool gives them; one that gives neither is left out. Output that is
// neither list is an error.
func ParseGPUs(out []byte) ([]string, error) {
	type gpu struct {
		ASIC struct {
			Market any `json:"market_name"`
			GFX    any `json:"target_graphics_version"`
		} `json:"asic"`
	}
	list, err := gpuList[gpu](out)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range list {
		var parts []string
		for _, v := range []any{g.ASIC.Market, g.ASIC.GFX} {
			if s, ok := v.(string); ok && s != "" && s != "N/A" {
				parts = append(parts, clip(strings.ToValidUTF8(s, "?"), 100))
			}
		}
		if len(parts) > 0 {
			names = append(names, strings.Join(parts, " "))
		}
	}
	return names, nil
}

// A GPUUse is what one GPU is doing.
type GPUUse struct {
	Index       int
	Activity    float64 // per cent; 0 where the tool does not say
	Used, Total float64 // MB of memory; 0 where the tool does not say
}

// ParseGPUUse reads the output of "amd-smi metric --usage --mem-usage --json",
// in the two forms of [ParseGPUs].
func ParseGPUUse(out []byte) ([]GPUUse, error) {
	type value struct {
		Value json.RawMessage `json:"value"` // a number, or "N/A"
	}
	type gpu struct {
		GPU   int                        `json:"gpu"`
		Usage map[string]json.RawMessage `json:"usage"`
		Mem   map[string]json.RawMessage `json:"mem_usage"`
	}
	list, err := gpuList[gpu](out)
	if err != nil {
		return nil, err
	}
	number := func(m map[string]json.RawMessage, key string) float64 {
		var v value
		var f float64
		if json.Unmarshal(m[key], &v) != nil || json.Unmarshal(v.Value, &f) != nil {
			return 0
		}
		return f
	}
	var uses []GPUUse
	for _, g := range list {
		uses = append(uses, GPUUse{Index: g.GPU, Activity: number(g.Usage, "gfx_activity"),
			Used: number(g.Mem, "used_vram"), Total: number(g.Mem, "total_vram")})
	}
	return uses, nil
}

// identifyGPU records which GPUs the node really has, and refuses a node whose
// GPUs are others than the config is for: its results would be compared with
// the wrong ones for ever. A node that cannot say is only noted.
func (m *member) identifyGPU(ctx context.Context) error {
	x := m.run
	res, err := m.do(ctx, m.cmds.gpuIdentity())
	if err != nil {
		return err
	}
	if res.ExitCode != 0 {
		x.note("preflight", "which GPUs %s has is not known: amd-smi cannot be asked (exit status %d)", m.host(), res.ExitCode)
		return nil
	}
	names, err := ParseGPUs(res.Stdout)
	if err != nil || len(names) == 0 {
		return x.warn("preflight", "which GPUs %s has is not known: the answer of amd-smi names none", m.host())
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(names)))
	if len(kinds) > 1 {
		return fmt.Errorf("%s has GPUs of several kinds: %s", m.host(), strings.Join(kinds, ", "))
	}
	if gpu.Compare(x.p.GPUArch, kinds[0]) == gpu.Another {
		return fmt.Errorf("%s has %q, but the config is for gpu_arch %s: use the config for that GPU, or correct gpu_arch", m.host(), kinds[0], x.p.GPUArch)
	}
	if err := x.r.Store.UpdateMeta(func(meta *artifact.Meta) {
		meta.Identity.GPUSeen = kinds[0]
		meta.Simulated = meta.Simulated || strings.Contains(kinds[0], simulatedGPU)
	}); err != nil {
		return &storeError{err}
	}
	return nil
}
