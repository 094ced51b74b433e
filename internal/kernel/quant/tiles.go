package quant

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/amx"
)

// Tiles reports whether products may be made by tiles of AMX, which Multiply and MultiplyRounded choose where it is worth while. Sums are the same.
func (k Kernels) Tiles() bool { return k.tiles }

// TileSums is how many sums of int32 MultiplyRounded takes as scratch memory where there are tiles.
const TileSums = 1 << 14

// Bounds of products that tiles make. To configure and release their registers takes as long as 2^17 products of VNNI, and tiles of few rows are loaded
// as slowly as those of 16. Sums that are rounded go through memory, where VNNI has them in registers: it takes more of k to make up for that.
const (
	leastTileProducts = 1 << 17
	leastTileRows     = 6 // on average, of rows at one distance
	leastRoundedQuads = 32
	leastRoundedRows  = 1 << 10 // times quads
)

// byTiles reports whether tiles make a product of these rows faster.
func (k Kernels) byTiles(rows []int, quads, panels int) bool {
	if !k.tiles || len(rows) < leastTileRows || len(rows)*quads*panels*4*Panel < leastTileProducts {
		return false
	}
	stretches := 0
	for at := 0; at < len(rows); stretches++ {
		n, _ := stretch(rows[at:])
		at += n
	}
	return len(rows) >= leastTileRows*stretches
}

// roundsByTiles is byTiles for sums that are rounded.
func (k Kernels) roundsByTiles(rows []int, quads, panels int) bool {
	return quads >= leastRoundedQuads && len(rows)*quads >= leastRoundedRows && k.byTiles(rows, quads, panels)
}

// stretch returns how many of the rows lie at one distance, and which; 0 for a single one.
func stretch(rows []int) (n, distance int) {
	if len(rows) == 1 {
		return 1, 0
	}
	distance = rows[1] - rows[0]
	n = 2
	for n < len(rows) && rows[n]-rows[n-1] == distance {
		n++
	}
	return n, distance
}

// tiling is a product that is made by tiles. Tiles of one height and distance are collected, and multiplied in pairs in one call: to configure the
// registers takes a while.
type tiling struct {
	product amx.Product
	a, b    *byte
	start   *int32
	c       *int32
	height  int
	count   int
	tiles   [32]struct{ offset, row int } // in A, and of the result
}

// multiplyTiles multiplies by tiles. The sums' rows lie ldc apart.
func (k Kernels) multiplyTiles(p *Product, ldc int, c *int32, a *byte, rows []int, b *byte, start *int32, panels int) {
	t := tiling{a: a, b: b, start: start, c: c, product: amx.Product{Kind: amx.SignedUnsigned, LDC: 4 * ldc, Segments: p.Segments, Words: p.Quads,
		Panels: panels, LDB: PanelBytes(len(p.Segments) * p.Quads)}}
	if p.Signed {
		t.product.Kind = amx.UnsignedSigned
	}
	for at := 0; at < len(rows); {
		n, distance := stretch(rows[at:])
		t.stretch(rows[at], at, n, distance)
		at += n
	}
	t.flush()
}

// stretch adds n rows at one distance, the first at an offset of A, a row of the result. More than a tile are divided to pairs of tiles of
// one height, of which the two of a pair may overlap: both have the same sums then, and begin with the same.
func (t *tiling) stretch(offset, row, n, distance int) {
	if n <= amx.Rows {
		t.add(n, distance, offset, row)
		return
	}
	if t.count%2 != 0 {
		t.flush()
	}
	pairs := (n + 2*amx.Rows - 1) / (2 * amx.Rows)
	rows, more := n/pairs, n%pairs // of a pair, of which the first ones have one more
	height := ((n+pairs-1)/pairs + 1) / 2
	for i := range pairs {
		m := rows
		if i < more {
			m++
		}
		t.add(height, distance, offset, row)
		t.add(height, distance, offset+(m-height)*distance, row+m-height)
		offset, row = offset+m*distance, row+m
	}
}

// add adds a tile.
func (t *tiling) add(height, distance, offset, row int) {
	if t.count == len(t.tiles) || t.count > 0 && (height != t.height || distance != t.product.LDA) {
		t.flush()
	}
	t.height, t.product.LDA = height, distance
	tile := &t.tiles[t.count]
	tile.offset, tile.row = offset, row
	t.count++
}

// flush multiplies the tiles. One that is left over is multiplied twice, in a pair with itself, unless it is alone.
func (t *tiling) flush() {
	if t.count == 0 {
		return
	}
	second := t.height
	if t.count == 1 {
		second = 0
	}
	var pairs [len(t.tiles) / 2]amx.Pair
	n := (t.count + 1) / 2
	for i := range 2 * n {
		tile := t.tiles[min(i, t.count-1)]
		pairs[i/2].A[i%2] = unsafe.Pointer(advance(t.a, tile.offset))
		pairs[i/2].Start[i%2] = unsafe.Pointer(t.start)
		pairs[i/2].C[i%2] = unsafe.Pointer(advance(t.c, tile.row*t.product.LDC/4))
	}
	t.product.Run(t.height, second, pairs[:n], unsafe.Pointer(t.b))
	t.count = 0
}

// roundTiles is MultiplyRounded by tiles, whose sums are rounded from scratch memory: some rows at a time, of some panels.
func (k Kernels) roundTiles(p *Product, params *tileParams, c, a *byte, rows []int, b *byte, start *int32, panels int, sums []int32) {
	const wide = 4 // panels at a time
	size := PanelBytes(len(p.Segments) * p.Quads)
	for panels > 0 {
		width := min(panels, wide)
		params.lds = 4 * width * Panel
		to := c
		for left := rows; len(left) > 0; {
			n := lump(left, len(sums)/(width*Panel))
			k.multiplyTiles(p, width*Panel, &sums[0], a, left[:n], b, start, width)
			k.roundPanels(*params, &sums[0], to, width, n)
			if left = left[n:]; len(left) > 0 {
				to = advance(to, n*params.ldc)
			}
		}
		if panels -= width; panels > 0 {
			b, start, c = advance(b, width*size), advance(start, width*Panel), advance(c, width*Panel)
			params.pass(width * Panel)
		}
	}
}

// lump returns how many of the rows are multiplied at a time, at most most: whole stretches, or whole pairs of tiles of a long one.
func lump(rows []int, most int) int {
	total := 0
	for total < len(rows) {
		n, _ := stretch(rows[total:])
		if total+n > most {
			break
		}
		total += n
	}
	if total > 0 {
		return total
	}
	return most / (2 * amx.Rows) * (2 * amx.Rows)
}

// roundPanels rounds n rows of sums of so many panels.
func (k Kernels) roundPanels(params tileParams, sums *int32, c *byte, panels, n int) {
	for width := 4; panels > 0; {
		for width > panels {
			width /= 2
		}
		params.columns = 1<<min(params.left, width*Panel) - 1
		roundRows(k.set, width, &params, sums, c, n)
		if panels -= width; panels > 0 {
			sums, c = advance(sums, width*Panel), advance(c, width*Panel)
			params.pass(width * Panel)
		}
	}
}
