package plan

import (
	"strings"
	"testing"
)

// TestHostAddress: what no resolver could be asked for is found before one is.
func TestHostAddress(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"node-1.example": true, "host_1": true, "192.0.2.11": true, "192.0.2.11:2222": true, "gate:22": true, "[2001:db8::1]": true, "[2001:db8::1]:22": true, "2001:db8::1": true,
		"": false, "-x": false, "a b": false, "u@h": false, "host:0": false, "host:65536": false, "host:99999": false, "host:": false, "host:ssh": false, "192.0.2.300": false, "10.1": false,
		"192.0.2.011": false, "[192.0.2.1]:22": false, "2001:db8::zz": false, "fe80::1%eth0": false, "a:b": false, "[:::]": false, "*": false, "x\n": false, strings.Repeat("a", 254): false,
	} {
		if got := hostAddress(s); got != want {
			t.Errorf("hostAddress(%q) = %v, want %v", s, got, want)
		}
	}
}

// TestNamespaces: of a docker network only a name reaches the command line.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	r := newRules().namespace
	for s, want := range map[string]bool{
		"host": true, "none": true, "private": true, "my_net-1.2": true, "container:atom_demo": true,
		"host;id": false, "-x": false, "a b": false, "container:": false, "container:a:b": false, "$(id)": false,
	} {
		if got := r.ok(s); got != want {
			t.Errorf("namespace %q: %v, want %v", s, got, want)
		}
	}
}

// TestVolumes: what docker would refuse after the image was pulled is found before.
func TestVolumes(t *testing.T) {
	t.Parallel()
	r := newRules().volume
	for s, want := range map[string]bool{
		"/a:/b": true, "/a b:/c d:rw": true, "/o'b:/x": true, "cache:/root/.cache": true, "./x:/y": true, "/a:/b:ro,z": true, "/a:/b:rslave": true,
		"/a": false, "/a:b": false, "/a:/b:xx": false, "/a:/b:": false, "/a:/b:ro,": false, "/a:/b:/c": false, "/a:/b:ro:z": false, ":/b": false, "$(id):/x": false, "-v:/x": false, "a/b:/x": false, "~/a:/b": false, "/a:/b\n": false,
	} {
		if got := r.ok(s); got != want {
			t.Errorf("volume %q: %v, want %v", s, got, want)
		}
	}
}

// TestLatencyNames: a statistic that a client may report is no slip of another.
func TestLatencyNames(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"p90_itl_ms": true, "p99.9_ttft_ms": true, "p50_ttft_ms": true, "std_e2el_ms": true, "max_tpot_ms": true,
		"p95_tpot_s": false, "p95_ttft": false, "mean_tft_ms": false, "p100.0.1_itl_ms": false, "output_throughput": false,
	} {
		if got := latencyName.MatchString(s); got != want {
			t.Errorf("%s: %v, want %v", s, got, want)
		}
	}
}
