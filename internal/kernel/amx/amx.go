package amx

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Kind is what the elements of A and B are.
type Kind uint8

// The kinds: integers of 8 bits, of which A's signedness is named first, with sums of int32, and bfloat16 with sums of float32.
const (
	SignedUnsigned Kind = iota
	UnsignedSigned
	BFloat16
)

const (
	// Rows is the most rows of a tile.
	Rows = 16
	// Block is how many bytes of k are multiplied at a time.
	Block = 64
	// Panel is the number of columns of a panel of B.
	Panel = 16
)

// Product is a product of some tiles of rows by panels of B. Distances are in bytes. Memory outside of what is named is neither read nor written. The
// pointers are to elements of the kind, or sums.
type Product struct {
	Kind Kind
	// LDA, LDS and LDC are the distances of rows of A, of what sums begin with and of sums; LDS of 0 begins every row with the same.
	LDA, LDS, LDC int
	// Segments says where the parts of k lie, in bytes from a row's beginning: a matrix has one at 0.
	Segments []int
	// Words is the number of words of 4 bytes of k in each segment.
	Words int
	// Panels is the number of panels, at least one, and LDB the distance of their beginnings: at least 64 times the words of all segments.
	Panels, LDB int
}

// Pair is one tile of rows, or two, of as many rows as Run says: where their first rows are in A, in what sums begin with, and in sums. The
// generator knows the offsets of the fields.
type Pair struct {
	A, Start, C [2]unsafe.Pointer
}

// call is what a kernel reads. The generator knows the offsets of the fields.
type call struct {
	pairs         *Pair
	count         int
	from          uintptr // of what sums begin with, in a pair: Start or C
	lda, lds, ldc int
	segments      *int
	parts         int // number of segments
	blocks        int // of each that are multiplied
	b             unsafe.Pointer
	ldb           int
	column        int // where the sums of the first panel lie, in bytes from a pair's
	steps         int // of one panel or two
	config        config
	stepA, stepB  int // bytes of a block, of a row of A and of a panel
	skip          int // bytes of a panel, behind the blocks of a segment
}

// config is the memory operand of LDTILECFG: palette 1, and of each tile register the bytes of its rows and their number.
type config struct {
	palette uint8
	_       [15]byte
	bytes   [16]uint16
	rows    [16]uint8
}

// callCycles bounds what is multiplied in one call, which cannot be preempted: some 20 µs. To begin one takes 250.
const callCycles = 1 << 16

// Run multiplies pairs of tiles, of so many rows each, at least one and at most 16, by the panels at b; where second is 0 pairs are single tiles.
// Each call of a kernel takes some 100 ns beside what it multiplies.
func (p *Product) Run(first, second int, pairs []Pair, b unsafe.Pointer) {
	p.run(isa.AVX512, first, second, pairs, b)
}

func (p *Product) run(set isa.Set, first, second int, pairs []Pair, b unsafe.Pointer) {
	c := call{from: unsafe.Offsetof(Pair{}.Start), lda: p.LDA, lds: p.LDS, ldc: p.LDC, segments: unsafe.SliceData(p.Segments), parts: len(p.Segments), ldb: p.LDB}
	blocks := (p.Words + Panel - 1) / Panel
	if p.Kind != BFloat16 && p.Words%blocks == 0 { // blocks of fewer words take no longer
		c.part(first, second, blocks, p.Words/blocks, 0)
		p.divide(set, c, second > 0, pairs, b)
		return
	}
	whole, rest := p.Words/Panel, p.Words%Panel
	if whole > 0 {
		c.part(first, second, whole, Panel, rest)
		p.divide(set, c, second > 0, pairs, b)
	}
	if rest == 0 {
		return
	}
	var near [64]int
	if whole > 0 { // the last words of each segment are added to the sums
		c.from, c.lds = unsafe.Offsetof(Pair{}.C), c.ldc
		last := near[:0]
		for _, s := range p.Segments {
			last = append(last, s+whole*Block)
		}
		c.segments, b = unsafe.SliceData(last), unsafe.Add(b, whole*Panel*Block)
	}
	c.part(first, second, 1, rest, whole*Panel)
	p.divide(set, c, second > 0, pairs, b)
}

// Continue has what is multiplied next added to the sums of pairs.
func (p *Product) Continue(pairs []Pair) {
	p.LDS = p.LDC
	for i := range pairs {
		pairs[i].Start = pairs[i].C
	}
}

// part sets what is multiplied of each segment: so many blocks, of tiles of so many rows and words of k, with so many words between those of two
// segments.
func (c *call) part(first, second, blocks, words, between int) {
	c.config, c.blocks = configure(first, second, words), blocks
	c.stepA, c.stepB, c.skip = 4*words, 4*Panel*words, 4*Panel*between
}

// configure returns the configuration for tiles of so many rows and words of k.
func configure(first, second, words int) config {
	c := config{palette: 1}
	for i, t := range [8]struct{ rows, words int }{{first, Panel}, {first, Panel}, {second, Panel}, {second, Panel}, {first, words}, {second, words},
		{words, Panel}, {words, Panel}} {
		if t.rows > 0 {
			c.rows[i], c.bytes[i] = uint8(t.rows), uint16(4*t.words)
		}
	}
	return c
}

// divide calls the kernels for all panels, two at a time, and all pairs.
func (p *Product) divide(set isa.Set, c call, two bool, pairs []Pair, b unsafe.Pointer) {
	tiles := 1
	if two {
		tiles = 2
	}
	cycles := c.parts * c.blocks * 4 * Rows
	for done := 0; done < p.Panels; {
		width := min(2, p.Panels-done)
		steps := min((p.Panels-done)/width, max(1, callCycles/cycles))
		c.column, c.b = 4*Panel*done, unsafe.Add(b, done*p.LDB)
		most := max(1, callCycles/(cycles*steps))
		for left := pairs; len(left) > 0; {
			n := min(most, len(left))
			c.pairs, c.count, c.steps = &left[0], n, steps
			run(set, p.Kind, tiles, width, &c)
			left = left[n:]
		}
		done += steps * width
	}
}
