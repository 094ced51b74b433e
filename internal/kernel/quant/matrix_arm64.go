package quant

import "unsafe"

// pairedQuads is how many quads of a panel are put together in pairs at a time, for all rows: of 8 KiB, which stay in the first-level
// cache.
const pairedQuads = 128

// matricesNEON multiplies with instructions that multiply matrices of 2 x 8 bytes. The segments of rows are taken in turn: several whole
// ones, or parts of one, each of which adds to the sums of those before.
func matricesNEON(p *Product, c *int32, a *byte, rows []int, b *byte, start *int32, panels int) {
	var pairs [4 * Panel * pairedQuads]byte
	var one [1]int
	size, each := PanelBytes(len(p.Segments)*p.Quads), (p.Quads+1)&^1 // an odd quad takes as much as two
	for j := range panels {
		sums := advance(c, j*Panel)
		params, from, at := tileParams{ldc: 4 * p.LDC}, advance(start, j*Panel), j*size
		for s, q := 0, 0; s < len(p.Segments); {
			segments, quads := p.Segments[s:min(len(p.Segments), s+max(1, pairedQuads/each))], p.Quads
			if each > pairedQuads {
				one[0] = segments[0] + 4*q
				segments, quads = one[:], min(p.Quads-q, pairedQuads)
				q += quads
			}
			if each <= pairedQuads || q == p.Quads {
				s, q = s+len(segments), 0
			}
			pairsNEON(&pairs[0], advance(b, at), len(segments), quads)
			params.segments, params.count, params.quads = unsafe.SliceData(segments), len(segments), quads
			callMatrices(p.Signed, &params, a, rows, &pairs[0], from, sums)
			from, params.lds = sums, params.ldc
			at += len(segments) * PanelBytes(quads)
		}
	}
}

// callMatrices multiplies rows by the pairs of a panel.
func callMatrices(signed bool, params *tileParams, a *byte, rows []int, pairs *byte, start, c *int32) {
	n, row := len(rows), unsafe.SliceData(rows)
	step := max(1, callQuads/(params.count*params.quads*Height)) // tiles of a call
	for done := 0; done < n; {
		height, tiles := Height, min(step, (n-done)/Height)
		if tiles == 0 {
			height, tiles = n-done, 1
		}
		callMatrixNEON(signed, height, 1, params, a, advance(row, done), pairs, advance(start, done*params.lds/4), advance(c, done*params.ldc/4), tiles)
		done += tiles * height
	}
}
