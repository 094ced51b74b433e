package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
)

// Depthwise convolutions of 8-bit integers. Where there are kernels that round sums as they make them, and images have their channels
// last, a worker keeps the rows that windows see at a time, padded, in memory of its own.

// tapped are the weights of a depthwise convolution, less their zero points: by block of 16 channels, and their sums.
type tapped struct {
	blocks [][]int16
	sums   []int32
}

// tapWeights returns the constant weights of a depthwise convolution.
func tapWeights(c *integerConv, w integerOperand) (*tapped, error) {
	all, zeros := w.constants()
	if err := c.fitChannels(all); err != nil {
		return nil, err
	}
	t := &tapped{blocks: make([][]int16, quant.Panels(c.groups)), sums: make([]int32, c.width)}
	for b := range t.blocks {
		t.blocks[b] = make([]int16, c.blockTaps())
		c.tapBlock(t.blocks[b], t.sums[b*quant.Panel:][:quant.Panel], b, all, zeros, w.signed())
	}
	return t, nil
}

// blockTaps is how many weights a block of 16 channels has.
func (c *integerConv) blockTaps() int { return quant.Panel * len(c.taps.Offsets) }

// tapBlock writes block b of weights [channel][tap], less their zero points, and their sums.
func (c *integerConv) tapBlock(dst []int16, sums []int32, b int, all, zeros []byte, signed bool) {
	taps := c.allTaps()
	clear(sums)
	quant.TapWeights(dst, taps, func(tap, channel int) int16 {
		ch := b*quant.Panel + channel
		if ch >= c.groups {
			return 0
		}
		x := int16(zeroPoint(all, ch*taps+tap, signed) - zeroPoint(zeros, ch, signed))
		sums[channel] += int32(x)
		return x
	})
}

// block returns weights of a depthwise convolution as tapBlock writes them.
func (c *integerConv) block(st *state, b int) []int16 {
	if c.tapped != nil {
		return c.tapped[b]
	}
	return of[int16](st, c.late.taps)[b*c.blockTaps():][:c.blockTaps()]
}

// fitChannels returns an error where weights are not those of a depthwise convolution.
func (c *integerConv) fitChannels(weights []byte) error {
	if len(weights) != c.allTaps()*c.groups {
		return fmt.Errorf("%w: %d weights for %d channels", tensor.ErrShape, len(weights), c.groups)
	}
	return nil
}

// channelWeights returns constant weights [channel][tap] of a depthwise convolution, less their zero points.
func (c *integerConv) channelWeights(w integerOperand) ([]int16, error) {
	all, zeros := w.constants()
	if err := c.fitChannels(all); err != nil {
		return nil, err
	}
	out, taps := make([]int16, len(all)), c.allTaps()
	for i := range all {
		out[i] = int16(zeroPoint(all[i:i+1], 0, w.signed()) - zeroPoint(zeros, i/taps, w.signed()))
	}
	return out, nil
}

// mostRows is the most rows that windows may see at a time.
const mostRows = 16

// roundsByRow reports whether a convolution may be one whose rows of results are made and rounded one after the other: a depthwise one of images with their
// channels last, with one constant zero point, by constant weights.
func (c *integerConv) roundsByRow(x, w integerOperand, y *graph.Value, r *roundedSums) bool {
	_, ok := x.constantZero()
	return ok && w.constant() && c.depthwise && !r.act.some && x.v.Format == lastChannels && y.Format == lastChannels && c.seen() <= mostRows
}

// weightsAndStarts returns the weights [channel][tap] of such a convolution, less their zero points, and what the sums of its channels begin with where by is
// added to pixels.
func (c *integerConv) weightsAndStarts(x, w integerOperand, r *roundedSums, by int) (all []int16, start []int32, err error) {
	if all, err = c.channelWeights(w); err != nil {
		return nil, nil, err
	}
	zero, _ := x.constantZero()
	taps := c.allTaps()
	start = make([]int32, c.groups)
	copy(start, r.add)
	for i, x := range all {
		start[i/taps] -= int32(x) * int32(zero+by)
	}
	return all, start, nil
}

// filters returns what kernels that round sums take of a depthwise convolution, nil where they do not run it.
func (p *planner) filters(c *integerConv, x, w integerOperand, y *graph.Value, r *roundedSums) (*quant.Filters, error) {
	if !p.integers.Weighs() || !c.roundsByRow(x, w, y, r) {
		return nil, nil
	}
	by := shift(x.signed(), true) // kernels read unsigned pixels
	f, err := keep(p.e, p.Node, func() (*quant.Filters, error) {
		all, start, err := c.weightsAndStarts(x, w, r, by)
		if err != nil {
			return nil, err
		}
		f, _ := quant.NewFilters(c.groups, c.Kernel[0]*c.Kernel[1], all, start, r.rounding())
		return f, nil
	})
	if f != nil {
		c.shift, c.width = by, c.groups
	}
	return f, err
}

// seen returns how many rows of the padded image a window reaches over.
func (c *integerConv) seen() int { return reachOf(c.Map, 0, 1) }

// emitFilters emits a depthwise convolution of images with their channels last.
func (p *planner) emitFilters(c *integerConv, f *quant.Filters, x integerOperand, dst place.Memory) {
	channels, line := c.groups, c.cols*c.groups
	lines, offsets := p.scratch(c.seen()*line), p.scratch(8*f.Taps())
	src, kernels := x.at, p.integers
	zero, _ := x.constantZero()
	nanos := float64(c.OW*channels*f.Taps())*0.015 + float64(line)*0.03
	p.emit(step{work: 1, chunks: c.images * c.OH, grain: grainFor(nanos), body: func(st *state, worker, lo, hi int) {
		near, taps := lines.bytes(st, worker), asInts(offsets.bytes(st, worker))[:f.Taps()]
		for next := 0; lo < hi; lo++ {
			image, y := st.Bytes(src)[lo/c.OH*c.H*c.W*channels:][:c.H*c.W*channels], lo%c.OH
			first := y * c.Stride[0]
			if y == 0 {
				next = 0
			}
			for next = max(next, first); next < first+c.seen(); next++ {
				c.padLine(kernels, near[next%c.seen()*line:][:line], image, next-c.Pad[0], byte(zero))
			}
			for i := range taps {
				tap := min(i, c.Kernel[0]*c.Kernel[1]-1) // those behind have no weight
				row := first + tap/c.Kernel[1]*c.Dilate[0]
				taps[i] = row%c.seen()*line + tap%c.Kernel[1]*c.Dilate[1]*channels
			}
			kernels.Weigh(f, st.Bytes(dst)[lo*c.OW*channels:], channels, near, c.Stride[1]*channels, taps, c.OW)
		}
	}}, []place.Memory{src}, []place.Memory{dst, lines.at, offsets.at})
}

// padLine writes row y of an image of pixels, padded, of the signedness that kernels read.
func (c *integerConv) padLine(kernels quant.Kernels, line, image []byte, y int, pad byte) {
	if size := c.W * c.groups; y < 0 || y >= c.H {
		fill(line, pad)
	} else {
		c.pixelLine(line, image[y*size:][:size], pad)
	}
	if c.shift != 0 {
		kernels.Flip(line, line)
	}
}
