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

// reduceEach emits a reduction. fold sets each number of o to what it makes of count elements of s, by apart; those of the number after
// it begin next elements later.
func reduceEach[T tensor.Element](p *planner, n *graph.Node, fold func(o, s []T, next, count, by int)) error {
	x := n.Inputs[0]
	axes, _ := reduceAxes(n)
	l := p.reduced(p.Dims[x.ID], axes, x.Type.DType.Size(), p.In(x))
	dst := p.Out(n.Outputs[0])
	p.emit(step{chunks: l.outer * l.inner, grain: grainFor(float64(l.count) * 2), body: func(st *state, _, lo, hi int) {
		o, s := of[T](st, dst), of[T](st, l.src)
		if l.inner == 1 {
			fold(o[lo:hi], s[lo*l.count:], l.count, l.count, 1)
			return
		}
		for lo < hi {
			outer, inner := lo/l.inner, lo%l.inner
			n := min(l.inner-inner, hi-lo)
			fold(o[lo:lo+n], s[outer*l.count*l.inner+inner:], 1, l.count, l.inner)
			lo += n
		}
	}}, []place.Memory{l.src}, []place.Memory{dst})
	return nil
}

func planReduceProduct[T float32 | float64](p *planner, n *graph.Node) error {
	return reduceEach(p, n, products[T])
}

// products, sumsOf, mostOf and leastOf are reductions for reduceEach, each of which is written out: a function that is called for every
// element takes several times as long.

func products[T integer | float32 | float64](o, s []T, next, count, by int) {
	for j := range o {
		part := s[j*next:]
		v := part[0]
		for k := 1; k < count; k++ {
			v *= part[k*by]
		}
		o[j] = v
	}
}

func sumsOf[T integer](o, s []T, next, count, by int) {
	for j := range o {
		part := s[j*next:]
		v := part[0]
		for k := 1; k < count; k++ {
			v += part[k*by]
		}
		o[j] = v
	}
}

func mostOf[T integer](o, s []T, next, count, by int) {
	for j := range o {
		part := s[j*next:]
		v := part[0]
		for k := 1; k < count; k++ {
			v = max(v, part[k*by])
		}
		o[j] = v
	}
}

func leastOf[T integer](o, s []T, next, count, by int) {
	for j := range o {
		part := s[j*next:]
		v := part[0]
		for k := 1; k < count; k++ {
			v = min(v, part[k*by])
		}
		o[j] = v
	}
}

func planReduceIntegers[T integer](p *planner, n *graph.Node) error {
	// sum adds up what of makes of each element.
	sum := func(of func(x T) T) func(o, s []T, next, count, by int) {
		return eachNumber(func(s []T, count, by int) (v T) {
			for k := range count {
				v += of(s[k*by])
			}
			return v
		})
	}
	switch n.Op.Name {
	case "ReduceProd":
		return reduceEach(p, n, products[T])
	case "ReduceMax":
		return reduceEach(p, n, mostOf[T])
	case "ReduceMin":
		return reduceEach(p, n, leastOf[T])
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
		return reduceEach(p, n, eachNumber(meanOf[T]))
	}
	return reduceEach(p, n, sumsOf[T])
}

// eachNumber is a reduction for reduceEach by a function that makes one number.
func eachNumber[T integer](fold func(s []T, count, by int) T) func(o, s []T, next, count, by int) {
	return func(o, s []T, next, count, by int) {
		for j := range o {
			o[j] = fold(s[j*next:], count, by)
		}
	}
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
