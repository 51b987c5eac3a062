package strictjson

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// numbers passes over items of a list that are numbers without sign and exponent,
// each with the comma after it and one space or none, and returns how many. What
// it stops at is for those who can say what is wrong with it.
func (p *parser) numbers() int {
	data, i, n := p.data, p.i, 0
	for {
		p.i = i
		start := i
		i = digits(data, i)
		if i == start || data[start] == '0' && i > start+1 || i == len(data) {
			return n
		}
		if data[i] == '.' {
			point := i
			if i = digits(data, i+1); i == point+1 {
				return n
			}
		}
		if i+1 >= len(data) || data[i] != ',' {
			return n
		}
		if i++; data[i] == ' ' {
			i++
		}
		n++
	}
}

// digits is the offset of the first byte from i on that is none.
func digits(data []byte, i int) int {
	const upper, three, six = 0xf0f0f0f0f0f0f0f0, 0x3030303030303030, 0x0606060606060606
	for ; i+8 <= len(data); i += 8 {
		// a byte is a digit if its upper half is 3, also with 6 added to it
		x := binary.LittleEndian.Uint64(data[i:])
		if odd := ((x & upper) ^ three) | (((x + six) & upper) ^ three); odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	return i
}

// plain passes over a string of ASCII without escapes, which nobody looks at, and
// reports whether it was one.
func (p *parser) plain() bool {
	for i := p.i + 1; i < len(p.data); i++ {
		switch c := p.data[i]; {
		case c == '"':
			p.i = i + 1
			return true
		case c == '\\' || c < 0x20 || c >= utf8.RuneSelf:
			return false
		}
	}
	return false
}
