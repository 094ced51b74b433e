package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// Reductions of integers and of truth values, and products, one element after the other. Integers wrap around, but in means, whose sums
// have 64 bits, and which are truncated.

// reducesPlainly reports whether a reduction is one of these.
func reducesPlainly(n *graph.Node) bool {
	switch x := n.Inputs[0]; {
	case isWhole(x):
		return n.Is("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSumSquare", "ReduceL1")
	case x.Type.DType == tensor.Bool:
		return n.Is("ReduceMax", "ReduceMin")
	}
	return n.Is("ReduceProd") && (operators.IsFloat32(n.Inputs[0]) || isDouble(n.Inputs[0]))
}

func planReducePlainly(p *planner, n *graph.Node) error {
	switch x := n.Inputs[0]; {
	case isWhole(x):
		return integerKinds[x.Type.DType].reduce(p, n)
	case x.Type.DType == tensor.Bool:
		return planReduceIntegers[uint8](p, n)
	case isDouble(x):
		return planReduceProduct[float64](p, n)
	}
	return planReduceProduct[float32](p, n)
}

// reduceEach emits a reduction that fold makes of count elements of s, by apart.
func reduceEach[T tensor.Element](p *planner, n *graph.Node, fold func(s []T, count, by int) T) error {
	x := n.Inputs[0]
	axes, _ := reduceAxes(n)
	l := p.reduced(p.Dims[x.ID], axes, x.Type.DType.Size(), p.In(x))
	dst := p.Out(n.Outputs[0])
	p.emit(step{chunks: l.outer * l.inner, grain: grainFor(float64(l.count) * 2), body: func(st *state, _, lo, hi int) {
		o, s := of[T](st, dst), of[T](st, l.src)
		for i := lo; i < hi; i++ {
			o[i] = fold(s[i/l.inner*l.count*l.inner+i%l.inner:], l.count, l.inner)
		}
	}}, []place.Memory{l.src}, []place.Memory{dst})
	return nil
}

func planReduceProduct[T float32 | float64](p *planner, n *graph.Node) error {
	return reduceEach(p, n, func(s []T, count, by int) T {
		v := s[0]
		for k := 1; k < count; k++ {
			v *= s[k*by]
		}
		return v
	})
}

func planReduceIntegers[T integer](p *planner, n *graph.Node) error {
	// sum adds up what of makes of each element.
	sum := func(of func(x T) T) func(s []T, count, by int) T {
		return func(s []T, count, by int) (v T) {
			for k := range count {
				v += of(s[k*by])
			}
			return v
		}
	}
	join := func(of func(a, b T) T) func(s []T, count, by int) T {
		return func(s []T, count, by int) T {
			v := s[0]
			for k := 1; k < count; k++ {
				v = of(v, s[k*by])
			}
			return v
		}
	}
	switch n.Op.Name {
	case "ReduceProd":
		return reduceEach(p, n, join(func(a, b T) T { return a * b }))
	case "ReduceMax":
		return reduceEach(p, n, join(func(a, b T) T { return max(a, b) }))
	case "ReduceMin":
		return reduceEach(p, n, join(func(a, b T) T { return min(a, b) }))
	case "ReduceSumSquare":
		return reduceEach(p, n, sum(func(x T) T { return x * x }))
	case "ReduceL1":
		return reduceEach(p, n, sum(func(x T) T {
			if x < 0 {
				return -x
			}
			return x
		}))
	case "ReduceMean":
		return reduceEach(p, n, meanOf[T])
	}
	return reduceEach(p, n, sum(func(x T) T { return x }))
}

// meanOf returns the mean of elements, truncated.
func meanOf[T integer](s []T, count, by int) T {
	var least T
	if least-1 > 0 { // unsigned
		sum := uint64(0)
		for k := range count {
			sum += uint64(s[k*by])
		}
		return T(sum / uint64(count))
	}
	sum := int64(0)
	for k := range count {
		sum += int64(s[k*by])
	}
	return T(sum / int64(count))
}
