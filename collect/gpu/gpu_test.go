package gpu

import "testing"

func TestGFX(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"mi3xx": "gfx942", " MI325X": "gfx942", "mi355x": "gfx950", "mi250x": "gfx90a", "gfx950": "gfx950", "h100": "", "": ""} {
		if got := GFX(name); got != want {
			t.Errorf("GFX(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		configured, seen string
		want             Agreement
	}{
		{"mi300x", "AMD Instinct MI300X gfx942", Same},
		{"mi3xx", "AMD Instinct MI325X gfx942", Same},
		{"mi325x", "AMD Instinct MI300X gfx942", Another}, // same instruction set, another GPU
		{"mi300x", "AMD Instinct MI355X gfx950", Another},
		{"mi3xx", "gfx950", Another},
		{"mi300x", "AMD Radeon Graphics gfx942", Same}, // virtual functions hide the name
		{"mi300x", "AMD Radeon Graphics", Unknown},
		{"mi300x", "lab-sim", Unknown},
		{"mi300x", "", NothingSeen},
		{"", "AMD Instinct MI300X", NothingSeen},
		{"gfx942", "AMD Instinct MI325X gfx942", Same}, // an architecture stands for all of its GPUs
		{"gfx942", "gfx950", Another},
		{"GFX942", "AMD Instinct MI355X", Another},
		{"h100", "AMD Instinct MI300X", Unknown},
	} {
		if got := Compare(c.configured, c.seen); got != c.want {
			t.Errorf("%q and %q: %v, want %v", c.configured, c.seen, got, c.want)
		}
	}
}
