package render

import (
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"cvs/templates"
)

// Text reaches 4.5:1 and what is drawn 3:1 (WCAG 2.1 AA, 1.4.3 and 1.4.11), in
// light, in dark and on paper.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := fs.ReadFile(templates.Deck(), "deck.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(string(css), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d colour sets, want light, dark and print", len(blocks))
	}
	for i, name := range []string{"light", "dark", "print"} {
		colour := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]+);`).FindAllStringSubmatch(blocks[i][1], -1) {
			colour[m[1]] = m[2]
		}
		check := func(front, back string, least float64) {
			if colour[front] == "" || colour[back] == "" {
				t.Errorf("%s: no colour %s or %s", name, front, back)
				return
			}
			if got := contrast(t, colour[front], colour[back]); got < least {
				t.Errorf("%s: %s on %s is %.2f:1, want %.1f:1", name, front, back, got, least)
			}
		}
		for _, back := range []string{"bg", "panel", "sunk"} {
			for _, front := range []string{"text", "soft", "mute", "link", "pass", "fail", "warn", "rec", "none", "sim"} {
				check(front, back, 4.5)
			}
		}
		for _, chip := range []string{"pass", "fail", "warn", "rec", "none", "sim"} {
			check(chip, chip+"-bg", 4.5)
		}
		for _, drawn := range []string{"series", "gate", "bar-fail", "bar-pass"} {
			check(drawn, "panel", 3)
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	la, lb := luminance(t, a), luminance(t, b)
	return (math.Max(la, lb) + 0.05) / (math.Min(la, lb) + 0.05)
}

// luminance is the relative luminance of WCAG 2.1.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	hex = strings.TrimPrefix(hex, "#")
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	part := func(v uint64) float64 {
		c := float64(v) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(n>>16&255) + 0.7152*part(n>>8&255) + 0.0722*part(n&255)
}
