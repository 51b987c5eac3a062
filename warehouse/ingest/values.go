package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"

	"cvs/collect/metric"
	"cvs/collect/strictjson"
)

// A builder collects the values of one sample.
type builder struct {
	data     []byte
	sample   Sample
	findings []Finding
	asText   []string // metrics whose number was written as text
}

// members adds every member of v under the pointer parent, in file order.
func (b *builder) members(v *strictjson.Value, parent string) {
	for _, m := range v.Members {
		b.sample.Values = append(b.sample.Values, b.value(m.Name, parent, m.Value))
	}
}

func (b *builder) value(key, parent string, v *strictjson.Value) Value {
	x := Value{
		Key: clean(key), Parent: parent, Pointer: parent + "/" + strictjson.EscapePointer(clean(key)),
		Kind: v.Kind.String(), Quality: NonNumeric, Bytes: v.End - v.Offset,
	}
	if raw := b.data[v.Offset:v.End]; len(raw) <= MaxRaw {
		x.Raw = clean(string(raw))
	} else {
		sum := sha256.Sum256(raw)
		x.SHA256 = hex.EncodeToString(sum[:])
	}
	switch v.Kind {
	case strictjson.Null:
		x.Quality = Null
	case strictjson.Bool:
		x.Text = strconv.FormatBool(v.Bool)
	case strictjson.Number:
		x.Text = v.Text
		x.Number, x.Quality = number(v)
	case strictjson.String:
		if len(v.Text) <= MaxRaw {
			x.Text = clean(v.Text)
		}
		if strictjson.IsNumber(v.Text) {
			x.Number, x.Quality = number(&strictjson.Value{Kind: strictjson.Number, Text: v.Text})
		}
	}
	return x
}

// number converts a literal. Negative zero is zero: it is a rounding residue in
// these files and would print as "-0".
func number(v *strictjson.Value) (float64, Quality) {
	f, err := v.Float()
	switch {
	case err != nil:
		return 0, OutOfRange
	case math.IsNaN(f) || math.IsInf(f, 0):
		return f, NonFinite
	case f == 0:
		return 0, OK
	}
	return f, OK
}

// name marks the values of parent that mean a metric of our vocabulary. Of
// several keys of one metric the best that is not null is taken; of one key
// written twice, the last.
func (b *builder) name(parent string, defs []metric.Def) {
	at := make(map[string]int, len(b.sample.Values))
	for i, v := range b.sample.Values {
		if v.Parent == parent {
			at[v.Key] = i
		}
	}
	for _, d := range defs {
		best := -1
		for _, k := range d.Keys {
			i, ok := at[k]
			if !ok {
				continue
			}
			if best < 0 || b.sample.Values[best].Quality == Null && b.sample.Values[i].Quality != Null {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		v := &b.sample.Values[best]
		v.Metric = d.Name
		if v.Kind == "string" && v.Quality == OK {
			b.asText = append(b.asText, v.Key)
		}
	}
}

// scale marks values of parent that mean a metric in another unit: names maps
// keys to metrics, and a number is multiplied by factor. A metric that is marked
// already, under a key of our own unit, stays.
func (b *builder) scale(parent string, names map[string]string, factor float64) {
	have := make(map[string]bool)
	for _, v := range b.sample.Values {
		have[v.Metric] = true
	}
	for i := range b.sample.Values {
		v := &b.sample.Values[i]
		name, ok := names[v.Key]
		if !ok || v.Parent != parent || have[name] || !known(name) {
			continue
		}
		v.Metric = name
		if v.Quality == OK {
			v.Number *= factor
		}
	}
}

func known(name string) bool {
	_, ok := metric.Lookup(name)
	return ok
}

// text, integer and float read a member for the identity; what has another type
// is silence.
func text(v *strictjson.Value) string {
	if v == nil || v.Kind != strictjson.String {
		return ""
	}
	return clean(v.Text)
}

func integer(v *strictjson.Value) *int64 {
	f := float(v)
	if f == nil || *f != math.Trunc(*f) || math.Abs(*f) > 1<<53 {
		return nil
	}
	n := int64(*f)
	return &n
}

func float(v *strictjson.Value) *float64 {
	if v == nil {
		return nil
	}
	if v.Kind == strictjson.String && strictjson.IsNumber(v.Text) {
		v = &strictjson.Value{Kind: strictjson.Number, Text: v.Text}
	}
	if v.Kind != strictjson.Number {
		return nil
	}
	f, q := number(v)
	if q != OK {
		return nil
	}
	return &f
}

func has(v *strictjson.Value, keys ...string) bool {
	for _, k := range keys {
		if v.Get(k) == nil {
			return false
		}
	}
	return true
}

func hasAny(v *strictjson.Value, keys ...string) bool {
	for _, k := range keys {
		if v.Get(k) != nil {
			return true
		}
	}
	return false
}
