package winograd

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/gemm"
)

// check returns an error for buffers that are too short.
func (p *Plan) check(work []float32, t *conv.Tensors) error {
	s := &p.spec
	dst := channels(s.OC) * s.OH * s.OW
	for _, b := range []struct {
		name      string
		have, min int
		want      bool
	}{
		{"source", len(t.Src), (s.N-1)*s.SrcImage + channels(s.C)*s.H*s.W, true},
		{"destination", len(t.Dst), (s.N-1)*s.DstImage + dst, true},
		{"residual", len(t.Residual), (s.N-1)*s.ResImage + dst, s.Residual},
		{"weights", len(t.Weights), p.WeightFloats(), true},
		{"bias", len(t.Bias), p.BiasFloats(), t.Bias != nil},
		{"workspace", len(work), p.Workspace(), true},
	} {
		if b.want && b.have < b.min {
			return &conv.Error{Op: "run", What: fmt.Sprintf("%s has %d floats, needs %d", b.name, b.have, b.min), Cause: conv.ErrBuffer}
		}
	}
	return nil
}

// run is a call of Run.
type run struct {
	*Plan
	t                     conv.Tensors // a copy: a pointer would escape
	source, product, temp []float32
	in                    inputCall
	out                   outputCall
}

// Run computes chunks [lo, hi) out of Chunks(). Dst must not overlap Src; Residual may be Dst. work is scratch memory of the
// calling goroutine, of Workspace() floats. The error is a *conv.Error: conv.ErrBuffer for a short slice, or conv.ErrShape for
// a range outside the chunks; nothing is written then.
func (p *Plan) Run(lo, hi int, work []float32, t *conv.Tensors) error {
	if lo < 0 || hi > p.Chunks() || lo > hi {
		return &conv.Error{Op: "run", What: fmt.Sprintf("chunks [%d, %d) of %d", lo, hi, p.Chunks()), Cause: conv.ErrShape}
	}
	if err := p.check(work, t); err != nil || lo == hi {
		return err
	}
	r := run{Plan: p, t: *t, source: work[:p.source], product: work[p.source:][:p.product], temp: work[p.source+p.product:][:p.temp]}
	r.prepare()
	have := -1
	for i := lo; i < hi; i++ {
		at := i / len(p.groups)
		n, b := at/len(p.blocks), at%len(p.blocks)
		if at != have {
			r.transform(n, p.blocks[b])
			have = at
		}
		g := p.groups[i%len(p.groups)]
		r.multiply(p.products[b][i%len(p.groups)], g)
		r.results(n, p.blocks[b], g)
		if p.spec.Post != nil {
			r.post(n, p.blocks[b], g)
		}
	}
	return nil
}

// prepare fills the fields of calls that do not change.
func (r *run) prepare() {
	s := &r.spec
	temp := unsafe.Pointer(&r.temp[0])
	r.in = inputCall{temp: temp, plane: 64 * s.H * s.W, point: 4 * r.sourcePoint}
	r.out = outputCall{temp: temp, point: 4 * r.productPoint, plane: 64 * s.OH * s.OW, row: 64 * s.OW, flags: limits(&s.Epilogue), lo: s.Lo, hi: s.Hi}
	for i := range r.lanes {
		r.out.mask[i] = math.MaxUint32
	}
}

// inside returns a mask of which of count places from first on lie in [0, size).
func inside(first, count, size int) (mask int) {
	for i := range count {
		if first+i >= 0 && first+i < size {
			mask |= 1 << i
		}
	}
	return mask
}

// transform transforms the source of a block of tiles of image n.
func (r *run) transform(n int, b block) {
	s, c, side := &r.spec, &r.in, r.m+2
	c.src = unsafe.Pointer(&r.t.Src[n*s.SrcImage])
	for i := range b.tiles() {
		y, x := (b.row+i/b.cols)*r.m-s.Pad[0], (b.col+i%b.cols)*r.m-s.Pad[1]
		c.rows, c.cols = inside(y, side, s.H), inside(x, side, s.W)
		for k := range side {
			c.off[k] = 64 * ((y+k)*s.W + x)
		}
		c.dst, c.blocks = unsafe.Pointer(&r.source[i*r.sourceRow]), r.sourceRow/16
		transformInput(r.target.Set, r.m, c)
	}
}

// multiply computes the products of all points with a group of output channels.
func (r *run) multiply(plan *gemm.Plan, g group) {
	chunks := plan.Chunks()
	first := 16 * g.first * r.spec.C
	weights := r.t.Weights[first:]
	for p := range r.weights.points() {
		x := gemm.Args{A: r.source[p*r.sourcePoint:], B: weights, C: r.product[p*r.productPoint:]}
		if p+1 < r.weights.points() {
			weights = weights[r.weights.point():]
			x.Next = weights
		}
		plan.Run(0, chunks, x)
	}
}

// results makes the results of a block of tiles of image n and a group of output channels from the products.
func (r *run) results(n int, b block, g group) {
	s, c := &r.spec, &r.out
	c.last = c.flags
	if r.lanes < 16 && g.first+g.count == r.BiasFloats()/16 {
		c.last |= flagMask
	}
	c.bias = unsafe.Pointer(&r.zeros[0])
	if r.t.Bias != nil {
		c.bias = unsafe.Pointer(&r.t.Bias[16*g.first])
	}
	plane := 16 * g.first * s.OH * s.OW
	for i := range b.tiles() {
		y, x := (b.row+i/b.cols)*r.m, (b.col+i%b.cols)*r.m
		at := plane + 16*(y*s.OW+x)
		c.rows, c.cols, c.blocks = min(r.m, s.OH-y), min(r.m, s.OW-x), g.count
		c.src = unsafe.Pointer(&r.product[i*16*g.count])
		c.dst = unsafe.Pointer(&r.t.Dst[n*s.DstImage+at])
		if s.Residual {
			c.res = unsafe.Pointer(&r.t.Residual[n*s.ResImage+at])
		}
		transformOutput(r.target.Set, r.m, c)
	}
}

// post calls the hook on the results of a block of tiles and a group of output channels, and clears the lanes that have no
// channel.
func (r *run) post(n int, b block, g group) {
	s := &r.spec
	y0, y1 := b.row*r.m, min((b.row+b.rows)*r.m, s.OH)
	x0, x1 := b.col*r.m, min((b.col+b.cols)*r.m, s.OW)
	rows, high := y1-y0, 1
	if x0 == 0 && x1 == s.OW {
		rows, high = 1, y1-y0
	}
	for k := range g.count {
		plane := n*s.DstImage + 16*(g.first+k)*s.OH*s.OW
		for y := range rows {
			at := plane + 16*((y0+y)*s.OW+x0)
			size := 16 * (x1 - x0 + (high-1)*s.OW)
			done := r.t.Dst[at : at+size : at+size]
			s.Post(done, g.first+k)
			if r.lanes < 16 && 16*(g.first+k+1) == r.BiasFloats() {
				conv.ClearLanes(done, r.lanes)
			}
		}
	}
}
