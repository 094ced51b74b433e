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
	pixelWork    = 6 << 20                           // products of words in a chunk, at most: some 20 µs
	pixelSpeed   = 4                                 // how many times faster than other kernels they are, at least
	pixelScratch = 64 * amx.MatrixPanels * amx.Panel // floats
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
	s := &p.spec
	blocks := blocksOf(s.OC)
	count := ceilDiv(blocks, amx.MatrixPanels)
	for i := range count + 1 {
		p.groups = append(p.groups, int32(blocks*i/count))
	}
	pixels, words := s.H*s.W, p.blocks*s.lanes()
	most := max(1, pixelWork/(amx.MatrixPanels*amx.Panel*words))
	p.unitChunks = ceilDiv(pixels, most)
	p.chunkUnits = ceilDiv(ceilDiv(pixels, p.unitChunks), amx.MatrixRows) * amx.MatrixRows
	p.unitChunks = ceilDiv(pixels, p.chunkUnits)
	p.splits = 1
	p.cost = int64(s.N) * int64(pixels) * int64(blocks) * int64(words) / pixelSpeed
	return nil
}

// pixelChunk computes pixels [from, to) of an image and blocks [first, end) of its results.
func (p *Plan) pixelChunk(t *Tensors, n, first, end, from, to int) {
	s := &p.spec
	var scratch [pixelScratch]float32
	words, plane := p.blocks*s.lanes(), s.OH*s.OW
	m := amx.Matrix{LDA: 4 * words, LDC: 4 * amx.Panel * (end - first), Words: words, Panels: end - first}
	if t.Bias != nil {
		copy(m.Start[:], t.Bias[16*first:16*end])
	}
	f := amx.Finish{Panels: m.Panels, LDS: m.LDC, LDR: 64, LDC: 64, PanelR: 64 * plane, PanelC: 64 * plane, Sums: 0xffff, Stored: 0xffff,
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
	weights := unsafe.Pointer(&t.Weights[first*words*16])
	most := pixelScratch / (amx.Panel * m.Panels) / amx.MatrixRows * amx.MatrixRows
	for at := from; at < to; at += most {
		f.Rows = min(most, to-at)
		m.Multiply(f.Rows, unsafe.Pointer(&t.Src[n*s.SrcImage+at*words]), weights, unsafe.Pointer(&scratch))
		var res unsafe.Pointer
		if s.Residual {
			res = unsafe.Pointer(&t.Residual[n*s.ResImage+16*(first*plane+at)])
		}
		f.Run(unsafe.Pointer(&scratch), res, unsafe.Pointer(&t.Dst[n*s.DstImage+16*(first*plane+at)]))
	}
	if s.Post != nil {
		p.post(t.Dst, n*s.DstImage+16*first*plane, &channelTile{tileShape: tileShape{count: end - first}, block: first}, 16*from, 16*to)
	}
}
