package quant

// Pairs of products never saturate where those of magnitudes are added: with x an element of A of int8, and y one of B of int8, x·y is |x|·y, or, where x
// is negative, |x|·(-1-y) + |x|, in which -1-y is y with all bits turned around. |x| is at most 128, y and -1-y lie between -128 and 127, and so two products
// between -2·128·128 and 2·128·127, which are words. What is added behind is the sum of a row's negative magnitudes, one number for all columns. It takes an
// instruction more than other pairs, which any port runs, and no list.
//
// Operands that are not of int8 are turned to that: A's beforehand, with 128 times the sums of B's columns added; B's with the signs, whose upper bits are turned
// around, with 128 times the sum of A's row.

// fewSigns is how many bytes of magnitudes and signs are little enough for memory that is sooner cleared.
const fewSigns = 1 << 10

// multiplySigns multiplies the magnitudes of rows that are near, and signed.
func (k Kernels) multiplySigns(x *pairPart, height int) {
	if 2*min(height, pairTile)*x.params.lda <= fewSigns {
		k.signsOfFew(x, height)
	} else {
		k.signsOfMany(x, height)
	}
}

//go:noinline
func (k Kernels) signsOfFew(x *pairPart, height int) {
	var near [fewSigns]byte
	k.signTiles(x, near[:], height)
}

//go:noinline
func (k Kernels) signsOfMany(x *pairPart, height int) {
	var near [2 * pairTile * pairRow]byte
	k.signTiles(x, near[:], height)
}

// signTiles is multiplySigns with memory for the rows of a tile, each with its signs behind it.
func (k Kernels) signTiles(x *pairPart, near []byte, height int) {
	params := x.params
	ld := params.lda
	params.lda, params.signs = 2*ld, ld
	start, c := x.at()
	step := max(1, callQuads/(params.quads*Height)) // panels of a call
	for r := 0; r < height; r += pairTile {
		rows := min(pairTile, height-r)
		for i := range rows {
			k.magnitudes(x, near[2*i*ld:][:2*ld], r+i)
		}
		params.turns = &x.near.turns[r]
		for at := 0; at < x.panels; at += step {
			if x.kind == pairsTurned {
				params.columns = &x.sums[at*Panel]
			}
			callSigns(k.set, rows, &params, &near[0], advance(x.b, at*params.ldb), advance(start, r*params.lds/4+at*Panel), advance(c, r*x.p.LDC+at*Panel), min(step, x.panels-at))
		}
	}
}

// magnitudes writes the magnitudes and the signs of a row, and what is added to its sums.
func (k Kernels) magnitudes(x *pairPart, dst []byte, row int) {
	ld, turned := x.params.lda, 0
	if x.kind == pairsUnsigned {
		turned = 1
	}
	sums := magnitudes(k.set, &dst[0], &x.near.bytes[row*ld], ld, turned, ld/pairGroup)
	all, negative := int32(sums), int32(sums>>32)
	if x.near.turns[row] = negative; turned != 0 {
		x.near.turns[row] += 128 * (all - 2*negative)
	}
}
