package cpu

import (
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/place"
)

// Copies and transpositions whose rows are a few bytes.

// copyShort copies rows [lo, hi) of n bytes, at most element.LongestShort: those that follow each other along an axis together.
func (c *copySpec) copyShort(d, s []byte, n, lo, hi int) {
	last := len(c.dims) - 1
	together, ldd, lds := c.dims[last-1], c.dst[last-1]*c.size, c.src[last-1]*c.size
	w := c.walk(lo/together, last-1)
	for at := lo % together; lo < hi; w.next() {
		rows := min(together-at, hi-lo)
		element.ShortRows(d[w.dst*c.size+at*ldd:], s[w.src*c.size+at*lds:], n, rows, ldd, lds)
		lo, at = lo+rows, 0
	}
}

// wider returns the copy of larger elements that a coalesced copy of runs of two, four or eight bytes is where all of them begin at multiples of their length.
func (c copySpec) wider() copySpec {
	last := len(c.dims) - 1
	if last < 1 || c.src[last] != 1 || c.dst[last] != 1 {
		return c
	}
	n := c.dims[last]
	if run := n * c.size; run != 2 && run != 4 && run != 8 || c.srcOff%n != 0 || c.dstOff%n != 0 {
		return c
	}
	out := copySpec{size: n * c.size, srcOff: c.srcOff / n, dstOff: c.dstOff / n}
	for k, d := range c.dims[:last] {
		if c.src[k]%n != 0 || c.dst[k]%n != 0 {
			return c
		}
		out.dims, out.src, out.dst = append(out.dims, d), append(out.src, c.src[k]/n), append(out.dst, c.dst[k]/n)
	}
	return out
}

// narrowPart is how much of the long side of a narrow matrix is transposed at a time.
const narrowPart = 256

// transposeNarrow emits the transpositions of a batch of matrices with fewer rows, or columns, than blocks of the kernel turn have, which is for multiples of side on both: in
// between they are filled up to side.
func transposeNarrow[T uint8 | uint16](p *planner, rest copySpec, rows, cols, ldSrc, ldDst, side int, turn func(dst, src []T, rows, cols, lds, ldd int), src, dst place.Memory) {
	size, few, long := rest.size, min(rows, cols), max(rows, cols)
	parts, room := ceilDiv(long, narrowPart), p.scratch(2*side*narrowPart*rest.size)
	p.emit(step{chunks: product(rest.dims) * parts, grain: grainFor(float64(few*min(long, narrowPart))*0.2 + 30), body: func(st *state, worker, lo, hi int) {
		d, s, free := of[T](st, dst), of[T](st, src), of[T](st, room.at.Part(worker*room.size, room.size))
		in, out := free[:side*narrowPart], free[side*narrowPart:]
		for i := lo; i < hi; i++ {
			do, so := rest.offsets(i/parts, len(rest.dims))
			at := i % parts * narrowPart
			n := min(narrowPart, long-at)
			whole := ceilDiv(n, side) * side
			do, so = do/size, so/size
			if rows == few {
				for r := range rows {
					copy(in[r*narrowPart:], s[so+r*ldSrc+at:][:n])
				}
				turn(out, in, side, whole, narrowPart, side)
				element.ShortRows(asBytes(d[do+at*ldDst:]), asBytes(out), few*size, n, ldDst*size, side*size)
				continue
			}
			element.ShortRows(asBytes(in), asBytes(s[so+at*ldSrc:]), few*size, n, side*size, ldSrc*size)
			turn(out, in, whole, side, side, narrowPart)
			for c := range cols {
				copy(d[do+c*ldDst+at:][:n], out[c*narrowPart:])
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
}
