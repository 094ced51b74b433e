package gradient

import (
	"math"

	"github.com/carve-dev/carve/graph"
)

// slopes are the derivatives of functions of one operand x with the value y.
var slopes = map[string]func(s *step, x, y *graph.Value) *graph.Value{
	"Abs": func(s *step, x, _ *graph.Value) *graph.Value { return s.call("Sign", nil, x) },
	"Acos": func(s *step, x, _ *graph.Value) *graph.Value {
		return s.negated(s.inverse(s.root(s.oneMinus(s.square(x)))))
	},
	"Acosh":      func(s *step, x, _ *graph.Value) *graph.Value { return s.inverse(s.root(s.shifted(s.square(x), -1))) },
	"Asin":       func(s *step, x, _ *graph.Value) *graph.Value { return s.inverse(s.root(s.oneMinus(s.square(x)))) },
	"Asinh":      func(s *step, x, _ *graph.Value) *graph.Value { return s.inverse(s.root(s.shifted(s.square(x), 1))) },
	"Atan":       func(s *step, x, _ *graph.Value) *graph.Value { return s.inverse(s.shifted(s.square(x), 1)) },
	"Atanh":      func(s *step, x, _ *graph.Value) *graph.Value { return s.inverse(s.oneMinus(s.square(x))) },
	"Cos":        func(s *step, x, _ *graph.Value) *graph.Value { return s.negated(s.call("Sin", nil, x)) },
	"Cosh":       func(s *step, x, _ *graph.Value) *graph.Value { return s.call("Sinh", nil, x) },
	"Exp":        func(_ *step, _, y *graph.Value) *graph.Value { return y },
	"HardSwish":  hardSwishSlope,
	"Log":        func(s *step, x, _ *graph.Value) *graph.Value { return s.inverse(x) },
	"Neg":        func(s *step, x, _ *graph.Value) *graph.Value { return s.number(x, -1) },
	"Reciprocal": func(s *step, _, y *graph.Value) *graph.Value { return s.negated(s.square(y)) },
	"Relu":       func(s *step, x, _ *graph.Value) *graph.Value { return s.cast(s.compare("Greater", x, 0), x) },
	"Sigmoid":    func(s *step, _, y *graph.Value) *graph.Value { return s.times(y, s.oneMinus(y)) },
	"Sin":        func(s *step, x, _ *graph.Value) *graph.Value { return s.call("Cos", nil, x) },
	"Sinh":       func(s *step, x, _ *graph.Value) *graph.Value { return s.call("Cosh", nil, x) },
	"Softplus":   func(s *step, x, _ *graph.Value) *graph.Value { return s.call("Sigmoid", nil, x) },
	"Softsign": func(s *step, x, _ *graph.Value) *graph.Value {
		return s.inverse(s.square(s.shifted(s.call("Abs", nil, x), 1)))
	},
	"Sqrt": func(s *step, _, y *graph.Value) *graph.Value { return s.inverse(s.scaled(y, 2)) },
	"Tan":  func(s *step, _, y *graph.Value) *graph.Value { return s.shifted(s.square(y), 1) },
	"Tanh": func(s *step, _, y *graph.Value) *graph.Value { return s.oneMinus(s.square(y)) },
	"Erf": func(s *step, x, _ *graph.Value) *graph.Value {
		return s.scaled(s.call("Exp", nil, s.negated(s.square(x))), 2/math.SqrtPi)
	},
	"Celu": func(s *step, x, y *graph.Value) *graph.Value {
		return s.belowZero(x, s.shifted(s.scaled(y, 1/s.float("alpha", 1)), 1), 1)
	},
	"Elu": func(s *step, x, y *graph.Value) *graph.Value {
		return s.belowZero(x, s.shifted(y, s.float("alpha", 1)), 1)
	},
	"LeakyRelu": func(s *step, x, _ *graph.Value) *graph.Value {
		return s.belowZero(x, s.number(x, s.float("alpha", 0.01)), 1)
	},
	"Selu": func(s *step, x, y *graph.Value) *graph.Value {
		alpha, gamma := s.float("alpha", 1.67326319217681884765625), s.float("gamma", 1.05070102214813232421875)
		return s.belowZero(x, s.shifted(y, alpha*gamma), gamma)
	},
	"HardSigmoid": func(s *step, x, y *graph.Value) *graph.Value {
		inside := s.call("And", nil, s.compare("Greater", y, 0), s.compare("Less", y, 1))
		return s.scaled(s.cast(inside, x), s.float("alpha", 0.2))
	},
	"Shrink": func(s *step, x, _ *graph.Value) *graph.Value {
		return s.cast(s.compare("Greater", s.call("Abs", nil, x), s.float("lambd", 0.5)), x)
	},
	"ThresholdedRelu": func(s *step, x, _ *graph.Value) *graph.Value {
		return s.cast(s.compare("Greater", x, s.float("alpha", 1)), x)
	},
}

// float reads an attribute of the node.
func (s *step) float(name string, def float32) float64 { return float64(s.n.Float(name, def)) }

// belowZero returns below where x is less than zero, and else above.
func (s *step) belowZero(x, below *graph.Value, above float64) *graph.Value {
	return s.where(s.compare("Less", x, 0), below, s.number(x, above))
}

// hardSwishSlope is that of x·max(0, min(1, x/6+1/2)).
func hardSwishSlope(s *step, x, _ *graph.Value) *graph.Value {
	inside := s.shifted(s.scaled(x, 1./3), 0.5)
	one, zero := s.number(x, 1), s.number(x, 0)
	return s.where(s.compare("Less", x, -3), zero, s.where(s.compare("Greater", x, 3), one, inside))
}

// arithmeticRules are those of elementwise operators of several operands.
var arithmeticRules = map[string]func(*step){
	"Add": func(s *step) { s.give(0, s.byOut()); s.give(1, s.byOut()) },
	"Sub": func(s *step) { s.give(0, s.byOut()); s.give(1, s.negated(s.byOut())) },
	"Mul": func(s *step) {
		if s.wants(0) {
			s.give(0, s.times(s.byOut(), s.in(1)))
		}
		if s.wants(1) {
			s.give(1, s.times(s.byOut(), s.in(0)))
		}
	},
	"Div": func(s *step) {
		by := s.over(s.byOut(), s.in(1))
		s.give(0, by)
		if s.wants(1) {
			s.give(1, s.negated(s.times(by, s.out())))
		}
	},
	"Mod": func(s *step) { // a - b·n with whole n
		s.give(0, s.byOut())
		if s.wants(1) {
			s.give(1, s.times(s.byOut(), s.over(s.minus(s.out(), s.in(0)), s.in(1))))
		}
	},
	"Pow":  power,
	"Sum":  func(s *step) { s.share(s.byOut()) },
	"Mean": func(s *step) { s.share(s.scaled(s.byOut(), 1/float64(len(s.n.Inputs)))) },
	"Max":  extreme,
	"Min":  extreme,
	"Clip": func(s *step) {
		x, g := s.in(0), s.byOut()
		s.give(0, s.times(g, s.cast(s.call("Equal", nil, x, s.out()), x)))
		for i, outside := range []string{"Less", "Greater"} {
			if s.wants(1 + i) {
				s.give(1+i, s.times(g, s.cast(s.call(outside, nil, x, s.in(1+i)), x)))
			}
		}
	},
	"Where": func(s *step) {
		c, g := s.in(0), s.byOut()
		zero := s.number(g, 0)
		if s.wants(1) {
			s.give(1, s.where(c, g, zero))
		}
		if s.wants(2) {
			s.give(2, s.where(c, zero, g))
		}
	},
	"PRelu": func(s *step) {
		x, g := s.in(0), s.byOut()
		below := s.compare("Less", x, 0)
		s.give(0, s.where(below, s.times(g, s.in(1)), g))
		if s.wants(1) {
			s.give(1, s.where(below, s.times(g, x), s.number(x, 0)))
		}
	},
	"Cast":     func(s *step) { s.give(0, s.byOut()) },
	"CastLike": func(s *step) { s.give(0, s.byOut()) },
	"Identity": func(s *step) { s.give(0, s.byOut()) },
	"Dropout": func(s *step) {
		training := s.in(2)
		require(training == nil || training.Const != nil && training.Const.Int64At(0) == 0, ErrNoRule, "training")
		s.give(0, s.byOut())
	},
}

// share gives every operand the same.
func (s *step) share(v *graph.Value) {
	for i := range s.n.Inputs {
		s.give(i, v)
	}
}

// power is x^p, whose exponent may have another type.
func power(s *step) {
	x, p, g := s.in(0), s.cast(s.in(1), s.in(0)), s.byOut()
	if s.wants(0) { // p·x^(p-1), and 0·x where p is 0
		less := s.where(s.compare("Equal", p, 0), s.number(p, 1), s.shifted(p, -1))
		s.give(0, s.times(s.times(g, p), s.call("Pow", nil, x, less)))
	}
	if s.wants(1) { // 0^p is flat
		positive := s.compare("Greater", x, 0)
		log := s.call("Log", nil, s.where(positive, x, s.number(x, 1)))
		s.give(1, s.times(s.times(g, s.out()), log))
	}
}

// extreme shares what a maximum or minimum gives among the operands that are equal to it.
func extreme(s *step) {
	masks := make([]*graph.Value, len(s.n.Inputs))
	for i, x := range s.n.Inputs {
		masks[i] = s.cast(s.call("Equal", nil, x, s.out()), s.out())
	}
	part := s.byOut()
	if len(masks) > 1 {
		part = s.over(part, s.call("Sum", nil, masks...))
	}
	for i, m := range masks {
		if s.wants(i) {
			s.give(i, s.times(part, m))
		}
	}
}
