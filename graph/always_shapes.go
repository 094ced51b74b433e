package graph

import "slices"

// holdsAlways reports whether what inference has found out about a node for open dims is right for all values of symbols: it is an
// element-wise operator or a product, where dims that meet are the same as they are written, or 1, and so are those of its result.
func holdsAlways(n *Node) bool {
	follows := func(v *Value) bool { return v != nil && v.Dims != nil }
	if n.Op.Domain != "" || len(n.Outputs) != 1 || n.Outputs[0] == nil || n.Attrs.Lookup("broadcast") != nil ||
		slices.ContainsFunc(n.Inputs, follows) || follows(n.Outputs[0]) {
		return false
	}
	shapes := make([]Shape, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil || !v.Type.Shape.Known() {
			return false
		}
		shapes[i] = v.Type.Shape
	}
	result, ok := Shape{}, false
	switch name := n.Op.Name; {
	case keepsShape(name), name == "Cast", name == "Relu":
		result, ok = shapes[0], true
	case broadcasts(name), name == "Where":
		result, ok = meet(shapes...)
	case name == "MatMul":
		result, ok = meetProduct(shapes[0], shapes[1])
	}
	return ok && n.Outputs[0].Type.Shape.Known() && slices.EqualFunc(result, n.Outputs[0].Type.Shape, Dim.Equal)
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
