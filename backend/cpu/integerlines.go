package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
)

// Depthwise convolutions of 8-bit integers by kernels that multiply words in pairs. A worker keeps the rows that windows see at a time in memory of its own: of
// each block of channels, pixels beside those that the next tap sees.

// mostLineBytes bounds that memory: it is to stay in the second-level cache.
const mostLineBytes = 1 << 20

// lineFilters returns what such kernels take of a depthwise convolution, nil where they do not run it.
func (p *planner) lineFilters(c *integerConv, x, w integerOperand, y *graph.Value, r *roundedSums) (*quant.LineFilters, error) {
	if !p.integers.WeighsLines() || c.groups < quant.Panel || !c.roundsByRow(x, w, y, r) {
		return nil, nil
	}
	f, err := keep(p.e, p.Node, func() (*quant.LineFilters, error) {
		all, start, err := c.weightsAndStarts(x, w, r, 0)
		if err != nil {
			return nil, err
		}
		shape := quant.LineShape{Channels: c.groups, Height: c.Kernel[0], Width: c.Kernel[1], Stride: c.Stride[1], Dilation: c.Dilate[1], SignedPixels: x.signed()}
		if shape.Width == 1 { // no tap is another's neighbour
			shape.Dilation = 1
		}
		return quant.NewLineFilters(shape, all, start, r.rounding()), nil
	})
	if err != nil || f.Blocks()*c.seen()*f.Positions(c.OW)*2*quant.LineWords > mostLineBytes {
		return nil, err
	}
	return f, nil
}

// emitLines emits a depthwise convolution of images with their channels last.
func (p *planner) emitLines(c *integerConv, f *quant.LineFilters, x integerOperand, dst place.Memory) {
	positions := f.Positions(c.OW)
	c.cols = max(c.cols, f.Pixels(positions)) // of which the last may have no weight
	size, seen, channels, kernels := quant.LineWords*positions, c.seen(), c.groups, p.integers
	block, padded := size*seen, c.cols*channels
	rows, words, offsets := p.scratch(2*padded), p.scratch(2*block*f.Blocks()), p.scratch(8*c.Kernel[0])
	src := x.at
	zero, _ := x.constantZero()
	from, to := max(0, -c.Pad[1]), min(c.W, c.cols-c.Pad[1]) // pixels of a row that are in a padded one
	nanos := float64(c.OW*channels*c.Kernel[0]*(c.Kernel[1]+1)/2) * 0.04
	p.emit(step{work: 1, chunks: c.images * c.OH, grain: grainFor(nanos), body: func(st *state, worker, lo, hi int) {
		row, near, lines := rows.bytes(st, worker), place.Elements[int16](words.bytes(st, worker)), asInts(offsets.bytes(st, worker))
		fill(row, byte(zero))
		row, blank := row[:padded], row[padded:] // where no row of the image is
		for next := 0; lo < hi; lo++ {
			image, y := st.Bytes(src)[lo/c.OH*c.H*c.W*channels:][:c.H*c.W*channels], lo%c.OH
			first := y * c.Stride[0]
			if y == 0 {
				next = 0
			}
			for next = max(next, first); next < first+seen; next++ {
				line := blank
				if y := next - c.Pad[0]; y >= 0 && y < c.H && from < to {
					line = row
					copy(line[(from+c.Pad[1])*channels:], image[(y*c.W+from)*channels:(y*c.W+to)*channels])
				}
				kernels.PairLine(f, near[next%seen*size:], block, line, positions)
			}
			for i := range lines[:c.Kernel[0]] {
				lines[i] = (first + i*c.Dilate[0]) % seen * size
			}
			kernels.WeighLines(f, st.Bytes(dst)[lo*c.OW*channels:][:c.OW*channels], channels, near, lines, block, c.OW)
		}
	}}, []place.Memory{src}, []place.Memory{dst, rows.at, words.at, offsets.at})
}
