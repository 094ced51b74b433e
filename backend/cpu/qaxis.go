package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// QuantizeLinear and DequantizeLinear with scales and zero points of a run, or several of them: one for each index of an axis, or for
// each block of indices and all that is beside the axis.

// quantRuns divides a tensor, as [outer, along, inner] of an axis, into lines, each of which is so many runs of elements with one scale.
type quantRuns struct {
	lines, runs, run int
	elements         int
	along, block     int // 0: one scale for all
	inner            int
}

// lineElements is how many elements a line has where there is one scale for all.
const lineElements = 1 << 12

// quantRunsOf returns how the dims of a tensor are divided by a node with scales of these dims.
func quantRunsOf(n *graph.Node, dims, scales []int) (q quantRuns, err error) {
	q.elements = product(dims)
	if product(scales) == 1 && n.Int("block_size", 0) == 0 {
		q.lines, q.runs, q.run = ceilDiv(q.elements, lineElements), 1, lineElements
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
	q.lines, q.runs, q.run = product(dims[:axis+1]), 1, q.inner
	if q.block == 0 {
		if len(scales) != 1 || scales[0] != q.along {
			return q, property.Because(property.ShapeReason, "scales %v for axis %d of %v", scales, axis, dims)
		}
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
		q.runs, q.run = q.inner, 1
	}
	return q, nil
}

// scale returns the index of the scale of a run of a line.
func (q *quantRuns) scale(line, run int) int {
	switch {
	case q.along == 0:
		return 0
	case q.block == 0:
		return line % q.along
	}
	blocks := ceilDiv(q.along, q.block)
	return (line/q.along*blocks+line%q.along/q.block)*q.inner + run
}

// emitRuns emits a step that calls body for every run with its scale and zero point: n elements from at on.
func (p *planner) emitRuns(n *graph.Node, x, y *graph.Value, cost float64, body func(st *state, at, n int, scale float32, zero int64)) error {
	q, err := quantRunsOf(n, p.Dims[x.ID], p.Dims[n.Inputs[1].ID])
	if err != nil {
		return err
	}
	scales, zeros, read := p.In(n.Inputs[1]), place.Nowhere, func(*state, int) int64 { return 0 }
	if z := n.Input(2); z != nil {
		zeros = p.In(z)
		read = zeroReader(zeros, z.Type.DType)
	}
	p.emit(step{chunks: q.lines, grain: grainFor(cost*float64(q.runs*q.run) + 10), body: func(st *state, _, lo, hi int) {
		s := st.F32(scales)
		for line := lo; line < hi; line++ {
			for run := range q.runs {
				at, i := (line*q.runs+run)*q.run, q.scale(line, run)
				body(st, at, min(q.run, q.elements-at), s[i], read(st, i))
			}
		}
	}}, []place.Memory{p.In(x), scales, zeros}, []place.Memory{p.Out(y)})
	return nil
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

// quantizeRuns emits a QuantizeLinear.
func (p *planner) quantizeRuns(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	src, dst, kernels := p.In(x), p.Out(y), p.integers
	switch dt := y.Type.DType; dt {
	case tensor.Uint16:
		return p.emitRuns(n, x, y, 2, func(st *state, at, n int, scale float32, zero int64) {
			quantizeRow(of[uint16](st, dst)[at:][:n], st.F32(src)[at:][:n], scale, float32(zero), 0, math.MaxUint16)
		})
	case tensor.Int16:
		return p.emitRuns(n, x, y, 2, func(st *state, at, n int, scale float32, zero int64) {
			quantizeRow(of[int16](st, dst)[at:][:n], st.F32(src)[at:][:n], scale, float32(zero), math.MinInt16, math.MaxInt16)
		})
	default:
		return p.emitRuns(n, x, y, 0.25, func(st *state, at, n int, scale float32, zero int64) {
			kernels.Quantize(st.Bytes(dst)[at:][:n], st.F32(src)[at:][:n], quant.Levels{Scale: scale, Zero: int(zero), Signed: dt == tensor.Int8})
		})
	}
}

// quantizeRow rounds x/scale to even, adds the zero point and bounds the sum. NaN becomes the zero point.
func quantizeRow[T int16 | uint16](dst []T, src []float32, scale, zero, lo, hi float32) {
	for i, x := range src {
		q := x / scale
		if q != q {
			q = 0
		}
		dst[i] = T(min(max(float32(math.RoundToEven(float64(q)))+zero, lo), hi))
	}
}

// dequantizeRuns emits a DequantizeLinear.
func (p *planner) dequantizeRuns(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	src, dst, kernels := p.In(x), p.Out(y), p.integers
	switch dt := x.Type.DType; dt {
	case tensor.Uint16:
		return dequantizeWords[uint16](p, n, src, dst)
	case tensor.Int16:
		return dequantizeWords[int16](p, n, src, dst)
	case tensor.Int32:
		return dequantizeWords[int32](p, n, src, dst)
	default:
		return p.emitRuns(n, x, y, 0.15, func(st *state, at, n int, scale float32, zero int64) {
			kernels.Dequantize(st.F32(dst)[at:][:n], st.Bytes(src)[at:][:n], quant.Levels{Scale: scale, Zero: int(zero), Signed: dt == tensor.Int8})
		})
	}
}

func dequantizeWords[T int16 | uint16 | int32](p *planner, n *graph.Node, src, dst place.Memory) error {
	return p.emitRuns(n, n.Inputs[0], n.Outputs[0], 1, func(st *state, at, n int, scale float32, zero int64) {
		d := st.F32(dst)[at:][:n]
		for i, v := range of[T](st, src)[at:][:n] {
			d[i] = float32(int64(v)-zero) * scale
		}
	})
}
