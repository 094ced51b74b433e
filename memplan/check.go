package memplan

import (
	"fmt"
	"math"
	"slices"
)

// checkBuffers returns an *InputError for the first faulty buffer.
func checkBuffers(bufs []Buffer) error {
	for i := range bufs {
		if field, reason := checkBuffer(&bufs[i], i, len(bufs)); reason != "" {
			return &InputError{Buffer: i, ID: bufs[i].ID, Field: field, Reason: reason}
		}
	}
	return nil
}

// checkBuffer returns the faulty field and what is wrong with it, or "", "".
func checkBuffer(b *Buffer, self, n int) (field, reason string) {
	switch {
	case b.Size < 0:
		return "size", fmt.Sprintf("%d is negative", b.Size)
	case b.Align < 0 || b.Align&(b.Align-1) != 0:
		return "alignment", fmt.Sprintf("%d is not a power of two", b.Align)
	case b.Lower > b.Upper:
		return "lifetime", fmt.Sprintf("ends at %d, before it begins at %d", b.Upper, b.Lower)
	case b.Fixed && b.Offset < 0:
		return "offset", fmt.Sprintf("%d is negative", b.Offset)
	case b.Fixed && b.Align > 1 && b.Offset&(b.Align-1) != 0:
		return "offset", fmt.Sprintf("%d is not a multiple of the alignment %d", b.Offset, b.Align)
	case b.Fixed && b.Offset > math.MaxInt64-b.Size:
		return "offset", fmt.Sprintf("%d plus the size %d overflows", b.Offset, b.Size)
	}
	for _, g := range b.Gaps {
		if g.Lower > g.Upper {
			return "gaps", fmt.Sprintf("a gap ends at %d, before it begins at %d", g.Upper, g.Lower)
		}
		if g.Lower < b.Lower || g.Upper > b.Upper {
			return "gaps", fmt.Sprintf("a gap from %d to %d lies outside the lifetime from %d to %d", g.Lower, g.Upper, b.Lower, b.Upper)
		}
	}
	for _, s := range b.Share {
		if s < 0 || s >= n || s == self {
			return "share", fmt.Sprintf("%d names no other buffer of %d", s, n)
		}
	}
	return "", ""
}

// checkOptions returns an *InputError for a faulty option.
func checkOptions(o *Options) error {
	switch {
	case o.Capacity < 0:
		return &InputError{Buffer: -1, Field: "capacity", Reason: fmt.Sprintf("%d is negative", o.Capacity)}
	case o.Threads < 0:
		return &InputError{Buffer: -1, Field: "threads", Reason: fmt.Sprintf("%d is negative", o.Threads)}
	}
	return nil
}

// takesSpace reports whether b ever occupies memory.
func (b *Buffer) takesSpace() bool {
	if b.Size <= 0 || b.Lower >= b.Upper {
		return false
	}
	return len(b.Gaps) == 0 || len(appendSpans(nil, b)) > 0
}

// alignment returns the alignment of b, at least 1.
func (b *Buffer) alignment() int64 { return max(b.Align, 1) }

// appendSpans appends the intervals in which b occupies its space: its
// lifetime without its gaps, in order of time, none empty.
func appendSpans(dst []Interval, b *Buffer) []Interval {
	if b.Size <= 0 || b.Lower >= b.Upper {
		return dst
	}
	if len(b.Gaps) == 0 {
		return append(dst, Interval{b.Lower, b.Upper})
	}
	gaps := slices.Clone(b.Gaps)
	slices.SortFunc(gaps, func(x, y Interval) int {
		switch {
		case x.Lower < y.Lower:
			return -1
		case x.Lower > y.Lower:
			return 1
		}
		return 0
	})
	from := b.Lower
	for _, g := range gaps {
		if g.Lower >= g.Upper {
			continue
		}
		if g.Lower > from {
			dst = append(dst, Interval{from, g.Lower})
		}
		from = max(from, g.Upper)
	}
	if from < b.Upper {
		dst = append(dst, Interval{from, b.Upper})
	}
	return dst
}
