package cpu

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Reductions whose axes a run finds, as many as there are then. What a run finds is planned as if the model said it, and the plan is kept.

// maxReductions is how many plans of such a reduction a session keeps.
const maxReductions = 4

// lateReduction is a plan for axes of operands of a shape, and what it is run with.
type lateReduction struct {
	axes   []int64
	shape  []int
	result []int // its shape
	in     *instance
	args   backend.RunArgs
	bytes  int // of its buffers
}

// reduces reports whether an operator is a reduction.
func reduces(name string) bool {
	_, ok := reductions[name]
	return ok || name == "ReduceProd"
}

// findsAxes reports whether a node is a reduction of whose axes nothing is known before the run, their number included.
func findsAxes(n *graph.Node) bool {
	v := n.Input(1)
	return v != nil && v.Dims == nil && !v.IsConst() && n.Op.Domain == "" && reduces(n.Op.Name)
}

// reduceRun is a reduction by axes that the run finds.
func reduceRun(c *choice) error {
	x, axes := c.x[0], c.x[1]
	if axes.Len() > len(x.Shape) { // the run is done again by package reference, which says what is wrong
		return property.Because(property.ShapeReason, "%d axes of %v", axes.Len(), x.Shape)
	}
	c.axes = slices.Grow(c.axes[:0], axes.Len())[:axes.Len()]
	if err := tensor.DecodeInts(c.axes, axes); err != nil {
		return err
	}
	at := slices.IndexFunc(c.reductions, func(r *lateReduction) bool { return slices.Equal(r.axes, c.axes) && slices.Equal(r.shape, x.Shape) })
	if at < 0 {
		r, err := c.planReduction(x)
		if err != nil {
			return err
		}
		if len(c.reductions) == maxReductions {
			c.reductions = slices.Delete(c.reductions, 0, 1)
		}
		at, c.reductions = len(c.reductions), append(c.reductions, r)
	}
	r := c.reductions[at]
	y, err := c.allocate(0, x.DType, r.result)
	if err != nil || y == nil {
		return err
	}
	if err := c.lend(r); err != nil {
		return err
	}
	r.args.Inputs, r.args.Outputs, r.args.Workers = append(r.args.Inputs[:0], x), append(r.args.Outputs[:0], y), c.args.Workers
	_, err = r.in.Enqueue(c.ctx, &r.args)
	clear(r.args.Inputs)
	clear(r.args.Outputs)
	for _, b := range r.args.Buffers {
		b.Data = nil
	}
	r.args.Workers = nil
	return err
}

// planReduction plans the reduction of x by the axes that were found.
func (c *choice) planReduction(x *tensor.Tensor) (*lateReduction, error) {
	n := c.in.n
	list := make([]int, len(c.axes))
	for i, a := range c.axes {
		list[i] = int(a)
	}
	axes, ok := reducedAxes(n, list)
	if len(list) > 0 && (!ok || len(axes) != len(list)) {
		return nil, property.Because(property.Attribute, "axes %v of %v", list, n)
	}
	r := &lateReduction{axes: slices.Clone(c.axes), shape: slices.Clone(x.Shape), result: []int{}}
	for a, d := range x.Shape {
		switch {
		case !slices.Contains(axes, a):
			r.result = append(r.result, d)
		case n.Int("keepdims", 1) != 0:
			r.result = append(r.result, 1)
		}
	}
	shape := x.Shape
	if len(axes) == 0 { // every element is reduced by itself
		shape, axes = []int{x.Len(), 1}, []int{1}
	}
	constant := make([]int64, len(axes))
	for i, a := range axes {
		constant[i] = int64(a)
	}
	r.args.Constants = []*tensor.Tensor{tensor.From(constant, len(constant))}
	in, err := c.in.e.reductionOf(c.ctx, n, graph.TensorType(x.DType, graph.ShapeOf(shape...)), r.args.Constants[0])
	if err != nil {
		return nil, err
	}
	r.in = in
	for _, b := range in.reqs.Buffers {
		r.args.Buffers = append(r.args.Buffers, &tensor.Tensor{DType: tensor.Uint8, Shape: []int{int(b.Bytes)}, Offset: r.bytes})
		r.bytes += (int(b.Bytes) + tensor.Alignment - 1) / tensor.Alignment * tensor.Alignment
	}
	return r, nil
}

// lend gives a plan its buffers of the session's scratch memory.
func (c *choice) lend(r *lateReduction) error {
	if err := c.reserve(r.bytes); err != nil {
		return err
	}
	if c.room == nil || len(c.room.Data) < r.bytes {
		room, err := tensor.New(tensor.Uint8, r.bytes)
		if err != nil {
			return err
		}
		c.room = room
	}
	for _, b := range r.args.Buffers {
		b.Data = c.room.Data
	}
	return nil
}

// reductionOf plans the reduction that a node says for an operand of another type, by axes that are constant.
func (e *executable) reductionOf(ctx context.Context, n *graph.Node, operand graph.Type, axes *tensor.Tensor) (*instance, error) {
	g := graph.New(n.Name)
	g.Opsets[""] = n.Op.Since
	m := g.AddNode(graph.NodeSpec{Op: n.Op, Name: n.Name, Attrs: n.Attrs, Origins: n.Provenance(), Outputs: []string{n.Outputs[0].Name},
		Inputs: []*graph.Value{g.AddInput(n.Inputs[0].Name, operand), g.AddConst(n.Inputs[1].Name, axes)}})
	g.SetOutputs(m.Outputs...)
	if err := graph.InferGraph(g); err != nil {
		return nil, err
	}
	inner, err := cpu{target: e.target, pairs: e.pairs}.compile(g, backend.CompileOptions{Threads: e.threads})
	if err != nil {
		return nil, err
	}
	_, in, err := inner.specialize(ctx, nil)
	return in, err
}
