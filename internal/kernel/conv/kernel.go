package conv

// kernelID numbers the kernels of an instruction set. The portable ones come first, in the order of kind.
type kernelID uint8

const firstAssembly kernelID = 7

// tileKernel is a kernel and what a plan has to know of it. The generator writes it with the kernel's code.
type tileKernel struct {
	id kernelID
	geometry
	bodies []uintptr   // code of the sets of pixels that a tap may reach
	places *bodyPlaces // which of them is whose
}

// geometry of the tiles of a kernel.
type geometry struct {
	pixels int // of a tile
	group  int // of group A
	blocks int // output channel blocks
}

// pixelSet is the pixels that a tap reaches: [lo, hi), or, where pair is set, the same of both groups.
type pixelSet struct {
	lo, hi uint8
	pair   bool
}

// tilePixels is the largest number of pixels of a tile.
const tilePixels = 14

// bodyPlaces says where in a table of bodies the code for each set of pixels lies, and for each row. It is immutable.
type bodyPlaces struct {
	spans, pairs [tilePixels][tilePixels + 1]uint8 // one more than the place, 0: there is none
	end          int                               // of the end of a tap list
	rows         map[rowBody]int
}

// newPlaces numbers bodies: those of sets in their order, then the end of the list, then those of rows.
func newPlaces(sets []pixelSet, rows []rowBody) *bodyPlaces {
	p := &bodyPlaces{end: len(sets), rows: make(map[rowBody]int, len(rows))}
	for i, s := range sets {
		if s.pair {
			p.pairs[s.lo][s.hi] = uint8(i + 1)
		} else {
			p.spans[s.lo][s.hi] = uint8(i + 1)
		}
	}
	for i, r := range rows {
		p.rows[r] = p.end + 1 + i
	}
	return p
}

// of returns the place of the body for the longest beginning of an interval of pixels that there is code for, in one row or (pair) the
// same in both groups, and what of the interval is left.
func (p *bodyPlaces) of(s span, pair bool) (place int, rest span) {
	table := &p.spans
	if pair {
		table = &p.pairs
	}
	for hi := s.hi; hi > s.lo; hi-- {
		if i := table[s.lo][hi]; i > 0 {
			return int(i) - 1, span{hi, s.hi}
		}
	}
	panic("conv: no code for a pixel")
}
