package vec

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Results that go past the caches are made in memory of its own, a part at a time, from which whole cache lines go out: so each kernel is there once, a line is
// never read before it is written, and what the result would displace stays where it is. A part is small against the first-level cache, which
// holds it beside what it is made of.
const (
	lineFloats  = 16
	partFloats  = 1024 // of a part: a page of operands is fetched while one of the result goes out. Parts of 512 and 2048 take 1.05 and 1.2 of the time on a Zen 3.
	stageFloats = 2048 // the most, of rows that are made two at a time
)

// Past returns the same kernels, which write results past the caches where these are contiguous and of pastFloats elements at least, and where the set has
// streaming stores: for results that nobody reads before they have left the caches anyway. Another core may read what a call has written
// when it has returned. Rows of normalisations that are longer than stageFloats stay in the caches, and so do those of Softmax, which computes longer than they are moved.
func (v Kernels) Past() Kernels {
	v.past = streams(v.set)
	return v
}

// pastFloats is from how many elements on a result of one call goes past the caches: a fence stands behind each.
const pastFloats = 2 * stageFloats

// passes reports whether a result of rows goes past the caches, which one in the place of what it is made of does not: its lines have been read.
func (v Kernels) passes(dst, src *float32, ldd, rows, cols int) bool {
	return v.past && dst != src && (ldd == cols || rows == 1) && rows*cols >= pastFloats && uintptr(unsafe.Pointer(dst))%4 == 0
}

// stage is the part of a contiguous result that is made. It has the places of its cache lines: its first element is where a line begins.
type stage struct {
	set    isa.Set
	dst    *float32
	a, b   *float32 // of the operands, what is read next, which is fetched while lines go out
	done   int      // elements of the result that have gone out
	lead   int      // elements in front of the result in its first line
	held   int      // elements in the stage, those in front included
	memory [stageFloats + 2*lineFloats]float32
	first  int // element of memory where a line begins
}

// begin prepares for a result.
func (s *stage) begin(set isa.Set, dst *float32) {
	s.set, s.dst = set, dst
	s.lead = int(uintptr(unsafe.Pointer(dst)) / 4 % lineFloats)
	s.held = s.lead
	s.first = int(-uintptr(unsafe.Pointer(&s.memory)) / 4 % lineFloats)
}

// next is where the next elements are to be written, which wrote is then told of.
func (s *stage) next() *float32 { return &s.memory[s.first+s.held] }

func (s *stage) wrote(n int) { s.held += n }

// flush writes whole lines, and an incomplete first one.
func (s *stage) flush() {
	whole := s.held / lineFloats
	if whole == 0 {
		return
	}
	memory := s.memory[s.first:]
	at := 0
	if s.lead > 0 {
		at = lineFloats
		s.done += copy(view(s.dst, lineFloats-s.lead), memory[s.lead:lineFloats])
		s.lead = 0
	}
	if lines := whole - at/lineFloats; lines > 0 {
		flushLines(s.set, advance(s.dst, s.done), &memory[at], s.a, s.b, lines)
		s.done += lines * lineFloats
	}
	s.held = copy(memory, memory[whole*lineFloats:s.held])
}

// end writes what is left, and has all of it seen by other cores before what is written next.
func (s *stage) end() {
	s.flush()
	if rest := s.held - s.lead; rest > 0 {
		copy(view(advance(s.dst, s.done), rest), s.memory[s.first+s.lead:])
	}
	fence(s.set)
}

// rowsOf returns how many rows of cols elements, at most stageFloats-lineFloats, of those that are left, are made next: of a part, but as many as kernels work
// on together where the stage holds them.
func (s *stage) rowsOf(left, cols, together int) int {
	n := min(left, max(together, partFloats/cols), (stageFloats-lineFloats)/cols)
	if s.held+n*cols > stageFloats || s.held >= partFloats {
		s.flush()
	}
	return n
}

// piece returns how many rows, or elements of one row, are made next of rows of cols elements, of which c of row r have been.
func (s *stage) piece(rows, cols, r, c int) (n, width int) {
	if partFloats-s.held < min(cols-c, partFloats/2) {
		s.flush()
	}
	room := partFloats - s.held
	if c == 0 && cols <= room {
		return min(rows-r, room/cols), cols
	}
	return 1, min(room, cols-c)
}

// upcoming returns the element of column c of row r, or the last one where there is no such row.
func upcoming(x *float32, r, c, ld, rows, cols int) *float32 {
	return advance(x, min(r*ld+c, extent(rows, cols, ld)-1))
}

// behind returns the place behind n rows, or width elements of row r.
func behind(r, c, n, width, cols int) (row, col int) {
	if c+width < cols {
		return r, c + width
	}
	return r + n, 0
}
