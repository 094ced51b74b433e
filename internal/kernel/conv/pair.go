package conv

import (
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// PairSpec describes a convolution with a single tap, Point, of stride 1 and without padding, and a depthwise one, Depth, of what that makes. What Post gets as
// the number of a block is one within a slab of blocks.
type PairSpec struct{ Point, Depth Spec }

// A Pair is a convolution with a single tap and the depthwise one behind it as one unit: what the first makes never lies in memory as a whole. The unit
// goes through bands of rows of the result and, of each, through slabs of channel blocks: it computes the rows of the slab that the band's windows
// reach into scratch memory that the second-level cache holds, and the band from these. Rows that windows of two bands reach are computed twice.
// Sums are those of the two plans apart, in the same order, so that results have the same bits, however they are cut. It is immutable and
// safe for concurrent use.
//
// On an AMD Zen 3, whose third-level cache holds what is between, 16 to 96 channels of 112x112 pixels with 3x3 taps behind, at a stride of 2, take 0.79
// to 0.83 of the time of the two apart, and 16 to 64 of 160x160 0.65; maps of less than five second-level caches 0.96 to 1.08: PairPays.
type Pair struct {
	spec                                 PairSpec
	bands                                []band
	slab                                 int // output channel blocks of a slab
	slabs                                int
	work                                 int // floats of scratch memory
	cost                                 int64
	pointFloats, depthFloats, biasFloats int // of weights of a whole slab, and of its bias
}

// band is a band of rows of the result: [to, to+rows), which reads rows [from, from+reads) of what is between.
type band struct {
	from, reads, to, rows int
	plans                 [2]slabPlans // of whole slabs, and of the last one
}

type slabPlans struct{ point, depth *Plan }

// PairPays reports whether a Pair is faster than its two convolutions apart where what is between has so many bytes, of all images: where the
// second-level cache is far from holding it. On an AMD Zen 3 (512 KiB, 32 MiB of third level) one thread takes 0.96 to 1.08 of the time at 0.2 to 2.0 MB, 0.64
// to 0.96 at 3 to 7 MB (BenchmarkPair).
func PairPays(t isa.Target, bytes int) bool { return bytes > 5*t.SecondCache() }

// NewPair plans a pair for a target. Errors are those of NewConv; ErrUnsupported is for a pair whose parts are other convolutions.
func NewPair(t isa.Target, s PairSpec) (*Pair, error) {
	point, err := NewConv(t, s.Point)
	if err != nil {
		return nil, err
	}
	depth, err := NewConv(t, s.Depth)
	if err != nil {
		return nil, err
	}
	a, b := &point.spec, &depth.spec
	switch {
	case !a.flat() || point.order != orderDense || a.Groups != 1 || a.Pairs != pairs.Float32 || a.Residual,
		depth.kind != kindDepth || b.Transposed || b.Residual:
		return nil, failf("plan", ErrUnsupported, "a pair of %v in %d groups and %v in %d groups", a.Kernel, a.Groups, b.Kernel, b.Groups)
	case a.OC%16 == 1: // a slab of one channel would be no depthwise convolution
		return nil, failf("plan", ErrUnsupported, "a pair of %d channels", a.OC)
	case a.N != b.N || a.OC != b.C || a.OH != b.H || a.OW != b.W:
		return nil, failf("plan", ErrShape, "%d channels of %dx%d, and %d of %dx%d are read", a.OC, a.OH, a.OW, b.C, b.H, b.W)
	}
	p := &Pair{spec: PairSpec{*a, *b}, slab: point.tiles[0].count}
	p.slabs = ceilDiv(blocksOf(a.OC), p.slab)
	p.pointFloats, p.depthFloats, p.biasFloats = p.slab*int(point.proto.wOC)/4, p.slab*int(depth.proto.wBlk)/4, 16*p.slab
	p.cut(t)
	for i := range p.bands {
		if err := p.bands[i].plan(t, p, i); err != nil {
			return nil, err
		}
	}
	p.cost = point.cost + depth.cost
	return p, nil
}

// cut decides about the rows of bands: what they read of the source, and what is between, fit two thirds of the second-level cache.
func (p *Pair) cut(t isa.Target) {
	a, b := &p.spec.Point, &p.spec.Depth
	row := 64 * a.W * (blocksOf(a.C) + p.slab)
	reads := max(1, 2*t.SecondCache()/3/row)
	window := (b.Kernel[0]-1)*b.Dilate[0] + 1
	rows := max(1, (reads-window)/b.Stride[0]+1)
	n := ceilDiv(b.OH, rows)
	for i := range n {
		to, end := b.OH*i/n, b.OH*(i+1)/n
		from := min(max(0, to*b.Stride[0]-b.Pad[0]), b.H-1)
		last := max(from+1, min(b.H, (end-1)*b.Stride[0]-b.Pad[0]+window))
		p.bands = append(p.bands, band{from: from, reads: last - from, to: to, rows: end - to})
		p.work = max(p.work, 16*a.W*(last-from)*p.slab)
	}
}

// plan plans a band, as one before it where they are alike.
func (d *band) plan(t isa.Target, p *Pair, i int) error {
	a, b := p.spec.Point, p.spec.Depth
	top := b.Pad[0] - d.to*b.Stride[0] + d.from
	for _, e := range p.bands[:i] {
		if e.reads == d.reads && e.rows == d.rows && b.Pad[0]-e.to*b.Stride[0]+e.from == top {
			d.plans = e.plans
			return nil
		}
	}
	a.srcPlane, b.dstPlane = 16*a.H*a.W, 16*b.OH*b.OW
	a.N, b.N, a.SrcImage, a.DstImage, b.SrcImage, b.DstImage, a.ResImage, b.ResImage = 1, 1, 0, 0, 0, 0, 0, 0
	a.H, a.OH, b.H, b.OH = d.reads, d.reads, d.reads, d.rows
	b.Pad[0] = top
	for k := range d.plans {
		channels := 16 * p.slab
		if k == 1 {
			channels = a.OC - channels*(p.slabs-1)
		}
		x, y := a, b
		x.OC, y.C, y.OC, y.Groups = channels, channels, channels, channels
		var err error
		if d.plans[k].point, err = NewConv(t, x); err != nil {
			return err
		}
		if d.plans[k].depth, err = NewConv(t, y); err != nil {
			return err
		}
	}
	return nil
}

// PairTensors are the operands of a Pair, as those of a Plan for each.
type PairTensors struct {
	Src, PointWeights, PointBias, DepthWeights, DepthBias, Dst []float32
}

// Chunks returns the number of chunks that Run accepts.
func (p *Pair) Chunks() int { return p.spec.Point.N * len(p.bands) * p.slabs }

// WeightFloats returns the lengths of the packed weights of both, which are those of a Plan for each.
func (p *Pair) WeightFloats() (point, depth int) {
	blocks := blocksOf(p.spec.Point.OC)
	return blocks * p.pointFloats / p.slab, blocks * p.depthFloats / p.slab
}

// Workspace returns the floats of scratch memory of a goroutine.
func (p *Pair) Workspace() int { return p.work }

// Cost is as Plan.Cost.
func (p *Pair) Cost() int64 { return p.cost }

// check returns an error where a slice is too short for the convolutions as wholes.
func (p *Pair) check(work []float32, t *PairTensors) error {
	a, b := &p.spec.Point, &p.spec.Depth
	blocks := blocksOf(a.OC)
	for _, x := range []struct {
		name      string
		have, min int
		want      bool
	}{
		{"scratch memory", len(work), p.work, true},
		{"source", len(t.Src), (a.N-1)*a.SrcImage + 16*blocksOf(a.C)*a.H*a.W, true},
		{"destination", len(t.Dst), (b.N-1)*b.DstImage + 16*blocks*b.OH*b.OW, true},
		{"weights of the single tap", len(t.PointWeights), blocks * p.pointFloats / p.slab, true},
		{"depthwise weights", len(t.DepthWeights), blocks * p.depthFloats / p.slab, true},
		{"bias of the single tap", len(t.PointBias), 16 * blocks, t.PointBias != nil},
		{"depthwise bias", len(t.DepthBias), 16 * blocks, t.DepthBias != nil},
	} {
		if x.want && x.have < x.min {
			return failf("run", ErrBuffer, "%s has %d floats, needs %d", x.name, x.have, x.min)
		}
	}
	return nil
}

// Run computes chunks [lo, hi) out of Chunks() with scratch memory of Workspace() floats. Dst must not overlap Src. Errors are those of Plan.Run.
func (p *Pair) Run(lo, hi int, work []float32, t *PairTensors) error {
	if lo < 0 || hi > p.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, p.Chunks())
	}
	if err := p.check(work, t); err != nil {
		return err
	}
	a, b := &p.spec.Point, &p.spec.Depth
	for i := lo; i < hi; i++ {
		g, n := i%p.slabs, i/p.slabs/len(p.bands)
		d := &p.bands[i/p.slabs%len(p.bands)]
		plans := &d.plans[0]
		if g == p.slabs-1 {
			plans = &d.plans[1]
		}
		x := Tensors{Src: t.Src[n*a.SrcImage+16*d.from*a.W:], Weights: t.PointWeights[g*p.pointFloats:], Dst: work}
		y := Tensors{Src: work, Weights: t.DepthWeights[g*p.depthFloats:], Dst: t.Dst[n*b.DstImage+16*(g*p.slab*b.OH+d.to)*b.OW:]}
		if t.PointBias != nil {
			x.Bias = t.PointBias[g*p.biasFloats:]
		}
		if t.DepthBias != nil {
			y.Bias = t.DepthBias[g*p.biasFloats:]
		}
		if err := plans.point.Run(0, plans.point.Chunks(), &x); err != nil {
			return err
		}
		if err := plans.depth.Run(0, plans.depth.Chunks(), &y); err != nil {
			return err
		}
	}
	return nil
}

// Shape returns the sizes of the destination: images, channels, height and width.
func (p *Pair) Shape() (n, c, oh, ow int) {
	s := &p.spec.Depth
	return s.N, s.OC, s.OH, s.OW
}
