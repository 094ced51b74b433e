package reorder

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// A matrix is transposed in pieces of tileRows by tileCols floats, each in strips down its columns, so that rows of the
// result are written in long runs. What is read, a cache line at a time from rows far apart, is asked for before: in the
// caches by the line next to it, in memory, while the piece before is transposed, four lines of a row at once. Measured on
// one core of a Zen 4 against strips along the rows: 1.9 times as fast where both matrices lie in the last-level cache, and
// three times in memory.
const (
	tileRows   = 256
	tileCols   = 64
	raggedRows = 64  // of a piece whose rows do not begin at cache lines
	lineFloats = 16  // the side of tiles whose rows are whole cache lines
	streamRows = 512 // of a piece in memory: planes that are written in longer runs cost less

	nearLines = 2       // how far ahead lines of a row are asked for
	farLines  = 16      // and where these come from memory
	stripCols = 1 << 12 // of strips along the rows: a call of assembly should not take long
)

// traffic is where a result's stores go.
type traffic uint8

const (
	cached   traffic = iota // into caches that hold the result
	uncached                // through the caches, to memory
	streamed                // past the caches, in whole lines
	near                    // into the second-level cache, which holds what is read too: nothing is asked for
)

// trafficOf is cached, or near where bytes that are read and written fit the second-level cache. Asking for lines that are there costs AVX2's tiles 5 to 25 %
// of their time on a Zen 3.
func trafficOf(t isa.Target, bytes int) traffic {
	if tileSide(t.Set) < lineSide(t.Set) && bytes <= t.SecondCache() {
		return near
	}
	return cached
}

// streamBytes is from which size on a result is written past the caches: it would not stay there, and its lines are then not
// read before they are written. It is the share that one of several busy cores has of a usual last-level cache.
const streamBytes = 8 << 20

// aligned reports whether a slice begins at a cache line.
func aligned(x []float32) bool { return beforeLine(x) == 0 }

// beforeLine returns how many bytes of a slice lie in front of its first cache line.
func beforeLine(x []float32) int { return int(-uintptr(unsafe.Pointer(unsafe.SliceData(x))) % 64) }

// Transpose2D writes dst[c, r] = src[r, c] for src[rows, cols] with row stride ldSrc ≥ cols and dst with row stride
// ldDst ≥ rows. Elements are moved as 32-bit words, so any 4-byte type may be passed as float32: no bit changes. dst and
// src do not overlap.
func Transpose2D(t isa.Target, dst, src []float32, rows, cols, ldSrc, ldDst int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	to := trafficOf(t, 8*rows*cols)
	switch {
	case 4*rows*cols < streamBytes:
	case streamsTiles(t.Set) && ldDst%16 == 0 && aligned(dst):
		to = streamed
	default:
		to = uncached
	}
	transpose(t.Set, to, dst[:(cols-1)*ldDst+rows], ldDst, src[:(rows-1)*ldSrc+cols], ldSrc, rows, cols, 0)
	if to == streamed {
		fence(t.Set)
	}
}

// weaves reports whether matrices with so few rows or columns have kernels of their own: pictures, and complex numbers.
func weaves(n int) bool { return n >= 2 && n <= 4 }

// transpose is Transpose2D without the fence that streaming needs behind it. after is where in src, which may be longer, the
// caller will go on reading.
func transpose(set isa.Set, to traffic, dst []float32, ldDst int, src []float32, ldSrc, rows, cols, after int) {
	side := tileSide(set)
	if lanes := weaveLanes(set); lanes > 0 {
		switch {
		case weaves(rows) && ldDst == rows && cols >= lanes:
			whole := cols / lanes
			join(set, to, rows, &dst[0], &src[0], 4*ldSrc, whole)
			if done := whole * lanes; done < cols {
				alongCols(set, dst[done*ldDst:], ldDst, src[done:], ldSrc, rows, rows, cols-done)
			}
			return
		case weaves(cols) && ldSrc == cols && rows >= lanes:
			whole := rows / lanes
			part(set, to, cols, &dst[0], 4*ldDst, &src[0], whole)
			if done := whole * lanes; done < rows {
				alongRows(set, dst[done:], ldDst, src[done*ldSrc:], ldSrc, cols, rows-done)
			}
			return
		}
	}
	tileRows, whole := tileRows, lineSide(set) // that a whole tile has
	if to == streamed {
		tileRows = streamRows
	}
	switch {
	case side == whole || to == streamed:
	case crowded(ldSrc): // 16 rows drive each other out of the first-level cache, 8 do not
		whole = side
	case ldSrc%lineFloats != 0: // strips side by side read the same lines, which should stay in the first-level cache
		tileRows = raggedRows
	}
	for r0 := 0; r0 < rows; r0 += tileRows {
		n := min(tileRows, rows-r0) / whole // whole tiles of a strip
		if n < 2 {                          // one strip, and what is left, along the rows
			for c := 0; c < cols; c += stripCols {
				for r := r0; r < rows; r += side {
					lanes := min(side, rows-r)
					alongCols(set, dst[c*ldDst+r:], ldDst, src[r*ldSrc+c:], ldSrc, lanes, lanes, min(stripCols, cols-c))
				}
			}
			return
		}
		for c0 := 0; c0 < cols; c0 += tileCols {
			width := min(tileCols, cols-c0)
			next := tileCols // from this piece to the one behind it
			switch {
			case c0+tileCols < cols:
			case r0+tileRows < rows:
				next = tileRows*ldSrc - c0
			default:
				next = after - r0*ldSrc - c0
			}
			c := 0
			for ; c+whole <= width; c += whole {
				at := r0*ldSrc + c0 + c
				d, s := &dst[(c0+c)*ldDst+r0], &src[at]
				switch {
				case to == streamed:
					farTiles(set, d, ldDst, s, ldSrc, next+n*c/tileCols*whole*ldSrc-c, n)
				case whole == side:
					tiles(set, to, d, 4*ldDst, 4*side, s, 4*ldSrc, 4*side*ldSrc, linesAhead(to), n)
				default:
					lineTiles(set, to, d, 4*ldDst, 4*whole, s, 4*ldSrc, 4*whole*ldSrc, linesAhead(to), n)
				}
			}
			for ; c < width; c += side {
				alongRows(set, dst[(c0+c)*ldDst+r0:], ldDst, src[r0*ldSrc+c0+c:], ldSrc, min(side, width-c), n*whole)
			}
			for r := r0 + n*whole; r < min(rows, r0+tileRows); r += side {
				lanes := min(side, rows-r)
				alongCols(set, dst[c0*ldDst+r:], ldDst, src[r*ldSrc+c0:], ldSrc, lanes, lanes, width)
			}
		}
	}
}

// farTiles transposes a strip of n whole tiles, one below the other, of a matrix in memory to a result that goes past the caches. What lies so many
// floats ahead is asked for.
//
// With longer strips rows of the tile after the next one come from the second-level cache in time: loads that wait for it keep those behind them from
// memory. Short strips are followed by others beside them, whose lines the processor itself fetches.
func farTiles(set isa.Set, dst *float32, ldDst int, src *float32, ldSrc, ahead, n int) {
	const long = 8
	step, near, pairs := 4*lineFloats*ldSrc, 0, 0
	if n >= long {
		near = 2 * step
	}
	if step >= 16<<10 {
		pairs = 1 // see tiles
	}
	streamTiles(set, dst, 4*ldDst, 4*lineFloats, src, 4*ldSrc, step, 4*ahead, near, pairs, n)
}

// tiles transposes n whole tiles. What lies ahead bytes behind each row is asked for, unless that is 0. The caller knows that the set has streaming
// stores where it asks for them.
//
// Where tiles lie far apart, a constant distance makes the processor fetch lines at that distance behind the last tile, in vain:
// two by two, the second of two first, they take a tenth to a third less time on a Zen 4. Nearer ones, and ordinary stores to
// memory, are faster with it.
func tiles(set isa.Set, to traffic, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, ahead, n int) {
	callTiles(set, to, dst, dstStride, dstStep, src, srcStride, srcStep, ahead, inPairs(to, srcStep), n)
}

// linesAhead is how far ahead, in bytes, lines of rows are asked for that are read side by side into caches.
func linesAhead(to traffic) int {
	if to == near {
		return 0
	}
	return 64 * nearLines
}

// inPairs returns whether tiles so many bytes apart are taken two by two, 1 or 0.
func inPairs(to traffic, srcStep int) int {
	if (to == cached || to == near) && srcStep > 4<<10 {
		return 1
	}
	return 0
}

// lineTiles is tiles of lineSide each way. Where those of a set are smaller, a line is still read and written once.
func lineTiles(set isa.Set, to traffic, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, ahead, n int) {
	if to == streamed {
		tiles(set, to, dst, dstStride, dstStep, src, srcStride, srcStep, ahead, n)
		return
	}
	callLines(set, dst, dstStride, dstStep, src, srcStride, srcStep, ahead, inPairs(to, srcStep), n)
}
