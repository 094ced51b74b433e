package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/place"
)

// Products and convolutions of bfloat16 or float16 (the option precision) are those of float32 on words of two numbers (package pairs). Their weights
// are formats of constants, opaque layouts, by which the planner sees how a node is run; activations are rounded by a step in front of the
// kernel, once for each operator that multiplies them.

// withNarrow returns signatures with weights of 16 bits in the place of those in float32, where options ask for that and there are kernels
// for them.
func (b cpu) withNarrow(list []graph.Signature, n *graph.Node) []graph.Signature {
	if b.pairs == pairs.Float32 && b.weights == "f32" {
		return list
	}
	var out []graph.Signature
	for _, s := range list {
		inputs := slices.Clone(s.Inputs)
		for i, v := range n.Inputs {
			if v == nil || !v.IsConst() { // what a loop captures stays as it is
				continue
			}
			if f, ok := b.narrowFormat(inputs[i].Format, v); ok {
				inputs[i] = graph.Fixed(f)
			}
		}
		if !slices.Equal(inputs, s.Inputs) {
			s.Name, s.Inputs = s.Name+"-"+b.narrow(), inputs
		}
		out = append(out, s)
	}
	return out
}

// narrow names the type of weights of 16 bits.
func (b cpu) narrow() string {
	if b.pairs == pairs.Float32 {
		return pairs.Float16.String()
	}
	return b.pairs.String()
}

// fewWeights is how many weights are read as fast in float32: those that stay in the innermost cache.
const fewWeights = 1 << 14

// asHalf reports whether weights that are multiplied as float32 are kept as float16: all that it holds, where the option says so, or those
// that it holds as they are.
func (b cpu) asHalf(v *graph.Value) bool {
	switch b.weights {
	case "f32":
		return false
	case "f16":
		return b.halves.fit(v.Const)
	}
	return v.Const.Len() >= fewWeights && b.halves.same(v.Const, b.target)
}

// narrowFormat returns the format of weights of 16 bits for that of a value in float32.
func (b cpu) narrowFormat(f graph.Format, v *graph.Value) (g graph.Format, ok bool) {
	w := weightPacker{groups: 1, pairs: b.pairs}
	wide := b.pairs == pairs.Float32
	if l, ok := narrowOf(f, narrowLayout{pairs: b.pairs, half: wide}); ok {
		return l, b.pairs == pairs.BFloat16 || v.Format == l || wide && b.asHalf(v) || !wide && b.halves.fit(v.Const)
	}
	if wide { // convolutions are not bound by memory
		return f, false
	}
	switch f {
	case denseWeights, denseLineWeights:
	case transposeWeights, transposeLineWeights:
		w.transposed = true
	default:
		x, ok := packerOf(f.Layout)
		dims, static := v.Type.Shape.Static()
		if !ok || !static || len(dims) > 4 {
			return f, false
		}
		w.groups, w.transposed = x.groups, x.transposed
		if _, err := w.plan(b.target, dims); err != nil {
			return f, false
		}
	}
	g = w.format()
	return g, b.pairs == pairs.BFloat16 || v.Format == g || b.halves.fit(v.Const)
}

// pairsOf returns the type that weights are multiplied in.
func pairsOf(f graph.Format) pairs.Type {
	if n, ok := narrowLayoutOf(f.Layout); ok {
		return n.pairs
	}
	w, _ := packerOf(f.Layout)
	return w.pairs
}

// productWeights returns where the second operand of a product lies, [k, n] as the product has it.
func (p *planner) productWeights(b *graph.Value, k, n int) place.Memory {
	l, ok := narrowLayoutOf(b.Format.Layout)
	if !ok {
		return p.In(b)
	}
	return p.ConstantIn(b, b.Format, 4*narrowOperand{narrowLayout: l, count: 1, k: k, n: n}.words())
}

// gateWeights returns where the weights of a recurrent operator lie, [directions, gates, inputs].
func (p *planner) gateWeights(w *graph.Value) place.Memory {
	l, ok := narrowLayoutOf(w.Format.Layout)
	if !ok {
		return p.In(w)
	}
	d := p.Dims[w.ID]
	return p.ConstantIn(w, w.Format, 4*narrowOperand{narrowLayout: l, count: d[0], k: d[2], n: d[1]}.words())
}

// gateSpec returns a product of operands whose rows lie together with weights in a format: in 16 bits it is one of words.
func gateSpec(s gemm.Spec, f graph.Format) gemm.Spec {
	if s.Pairs, s.Half = pairsOf(f), inHalf(f); s.Pairs != pairs.Float32 {
		s.K, s.LDA = pairs.Words(s.K), 0
	}
	return s
}

// gateInputs returns where rows of inputs lie as a product with weights reads them, and how many elements of 4 bytes they have.
func (p *planner) gateInputs(w *graph.Value, src place.Memory, rows, in int) (place.Memory, int) {
	y := pairsOf(w.Format)
	if y == pairs.Float32 {
		return src, in
	}
	return p.roundedRows(y, src, matrices{off: []int{0}, ld: in}, rows, in), pairs.Words(in)
}

// roundedRows emits the rounding of rows of cols floats, of which row i lies at offs[i/count] + i%count*ld, and returns where their words lie
// together.
func (p *planner) roundedRows(y pairs.Type, src place.Memory, x matrices, count, cols int) place.Memory {
	rows, words, target := len(x.off)*count, pairs.Words(cols), p.target
	dst := p.Temp(4 * rows * words)
	p.emit(step{chunks: rows, grain: grainFor(float64(cols) * roundingNanos), body: func(st *state, _, lo, hi int) {
		from, to := st.F32(src), of[uint32](st, dst)
		for lo < hi {
			i := lo / count
			end := min(hi, (i+1)*count)
			y.Matrix(target, to[lo*words:], from[x.off[i]+lo%count*x.ld:], end-lo, cols, x.ld)
			lo = end
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return dst
}

// roundingNanos is about what rounding a float takes.
const roundingNanos = 0.06

// roundedImages emits the rounding of blocked images of these dims and returns where their words lie together.
func (p *planner) roundedImages(y pairs.Type, d []int, src place.Memory) place.Memory {
	const part = 1 << 13 // floats
	size, target := blockedBytes(d)/4/d[0], p.target
	pitch := max(src.Pitch/4, size)
	dst, parts := p.Temp(4*d[0]*size/2), ceilDiv(size, part)
	p.emit(step{chunks: d[0] * parts, grain: grainFor(part * roundingNanos), body: func(st *state, _, lo, hi int) {
		from, to := st.F32(src), of[uint32](st, dst)
		for ; lo < hi; lo++ {
			image, at := lo/parts, lo%parts*part
			n := min(part, size-at)
			y.Along(target, to[(image*size+at)/2:], from[image*pitch+at:][:n])
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return dst
}

// roundedPixels emits the rounding of those pixels of blocked images that a convolution with a single tap reads, and returns where their words lie, those of
// a pixel beside each other, as the convolution reads them then.
func (p *planner) roundedPixels(s *conv.Spec, src place.Memory) place.Memory {
	blocks, plane, row, next, target := ceilDiv(s.C, pairs.Lanes), pairs.Lanes*s.H*s.W, pairs.Lanes*s.W*s.Stride[0], pairs.Lanes*s.Stride[1], p.target
	pitch, rows, cols := max(src.Pitch/4, blocks*plane), s.OH, s.OW
	if s.Stride == [2]int{1, 1} && s.OW == s.W { // rows follow each other
		cols = pixelsRounded
		rows, row = ceilDiv(s.OH*s.OW, cols), pairs.Lanes*cols
	}
	total, words := s.OH*s.OW, blocks*pairs.Lanes/2
	dst := p.Temp(4 * s.N * total * words)
	p.emit(step{chunks: s.N * rows, grain: grainFor(float64(cols*blocks*pairs.Lanes) * roundingNanos), body: func(st *state, _, lo, hi int) {
		from, to := st.F32(src), of[uint32](st, dst)
		for ; lo < hi; lo++ {
			n, y := lo/rows, lo%rows
			pairs.Beside(target, to[(n*total+y*cols)*words:], from[n*pitch+y*row:], min(cols, total-y*cols), blocks, plane, next, words)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	s.Source, s.SrcImage, s.H, s.W, s.Stride = conv.Pixels, 0, s.OH, s.OW, [2]int{1, 1}
	return dst
}

// pixelsRounded is how many pixels are rounded at a time.
const pixelsRounded = 64

// roundedWindows emits the rounding of blocked images with the zeros around them that windows reach, and without what none reaches, and returns where their words
// lie, as the convolution reads them then.
func (p *planner) roundedWindows(s *conv.Spec, src place.Memory) place.Memory {
	var size [2]int
	for i, n := range [2]int{s.OH, s.OW} {
		size[i] = (n-1)*s.Stride[i] + (s.Kernel[i]-1)*s.Dilate[i] + 1
	}
	blocks, high, wide, target := ceilDiv(s.C, pairs.Lanes), size[0], size[1], p.target
	h, w, top, left, y := s.H, s.W, s.Pad[0], min(s.Pad[1], wide), s.Pairs
	pitch, cols := max(src.Pitch/4, blocks*pairs.Lanes*h*w), max(0, min(w, wide-left))
	const words = pairs.Lanes / 2
	dst := p.Temp(4 * s.N * blocks * high * wide * words)
	p.emit(step{chunks: s.N * blocks * high, grain: grainFor(float64(wide*pairs.Lanes) * roundingNanos), body: func(st *state, _, lo, hi int) {
		from, to := st.F32(src), of[uint32](st, dst)
		for ; lo < hi; lo++ {
			plane, row, line := lo/high, lo%high-top, to[lo*wide*words:][:wide*words]
			if row < 0 || row >= h || cols == 0 {
				clear(line)
				continue
			}
			clear(line[:left*words])
			clear(line[(left+cols)*words:])
			at := plane/blocks*pitch + (plane%blocks*h+row)*w*pairs.Lanes
			y.Along(target, line[left*words:], from[at:][:cols*pairs.Lanes])
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	s.SrcImage, s.H, s.W, s.Pad = 0, high, wide, [4]int{}
	return dst
}
