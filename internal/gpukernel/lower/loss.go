package lower

import (
	"slices"
	"strconv"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// crossEntropy is a likelihood loss of the logarithm of a Softmax over classes, which is the second result.
func (l *lowering) crossEntropy(n *graph.Node) error {
	x, err := l.floats(n, 2)
	if err != nil {
		return err
	}
	t := l.p.Type(x)
	shifted := l.p.Scalar(t, "$0 - $1", x, l.p.Reduce(gpukernel.ReduceMax, x, 1))
	sum := l.p.Reduce(gpukernel.ReduceSum, l.p.Scalar(t, "exp_f32($0)", shifted), 1)
	x = l.p.Scalar(t, "$0 - log_f32($1)", shifted, sum)
	if len(n.Outputs) > 1 && n.Outputs[1] != nil {
		if err := l.result(n, 1, x); err != nil {
			return err
		}
	}
	return l.loss(n, x)
}

func (l *lowering) likelihoodLoss(n *graph.Node) error {
	x, err := l.floats(n, 2)
	if err != nil {
		return err
	}
	return l.loss(n, x)
}

// loss picks what x [N, C, ...] says of the target classes [N, ...], weighted by class, and adds it up.
func (l *lowering) loss(n *graph.Node, x gpukernel.Value) error {
	target, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	t, shape, in := l.p.Type(x), l.p.Shape(target), l.p.Shape(x)
	if !slices.Equal(shape, slices.Concat(in[:1], in[2:])) {
		return refuse("targets %v of %v", shape, in)
	}
	along := make([]gpukernel.Along, len(in))
	for i := range along {
		along[i] = gpukernel.Along{Axis: max(i-1, 0), Index: gpukernel.NoValue}
	}
	along[1] = gpukernel.Along{Index: target}
	picked := l.p.Pick(x, shape, along...)
	weight := l.p.Expand(l.p.Float(t, 1), shape...)
	if n.Input(2) != nil {
		w, err := l.operand(n, 2)
		if err != nil {
			return err
		}
		if len(l.p.Shape(w)) != 1 {
			return refuse("weights %v", l.p.Shape(w))
		}
		weight = l.p.Pick(w, shape, gpukernel.Along{Index: target})
	}
	if a := n.Attrs.Lookup("ignore_index"); a != nil {
		if a.Int < -1<<31 || a.Int >= 1<<31 {
			return refuse("ignore_index %d", a.Int)
		}
		weight = l.p.Scalar(t, "($1 == "+strconv.FormatInt(a.Int, 10)+" ? 0.0f : $0)", weight, target)
	}
	loss := l.p.Scalar(t, "($1 == 0.0f ? 0.0f : 0.0f - $0 * $1)", picked, weight)
	mode := n.Str("reduction", "mean")
	if mode == "none" {
		return l.result(n, 0, loss)
	}
	all := from(0, len(shape))
	sum := l.p.Reduce(gpukernel.ReduceSum, loss, all...)
	switch mode {
	case "sum":
		return l.result(n, 0, sum)
	case "mean":
		return l.result(n, 0, l.p.Scalar(t, "$0 / $1", sum, l.p.Reduce(gpukernel.ReduceSum, weight, all...)))
	}
	return refuse("reduction %q", mode)
}
