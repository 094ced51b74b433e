package graph

import "slices"

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
	follows := func(v *Value) bool { return v.Dims != nil && !v.IsConst() }
	out := n.Outputs[0]
	if slices.ContainsFunc(n.Inputs, follows) || out.Dims != nil {
		return movesNumbers(n)
	}
	result, ok := resultOf(n, shapes)
	return ok && out.Type.Shape.Known() && slices.EqualFunc(result, out.Type.Shape, Dim.Equal)
}

// movesNumbers reports whether the numbers of a node's result are those of its operands, in places that follow from constants alone.
func movesNumbers(n *Node) bool {
	if n.Is("Shape") {
		return len(n.Attrs) == 0 && slices.EqualFunc(n.Outputs[0].Dims, n.Inputs[0].Type.Shape, Dim.Equal)
	}
	if !n.Is("Gather", "Concat", "Squeeze", "Unsqueeze", "Identity") {
		return false
	}
	for i, v := range n.Inputs {
		if hasSymbol(v.Type.Shape) || i > 0 && !n.Is("Concat") && !v.IsConst() {
			return false
		}
	}
	return !hasSymbol(n.Outputs[0].Type.Shape)
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
	case name == "Unsqueeze" && (len(n.Inputs) == 1 || n.Inputs[1].IsConst()):
		out := n.Outputs[0].Type.Shape // ones are put in between
		more := func(d Dim) bool { return !d.Is(1) }
		return out, slices.EqualFunc(only(shapes[0], more), only(out, more), Dim.Equal)
	}
	return nil, false
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
