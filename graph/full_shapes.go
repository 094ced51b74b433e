package graph

import (
	"math"
	"slices"
)

// holdsWhenFull reports whether inference has nothing to say of a node in any run in which all dims of its operands and results, and the
// numbers among its operands that are no constants, are positive: what is inferred for them are then the dims for open symbols. A 0
// in a target of Reshape is a copy of another dim, and an axis of -1 has no length where the others have none.
func holdsWhenFull(n *Node) bool {
	if n.Op.Domain != "" || len(n.Outputs) != 1 || n.Outputs[0] == nil || n.Outputs[0].Dims != nil || !n.Outputs[0].Type.Shape.Known() {
		return false
	}
	for _, v := range n.Inputs {
		if v == nil || !v.Type.Shape.Known() {
			return false
		}
	}
	out := n.Outputs[0].Type.Shape
	switch {
	case n.Is("Reshape") && len(n.Inputs) == 2:
		return reshapesWhenFull(n.Inputs[0].Type.Shape, n.Inputs[1].Dims, out)
	case n.Is("Expand"):
		result, ok := meet(n.Inputs[0].Type.Shape, n.Inputs[1].Dims)
		return ok && n.Inputs[1].Dims != nil && slices.EqualFunc(result, out, Dim.Equal)
	case n.Is("ConstantOfShape"):
		return slices.EqualFunc(n.Inputs[0].Dims, out, Dim.Equal)
	case n.Is("Range"):
		start, limit, delta := n.Inputs[0].Dims, n.Inputs[1].Dims, n.Inputs[2].Dims
		return len(start) == 1 && len(limit) == 1 && len(delta) == 1 && delta[0].Is(1) && len(out) == 1 && limit[0].Sub(start[0]).Equal(out[0])
	case n.Is("Slice") && len(n.Inputs) == 5:
		return keepsWhenFull(n, out)
	case n.Is("Flatten"):
		return flattensWhenFull(n.Inputs[0].Type.Shape, int(n.Int("axis", 1)), out)
	}
	return false
}

// reshapesWhenFull reports whether target leads from in to out.
func reshapesWhenFull(in Shape, target []Dim, out Shape) bool {
	open := 0
	for k, d := range target {
		switch {
		case len(target) != len(out):
			return false
		case d.Is(-1):
			open++
		case !d.Equal(out[k]) || d.Is(0):
			return false
		}
	}
	return open < 2 && target != nil && productOf(in).Equal(productOf(out))
}

func productOf(s []Dim) Dim {
	out := D(1)
	for _, d := range s {
		out = out.Mul(d)
	}
	return out
}

// keepsWhenFull reports whether a Slice, all of whose operands are there, takes all of the axes that it names.
func keepsWhenFull(n *Node, out Shape) bool {
	in := n.Inputs[0].Type.Shape
	starts, ends, axes, steps := n.Inputs[1].Dims, n.Inputs[2].Dims, n.Inputs[3].Dims, n.Inputs[4].Dims
	if len(starts) != len(axes) || len(ends) != len(axes) || len(steps) != len(axes) {
		return false
	}
	for i, d := range axes {
		a, ok := d.Const()
		axis, err := NormAxis(a, len(in))
		last, isConst := ends[i].Const()
		if !ok || err != nil || !starts[i].Is(0) || !steps[i].Is(1) || !ends[i].Equal(in[axis]) && !(isConst && last >= math.MaxInt32) {
			return false
		}
	}
	return slices.EqualFunc(in, out, Dim.Equal)
}

func flattensWhenFull(in Shape, axis int, out Shape) bool {
	if axis < 0 {
		axis += len(in)
	}
	return axis >= 0 && axis <= len(in) && len(out) == 2 && productOf(in[:axis]).Equal(out[0]) && productOf(in[axis:]).Equal(out[1])
}

// isFull reports whether the dims of values, and the numbers of theirs that are no constants, are positive, and none beyond what models write
// for the end of an axis.
func (c *ShapeChecks) isFull(ports []int32, b Bindings) bool {
	for _, at := range ports {
		if at < 0 {
			continue
		}
		for _, d := range c.values[at].typ.Shape {
			if n, err := d.Eval(b); err != nil || n < 1 || n > math.MaxInt32 {
				return false
			}
		}
		for _, d := range c.values[at].dims {
			if d.e == nil {
				continue
			}
			if n, err := d.Eval(b); err != nil || n < 1 || n > math.MaxInt32 {
				return false
			}
		}
	}
	return true
}
