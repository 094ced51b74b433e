package cpu

import (
	"slices"

	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/place"
)

// Copies of elements that are batches of transpositions.

// transposed handles a copy of elements of one, two, four or eight bytes whose innermost target dim is contiguous there, and another dim that is
// contiguous in the source: a batch of two-dimensional transposes. It reports whether the copy is one.
func (p *planner) transposed(c copySpec, src, dst place.Memory) bool {
	last := len(c.dims) - 1
	inner := -1
	for k := range last {
		if c.src[k] == 1 {
			inner = k
		}
	}
	if inner < 0 || c.src[last] < c.dims[inner] || c.dst[inner] < c.dims[last] {
		return false
	}
	rows, cols := c.dims[last], c.dims[inner] // of the source
	ldSrc, ldDst := c.src[last], c.dst[inner]
	rest := copySpec{srcOff: c.srcOff, dstOff: c.dstOff, size: c.size}
	for k := range last {
		if k != inner {
			rest.dims, rest.src, rest.dst = append(rest.dims, c.dims[k]), append(rest.src, c.src[k]), append(rest.dst, c.dst[k])
		}
	}
	batches := product(rest.dims)
	switch {
	case c.size == 4 && cols == 2 && ldSrc == 2:
		p.pairs(rest, true, rows, ldDst, src, dst)
		return true
	case c.size == 4 && rows == 2 && ldDst == 2:
		p.pairs(rest, false, cols, ldSrc, src, dst)
		return true
	}
	if c.size <= 2 && (cols == 3 && ldSrc == 3 || rows == 3 && ldDst == 3) {
		if c.size == 1 {
			triples[uint8](p, rest, rows, cols, ldSrc, ldDst, src, dst)
		} else {
			triples[uint16](p, rest, rows, cols, ldSrc, ldDst, src, dst)
		}
		return true
	}
	if c.size != 4 && min(rows, cols) <= fewSides {
		switch c.size {
		case 1:
			transposeFew[uint8](p, rest, rows, cols, ldSrc, ldDst, src, dst)
		case 2:
			transposeFew[uint16](p, rest, rows, cols, ldSrc, ldDst, src, dst)
		default:
			transposeFew[uint64](p, rest, rows, cols, ldSrc, ldDst, src, dst)
		}
		return true
	}
	if few := min(rows, cols); c.size == 1 && few < 16 && few*max(rows, cols) >= leastNarrow {
		transposeNarrow(p, rest, rows, cols, ldSrc, ldDst, 16, p.integers.Transpose, src, dst)
		return true
	} else if c.size == 2 && few < 8 && few*max(rows, cols) >= leastNarrow {
		set := p.target.Set
		transposeNarrow(p, rest, rows, cols, ldSrc, ldDst, 8, func(d, s []uint16, rows, cols, lds, ldd int) { element.Transpose(set, d, s, rows, cols, lds, ldd) }, src, dst)
		return true
	}
	const band = 64
	bands, target, bytes := ceilDiv(cols, band), p.target, p.integers
	p.emit(step{chunks: batches * bands, grain: grainFor(float64(rows*min(band, cols)) * 0.5), body: func(st *state, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			b, c0 := i/bands, i%bands*band
			do, so := rest.offsets(b, len(rest.dims))
			do, so, cols := do/c.size+c0*ldDst, so/c.size+c0, min(band, cols-c0)
			switch c.size {
			case 1:
				bytes.Transpose(st.Bytes(dst)[do:], st.Bytes(src)[so:], rows, cols, ldSrc, ldDst)
			case 2:
				element.Transpose(target.Set, of[uint16](st, dst)[do:], of[uint16](st, src)[so:], rows, cols, ldSrc, ldDst)
			case 4:
				reorder.Transpose2D(target, st.F32(dst)[do:], st.F32(src)[so:], rows, cols, ldSrc, ldDst)
			case 8:
				element.Transpose(target.Set, of[uint64](st, dst)[do:], of[uint64](st, src)[so:], rows, cols, ldSrc, ldDst)
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return true
}

// leastNarrow is of how many elements a matrix of bytes or of 16 bits is at least whose transposition takes less by blocks that are filled up than by loops.
const leastNarrow = 128

// fewSides is up to how many rows or columns loops take less than blocks of kernels.
const fewSides = 4

// transposeFew emits the transpositions of a batch of matrices of few rows or columns, which may be short: those that follow each other are gone through without a division.
func transposeFew[T element.Bits](p *planner, rest copySpec, rows, cols, ldSrc, ldDst int, src, dst place.Memory) {
	last := len(rest.dims) - 1
	if last < 0 {
		rest.dims, rest.src, rest.dst, last = []int{1}, []int{0}, []int{0}, 0
	}
	inner, nextSrc, nextDst := rest.dims[last], rest.src[last], rest.dst[last]
	const some = 1 << 14 // columns, or rows, of a chunk
	parts := ceilDiv(max(rows, cols), some)
	p.emit(step{chunks: product(rest.dims) * parts, grain: grainFor(float64(min(rows*cols, some))*0.5 + 5), body: func(st *state, _, lo, hi int) {
		d, s := of[T](st, dst), of[T](st, src)
		for i := lo; i < hi; {
			batch, part := i/parts, i%parts
			do, so := rest.offsets(batch/inner, last)
			do, so = do/rest.size+batch%inner*nextDst, so/rest.size+batch%inner*nextSrc
			if parts > 1 {
				at := part * some
				if rows > cols {
					element.TransposeFew(d[do+at:], s[so+at*ldSrc:], min(some, rows-at), cols, ldSrc, ldDst)
				} else {
					element.TransposeFew(d[do+at*ldDst:], s[so+at:], rows, min(some, cols-at), ldSrc, ldDst)
				}
				i++
				continue
			}
			for end := min(hi, i+inner-batch%inner); i < end; i++ {
				element.TransposeFew(d[do:], s[so:], rows, cols, ldSrc, ldDst)
				do, so = do+nextDst, so+nextSrc
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

// triples emits the transpositions of a batch of matrices of bytes, or of 16 bits, of three columns, or of three rows: pictures whose channels stand beside each other.
func triples[T uint8 | uint16](p *planner, rest copySpec, rows, cols, ldSrc, ldDst int, src, dst place.Memory) {
	const some = 1 << 15 // pixels of a chunk, at most
	set, pixels, apart := p.target.Set, cols, cols == 3 && ldSrc == 3
	if apart {
		pixels = rows
	}
	parts := ceilDiv(pixels, some)
	p.emit(step{chunks: product(rest.dims) * parts, grain: grainFor(float64(min(pixels, some))*0.1 + 10), body: func(st *state, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			do, so := rest.offsets(i/parts, len(rest.dims))
			at := i % parts * some
			d, s, n := of[T](st, dst)[do/rest.size:], of[T](st, src)[so/rest.size:], min(some, pixels-at)
			if apart {
				element.UnzipThree(set, d[at:][:n], d[ldDst+at:], d[2*ldDst+at:], s[3*at:])
			} else {
				element.ZipThree(set, d[3*at:], s[at:][:n], s[ldSrc+at:], s[2*ldSrc+at:])
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

// pairs emits the transpositions of a batch of matrices of two columns, or with unzips not set of two rows, of 32 bits: of SpaceToDepth and DepthToSpace. There are wide pairs, whose
// elements lie in two rows that are apart elements apart. Tiles take half again as long and more. Matrices whose rows follow those of others are moved together.
func (p *planner) pairs(rest copySpec, unzips bool, wide, apart int, src, dst place.Memory) {
	whole, pairs := rest.dst, rest.src
	if !unzips {
		whole, pairs = pairs, whole
	}
	together, next, outer := 1, 0, len(rest.dims)
	if k := slices.Index(whole, wide); k >= 0 {
		together, next, outer = rest.dims[k], pairs[k], outer-1
		for _, list := range []*[]int{&rest.dims, &rest.src, &rest.dst} {
			at := (*list)[k]
			*list = append(slices.Delete(*list, k, k+1), at)
		}
	}
	set := p.target.Set
	p.emit(step{chunks: product(rest.dims), grain: grainFor(float64(wide)*0.2 + 2), body: func(st *state, _, lo, hi int) {
		d, s := of[uint32](st, dst), of[uint32](st, src)
		for i := lo; i < hi; {
			do, so := rest.offsets(i/together, outer)
			at := i % together
			some := min(hi-i, together-at)
			i += some
			if do, so = do/rest.size, so/rest.size; unzips {
				do += at * wide
				element.Unzip(set, d[do:][:some*wide], d[do+apart:], s[so+at*next:], wide, next)
			} else {
				so += at * wide
				element.Zip(set, d[do+at*next:], s[so:][:some*wide], s[so+apart:], wide, next)
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}
