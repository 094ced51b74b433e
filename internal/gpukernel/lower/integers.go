package lower

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// integerMost is the most products of a matrix product of integers: each result is a sum of its own.
const integerMost = 1 << 26

// centred returns an operand of narrow integers less its zero point: one for all, one by row, or one by column where columns says so.
func (l *lowering) centred(n *graph.Node, i, zero int, columns bool) (gpukernel.Value, error) {
	x, err := l.operand(n, i)
	if err != nil {
		return 0, err
	}
	if t := l.p.Type(x); t != gpukernel.I8 && t != gpukernel.U8 {
		return 0, refuse("operand of type %s", t)
	}
	if n.Input(zero) == nil {
		return l.p.Cast(x, gpukernel.I32), nil
	}
	z, err := l.byRow(n, zero, columns)
	if err != nil {
		return 0, err
	}
	return l.p.Scalar(gpukernel.I32, "$0 - $1", x, z), nil
}

// byRow returns a scale or zero point so that it broadcasts with matrices.
func (l *lowering) byRow(n *graph.Node, i int, columns bool) (gpukernel.Value, error) {
	z, err := l.operand(n, i)
	if err != nil {
		return 0, err
	}
	switch d := l.p.Shape(z); {
	case elements(d) == 1:
		z = l.p.Reshape(z)
	case len(d) == 1 && !columns:
		z = l.p.Reshape(z, d[0], 1)
	}
	return z, nil
}

// integerProduct multiplies matrices of i32, row by column.
func (l *lowering) integerProduct(n *graph.Node, a, b gpukernel.Value) (gpukernel.Value, error) {
	as, bs := l.p.Shape(a), l.p.Shape(b)
	if len(as) < 2 || len(bs) < 2 || as[len(as)-1] != bs[len(bs)-2] {
		return 0, refuse("a product of %v and %v", as, bs)
	}
	_, out, err := TypeOf(n.Outputs[0])
	if err != nil {
		return 0, err
	}
	if elements(out) > integerMost/as[len(as)-1] {
		return 0, refuse("%d products for each of %v", as[len(as)-1], out)
	}
	a = l.p.Reshape(a, slices.Insert(slices.Clone(as), len(as)-1, 1)...)
	perm := from(0, len(bs))
	perm[len(bs)-2], perm[len(bs)-1] = len(bs)-1, len(bs)-2
	b = l.p.Transpose(b, perm...)
	b = l.p.Reshape(b, slices.Insert(slices.Clone(l.p.Shape(b)), len(bs)-2, 1)...)
	each := l.p.Scalar(gpukernel.I32, "$0 * $1", a, b)
	return l.p.Reshape(l.p.Reduce(gpukernel.ReduceSum, each, len(l.p.Shape(each))-1), out...), nil
}

func (l *lowering) matMulInteger(n *graph.Node) error {
	a, err := l.centred(n, 0, 2, false)
	if err != nil {
		return err
	}
	b, err := l.centred(n, 1, 3, true)
	if err != nil {
		return err
	}
	y, err := l.integerProduct(n, a, b)
	if err != nil {
		return err
	}
	return l.result(n, 0, y)
}

// qLinearMatMul is the product of what quantised matrices stand for, quantised.
func (l *lowering) qLinearMatMul(n *graph.Node) error {
	a, err := l.centred(n, 0, 2, false)
	if err != nil {
		return err
	}
	b, err := l.centred(n, 3, 5, true)
	if err != nil {
		return err
	}
	acc, err := l.integerProduct(n, a, b)
	if err != nil {
		return err
	}
	y := l.p.Cast(acc, gpukernel.F32)
	for _, s := range []struct {
		input   int
		columns bool
		text    string
	}{{1, false, "$0 * $1"}, {4, true, "$0 * $1"}, {6, true, "$0 / $1"}} {
		scale, err := l.byRow(n, s.input, s.columns)
		if err != nil {
			return err
		}
		y = l.p.Scalar(gpukernel.F32, s.text, y, scale)
	}
	zero, err := l.byRow(n, 7, true)
	if err != nil {
		return err
	}
	return l.quantized(n, y, zero)
}

// dynamicQuantize quantises to bytes by the range of the operand, which is made to include 0.
func (l *lowering) dynamicQuantize(n *graph.Node) error {
	x, err := l.floats(n, 0)
	if err != nil {
		return err
	}
	axes := from(0, len(l.p.Shape(x)))
	f := func(text string, in ...gpukernel.Value) gpukernel.Value {
		return l.p.Scalar(gpukernel.F32, text, in...)
	}
	lo, hi := l.p.Reduce(gpukernel.ReduceMin, x, axes...), l.p.Reduce(gpukernel.ReduceMax, x, axes...)
	lo = f("min_f32($0, 0.0f)", lo)
	scale := f("(max_f32($0, 0.0f) - $1) / 255.0f", hi, lo)
	zero := l.p.Scalar(gpukernel.U8, "(i32)clip_f32(rint_f32($1 > 0.0f ? (0.0f - $0) / $1 : 0.0f), 0.0f, 255.0f)", lo, scale)
	q := l.p.Scalar(gpukernel.U8, "(i32)clip_f32(rint_f32($1 > 0.0f ? $0 / $1 : 0.0f) + (f32)$2, 0.0f, 255.0f)", x, scale, zero)
	for i, v := range []gpukernel.Value{q, scale, zero} {
		if i < len(n.Outputs) && n.Outputs[i] != nil {
			if err := l.result(n, i, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// bitCast gives the bytes of elements another meaning.
func (l *lowering) bitCast(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	to, _, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	t := l.p.Type(x)
	switch half := isFloat(t) && t.Size() == 2 || isFloat(to) && to.Size() == 2; {
	case t.Size() != to.Size() || t != to && (half || t == gpukernel.F64 || to == gpukernel.F64) || to == gpukernel.Bool && t != to:
		return refuse("from type %s to %s", t, to)
	case t == to:
		return l.result(n, 0, x)
	case t == gpukernel.F32:
		return l.result(n, 0, l.p.Scalar(to, "bits_of_f32($0)", x))
	case to == gpukernel.F32:
		return l.result(n, 0, l.p.Scalar(to, "f32_of_bits((u32)$0)", x))
	}
	return l.result(n, 0, l.p.Cast(x, to))
}
