package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
)

// Weights of 8 bits in blocks are taken apart into two of 4 bits each, so that kernels of these multiply them: a row has the blocks of upper
// halves, which count 16 times as much, and behind them those of lower ones, and rows of the other operand stand there twice.

// blockBytes are weights of 8 bits, a row for each column of a product, of whole blocks.
type blockBytes struct {
	bytes         []byte
	scales        []float32 // of each block
	zeros         []float32 // likewise, or one for all
	block, blocks int
}

func (b *blockBytes) width() int { return b.block * b.blocks }

// takeApart gives w, which has the blocks of a MatMulNBits of 8 bits, constant ones, the same as 4 bits.
func (p *planner) takeApart(w *nibbles, n *graph.Node) error {
	type parts struct {
		whole blockBytes
		nibble.Weights
	}
	x, err := keep(p.e, n, func() (*parts, error) {
		b, s := fuse.Behind(n.Inputs[1]).Const, fuse.Behind(n.Inputs[2]).Const
		x := &parts{whole: blockBytes{bytes: b.Bytes(), scales: fuse.Floats(s), zeros: w.Zeros, block: w.Block, blocks: w.Blocks}}
		x.Weights = x.whole.apart(w.columns)
		return x, nil
	})
	if err != nil {
		return err
	}
	w.Weights, w.whole, w.bytes, w.scales = x.Weights, &x.whole, place.Nowhere, place.Nowhere
	return nil
}

// apart returns n rows as weights of 4 bits.
func (b *blockBytes) apart(n int) nibble.Weights {
	width := b.width()
	w := nibble.Weights{Block: b.block, Blocks: 2 * b.blocks, Bytes: make([]byte, n*width), Scales: make([]float32, 2*n*b.blocks), Zeros: []float32{b.zeros[0] / 17}}
	if len(b.zeros) > 1 {
		w.Zeros = make([]float32, 2*n*b.blocks)
	}
	for r := range n {
		src, to := b.bytes[r*width:][:width], w.Bytes[r*width:][:width]
		high, low := to[:width/2], to[width/2:]
		for i := range high {
			x, y := src[2*i], src[2*i+1]
			high[i], low[i] = x>>4|y&0xf0, x&15|y<<4
		}
		for i, s := range b.scales[r*b.blocks:][:b.blocks] {
			at := 2*r*b.blocks + i
			w.Scales[at], w.Scales[at+b.blocks] = 16*s, s
			if len(b.zeros) > 1 { // of both halves together it is 17 times as much
				z := b.zeros[r*b.blocks+i] / 17
				w.Zeros[at], w.Zeros[at+b.blocks] = z, z
			}
		}
	}
	return w
}

// twofold writes x twice, with zeros behind it where a half of dst is longer.
func twofold(dst, x []float32) []float32 {
	half := len(dst) / 2
	for _, part := range [][]float32{dst[:half], dst[half:]} {
		clear(part[copy(part, x):])
	}
	return dst
}

// panel writes the first k weights of n columns from first on as a panel of floats. near has room for a panel of whole columns.
func (b *blockBytes) panel(p *planner, dst, near []float32, first, n, k int) {
	width := b.width()
	b.floats(p.integers, near, first, n)
	gemm.PackBT(p.target, dst, near, k, n, width)
}

// floats writes n rows from first on as floats.
func (b *blockBytes) floats(kernels quant.Kernels, dst []float32, first, n int) {
	for i := range n * b.blocks {
		at := first*b.blocks + i
		kernels.Dequantize(dst[i*b.block:][:b.block], b.bytes[at*b.block:][:b.block], quant.Levels{Scale: b.scales[at], Zero: int(b.zeros[min(at, len(b.zeros)-1)])})
	}
}
