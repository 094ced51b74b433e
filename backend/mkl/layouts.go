package mkl

import (
	"context"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// planMove prepares a reorder by package convert. It allocates when it runs.
func planMove(x, y *graph.Value, dims []int) (hostMove, error) {
	move, err := convert.PlanHost(x.Format.Layout, y.Format.Layout, x.Type.DType, dims)
	if err != nil {
		return nil, err
	}
	dt := x.Type.DType
	return func(ctx context.Context, dst, src []byte) error {
		s, d := tensor.Tensor{DType: dt, Shape: dims, Data: src}, tensor.Tensor{DType: dt, Shape: dims, Data: dst}
		return move(ctx, &d, &s, convert.Exec{})
	}, nil
}

// sameOrder reports whether two layouts put the elements of a tensor of these dims, without padding, in one order: so it is
// where the axes with more than one index are the same, such as the channels of maps of one pixel.
func sameOrder(a, b graph.Layout, dims []int) bool {
	x, ok1 := axes(a, dims)
	y, ok2 := axes(b, dims)
	if !ok1 || !ok2 || len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}

// axis is a run of indexes of a dim: count of them, step apart.
type axis struct{ dim, step, count int }

// axes returns the axes of a layout's storage, from outermost to innermost, without those of one index, neighbours of one
// dim put together. ok is false where there is padding.
func axes(l graph.Layout, dims []int) (out []axis, ok bool) {
	d, err := l.Describe(len(dims))
	if err != nil {
		return nil, false
	}
	inner := make([]int, len(dims))
	for i := range inner {
		inner[i] = 1
	}
	for _, b := range d.Blocks {
		inner[b.Dim] *= b.Size
	}
	add := func(a axis) {
		if a.count == 1 {
			return
		}
		if n := len(out); n > 0 && out[n-1].dim == a.dim && out[n-1].step == a.step*a.count {
			out[n-1] = axis{a.dim, a.step, out[n-1].count * a.count}
			return
		}
		out = append(out, a)
	}
	for _, k := range d.Order {
		if dims[k]%inner[k] != 0 {
			return nil, false
		}
		add(axis{k, inner[k], dims[k] / inner[k]})
	}
	for _, b := range d.Blocks {
		inner[b.Dim] /= b.Size
		add(axis{b.Dim, inner[b.Dim], b.Size})
	}
	return out, true
}
