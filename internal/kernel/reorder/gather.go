package reorder

import (
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Channel names a channel of one of several blocked tensors. A negative Tensor names a channel of zeros.
type Channel struct{ Tensor, Channel int }

// Source describes a blocked tensor that channels are taken from. Image is the distance between its images in floats; zero:
// it is not a slice of a bigger one.
type Source struct{ C, Image int }

// mixture says for each lane of a block which source lane it takes: the first block's come first, then the second's;
// absent: neither. Blocks of 8 use the first half.
type mixture [16]uint32

const absent = 1 << 31

// step makes lanes of an output block from two source blocks.
type step struct {
	m    mixture
	a, b blockOf
	copy bool // whole block a, unchanged
}

type blockOf struct{ tensor, block int }

// Gather is a choice of channels made ready for given shapes: out channel c is channel table[c]. Split, concat, shuffle and
// padding of channels are such choices. It is immutable and safe for concurrent use.
type Gather struct {
	block           int // channels that lie together
	n, hw, c        int
	dstImage        int
	sources         []Source
	steps           []step
	first           []int32 // steps of output block b: steps[first[b]:first[b+1]]
	set             isa.Set
	segment, pieces int
}

// Gathers reports whether there are kernels that choose channels of tensors in blocks of so many.
func Gathers(block int) bool { return block == 8 || block == 16 }

// NewGather plans a choice of channels for n images of hw pixels, from sources in layout NCHW16c, or NCHW8c where block is
// 8, to a destination of len(table) channels in that layout whose images are dstImage floats apart (zero: compact). It
// returns an *Error with ErrShape where a number is out of range. Cost: O(len(table)).
func NewGather(t isa.Target, block, n, hw int, sources []Source, table []Channel, dstImage int) (*Gather, error) {
	if !Gathers(block) {
		return nil, failf("plan", ErrShape, "blocks of %d channels", block)
	}
	if n < 1 || hw < 1 || n > maxDim || hw > maxDim || len(table) < 1 || len(table) > maxDim || float64(n)*float64(hw)*float64(len(table)+16) > maxFloats {
		return nil, failf("plan", ErrShape, "%d images, %d pixels, %d channels", n, hw, len(table))
	}
	g := &Gather{block: block, n: n, hw: hw, c: len(table), sources: append([]Source(nil), sources...), set: t.Set}
	var err error
	if g.dstImage, err = g.imageOf(len(table), dstImage); err != nil {
		return nil, err
	}
	for i := range g.sources {
		s := &g.sources[i]
		if s.C < 0 || s.C > maxDim || float64(s.C)*float64(hw)*float64(n) > maxFloats {
			return nil, failf("plan", ErrShape, "source %d has %d channels", i, s.C)
		}
		if s.Image, err = g.imageOf(s.C, s.Image); err != nil {
			return nil, err
		}
	}
	for c, from := range table {
		if from.Tensor >= len(sources) || from.Tensor >= 0 && (from.Channel < 0 || from.Channel >= sources[from.Tensor].C) {
			return nil, failf("plan", ErrShape, "channel %d is channel %d of source %d", c, from.Channel, from.Tensor)
		}
	}
	for c := 0; c < len(table); c += block {
		g.first = append(g.first, int32(len(g.steps)))
		g.addBlock(table[c:min(c+block, len(table))])
	}
	g.first = append(g.first, int32(len(g.steps)))
	g.segment = min(hw, chunkBytes/(4*block))
	g.pieces = (hw + g.segment - 1) / g.segment
	return g, nil
}

// floats returns the size of an image of c channels.
func (g *Gather) floats(c int) int { return (c + g.block - 1) / g.block * g.block * g.hw }

// imageOf returns the distance between images of c channels.
func (g *Gather) imageOf(c, given int) (int, error) {
	size := g.floats(c)
	if given == 0 {
		return size, nil
	}
	if given < size && g.n > 1 || given < 0 || float64(given)*float64(g.n) > maxFloats {
		return 0, failf("plan", ErrShape, "images %d floats apart, %d long", given, size)
	}
	return given, nil
}

// addBlock appends the steps of one output block, in the order of first use of the source blocks.
func (g *Gather) addBlock(table []Channel) {
	var blocks []blockOf
	place := map[blockOf]int{}
	for _, from := range table {
		if from.Tensor < 0 {
			continue
		}
		k := blockOf{from.Tensor, from.Channel / g.block}
		if _, ok := place[k]; !ok {
			place[k] = len(blocks)
			blocks = append(blocks, k)
		}
	}
	for i := 0; i == 0 || i < len(blocks); i += 2 {
		var s step
		if len(blocks) > 0 {
			s.a, s.b = blocks[i], blocks[min(i+1, len(blocks)-1)]
		} else {
			s.a.tensor = -1
		}
		same := len(table) == g.block && len(blocks) == 1
		for l := range s.m {
			s.m[l] = absent
			if l >= len(table) || table[l].Tensor < 0 {
				same = false
				continue
			}
			from := table[l]
			if at := place[blockOf{from.Tensor, from.Channel / g.block}]; at/2 == i/2 {
				s.m[l] = uint32(at%2*g.block + from.Channel%g.block)
			}
			same = same && from.Channel%g.block == l
		}
		s.copy = same
		g.steps = append(g.steps, s)
	}
}

// Chunks returns the number of chunks that Run accepts, at least 1.
func (g *Gather) Chunks() int { return g.n * (len(g.first) - 1) * g.pieces }

// Run gathers chunks [lo, hi) out of Chunks() into dst, which must not overlap a source. It returns an *Error with
// ErrBuffer for short or missing slices or ErrShape for a range outside the chunks; nothing is written then.
func (g *Gather) Run(lo, hi int, dst []float32, sources [][]float32) error {
	if lo < 0 || hi > g.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, g.Chunks())
	}
	if len(sources) != len(g.sources) {
		return failf("run", ErrBuffer, "%d sources, needs %d", len(sources), len(g.sources))
	}
	if need := (g.n-1)*g.dstImage + g.floats(g.c); len(dst) < need {
		return failf("run", ErrBuffer, "destination has %d floats, needs %d", len(dst), need)
	}
	for i, s := range g.sources {
		if need := (g.n-1)*s.Image + g.floats(s.C); len(sources[i]) < need {
			return failf("run", ErrBuffer, "source %d has %d floats, needs %d", i, len(sources[i]), need)
		}
	}
	blocks := len(g.first) - 1
	for i := lo; i < hi; i++ {
		b := i / g.pieces % blocks
		from := i % g.pieces * g.segment
		g.chunk(dst, sources, i/g.pieces/blocks, b, from, min(from+g.segment, g.hw))
	}
	return nil
}

// passPixels is how many pixels are made before the next step of a block reads them again: they stay in the L1 cache.
const passPixels = 128

// chunk makes pixels [p0, p1) of one output block.
func (g *Gather) chunk(dst []float32, sources [][]float32, n, b, p0, p1 int) {
	w := g.block
	at := func(s blockOf, px int) int { return n*g.sources[s.tensor].Image + (s.block*g.hw+px)*w }
	steps := g.steps[g.first[b]:g.first[b+1]]
	out := n*g.dstImage + b*g.hw*w
	if steps[0].a.tensor < 0 {
		clear(dst[out+w*p0 : out+w*p1])
		return
	}
	if steps[0].copy {
		from := at(steps[0].a, p0)
		copy(dst[out+w*p0:out+w*p1], sources[steps[0].a.tensor][from:from+w*(p1-p0)])
		return
	}
	for from := p0; from < p1; from += passPixels {
		to := min(from+passPixels, p1)
		for i := range steps {
			s := &steps[i]
			gatherLanes(g.set, w, &dst[out+w*from], &sources[s.a.tensor][at(s.a, from)], &sources[s.b.tensor][at(s.b, from)], &s.m, min(i, 1), to-from)
		}
	}
}
