package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Resize and Upsample of images of float64: nearest neighbours and bilinear, row by row. What a row of the result reads is mixed from two
// rows of the source first, and then along the row.

func doubleResizeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if resizedAxis(n) != 2 {
		return nil, property.Because(property.ShapeReason, "two-dimensional images only, %v becomes %v", n.Inputs[0].Type, n.Outputs[0].Type)
	}
	if _, why := resizingOf(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

// sourceOf is where positions of a result lie along an axis of a source: between first and second, with weight of the second. Neighbours
// are first alone.
type sourceOf struct {
	first, second []int32
	weight        []float64
}

// along returns an axis of a resizing.
func (r *resizing) along(axis, in, out int) sourceOf {
	if !r.linear {
		return sourceOf{first: conv.NearestAxis(in, out, r.scales[axis], r.coordinates, r.rounding).First}
	}
	t := conv.LinearAxis(in, out, r.scales[axis], r.coordinates)
	s := sourceOf{t.First, t.Second, make([]float64, out)}
	for i := range s.weight {
		s.weight[i] = r.coordinates.Inside(i, in, out, r.scales[axis]) - float64(t.First[i])
	}
	return s
}

func planDoubleResize(p *planner, n *graph.Node) error {
	r, _ := resizingOf(n)
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	if product(dy) == 0 {
		return nil
	}
	if product(dx) == 0 {
		return property.Because(property.ShapeReason, "%v is made of nothing", dy)
	}
	h, w, high, wide := dx[2], dx[3], dy[2], dy[3]
	ys, xs := r.along(0, h, high), r.along(1, w, wide)
	src, dst, kernels, scratch := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), p.doubles(), p.scratch(8*w)
	p.emit(step{chunks: dx[0] * dx[1] * high, grain: grainFor(float64(w+wide) * 1.5), body: func(st *state, worker, lo, hi int) {
		d, s, mixed := f64(st, dst), f64(st, src), scratch.doubles(st, worker)[:w]
		for i := lo; i < hi; i++ {
			plane, y, out := s[i/high*h*w:][:h*w], i%high, d[i*wide:(i+1)*wide]
			row := plane[int(ys.first[y])*w:][:w]
			if !r.linear {
				for x := range out {
					out[x] = row[xs.first[x]]
				}
				continue
			}
			kernels.Scale(mixed, row, 1-ys.weight[y])
			kernels.MulAdd(mixed, plane[int(ys.second[y])*w:][:w], ys.weight[y])
			for x := range out {
				f := xs.weight[x]
				out[x] = mixed[xs.first[x]]*(1-f) + mixed[xs.second[x]]*f
			}
		}
	}}, []place.Memory{src}, []place.Memory{scratch.at, dst})
	return nil
}

func init() {
	registerDoubles(operator{Signatures: doubleResizeSignatures, Plan: planDoubleResize}, 1, "Resize", "Upsample")
}
