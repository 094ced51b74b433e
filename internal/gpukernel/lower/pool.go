package lower

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// windowMost is the most elements of a window: each is a term of the expression that a result is.
const windowMost = 128

// globalPool reduces all spatial dims.
func (l *lowering) globalPool(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	axes := from(2, len(l.p.Shape(x)))
	if !isFloat(l.p.Type(x)) || len(axes) == 0 {
		return refuse("operand of type %s and rank %d", l.p.Type(x), len(l.p.Shape(x)))
	}
	if n.Op.Name == "GlobalMaxPool" {
		return l.result(n, 0, l.p.Reduce(gpukernel.ReduceMax, x, axes...))
	}
	return l.result(n, 0, l.mean(x, axes))
}

// pool combines slices of the padded operand, one for each place in the window: what is a term of each result.
func (l *lowering) pool(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	if err := only(n); err != nil {
		return err
	}
	t, shape := l.p.Type(x), l.p.Shape(x)
	if !isFloat(t) && n.Op.Name != "MaxPool" || len(shape) < 3 {
		return refuse("operand of type %s and rank %d", t, len(shape))
	}
	win, err := graph.PoolAttrs(n)
	if err != nil {
		return refuse("%v", err)
	}
	out, begin, end, err := win.Resolve(shape[2:])
	if err != nil {
		return refuse("%v", err)
	}
	elements := 1
	for i, k := range win.Kernel {
		if elements *= k; elements > windowMost || begin[i] < 0 || end[i] < 0 {
			return refuse("a window of %v with padding %v, %v", win.Kernel, begin, end)
		}
	}
	w := window{l: l, Window: &win, shape: shape, out: append(slices.Clone(shape[:2]), out...), begin: begin, end: end}
	if n.Op.Name == "MaxPool" && !isFloat(t) {
		least, ok := map[gpukernel.Type]string{gpukernel.U8: "0", gpukernel.I8: "(-128)"}[t]
		if !ok {
			return refuse("operand of type %s", t)
		}
		return l.result(n, 0, w.combine(x, l.p.Constant(t, least), "($0 > $1 ? $0 : $1)"))
	}
	if n.Op.Name == "LpPool" {
		p := gpukernel.FloatLiteral(float32(n.Int("p", 2)))
		sum := w.combine(l.p.Scalar(t, "pow_f32(fabs_f32($0), "+p+")", x), l.p.Float(t, 0), "$0 + $1")
		return l.result(n, 0, l.p.Scalar(t, "pow_f32($0, 1.0f / "+p+")", sum))
	}
	if n.Op.Name == "MaxPool" {
		return l.result(n, 0, w.combine(x, l.p.Constant(t, "NEGATIVE_INFINITY"), "max_f32($0, $1)"))
	}
	zero, ones := l.p.Float(t, 0), l.p.Expand(l.p.Float(t, 1), shape...)
	sum := w.combine(x, zero, "$0 + $1")
	if n.Int("count_include_pad", 0) != 0 { // what lies beyond the padding does not count
		ones, w = w.padded(ones, l.p.Float(t, 1))
	}
	return l.result(n, 0, l.p.Scalar(t, "$0 / $1", sum, w.combine(ones, zero, "$0 + $1")))
}

// window is a pooling of a concrete shape.
type window struct {
	*graph.Window
	l          *lowering
	shape, out []int
	begin, end []int // padding by spatial dim
}

// combine folds the elements of each window by an expression; with stands for those outside.
func (w *window) combine(x, with gpukernel.Value, by string) gpukernel.Value {
	p, rank := w.l.p, len(w.shape)
	before, after := make([]int, rank), make([]int, rank)
	steps := slices.Repeat([]int{1}, rank)
	for i := range w.Kernel {
		reach := (w.out[2+i]-1)*w.Strides[i] + w.Extent(i)
		before[2+i] = w.begin[i]
		after[2+i] = max(reach-w.begin[i]-w.shape[2+i], 0) // with ceil_mode the last windows may reach further than the padding
		steps[2+i] = w.Strides[i]
	}
	if slices.Max(before)+slices.Max(after) > 0 {
		x = p.Pad(x, with, before, after)
	}
	t, starts := p.Type(x), make([]int, rank)
	var sum gpukernel.Value
	for k, at := 0, make([]int, len(w.Kernel)); ; k++ {
		for i := range at {
			starts[2+i] = at[i] * w.Dilations[i]
		}
		if s := p.Slice(x, w.out, starts, steps); k == 0 {
			sum = s
		} else {
			sum = p.Scalar(t, by, sum, s)
		}
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < w.Kernel[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return sum
		}
	}
}

// padded makes the padding a part of x, filled with a value, and returns the window over that.
func (w *window) padded(x, with gpukernel.Value) (gpukernel.Value, window) {
	before, after := make([]int, len(w.shape)), make([]int, len(w.shape))
	wide := *w
	wide.shape, wide.begin, wide.end = slices.Clone(w.shape), make([]int, len(w.begin)), make([]int, len(w.end))
	for i := range w.Kernel {
		before[2+i], after[2+i] = w.begin[i], w.end[i]
		wide.shape[2+i] += before[2+i] + after[2+i]
	}
	if slices.Max(before)+slices.Max(after) > 0 {
		x = w.l.p.Pad(x, with, before, after)
	}
	return x, wide
}

// lpPool is a pool.
func (l *lowering) lpPool(n *graph.Node) error {
	if n.Op.Since < 2 || n.Int("p", 2) < 1 {
		return refuse("p of %d", n.Int("p", 2))
	}
	return l.pool(n)
}

// dropout passes its operand on; the mask says that nothing is dropped.
func (l *lowering) dropout(n *graph.Node) error {
	v := n.Input(2)
	if n.Op.Since < 7 && n.Int("is_test", 0) == 0 || v != nil && (!v.IsConst() || v.Const.Len() != 1 || v.Const.Int64At(0) != 0) {
		return refuse("training")
	}
	if len(n.Outputs) > 1 && n.Outputs[1] != nil {
		t, shape, err := TypeOf(n.Outputs[1])
		if err != nil {
			return err
		}
		if err := l.result(n, 1, l.p.Expand(l.p.Constant(t, "1"), shape...)); err != nil {
			return err
		}
	}
	return l.reshape(n)
}
