package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Resize and Upsample of images of integers and truth values: nearest neighbours of all, and bilinear of bytes, row by row. What lies
// between integers is cut, as ONNX casts: computed in float64, a number that rounding left below a whole one is that one.

func resizeElementSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, y := n.Inputs[0], n.Outputs[0]
	s, t := x.Type.Shape, y.Type.Shape
	if len(s) != 4 || len(t) != 4 || !s[0].Equal(t[0]) || !s[1].Equal(t[1]) {
		return nil, property.Because(property.ShapeReason, "two-dimensional images only, %v becomes %v", x.Type, y.Type)
	}
	r, why := resizingOf(n)
	if why != nil {
		return nil, why
	}
	if dt := x.Type.DType; r.linear && !isByte(x) || !dt.IsInt() && dt != tensor.Bool || dt.Size() == 0 {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	return operators.RowMajor(n), nil
}

func planResizeElements(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	if r, _ := resizingOf(n); r.linear {
		if x.Type.DType == tensor.Int8 {
			return resizeBytes[int8](p, n, r)
		}
		return resizeBytes[uint8](p, n, r)
	}
	switch x.Type.DType.Size() {
	case 1:
		return resizeNearest[uint8](p, n)
	case 2:
		return resizeNearest[uint16](p, n)
	case 4:
		return resizeNearest[uint32](p, n)
	}
	return resizeNearest[uint64](p, n)
}

// resizedRows emits a step for each row of a result: row is given the source's plane and which row of the result it is.
func resizedRows[T tensor.Element](p *planner, n *graph.Node, nanos float64, scratch place.Memory, row func(st *state, worker int, out, plane []T, y int)) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	if product(dy) == 0 {
		return nil
	}
	if product(dx) == 0 {
		return property.Because(property.ShapeReason, "%v is made of nothing", dy)
	}
	size, high, wide := dx[2]*dx[3], dy[2], dy[3]
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	p.emit(step{chunks: dx[0] * dx[1] * high, grain: grainFor(float64(wide)*nanos + 10), body: func(st *state, worker, lo, hi int) {
		d, s := of[T](st, dst), of[T](st, src)
		for i := lo; i < hi; i++ {
			row(st, worker, d[i*wide:(i+1)*wide], s[i/high*size:][:size], i%high)
		}
	}}, []place.Memory{src}, []place.Memory{scratch, dst})
	return nil
}

func resizeNearest[T tensor.Element](p *planner, n *graph.Node) error {
	r, _ := resizingOf(n)
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	ys, xs := r.along(0, dx[2], dy[2]), r.along(1, dx[3], dy[3])
	return resizedRows(p, n, 0.7, place.Nowhere, func(_ *state, _ int, out, plane []T, y int) {
		from := plane[int(ys.first[y])*dx[3]:][:dx[3]]
		for x, at := range xs.first {
			out[x] = from[at]
		}
	})
}

func resizeBytes[T int8 | uint8](p *planner, n *graph.Node, r resizing) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	w := dx[3]
	ys, xs, scratch := r.along(0, dx[2], dy[2]), r.along(1, w, dy[3]), p.scratch(8*w)
	return resizedRows(p, n, 2, scratch.at, func(st *state, worker int, out, plane []T, y int) {
		mixed, by := scratch.doubles(st, worker)[:w], ys.weight[y]
		top, bottom := plane[int(ys.first[y])*w:][:w], plane[int(ys.second[y])*w:][:w]
		for i, a := range top {
			mixed[i] = float64(a) + (float64(bottom[i])-float64(a))*by
		}
		for x, f := range xs.weight {
			a := mixed[xs.first[x]]
			out[x] = cutByte[T](a + (mixed[xs.second[x]]-a)*f)
		}
	})
}

// cutByte cuts a number between bytes to the one nearer to zero.
func cutByte[T int8 | uint8](v float64) T {
	const rounding = 1e-9 // see the reference kernels
	if v < 0 {
		return T(int32(v - rounding))
	}
	return T(int32(v + rounding))
}
