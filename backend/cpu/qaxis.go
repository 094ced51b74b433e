package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// QuantizeLinear and DequantizeLinear with scales and zero points of a run, or several of them: one for each index of an axis, or for
// each block of indices and all that is beside the axis.

// quantLines divides a tensor, as [outer, along, inner] of an axis, into lines of elements, which have one scale, or one each.
type quantLines struct {
	lines, length int  // the last line may be shorter
	elements      int  // of the tensor
	each          bool // scales are as many as elements of a line
	columns       int  // scales of what is outside of the axis, or before they begin again
	repeat        int  // elements beside each other that have one
	along, block  int  // where scales are for blocks of the axis
	inner         int
}

// lineElements is how many elements a line has at most where all have one scale, or one each.
const lineElements = 1 << 12

// quantLinesOf returns how the dims of a tensor are divided by a node with scales of these dims.
func quantLinesOf(n *graph.Node, dims, scales []int) (q quantLines, err error) {
	q.elements = product(dims)
	if product(scales) == 1 && n.Int("block_size", 0) == 0 {
		q.lines, q.length = ceilDiv(q.elements, lineElements), lineElements
		return q, nil
	}
	axis := int(n.Int("axis", 1))
	if axis < 0 {
		axis += len(dims)
	}
	if axis < 0 || axis >= len(dims) {
		return q, property.Because(property.Attribute, "axis %d of %v", axis, dims)
	}
	q.along, q.inner, q.block = dims[axis], product(dims[axis+1:]), int(n.Int("block_size", 0))
	outer := product(dims[:axis])
	if q.block == 0 {
		if len(scales) != 1 || scales[0] != q.along {
			return q, property.Because(property.ShapeReason, "scales %v for axis %d of %v", scales, axis, dims)
		}
		if q.inner >= quant.Group {
			q.lines, q.length = outer*q.along, q.inner
			return q, nil
		}
		q.each, q.repeat, q.columns = true, q.inner, q.along*q.inner
		q.length = min(q.columns, lineElements)
		q.lines = outer * ceilDiv(q.columns, max(q.length, 1))
		return q, nil
	}
	if q.block < 0 || len(scales) != len(dims) {
		return q, property.Because(property.ShapeReason, "scales %v for %v in blocks of %d", scales, dims, q.block)
	}
	for i, d := range dims {
		if want := map[bool]int{false: d, true: ceilDiv(d, q.block)}[i == axis]; scales[i] != want {
			return q, property.Because(property.ShapeReason, "scales %v for %v in blocks of %d", scales, dims, q.block)
		}
	}
	if q.inner > 1 {
		q.each, q.repeat, q.columns, q.lines, q.length = true, 1, product(scales), outer*q.along, q.inner
	} else {
		q.lines, q.length = outer*ceilDiv(q.along, q.block), q.block
	}
	return q, nil
}

// line returns where a line begins, how many elements it has, and its scale, or the first of its scales.
func (q *quantLines) line(i int) (at, n, scale int) {
	switch {
	case q.each && q.block == 0:
		pieces := ceilDiv(q.columns, q.length)
		scale = i % pieces * q.length
		return i/pieces*q.columns + scale, min(q.length, q.columns-scale), scale
	case q.each:
		return i * q.inner, q.inner, (i/q.along*ceilDiv(q.along, q.block) + i%q.along/q.block) * q.inner
	case q.block > 0:
		blocks := ceilDiv(q.along, q.block)
		from := i % blocks * q.block
		return i/blocks*q.along + from, min(q.block, q.along-from), i
	case q.along > 0:
		return i * q.length, q.length, i % q.along
	}
	return i * q.length, min(q.length, q.elements-i*q.length), 0
}

// quantNumbers are scales and zero points as kernels read them, where every element of a line has its own.
type quantNumbers struct {
	scales []float32
	zeros  []int32
}

// fill reads so many numbers, each of which counts for some elements.
func (q *quantNumbers) fill(scales []float32, zero func(i int) int64, repeat int) {
	for i := range q.scales {
		q.scales[i], q.zeros[i] = scales[i/repeat], int32(zero(i/repeat)) //nolint:gosec // of a type of at most 32 bits
	}
}

// emitLines emits a step that calls body for every line: n elements from at on, with a scale and a zero point for each, or quant.Group of
// them that are alike.
func (p *planner) emitLines(n *graph.Node, x, y *graph.Value, body func(st *state, at, n int, scales []float32, zeros []int32)) error {
	q, err := quantLinesOf(n, p.Dims[x.ID], p.Dims[n.Inputs[1].ID])
	if err != nil {
		return err
	}
	scales, zeros, read := p.In(n.Inputs[1]), place.Nowhere, func(*state, int) int64 { return 0 }
	if z := n.Input(2); z != nil {
		zeros = p.In(z)
		read = zeroReader(zeros, z.Type.DType)
	}
	numbers, kept := p.quantNumbers(n, &q, scales, zeros, read)
	near := p.scratch(8 * quant.Group)
	p.emit(step{chunks: q.lines, grain: grainFor(0.25*float64(q.length) + 10), body: func(st *state, worker, lo, hi int) {
		s, all, alike := st.F32(scales), numbers(st), near.numbers(st, worker)
		for line := lo; line < hi; line++ {
			at, n, i := q.line(line)
			if q.each {
				body(st, at, n, all.scales[i:i+n], all.zeros[i:i+n])
				continue
			}
			alike.fill(s[i:i+1], func(int) int64 { return read(st, i) }, quant.Group)
			body(st, at, n, alike.scales, alike.zeros)
		}
	}}, []place.Memory{p.In(x), scales, zeros, kept}, []place.Memory{p.Out(y), near.at})
	return nil
}

// numbers returns a worker's part as scales and zero points that are alike.
func (s scratch) numbers(st *state, worker int) quantNumbers {
	return quantNumbers{s.floats(st, worker)[:quant.Group], s.of(st, worker)[quant.Group : 2*quant.Group]}
}

// readyNumbers is the most scales that are made ready when a node is planned, where they are constant.
const readyNumbers = 1 << 16

// quantNumbers returns what the elements of a line have where each has its own, and where that is in memory of a run: constants are ready
// before it, others are read in a step.
func (p *planner) quantNumbers(n *graph.Node, q *quantLines, scales, zeros place.Memory, read func(st *state, i int) int64) (func(*state) quantNumbers, place.Memory) {
	if !q.each {
		return func(*state) quantNumbers { return quantNumbers{} }, place.Nowhere
	}
	scale, zero := fuse.Behind(n.Inputs[1]), fuse.Behind(n.Input(2))
	if q.columns <= readyNumbers && fuse.IsTensorConst(scale) && (zero == nil || fuse.IsTensorConst(zero)) {
		ready := quantNumbers{make([]float32, q.columns), make([]int32, q.columns)}
		ready.fill(fuse.Floats(scale.Const), func(i int) int64 {
			if zero == nil {
				return 0
			}
			return zero.Const.Int64At(i)
		}, q.repeat)
		return func(*state) quantNumbers { return ready }, place.Nowhere
	}
	at, columns := p.Temp(8*q.columns), q.columns
	numbers := func(st *state) quantNumbers {
		return quantNumbers{st.F32(at)[:columns], of[int32](st, at)[columns : 2*columns]}
	}
	repeat := q.repeat
	p.emit(step{serial: func(st *state) {
		to := numbers(st)
		to.fill(st.F32(scales), func(i int) int64 { return read(st, i) }, repeat)
	}}, []place.Memory{scales, zeros}, []place.Memory{at})
	return numbers, at
}

// zeroReader returns what reads zero point i, of a type.
func zeroReader(m place.Memory, dt tensor.DType) func(st *state, i int) int64 {
	switch dt {
	case tensor.Uint8:
		return func(st *state, i int) int64 { return int64(st.Bytes(m)[i]) }
	case tensor.Int8:
		return func(st *state, i int) int64 { return int64(int8(st.Bytes(m)[i])) }
	case tensor.Uint16:
		return func(st *state, i int) int64 { return int64(of[uint16](st, m)[i]) }
	case tensor.Int16:
		return func(st *state, i int) int64 { return int64(of[int16](st, m)[i]) }
	default:
		return func(st *state, i int) int64 { return int64(of[int32](st, m)[i]) }
	}
}

// onceQuantised reports whether a node has one constant scale, and one constant zero point or none.
func onceQuantised(n *graph.Node) bool {
	for _, v := range n.Inputs[1:] {
		if v != nil && (!v.IsConst() || v.Const.Len() != 1) {
			return false
		}
	}
	return n.Int("block_size", 0) == 0
}

// quantised returns a signature for an operator whose operand and result have these kinds of types.
func quantised(from, to func(tensor.DType) bool) func(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return func(n *graph.Node) ([]graph.Signature, *property.Reason) {
		x, y, q := n.Inputs[0], n.Outputs[0], n.Inputs[0]
		if !from(x.Type.DType) || !to(y.Type.DType) {
			return nil, property.Because(property.DTypeReason, "%v is %v, %v is %v", x, x.Type.DType, y, y.Type.DType)
		}
		if n.Is("QuantizeLinear") {
			q = y
		}
		if z := n.Input(2); z != nil && z.Type.DType != q.Type.DType {
			return nil, property.Because(property.DTypeReason, "zero point %v is %v", z, z.Type)
		}
		if !operators.IsFloat32(n.Inputs[1]) || n.Int("precision", 0) != 0 && n.Int("precision", 0) != int64(tensor.Float32) {
			return nil, property.Because(property.DTypeReason, "scale %v is %v", n.Inputs[1], n.Inputs[1].Type)
		}
		return operators.RowMajor(n), nil
	}
}

// integersOf returns what integers of a type of 8 or 16 bits are.
func integersOf(dt tensor.DType) quant.Integers {
	return quant.Integers{Words: !byteDType(dt), Signed: dt == tensor.Int8 || dt == tensor.Int16}
}

// quantizeLines emits a QuantizeLinear.
func (p *planner) quantizeLines(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	src, dst, kernels, to, size := p.In(x), p.Out(y), p.integers, integersOf(y.Type.DType), y.Type.DType.Size()
	return p.emitLines(n, x, y, func(st *state, at, n int, scales []float32, zeros []int32) {
		kernels.QuantizeColumns(st.Bytes(dst)[at*size:][:n*size], st.F32(src)[at:][:n], scales, zeros, to)
	})
}

// dequantizeLines emits a DequantizeLinear.
func (p *planner) dequantizeLines(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	src, dst, kernels, from, size := p.In(x), p.Out(y), p.integers, integersOf(x.Type.DType), x.Type.DType.Size()
	if x.Type.DType == tensor.Int32 {
		return p.emitLines(n, x, y, func(st *state, at, n int, scales []float32, zeros []int32) {
			d, c := st.F32(dst)[at:][:n], len(scales)
			for i, v := range of[int32](st, src)[at:][:n] {
				d[i] = float32(int64(v)-int64(zeros[i%c])) * scales[i%c]
			}
		})
	}
	return p.emitLines(n, x, y, func(st *state, at, n int, scales []float32, zeros []int32) {
		kernels.DequantizeColumns(st.F32(dst)[at:][:n], st.Bytes(src)[at*size:][:n*size], scales, zeros, from)
	})
}
