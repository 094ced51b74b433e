package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// holdsAlways reports whether what inference has found out about a node for open dims is right for all values of symbols: the operator moves
// dims, or numbers that are dims, to where constants say, or is an element-wise one or a product, where dims that meet are the same as they are
// written, or 1; and the dims of its result are those.
func holdsAlways(n *Node) bool {
	if n.Op.Domain != "" || len(n.Outputs) == 0 || n.Outputs[0] == nil || n.Attrs.Lookup("broadcast") != nil {
		return false
	}
	shapes := make([]Shape, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil || !v.Type.Shape.Known() {
			return false
		}
		shapes[i] = v.Type.Shape
	}
	out := n.Outputs[0]
	if out.Dims != nil {
		return movesNumbers(n) || addsNumbers(n)
	}
	if slices.ContainsFunc(n.Inputs, func(v *Value) bool { return !fixed(v) && v.Dims != nil }) && !n.Is("Equal", "Where", "Add", "Sub", "Mul") {
		return false
	}
	result, ok := resultOf(n, shapes)
	return ok && out.Type.Shape.Known() && slices.EqualFunc(result, out.Type.Shape, Dim.Equal)
}

// fixed reports whether the numbers of a value are known, and the same in every run.
func fixed(v *Value) bool { return constOf(v) != nil || v.Dims != nil && !hasSymbol(v.Dims) }

// movesNumbers reports whether the numbers of a node's result are those of its operands, in places that follow from constants alone.
func movesNumbers(n *Node) bool {
	if n.Is("Shape") {
		return len(n.Attrs) == 0 && slices.EqualFunc(n.Outputs[0].Dims, n.Inputs[0].Type.Shape, Dim.Equal)
	}
	if !n.Is("Gather", "Concat", "Squeeze", "Unsqueeze", "Identity", "Slice", "Reshape") {
		return false
	}
	for i, v := range n.Inputs {
		if hasSymbol(v.Type.Shape) || i > 0 && !n.Is("Concat") && !fixed(v) {
			return false
		}
	}
	return !hasSymbol(n.Outputs[0].Type.Shape)
}

// addsNumbers reports whether a node computes the numbers of its result, which are as many in every run, from those of its operands as the dims
// say that it has.
func addsNumbers(n *Node) bool {
	of := func(k int) func(i int) Dim {
		return func(i int) Dim { return n.Inputs[k].Dims[min(i, len(n.Inputs[k].Dims)-1)] }
	}
	for _, v := range n.Inputs {
		if len(v.Dims) == 0 || hasSymbol(v.Type.Shape) || v.Type.DType != tensor.Int64 {
			return false
		}
	}
	var result func(i int) Dim
	switch {
	case n.Is("Cast"):
		result = of(0)
	case n.Is("Add"):
		result = func(i int) Dim { return of(0)(i).Add(of(1)(i)) }
	case n.Is("Sub"):
		result = func(i int) Dim { return of(0)(i).Sub(of(1)(i)) }
	case n.Is("Mul"):
		result = func(i int) Dim { return of(0)(i).Mul(of(1)(i)) }
	default:
		return false
	}
	out := n.Outputs[0]
	for i, d := range out.Dims {
		for _, v := range n.Inputs {
			if len(v.Dims) != 1 && len(v.Dims) != len(out.Dims) {
				return false
			}
		}
		if !result(i).Equal(d) {
			return false
		}
	}
	return out.Type.DType == tensor.Int64 && !hasSymbol(out.Type.Shape)
}

// resultOf returns the dims of a node's first result, where the operator is one that holdsAlways knows.
func resultOf(n *Node, shapes []Shape) (Shape, bool) {
	scalars := func(s []Shape) bool { return !slices.ContainsFunc(s, func(s Shape) bool { return len(s) > 0 }) }
	switch name := n.Op.Name; {
	case name == "DynamicQuantizeLinear":
		return shapes[0], true
	case len(n.Outputs) != 1:
		return nil, false
	case keepsShape(name), name == "Cast", name == "Relu", name == "Softmax":
		return shapes[0], true
	case name == "QuantizeLinear", name == "DequantizeLinear":
		return shapes[0], scalars(shapes[1:])
	case broadcasts(name), name == "Where":
		return meet(shapes...)
	case name == "MatMul":
		return meetProduct(shapes[0], shapes[1])
	case name == "MatMulInteger":
		result, ok := meetProduct(shapes[0], shapes[1])
		return result, ok && scalars(shapes[2:])
	case name == "Gather":
		axis := int(n.Int("axis", 0))
		if axis < 0 {
			axis += len(shapes[0])
		}
		if axis < 0 || axis >= len(shapes[0]) {
			return nil, false
		}
		return slices.Concat(shapes[0][:axis], shapes[1], shapes[0][axis+1:]), true
	case name == "Transpose":
		return permuted(n, shapes[0])
	case name == "Concat":
		return joined(n, shapes)
	case (name == "CumSum" || name == "Trilu") && len(shapes) == 2:
		return shapes[0], len(shapes[1]) == 0 && fixed(n.Inputs[1])
	case name == "Unsqueeze" && (len(n.Inputs) == 1 || fixed(n.Inputs[1])):
		out := n.Outputs[0].Type.Shape // ones are put in between
		more := func(d Dim) bool { return !d.Is(1) }
		return out, slices.EqualFunc(only(shapes[0], more), only(out, more), Dim.Equal)
	}
	return nil, false
}

// joined returns the dims of a Concat of operands that agree on all other axes.
func joined(n *Node, shapes []Shape) (Shape, bool) {
	rank := len(shapes[0])
	axis, err := NormAxis(n.Int("axis", int64(rank)), rank)
	if err != nil {
		return nil, false
	}
	out := slices.Clone(shapes[0])
	for _, s := range shapes[1:] {
		if len(s) != rank {
			return nil, false
		}
		for k, d := range s {
			switch {
			case k == axis:
				out[k] = out[k].Add(d)
			case !d.Equal(out[k]):
				return nil, false
			}
		}
	}
	return out, true
}

// permuted returns the dims of a Transpose.
func permuted(n *Node, s Shape) (Shape, bool) {
	perm, given := n.Ints("perm")
	out := make(Shape, len(s))
	if given && len(perm) != len(s) {
		return nil, false
	}
	for k := range out {
		at := int64(len(s) - 1 - k)
		if given {
			at = perm[k]
		}
		if at < 0 || at >= int64(len(s)) {
			return nil, false
		}
		out[k] = s[at]
	}
	return out, true
}

// only returns the dims of which f is true.
func only(s Shape, f func(Dim) bool) Shape {
	return slices.DeleteFunc(slices.Clone(s), func(d Dim) bool { return !f(d) })
}

// meet returns the shape that shapes broadcast to, where all dims of an axis are equal or 1.
func meet(shapes ...Shape) (Shape, bool) {
	var out Shape
	for _, s := range shapes {
		if d := len(s) - len(out); d > 0 {
			out = append(slices.Repeat(Shape{D(1)}, d), out...)
		}
		for k, d := range s {
			at := &out[len(out)-len(s)+k]
			switch {
			case at.Is(1):
				*at = d
			case !d.Is(1) && !d.Equal(*at):
				return nil, false
			}
		}
	}
	return out, true
}

// meetProduct is meet of a product of matrices.
func meetProduct(a, b Shape) (Shape, bool) {
	if len(a) < 2 || len(b) < 2 || !a[len(a)-1].Equal(b[len(b)-2]) {
		return nil, false
	}
	out, ok := meet(a[:len(a)-2], b[:len(b)-2])
	return append(out, a[len(a)-2], b[len(b)-1]), ok
}
