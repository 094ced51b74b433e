package lower

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// reduction is a Reduce operator: what is done to elements before they are combined and to the result, $1 being the number of
// elements.
type reduction struct {
	before  string
	op      gpukernel.ReduceOp
	after   string
	integer bool // defined for integers in the same way
}

func reductions() map[string]reduction {
	return map[string]reduction{
		"ReduceSum": {"", gpukernel.ReduceSum, "", true}, "ReduceProd": {"", gpukernel.ReduceProd, "", true},
		"ReduceMax": {"", gpukernel.ReduceMax, "", true}, "ReduceMin": {"", gpukernel.ReduceMin, "", true},
		"ReduceMean": {"", gpukernel.ReduceSum, "$0 / $1", false}, "ReduceL1": {"fabs_f32($0)", gpukernel.ReduceSum, "", false},
		"ReduceL2":        {"$0 * $0", gpukernel.ReduceSum, "sqrt_f32($0)", false},
		"ReduceSumSquare": {"$0 * $0", gpukernel.ReduceSum, "", false},
		"ReduceLogSum":    {"", gpukernel.ReduceSum, "log_f32($0)", false},
	}
}

func (l *lowering) reduction(n *graph.Node) error {
	r := reductions()[n.Op.Name]
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	axes, err := l.reduceAxes(n, x)
	if err != nil {
		return err
	}
	t := l.p.Type(x)
	if !isFloat(t) && !r.integer {
		return refuse("operands of type %s", t)
	}
	if r.before != "" {
		x = l.p.Scalar(t, r.before, x)
	}
	count := 1
	for _, a := range axes {
		count *= l.p.Shape(x)[a]
	}
	x = l.p.Reduce(r.op, x, axes...)
	if r.after != "" {
		x = l.p.Scalar(t, r.after, x, l.p.Float(t, float32(count)))
	}
	return l.result(n, 0, x)
}

// reduceAxes returns the axes that a Reduce operator reduces.
func (l *lowering) reduceAxes(n *graph.Node, x gpukernel.Value) ([]int, error) {
	list, given, err := integers(n, 1)
	if err != nil {
		return nil, err
	}
	if given && list == nil {
		list = []int64{}
	}
	axes, err := graph.ReduceAxes(n, list, len(l.p.Shape(x)))
	if err != nil {
		return nil, refuse("%v", err)
	}
	return axes, nil
}

// mean returns the mean along axes, which stay.
func (l *lowering) mean(x gpukernel.Value, axes []int) gpukernel.Value {
	count := 1
	for _, a := range axes {
		count *= l.p.Shape(x)[a]
	}
	t := l.p.Type(x)
	return l.p.Scalar(t, "$0 / $1", l.p.Reduce(gpukernel.ReduceSum, x, axes...), l.p.Float(t, float32(count)))
}

// from returns the axes from first to the last.
func from(first, rank int) []int {
	var axes []int
	for a := first; a < rank; a++ {
		axes = append(axes, a)
	}
	return axes
}

func (l *lowering) softmax(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	rank := len(l.p.Shape(x))
	// Before version 13, the operator flattens its operand, from the axis on.
	old := n.Op.Since < 13
	def := int64(-1)
	if old {
		def = 1
	}
	if rank == 0 || old && rank == 1 {
		return refuse("rank %d", rank)
	}
	axis, err := graph.NormAxis(n.Int("axis", def), rank)
	if err != nil {
		return refuse("%v", err)
	}
	axes := []int{axis}
	if old {
		axes = from(axis, rank)
	}
	t := l.p.Type(x)
	shifted := l.p.Scalar(t, "$0 - $1", x, l.p.Reduce(gpukernel.ReduceMax, x, axes...))
	e := l.p.Scalar(t, "exp_f32($0)", shifted)
	sum := l.p.Reduce(gpukernel.ReduceSum, e, axes...)
	if n.Op.Name == "LogSoftmax" {
		return l.result(n, 0, l.p.Scalar(t, "$0 - $1", shifted, l.p.Scalar(t, "log_f32($0)", sum)))
	}
	return l.result(n, 0, l.p.Scalar(t, "$0 * $1", e, l.p.Scalar(t, "1.0f / $0", sum)))
}

func (l *lowering) layerNorm(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	t, rank := l.p.Type(x), len(l.p.Shape(x))
	axis, err := graph.NormAxis(n.Int("axis", -1), rank)
	if err != nil {
		return refuse("%v", err)
	}
	axes := from(axis, rank)
	mean := l.mean(x, axes)
	centred := l.p.Scalar(t, "$0 - $1", x, mean)
	variance := l.mean(l.p.Scalar(t, "$0 * $0", centred), axes)
	inverse := l.p.Scalar(t, "1.0f / sqrt_f32($0 + $1)", variance, l.p.Float(t, n.Float("epsilon", 1e-5)))
	y := l.p.Scalar(t, "$0 * $1", centred, inverse)
	for i, f := range []string{"$0 * $1", "$0 + $1"} {
		if n.Input(i+1) == nil {
			continue
		}
		w, err := l.operand(n, i+1)
		if err != nil {
			return err
		}
		y = l.p.Scalar(t, f, y, w)
	}
	for i, v := range []gpukernel.Value{y, mean, inverse} {
		if i < len(n.Outputs) && n.Outputs[i] != nil {
			if err := l.result(n, i, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lowering) batchNorm(n *graph.Node) error {
	if err := only(n); err != nil {
		return err
	}
	if n.Int("training_mode", 0) != 0 {
		return refuse("training")
	}
	var in [5]gpukernel.Value
	for i := range in {
		var err error
		if in[i], err = l.operand(n, i); err != nil {
			return err
		}
	}
	t, shape := l.p.Type(in[0]), l.p.Shape(in[0])
	if len(shape) < 2 {
		return refuse("rank %d", len(shape))
	}
	for i := 1; i < 5; i++ {
		per := []int{shape[1]}
		for range shape[2:] {
			per = append(per, 1)
		}
		in[i] = l.p.Reshape(in[i], per...)
	}
	inverse := fmt.Sprintf("$1 / sqrt_f32($4 + %s)", gpukernel.FloatLiteral(n.Float("epsilon", 1e-5)))
	return l.result(n, 0, l.p.Scalar(t, "($0 - $3) * ("+inverse+") + $2", in[:]...))
}
