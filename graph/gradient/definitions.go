package gradient

import (
	"math"

	"github.com/carve-dev/carve/graph"
)

func one(v *graph.Value) []*graph.Value { return []*graph.Value{v} }

// functionDefinitions are those of functions, sums and losses.
var functionDefinitions = map[string]func(*step) []*graph.Value{
	"Gelu": func(s *step) []*graph.Value {
		x := s.in(0)
		var inner *graph.Value
		if s.n.Str("approximate", "none") == "tanh" {
			cubic := s.times(x, s.shifted(s.scaled(s.square(x), 0.044715), 1))
			inner = s.call("Tanh", nil, s.scaled(cubic, math.Sqrt(2/math.Pi)))
		} else {
			inner = s.call("Erf", nil, s.scaled(x, math.Sqrt2/2))
		}
		return one(s.times(s.scaled(x, 0.5), s.shifted(inner, 1)))
	},
	"Mish": func(s *step) []*graph.Value {
		return one(s.times(s.in(0), s.call("Tanh", nil, s.call("Softplus", nil, s.in(0)))))
	},
	"Swish": func(s *step) []*graph.Value {
		return one(s.times(s.in(0), s.call("Sigmoid", nil, s.scaled(s.in(0), s.float("alpha", 1)))))
	},
	"ReduceL1":                  func(s *step) []*graph.Value { return one(s.reducing(s.call("Abs", nil, s.in(0)))) },
	"ReduceL2":                  func(s *step) []*graph.Value { return one(s.root(s.reducing(s.square(s.in(0))))) },
	"ReduceLogSum":              func(s *step) []*graph.Value { return one(s.call("Log", nil, s.reducing(s.in(0)))) },
	"ReduceSumSquare":           func(s *step) []*graph.Value { return one(s.reducing(s.square(s.in(0)))) },
	"NegativeLogLikelihoodLoss": func(s *step) []*graph.Value { return one(s.likelihoodLoss(s.in(0))) },
	"SoftmaxCrossEntropyLoss": func(s *step) []*graph.Value {
		log := s.call("LogSoftmax", attrs(graph.IntAttr("axis", 1)), s.in(0))
		return []*graph.Value{s.likelihoodLoss(log), log}
	},
}

// reducing is the node's reduction as a sum.
func (s *step) reducing(x *graph.Value) *graph.Value {
	return s.reduced("ReduceSum", x, s.n.Int("keepdims", 1))
}

// likelihoodLoss is minus the weighted x of each target's class. x is [N, C, d…], the target [N, d…].
func (s *step) likelihoodLoss(x *graph.Value) *graph.Value {
	target := s.in(1)
	class := s.call("Unsqueeze", nil, target, s.ints(1))
	weights := s.filled(x, 1)
	if s.in(2) != nil { // of each class
		shape := make([]int64, rank(x))
		for i := range shape {
			shape[i] = 1
		}
		shape[1] = -1
		weights = s.times(weights, s.call("Reshape", nil, s.in(2), s.ints(shape...)))
	}
	var ignored *graph.Value
	if a := s.n.Attrs.Lookup("ignore_index"); a != nil {
		ignored = s.compare("Equal", class, float64(a.Int))
		class = s.where(ignored, s.number(class, 0), class)
	}
	pick := func(v *graph.Value) *graph.Value {
		v = s.call("GatherElements", attrs(graph.IntAttr("axis", 1)), v, class)
		if ignored != nil {
			v = s.where(ignored, s.number(v, 0), v)
		}
		return s.call("Squeeze", nil, v, s.ints(1))
	}
	w := pick(weights)
	loss := s.negated(s.times(pick(x), w))
	none := attrs(graph.IntAttr("keepdims", 0))
	switch r := s.n.Str("reduction", "mean"); r {
	case "none":
		return loss
	case "sum":
		return s.call("ReduceSum", none, loss)
	case "mean":
		return s.over(s.call("ReduceSum", none, loss), s.call("ReduceSum", none, w))
	default:
		fail(ErrAttribute, "reduction %q", r)
		return nil
	}
}

// normDefinitions are those of normalisations.
var normDefinitions = map[string]func(*step) []*graph.Value{
	"LayerNormalization": func(s *step) []*graph.Value {
		x := s.in(0)
		y, mean, inverse := s.standardised(x, series(axis(s.n, x, -1), rank(x)), s.float("epsilon", 1e-5))
		return []*graph.Value{s.scaleAndShift(y, s.in(1), s.in(2)), mean, inverse}
	},
	"RMSNormalization": func(s *step) []*graph.Value {
		x := s.in(0)
		power := s.reduce("ReduceMean", s.square(x), series(axis(s.n, x, -1), rank(x))...)
		return one(s.scaleAndShift(s.times(x, s.inverse(s.root(s.shifted(power, s.float("epsilon", 1e-5))))), s.in(1), nil))
	},
	"InstanceNormalization": func(s *step) []*graph.Value {
		x := s.in(0)
		y, _, _ := s.standardised(x, series(2, rank(x)), s.float("epsilon", 1e-5))
		return one(s.scaleAndShift(y, s.perChannel(s.in(1)), s.perChannel(s.in(2))))
	},
	"GroupNormalization": groupNorm,
	"BatchNormalization": batchNorm,
	"MeanVarianceNormalization": func(s *step) []*graph.Value {
		x, axes := s.in(0), []int{0, 2, 3}
		if list, ok := s.n.Ints("axes"); ok {
			var err error
			if axes, err = graph.NormAxes(list, rank(x)); err != nil {
				panic(fault{err})
			}
		}
		centred := s.minus(x, s.reduce("ReduceMean", x, axes...))
		return one(s.over(centred, s.shifted(s.root(s.reduce("ReduceMean", s.square(centred), axes...)), 1e-9)))
	},
	"LpNormalization": func(s *step) []*graph.Value {
		x, name := s.in(0), "ReduceL2"
		if s.n.Int("p", 2) == 1 {
			name = "ReduceL1"
		}
		return one(s.over(x, s.reduce(name, x, axis(s.n, x, -1))))
	},
}

// standardised returns x with mean 0 and variance 1 along axes, the mean, and one by the deviation.
func (b *builder) standardised(x *graph.Value, axes []int, epsilon float64) (y, mean, inverse *graph.Value) {
	mean = b.reduce("ReduceMean", x, axes...)
	centred := b.minus(x, mean)
	inverse = b.inverse(b.root(b.shifted(b.reduce("ReduceMean", b.square(centred), axes...), epsilon)))
	return b.times(centred, inverse), mean, inverse
}

// scaleAndShift returns x·scale + bias; nil is none.
func (b *builder) scaleAndShift(x, scale, bias *graph.Value) *graph.Value {
	if scale != nil {
		x = b.times(x, b.cast(scale, x))
	}
	if bias != nil {
		x = b.plus(x, b.cast(bias, x))
	}
	return x
}

// perChannel aligns a vector with the channels of the node's operand 0.
func (s *step) perChannel(v *graph.Value) *graph.Value {
	if rank(s.in(0)) <= 2 {
		return v
	}
	return s.call("Unsqueeze", nil, v, s.ints(wide(series(1, rank(s.in(0))-1))...))
}

func groupNorm(s *step) []*graph.Value {
	x, groups := s.in(0), s.n.Int("num_groups", 1)
	y := s.call("Reshape", nil, x, s.ints(0, groups, -1))
	y, _, _ = s.standardised(y, []int{2}, s.float("epsilon", 1e-5))
	scale, bias := s.in(1), s.in(2)
	if s.n.Schema.Since < 21 { // of groups
		vector := s.ints(1)
		each := func(v *graph.Value) *graph.Value { return s.call("Unsqueeze", nil, v, vector) }
		return one(s.reshape(s.scaleAndShift(y, each(scale), each(bias)), s.shape(x)))
	}
	return one(s.scaleAndShift(s.reshape(y, s.shape(x)), s.perChannel(scale), s.perChannel(bias)))
}

// batchNorm is by the mean and variance given, or in training by those of the batch.
func batchNorm(s *step) []*graph.Value {
	x, epsilon := s.in(0), s.float("epsilon", 1e-5)
	require(s.n.Schema.Since >= 7, ErrNoRule, "a version before 7")
	scale, bias := s.perChannel(s.in(1)), s.perChannel(s.in(2))
	if s.n.Int("training_mode", 0) != 0 {
		y, _, _ := s.standardised(x, append([]int{0}, series(2, rank(x))...), epsilon)
		return one(s.scaleAndShift(y, scale, bias))
	}
	mean, variance := s.perChannel(s.in(3)), s.perChannel(s.in(4))
	inverse := s.inverse(s.root(s.shifted(variance, epsilon)))
	return one(s.scaleAndShift(s.times(s.minus(x, mean), inverse), scale, bias))
}
