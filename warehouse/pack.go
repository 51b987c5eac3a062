package warehouse

import (
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cvs/warehouse/ingest"
)

const (
	// separator stands between the texts of a sample; JSON cannot hold it.
	separator = "\x1e"
	// maxPacked is the longest text packed with others, in bytes: reading one
	// value reads them all.
	maxPacked = 4096
)

// pack adds what a sample holds: its shape, and what does not fit as rows of its
// own. It returns the sample's columns shape, numbers and raws.
func (b *batch) pack(no int32, s *sampleRow) (id, numbers, raws driver.Value) {
	var text strings.Builder
	n := 0
	for i := range s.Values {
		n += min(len(s.Values[i].Raw), maxPacked) + len(separator)
	}
	text.Grow(n)
	keys := make([]byte, 0, 4096)
	packed := make([]int, 0, 128)
	list := make([]any, 0, len(s.Values))
	for i := range s.Values {
		v := &s.Values[i]
		if !packable(v) {
			b.add("raw_row", rawRow(b.meta.RunID, no, i, s)...)
			continue
		}
		if len(packed) > 0 {
			text.WriteString(separator)
		}
		packed = append(packed, i)
		text.WriteString(v.Raw)
		list = append(list, numberOf(v))
		keys = strconv.AppendInt(keys, int64(i), 10)
		for _, part := range [...]string{v.Parent, v.Key, v.Metric, string(v.Quality), v.Kind} {
			keys = append(append(keys, 0), part...)
		}
		if h := higher(v, s); h != nil {
			keys = fmt.Append(keys, h)
		}
		keys = append(keys, '\n')
	}
	if len(packed) == 0 {
		return nil, nil, nil
	}
	name := b.book.id(keys)
	if name == "" {
		sum := sha256.Sum256(keys)
		name = hex.EncodeToString(sum[:16])
		b.book.enter(string(keys), name, func() []row { return shape{s, slices.Clone(packed)}.rows(name) })
	}
	if b.book == nil {
		b.shapes[name] = shape{s, slices.Clone(packed)}
	} else {
		b.entered = append(b.entered, name)
	}
	return name, list, text.String()
}

// A shapeBook has the shapes that came up in a loading, so that a sample need not
// be kept for its keys, nor the hash of them computed again. A nil book is empty.
type shapeBook struct {
	mu   sync.RWMutex
	ids  map[string]string // by keys
	rows map[string][]row  // by id, until they are stored for good
}

// maxEntered is how many shapes a book knows by their keys, which are kilobytes.
const maxEntered = 500

func newShapeBook() *shapeBook {
	return &shapeBook{ids: make(map[string]string), rows: make(map[string][]row)}
}

// id is that of the shape of these keys, "" if it did not come up yet.
func (k *shapeBook) id(keys []byte) string {
	if k == nil {
		return ""
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.ids[string(keys)]
}

// enter adds a shape that may be new.
func (k *shapeBook) enter(keys, id string, rows func() []row) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.ids) >= maxEntered {
		clear(k.ids) // those that come up again are entered again
	}
	k.ids[keys] = id
	if k.rows[id] == nil {
		k.rows[id] = rows()
	}
}

// of are the rows of a shape.
func (k *shapeBook) of(id string) []row {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.rows[id]
}

// drop forgets the rows of shapes that are stored. They may come back with the
// next sample of the shape; the loading knows that they are stored.
func (k *shapeBook) drop(ids map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range ids {
		delete(k.rows, id)
	}
}

// packable says whether view raw_value can restore a value from its text.
func packable(v *ingest.Value) bool {
	if v.SHA256 != "" || len(v.Raw) > maxPacked || strings.Contains(v.Raw, separator) {
		return false
	}
	switch v.Kind {
	case "string":
		return len(v.Raw) >= 2 && v.Raw[1:len(v.Raw)-1] == v.Text
	case "number", "boolean":
		return v.Raw == v.Text
	}
	return true
}

// A shape is the keys of a sample, which every sample of its client shares.
type shape struct {
	sample *sampleRow
	packed []int // places in Values
}

// rows are those of table shape_key.
func (x shape) rows(id string) []row {
	rows := make([]row, 0, len(x.packed))
	s := x.sample
	for n, i := range x.packed {
		v := &s.Values[i]
		rows = append(rows, row{id, int64(n + 1), int32(i + 1), v.Parent, v.Key, v.Pointer(), str(v.Metric), string(v.Quality), v.Kind, higher(v, s)})
	}
	return rows
}

func rawRow(runID string, no int32, i int, s *sampleRow) row {
	v := &s.Values[i]
	var raw, text any
	if v.SHA256 == "" {
		raw = v.Raw
	}
	if v.Kind == "string" || v.Kind == "number" || v.Kind == "boolean" {
		text = v.Text
	}
	return row{runID, no, int32(i + 1), v.Parent, v.Key, v.Pointer(), str(v.Metric), numberOf(v), string(v.Quality), text, v.Kind, raw, int64(v.Bytes), str(v.SHA256), higher(v, s)}
}

func numberOf(v *ingest.Value) any {
	if v.Quality == ingest.OK || v.Quality == ingest.NonFinite {
		return v.Number
	}
	return nil
}

// higher says which way is better where the file itself does.
func higher(v *ingest.Value, s *sampleRow) any {
	if h, ok := s.Identity.HigherIsBetter[v.Metric]; ok && v.Metric != "" {
		return h
	}
	return nil
}
