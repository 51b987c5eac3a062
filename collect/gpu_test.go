package collect

import (
	"slices"
	"strings"
	"testing"
)

func TestParseGPUs(t *testing.T) {
	t.Parallel()
	const mi300 = `{"gpu":0,"asic":{"market_name":"AMD Instinct MI300X","vendor_id":"0x1002","target_graphics_version":"gfx942"}}`
	tests := []struct {
		name, out string
		want      []string
		bad       bool
	}{
		{"list", "[" + mi300 + "," + mi300 + "]", []string{"AMD Instinct MI300X gfx942", "AMD Instinct MI300X gfx942"}, false},
		{"wrapped", `{"gpu_data":[` + mi300 + `]}`, []string{"AMD Instinct MI300X gfx942"}, false},
		{"not available", `[{"gpu":0,"asic":{"market_name":"N/A","target_graphics_version":{"value":"N/A"}}}]`, nil, false},
		{"asic is a text", `[{"gpu":0,"asic":"N/A"}]`, nil, true},
		{"truncated", `[{"gpu":0,"asic":{"market_na`, nil, true},
		{"empty", "", nil, true},
		{"no GPU", "[]", nil, false},
		{"a message", "ERROR:root:Unable to detect any GPU devices", nil, true},
	}
	for _, tt := range tests {
		got, err := ParseGPUs([]byte(tt.out))
		if (err != nil) != tt.bad || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}

func FuzzParseGPUs(f *testing.F) {
	f.Add([]byte(`[{"asic":{"market_name":"AMD Instinct MI300X","target_graphics_version":"gfx942"}}]`))
	f.Add([]byte(`{"gpu_data":[{"asic":{"market_name":1}}]}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		names, err := ParseGPUs(out)
		if err != nil && names != nil {
			t.Errorf("names %q beside an error", names)
		}
		for _, n := range names {
			if strings.TrimSpace(n) == "" || len(n) > 300 {
				t.Errorf("name %q", n)
			}
		}
	})
}
