package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"
)

// NewRunID returns an id that sorts by time and is unique without any
// coordination: UTC time to the millisecond and 32 random bits, for example
// 20260831T020000.000Z-9f86d081. It panics if rnd cannot deliver, which
// crypto/rand.Reader never does: an id that is not unique could name another
// run's directory.
func NewRunID(now time.Time, rnd io.Reader) string {
	var b [4]byte
	if _, err := io.ReadFull(rnd, b[:]); err != nil {
		panic("artifact: no randomness for a run id: " + err.Error())
	}
	return now.UTC().Format("20060102T150405.000Z") + "-" + hex.EncodeToString(b[:])
}

// maxName bounds the names SafeName gives, in bytes. The limit of file systems
// is 255; the temporary file that a name is first written to is longer by a dot
// and up to twenty digits, and a cell's folder by its number and concurrency.
const maxName = 200

// SafeName turns any text into one file name of at most 200 bytes. Letters,
// digits and "._-+=" stay, every other byte becomes %XX, and so do a leading
// dot (hidden names are temporary files) and a trailing one. Different texts
// get different names: the encoding can be undone, and a name that had to be
// cut ends in "%-" and a digest of the whole, which the encoding never writes.
func SafeName(s string) string {
	if s == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		edge := i == 0 || i == len(s)-1
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("_-+=", c) >= 0, c == '.' && !edge:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(s))
	tail := "%-" + hex.EncodeToString(sum[:16])
	return name[:maxName-len(tail)] + tail
}

// CellFolder is the name of a cell's folder below cells/. Ordinal is the cell's
// place in expected.json, from 1; it alone makes the name unique, the rest is
// for people. Combination names are untrusted and pass through SafeName.
func CellFolder(ordinal int, cell ExpectedCell) string {
	return fmt.Sprintf("%03d-%s-conc%d", ordinal, SafeName(cell.Combo), cell.Concurrency)
}

// digest returns the SHA-256 of data in hex.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
