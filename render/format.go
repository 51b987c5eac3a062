package render

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"cvs/collect/metric"
)

// visible makes text from outside safe to stand beside a verdict: control
// characters, and those that reorder or hide what follows, become escapes. Only
// spaces may stay; line breaks do where lines is set.
func visible(s string, lines bool) string {
	ok := func(r rune) bool {
		switch {
		case r == '\n' || r == '\t':
			return lines
		case r == unicode.ReplacementChar:
			return true
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return false
		}
		return true
	}
	if strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0 {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case ok(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// text is visible for values of one line.
func text(s string) string { return visible(s, false) }

// firstLine is the first line of a text, and says where there are more.
func firstLine(s string) string {
	s = strings.TrimSpace(s)
	first, _, more := strings.Cut(s, "\n")
	if first = text(strings.TrimSpace(first)); more {
		first += " …"
	}
	return first
}

// exact is the shortest text that reads back as the same number.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// rounded shows v with the digits of its metric, or with four significant ones
// where that would show less, and thousands separators.
func rounded(name string, v float64) string {
	return grouped(v, digitsFor(name, v))
}

// vocabulary is the table of metrics by name. A deck asks for it a hundred
// thousand times, and the table itself is put together anew for each question.
var vocabulary = sync.OnceValue(func() map[string]metric.Def {
	byName := map[string]metric.Def{}
	for _, d := range metric.Table() {
		byName[d.Name] = d
	}
	return byName
})

func lookup(name string) (metric.Def, bool) {
	d, ok := vocabulary()[name]
	return d, ok
}

// digitsFor is how many decimals v needs: those of its metric; none where it is
// zero or a whole count; more where fewer would show a small value, or one just
// beside a whole number, as something it is not.
func digitsFor(name string, v float64) int {
	d, known := lookup(name)
	whole := v == math.Trunc(v) && math.Abs(v) < 1e15
	if v == 0 || !finite(v) || whole && (!known || d.Digits == 0 || d.Digits >= 4) {
		return 0
	}
	// Five significant digits are more than a benchmark repeats; three must stay.
	size := int(math.Floor(math.Log10(math.Abs(v))))
	if known && d.Digits < 4 && size >= 0 {
		return max(min(d.Digits, 4-size), 0)
	}
	digits, need := d.Digits, 2-size
	if size >= 0 {
		need = 4 - size
	}
	if need > digits {
		digits = min(need, 12)
		for digits > d.Digits && strings.HasSuffix(strconv.FormatFloat(v, 'f', digits, 64), "0") {
			digits--
		}
	}
	for !whole && digits < 12 && strings.HasSuffix(strconv.FormatFloat(v, 'f', digits, 64), "."+strings.Repeat("0", digits)) {
		digits++
	}
	return digits
}

var longNumber = regexp.MustCompile(`\b\d+\.\d{3,}\b`)

// shorter cuts the numbers in a sentence to five significant digits, which is
// more than a benchmark repeats.
func shorter(s string) string {
	return longNumber.ReplaceAllStringFunc(s, func(n string) string {
		v, err := strconv.ParseFloat(n, 64)
		if err != nil || len(n) <= 8 {
			return n
		}
		if v >= 99999.5 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return strconv.FormatFloat(v, 'g', 5, 64)
	})
}

// grouped formats v with that many decimals, commas between thousands and a
// real minus sign. NaN and infinities stay words.
func grouped(v float64, digits int) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "−Infinity"
	case math.Abs(v) >= 1e15:
		return strings.Replace(strconv.FormatFloat(v, 'e', 4, 64), "-", "−", 1)
	}
	s := strconv.FormatFloat(math.Abs(v), 'f', max(digits, 0), 64)
	whole, frac, _ := strings.Cut(s, ".")
	var b strings.Builder
	if v < 0 && strings.Trim(s, "0.") != "" {
		b.WriteString("−")
	}
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	if frac != "" {
		b.WriteString("." + frac)
	}
	return b.String()
}

// bound shows a limit as people write it: no more decimals than it has.
func bound(v float64) string {
	_, frac, _ := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
	return grouped(v, min(len(frac), 9))
}

// besides shows v with as many digits as it takes to tell it from a limit, so
// that a gate that failed by little does not print as equal.
func besides(name string, v, limit float64) string {
	s, other := rounded(name, v), bound(limit)
	same := func() bool {
		return s == other || strings.Contains(s, ".") && strings.TrimRight(strings.TrimRight(s, "0"), ".") == other
	}
	for digits := digitsFor(name, v); v != limit && same() && digits < 15; digits++ {
		s = grouped(v, digits+1)
	}
	return s
}

// percent shows a signed per cent figure with three significant digits.
func percent(v float64) string {
	s := grouped(v, percentDigits(v)) + " %"
	if v > 0 {
		s = "+" + s
	}
	return s
}

func percentDigits(v float64) int {
	switch a := math.Abs(v); {
	case a >= 100:
		return 0
	case a < 1 && a > 0:
		return min(1-int(math.Floor(math.Log10(a))), 6)
	}
	return 1
}

// wanted words a spec: "≥ 2,500 tok/s".
func wanted(kind, limit, tolerance, reference, unit string) string {
	with := func(s string) string { return strings.TrimSpace(s + " " + unit) }
	switch kind {
	case "min", "min_tok_s":
		return with("≥ " + limit)
	case "max", "max_ms":
		return with("≤ " + limit)
	case "within":
		return with(limit + " ± " + tolerance + " %")
	case "min_ratio":
		return "≥ " + limit + " × " + reference
	case "info":
		return "recorded"
	}
	return text(kind)
}

// span words a duration.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "—"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// instant words a time; zero is a dash.
func instant(t time.Time) string {
	if t.IsZero() {
		return "—"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// plural is "1 cell" or "3 cells".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(float64(n), 0) + " " + one + "s"
}

// anchor makes an id out of text: letters, digits and dashes, unique within the
// page through the set taken.
func anchor(prefix, s string, taken map[string]bool) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
			dash = false
		} else if !dash && b.Len() > 0 {
			b.WriteByte('-')
			dash = true
		}
		if b.Len() >= 80 {
			break
		}
	}
	base := prefix + "-" + strings.Trim(b.String(), "-")
	id := base
	for i := 2; taken[id]; i++ {
		id = base + "-" + strconv.Itoa(i)
	}
	taken[id] = true
	return id
}
