package reorder

import (
	"encoding/binary"
	"math"
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

// littleEndian says that floats in memory have the order of bytes that packed sources have.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// TileBytes is Tile of little-endian floats at any address: the matrix starts at float at of src, and its rows are stride floats apart,
// on every processor. It panics where the matrix does not lie within src.
func TileBytes(t isa.Target, dst *[256]float32, src []byte, at, stride, rows, cols int) {
	if littleEndian {
		_ = src[4*(at+(rows-1)*stride+cols)-1]
		Tile(t, dst, unsafe.Pointer(&src[4*at]), 4*stride, rows, cols)
		return
	}
	for c := range cols {
		clear(dst[16*c+rows : 16*c+16])
		for r := range rows {
			dst[16*c+r] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*(at+r*stride+c):]))
		}
	}
}
