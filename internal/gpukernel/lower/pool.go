package lower

import (
	"fmt"
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
	indices := n.Op.Name == "MaxPool" && n.Output(1) != nil
	if err := only(n); err != nil && !indices {
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
	if n.Op.Name == "MaxPool" {
		least, by := "NEGATIVE_INFINITY", "max_f32($0, $1)"
		if !isFloat(t) {
			if least, by = (map[gpukernel.Type]string{gpukernel.U8: "0", gpukernel.I8: "(-128)"})[t], "($0 > $1 ? $0 : $1)"; least == "" {
				return refuse("operand of type %s", t)
			}
		}
		if indices {
			if err := l.result(n, 1, w.argmax(x, l.p.Constant(t, least), by, n.Int("storage_order", 0) != 0)); err != nil {
				return err
			}
		}
		return l.result(n, 0, w.combine(x, l.p.Constant(t, least), by))
	}
	if n.Op.Name == "LpPool" {
		p := gpukernel.FloatLiteral(float32(n.Int("p", 2)))
		sum := w.combine(l.p.Scalar(t, "pow_f32(fabs_f32($0), "+p+")", x), l.p.Float(t, 0), "$0 + $1")
		return l.result(n, 0, l.p.Scalar(t, "pow_f32($0, 1.0f / "+p+")", sum))
	}
	zero, ones := l.p.Float(t, 0), l.p.Expand(l.p.Float(t, 1), shape...)
	sum := w.combine(x, zero, "$0 + $1")
	if n.Int("count_include_pad", 0) != 0 { // what lies beyond the padding does not count
		ones, w = w.padded(ones, l.p.Float(t, 1))
	}
	return l.result(n, 0, l.p.Scalar(t, "$0 / max_f32($1, 1.0f)", sum, w.combine(ones, zero, "$0 + $1"))) // the mean of no elements is 0
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
	places := w.places(x, with)
	sum := places[0]
	for _, v := range places[1:] {
		sum = w.l.p.Scalar(w.l.p.Type(x), by, sum, v)
	}
	return sum
}

// argmax returns where in the operand the first largest element of each window lies, NaN counting as the largest: in row-major order, or
// in that of columns within each plane.
func (w *window) argmax(x, least gpukernel.Value, largest string, columns bool) gpukernel.Value {
	p, spatial := w.l.p, w.shape[2:]
	plane := 1
	for _, d := range spatial {
		plane *= d
	}
	own := p.Iota(plane)
	if columns {
		back, perm := slices.Clone(spatial), make([]int, len(spatial))
		slices.Reverse(back)
		for i := range perm {
			perm[i] = len(perm) - 1 - i
		}
		own = p.Transpose(p.Reshape(own, back...), perm...)
	}
	one := *w
	one.shape, one.out = append([]int{1, 1}, spatial...), append([]int{1, 1}, w.out[2:]...)
	outside := p.Constant(gpukernel.I32, "(-1)")
	at, values := one.places(p.Reshape(own, one.shape...), outside), w.places(x, least)
	larger := "($0 > $1)"
	if isFloat(p.Type(x)) {
		larger = "($0 > $1 || (isnan_f32($0) && !isnan_f32($1)))"
	}
	best, found := values[0], at[0]
	for k := 1; k < len(at); k++ {
		take := p.Scalar(gpukernel.Bool, "($0 >= 0 && ($1 < 0 || $2))", at[k], found, p.Scalar(gpukernel.Bool, larger, values[k], best))
		found = p.Scalar(gpukernel.I32, "($0 ? $1 : $2)", take, at[k], found)
		best = p.Scalar(p.Type(x), largest, best, values[k])
	}
	planes := append([]int{w.shape[0], w.shape[1]}, slices.Repeat([]int{1}, len(spatial))...)
	first := p.Scalar(gpukernel.I32, fmt.Sprintf("$0 * %d", plane), p.Reshape(p.Iota(w.shape[0]*w.shape[1]), planes...))
	return p.Cast(p.Scalar(gpukernel.I32, "$0 + $1", first, found), gpukernel.I64)
}

// places returns the elements of windows by place in the window, in row-major order; with stands for those outside.
func (w *window) places(x, with gpukernel.Value) []gpukernel.Value {
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
	starts := make([]int, rank)
	var list []gpukernel.Value
	for at := make([]int, len(w.Kernel)); ; {
		for i := range at {
			starts[2+i] = at[i] * w.Dilations[i]
		}
		list = append(list, p.Slice(x, w.out, starts, steps))
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < w.Kernel[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return list
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
