package lab

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A member is one key of a JSON object whose order matters.
type member struct {
	key   string
	value any
}

// An object is an ordered JSON object.
type object []member

// writePython prints v as Python's json.dump does with its defaults: ", " and
// ": " between items, floats by their shortest repr with a point, everything
// beyond ASCII escaped, NaN and Infinity bare. Readers must cope with exactly
// this, so it is not left to encoding/json.
func writePython(w *bufio.Writer, v any) error {
	switch v := v.(type) {
	case nil:
		io.WriteString(w, "null")
	case bool:
		io.WriteString(w, strconv.FormatBool(v))
	case int:
		io.WriteString(w, strconv.Itoa(v))
	case float64:
		io.WriteString(w, pythonFloat(v))
	case string:
		pythonString(w, v)
	case object:
		w.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				io.WriteString(w, ", ")
			}
			pythonString(w, m.key)
			io.WriteString(w, ": ")
			if err := writePython(w, m.value); err != nil {
				return err
			}
		}
		w.WriteByte('}')
	case []int:
		return writeList(w, v)
	case []float64:
		return writeList(w, v)
	case [][]float64:
		return writeList(w, v)
	case []string:
		return writeList(w, v)
	case []object:
		return writeList(w, v)
	default:
		return fmt.Errorf("cannot write %T as JSON", v)
	}
	return nil // the buffered writer keeps the first error for Flush
}

// pythonJSON is writePython into a text.
func pythonJSON(v any) (string, error) {
	var b strings.Builder
	w := bufio.NewWriter(&b)
	if err := writePython(w, v); err != nil {
		return "", err
	}
	err := w.Flush()
	return b.String(), err
}

func writeList[T any](w *bufio.Writer, list []T) error {
	w.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			io.WriteString(w, ", ")
		}
		if err := writePython(w, e); err != nil {
			return err
		}
	}
	w.WriteByte(']')
	return nil
}

// pythonFloat is repr(float): the exponent form only below 1e-4 and from 1e16.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func pythonString(w *bufio.Writer, s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.WriteByte('\\')
			w.WriteRune(r)
		case r == '\n':
			io.WriteString(w, `\n`)
		case r == '\r':
			io.WriteString(w, `\r`)
		case r == '\t':
			io.WriteString(w, `\t`)
		case r < 0x20 || r > 0x7e && r < 0x10000:
			fmt.Fprintf(w, `\u%04x`, r)
		case r >= 0x10000:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(w, `\u%04x\u%04x`, a, b)
		default:
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
}
