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

// quantRows divides a tensor into rows, whose elements have a scale each, or are runs of elements that have one. All of a kernel's calls are
// for a part of a row.
type quantRows struct {
	rows, elements int // elements of a row
	columns, run   int // scales of a row, and how many elements have each; the last may have fewer
	numbers        int // scales of all rows together
	repeat         int // of these that are the same scale of the node's
	along, block   int // where scales are for blocks of the axis, its length
	inner          int
}

// rowElements is how many elements a part of a row has at least, where the row has as many.
const rowElements = 1 << 12

// quantRowsOf returns how the dims of a tensor are divided by a node with scales of these dims.
func quantRowsOf(n *graph.Node, dims, scales []int) (q quantRows, err error) {
	if all := product(dims); product(scales) == 1 && n.Int("block_size", 0) == 0 {
		return quantRows{rows: 1, elements: all, columns: 1, run: max(all, 1), numbers: 1, repeat: 1}, nil
	}
	axis := int(n.Int("axis", 1))
	if axis < 0 {
		axis += len(dims)
	}
	if axis < 0 || axis >= len(dims) {
		return q, property.Because(property.Attribute, "axis %d of %v", axis, dims)
	}
	along, inner, outer := dims[axis], product(dims[axis+1:]), product(dims[:axis])
	block := int(n.Int("block_size", 0))
	if block == 0 {
		if len(scales) != 1 || scales[0] != along {
			return q, property.Because(property.ShapeReason, "scales %v for axis %d of %v", scales, axis, dims)
		}
		q = quantRows{rows: outer, elements: along * inner, columns: along, run: inner, numbers: along, repeat: 1}
		if inner%quant.Group != 0 && inner < 16*quant.Group { // a run would end amid a group
			q.columns, q.run, q.numbers, q.repeat = along*inner, 1, along*inner, inner
		}
		return q, nil
	}
	if block < 0 || len(scales) != len(dims) {
		return q, property.Because(property.ShapeReason, "scales %v for %v in blocks of %d", scales, dims, block)
	}
	for i, d := range dims {
		if want := map[bool]int{false: d, true: ceilDiv(d, block)}[i == axis]; scales[i] != want {
			return q, property.Because(property.ShapeReason, "scales %v for %v in blocks of %d", scales, dims, block)
		}
	}
	q = quantRows{rows: outer * along, elements: inner, columns: inner, run: 1, numbers: product(scales), repeat: 1, along: along, block: block, inner: inner}
	if inner == 1 {
		q.rows, q.elements, q.columns, q.run = outer, along, ceilDiv(along, block), block
	}
	return q, nil
}

// first returns the scale that a row begins with.
func (q *quantRows) first(row int) int {
	switch {
	case q.block == 0:
		return 0
	case q.inner == 1:
		return row * q.columns
	}
	return (row/q.along*ceilDiv(q.along, q.block) + row%q.along/q.block) * q.inner
}

// parts returns how many parts a row has, and the elements of each but the last.
func (q *quantRows) parts() (parts, size int) {
	if q.columns == 1 {
		size = rowElements
	} else {
		size = max(rowElements/q.run, 1) * q.run
	}
	return ceilDiv(q.elements, size), size
}

// emitRows emits a step that calls body for every part of a row: n elements from at on, which are runs that have a scale and a zero point
// each.
func (p *planner) emitRows(n *graph.Node, x, y *graph.Value, body func(st *state, at, n int, c quant.Numbers, run int)) error {
	q, err := quantRowsOf(n, p.Dims[x.ID], p.Dims[n.Inputs[1].ID])
	if err != nil {
		return err
	}
	numbers, where := p.quantNumbers(n, &q)
	parts, size := q.parts()
	p.emit(step{chunks: q.rows * parts, grain: grainFor(0.25*float64(min(size, q.elements)) + 10), body: func(st *state, _, lo, hi int) {
		all := numbers(st)
		for i := lo; i < hi; i++ {
			row, at := i/parts, i%parts*size
			n := min(size, q.elements-at)
			body(st, row*q.elements+at, n, all.From(q.first(row)+at/q.run, ceilDiv(n, q.run)), q.run)
		}
	}}, []place.Memory{p.In(x), where}, []place.Memory{p.Out(y)})
	return nil
}

// readyNumbers is the most scales that are made ready when a node is planned, where they are constant.
const readyNumbers = 1 << 16

// quantNumbers returns scales and zero points as kernels read them, and where they are in memory of a run: constants are ready before it,
// others are read in a step.
func (p *planner) quantNumbers(n *graph.Node, q *quantRows) (func(*state) quant.Numbers, place.Memory) {
	scale, zero := fuse.Behind(n.Inputs[1]), fuse.Behind(n.Input(2))
	count, repeat := q.numbers, q.repeat
	if count <= readyNumbers && fuse.IsTensorConst(scale) && (zero == nil || fuse.IsTensorConst(zero)) {
		ready := quant.Numbers{Scales: make([]float32, count), Zeros: make([]int32, count)}
		for i, s := 0, fuse.Floats(scale.Const); i < count; i++ {
			if ready.Scales[i] = s[i/repeat]; zero != nil {
				ready.Zeros[i] = int32(zero.Const.Int64At(i / repeat)) // of a type of at most 32 bits
			}
		}
		return func(*state) quant.Numbers { return ready }, place.Nowhere
	}
	scales, zeros, read := p.In(n.Inputs[1]), place.Nowhere, func(*state, int) int64 { return 0 }
	if z := n.Input(2); z != nil {
		zeros = p.In(z)
		read = zeroReader(zeros, z.Type.DType)
	}
	at := p.Temp(8 * count)
	numbers := func(st *state) quant.Numbers {
		return quant.Numbers{Scales: st.F32(at)[:count], Zeros: of[int32](st, at)[count : 2*count]}
	}
	p.emit(step{serial: func(st *state) {
		to, s := numbers(st), st.F32(scales)
		for i := range to.Scales {
			to.Scales[i], to.Zeros[i] = s[i/repeat], int32(read(st, i/repeat)) // of a type of at most 32 bits
		}
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
	case tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2, tensor.Float8E5M2FNUZ: // theirs are 0
		return func(*state, int) int64 { return 0 }
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
		if isFloat8(q.Type.DType) {
			if why := zeroFloat8(n); why != nil {
				return nil, why
			}
		}
		return operators.RowMajor(n), nil
	}
}

// integersOf returns what integers of a type of 8 or 16 bits are.
func integersOf(dt tensor.DType) quant.Integers {
	return quant.Integers{Words: !byteDType(dt), Signed: dt == tensor.Int8 || dt == tensor.Int16}
}

// quantizeRows emits a QuantizeLinear.
func (p *planner) quantizeRows(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if isFloat8(y.Type.DType) {
		return p.quantizeFloat8(n)
	}
	src, dst, kernels, to, size := p.In(x), p.Out(y), p.integers, integersOf(y.Type.DType), y.Type.DType.Size()
	return p.emitRows(n, x, y, func(st *state, at, n int, c quant.Numbers, run int) {
		if d, s := st.Bytes(dst)[at*size:][:n*size], st.F32(src)[at:][:n]; run == 1 {
			kernels.QuantizeColumns(d, s, c, to)
		} else {
			kernels.QuantizeRuns(d, s, c, run, to)
		}
	})
}

// dequantizeRows emits a DequantizeLinear.
func (p *planner) dequantizeRows(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if isFloat8(x.Type.DType) {
		return p.dequantizeFloat8(n)
	}
	src, dst, kernels, from, size := p.In(x), p.Out(y), p.integers, integersOf(x.Type.DType), x.Type.DType.Size()
	if x.Type.DType == tensor.Int32 {
		return p.emitRows(n, x, y, func(st *state, at, n int, c quant.Numbers, run int) {
			d, s := st.F32(dst)[at:][:n], of[int32](st, src)[at:][:n]
			if len(c.Scales) == 1 && c.Zeros[0] == 0 { // as good as always
				scaleIntegers(kernels, d, s, c.Scales[0])
				return
			}
			for i, v := range s {
				d[i] = float32(int64(v)-int64(c.Zeros[i/run])) * c.Scales[i/run]
			}
		})
	}
	return p.emitRows(n, x, y, func(st *state, at, n int, c quant.Numbers, run int) {
		if d, s := st.F32(dst)[at:][:n], st.Bytes(src)[at*size:][:n*size]; run == 1 {
			kernels.DequantizeColumns(d, s, c, from)
		} else {
			kernels.DequantizeRuns(d, s, c, run, from)
		}
	})
}

// scaleIntegers writes scale times each of src.
func scaleIntegers(kernels quant.Kernels, dst []float32, src []int32, scale float32) {
	const cols = 4 * quant.Group
	var factors, bias [cols]float32
	for i := range factors {
		factors[i] = scale
	}
	whole := len(src) / cols
	kernels.Scale(dst, cols, quant.Sums{Rows: whole, Cols: cols, LD: cols, Sums: src, Factors: factors[:], Bias: bias[:]})
	for i, v := range src[whole*cols:] {
		dst[whole*cols+i] = float32(v) * scale
	}
}
