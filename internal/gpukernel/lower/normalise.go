package lower

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// literalInt is the literal of an int32.
func literalInt(n int) string { return "(" + strconv.Itoa(n) + ")" }

// standard returns x with mean 0 and deviation 1 along axes.
func (l *lowering) standard(x gpukernel.Value, axes []int, epsilon float32) gpukernel.Value {
	t := l.p.Type(x)
	centred := l.p.Scalar(t, "$0 - $1", x, l.mean(x, axes))
	variance := l.mean(l.p.Scalar(t, "$0 * $0", centred), axes)
	inverse := l.p.Scalar(t, "1.0f / sqrt_f32($0 + $1)", variance, l.p.Float(t, epsilon))
	return l.p.Scalar(t, "$0 * $1", centred, inverse)
}

// floats returns the first operand, which has to be of floats and of some rank.
func (l *lowering) floats(n *graph.Node, rank int) (gpukernel.Value, error) {
	x, err := l.operand(n, 0)
	if err != nil {
		return 0, err
	}
	if !isFloat(l.p.Type(x)) || len(l.p.Shape(x)) < rank {
		return 0, refuse("operand of type %s and rank %d", l.p.Type(x), len(l.p.Shape(x)))
	}
	return x, nil
}

// singles is floats for what is computed in float32.
func (l *lowering) singles(n *graph.Node, rank int) (gpukernel.Value, error) {
	x, err := l.floats(n, rank)
	if err == nil && l.p.Type(x) == gpukernel.F64 {
		return 0, refuse("operands of type %s", gpukernel.F64)
	}
	return x, err
}

// perChannel returns scale or shift i, [C], so that it broadcasts over rank dims, channels being the second.
func (l *lowering) perChannel(n *graph.Node, i, channels, rank int) (gpukernel.Value, error) {
	w, err := l.operand(n, i)
	if err != nil {
		return 0, err
	}
	if elements(l.p.Shape(w)) != channels {
		return 0, refuse("%v for %d channels", l.p.Shape(w), channels)
	}
	return l.p.Reshape(w, append([]int{channels}, slices.Repeat([]int{1}, rank-2)...)...), nil
}

func (l *lowering) instanceNorm(n *graph.Node) error {
	x, err := l.floats(n, 3)
	if err != nil {
		return err
	}
	shape, t := l.p.Shape(x), l.p.Type(x)
	y := l.standard(x, from(2, len(shape)), n.Float("epsilon", 1e-5))
	for i, f := range []string{"$0 * $1", "$0 + $1"} {
		w, err := l.perChannel(n, i+1, shape[1], len(shape))
		if err != nil {
			return err
		}
		y = l.p.Scalar(t, f, y, w)
	}
	return l.result(n, 0, y)
}

// groupNorm has scale and bias by group before version 21, by channel since.
func (l *lowering) groupNorm(n *graph.Node) error {
	x, err := l.floats(n, 2)
	if err != nil {
		return err
	}
	shape, t := l.p.Shape(x), l.p.Type(x)
	groups := int(max(min(n.Int("num_groups", 0), 1<<20), 0))
	if groups < 1 || shape[1]%groups != 0 {
		return refuse("%d groups of %d channels", groups, shape[1])
	}
	parted := slices.Concat([]int{shape[0], groups, shape[1] / groups}, shape[2:])
	y := l.standard(l.p.Reshape(x, parted...), from(2, len(parted)), n.Float("epsilon", 1e-5))
	per, over := groups, len(parted)
	if n.Op.Since >= 21 {
		y, per, over = l.p.Reshape(y, shape...), shape[1], len(shape)
	}
	for i, f := range []string{"$0 * $1", "$0 + $1"} {
		w, err := l.perChannel(n, i+1, per, over)
		if err != nil {
			return err
		}
		y = l.p.Scalar(t, f, y, w)
	}
	return l.result(n, 0, y)
}

func (l *lowering) rmsNorm(n *graph.Node) error {
	x, err := l.floats(n, 1)
	if err != nil {
		return err
	}
	w, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	t, rank := l.p.Type(x), len(l.p.Shape(x))
	axis, err := graph.NormAxis(n.Int("axis", -1), rank)
	if err != nil {
		return refuse("%v", err)
	}
	square := l.mean(l.p.Scalar(t, "$0 * $0", x), from(axis, rank))
	inverse := l.p.Scalar(t, "1.0f / sqrt_f32($0 + $1)", square, l.p.Float(t, n.Float("epsilon", 1e-5)))
	return l.result(n, 0, l.p.Scalar(l.p.Type(w), "$0 * $1 * $2", x, inverse, w))
}

func (l *lowering) meanVariance(n *graph.Node) error {
	x, err := l.floats(n, 1)
	if err != nil {
		return err
	}
	list, ok := n.Ints("axes")
	if !ok {
		list = []int64{0, 2, 3}
	}
	axes, err := graph.NormAxes(list, len(l.p.Shape(x)))
	if err != nil {
		return refuse("%v", err)
	}
	t := l.p.Type(x)
	centred := l.p.Scalar(t, "$0 - $1", x, l.mean(x, axes))
	variance := l.mean(l.p.Scalar(t, "$0 * $0", centred), axes)
	return l.result(n, 0, l.p.Scalar(t, "$0 / (sqrt_f32($1) + 1e-9f)", centred, variance))
}

// lpNorm divides rows by their norm; those of norm 0 stay 0.
func (l *lowering) lpNorm(n *graph.Node) error {
	x, err := l.floats(n, 1)
	if err != nil {
		return err
	}
	axis, err := graph.NormAxis(n.Int("axis", -1), len(l.p.Shape(x)))
	p := n.Int("p", 2)
	if err != nil || p != 1 && p != 2 {
		return refuse("axis %d and p %d", n.Int("axis", -1), p)
	}
	t := l.p.Type(x)
	before, after := "fabs_f32($0)", "$0"
	if p == 2 {
		before, after = "$0 * $0", "sqrt_f32($0)"
	}
	norm := l.p.Scalar(t, after, l.p.Reduce(gpukernel.ReduceSum, l.p.Scalar(t, before, x), axis))
	return l.result(n, 0, l.p.Scalar(t, "($1 == 0.0f ? 0.0f : $0 / $1)", x, norm))
}

// lrn divides by what the squares of the channels around add up to.
func (l *lowering) lrn(n *graph.Node) error {
	x, err := l.floats(n, 2)
	if err != nil {
		return err
	}
	size := int(max(min(n.Int("size", 0), windowMost+1), 0))
	if size < 1 || size > windowMost {
		return refuse("a window of %d channels", n.Int("size", 0))
	}
	t, shape := l.p.Type(x), l.p.Shape(x)
	before, after := make([]int, len(shape)), make([]int, len(shape))
	starts, steps := make([]int, len(shape)), slices.Repeat([]int{1}, len(shape))
	before[1], after[1] = (size-1)/2, size/2
	wide := x
	if size > 1 {
		wide = l.p.Pad(x, l.p.Float(t, 0), before, after)
	}
	var sum gpukernel.Value
	for k := range size {
		starts[1] = k
		s := l.p.Slice(wide, shape, starts, steps)
		if s = l.p.Scalar(t, "$0 * $0", s); k == 0 {
			sum = s
		} else {
			sum = l.p.Scalar(t, "$0 + $1", sum, s)
		}
	}
	scale := gpukernel.FloatLiteral(n.Float("alpha", 1e-4) / float32(size))
	return l.result(n, 0, l.p.Scalar(t, fmt.Sprintf("$0 / pow_f32(%s + %s * $1, %s)", gpukernel.FloatLiteral(n.Float("bias", 1)), scale,
		gpukernel.FloatLiteral(n.Float("beta", 0.75))), x, sum))
}

// logSumExp is computed relative to the largest element, unless that is infinite.
func (l *lowering) logSumExp(n *graph.Node) error {
	x, err := l.floats(n, 0)
	if err != nil {
		return err
	}
	axes, err := l.reduceAxes(n, x)
	if err != nil {
		return err
	}
	t := l.p.Type(x)
	most := l.p.Reduce(gpukernel.ReduceMax, x, axes...)
	base := l.p.Scalar(t, "($0 - $0 == 0.0f ? $0 : 0.0f)", most)
	sum := l.p.Reduce(gpukernel.ReduceSum, l.p.Scalar(t, "exp_f32($0 - $1)", x, base), axes...)
	return l.result(n, 0, l.p.Scalar(t, "($2 - $2 == 0.0f ? $0 + log_f32($1) : $2)", base, sum, most))
}
