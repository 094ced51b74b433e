package conv

import (
	"math"
	"unsafe"
)

// limits are the bounds of results for code without branches, which random signs would have the processor guess wrongly: numbers below or above a bound
// are those whose bits lie in an interval, as long as zero lies between the bounds.
type limits struct {
	lo, hi       float32
	below, above interval
	branches     bool // zero does not lie between them
}

// interval is the n floats whose bits follow those of a first one; all of them become one float.
type interval struct{ first, n, becomes uint32 }

const (
	signBit  = 1 << 31
	infinity = 0x7F800000
)

func limitsOf(c *tileCall) (l limits) {
	l.lo, l.hi = c.lo, c.hi
	l.branches = c.flags&flagMax != 0 && c.lo > 0 || c.flags&flagMin != 0 && c.hi < 0
	if bits := math.Float32bits(c.lo); c.flags&flagMax != 0 {
		l.below = interval{bits | signBit + 1, infinity - bits&^signBit, bits}
	}
	if bits := math.Float32bits(c.hi); c.flags&flagMin != 0 {
		l.above = interval{bits&^signBit + 1, infinity - bits&^signBit, bits}
	}
	return l
}

// bound returns what becomes of a float.
func (i interval) bound(bits uint32) uint32 {
	if bits-i.first < i.n {
		return i.becomes
	}
	return bits
}

// apply writes sums bounded to dst, which may be they themselves; NaN stays.
func (l *limits) apply(dst, sums *pixelRow) {
	if l.branches {
		for i, v := range sums {
			if v < l.lo {
				v = l.lo
			} else if v > l.hi {
				v = l.hi
			}
			dst[i] = v
		}
		return
	}
	to, of := (*[16]uint32)(unsafe.Pointer(dst)), (*[16]uint32)(unsafe.Pointer(sums))
	below, above := l.below, l.above
	switch {
	case above.n > 0:
		for i := 0; i < 16; i += 2 {
			to[i] = above.bound(below.bound(of[i]))
			to[i+1] = above.bound(below.bound(of[i+1]))
		}
	case below.n > 0:
		for i := 0; i < 16; i += 4 {
			to[i] = below.bound(of[i])
			to[i+1] = below.bound(of[i+1])
			to[i+2] = below.bound(of[i+2])
			to[i+3] = below.bound(of[i+3])
		}
	default: // by words, as sums were written: wider loads would wait for them
		for i := 0; i < 16; i += 4 {
			to[i], to[i+1], to[i+2], to[i+3] = of[i], of[i+1], of[i+2], of[i+3]
		}
	}
}
