package quant

import "math/bits"

// AVX2 multiplies bytes in pairs (VPMADDUBSW): it adds two products of an unsigned and a signed byte in 16 bits, which saturate. They
// cannot where the two elements of A add up to little enough, whatever those of B are: unsigned ones x and y to x + y ≤ 256, as then
// x·b + y·c is at most 256·127, and at least -256·128; signed ones to |x + y| ≤ 128, as then it is at most 128·255 (of unlike signs
// they are so always). Most of what networks compute is so: it gathers around zero, far from its ends.
//
// So rows are copied, some quads at a time, and pairs that add up to more are lessened to that; what they were lessened by is such
// a pair itself, and goes to a list, whose products are added behind. Unsigned elements whose zero is in the middle are turned to signed
// ones, and B to the other kind as it is read. Where the list would be long either way, magnitudes are multiplied (signs.go), or, of a B of signed elements
// the sums of whose columns are not there, elements are widened to 16 bits. Sums are exact.
//
// Where four elements, the pairs at one place in two quads, add up to as little, the products of both are added in 16 bits, before they are
// added to sums of 32: three multiplications in the place of four. Of signed elements, the positive ones and the negative ones of a four
// add up to at most 128 each. That is tried first.

// pairKind says what the operands of a product in pairs are.
type pairKind uint8

const (
	pairsUnsigned pairKind = iota // B is unsigned, and A signed
	pairsSigned                   // the other way around
	pairsTurned                   // the upper bits of both are turned around from that
)

// pairsParams is what kernels of pairs read beside their pointers. The generator knows the offsets of the fields. Distances are in bytes.
type pairsParams struct {
	quads              int
	lda, ldb, ldc, lds int // of rows of A, panels of B, rows of the result, and of what sums begin with

	turns, columns *int32 // of turned operands: what is added to the sums of each row, and the sums of B's columns. Kernels move on copies: behind the last panel they point to nothing, which no struct of Go's may

	signs int // of magnitudes: how far behind a row its signs are, in bytes
}

// excess is what a quad of A was lessened by.
type excess struct {
	at    uint32 // the quad's place in a panel of B, in bytes
	bytes [4]byte
}

// Sizes of what is multiplied in pairs at a time, and from which on that is tried.
const (
	pairRow      = 4 * 384 // bytes of a row
	pairGroup    = 32      // bytes in which pairs are looked for at a time
	manyPairs    = 6       // lists have no more quads than one in so many
	signedPairs  = 8       // the same, where magnitudes can be multiplied, which takes a tenth longer than pairs without a list
	aloneRows    = 3       // rows below which elements are widened for so few tiles that lists may be longer:
	aloneList    = 2       // no more quads than one in so many
	manyFours    = 16      // of fours, no more pairs of quads are lessened than one in so many
	mostOfFour   = 6       // quads in the list of a pair of quads
	pairTile     = 4       // rows of a tile of fours
	firstRows    = 12      // rows that tell how others may be: whole tiles, of fours or of pairs
	pairPanels   = 32      // panels: their columns' sums stay in the first-level cache
	pairRowsMost = 48      // rows that are near at a time
	mostFailed   = 1       // times that a list was too long, behind which no more are tried
	manyRows     = 24      // rows from which on sums of columns are worth making, for turned operands
	fewPairs     = 96      // quads of panels below which rows are not worth looking through,
	fewPanels    = 5       // and panels: what rows are prepared for
)

// pairRows are some rows of A, near each other, with zeros up to whole groups.
type pairRows struct {
	bytes   []byte
	masks   []uint32
	list    []excess
	ends    [pairRowsMost]int // of the rows' parts of the list
	turns   [pairRowsMost]int32
	columns [pairPanels * Panel]int32
}

// Bytes of rows that are near: few where that is enough, as there is less to clear.
const (
	manyNear = firstRows * pairRow
	fewNear  = 4 * pairRow
)

// multiplyPairs multiplies bytes in pairs: some quads and panels at a time, a few rows of A.
func (k Kernels) multiplyPairs(p *Product, c *int32, a *byte, rows []int, b *byte, start *int32, panels int) {
	if min(len(rows), pairRowsMost)*roundUp(4*len(p.Segments)*p.Quads, pairGroup) <= fewNear {
		k.pairsOfFew(p, c, a, rows, b, start, panels)
	} else {
		k.pairsOfMany(p, c, a, rows, b, start, panels)
	}
}

//go:noinline
func (k Kernels) pairsOfFew(p *Product, c *int32, a *byte, rows []int, b *byte, start *int32, panels int) {
	var bytes [fewNear]byte
	var masks [fewNear / pairGroup]uint32
	var list [fewNear / 4 / manyPairs]excess
	k.multiplyParts(&pairRows{bytes: bytes[:], masks: masks[:], list: list[:]}, p, c, a, rows, b, start, panels)
}

//go:noinline
func (k Kernels) pairsOfMany(p *Product, c *int32, a *byte, rows []int, b *byte, start *int32, panels int) {
	var bytes [manyNear]byte
	var masks [manyNear / pairGroup]uint32
	var list [manyNear / 4 / manyPairs]excess
	k.multiplyParts(&pairRows{bytes: bytes[:], masks: masks[:], list: list[:]}, p, c, a, rows, b, start, panels)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// multiplyParts multiplies bytes in pairs, with memory for some rows.
func (k Kernels) multiplyParts(near *pairRows, p *Product, c *int32, a *byte, rows []int, b *byte, start *int32, panels int) {
	quads, most := len(p.Segments)*p.Quads, pairPanels
	if len(rows) < Height { // it is rather the rows that are prepared too often
		most = panels
	}
	if quads > pairRow/4 {
		most = min(most, pairPanels)
	}
	for q := 0; q < quads; q += pairRow / 4 {
		for at := 0; at < panels; at += most {
			x := pairPart{p: p, near: near, q: q, sums: near.columns[:], b: advance(b, at*PanelBytes(quads)+q*4*Panel), c: advance(c, at*Panel), panels: min(most, panels-at)}
			x.params = pairsParams{quads: min(pairRow/4, quads-q), ldb: PanelBytes(quads), ldc: 4 * p.LDC}
			x.start = advance(start, at*Panel)
			if q > 0 {
				x.start, x.params.lds = x.c, x.params.ldc
			}
			if p.Signed {
				x.kind, x.turns = pairsSigned, len(rows) >= manyRows
			}
			if p.Columns != nil {
				x.turns, x.summed = p.Signed, true
				if p.Signed && quads > pairRow/4 { // the sums are those of all parts, which are all turned, or none
					x.kind, x.stays = pairsTurned, true
				}
				if q == 0 {
					x.sums = p.Columns[at*Panel:][:x.panels*Panel]
				} else { // the first part has what all add
					clear(x.sums)
				}
			}
			k.multiplyPart(&x, a, rows)
		}
	}
}

// pairPart is a part of a product: some quads from q on, and some panels.
type pairPart struct {
	p      *Product
	near   *pairRows
	params pairsParams
	kind   pairKind // what the last rows were
	stays  bool     // kind is not another one for some rows
	turns  bool     // there are rows enough for that to be worth the sums of columns
	summed bool     // these are there
	single bool     // pairs are not added in fours
	signs  bool     // magnitudes are multiplied
	failed int      // tiles whose lists were too long

	sums      []int32 // of columns of B
	q, panels int
	done      int // rows
	b         *byte
	start, c  *int32 // of the first row
}

// at returns where the sums of the rows that are next begin, and where they go.
func (x *pairPart) at() (start, c *int32) {
	return advance(x.start, x.done*x.params.lds/4), advance(x.c, x.done*x.p.LDC)
}

// multiplyPart multiplies rows by a part: as many at a time as are near in whole tiles, but for the first ones, which tell how others may be.
func (k Kernels) multiplyPart(x *pairPart, a *byte, rows []int) {
	x.params.lda = roundUp(4*x.params.quads, pairGroup)
	for {
		height := len(x.near.bytes) / x.params.lda
		if height > firstRows {
			height = height / firstRows * firstRows
		}
		height = min(height, pairRowsMost, len(rows))
		if x.done == 0 {
			height = min(firstRows, height)
		}
		if x.failed < mostFailed && k.nearRows(x, a, rows[:height]) {
			k.multiplyNear(x, height)
		} else if x.params.quads <= fewQuads {
			k.widenFew(x, a, rows[:height])
		} else {
			k.widenMany(x, a, rows[:height])
		}
		if rows = rows[height:]; len(rows) == 0 {
			return
		}
		x.done += height
	}
}

// nearRows brings rows near, as the last ones were or turned, with pairs that are lessened, or for their magnitudes to be multiplied. It reports whether they can be
// multiplied as bytes.
func (k Kernels) nearRows(x *pairPart, a *byte, rows []int) bool {
	x.near.copy(x.p, a, rows, x.q, x.params.quads, x.params.lda)
	if x.kind == pairsTurned {
		k.turn(x, len(rows))
	}
	if x.signs || k.lessen(x, len(rows)) {
		return true
	}
	if x.kind != pairsUnsigned && !x.stays {
		if !x.turns {
			x.failed++
			return false
		}
		x.kind = pairsSigned + pairsTurned - x.kind
		x.single = false
		k.turn(x, len(rows))
		if k.lessen(x, len(rows)) {
			return true
		}
		if x.kind == pairsSigned {
			x.kind = pairsTurned
			k.turn(x, len(rows))
		}
	}
	x.signs = true
	return true
}

// turn turns the upper bits of near rows around, and sums them up for what that changes: with x + 128 in A's place and y - 128 in B's,
// Σ (x+128)·(y-128) = Σ x·y - 128·Σ x + 128·Σ (y-128).
func (k Kernels) turn(x *pairPart, height int) {
	size, ld := 4*x.params.quads, x.params.lda
	all := x.near.bytes[:height*ld]
	k.Flip(all, all)
	for r := range height {
		row := all[r*ld:][:ld]
		clear(row[size:])
		x.near.turns[r] = -128 * sum(k.set, true, &row[0], ld/16)
	}
}

// multiplyNear multiplies rows that are near.
func (k Kernels) multiplyNear(x *pairPart, height int) {
	if x.kind == pairsTurned && !x.summed {
		k.sumColumns(x)
		x.summed = true
	}
	if x.signs {
		k.multiplySigns(x, height)
		return
	}
	params := x.params
	start, c := x.at()
	step := max(1, callQuads/(params.quads*Height)) // panels of a call
	for r := 0; r < height; r += x.tile() {
		params.turns = &x.near.turns[r]
		for at := 0; at < x.panels; at += step {
			params.columns = &x.sums[min(at*Panel, len(x.sums)-1)]
			a, b, rows, n := &x.near.bytes[r*params.lda], advance(x.b, at*params.ldb), min(x.tile(), height-r), min(step, x.panels-at)
			from, to := advance(start, r*params.lds/4+at*Panel), advance(c, r*x.p.LDC+at*Panel)
			if x.single {
				callPairs(k.set, x.kind, rows, &params, a, b, from, to, n)
			} else {
				callFours(k.set, x.kind, rows, &params, a, b, from, to, n)
			}
		}
	}
	if count := x.near.ends[height-1]; count > 0 {
		some := max(1, callQuads/count) // panels of a call
		for at := 0; at < x.panels; at += some {
			addExcess(k.set, x.kind, &params, &x.near.list[0], &x.near.ends[0], height, advance(x.b, at*params.ldb), advance(c, at*Panel), min(some, x.panels-at))
		}
	}
}

// sumColumns writes the sums of columns of B's signed elements.
func (k Kernels) sumColumns(x *pairPart) {
	var zeros [Panel]int32
	var row [pairRow]byte
	for i := range row[:4*x.params.quads] {
		row[i] = 1
	}
	params := pairsParams{quads: x.params.quads, ldb: x.params.ldb}
	for at := range x.panels {
		callPairs(k.set, pairsSigned, 1, &params, &row[0], advance(x.b, at*x.params.ldb), &zeros[0], &x.sums[at*Panel], 1)
	}
}

// copy copies n quads of the segments of rows, from quad q on, to rows ld bytes apart.
func (x *pairRows) copy(p *Product, a *byte, rows []int, q, n, ld int) {
	for r, row := range rows {
		to := x.bytes[r*ld:][:ld]
		for at := 0; at < n; {
			from := (q + at) % p.Quads
			take := min(n-at, p.Quads-from)
			copy(to[4*at:], view(advance(a, row+p.Segments[(q+at)/p.Quads]+4*from), 4*take))
			at += take
		}
		clear(to[4*n:])
	}
}

// tile is the most rows of a tile.
func (x *pairPart) tile() int {
	if x.single {
		return Height
	}
	return pairTile
}

// lessen lessens fours of near rows that add up to too much, or pairs where these are too many, and lists what they were lessened by. It
// reports whether the list is long enough; if not, nothing has changed.
func (k Kernels) lessen(x *pairPart, height int) bool {
	if !x.single && k.lessenFours(x.near, x.kind, height, x.params.lda) {
		return true
	}
	x.single = true
	quads := height * x.params.lda / 4
	switch {
	case x.turns || x.kind == pairsUnsigned:
		quads /= signedPairs
	case height < aloneRows:
		quads /= aloneList
	default:
		quads /= manyPairs
	}
	return k.lessenPairs(x.near, x.kind, height, x.params.lda, quads)
}

// lessenFours is lessen for fours.
func (k Kernels) lessenFours(x *pairRows, kind pairKind, height, ld int) bool {
	groups := ld / pairGroup
	found := findExcessOfFours(k.set, kind != pairsSigned, &x.masks[0], &x.bytes[0], height*groups)
	if found == 0 {
		clear(x.ends[:height])
		return true
	}
	if found/4 > min(height*ld/8/manyFours, len(x.list)/mostOfFour) { // a four has four bits, and a pair of quads one or two fours
		return false
	}
	kind.lessenFound(x, height, ld)
	return true
}

// lessenFours lessens the fours of two quads that stand at a place in panels, and appends what by to a list of that many: most often by
// a part of the largest element.
func (kind pairKind) lessenFours(quads *[8]byte, place uint32, list []excess, count int) int {
	var by [8]byte
	var left [2][2]int // what is too much still, of each four: above 0, and below
	for i := range left {
		four := [4]int{2 * i, 2*i + 1, 2*i + 4, 2*i + 5}
		left[i][0] = kind.lessenLargest(quads, &by, four, 1)
		if kind != pairsSigned {
			left[i][1] = kind.lessenLargest(quads, &by, four, -1)
		}
	}
	count = appendExcess(list, count, place, &by)
	for left != [2][2]int{} {
		by = [8]byte{}
		for i := range quads {
			room := kind.most() // for a pair in the list
			if i%2 != 0 {
				room -= kind.size(by[i-1])
			}
			of, size := &left[i%4/2], min(kind.size(quads[i]), room)
			if kind != pairsSigned && int8(quads[i]) < 0 {
				size = min(size, of[1])
				of[1] -= size
				by[i] = byte(-size)
			} else {
				size = min(size, of[0])
				of[0] -= size
				by[i] = byte(size)
			}
			quads[i] -= by[i]
		}
		count = appendExcess(list, count, place, &by)
	}
	return count
}

// lessenLargest lessens the largest element of a four, of those of a sign, by what they add up to too much. Where that is more than the
// element, it returns how much it is.
func (kind pairKind) lessenLargest(quads, by *[8]byte, four [4]int, sign int) int {
	total, most, largest := 0, 0, 0
	for _, i := range four {
		x := int(quads[i])
		if kind != pairsSigned {
			x = max(sign*int(int8(quads[i])), 0)
		}
		if total += x; x > most {
			most, largest = x, i
		}
	}
	over := total - kind.most()
	if over <= 0 {
		return 0
	}
	if over > most {
		return over
	}
	by[largest] = byte(sign * over)
	quads[largest] -= by[largest]
	return 0
}

// appendExcess appends what two quads at a place in panels are lessened by to a list of that many.
func appendExcess(list []excess, count int, place uint32, by *[8]byte) int {
	for q := range 2 {
		if e := [4]byte(by[4*q:]); e != [4]byte{} {
			list[count] = excess{at: place + uint32(q*4*Panel), bytes: e}
			count++
		}
	}
	return count
}

// most is how much elements may add up to.
func (kind pairKind) most() int {
	if kind == pairsSigned {
		return 256
	}
	return 128
}

// size is the size of an element, without its sign.
func (kind pairKind) size(b byte) int {
	if kind == pairsSigned {
		return int(b)
	}
	return max(int(int8(b)), -int(int8(b)))
}

// lessenPairs is lessen for pairs, of which the list has at most so many quads.
func (k Kernels) lessenPairs(x *pairRows, kind pairKind, height, ld, most int) bool {
	groups := ld / pairGroup
	found := findExcess(k.set, kind != pairsSigned, &x.masks[0], &x.bytes[0], height*groups)
	if found == 0 {
		clear(x.ends[:height])
		return true
	}
	if found/2 > min(most, len(x.list)) { // a pair has two bits, and a quad one pair or two
		return false
	}
	lessenExcess(k.set, kind != pairsSigned, &x.list[0], &x.bytes[0], &x.masks[0], &x.ends[0], groups, height)
	return true
}

// lessenFound lessens the fours of near rows that masks say.
func (kind pairKind) lessenFound(x *pairRows, height, ld int) {
	const piece = 8 // bytes of two quads
	groups, count := ld/pairGroup, 0
	for r := range height {
		row := x.bytes[r*ld:][:ld]
		for g, m := range x.masks[r*groups:][:groups] {
			for m != 0 {
				at := bits.TrailingZeros32(m) &^ (piece - 1)
				m &^= (1<<piece - 1) << at
				at += g * pairGroup
				count = kind.lessenFours((*[8]byte)(row[at:]), uint32(at*Panel), x.list, count)
			}
		}
		x.ends[r] = count
	}
}

// widenFew multiplies a few quads of rows by integers of 16 bits.
//
//go:noinline
func (k Kernels) widenFew(x *pairPart, a *byte, rows []int) {
	var near [4 * Height * fewQuads]int16 // less to clear
	k.widenPart(x, near[:], a, rows)
}

//go:noinline
func (k Kernels) widenMany(x *pairPart, a *byte, rows []int) {
	var near [4 * Height * nearQuads]int16
	k.widenPart(x, near[:], a, rows)
}

func (k Kernels) widenPart(x *pairPart, near []int16, a *byte, rows []int) {
	params := tileParams{ldc: x.params.ldc, ldb: x.params.ldb}
	most := len(near) / (4 * Height)
	for first := 0; first < len(rows); first += Height {
		some := rows[first:min(first+Height, len(rows))]
		start, c := x.at()
		start, c = advance(start, first*x.params.lds/4), advance(c, first*x.p.LDC)
		params.lds = x.params.lds
		for at := 0; at < x.params.quads; at += most {
			n := min(most, x.params.quads-at)
			params.quads, params.lda = n, 8*n
			k.widenSome(x.p, near, a, some, x.q+at, n)
			k.callPanels(x.p.Signed, len(some), 1, &params, &near[0], advance(x.b, at*4*Panel), start, c, x.panels)
			start, params.lds = c, x.params.ldc
		}
	}
}
