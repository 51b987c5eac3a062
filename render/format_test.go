package render

import (
	"math"
	"testing"
	"time"
)

func TestShorter(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"output_throughput: 1323.2893870349644 tok/s < 1810 tok/s": "output_throughput: 1323.3 tok/s < 1810 tok/s",
		"1234567.891234 of 12.5":                                   "1234568 of 12.5",
		"host 10.0.0.12, rocm7.0.1, 0.98765432109":                 "host 10.0.0.12, rocm7.0.1, 0.98765",
		"99999.99999999":                                           "100000",
	} {
		if got := shorter(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestRounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		metric string
		v      float64
		want   string
	}{
		{"output_throughput", 2667.7382511764113, "2,667.7"},
		{"output_throughput", 123456.78, "123,457"},
		{"mean_e2el_ms", 43127.73, "43,128"},
		{"output_throughput", 0, "0"},
		{"output_throughput", 0.001234, "0.00123"},
		{"mean_ttft_ms", 925.2534993084737, "925.25"},
		{"mean_ttft_ms", 5, "5.00"},
		{"success_rate", 1, "1"},
		{"success_rate", 0.9996, "0.9996"},
		{"success_rate", 0.99999961, "0.9999996"},
		{"failed", 0, "0"},
		{"failed", 12345, "12,345"},
		{"unknown", 0.25, "0.25"},
		{"unknown", 1e21, "1.0000e+21"},
		{"unknown", -1234.5, "−1,234.5"},
		{"unknown", math.NaN(), "NaN"},
		{"unknown", math.Inf(-1), "−Infinity"},
	} {
		if got := rounded(tc.metric, tc.v); got != tc.want {
			t.Errorf("rounded(%s, %v) = %q, want %q", tc.metric, tc.v, got, tc.want)
		}
	}
}

// A gate that failed by little must not print as equal.
func TestBesides(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		v, limit float64
		want     string
	}{
		{2499.96, 2500, "2,499.96"},
		{2499.999996, 2500, "2,499.999996"},
		{2500, 2500, "2,500.0"},
		{2400, 2500, "2,400.0"},
	} {
		if got := besides("output_throughput", tc.v, tc.limit); got != tc.want {
			t.Errorf("besides(%v, %v) = %q, want %q", tc.v, tc.limit, got, tc.want)
		}
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0.0 %", 5.04: "+5.0 %", -3.52: "−3.5 %", 0.0123: "+0.012 %", -0.5: "−0.50 %", -250: "−250 %"} {
		if got := percent(v); got != want {
			t.Errorf("percent(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ünïcode 模型":      "plain ünïcode 模型",
		"a\u202eSSAP\u202c":     `a\u202eSSAP\u202c`,
		"a\x1b[31mred":          `a\x1b[31mred`,
		"a\nb\tc\x00":           `a\nb\tc\x00`,
		"zero\u200bwidth\ufeff": `zero\u200bwidth\ufeff`,
		"line\u2028end":         `line\u2028end`,
		"broken \xff utf8":      "broken \ufffd utf8",
		"broken \xff and \x07":  `broken ` + "\ufffd" + ` and \x07`,
	} {
		if got := text(in); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := visible("a\nb\u202e", true); got != "a\nb\\u202e" {
		t.Errorf("with lines: %q", got)
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{12 * time.Millisecond: "12 ms", 90 * time.Second: "90.0 s", 150 * time.Second: "2 min 30 s", 3*time.Hour + 5*time.Minute: "3 h 5 min", -1: "—"} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestAnchor(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, tc := range []struct{ in, want string }{
		{"w1_1k_1k-conc128", "cell-w1-1k-1k-conc128"},
		{"w1 1k/1k conc128", "cell-w1-1k-1k-conc128-2"},
		{`"><script>`, "cell-script"},
		{"模型", "cell-"},
		{"模型 2", "cell-2"},
	} {
		if got := anchor("cell", tc.in, taken); got != tc.want {
			t.Errorf("anchor(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}
