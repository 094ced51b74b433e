package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/place"
)

// A convolution of few channels and taps and many results over one axis, such as the first of those that read sound, is a product, so that its results, which take
// longer to be moved than to be computed, are stored row-major at once: weights [OC, channels and taps] times what the taps of each position read. That is
// brought into panels for some positions at a time, which stay in the caches. On an AMD Zen 3, 512 results of 10 taps at stride 5 of 16000 numbers take 0.55 of the
// time that blocked ones take which are made row-major by pieces (linePieces), 128 results 0.9 to 0.95, and 64 1.1.
const (
	mostLineTaps     = 64 // channels times taps
	leastLineResults = 128
)

// shortLine reports whether a convolution of few channels has such weights.
func shortLine(w *graph.Value) bool {
	d, static := w.Type.Shape.Static()
	return static && len(d) == 3 && d[1]*d[2] <= mostLineTaps && d[0] >= leastLineResults
}

// Positions of a part: what their taps read takes this share of the second-level cache at most, and so many multiply-adds are done with it.
const (
	lineShare = 4
	lineSteps = 16 << 20
)

// lineColumns is what the taps of a convolution over one axis read.
type lineColumns struct {
	channels, taps, stride, dilation int
	first, width                     int // what the first tap of the first position reads in a row of the source, and how many numbers that has
	ones                             bool
	target                           isa.Target
}

// rows returns how many numbers a position has.
func (l *lineColumns) rows() int {
	n := l.channels * l.taps
	if l.ones {
		n++
	}
	return n
}

// panel writes a panel of count positions from one on: a row of 16 for each number, of ones at first where the bias is a product with these.
func (l *lineColumns) panel(dst, src []float32, from, count int) {
	if l.ones {
		for i := range gemm.Panel {
			dst[i] = 1
		}
		dst = dst[gemm.Panel:]
	}
	first := l.first + from*l.stride
	inside := first >= 0 && first+(count-1)*l.stride+(l.taps-1)*l.dilation < l.width
	for c := range l.channels {
		switch row := src[c*l.width:][:l.width]; {
		case !inside:
			for k := range l.taps {
				for i := range count {
					dst[k*gemm.Panel+i] = 0
					if at := first + i*l.stride + k*l.dilation; at >= 0 && at < l.width {
						dst[k*gemm.Panel+i] = row[at]
					}
				}
			}
		case l.stride == 1:
			gemm.PackB(l.target, dst, row[first:], l.taps, count, l.dilation) // rows of the product overlap in the source
		case l.stride < 4 || l.dilation > 1:
			for k := range l.taps {
				for i := range count {
					dst[k*gemm.Panel+i] = row[first+i*l.stride+k*l.dilation]
				}
			}
		default:
			for k := 0; k < l.taps; k += l.stride {
				reorder.Transpose2D(l.target, dst[k*gemm.Panel:], row[first+k:], count, min(l.stride, l.taps-k), l.stride, gemm.Panel)
			}
		}
		dst = dst[l.taps*gemm.Panel:]
	}
}

// lineProduct emits such a convolution with its tail.
func (p *planner) lineProduct(s *conv.Spec, in []*graph.Value, out *graph.Value, t tail) error {
	if err := s.Check(); err != nil {
		return err
	}
	l := lineColumns{channels: s.C, taps: s.Kernel[1], stride: s.Stride[1], dilation: s.Dilate[1], first: -s.Pad[1], width: s.W, ones: len(in) > 2 && in[2] != nil, target: p.target}
	src := p.In(in[0])
	weights, read := p.lineWeights(&l, s.OC, in)
	rows := l.rows()
	part := max(1, min(p.target.SecondCache()/lineShare/(64*rows), lineSteps/(gemm.Panel*s.OC*rows))) * gemm.Panel
	parts := ceilDiv(s.OW, part)
	if p.e.threads > 1 {
		parts = max(parts, ceilDiv(4*p.e.threads, s.N))
	}
	part = ceilDiv(ceilDiv(s.OW, parts), gemm.Panel) * gemm.Panel
	parts = ceilDiv(s.OW, part)
	var plans [2]*gemm.Plan // of a whole part, and of the last
	for i, n := range [2]int{min(part, s.OW), s.OW - (parts-1)*part} {
		product := gemm.Spec{M: s.OC, N: n, K: rows, LDC: s.OW, Post: t.postRows(p.kernels)}
		if t.act.clip {
			product.Clip, product.Lo, product.Hi = true, t.act.lo, t.act.hi
		}
		var err error
		if plans[i], err = gemm.NewPlan(p.target, product); err != nil {
			return err
		}
	}
	dst, room, ow, image, result := p.Out(out), p.scratch(4*part*rows), s.OW, s.C*s.W, s.OC*s.OW
	chunks := s.N * parts
	p.emit(step{work: 1, chunks: chunks, grain: grainFor(float64(2*plans[0].Cost()) / 60), body: func(st *state, worker, lo, hi int) {
		x, y, columns := st.F32(src), st.F32(dst), room.floats(st, worker)
		for i := lo; i < hi; i++ {
			n, from := i/parts, i%parts*part
			plan := plans[0]
			if from+part >= ow {
				plan = plans[1]
			}
			for at := from; at < min(from+part, ow); at += gemm.Panel {
				l.panel(columns[(at-from)*rows:][:gemm.Panel*rows], x[n*image:], at, min(gemm.Panel, ow-at))
			}
			plan.Run(0, plan.Chunks(), gemm.Args{A: weights(st), B: columns, C: y[n*result+from:]})
		}
	}}, append(read, src), []place.Memory{dst, room.at})
	return nil
}

// lineWeights returns what gives the weights of the product, whose rows begin with the bias where there is one, and the memory that it reads.
func (p *planner) lineWeights(l *lineColumns, results int, in []*graph.Value) (func(st *state) []float32, []place.Memory) {
	w := in[1]
	at := func(m place.Memory) (func(st *state) []float32, []place.Memory) {
		return func(st *state) []float32 { return st.F32(m) }, []place.Memory{m}
	}
	src := func() place.Memory {
		if w.IsConst() {
			return p.ConstantIn(w, w.Format, 4*results*l.channels*l.taps)
		}
		return p.In(w)
	}
	join := func(dst, weights, bias []float32) {
		row := l.channels * l.taps
		for i := range results {
			dst[i*(row+1)] = bias[i]
			copy(dst[i*(row+1)+1:][:row], weights[i*row:])
		}
	}
	switch {
	case !l.ones:
		return at(src())
	case w.IsConst() && in[2].IsConst():
		joined := make([]float32, results*l.rows())
		join(joined, fuse.Floats(w.Const), fuse.Floats(in[2].Const))
		return func(*state) []float32 { return joined }, nil
	}
	weights, bias, dst := src(), p.In(in[2]), p.Temp(4*results*l.rows())
	p.emit(step{serial: func(st *state) { join(st.F32(dst), st.F32(weights), st.F32(bias)) }}, []place.Memory{weights, bias}, []place.Memory{dst})
	return at(dst)
}
