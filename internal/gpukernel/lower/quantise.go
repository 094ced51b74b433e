package lower

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// granular returns a scale or zero point so that it broadcasts over the dims of x: one for all, one for each index of the axis, or
// one for each block of indices.
func (l *lowering) granular(n *graph.Node, i int, shape []int) (gpukernel.Value, error) {
	s, err := l.operand(n, i)
	if err != nil {
		return 0, err
	}
	its := l.p.Shape(s)
	if elements(its) == 1 {
		return l.p.Reshape(s), nil
	}
	axis, err := graph.NormAxis(n.Int("axis", 1), len(shape))
	if err != nil {
		return 0, refuse("%v", err)
	}
	block := n.Int("block_size", 0)
	if len(its) == 1 && block == 0 {
		if its[0] != shape[axis] {
			return 0, refuse("%v for %v", its, shape)
		}
		dims := slices.Repeat([]int{1}, len(shape))
		dims[axis] = its[0]
		return l.p.Reshape(s, dims...), nil
	}
	if block < 1 || block > 1<<20 || len(its) != len(shape) {
		return 0, refuse("%v for %v in blocks of %d", its, shape, block)
	}
	along := same(len(shape))
	along[axis] = gpukernel.Along{Index: l.p.Scalar(gpukernel.I32, fmt.Sprintf("$0 / %d", block), l.along(shape, axis)), Within: true}
	return l.p.Pick(s, shape, along...), nil
}

// quantize divides, rounds to even, and keeps to the range of the result's type.
func (l *lowering) quantize(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	t, shape, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	to := n.Outputs[0].Type.DType
	_, _, ok := endsOf(to)
	small := narrowTypes[to]
	from := l.p.Type(x)
	if !ok && small.float == "" || from != gpukernel.F32 && from != gpukernel.F16 || n.Int("precision", 0) > 1 {
		return refuse("from type %s to %s", from, to)
	}
	scale, err := l.granular(n, 1, shape)
	if err != nil {
		return err
	}
	if l.p.Type(scale) != from {
		return refuse("scales of type %s for operands of type %s", l.p.Type(scale), from)
	}
	x = l.p.Scalar(gpukernel.F32, "$0 / $1", x, scale)
	if from == gpukernel.F16 && n.Int("precision", 0) == 0 { // the quotient has the precision of the scale
		x = l.p.Cast(x, gpukernel.F16)
	}
	if small.float != "" {
		if n.Input(2) != nil {
			zero, err := l.granular(n, 2, shape)
			if err != nil {
				return err
			}
			x = l.p.Scalar(gpukernel.F32, "$0 + $1", x, l.widened(zero, to))
		}
		if x, err = l.narrowed(n, x, small); err != nil {
			return err
		}
		return l.result(n, 0, x)
	}
	zero := l.p.Constant(t, "0")
	if n.Input(2) != nil {
		if zero, err = l.granular(n, 2, shape); err != nil {
			return err
		}
	}
	return l.quantized(n, x, zero)
}

// quantized rounds quotients to even, adds a zero point, and keeps to the range of the result's type. NaN is the least of them.
func (l *lowering) quantized(n *graph.Node, x, zero gpukernel.Value) error {
	t, _, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	low, high, ok := endsOf(n.Outputs[0].Type.DType)
	if !ok {
		return refuse("results of type %s", t)
	}
	text := fmt.Sprintf("isnan_f32($0) ? %[1]d : (i32)clip_f32(rint_f32($0) + (f32)$1, %[1]d.0f, %[2]d.0f)", low, high)
	return l.result(n, 0, l.p.Scalar(t, text, x, zero))
}

// endsOf returns the least and the largest integer of a type that is quantised to.
func endsOf(dt tensor.DType) (low, high int, ok bool) {
	switch dt {
	case tensor.Int8, tensor.Int16, tensor.Int4, tensor.Int2:
		return -1 << (dt.Bits() - 1), 1<<(dt.Bits()-1) - 1, true
	case tensor.Uint8, tensor.Uint16, tensor.Uint4, tensor.Uint2:
		return 0, 1<<dt.Bits() - 1, true
	default:
		return 0, 0, false
	}
}

func (l *lowering) dequantize(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	t, shape, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	if isFloat(l.p.Type(x)) || !isFloat(t) || l.p.Type(x).Size() > 4 {
		return refuse("from type %s to %s", l.p.Type(x), t)
	}
	from := n.Input(0).Type.DType
	x = l.widened(x, from)
	scale, err := l.granular(n, 1, shape)
	if err != nil {
		return err
	}
	text := "(f32)$0 * $1"
	in := []gpukernel.Value{x, scale}
	if n.Input(2) != nil {
		zero, err := l.granular(n, 2, shape)
		if err != nil {
			return err
		}
		in, text = append(in, l.widened(zero, from)), "((f32)$0 - (f32)$2) * $1"
	}
	return l.result(n, 0, l.p.Scalar(t, text, in...))
}
