package gradient

import (
	"github.com/carve-dev/carve/graph"
)

// reductionRules are those of operators that reduce axes, or normalise along one.
var reductionRules = map[string]func(*step){
	"ReduceSum": func(s *step) { s.give(0, s.spread(s.byOut())) },
	"ReduceMean": func(s *step) {
		s.give(0, s.over(s.spread(s.byOut()), s.ratio(s.in(0), s.out())))
	},
	"ReduceMax": reducedExtreme,
	"ReduceMin": reducedExtreme,
	"ReduceLogSumExp": func(s *step) {
		s.give(0, s.times(s.kept(s.byOut()), s.call("Exp", nil, s.minus(s.in(0), s.kept(s.out())))))
	},
	"Softmax": func(s *step) {
		by := s.times(s.byOut(), s.out())
		s.give(0, s.minus(by, s.times(s.out(), s.reduce("ReduceSum", by, s.normalised()...))))
	},
	"LogSoftmax": func(s *step) {
		sum := s.reduce("ReduceSum", s.byOut(), s.normalised()...)
		s.give(0, s.minus(s.byOut(), s.times(s.call("Exp", nil, s.out()), sum)))
	},
	"CumSum": func(s *step) {
		as := attrs(graph.IntAttr("exclusive", s.n.Int("exclusive", 0)), graph.IntAttr("reverse", 1-s.n.Int("reverse", 0)))
		s.give(0, s.call("CumSum", as, s.byOut(), s.in(1)))
	},
}

// axes returns what names the axes of a reduction, nil for none.
func (s *step) axes() *graph.Value {
	if list, ok := s.n.Ints("axes"); ok && len(list) > 0 {
		return s.ints(list...)
	}
	return s.in(1)
}

// reduced applies another reduction to x over the axes of the node's.
func (s *step) reduced(name string, x *graph.Value, keep int64) *graph.Value {
	as := attrs(graph.IntAttr("keepdims", keep), graph.IntAttr("noop_with_empty_axes", s.n.Int("noop_with_empty_axes", 0)))
	if axes := s.axes(); axes != nil {
		return s.call(name, as, x, axes)
	}
	return s.call(name, as, x)
}

// kept gives a tensor of the result's shape ones where the reduction has taken axes. Where it has taken all it is a scalar.
func (s *step) kept(v *graph.Value) *graph.Value {
	axes := s.axes()
	if s.n.Int("keepdims", 1) != 0 || axes == nil {
		return v
	}
	return s.call("Unsqueeze", nil, v, axes)
}

// spread repeats a tensor of the result's shape along the axes that the reduction has taken.
func (s *step) spread(v *graph.Value) *graph.Value {
	return s.call("Expand", nil, s.kept(v), s.shape(s.in(0)))
}

// ratio returns how many elements x has for each of y, as a number of x's type.
func (b *builder) ratio(x, y *graph.Value) *graph.Value {
	from, ok := x.Type.Shape.Static()
	to, ok2 := y.Type.Shape.Static()
	if n := product(to); ok && ok2 && n > 0 {
		return b.number(x, float64(product(from)/n))
	}
	size := func(v *graph.Value) *graph.Value {
		return b.call("Cast", attrs(graph.IntAttr("to", int64(x.Type.DType))), b.call("Size", nil, v))
	}
	return b.over(size(x), size(y))
}

func product(list []int) int {
	n := 1
	for _, x := range list {
		n *= x
	}
	return n
}

func reducedExtreme(s *step) {
	mask := s.cast(s.call("Equal", nil, s.in(0), s.kept(s.out())), s.in(0))
	s.give(0, s.over(s.times(mask, s.kept(s.byOut())), s.reduced("ReduceSum", mask, 1)))
}

// normalised returns the axes that a Softmax works along: one, before version 13 all from one on.
func (s *step) normalised() []int {
	x := s.in(0)
	if s.n.Schema == nil || s.n.Schema.Since >= 13 {
		return []int{axis(s.n, x, -1)}
	}
	return series(axis(s.n, x, 1), rank(x))
}
