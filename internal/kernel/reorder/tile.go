package reorder

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Tile transposes one small matrix for packers of weights: rows by cols floats, at most 16 each, whose row r starts
// r*stride bytes behind src, to cols rows of 16 floats at dst; what is behind rows in them is zero. On amd64 src need not be
// aligned.
func Tile(t isa.Target, dst *[256]float32, src unsafe.Pointer, stride, rows, cols int) {
	side := tileSide(t.Set)
	for r := 0; r < 16; r += side {
		for c := 0; c < cols; c += side {
			from := src
			n := max(0, min(side, rows-r))
			if n > 0 {
				from = unsafe.Add(src, r*stride+4*c)
			}
			transposeTiles(t.Set, &dst[16*c+r], 64, 0, (*float32)(from), stride, 0, n, min(side, cols-c), side, 1)
		}
	}
}
