package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Reductions of integers, as shapes and indices need them, and products, one element after the other. Integers wrap around.

// reducesPlainly reports whether a reduction is one of these.
func reducesPlainly(n *graph.Node) bool {
	switch n.Inputs[0].Type.DType {
	case tensor.Int64, tensor.Int32:
		return n.Is("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")
	case tensor.Float32, tensor.Float64:
		return n.Is("ReduceProd")
	}
	return false
}

func planReducePlainly(p *planner, n *graph.Node) error {
	switch n.Inputs[0].Type.DType {
	case tensor.Int64:
		return planReduceOf[int64](p, n)
	case tensor.Int32:
		return planReduceOf[int32](p, n)
	case tensor.Float64:
		return planReduceOf[float64](p, n)
	}
	return planReduceOf[float32](p, n)
}

func planReduceOf[T int32 | int64 | float32 | float64](p *planner, n *graph.Node) error {
	var join func(a, b T) T
	switch n.Op.Name {
	case "ReduceSum":
		join = func(a, b T) T { return a + b }
	case "ReduceProd":
		join = func(a, b T) T { return a * b }
	case "ReduceMax":
		join = func(a, b T) T { return max(a, b) }
	case "ReduceMin":
		join = func(a, b T) T { return min(a, b) }
	}
	x := n.Inputs[0]
	axes, _ := reduceAxes(n)
	l := p.reduced(p.Dims[x.ID], axes, x.Type.DType.Size(), p.In(x))
	if l.count == 0 {
		return property.Because(property.ShapeReason, "nothing to reduce in %v", p.Dims[x.ID])
	}
	dst := p.Out(n.Outputs[0])
	p.emit(step{chunks: l.outer * l.inner, grain: grainFor(float64(l.count) * 2), body: func(st *state, _, lo, hi int) {
		o, s := of[T](st, dst), of[T](st, l.src)
		for i := lo; i < hi; i++ {
			at := i/l.inner*l.count*l.inner + i%l.inner
			v := s[at]
			for k := 1; k < l.count; k++ {
				v = join(v, s[at+k*l.inner])
			}
			o[i] = v
		}
	}}, []place.Memory{l.src}, []place.Memory{dst})
	return nil
}
