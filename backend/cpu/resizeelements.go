package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Resize and Upsample of images row by row: of integers and truth values, and of floats where channels lie last. Nearest neighbours of all,
// and bilinear of floats and bytes. What lies between integers is cut, as ONNX casts: computed in float64, a number that rounding left below
// a whole one is that one.

func resizeElementSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	r, why := resizingOf(n)
	if why != nil {
		return nil, why
	}
	switch dt := x.Type.DType; {
	case dt == tensor.Float32:
	case r.linear && !isByte(x), !dt.IsInt() && dt != tensor.Bool, dt.Size() == 0:
		return nil, property.Because(property.DTypeReason, "%v is %v", x, dt)
	}
	return operators.RowMajor(n), nil
}

func planResizeElements(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	r, _ := resizingOf(n)
	switch dt := x.Type.DType; {
	case r.linear && dt == tensor.Float32:
		return resizeFloats(p, n, r)
	case r.linear && dt == tensor.Int8:
		return resizeBytes[int8](p, n, r)
	case r.linear:
		return resizeBytes[uint8](p, n, r)
	}
	return planNearest(p, n, r)
}

// imageRows is what a resizing of images reads: rows of so many pixels, each of a channel or of all.
type imageRows struct {
	width, channels int
	ys, xs          sourceOf
}

// rows returns the rows of a resizing, and how many numbers they have.
func (r *resizing) rows(p *planner, n *graph.Node) (rows imageRows, length int) {
	a, dx, dy := resizedAxis(n), p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	rows = imageRows{width: dx[a+1], channels: product(dx[a+2:]), ys: r.along(0, dx[a], dy[a]), xs: r.along(1, dx[a+1], dy[a+1])}
	return rows, rows.width * rows.channels
}

// resizedRows emits a step for each row of a result: row is given the source's image and which row of the result it is.
func resizedRows[T tensor.Element](p *planner, n *graph.Node, nanos float64, scratch place.Memory, row func(st *state, worker int, out, image []T, y int)) error {
	a, dx, dy := resizedAxis(n), p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	if product(dy) == 0 {
		return nil
	}
	if product(dx) == 0 {
		return property.Because(property.ShapeReason, "%v is made of nothing", dy)
	}
	size, high, wide := product(dx[a:]), dy[a], product(dy[a+1:])
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	p.emit(step{chunks: product(dx[:a]) * high, grain: grainFor(float64(wide)*nanos + 10), body: func(st *state, worker, lo, hi int) {
		d, s := of[T](st, dst), of[T](st, src)
		for i := lo; i < hi; i++ {
			row(st, worker, d[i*wide:(i+1)*wide], s[i/high*size:][:size], i%high)
		}
	}}, []place.Memory{src}, []place.Memory{scratch, dst})
	return nil
}

// resizeTwice is planNearest of bytes where each row of an image, and each byte of that, is read two times.
func resizeTwice(p *planner, n *graph.Node, high, wide int) error {
	integers, src, dst := p.integers, p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	plane := high * wide
	p.emit(step{chunks: product(p.Dims[n.Inputs[0].ID]) / plane, grain: grainFor(float64(high) * (float64(wide)*0.1 + 10)), body: func(st *state, _, lo, hi int) {
		x, y := st.Bytes(src), st.Bytes(dst)
		for i := lo; i < hi; i++ {
			out := y[4*i*plane:][:4*plane]
			rows := out[2*plane:] // each of them, before it is there twice; the last is where it belongs
			integers.Twice(rows, x[i*plane:][:plane])
			for at := 0; at < 2*plane; at += 2 * wide {
				copy(out[2*at:], rows[at:][:2*wide])
				copy(out[2*at+2*wide:], rows[at:][:2*wide])
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

func resizeBytes[T int8 | uint8](p *planner, n *graph.Node, r resizing) error {
	rows, w := r.rows(p, n)
	scratch, c := p.scratch(8*w), rows.channels
	return resizedRows(p, n, 2, scratch.at, func(st *state, worker int, out, image []T, y int) {
		mixed, by := scratch.doubles(st, worker)[:w], rows.ys.weight[y]
		top, bottom := image[int(rows.ys.first[y])*w:][:w], image[int(rows.ys.second[y])*w:][:w]
		for i, a := range top {
			mixed[i] = float64(a) + (float64(bottom[i])-float64(a))*by
		}
		if c == 1 {
			for x, f := range rows.xs.weight {
				a := mixed[rows.xs.first[x]]
				out[x] = cutByte[T](a + (mixed[rows.xs.second[x]]-a)*f)
			}
			return
		}
		for x, f := range rows.xs.weight {
			left, right := mixed[int(rows.xs.first[x])*c:][:c], mixed[int(rows.xs.second[x])*c:][:c]
			for k, a := range left {
				out[x*c+k] = cutByte[T](a + (right[k]-a)*f)
			}
		}
	})
}

// resizeFloats is bilinear, of images whose channels lie last.
func resizeFloats(p *planner, n *graph.Node, r resizing) error {
	rows, w := r.rows(p, n)
	scratch, c, set := p.scratch(4*w), rows.channels, p.target.Set
	return resizedRows(p, n, 1, scratch.at, func(st *state, worker int, out, image []float32, y int) {
		mixed, by := scratch.floats(st, worker)[:w], float32(rows.ys.weight[y])
		top, bottom := image[int(rows.ys.first[y])*w:][:w], image[int(rows.ys.second[y])*w:][:w]
		element.Mix(set, mixed, top, bottom, by)
		for x, weight := range rows.xs.weight {
			left, right := mixed[int(rows.xs.first[x])*c:][:c], mixed[int(rows.xs.second[x])*c:][:c]
			element.Mix(set, out[x*c:][:c], left, right, float32(weight))
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
