package remote

import (
	"bytes"
	"testing"
)

// The mark is found however the stream is cut into pieces.
func TestOutputPieces(t *testing.T) {
	t.Parallel()
	mark := newMark()
	text := "Welcome!\n" + pidMark + "7 not yet " + pidMark + "4194304" + mark + "out\nput"
	for size := 1; size <= len(text); size++ {
		var got bytes.Buffer
		o := &output{w: &got, mark: mark, failed: make(chan error, 1)}
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			if _, err := o.Write([]byte(rest[:min(size, len(rest))])); err != nil {
				t.Fatal(err)
			}
		}
		if got.String() != "out\nput" || o.processID() != "4194304" || !o.started() {
			t.Errorf("in pieces of %d: %q, process %q", size, got.String(), o.processID())
		}
	}
}

func TestTailBuffer(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("0123456789"), 50)
	for size := 1; size < 60; size++ {
		b := &tailBuffer{limit: 16}
		for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, _ = b.Write(rest[:min(size, len(rest))])
		}
		if string(b.bytes()) != string(text[len(text)-16:]) || !b.cut {
			t.Errorf("in pieces of %d: %q", size, b.bytes())
		}
	}
}
