package conv

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/amx"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Convolutions of bfloat16 with a single tap are matrix products by tiles (package amx), where the target has them and pixels have their channels
// beside each other (Pixels). Weights are those of Blocked: there is one tap between blocks of channels.

const (
	tileWork  = 6 << 20 // products of words in a chunk, at most: some 20 µs
	tileSpeed = 4       // how many times faster than other kernels they are, at least
)

// TakesPixels reports whether a convolution is one of Pixels on a target, but for its source and strides: who makes the source has only the pixels that it reads.
func TakesPixels(t isa.Target, s *Spec) bool {
	return t.BFloat16Tiles() && s.Pairs == pairs.BFloat16 && s.Source != Planar && s.Groups <= 1 && s.points()
}

// buildPixels is build of a convolution of Pixels.
func (p *Plan) buildPixels() error {
	if err := p.sizes(); err != nil {
		return err
	}
	p.tileChunks(p.spec.H*p.spec.W, p.blocks*p.spec.lanes())
	return nil
}

// tileChunks divides a convolution by tiles: its blocks of results, and its units, each of so many products of words by a result.
func (p *Plan) tileChunks(units, words int) {
	blocks := blocksOf(p.spec.OC)
	count := ceilDiv(blocks, amx.MatrixPanels)
	for i := range count + 1 {
		p.groups = append(p.groups, int32(blocks*i/count))
	}
	p.unitChunks = ceilDiv(units, max(1, tileWork/(amx.MatrixPanels*amx.Panel*words)))
	p.chunkUnits = ceilDiv(units, p.unitChunks)
	if p.spec.Source == Pixels {
		p.chunkUnits = ceilDiv(p.chunkUnits, amx.MatrixRows) * amx.MatrixRows
	}
	p.unitChunks = ceilDiv(units, p.chunkUnits)
	p.splits, p.units = 1, units
	p.cost = int64(p.spec.N) * int64(units) * int64(blocks) * int64(words) / tileSpeed
}

// runTiles is Run of a convolution by tiles.
func (p *Plan) runTiles(lo, hi int, t *Tensors) {
	groups := len(p.groups) - 1
	for i := lo; i < hi; i++ {
		u, g := i%p.unitChunks*p.chunkUnits, i/p.unitChunks%groups
		n, first, end, until := i/p.unitChunks/groups, int(p.groups[g]), int(p.groups[g+1]), min(u+p.chunkUnits, p.units)
		if p.spec.Source == Pixels { // called by name, so that t stays on the caller's stack
			p.pixelChunk(t, n, first, end, u, until)
		} else {
			p.windowChunk(t, n, first, end, u, until)
		}
	}
}

// pixelChunk computes pixels [from, to) of an image and blocks [first, end) of its results.
func (p *Plan) pixelChunk(t *Tensors, n, first, end, from, to int) {
	s := &p.spec
	words := p.blocks * s.lanes()
	w := amx.Borrow(t.biases(first, end))
	defer w.Return()
	m := amx.Matrix{LDA: 4 * words, LDC: 4 * amx.Panel * (end - first), Words: words, Panels: end - first, Work: w}
	f := p.finisher(first, end)
	weights := unsafe.Pointer(&t.Weights[first*words*16])
	for at := from; at < to; at += amx.WorkRows {
		f.Rows = min(amx.WorkRows, to-at)
		m.Multiply(f.Rows, unsafe.Pointer(&t.Src[n*s.SrcImage+at*words]), weights, unsafe.Pointer(&w.Sums))
		p.finish(&f, t, n, first, at, unsafe.Pointer(&w.Sums))
	}
	p.posted(t, n, first, end, from, to)
}

// biases returns those of blocks [first, end), nil for none.
func (t *Tensors) biases(first, end int) []float32 {
	if t.Bias == nil {
		return nil
	}
	return t.Bias[16*first : 16*end]
}

// finisher returns what writes sums of blocks [first, end), pixels in a row, to the results.
func (p *Plan) finisher(first, end int) amx.Finish {
	s := &p.spec
	plane := 64 * s.OH * s.OW
	f := amx.Finish{Panels: end - first, LDS: 64 * (end - first), LDR: 64, LDC: 64, PanelR: plane, PanelC: plane, Sums: 0xffff, Stored: 0xffff,
		Lo: float32(math.Inf(-1)), Hi: float32(math.Inf(1))}
	if end > p.lastBlock {
		f.Sums = 1<<p.tailLanes - 1
	}
	lower, upper := s.Limits()
	if lower {
		f.Lo = s.Lo
	}
	if upper {
		f.Hi = s.Hi
	}
	return f
}

// finish writes sums that begin with a pixel of an image and a block.
func (p *Plan) finish(f *amx.Finish, t *Tensors, n, block, pixel int, sums unsafe.Pointer) {
	s := &p.spec
	at := 16 * (block*s.OH*s.OW + pixel)
	var res unsafe.Pointer
	if s.Residual {
		res = unsafe.Pointer(&t.Residual[n*s.ResImage+at])
	}
	f.Run(sums, res, unsafe.Pointer(&t.Dst[n*s.DstImage+at]))
}

// posted hands pixels [from, to) of blocks [first, end) to Post.
func (p *Plan) posted(t *Tensors, n, first, end, from, to int) {
	if s := &p.spec; s.Post != nil {
		p.post(t.Dst, n*s.DstImage+16*first*s.OH*s.OW, &channelTile{tileShape: tileShape{count: end - first}, block: first}, 16*from, 16*to)
	}
}
