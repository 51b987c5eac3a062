package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"sync"
	"unsafe"

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
	b.sample.Values = slices.Grow(b.sample.Values, len(v.Members))
	for _, m := range v.Members {
		b.sample.Values = append(b.sample.Values, b.value(m.Name, parent, m.Value))
	}
}

func (b *builder) value(key, parent string, v *strictjson.Value) Value {
	x := Value{
		Key: clean(key), Parent: parent,
		Kind: v.Kind.String(), Quality: NonNumeric, Bytes: v.End - v.Offset,
	}
	raw := b.data[v.Offset:v.End]
	switch {
	case v.Kind == strictjson.Number:
		x.Raw = v.Text
	case len(raw) <= MaxRaw:
		x.Raw = clean(b.text(raw))
	}
	if len(raw) > MaxRaw {
		x.Raw = ""
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

// text is a part of the file as written.
func (b *builder) text(raw []byte) string {
	if len(b.data) <= maxShared {
		return unsafe.String(unsafe.SliceData(raw), len(raw)) // see Parse
	}
	return string(raw)
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
// written twice, the last. Without defs it is the whole vocabulary.
func (b *builder) name(parent string, defs ...metric.Def) {
	keys := vocabulary
	if len(defs) > 0 {
		keys = func() *keyIndex { return indexKeys(defs) }
	}
	x := keys()
	at := make([]int, len(x.ids)) // place of the value of each key, plus one
	for i := range b.sample.Values {
		if v := &b.sample.Values[i]; v.Parent == parent {
			if id, ok := x.ids[v.Key]; ok {
				at[id] = i + 1
			}
		}
	}
	for _, d := range x.defs {
		best := -1
		for _, id := range d.keys {
			i := at[id] - 1
			if i < 0 {
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
		v.Metric = d.name
		if v.Kind == "string" && v.Quality == OK {
			b.asText = append(b.asText, v.Key)
		}
	}
}

// A keyIndex finds the metrics that a key may mean.
type keyIndex struct {
	ids  map[string]int // of every key, from 0
	defs []indexedDef
}

type indexedDef struct {
	name string
	keys []int // ids, best first
}

func indexKeys(defs []metric.Def) *keyIndex {
	x := &keyIndex{ids: make(map[string]int)}
	for _, d := range defs {
		if len(d.Keys) == 0 {
			continue
		}
		n := indexedDef{name: d.Name}
		for _, k := range d.Keys {
			if _, ok := x.ids[k]; !ok {
				x.ids[k] = len(x.ids)
			}
			n.keys = append(n.keys, x.ids[k])
		}
		x.defs = append(x.defs, n)
	}
	return x
}

// vocabulary is the index of the whole metric table, made once: it is asked for
// every file.
var vocabulary = sync.OnceValue(func() *keyIndex { return indexKeys(metric.Table()) })

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

// firstInteger is the first of the keys that holds one.
func firstInteger(v *strictjson.Value, keys ...string) *int64 {
	for _, k := range keys {
		if n := integer(v.Get(k)); n != nil {
			return n
		}
	}
	return nil
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
