package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/strictjson"
)

func (dc *decoder) textValue(c node, f *field) {
	s := c.v.Text
	switch {
	case c.v.Kind == strictjson.String:
	case f.kind == kDecimal && c.v.Kind == strictjson.Number:
	default:
		want := "a text"
		if f.rule != nil {
			want = f.rule.want
		}
		dc.errorf(c, "", "expected %s, found %s", want, describe(c.v, f.secret))
		return
	}
	if !dc.settled(c, s, f.free) {
		return
	}
	if len(f.enum) > 0 && !slices.Contains(f.enum, s) {
		hint := didYouMean(s, f.enum)
		dc.errorf(c, hint, "expected %s, found %s", oneOf(f.enum), describe(c.v, f.secret))
		return
	}
	if f.rule != nil && (s != "" || f.need) && (s == "" && f.need || !f.rule.ok(s)) {
		dc.errorf(c, "", "expected %s, found %s", f.rule.want, describe(c.v, f.secret))
		return
	}
	put(f.to, s)
}

func oneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}

// integer accepts a JSON integer or a canonical decimal string: cell keys are
// built from these, and 08 and 8 must not make two keys.
func (dc *decoder) integer(c node, lo, hi int) (int, bool) {
	if hi == 0 {
		hi = maxCount
	}
	want := fmt.Sprintf("an integer from %d to %d", lo, hi)
	if hi == maxCount {
		want = fmt.Sprintf("an integer of at least %d", lo)
	}
	if c.v.Kind == strictjson.String || c.v.Kind == strictjson.Number {
		if n, err := strconv.Atoi(c.v.Text); err == nil && strconv.Itoa(n) == c.v.Text {
			if n >= lo && n <= hi {
				return n, true
			}
		} else if t := strings.TrimSpace(c.v.Text); t != c.v.Text {
			want += " without blanks around it"
		}
		if n, err := strconv.Atoi(c.v.Text); err != nil && len(c.v.Text) > 9 || n > hi {
			want = fmt.Sprintf("an integer from %d to %d", lo, hi)
		}
	}
	dc.errorf(c, "", "expected %s, found %s", want, describe(c.v, false))
	return 0, false
}

func (dc *decoder) boolean(c node, words bool) (value, ok bool) {
	if c.v.Kind == strictjson.Bool {
		return c.v.Bool, true
	}
	if words && (c.v.Kind == strictjson.String || c.v.Kind == strictjson.Number) {
		switch strings.ToLower(strings.TrimSpace(c.v.Text)) {
		case "true", "yes", "1":
			return true, true
		case "false", "no", "0", "":
			return false, true
		}
	}
	hint := ""
	if c.v.Kind == strictjson.String && (strings.EqualFold(c.v.Text, "true") || strings.EqualFold(c.v.Text, "false")) {
		hint = "write it without quotes"
	}
	dc.errorf(c, hint, "expected true or false, found %s", describe(c.v, false))
	return false, false
}

func (dc *decoder) texts(c node, r *rule, free bool) ([]string, bool) {
	if c.v.Kind != strictjson.Array {
		hint := ""
		if c.v.Kind == strictjson.String {
			hint = "put it in brackets, one text for each word"
		}
		dc.errorf(c, hint, "expected a list of texts, found %s", describe(c.v, false))
		return nil, false
	}
	list, ok := make([]string, 0, len(c.v.Items)), true
	for i, v := range c.v.Items {
		e := c.item(i, v)
		switch {
		case v.Kind != strictjson.String:
			dc.errorf(e, "put it in quotes", "expected a text, found %s", describe(v, false))
			ok = false
		case !dc.settled(e, v.Text, free):
			ok = false
		case r != nil && !r.ok(v.Text):
			dc.errorf(e, "", "expected %s, found %s", r.want, describe(v, false))
			ok = false
		default:
			list = append(list, v.Text)
		}
	}
	if !ok {
		dc.bad[c.canon] = true
	}
	return list, ok
}

// put stores a decoded value through the pointer of a field.
func put(to, v any) {
	switch to := to.(type) {
	case nil:
	case *string:
		*to = v.(string)
	case *Driver:
		*to = Driver(v.(string))
	case *Lifetime:
		*to = Lifetime(v.(string))
	case *int:
		*to = v.(int)
	case **int:
		n := v.(int)
		*to = &n
	case **float64:
		x := v.(float64)
		*to = &x
	case *bool:
		*to = v.(bool)
	case **bool:
		b := v.(bool)
		*to = &b
	case *[]string:
		*to = v.([]string)
	case *[]EnvVar:
		*to = v.([]EnvVar)
	default:
		panic(fmt.Sprintf("plan: the table stores into a %T", to))
	}
}
