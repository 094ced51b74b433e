package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// QLinearMatMul and QLinearConv: products and convolutions of 8-bit integers whose sums become such integers again. Scales are
// constants.

// Inputs of both operators.
const (
	qlinearX = iota
	qlinearXScale
	qlinearXZero
	qlinearW
	qlinearWScale
	qlinearWZero
	qlinearYScale
	qlinearYZero
	qlinearBias
)

// constantScales returns the scales that a constant holds: one, or as many as there are columns or channels.
func constantScales(v *graph.Value, columns graph.Dim) ([]float32, *property.Reason) {
	c := fuse.Behind(v)
	if c == nil || !c.IsConst() || c.Const.DType != tensor.Float32 {
		return nil, property.Because(property.Unsupported, "scale %v is not constant", v)
	}
	s := fuse.Floats(c.Const)
	n, ok := columns.Const()
	if len(s) != 1 && !(ok && len(s) == int(n) && len(c.Const.Shape) == 1) {
		return nil, property.Because(property.Unsupported, "%d scales", len(s))
	}
	for _, x := range s {
		if !fuse.Usable(x) {
			return nil, property.Because(property.Attribute, "scale %g", x)
		}
	}
	return s, nil
}

// qlinearScales returns what one sum is worth in steps of the result, for all columns or channels or for each.
func qlinearScales(n *graph.Node, columns graph.Dim) ([]float32, *property.Reason) {
	var parts [3][]float32
	for i, at := range []int{qlinearXScale, qlinearWScale, qlinearYScale} {
		of := graph.D(1)
		if at == qlinearWScale {
			of = columns
		}
		var why *property.Reason
		if parts[i], why = constantScales(n.Input(at), of); why != nil {
			return nil, why
		}
	}
	out := make([]float32, len(parts[1]))
	for i, s := range parts[1] {
		out[i] = float32(float64(parts[0][0]) * float64(s) / float64(parts[2][0]))
	}
	return out, nil
}

// qlinearLevels returns the levels of the result.
func qlinearLevels(n *graph.Node) (quant.Levels, *property.Reason) {
	y, zero := n.Outputs[0], fuse.Behind(n.Input(qlinearYZero))
	if !isByte(y) {
		return quant.Levels{}, property.Because(property.DTypeReason, "%v is %v", y, y.Type.DType)
	}
	l := quant.Levels{Signed: y.Type.DType == tensor.Int8}
	if zero != nil {
		if !zero.IsConst() || zero.Const.Len() != 1 {
			return l, property.Because(property.Unsupported, "zero point %v is not one constant number", zero)
		}
		l.Zero = int(zero.Const.Int64At(0))
	}
	return l, nil
}

func qlinearSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, w := n.Input(qlinearX), n.Input(qlinearW)
	var s graph.Signature
	var list []graph.Signature
	var why *property.Reason
	_, columns := matrixShape(x.Type.Shape, w.Type.Shape)
	if n.Is("QLinearConv") {
		if s, why = integerConvSignature(n, qlinearXZero, qlinearW, qlinearWZero); why == nil {
			columns = w.Type.Shape[0]
			list = eitherFormat(s, n, qlinearX)
			if b := fuse.Behind(n.Input(qlinearBias)); b != nil && (!b.IsConst() || b.Const.DType != tensor.Int32) {
				why = property.Because(property.Unsupported, "bias %v is not constant", b)
			}
		}
	} else {
		s, why = integerSignature(n, qlinearX, qlinearXZero, qlinearW, qlinearWZero)
	}
	if why == nil {
		_, why = qlinearScales(n, columns)
	}
	if why == nil {
		_, why = qlinearLevels(n)
	}
	if why != nil {
		return nil, why
	}
	if list == nil {
		list = []graph.Signature{s}
	}
	return list, nil
}

// roundedSums makes 8-bit integers of sums: a factor and an addend for each column or channel, padded to whole panels.
type roundedSums struct {
	factors, bias []float32
	add           []int32 // of channels, what sums begin with besides; nil for zeros
	levels        quant.Levels
	lo, hi        int        // bounds of an activation, integers of the type
	act           activation // another activation; factors and bias make floats for it, which are divided by the levels' scale behind it
}

// paddedColumns is the length of vectors for so many columns, or channels in groups: a whole panel may begin at any of them.
func paddedColumns(n int) int { return n + quant.Panel }

// newRoundedSums returns what rounds the sums of n columns, without addends or bounds.
func newRoundedSums(n int, factors []float32, l quant.Levels) *roundedSums {
	width := paddedColumns(n)
	r := &roundedSums{factors: make([]float32, width), bias: make([]float32, width), levels: l,
		lo: math.MinInt8, hi: math.MaxUint8}
	repeatLast(r.factors, factors)
	return r
}

// rows writes the integers of columns [col, col+cols) to rows ldd apart at dst, which may begin where the sums do. It overwrites
// the sums.
func (r *roundedSums) rows(kernels *rowKernels, dst []byte, ldd int, x []int32, ld, rows, col, cols int) {
	s := quant.Sums{Rows: rows, Cols: cols, Sums: x, LD: ld, Factors: r.factors[col:], Bias: r.bias[col:]}
	if !r.act.some {
		kernels.integers.Requantize(dst, ldd, s, r.levels, r.lo, r.hi)
		return
	}
	f := asFloats(x)
	kernels.integers.Scale(f, ld, s)
	kernels.floats.ApplyRows(r.act.op, f, ld, f, ld, rows, cols, r.act.params)
	for i := range rows {
		kernels.integers.Quantize(dst[i*ldd:][:cols], f[i*ld:][:cols], r.levels)
	}
}

// finish writes the integers to dst, a matrix of n columns.
func (r *roundedSums) finish(p *planner, dst place.Memory, n int) finish {
	kernels := &rowKernels{p.integers, p.kernels}
	return func(st *state, x []int32, ld, row, rows, col, cols int) {
		r.rows(kernels, st.Bytes(dst)[row*n+col:], n, x, ld, rows, col, cols)
	}
}

// convFinish writes the integers to planes at dst, or to pixels there where channels come last.
func (r *roundedSums) convFinish(p *planner, c *integerConv, dst place.Memory) convFinish {
	kernels, outputs, pixels := &rowKernels{p.integers, p.kernels}, c.outputs(), c.pixels()
	if c.last {
		return func(st *state, x []int32, ld, image, at, n, col, cols int) {
			d := st.Bytes(dst)[(image*pixels+at)*outputs+col:]
			if cols%quant.Panel == 0 {
				r.rows(kernels, d, outputs, x, ld, n, col, cols)
				return
			}
			near := asBytes(x)
			r.rows(kernels, near, 4*ld, x, ld, n, col, roundUp(cols, quant.Panel))
			for i := range n {
				copy(d[i*outputs:][:cols], near[4*i*ld:])
			}
		}
	}
	return func(st *state, x []int32, ld, image, at, n, col, cols int) {
		d, near := st.Bytes(dst)[(image*outputs+col)*pixels+at:], asBytes(x)
		r.rows(kernels, near, 4*ld, x, ld, n, col, roundUp(cols, quant.Panel)) // each row over its own sums
		kernels.integers.Transpose(d, near, n, cols, 4*ld, pixels)
	}
}

func planQLinearMatMul(p *planner, n *graph.Node) error {
	in, dst := n.Inputs, p.Out(n.Outputs[0])
	da, db := matrixDims(p.Dims[in[qlinearX].ID], p.Dims[in[qlinearW].ID])
	columns := db[len(db)-1]
	factors, why := qlinearScales(n, graph.D(columns))
	if why != nil {
		return why
	}
	l, why := qlinearLevels(n)
	if why != nil {
		return why
	}
	s, err := p.sums(p.integerOperand(in[qlinearX], in[qlinearXZero]), p.integerOperand(in[qlinearW], in[qlinearWZero]), da, db, false)
	if err != nil {
		return err
	}
	p.emitRoundedSums(s, newRoundedSums(columns, factors, l), dst)
	return nil
}

func planQLinearConv(p *planner, n *graph.Node) error {
	in, y := n.Inputs, n.Outputs[0]
	dst := p.Out(y)
	factors, why := qlinearScales(n, graph.D(p.Dims[y.ID][1]))
	if why != nil {
		return why
	}
	l, why := qlinearLevels(n)
	if why != nil {
		return why
	}
	channels := p.Dims[y.ID][1]
	r := newRoundedSums(channels, factors, l)
	if b := n.Input(qlinearBias); b != nil {
		if b.Const.Len() != channels {
			return property.Because(property.ShapeReason, "bias of %d for %d channels", b.Const.Len(), channels)
		}
		r.add = make([]int32, channels)
		for i := range r.add {
			r.add[i] = int32(b.Const.Int64At(i))
		}
	}
	return p.roundedConv(n, p.integerOperand(in[qlinearX], in[qlinearXZero]), p.integerOperand(in[qlinearW], in[qlinearWZero]), y, r, dst)
}

func init() {
	table.Register("QLinearMatMul", operator{Signatures: qlinearSignatures, Plan: planQLinearMatMul})
	table.Register("QLinearConv", operator{Signatures: qlinearSignatures, Plan: planQLinearConv})
}
